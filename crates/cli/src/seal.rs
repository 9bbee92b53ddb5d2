//! The seal keys of the configuration, read on demand.

use std::path::Path;

use toolcrib_config::{Config, KeyPlace, StoreConfig};
use toolcrib_core::credential::Secret;
use toolcrib_store::{SealKey, SealKeys};

use crate::{
    env,
    failure::{Advice as _, advised},
    printer::Printer,
};

/// Reads the seal keys of `config`; empty if `seal_key` is not set. Fails if a key is unreadable.
pub(crate) async fn keys(config: &StoreConfig) -> anyhow::Result<SealKeys> {
    let Some(place) = &config.seal_key else { return Ok(SealKeys::none()) };
    let current = key("seal_key", place).await?;
    let old = match &config.old_seal_key {
        Some(place) => Some(key("old_seal_key", place).await?),
        None => None,
    };
    Ok(SealKeys::new(current, old))
}

/// Whether a source of `config` names a credential, or acts with accounts.
pub(crate) fn is_needed(config: &Config) -> bool {
    let mut specs = config.sources.iter().map(|source| &source.spec);
    specs.any(|spec| spec.credential.is_some() || spec.account.is_some())
}

/// Reads the seal keys, if a source of `config` [needs](is_needed) them and they are readable.
/// Without them, only these sources fail.
pub(crate) async fn needed(config: &Config, printer: Printer) -> Option<SealKeys> {
    if !is_needed(config) {
        return None;
    }
    match keys(&config.store).await {
        Ok(keys) => Some(keys),
        Err(error) => {
            printer.warning(format_args!("{error}; sources that need a credential will fail"));
            None
        }
    }
}

async fn key(name: &str, place: &KeyPlace) -> anyhow::Result<SealKey> {
    let text = text(place).await.map_err(|problem| {
        advised(
            format!("`[store] {name}` cannot be read: {problem}"),
            "create a key with `toolcrib credentials new-key --out FILE`",
        )
    })?;
    SealKey::parse(&text).advise(
        format!("`[store] {name}` is not a key"),
        "check the content of the file or the output of the program",
    )
}

/// Reads the key text from `place`.
pub(crate) async fn text(place: &KeyPlace) -> Result<Secret, String> {
    match place {
        KeyPlace::File(path) => {
            warn_of_others(path);
            env::read_secret(path)
        }
        KeyPlace::Env(variable) => env::variable(variable)
            .map(Secret::new)
            .ok_or_else(|| format!("environment variable {variable} is not set")),
        KeyPlace::Command(command) => toolcrib_sources::printed_by(command).await,
    }
}

/// Logs a warning if other users of the machine can read the key file.
fn warn_of_others(path: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    if std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o077 != 0) {
        tracing::warn!(
            path = %path.display(),
            "other users of this machine can read a key; consider `chmod 600`"
        );
    }
}
