//! The layers of a sandbox that work on this system, for the sandboxes of a configuration.

use rustix::process::geteuid;
use toolcrib_config::Config;
use toolcrib_core::source::command::{Confinement, ConfinementMode, RootPolicy};
use toolcrib_sources::SandboxSupport;

use crate::confined;

/// The result of trying the layers of a sandbox on this system.
#[derive(Debug, Default)]
pub(crate) struct SandboxReport {
    /// The layers that work; `None` if the configuration has no sandbox.
    pub(crate) layers: Option<Vec<&'static str>>,
    pub(crate) warnings: Vec<String>,
}

/// Tries the layers for the sandboxes of `config`. Starts no process without a sandbox.
pub(crate) async fn report(config: &Config) -> SandboxReport {
    let sources = config.sources.iter();
    let all = sources.flat_map(|source| source.spec.upstream.confinements());
    let sandboxes: Vec<&Confinement> =
        all.filter(|confinement| confinement.mode != ConfinementMode::Off).collect();
    if sandboxes.is_empty() {
        return SandboxReport::default();
    }
    let mut warnings = Vec::new();
    let is_refused = sandboxes.iter().any(|sandbox| sandbox.root == RootPolicy::Refused);
    if is_refused && geteuid().is_root() {
        warnings.push(
            "programs in a sandbox do not start, because this user is root; run toolcrib as another \
             user, or set `[sources] sandbox_as_root = true`"
                .to_owned(),
        );
    }
    let support = match SandboxSupport::of(&confined::launcher()).await {
        Ok(support) => support,
        Err(problem) => {
            warnings.push(problem);
            return SandboxReport { layers: Some(Vec::new()), warnings };
        }
    };
    if let Some(obstacle) = support.obstacle() {
        warnings.push(format!(
            "this system cannot enforce a sandbox, so programs in one do not start: {obstacle}"
        ));
    }
    if let Some(missing) = &support.read_only_mounts {
        warnings.push(format!(
            "programs in a sandbox cannot change modes, owners, times or attributes of any file, \
             including their own, which package managers and `git` need: {missing}; allow user \
             namespaces to this user"
        ));
    }
    let layers = [
        ("landlock", &support.landlock),
        ("system-calls", &support.system_calls),
        ("capabilities", &support.capabilities),
        ("read-only-mounts", &support.read_only_mounts),
    ];
    let offered = layers.into_iter().filter(|(_, missing)| missing.is_none());
    SandboxReport { layers: Some(offered.map(|(name, _)| name).collect()), warnings }
}
