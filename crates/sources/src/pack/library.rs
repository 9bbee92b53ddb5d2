//! Packs installed in the data directory: archives, and a lock file that lists them.
//!
//! Invariant: the lock file and the archives are replaced atomically, under a lock, so that readers
//! never see an incomplete pack.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use toolcrib_core::{
    source::pack::{PackGrant, PackLocation, PackSpec, PackVerification},
    text::io_reason,
};

use super::{
    error::{PackCode, PackError},
    files::{self, Files},
    load::{Pack, PackFiles, patterns},
    manifest::{MANIFEST, Manifest},
    verify,
};

/// The lock file, in the format of OpenWOP.
const LOCK: &str = "pack-lock.json";
/// Largest size of a lock file, in bytes.
const MAX_LOCK: usize = 4 << 20;

/// The installed packs, and those bundled with the program.
#[derive(Debug, Clone)]
pub struct Library {
    dir: PathBuf,
    bundled: &'static [BundledPack],
}

/// A pack embedded in the program.
#[derive(Debug)]
pub struct BundledPack {
    /// Its files by their paths.
    pub files: &'static [(&'static str, &'static [u8])],
}

/// One installed pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledPack {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The location it was installed from, as given by the operator.
    #[serde(default)]
    pub resolved: String,
    /// `sha256-…` of the archive.
    pub integrity: String,
}

/// The description of a pack, and its check results on this host.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PackReport {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its description.
    pub description: Option<String>,
    /// The engine of its nodes.
    pub language: String,
    /// `sha256-…` of the archive, or of the archive that would be made of a directory.
    pub integrity: String,
    /// Type ids of the nodes that can be offered.
    pub nodes: Vec<String>,
    /// Nodes that were left out, and the reasons.
    pub problems: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LockFile {
    lockfile_version: u32,
    packs: Vec<InstalledPack>,
}

/// The library while its lock is held: only here are files written and removed.
struct LockedLibrary<'a> {
    library: &'a Library,
    packs: Vec<InstalledPack>,
    _file: std::fs::File,
}

/// Checks a description without reading the pack.
pub(crate) fn check(spec: &PackSpec, library: Option<&Library>) -> Result<(), String> {
    patterns(&spec.nodes).map_err(|error| error.problem)?;
    if matches!(spec.location, PackLocation::Installed { .. }) && library.is_none() {
        return Err("there is no directory of installed packs; name a directory or a .tgz".into());
    }
    Ok(())
}

/// Reads the files of the pack that `spec` names.
pub(crate) fn find(spec: &PackSpec, library: Option<&Library>) -> Result<PackFiles, PackError> {
    match (&spec.location, library) {
        (PackLocation::Path(path), _) => PackFiles::open(path),
        (PackLocation::Installed { name, version }, Some(library)) => {
            library.open(name, version.as_deref())
        }
        (PackLocation::Installed { .. }, None) => {
            PackCode::LockfileIncomplete.refuse("there is no directory of installed packs")
        }
    }
}

/// Reads and checks the pack at `path`, with everything granted. Its code does not run.
pub fn inspect(path: &Path, verification: &PackVerification) -> Result<PackReport, PackError> {
    report(PackFiles::open(path)?, verification)
}

fn report(files: PackFiles, verification: &PackVerification) -> Result<PackReport, PackError> {
    let grants = PackGrant::ALL.into_iter().collect();
    let pack = files.assemble(verification, &[], &grants)?;
    #[cfg(feature = "wasm")]
    super::wasm::check(&pack)?;
    let Pack { manifest, nodes, problems, .. } = pack;
    Ok(PackReport {
        name: manifest.name,
        version: manifest.version,
        description: manifest.description,
        language: manifest.runtime.language,
        integrity: verify::integrity(&files.into_archive()?),
        nodes: nodes.into_iter().map(|node| node.tool.name).collect(),
        problems,
    })
}

// === impl Library ===

