//! Restricts the files and ports that a confined program may reach, with Landlock.
//!
//! Invariant: no protected file becomes reachable, regardless of the allow lists and of links that
//! exist when the program starts. Files are compared by device and inode, so their names do not
//! matter.

#[cfg(not(target_os = "linux"))]
use toolcrib_core::source::command::{Confinement, ConfinementMode};

/// Confinement is available on Linux only.
#[cfg(not(target_os = "linux"))]
pub(super) fn confine(confinement: &Confinement) -> Result<(), String> {
    match confinement.mode {
        ConfinementMode::Required => Err("this system has no Landlock".to_owned()),
        ConfinementMode::BestEffort | ConfinementMode::Off => Ok(()),
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::confine;

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        collections::{BTreeMap, BTreeSet},
        os::fd::OwnedFd,
        path::{Path, PathBuf},
    };

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
        PathBeneath, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope,
    };
    use rustix::fs::{CWD, FileType, Mode as FileMode, OFlags, ResolveFlags, Stat, fstat, openat2};

    use toolcrib_core::source::command::{Confinement, ConfinementMode, Connect};

    /// Required: Linux 6.7, for files, truncation and TCP.
    const NEEDED: ABI = ABI::V4;
    /// Desired: Linux 6.12, for device controls, signals and abstract sockets of outside processes.
    const WANTED: ABI = ABI::V6;

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

    pub(crate) fn confine(confinement: &Confinement) -> Result<(), String> {
        let Confinement { mode, read: readable, write: writable, connect, protected } = confinement;
        let level = match mode {
            ConfinementMode::Off => return Ok(()),
            ConfinementMode::Required => CompatLevel::HardRequirement,
            ConfinementMode::BestEffort => CompatLevel::BestEffort,
        };
        let ports = match connect {
            Connect::Any => None,
            Connect::Ports(ports) => Some(ports),
        };
        let read = AccessFs::from_read(WANTED);
        let all = AccessFs::from_all(WANTED);
        let secret = ProtectedPaths::new(&protected.secret)?;
        let fixed = ProtectedPaths::new(protected.fixed.iter().chain(&protected.secret))?;
        let mut places = Vec::new();
        for path in SYSTEM {
            places.extend(without(Path::new(path), &secret).into_iter().map(|fd| (fd, read)));
        }
        places.extend(without(Path::new("/dev/null"), &secret).into_iter().map(|fd| (fd, all)));
        for (paths, access, territory) in [(readable, read, &secret), (writable, all, &fixed)] {
            for path in paths {
                if let Some(place) = open(path) {
                    territory.admit(&place, path)?;
                    places.push((place.fd, access));
                }
            }
        }
        let rules = || -> Result<(), RulesetError> {
            let mut ruleset = Ruleset::default()
                .set_compatibility(level)
                .handle_access(AccessFs::from_all(NEEDED))?;
            if ports.is_some() {
                ruleset = ruleset.handle_access(AccessNet::from_all(NEEDED))?;
            }
            let ruleset = ruleset
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(all)?
                .scope(Scope::from_all(WANTED))?
                .create()?;
            let ports = ports.into_iter().flatten();
            let ports =
                ports.map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp)));
            let places = places.into_iter().map(rule);
            ruleset.add_rules(ports)?.add_rules(places)?.restrict_self()?;
            Ok(())
        };
        rules().map_err(|error| format!("Landlock (Linux 6.7 or later): {error}"))
    }

    /// Creates the rule for one place; a file has fewer rights than a directory.
    fn rule(
        (fd, access): (OwnedFd, BitFlags<AccessFs>),
    ) -> Result<PathBeneath<OwnedFd>, RulesetError> {
        let is_directory = fstat(&fd).is_ok_and(|it| is_directory(&it));
        let access = if is_directory { access } else { access & AccessFs::from_file(WANTED) };
        Ok(PathBeneath::new(fd, access))
    }

    fn is_directory(about: &Stat) -> bool {
        FileType::from_raw_mode(about.st_mode) == FileType::Directory
    }

    /// An open descriptor of a file or directory, which cannot be swapped for another one.
    struct Place {
        fd: OwnedFd,
        about: Stat,
        path: PathBuf,
    }

    /// Opens `path`, or returns `None` when it does not exist.
    fn open(path: &Path) -> Option<Place> {
        let path = path.canonicalize().ok()?;
        let (flags, mode) = (OFlags::PATH | OFlags::CLOEXEC, FileMode::empty());
        // A link that was created meanwhile is not followed.
        let fd = openat2(CWD, &path, flags, mode, ResolveFlags::NO_SYMLINKS).ok()?;
        let about = fstat(&fd).ok()?;
        Some(Place { fd, about, path })
    }

    /// Returns descriptors that cover `path` except `territory`.
    fn without(path: &Path, territory: &ProtectedPaths) -> Vec<OwnedFd> {
        let Some(place) = open(path) else { return Vec::new() };
        if !territory.covers(&place.about) {
            let inside = territory.contains(&place.path);
            return if inside { Vec::new() } else { vec![place.fd] };
        }
        let entries = std::fs::read_dir(&place.path).into_iter().flatten().flatten();
        let entries = entries.filter(|it| it.file_type().is_ok_and(|kind| !kind.is_symlink()));
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

        /// Returns whether this is a protected file or directory, or an ancestor of one.
        fn covers(&self, about: &Stat) -> bool {
            self.above.contains(&identity(about))
        }

        /// Returns whether `path` is in a protected directory.
        fn contains(&self, path: &Path) -> bool {
            self.roots.iter().any(|root| path.starts_with(root))
        }

        /// Fails when access to `place` would include something protected.
        fn admit(&self, place: &Place, named: &Path) -> Result<(), String> {
            let named = named.display();
            if self.covers(&place.about) || self.contains(&place.path) {
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

    /// Returns `path` with links resolved; its last components need not exist.
    fn resolved(path: &Path) -> Option<PathBuf> {
        let absolute = std::path::absolute(path).ok()?;
        absolute.ancestors().find_map(|there| {
            let rest = absolute.strip_prefix(there).ok()?;
            // Component by component: joining an empty rest would add a trailing slash to a file.
            Some(there.canonicalize().ok()?.components().chain(rest.components()).collect())
        })
    }
}
