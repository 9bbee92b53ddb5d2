//! Loads and validates the configuration of `--config` and `--data-dir`.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use rustix::fs::OFlags;
use toolcrib_config::{self as config, Config, ConfigError, Problem, Reading};
use toolcrib_core::{catalog::Tenants, credential::Secret};
use toolcrib_sources::Library;

use crate::{
    args::GlobalOptions,
    bundled,
    env::{self, Secrets},
    failure::{Advice as _, advised, usage},
};

/// The default configuration file, if it exists.
pub(crate) const DEFAULT_FILE: &str = "toolcrib.toml";
/// The default data directory, next to the configuration file.
pub(crate) const DATA_DIR: &str = ".toolcrib";
/// The name of the files of a server on PostgreSQL in the data directory.
pub(crate) const POSTGRES_FILES: &str = "postgres";
/// The store in the data directory.
pub(crate) const STORE_FILE: &str = "toolcrib.db";
/// Size limit of a configuration file, in bytes. The path may lead to an endless file.
const MAX_CONFIG_BYTES: u64 = 4 << 20;
/// The installed packs in the data directory.
const PACKS_DIR: &str = "packs";

/// A configuration with its origin.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// The text of the file, if there is one.
    pub(crate) text: Option<String>,
    pub(crate) data_dir: PathBuf,
    pub(crate) place: StorePlace,
}

/// Whether the place of the store was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StorePlace {
    /// By `--data-dir` or `[store] url`.
    Explicit,
    /// It is next to the configuration.
    Default,
}

impl Settings {
    /// Reads and validates the configuration of `global`, for a command. Sources with unreadable
    /// secrets stay unavailable.
    pub(crate) fn load(global: &GlobalOptions) -> anyhow::Result<Self> {
        let checked = |reading: Reading| reading.without_missing().map(|(config, _)| config);
        Self::read(global, Pipe::Wait, checked)
    }

    /// As [`load`](Self::load), for a server. Fails if a secret is unreadable.
    pub(crate) fn load_complete(global: &GlobalOptions) -> anyhow::Result<Self> {
        Self::read(global, Pipe::Wait, Reading::complete)
    }

    /// As [`load_complete`](Self::load_complete), for a running server: it never blocks on a pipe.
    pub(crate) fn reload(global: &GlobalOptions) -> anyhow::Result<Self> {
        Self::read(global, Pipe::Refuse, Reading::complete)
    }

    /// The valid parts of `text`, the content of `file`, with all its problems.
    pub(crate) fn check(global: &GlobalOptions, file: &Path, text: &str) -> CheckedConfig {
        let base = base_of(file);
        let reading = config::read(&file.display().to_string(), text, &base, &Secrets);
        let url = store_url(text);
        let data_dir = data_dir(global, &base, url.as_deref());
        let place = |config: &Config| placed(config.clone(), url.is_some(), &data_dir);
        let mut config = reading.partial().map(place);
        let missing: Vec<Problem> =
            reading.missing().iter().map(|missing| missing.problem.clone()).collect();
        let mut problems = reading.other_problems().to_vec();
        if let Some(Err(error)) =
            config.as_mut().map(|parsed| parsed.protect(Some(file), &data_dir))
        {
            problems.extend(error.problems);
        }
        CheckedConfig { config, problems, missing, data_dir }
    }

    fn read(
        global: &GlobalOptions,
        pipe: Pipe,
        checked: impl FnOnce(Reading) -> Result<Config, ConfigError>,
    ) -> anyhow::Result<Self> {
        let file = file(global);
        let base = file.as_deref().map(base_of).unwrap_or_default();
        let text = file.as_deref().map(|file| read(file, pipe)).transpose()?;
        let config = match (&file, &text) {
            (Some(file), Some(text)) => {
                checked(config::read(&file.display().to_string(), text, &base, &Secrets))?
            }
            _ => Config::empty(&base),
        };
        let url = text.as_deref().and_then(store_url);
        let data_dir = data_dir(global, &base, url.as_deref());
        let mut config = placed(config, url.is_some(), &data_dir);
        config.protect(file.as_deref(), &data_dir)?;
        let place = match global.data_dir.is_some() || url.is_some() {
            true => StorePlace::Explicit,
            false => StorePlace::Default,
        };
        Ok(Self { config, text, data_dir, place })
    }
}

