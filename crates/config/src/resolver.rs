//! Resolves references of the file: secrets, and paths relative to it. Collects all problems.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

use toolcrib_core::{
    credential::Secret,
    id::SourceId,
    redact,
    source::{SecretValue, command::RootPolicy},
};
use url::Url;

use super::{
    error::Problem,
    places::{Places, member},
    protected::{NamedPath, Protection},
    secret::{KeyPlace, Value},
};

const PLAIN_SECRET: &str =
    "a secret must not be in this file: write { env = \"NAME\" } or { file = \"path\" }";

/// Reads the secrets of `{ env = … }` and `{ file = … }`. The command line implements it.
pub trait SecretReader {
    /// Returns the value of an environment variable.
    fn env(&self, name: &str) -> Option<Secret>;

    /// Reads a file without its trailing line breaks; the error is the reason why it is unreadable.
    fn file(&self, path: &Path) -> Result<Secret, String>;
}

/// A secret that this process cannot read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingSecret {
    /// The source that needs it; `None` when only a server does.
    pub source: Option<SourceId>,
    /// The place of the reference, and the reason.
    pub problem: Problem,
}

/// The state of resolving one file. Keys are paths in the form of [`Places`].
pub(super) struct Resolver<'a> {
    pub(super) base: &'a Path,
    pub(super) secrets: &'a dyn SecretReader,
    pub(super) places: Places,
    /// The invalid keys, already removed and reported.
    pub(super) broken: BTreeSet<String>,
    pub(super) problems: Vec<Problem>,
    pub(super) missing: Vec<MissingSecret>,
    pub(super) protection: Protection,
    /// The environment of every child; empty if it is invalid.
    pub(super) shared_env: BTreeMap<String, SecretValue>,
    /// Whether programs in a sandbox may run as root.
    pub(super) root: RootPolicy,
    /// The names of the roles.
    pub(super) roles: BTreeSet<String>,
}

