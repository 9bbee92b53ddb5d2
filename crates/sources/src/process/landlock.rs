//! Landlock: the files and TCP ports that a confined program may use, and the processes that it may
//! signal or talk to.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope,
};
use toolcrib_core::source::command::{ConfinementMode, ConnectPorts};

use super::places::{Place, Places};

/// Required: Linux 6.12, for files, TCP, device controls, and signals and abstract sockets of
/// outside processes.
const NEEDED: ABI = ABI::V6;
/// Desired: Linux 7.1, for Unix sockets with a path.
const WANTED: ABI = ABI::V9;

/// Restricts this process to `places` and to `connect`, irrevocably.
pub(super) fn restrict(
    mode: ConfinementMode,
    connect: &ConnectPorts,
    places: &Places,
) -> Result<(), String> {
    let level = match mode {
        ConfinementMode::Required => CompatLevel::HardRequirement,
        ConfinementMode::BestEffort | ConfinementMode::Off => CompatLevel::BestEffort,
    };
    let ports = match connect {
        ConnectPorts::Any => None,
        ConnectPorts::Ports(ports) => Some(ports),
    };
    let read = AccessFs::from_read(WANTED);
    // A device node would be a second name of a disk or of the memory.
    let write = AccessFs::from_all(WANTED) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let readable = places.readable.iter().map(|place| (place, read));
    let writable = places.writable.iter().chain(&places.null).map(|place| (place, write));
    let rules = || -> Result<(), RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(level)
            .handle_access(AccessFs::from_all(NEEDED))?
            .scope(Scope::from_all(NEEDED))?;
        if ports.is_some() {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEEDED))?;
        }
        let ruleset = ruleset
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(WANTED))?
            .create()?;
        let ports = ports.into_iter().flatten();
        let ports =
            ports.map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp)));
        let places = readable.chain(writable).map(rule);
        ruleset.add_rules(ports)?.add_rules(places)?.restrict_self()?;
        Ok(())
    };
    rules().map_err(|error| format!("Landlock (Linux 6.12 or later): {error}"))
}

/// Creates the rule for one place; a file has fewer rights than a directory.
fn rule(
    (place, access): (&Place, BitFlags<AccessFs>),
) -> Result<PathBeneath<&std::os::fd::OwnedFd>, RulesetError> {
    let access = if place.is_directory() { access } else { access & AccessFs::from_file(WANTED) };
    Ok(PathBeneath::new(&place.fd, access))
}