/// A configuration file with all its problems.
pub(crate) struct CheckedConfig {
    /// The valid parts; `None` if the file is not TOML.
    pub(crate) config: Option<Config>,
    /// All problems but missing secrets.
    pub(crate) problems: Vec<Problem>,
    /// Secrets that are unreadable here.
    pub(crate) missing: Vec<Problem>,
    pub(crate) data_dir: PathBuf,
}

/// Returns `config` with its store in `data_dir`, unless `text` sets `[store] url` to a file. The
/// files of a server on PostgreSQL are always there.
fn placed(mut config: Config, names_store: bool, data_dir: &Path) -> Config {
    match config.store.is_shared() {
        false if names_store => {}
        false => config.store.path = data_dir.join(STORE_FILE),
        true => config.store.path = data_dir.join(POSTGRES_FILES),
    }
    config
}

/// The path of the configuration file: `--config`, else the default file if it exists.
pub(crate) fn file(global: &GlobalOptions) -> Option<PathBuf> {
    global.config.clone().or_else(|| {
        let usual = PathBuf::from(DEFAULT_FILE);
        usual.exists().then_some(usual)
    })
}

/// How to read a pipe without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pipe {
    /// Waits for its writer.
    Wait,
    /// Fails, so that the server does not block.
    Refuse,
}

/// Reads configuration file `file`. Fails if it exceeds [`MAX_CONFIG_BYTES`].
pub(crate) fn read_bytes(file: &Path, pipe: Pipe) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.read(true);
    if pipe == Pipe::Refuse {
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let mut bytes = Vec::new();
    options.open(file)?.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_CONFIG_BYTES {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {} MiB", MAX_CONFIG_BYTES >> 20),
        )),
        false => Ok(bytes),
    }
}

/// Reads configuration file `file` as text. Fails if it is not UTF-8.
pub(crate) fn read(file: &Path, pipe: Pipe) -> anyhow::Result<String> {
    let bytes = read_bytes(file, pipe).advise(
        format!("the configuration {} cannot be read", file.display()),
        "name another file with --config, or create one with `toolcrib import`",
    )?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        advised(
            format!("the configuration {} is not UTF-8: line {line}", file.display()),
            "TOML files are UTF-8; save it in that encoding",
        )
    })
}

/// The data directory for a configuration with `[store] url` whose relative paths start from
/// `base`: `--data-dir`, or else the directory of a store with an absolute path, so that all
/// commands and the server find the same packs without `--data-dir`.
pub(crate) fn data_dir(global: &GlobalOptions, base: &Path, url: Option<&str>) -> PathBuf {
    let of_store = || {
        let path = Path::new(url?.strip_prefix("sqlite:")?);
        path.is_absolute().then(|| path.parent().map(Path::to_path_buf))?
    };
    let given = global.data_dir.clone();
    given.or_else(of_store).unwrap_or_else(|| base.join(DATA_DIR))
}

/// The packs in `data_dir`, and the bundled packs.
pub(crate) fn library(data_dir: &Path) -> Library {
    Library::new(data_dir.join(PACKS_DIR)).with_bundled(bundled::PACKS)
}

