//! The layers of a sandbox that this system offers, found by trying them in a separate process.

use std::process::Stdio;

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tokio::{process::Command, sync::OnceCell};
use toolcrib_core::source::command::{Confinement, ConfinementMode, Resources, RootPolicy};

use super::launch::{ConfinementRules, Launcher, MetadataGuard, Role, cannot_start};

/// The layers of a sandbox, each with the reason why this system does not offer it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SandboxSupport {
    /// Mounts that only the writable paths of a sandbox can change. Without it, a sandbox refuses
    /// the system calls that change modes, owners, times and attributes of files.
    pub read_only_mounts: Option<String>,
    /// Files, TCP ports, signals and abstract sockets.
    pub landlock: Option<String>,
    /// Dropping capabilities.
    pub capabilities: Option<String>,
    /// The filter of system calls.
    pub system_calls: Option<String>,
}

impl SandboxSupport {
    /// Tries the layers, once per process of the server.
    ///
    /// # Errors
    /// Fails when the process that tries them cannot be started or dies.
    pub async fn of(launcher: &Launcher) -> Result<&'static Self, String> {
        static SUPPORT: OnceCell<SandboxSupport> = OnceCell::const_new();
        SUPPORT.get_or_try_init(|| probe(launcher)).await
    }

    /// Returns the missing layer without which the mode `required` starts no program, with its
    /// reason.
    pub fn obstacle(&self) -> Option<&str> {
        let Self { read_only_mounts: _, landlock, capabilities, system_calls } = self;
        landlock.as_deref().or(capabilities.as_deref()).or(system_calls.as_deref())
    }

    fn guard(&self) -> MetadataGuard {
        match self.read_only_mounts {
            None => MetadataGuard::ReadOnlyMounts,
            Some(_) => MetadataGuard::SystemCalls,
        }
    }
}

/// Why the user of this process starts no program with `confinement`.
pub(crate) fn refusal(confinement: &Confinement) -> Option<&'static str> {
    match (confinement.mode, confinement.root) {
        (ConfinementMode::Off, _) | (_, RootPolicy::Allowed) => None,
        (ConfinementMode::Required | ConfinementMode::BestEffort, RootPolicy::Refused) => {
            geteuid().is_root().then_some(ROOT)
        }
    }
}

const ROOT: &str = "the server runs as root; run it as another user, or set `[sources] \
                    sandbox_as_root = true`";

/// Creates the rules for a program that `launcher` starts.
///
/// # Errors
/// Fails when the layers that this system offers are unknown.
pub(crate) async fn rules(
    confinement: &Confinement,
    resources: Option<Resources>,
    launcher: &Launcher,
) -> Result<ConfinementRules, String> {
    let guard = guard(confinement, launcher).await?;
    let variables = launcher.environment.iter().map(|(name, _)| name.clone()).collect();
    let confinement = confinement.clone();
    Ok(ConfinementRules { confinement, guard, resources, variables, report: -1 })
}

/// How the metadata of files is guarded from a program with `confinement`.
async fn guard(confinement: &Confinement, launcher: &Launcher) -> Result<MetadataGuard, String> {
    match confinement.mode {
        ConfinementMode::Off => Ok(MetadataGuard::SystemCalls),
        ConfinementMode::Required | ConfinementMode::BestEffort => {
            Ok(SandboxSupport::of(launcher).await?.guard())
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a part of `process`")]
async fn probe(launcher: &Launcher) -> Result<SandboxSupport, String> {
    let mut command = Command::new(&launcher.program);
    command.args(&launcher.arguments).arg(Role::Probe.to_argument()?).arg("probe");
    command
        .env_clear()
        .envs(launcher.environment.iter().cloned())
        .current_dir("/")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.map_err(|error| cannot_start(&error))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("the sandbox of this system cannot be tried ({})", output.status))
}
