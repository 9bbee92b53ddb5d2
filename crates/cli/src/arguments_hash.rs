//! The form in which the record hashes arguments: with `[record] hash_key`, if it is set.

use toolcrib_config::Config;
use toolcrib_gateway::ArgumentsHash;
use toolcrib_store::key_text;

use crate::{failure::advised, seal};

/// Fails if the key in `config` is unreadable.
pub(crate) async fn form(config: &Config) -> anyhow::Result<ArgumentsHash> {
    let Some(place) = &config.record.hash_key else { return Ok(ArgumentsHash::Plain) };
    let text = seal::text(place).await.map_err(|problem| {
        advised(
            format!("`[record] hash_key` cannot be read: {problem}"),
            "create a key with `openssl rand -base64 32`",
        )
    })?;
    let key = key_text::read(text.expose()).ok_or_else(|| {
        advised(
            "`[record] hash_key` is not a key",
            "it has 32 bytes in base64; create one with `openssl rand -base64 32`",
        )
    })?;
    Ok(ArgumentsHash::keyed(&key))
}
