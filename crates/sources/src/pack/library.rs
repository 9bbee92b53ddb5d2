//! Packs installed in the data directory: archives, and a lock file that lists them.
//!
//! Invariant: the lock file and the archives are replaced atomically, under a lock, so that readers
//! see either a complete pack or none.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use toolcrib_core::{
    source::pack::{PackGrant, PackVerification},
    text::io_reason,
};

use super::{
    error::{PackCode, PackError},
    files::{self, Files},
    load::{self, Found, Pack},
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

/// A pack that is part of the program.
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

/// Reads and checks the pack at `path`, with everything granted. Runs none of its code.
pub fn inspect(path: &Path, verification: &PackVerification) -> Result<PackReport, PackError> {
    report(load::at(path)?, verification)
}

fn report(found: Found, verification: &PackVerification) -> Result<PackReport, PackError> {
    let grants = PackGrant::ALL.into_iter().collect();
    let Pack { manifest, nodes, problems, artifact, .. } =
        found.assemble(verification, &[], &grants)?;
    compiles(&manifest, &artifact)?;
    Ok(PackReport {
        name: manifest.name,
        version: manifest.version.to_string(),
        description: manifest.description,
        language: manifest.runtime.language,
        integrity: verify::integrity(&found.into_archive()?),
        nodes: nodes.into_iter().map(|node| node.tool.name).collect(),
        problems,
    })
}

/// Checks that the code compiles for the declared language.
#[cfg(feature = "wasm")]
fn compiles(manifest: &Manifest, artifact: &[u8]) -> Result<(), PackError> {
    super::wasm::check(&manifest.runtime.language, artifact)
}

#[cfg(not(feature = "wasm"))]
fn compiles(_manifest: &Manifest, _artifact: &[u8]) -> Result<(), PackError> {
    Ok(())
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

    /// Returns the bundled pack `name`, in `version` if given.
    pub(super) fn bundled(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<Files>, PackError> {
        for pack in self.bundled {
            let files = pack.read()?;
            let manifest = pack.manifest()?;
            let wanted = |version: &str| manifest.version.to_string() == version;
            if manifest.name == name && version.is_none_or(wanted) {
                return Ok(Some(files));
            }
        }
        Ok(None)
    }

    /// Returns name and version of the bundled packs.
    pub fn list_bundled(&self) -> Result<Vec<(String, String)>, PackError> {
        let named = |pack: &BundledPack| {
            pack.manifest().map(|manifest| (manifest.name, manifest.version.to_string()))
        };
        self.bundled.iter().map(named).collect()
    }

    /// Returns all installed packs, by name and version.
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

    /// Returns the installed pack `name`, in `version` or the newest one.
    pub fn find(&self, name: &str, version: Option<&str>) -> Result<InstalledPack, PackError> {
        let wanted = |pack: &InstalledPack| {
            pack.name == name && version.is_none_or(|version| pack.version == version)
        };
        let packs = self.list()?.into_iter().filter(wanted);
        let newest = packs.max_by_key(|pack| semver::Version::parse(&pack.version).ok());
        newest.ok_or_else(|| {
            PackCode::LockfileIncomplete
                .error("no such pack is installed; `toolcrib packs add` installs one")
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
        let checked = report(load::at(path)?, verification)?;
        let found = load::at(path)?;
        let signature = found.signature().map(<[u8]>::to_vec);
        let archive = found.into_archive()?;
        if verify::integrity(&archive) != checked.integrity {
            return PackCode::IntegrityMismatch.refuse("the pack changed while it was read");
        }
        let pack = InstalledPack {
            name: checked.name.clone(),
            version: checked.version.clone(),
            resolved: path.display().to_string(),
            integrity: checked.integrity.clone(),
        };
        let target = self.archive(&pack);
        self.change(|packs| {
            let same =
                |other: &&InstalledPack| other.name == pack.name && other.version == pack.version;
            if let Some(there) = packs.iter().find(same)
                && there.integrity != pack.integrity
            {
                return PackCode::IntegrityMismatch.refuse(format!(
                    "another pack {}@{} is installed; remove it first, or give this one another \
                     version",
                    pack.name, pack.version
                ));
            }
            self.write(&target, &archive)?;
            let beside = beside(&target);
            match &signature {
                Some(signature) => self.write(&beside, signature)?,
                None => discard(&beside)?,
            }
            packs.retain(|other| !same(&other));
            packs.push(pack.clone());
            packs.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
            Ok(())
        })?;
        Ok(checked)
    }

    /// Removes all versions of `name`, or only `version`; returns the removed packs.
    pub fn remove(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<Vec<InstalledPack>, PackError> {
        let mut removed = Vec::new();
        self.find(name, version)?;
        self.change(|packs| {
            let wanted = |pack: &InstalledPack| {
                pack.name == name && version.is_none_or(|version| pack.version == version)
            };
            removed = packs.iter().filter(|pack| wanted(pack)).cloned().collect();
            packs.retain(|pack| !wanted(pack));
            Ok(())
        })?;
        // After the lock file was changed: an archive without an entry only wastes space.
        for pack in &removed {
            let archive = self.archive(pack);
            discard(&beside(&archive))?;
            discard(&archive)?;
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

    /// Changes the lock file while holding an exclusive lock.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<InstalledPack>) -> Result<(), PackError>,
    ) -> Result<(), PackError> {
        std::fs::create_dir_all(&self.dir).map_err(|error| self.failed(&error))?;
        let guard = std::fs::File::create(self.dir.join(".lock")).map_err(|e| self.failed(&e))?;
        rustix::fs::flock(&guard, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| self.failed(&error.into()))?;
        let mut packs = self.list()?;
        change(&mut packs)?;
        let lock = LockFile { lockfile_version: 1, packs };
        let mut text = serde_json::to_string_pretty(&lock)
            .map_err(|_| PackCode::LockfileIncomplete.error("the lock file cannot be written"))?;
        text.push('\n');
        self.write(&self.dir.join(LOCK), text.as_bytes())
    }

    /// Writes `bytes` to `path` atomically.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), PackError> {
        let mut next = path.as_os_str().to_owned();
        next.push(".new");
        let next = PathBuf::from(next);
        let written = (|| {
            let mut file = std::fs::File::create(&next)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&next, path)
        })();
        written.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> PackError {
        PackCode::Unreadable.error(format!(
            "{} cannot be written: {}",
            self.dir.display(),
            io_reason(error.kind())
        ))
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

fn beside(archive: &Path) -> PathBuf {
    let mut path = archive.as_os_str().to_owned();
    path.push(".sig");
    path.into()
}

fn discard(path: &Path) -> Result<(), PackError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => PackCode::Unreadable
            .refuse(format!("an installed file cannot be removed: {}", io_reason(error.kind()))),
        _ => Ok(()),
    }
}
