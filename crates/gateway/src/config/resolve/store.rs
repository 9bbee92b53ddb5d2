//! `[store]`: the place of all state, and the places of the seal keys.

use toml::Spanned;

use super::{Resolver, file};
use crate::config::{KeyPlace, StoreConfig, units::parse_size};

impl Resolver<'_> {
    pub(super) fn store(&mut self, config: &mut StoreConfig, typed: &file::Store) {
        if let Some(path) = self.read("store.url", typed.url.as_ref(), sqlite_path) {
            config.path = self.base.join(path);
        }
        if let Some(bytes) = self.read("store.keep_free", typed.keep_free.as_ref(), keep_free) {
            config.keep_free = bytes;
        }
        config.seal_key = self.key_place("store.seal_key", typed.seal_key.as_ref());
        config.old_seal_key = self.key_place("store.old_seal_key", typed.old_seal_key.as_ref());
        if let (None, Some(old)) = (&typed.seal_key, &typed.old_seal_key) {
            let message = "there is no `seal_key` that follows it; if it is still the key, rename \
                           this to `seal_key`";
            let (table, key) = ("store.seal_key", "store.old_seal_key");
            self.complain_of_absence(old.span().start, table, key, message);
        }
    }

    pub(super) fn key_place(
        &mut self,
        key: &str,
        typed: Option<&Spanned<file::KeyPlace>>,
    ) -> Option<KeyPlace> {
        let typed = typed?;
        let empty = match typed.get_ref() {
            file::KeyPlace::File(path) if !path.is_empty() => {
                let path = self.base.join(path);
                self.protection.keys.insert(path.clone());
                return Some(KeyPlace::File(path));
            }
            file::KeyPlace::Env(name) if !name.is_empty() => {
                return Some(KeyPlace::Env(name.clone()));
            }
            file::KeyPlace::Command(command)
                if command.first().is_some_and(|program| !program.is_empty()) =>
            {
                return Some(KeyPlace::Command(command.clone()));
            }
            file::KeyPlace::File(_) => "expected the path of a file",
            file::KeyPlace::Env(_) => "expected the name of an environment variable",
            file::KeyPlace::Command(_) => {
                "expected a program and its arguments, such as [\"pass\", \"show\", \"toolcrib\"]"
            }
        };
        self.complain(typed.span().start, key, empty);
        None
    }
}

/// Parses a size; `off` means 0.
fn keep_free(text: &str) -> Result<u64, String> {
    match text {
        "off" => Ok(0),
        size => parse_size(size).map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX)),
    }
}

fn sqlite_path(url: &str) -> Result<String, &'static str> {
    match url.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Ok(path.to_owned()),
        _ => Err("expected \"sqlite:PATH\""),
    }
}
