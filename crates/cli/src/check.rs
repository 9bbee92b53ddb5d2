//! The checks of a configuration file before a server applies it: of `config check`, of commands that
//! change the file, and of the console.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use toolcrib::TlsIdentity;
use toolcrib_config::{
    Config, Problem,
    edit::{CheckReport, ConfigCheck, ConfigFile},
};

use crate::{
    args::GlobalOptions,
    preflight, sandbox,
    settings::{self, CheckedConfig, Settings},
};

/// A configuration file after all checks.
pub(crate) struct ExaminedConfig {
    /// The valid parts; `None` if the file is not TOML.
    pub(crate) config: Option<Config>,
    /// All problems but missing secrets.
    pub(crate) problems: Vec<Problem>,
    /// Secrets that this process cannot read.
    pub(crate) missing: Vec<Problem>,
    pub(crate) warnings: Vec<String>,
    /// The layers of sandboxes that work here; `None` if the configuration has no sandbox.
    pub(crate) sandbox: Option<Vec<&'static str>>,
    pub(crate) data_dir: PathBuf,
}

/// Checks `text` as the content of `file`.
pub(crate) async fn examine(global: &GlobalOptions, file: &Path, text: &str) -> ExaminedConfig {
    let CheckedConfig { config, mut problems, missing, data_dir } =
        Settings::check(global, file, text);
    let mut warnings = Vec::new();
    let mut sandbox = None;
    if let Some(config) = &config {
        warnings = settings::warnings(config);
        let report = sandbox::report(config).await;
        warnings.extend(report.warnings);
        sandbox = report.layers;
        let obstacles = match preflight::check(config, &data_dir).await {
            Ok(ready) => {
                warnings.extend(ready.tls.iter().flat_map(TlsIdentity::warnings).cloned());
                Vec::new()
            }
            Err(obstacles) => obstacles,
        };
        let address = preflight::unusable_address(config).await;
        problems.extend(obstacles.iter().chain(&address).map(|obstacle| obstacle.problem(text)));
    }
    ExaminedConfig { config, problems, missing, warnings, sandbox, data_dir }
}

/// Whether a missing secret is a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    /// A server refuses the file.
    Required,
    /// A command may run without the secrets of the server.
    Optional,
}

/// Checks texts of one file.
struct FileCheck {
    global: GlobalOptions,
    path: PathBuf,
    secrets: Secrets,
}

pub(crate) fn config_file(global: &GlobalOptions, path: PathBuf, secrets: Secrets) -> ConfigFile {
    let check = FileCheck { global: global.clone(), path: path.clone(), secrets };
    ConfigFile::new(path, std::sync::Arc::new(check))
}

#[async_trait]
impl ConfigCheck for FileCheck {
    async fn check(&self, text: &str) -> CheckReport {
        let examined = examine(&self.global, &self.path, text).await;
        let ExaminedConfig { config, mut problems, missing, mut warnings, .. } = examined;
        match self.secrets {
            Secrets::Required => problems.extend(missing),
            Secrets::Optional => {
                warnings.extend(missing.into_iter().map(|problem| problem.message))
            }
        }
        CheckReport { config, problems, warnings }
    }
}
