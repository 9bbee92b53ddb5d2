//! A mount namespace in which only the writable places can be changed.
//!
//! Landlock restricts reads and writes, but not changes of modes, owners, times and extended
//! attributes. On a read-only mount the kernel refuses these as well.
//!
//! Invariant: every mount that the program can reach is read-only, except at its writable places.

use std::{
    fmt::Display,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use nix::sched::{CloneFlags, unshare};
use rustix::{
    fs::{AtFlags, CWD, StatxFlags, statx},
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change,
        mount_remount, move_mount, open_tree,
    },
    process::{getegid, geteuid},
};

use super::places::Place;

/// Moves this process into a new user and mount namespace with its own user and group.
///
/// After a failure the process may be in a user namespace without ids, and must end.
pub(super) fn enter() -> Result<(), String> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(|error| format!("no user namespace: {error}"))?;
    for (file, text) in [
        // The kernel requires this before an ordinary user may set the group.
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        let path = Path::new("/proc/self").join(file);
        std::fs::write(&path, text)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    Ok(())
}

/// Makes every mount read-only except at the `writable` places. Requires [`enter`].
pub(super) fn seal(writable: &[Place]) -> Result<(), String> {
    // Later mounts of the system must not appear here, because they would be writable.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| problem("/", &error))?;
    let copies: Vec<_> = writable
        .iter()
        .map(|place| {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_EMPTY_PATH
                | OpenTreeFlags::AT_RECURSIVE;
            let copy = open_tree(&place.fd, "", flags);
            Ok((place, copy.map_err(|error| problem(place.path().display(), &error))?))
        })
        .collect::<Result<_, String>>()?;
    let table = std::fs::read("/proc/self/mountinfo")
        .map_err(|error| format!("the list of mounts cannot be read: {error}"))?;
    for mount in table.split(|byte| *byte == b'\n').filter_map(Mount::parse) {
        mount.make_read_only()?;
    }
    for (place, copy) in copies {
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(copy, "", &place.fd, "", flags)
            .map_err(|error| problem(place.path().display(), &error))?;
    }
    if writable.is_empty() {
        return Ok(());
    }
    // The working directory is on a mount that may be covered by now.
    std::env::current_dir()
        .and_then(std::env::set_current_dir)
        .map_err(|error| problem("the working directory", &error))
}

fn problem(place: impl Display, error: &dyn Display) -> String {
    format!("{place} cannot be mounted: {error}")
}

/// One line of `/proc/self/mountinfo`.
struct Mount {
    id: u64,
    path: PathBuf,
    flags: MountFlags,
}

impl Mount {
    /// Parses `id parent device root path options …`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let path = fields.nth(3)?;
        let mut flags = MountFlags::empty();
        for option in fields.next()?.split(|byte| *byte == b',') {
            flags |= match option {
                b"nosuid" => MountFlags::NOSUID,
                b"nodev" => MountFlags::NODEV,
                b"noexec" => MountFlags::NOEXEC,
                _ => continue,
            };
        }
        Some(Self { id, path: unescaped(path), flags })
    }

    fn make_read_only(&self) -> Result<(), String> {
        // The kernel forbids to remove the other flags of a mount, so they are repeated.
        let flags = self.flags | MountFlags::BIND | MountFlags::RDONLY;
        let made = mount_remount(&self.path, flags, "");
        let Err(error) = made else { return Ok(()) };
        let about = statx(CWD, &self.path, AtFlags::NO_AUTOMOUNT, StatxFlags::MNT_ID);
        match about {
            // The mount is reachable and writable.
            Ok(about) if about.stx_mnt_id == self.id => Err(problem(self.path.display(), &error)),
            // It is below another mount, or in a directory that this user cannot enter.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Returns the path of a field in which some bytes are written as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_mount_table_are_read() {
        let line =
            b"31 23 0:28 / /mnt/a\\040b\\134c ro,nosuid,noexec,relatime shared:1 - tmpfs x rw";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.id, mount.path), (31, PathBuf::from("/mnt/a b\\c")));
        assert_eq!(mount.flags, MountFlags::NOSUID | MountFlags::NOEXEC);
        assert!(Mount::parse(b"").is_none());
    }
}
