//! The places that a confined program may reach, and those that it must not reach.
//!
//! Invariant: no protected file becomes reachable, regardless of the allow lists and of links that
//! exist when the program starts. Files are compared by device and inode, so their names do not
//! matter.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, FileType, Mode as FileMode, OFlags, ResolveFlags, Stat, fstat, openat2};
use toolcrib_core::source::command::{Confinement, ProtectedFiles};

use super::mount_table::Mount;

/// Paths that every program needs to start: its libraries, and files that the C library reads.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// The places of one confinement.
#[derive(Default)]
pub(super) struct Places {
    /// Readable places, the system's own included.
    pub(super) readable: Vec<Place>,
    /// Places that are also writable.
    pub(super) writable: Vec<Place>,
    /// `/dev/null`, if it exists.
    pub(super) null: Option<Place>,
}

/// The paths that no place may include.
pub(super) struct ExcludedPaths {
    /// Paths that no place makes readable.
    secret: ProtectedPaths,
    /// Paths that no place makes writable.
    fixed: ProtectedPaths,
}

impl ExcludedPaths {
    /// Finds the protected files.
    ///
    /// # Errors
    /// Fails if a protected path cannot be examined.
    pub(super) fn find(protected: &ProtectedFiles) -> Result<Self, String> {
        let secret = ProtectedPaths::new(&protected.secret)?;
        let fixed = ProtectedPaths::new(protected.fixed.iter().chain(&protected.secret))?;
        Ok(Self { secret, fixed })
    }
}

impl Places {
    /// Opens the places of `confinement`.
    ///
    /// # Errors
    /// Fails if a place includes something protected, or the mounts in it cannot be read.
    pub(super) fn open(
        confinement: &Confinement,
        territories: &ExcludedPaths,
    ) -> Result<Self, String> {
        let Confinement { read, write, .. } = confinement;
        let ExcludedPaths { secret, fixed } = territories;
        let mut readable = Vec::new();
        for path in SYSTEM {
            readable.extend(without(Path::new(path), secret));
        }
        readable.extend(admitted(read, secret)?);
        let null = without(Path::new("/dev/null"), secret).pop();
        Ok(Self { readable, writable: admitted(write, fixed)?, null })
    }
}

/// Opens those of `paths` that exist. Fails if one includes something protected.
fn admitted(paths: &[PathBuf], territory: &ProtectedPaths) -> Result<Vec<Place>, String> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let mounts = Mount::all()?;
    let mut places = Vec::new();
    for path in paths {
        if let Some(place) = open(path) {
            territory.admit(&place, path, &mounts)?;
            places.push(place);
        }
    }
    Ok(places)
}

fn is_directory(about: &Stat) -> bool {
    FileType::from_raw_mode(about.st_mode) == FileType::Directory
}

/// An open descriptor of a file or directory, which cannot be swapped for another one.
pub(super) struct Place {
    pub(super) fd: OwnedFd,
    about: Stat,
    path: PathBuf,
}

impl Place {
    pub(super) fn is_directory(&self) -> bool {
        is_directory(&self.about)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens `path`; `None` if it does not exist.
fn open(path: &Path) -> Option<Place> {
    let path = path.canonicalize().ok()?;
    let (flags, mode) = (OFlags::PATH | OFlags::CLOEXEC, FileMode::empty());
    // A link created meanwhile is not followed.
    let fd = openat2(CWD, &path, flags, mode, ResolveFlags::NO_SYMLINKS).ok()?;
    let about = fstat(&fd).ok()?;
    Some(Place { fd, about, path })
}

/// Opens places that cover `path` except `territory`.
fn without(path: &Path, territory: &ProtectedPaths) -> Vec<Place> {
    let Some(place) = open(path) else { return Vec::new() };
    if !territory.covers(&place.about) {
        let inside = territory.contains(&place.path);
        return if inside { Vec::new() } else { vec![place] };
    }
    let entries = std::fs::read_dir(&place.path).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    entries.flat_map(|entry| without(&entry.path(), territory)).collect()
}

/// Protected files and directories.
#[derive(Default)]
struct ProtectedPaths {
    roots: Vec<PathBuf>,
    /// Device and inode of each root and of every directory above it.
    above: BTreeSet<(u64, u64)>,
    /// For each device with a protected file that has more than one name, the first such file.
    linked: BTreeMap<u64, PathBuf>,
}

impl ProtectedPaths {
    fn new<'p>(protected: impl IntoIterator<Item = &'p PathBuf>) -> Result<Self, String> {
        let mut territory = Self::default();
        for path in protected {
            // A file that does not exist yet is protected at the path where it would be
            // created.
            let Some(path) = resolved(path) else { continue };
            for place in path.ancestors() {
                let about = match rustix::fs::stat(place) {
                    Ok(about) => about,
                    Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => continue,
                    Err(error) => {
                        let place = place.display();
                        return Err(format!("{place} cannot be protected: {error}"));
                    }
                };
                territory.above.insert(identity(&about));
                if place == path {
                    territory.note_links(place, &about);
                }
            }
            territory.roots.push(path);
        }
        Ok(territory)
    }

    /// Records the device of a file with a second hard link: `place`, or an entry of it.
    fn note_links(&mut self, place: &Path, about: &Stat) {
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        let inside = entries.map(|entry| entry.path());
        let inside = inside.filter_map(|path| Some((rustix::fs::lstat(&path).ok()?, path)));
        for (about, path) in inside.chain([(*about, place.to_owned())]) {
            if !is_directory(&about) && about.st_nlink > 1 {
                self.linked.entry(about.st_dev).or_insert(path);
            }
        }
    }

    /// Whether this is a protected file or directory, or an ancestor of one.
    fn covers(&self, about: &Stat) -> bool {
        self.above.contains(&identity(about))
    }

    /// Whether `path` is in a protected directory.
    fn contains(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Whether `place` is protected, in a protected directory, or above one.
    fn is_at(&self, place: &Place) -> bool {
        self.covers(&place.about) || self.contains(&place.path)
    }

    /// Fails when access to `place` would include something protected. A mount in it may show any
    /// other directory.
    fn admit(&self, place: &Place, named: &Path, mounts: &[Mount]) -> Result<(), String> {
        let named = named.display();
        let mut inside = mounts
            .iter()
            .filter(|mount| mount.path != place.path && mount.path.starts_with(&place.path))
            .filter_map(|mount| open(&mount.path));
        if self.is_at(place) || inside.any(|mount| self.is_at(&mount)) {
            return Err(format!(
                "{named} leads to the data directory, a key, a secret or the configuration; \
                 name a narrower path"
            ));
        }
        if is_directory(&place.about)
            && let Some(linked) = self.linked.get(&place.about.st_dev)
        {
            let linked = linked.display();
            return Err(format!(
                "the protected file {linked} has a second name (hard link), which could be in \
                 {named}; remove that name (`find -samefile {linked}` finds it)"
            ));
        }
        Ok(())
    }
}

#[expect(clippy::useless_conversion, reason = "the types differ between systems")]
fn identity(about: &Stat) -> (u64, u64) {
    (about.st_dev.into(), about.st_ino.into())
}

/// Resolves the links in `path`; its last components need not exist.
fn resolved(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    absolute.ancestors().find_map(|there| {
        let rest = absolute.strip_prefix(there).ok()?;
        // Component by component: joining an empty rest would add a trailing slash to a file.
        Some(there.canonicalize().ok()?.components().chain(rest.components()).collect())
    })
}
