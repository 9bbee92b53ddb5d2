//! The key for signatures of checkpoints of the event log: `[record] signing_key`, or a file next
//! to the store that the first server creates.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use toolcrib_config::{Config, KeyPlace};
use toolcrib_core::{credential::Secret, text::io_reason};
use toolcrib_store::{SigningKey, WitnessFile};

use crate::{
    failure::{Advice as _, advised},
    seal,
};

/// Returns the signing key of `config`, and whether the key may be new.
///
/// Without `[record] signing_key`, creates the missing key file next to the store.
pub(crate) async fn key(config: &Config) -> anyhow::Result<(SigningKey, bool)> {
    let may_be_new = match config.record.signing_key {
        Some(_) => true,
        None => make(&key_file(&config.store.path))?,
    };
    Ok((read(&place(config)).await?, may_be_new))
}

/// The witness file, with the last signed checkpoints. It is always next to the store, independent
/// of the place of the key.
pub(crate) fn witness(config: &Config) -> WitnessFile {
    WitnessFile::new(beside(&config.store.path, ".witness"))
}

/// Returns the signing key of `config`, if it exists. Does not create one.
pub(crate) async fn existing(config: &Config) -> anyhow::Result<Option<SigningKey>> {
    match config.record.signing_key.is_none() && !key_file(&config.store.path).is_file() {
        true => Ok(None),
        false => read(&place(config)).await.map(Some),
    }
}

fn place(config: &Config) -> KeyPlace {
    let own = || KeyPlace::File(key_file(&config.store.path));
    config.record.signing_key.clone().unwrap_or_else(own)
}

/// The path of the key file for the store at `store`.
pub(crate) fn key_file(store: &Path) -> PathBuf {
    beside(store, ".signing-key")
}

fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

async fn read(place: &KeyPlace) -> anyhow::Result<SigningKey> {
    let text = seal::text(place).await.map_err(|problem| {
        advised(
            format!("the signing key of the record cannot be read: {problem}"),
            "create one with `openssl rand -base64 32`; without `[record] signing_key` the server \
             creates one next to the store",
        )
    })?;
    SigningKey::parse(&text).advise(
        "the signing key of the record is not a key",
        "check the content of the file or the output of the program",
    )
}

/// Creates the file with a new key, unless the file exists. Returns whether it created one.
fn make(path: &Path) -> anyhow::Result<bool> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(unwritable(path, &error)),
    };
    let key: Secret = SigningKey::generate()?;
    let written = file
        .write_all(key.expose().as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| file.sync_all());
    written.map(|()| true).map_err(|error| {
        // A truncated key file would be read at the next start.
        drop(std::fs::remove_file(path));
        unwritable(path, &error)
    })
}

fn unwritable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    advised(
        format!(
            "the signing key {} cannot be created ({})",
            path.display(),
            io_reason(error.kind())
        ),
        "make the directory writable, or set `[record] signing_key`",
    )
}
