//! Isolates this process from everything that its confinement does not name, in four layers. Each
//! covers what the others cannot: mounts (changes of metadata), Landlock (files, ports, signals),
//! capabilities, and system calls.
//!
//! Invariant: in the mode `required`, every layer is applied or the program does not start.

use std::collections::BTreeSet;

use toolcrib_core::source::command::{Confinement, ConfinementMode, ConnectPorts};

use super::{
    landlock,
    launch::MetadataGuard,
    mounts,
    places::{ExcludedPaths, Places},
    privileges,
    support::{SandboxSupport, refusal},
    syscalls,
};

/// Isolates this process irrevocably.
pub(super) fn apply(confinement: &Confinement, guard: MetadataGuard) -> Result<(), String> {
    let Confinement { mode, connect, .. } = confinement;
    let layer = |applied: Result<(), String>| match mode {
        ConfinementMode::Required => applied,
        ConfinementMode::BestEffort | ConfinementMode::Off => Ok(()),
    };
    if *mode == ConfinementMode::Off {
        return Ok(());
    }
    if let Some(refusal) = refusal(confinement) {
        return Err(refusal.to_owned());
    }
    // Before the user namespace, in which root cannot enter directories of other users.
    let territories = ExcludedPaths::find(&confinement.protected)?;
    if guard == MetadataGuard::ReadOnlyMounts {
        mounts::enter()?;
    }
    let places = Places::open(confinement, &territories)?;
    if guard == MetadataGuard::ReadOnlyMounts {
        mounts::seal(&places.writable)?;
    }
    layer(landlock::restrict(*mode, connect, &places))?;
    layer(privileges::drop_all())?;
    layer(syscalls::restrict(guard))
}

/// Tries each layer on this process, which must exit afterwards.
pub(super) fn probe() -> SandboxSupport {
    let nothing = Places::default();
    let ports = ConnectPorts::Ports(BTreeSet::new());
    // In the order of `apply`.
    SandboxSupport {
        read_only_mounts: mounts::enter().and_then(|()| mounts::seal(&nothing.writable)).err(),
        landlock: landlock::restrict(ConfinementMode::Required, &ports, &nothing).err(),
        capabilities: privileges::drop_all().err(),
        system_calls: syscalls::restrict(MetadataGuard::SystemCalls).err(),
    }
}
