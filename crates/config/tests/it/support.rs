//! Configurations of tests.

use std::path::Path;

use toolcrib_config::{Config, SecretReader};
use toolcrib_core::credential::Secret;

/// Two secrets in the environment, and none in files.
pub(crate) struct NoSecrets;

impl SecretReader for NoSecrets {
    fn env(&self, name: &str) -> Option<Secret> {
        match name {
            "SET" => Some(Secret::new("s3cret-value".to_owned())),
            "LONG" => Some(Secret::new("a-secret-of-twenty-four-bytes-or-more".to_owned())),
            _ => None,
        }
    }

    fn file(&self, path: &Path) -> Result<Secret, String> {
        Err(format!("cannot read {}", path.display()))
    }
}

pub(crate) fn parse(text: &str) -> Config {
    toolcrib_config::parse("toolcrib.toml", text, Path::new("/etc/toolcrib"), &NoSecrets).unwrap()
}

pub(crate) fn complaint(text: &str) -> String {
    toolcrib_config::parse("toolcrib.toml", text, Path::new("/etc"), &NoSecrets)
        .unwrap_err()
        .to_string()
}