impl Library {
    /// Creates a library of the packs in `dir`, which may be missing.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), bundled: &[] }
    }

    /// Adds bundled packs, which are used when no installed pack has their name.
    #[must_use]
    pub fn with_bundled(self, bundled: &'static [BundledPack]) -> Self {
        Self { bundled, ..self }
    }

    /// Reads the pack `name`: the installed one, or else the bundled one.
    fn open(&self, name: &str, version: Option<&str>) -> Result<PackFiles, PackError> {
        let installed = match (self.find(name, version), self.bundled(name, version)?) {
            (Ok(installed), _) => installed,
            (Err(_), Some(files)) => {
                return Ok(PackFiles { files, archive: None, signature: None });
            }
            (Err(error), None) => return Err(error),
        };
        let files = PackFiles::open(&self.archive(&installed))?;
        // An installed pack must have the bytes that were installed, even without further
        // verification settings.
        let integrity = Some(installed.integrity);
        files.verified(&PackVerification { integrity, keys: Vec::new() })?;
        Ok(files)
    }

    /// The bundled pack `name`, in `version` if given.
    fn bundled(&self, name: &str, version: Option<&str>) -> Result<Option<Files>, PackError> {
        for pack in self.bundled {
            let manifest = pack.manifest()?;
            if manifest.name == name && version.is_none_or(|wanted| manifest.version == wanted) {
                return pack.read().map(Some);
            }
        }
        Ok(None)
    }

    /// Lists name and version of the bundled packs.
    pub fn list_bundled(&self) -> Result<Vec<(String, String)>, PackError> {
        let named =
            |pack: &BundledPack| pack.manifest().map(|manifest| (manifest.name, manifest.version));
        self.bundled.iter().map(named).collect()
    }

    /// Lists all installed packs, by name and version.
    pub fn list(&self) -> Result<Vec<InstalledPack>, PackError> {
        let path = self.dir.join(LOCK);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let lock: Option<LockFile> = serde_json::from_slice(&files::read(&path, MAX_LOCK)?).ok();
        match lock {
            Some(LockFile { lockfile_version: 1, packs }) => Ok(packs),
            _ => PackCode::LockfileIncomplete
                .refuse(format!("{} is not a lock file of version 1", path.display())),
        }
    }

    /// Finds the installed pack `name`, in `version` or the newest one.
    pub fn find(&self, name: &str, version: Option<&str>) -> Result<InstalledPack, PackError> {
        let packs = self.list()?.into_iter().filter(|pack| pack.is(name, version));
        let newest = packs.max_by_key(|pack| semver::Version::parse(&pack.version).ok());
        newest.ok_or_else(|| {
            PackCode::LockfileIncomplete
                .error("this pack is not installed; `toolcrib packs add` installs it")
        })
    }

    /// Returns the path of an installed pack's archive.
    pub fn archive(&self, pack: &InstalledPack) -> PathBuf {
        self.dir.join(format!("{}-{}.tgz", pack.name, pack.version))
    }

    /// Checks the pack at `path` and installs it. Fails when different content with the same name
    /// and version is installed.
    pub fn add(
        &self,
        path: &Path,
        verification: &PackVerification,
    ) -> Result<PackReport, PackError> {
        let checked = report(PackFiles::open(path)?, verification)?;
        let mut files = PackFiles::open(path)?;
        let signature = files.signature.take();
        let archive = files.into_archive()?;
        if verify::integrity(&archive) != checked.integrity {
            return PackCode::IntegrityMismatch.refuse("the pack changed while it was read");
        }
        let pack = InstalledPack {
            name: checked.name.clone(),
            version: checked.version.clone(),
            resolved: path.display().to_string(),
            integrity: checked.integrity.clone(),
        };
        let mut locked = self.lock()?;
        let same = |other: &InstalledPack| other.is(&pack.name, Some(&pack.version));
        let there = locked.packs.iter().find(|other| same(other));
        if there.is_some_and(|there| there.integrity != pack.integrity) {
            return PackCode::IntegrityMismatch.refuse(format!(
                "another pack {}@{} is installed; remove it first, or give this one another version",
                pack.name, pack.version
            ));
        }
        let target = self.archive(&pack);
        locked.write(&target, &archive)?;
        let beside = target.with_added_extension("sig");
        match &signature {
            Some(signature) => locked.write(&beside, signature)?,
            None => locked.discard(&beside)?,
        }
        locked.packs.retain(|other| !same(other));
        locked.packs.push(pack);
        locked.packs.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        locked.save()?;
        Ok(checked)
    }

    /// Removes all versions of `name`, or only `version`; returns the removed packs.
    pub fn remove(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<Vec<InstalledPack>, PackError> {
        self.find(name, version)?;
        let mut locked = self.lock()?;
        let removed: Vec<_> = locked.packs.extract_if(.., |pack| pack.is(name, version)).collect();
        locked.save()?;
        // After the lock file was changed: an archive without an entry only wastes space.
        for pack in &removed {
            let archive = self.archive(pack);
            locked.discard(&archive.with_added_extension("sig"))?;
            locked.discard(&archive)?;
        }
        Ok(removed)
    }

    /// Checks the archive of an installed pack.
    pub fn verify(&self, pack: &InstalledPack, keys: &[[u8; 32]]) -> Result<PackReport, PackError> {
        let integrity = Some(pack.integrity.clone());
        let report =
            inspect(&self.archive(pack), &PackVerification { integrity, keys: keys.to_vec() })?;
        match report.name == pack.name && report.version == pack.version {
            true => Ok(report),
            false => PackCode::IntegrityMismatch.refuse("the archive belongs to another pack"),
        }
    }

    /// Waits for the exclusive right to change the library.
    fn lock(&self) -> Result<LockedLibrary<'_>, PackError> {
        std::fs::create_dir_all(&self.dir).map_err(|error| self.failed(&error))?;
        let file = std::fs::File::create(self.dir.join(".lock")).map_err(|e| self.failed(&e))?;
        file.lock().map_err(|error| self.failed(&error))?;
        Ok(LockedLibrary { packs: self.list()?, library: self, _file: file })
    }

    fn failed(&self, error: &std::io::Error) -> PackError {
        let (dir, reason) = (self.dir.display(), io_reason(error.kind()));
        PackCode::Unreadable.error(format!("{dir} cannot be written: {reason}"))
    }
}

