//! A mount namespace in which only the writable places can be changed.
//!
//! Landlock restricts reads and writes, but not changes of modes, owners, times and extended
//! attributes. On a read-only mount the kernel refuses these as well.
//!
//! Invariant: every mount that the program can reach is read-only, except at its writable places.

use std::{fmt::Display, path::Path};

use nix::sched::{CloneFlags, unshare};
use rustix::{
    fs::{AtFlags, CWD, StatxFlags, statx},
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change,
        mount_remount, move_mount, open_tree,
    },
    process::{getegid, geteuid},
};

use super::{mount_table::Mount, places::Place};

/// Moves this process into a new user and mount namespace with its own user and group.
///
/// After a failure the process may be in a user namespace without ids, and must exit.
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
    for mount in Mount::all()? {
        make_read_only(&mount)?;
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

fn make_read_only(mount: &Mount) -> Result<(), String> {
    // The kernel forbids to remove the other flags of a mount, so they are repeated.
    let flags = mount.flags | MountFlags::BIND | MountFlags::RDONLY;
    let made = mount_remount(&mount.path, flags, "");
    let Err(error) = made else { return Ok(()) };
    let about = statx(CWD, &mount.path, AtFlags::NO_AUTOMOUNT, StatxFlags::MNT_ID);
    match about {
        // The mount is reachable and writable.
        Ok(about) if about.stx_mnt_id == mount.id => Err(problem(mount.path.display(), &error)),
        // It is below another mount, or in a directory that this user cannot enter.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn problem(place: impl Display, error: &dyn Display) -> String {
    format!("{place} cannot be mounted: {error}")
}