impl Resolver<'_> {
    pub(super) fn complain(&mut self, key: &str, message: impl Into<String>) {
        let problem = self.places.problem(key, message);
        self.problems.push(problem);
    }

    /// Like [`complain`](Self::complain), unless a part of `table` was invalid: its removal may be
    /// the reason for a missing or superfluous key.
    pub(super) fn complain_of_absence(
        &mut self,
        table: &str,
        key: &str,
        message: impl Into<String>,
    ) {
        let table = self.places.shown(table);
        let within = format!("{table}.");
        if !self.broken.iter().any(|other| *other == table || other.starts_with(&within)) {
            self.complain(key, message);
        }
    }

    /// Checks that each of `names` is a role of the file. If a role is invalid, every name is
    /// accepted, because that role may have it.
    pub(super) fn known_roles<'n>(
        &mut self,
        key: &str,
        names: impl IntoIterator<Item = &'n String>,
    ) {
        if self.broken.iter().any(|key| key.starts_with("role")) {
            return;
        }
        for name in names {
            if !self.roles.contains(name.as_str()) {
                self.complain(key, format!("the configuration has no role `{name}`"));
            }
        }
    }

    /// The value of `result`; an error is reported.
    pub(super) fn check<T, E: ToString>(&mut self, key: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.complain(key, error.to_string())).ok()
    }

    /// Parses each text of a list, or reports the first invalid one.
    pub(super) fn list<T, E: ToString>(
        &mut self,
        key: &str,
        texts: &[String],
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        self.check(key, texts.iter().map(|text| parse(text)).collect())
    }

    /// The key of the element of the array `key` that starts at `span`.
    pub(super) fn element(&self, key: &str, span: &Range<usize>) -> String {
        // A single table in place of an array.
        if span.is_empty() {
            return key.to_owned();
        }
        self.places.starting_at(span.start).unwrap_or(key).to_owned()
    }

    /// Reads the target of `{ env = … }` or `{ file = … }`. An unreadable secret is remembered as
    /// missing; the command decides whether that is an error.
    pub(super) fn referred(&mut self, key: &str, typed: &Value) -> Option<Secret> {
        let secret = match typed {
            Value::Plain(text) => Ok(Secret::new(text.clone())),
            Value::Env(variable) => self
                .secrets
                .env(variable)
                .ok_or_else(|| format!("environment variable {variable} is not set")),
            Value::File(path) => {
                let path = self.base.join(path);
                let secret = self.secrets.file(&path);
                // Confined programs must not read it.
                self.protection.secrets.insert(path);
                secret
            }
        };
        secret
            .map_err(|message| {
                let problem = self.places.problem(key, message);
                self.missing.push(MissingSecret { source: None, problem });
            })
            .ok()
    }

    /// Reads a secret; a plain value is rejected.
    pub(super) fn secret(&mut self, key: &str, typed: &Value) -> Option<Secret> {
        if matches!(typed, Value::Plain(_)) {
            self.complain(key, PLAIN_SECRET);
            return None;
        }
        self.referred(key, typed)
    }

    /// Resolves secrets and plain values by name, for an environment or headers. Missing secrets
    /// are left out.
    pub(super) fn values(
        &mut self,
        key: &str,
        typed: &BTreeMap<String, Value>,
    ) -> Option<BTreeMap<String, SecretValue>> {
        let mut values = BTreeMap::new();
        let before = self.problems.len();
        for (name, value) in typed {
            let key = member(key, name);
            if matches!(value, Value::Plain(_)) && redact::is_secret_key(name) {
                self.complain(&key, PLAIN_SECRET);
            } else if let Some(secret) = self.referred(&key, value) {
                values.insert(name.clone(), SecretValue(secret));
            }
        }
        (self.problems.len() == before).then_some(values)
    }

    /// Reports names and values that an environment cannot have.
    pub(super) fn check_variables(&mut self, key: &str, typed: &BTreeMap<String, Value>) {
        for (name, value) in typed {
            let key = member(key, name);
            if name.is_empty() || name.contains(['=', '\0']) {
                self.complain(&key, "expected the name of an environment variable");
            }
            if matches!(value, Value::Plain(text) if text.contains('\0')) {
                self.complain(&key, "a value of an environment has no NUL character");
            }
        }
    }

    /// Resolves the headers of requests.
    pub(super) fn headers(
        &mut self,
        key: &str,
        typed: &BTreeMap<String, Value>,
    ) -> Option<BTreeMap<String, SecretValue>> {
        for name in typed.keys() {
            self.check(&member(key, name), check_header(name));
        }
        self.values(key, typed)
    }

    /// Resolves the place of a key. Confined programs must not read it.
    pub(super) fn key_place(&mut self, typed: Option<KeyPlace>) -> Option<KeyPlace> {
        typed.map(|place| match place {
            KeyPlace::File(path) => {
                let path = self.base.join(path);
                self.protection.keys.insert(path.clone());
                KeyPlace::File(path)
            }
            elsewhere => elsewhere,
        })
    }

    /// Resolves a path that a forwarder or an anchor writes to, and remembers it for later checks.
    pub(super) fn output(&mut self, key: &str, typed: &str) -> PathBuf {
        let path = self.base.join(typed);
        let Problem { line, key, .. } = self.places.problem(key, "");
        self.protection.outputs.push(NamedPath { line, key, path: path.clone(), is_written: true });
        path
    }

    /// Resolves a path that a confined program may reach, and remembers it for later checks.
    pub(super) fn reachable(&mut self, key: &str, typed: &Path, is_written: bool) -> PathBuf {
        let path = self.base.join(typed);
        let Problem { line, key, .. } = self.places.problem(key, "");
        self.protection.named.push(NamedPath { line, key, path: path.clone(), is_written });
        path
    }
}

/// Checks a header name (RFC 9110, section 5.1); headers that the transport sets are rejected.
fn check_header(name: &str) -> Result<(), &'static str> {
    const OURS: &[&str] =
        &["accept", "connection", "content-length", "content-type", "transfer-encoding", "upgrade"];
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let lower = name.to_ascii_lowercase();
    match name {
        "" => Err("a header needs a name"),
        _ if !name.bytes().all(token) => Err("is not a header name"),
        _ if OURS.contains(&lower.as_str()) || lower.starts_with("mcp-") => {
            Err("is set by the protocol itself")
        }
        _ => Ok(()),
    }
}

/// Checks an address for requests.
pub(super) fn check_url(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text).map_err(|_| "expected an address such as \"https://host/mcp\"")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("expected an http or https address");
    }
    if has_user(&url) {
        return Err("must not contain user information; use `headers` with { env = … }");
    }
    Ok(text.to_owned())
}

pub(super) fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Whether `url` has only a scheme, a host, a port and a path.
pub(super) fn is_plain(url: &Url) -> bool {
    !has_user(url) && url.query().is_none() && url.fragment().is_none()
}