/// Warnings about a valid configuration.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let is_hidden = |tenants: &Tenants| matches!(tenants, Tenants::Only(only) if only.is_empty());
    let unseen = config.sources.iter().filter(|source| is_hidden(&source.tenants));
    let unseen = unseen.map(|source| {
        format!(
            "source `{}` has `tenants = []`, so its tools are hidden from all tenants; remove \
             `tenants` or name some",
            source.spec.id
        )
    });
    let keyless = config.sources.iter().filter(|_| config.store.seal_key.is_none());
    let unreadable = keyless.filter_map(|source| {
        let (id, spec) = (&source.spec.id, &source.spec);
        let what = match (&spec.account, &spec.credential) {
            (Some(_), _) => "acts with accounts, which requires",
            (None, Some(_)) => "names a credential, which requires",
            (None, None) => return None,
        };
        Some(format!(
            "source `{id}` {what} `[store] seal_key`; create a key with `toolcrib credentials \
             new-key`"
        ))
    });
    let unshown = (config.approvals.show_arguments && config.store.seal_key.is_none()).then(|| {
        "`[approvals] show_arguments` has no effect without `[store] seal_key`, because arguments are \
         stored only sealed; create a key with `toolcrib credentials new-key`"
            .to_owned()
    });
    unseen.chain(unreadable).chain(unshown).collect()
}

/// Returns the directory that relative paths in `file` start from.
pub(crate) fn base_of(file: &Path) -> PathBuf {
    file.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The API key of `--key-file`, `--key` or `TOOLCRIB_KEY`, in this order.
pub(crate) fn key(global: &GlobalOptions) -> anyhow::Result<Option<Secret>> {
    key_of(global.key_file.as_deref(), global.key.as_ref())
}

/// The API key in `file`, or else `key`.
pub(crate) fn key_of(file: Option<&Path>, key: Option<&Secret>) -> anyhow::Result<Option<Secret>> {
    match file {
        Some(file) => {
            env::read_secret(file).map(Some).map_err(anyhow::Error::msg).context("no key")
        }
        None => Ok(key.cloned()),
    }
}

/// Fails if `--url` is set, for commands that require the store. The error message starts with
/// `what`.
pub(crate) fn no_url(global: &GlobalOptions, what: &str) -> anyhow::Result<()> {
    match &global.url {
        None => Ok(()),
        Some(_) => Err(usage(format!(
            "{what} only on the machine of the server; remove --url and unset TOOLCRIB_URL"
        ))),
    }
}

/// Whether `text` is TOML without any key. Comments are allowed.
pub(crate) fn is_blank(text: &str) -> bool {
    toml::from_str(text).is_ok_and(|table: toml::Table| table.is_empty())
}

/// Returns `[store] url`, if it is set.
pub(crate) fn store_url(text: &str) -> Option<String> {
    let table: toml::Table = toml::from_str(text).ok()?;
    table.get("store")?.get("url")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_store_url_keeps_the_data_directory_away() {
        assert!(store_url("[store]\nurl = \"sqlite:x.db\"").is_some());
        assert!(store_url("store.url = \"sqlite:x.db\"").is_some());
        assert!(store_url("[server]\nlisten = \"127.0.0.1:1\"").is_none());
        assert!(store_url("# [store]\n# url = \"sqlite:x.db\"").is_none());
    }

    #[test]
    fn the_data_directory_of_the_packaged_configuration_is_that_of_its_store() {
        let given = |args: &[&str], text: &str| {
            let args = [&["toolcrib"], args, &["tools", "list"]].concat();
            let args = <crate::args::Args as clap::Parser>::try_parse_from(args).unwrap();
            data_dir(&args.global, Path::new("/etc/toolcrib"), store_url(text).as_deref())
        };
        let packaged = include_str!("../../../deploy/packages/toolcrib.toml");
        assert_eq!(given(&[], packaged), Path::new("/var/lib/toolcrib"));
        assert_eq!(given(&["--data-dir", "/x"], packaged), Path::new("/x"));
        for text in ["", "[store]\nurl = \"sqlite:x.db\"", "[store]\nurl = \"postgres://u@h/d\""] {
            assert_eq!(given(&[], text), Path::new("/etc/toolcrib/.toolcrib"), "{text}");
        }
    }
}
