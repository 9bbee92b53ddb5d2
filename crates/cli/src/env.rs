//! The environment: every variable the program reads, and the secrets a configuration refers to.
//!
//! | Variable | Meaning |
//! |---|---|
//! | `TOOLCRIB_CONFIG` | as `--config` |
//! | `TOOLCRIB_DATA_DIR` | as `--data-dir` |
//! | `TOOLCRIB_URL` | as `--url` |
//! | `TOOLCRIB_KEY` | as `--key` |
//! | `TOOLCRIB_CA_FILE` | as `--ca-file` |
//! | `TOOLCRIB_CLIENT_CERT` | as `--client-cert` |
//! | `TOOLCRIB_CLIENT_KEY` | as `--client-key` |
//! | `TOOLCRIB_SECOND_KEY` | as `--second-key` of `conformance` |
//! | `TOOLCRIB_LOG` | log filter, for example `info,toolcrib_sources=debug` |
//! | `NO_COLOR` | no colours |
//! | `DISPLAY`, `WAYLAND_DISPLAY` | whether `connections connect` can open a browser, on Linux |
//! | `COLUMNS` | width of tables, instead of the width of the terminal |
//! | `HOME`, `USERPROFILE`, `APPDATA`, `XDG_CONFIG_HOME`, `CODEX_HOME` | where `init` looks for files of clients |
//!
//! The first eight are read by the argument parser. An empty variable counts as unset. The rest of
//! the workspace does not read the environment.

use std::{io::Read as _, path::Path};

use toolcrib_config::SecretReader;
use toolcrib_core::{credential::Secret, text::io_reason};

pub(crate) const CONFIG: &str = "TOOLCRIB_CONFIG";
pub(crate) const DATA_DIR: &str = "TOOLCRIB_DATA_DIR";
pub(crate) const URL: &str = "TOOLCRIB_URL";
pub(crate) const KEY: &str = "TOOLCRIB_KEY";
pub(crate) const CA_FILE: &str = "TOOLCRIB_CA_FILE";
pub(crate) const CLIENT_CERT: &str = "TOOLCRIB_CLIENT_CERT";
pub(crate) const CLIENT_KEY: &str = "TOOLCRIB_CLIENT_KEY";
pub(crate) const SECOND_KEY: &str = "TOOLCRIB_SECOND_KEY";
pub(crate) const LOG: &str = "TOOLCRIB_LOG";

/// Size limit of a secret file, in bytes; certificates and tokens are far smaller.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// Returns the value of variable `name` if it is set, not empty and UTF-8.
pub(crate) fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "this module is where the environment is read")]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether variable `name` is set to an empty text.
pub(crate) fn is_empty(name: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "this module is where the environment is read")]
    std::env::var_os(name).is_some_and(|value| value.is_empty())
}

/// Reads the secrets that a configuration refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secrets;

impl SecretReader for Secrets {
    fn env(&self, name: &str) -> Option<Secret> {
        variable(name).map(Secret::new)
    }

    fn file(&self, path: &Path) -> Result<Secret, String> {
        read_secret(path)
    }
}

/// Reads a secret file, without trailing line breaks.
///
/// Fails if the file is unreadable, empty or larger than 64 KiB.
pub(crate) fn read_secret(path: &Path) -> Result<Secret, String> {
    let unreadable = |error: std::io::Error| {
        format!("the file {} cannot be read ({})", path.display(), io_reason(error.kind()))
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    let read = file.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    let value = text.trim_end_matches(['\r', '\n']);
    match value {
        "" => Err(format!("the file {} is empty", path.display())),
        _ if read as u64 > MAX_SECRET_BYTES => {
            Err(format!("the file {} is larger than 64 KiB", path.display()))
        }
        _ => Ok(Secret::new(value.to_owned())),
    }
}

/// Resolves every reference to a placeholder, to check a file whose secrets are not available.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnySecret;

impl SecretReader for AnySecret {
    fn env(&self, _: &str) -> Option<Secret> {
        Some(Secret::new("placeholder".to_owned()))
    }

    fn file(&self, _: &Path) -> Result<Secret, String> {
        Ok(Secret::new("placeholder".to_owned()))
    }
}