// === impl LockedLibrary ===

impl LockedLibrary<'_> {
    /// Replaces the lock file.
    fn save(&self) -> Result<(), PackError> {
        let lock = LockFile { lockfile_version: 1, packs: self.packs.clone() };
        let mut text = serde_json::to_string_pretty(&lock)
            .map_err(|_| PackCode::LockfileIncomplete.error("the lock file cannot be written"))?;
        text.push('\n');
        self.write(&self.library.dir.join(LOCK), text.as_bytes())
    }

    /// Writes `bytes` to `path` atomically.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), PackError> {
        let next = path.with_added_extension("new");
        let written = (|| {
            let mut file = std::fs::File::create(&next)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&next, path)
        })();
        written.map_err(|error| self.library.failed(&error))
    }

    fn discard(&self, path: &Path) -> Result<(), PackError> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let reason = io_reason(error.kind());
                PackCode::Unreadable
                    .refuse(format!("an installed file cannot be removed: {reason}"))
            }
            _ => Ok(()),
        }
    }
}

// === impl InstalledPack ===

impl InstalledPack {
    fn is(&self, name: &str, version: Option<&str>) -> bool {
        self.name == name && version.is_none_or(|version| self.version == version)
    }
}

// === impl BundledPack ===

impl BundledPack {
    fn read(&self) -> Result<Files, PackError> {
        let mut files = Files::default();
        for (path, bytes) in self.files {
            files.insert(path, bytes.to_vec())?;
        }
        Ok(files)
    }

    fn manifest(&self) -> Result<Manifest, PackError> {
        let file = self.files.iter().find(|(path, _)| *path == MANIFEST);
        Manifest::parse(file.map(|(_, bytes)| *bytes).unwrap_or_default())
    }
}
