//! Validates the types of the file and converts them to [`Config`]. Collects all problems, not only
//! the first.

mod approvals;
mod mcp;
mod policy;
mod record;
mod source;
mod store;
mod tokens;
mod toolset;

pub use source::{pack_location, public_key};
pub(crate) use tokens::is_private_enough;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    num::NonZeroU32,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use toml::Spanned;
use toolcrib_core::{
    credential::Secret,
    id::TenantId,
    limit::Rate,
    quota::Quota,
    scope::{Grant, ScopeSet},
    source::SecretValue,
};

use super::{
    AnonymousConfig, Config, ConfigError, DeniedCalls, ExplorerPolicy, ListBody, MissingSecret,
    MountAuth, Problem, Protection, SecretReader,
    document::{self, Document, line_of},
    file,
    protected::NamedPath,
    units::{parse_age, parse_duration, parse_size},
};

/// A configuration that was read. Use [`complete`](Self::complete), or
/// [`without_missing`](Self::without_missing) for a command that needs only some of its secrets.
#[derive(Debug)]
pub struct Reading {
    file: String,
    config: Config,
    problems: Vec<Problem>,
    missing: Vec<MissingSecret>,
    is_toml: bool,
}

impl Reading {
    /// Returns the configuration with all its secrets.
    ///
    /// # Errors
    /// Fails with all problems, missing secrets included.
    pub fn complete(self) -> Result<Config, ConfigError> {
        let problems = self.problems();
        self.or(problems).map(|(config, _)| config)
    }

    /// Returns the configuration without its missing secrets, and the list of these. A source that
    /// needs a missing secret is unusable, and settings for servers may be incomplete.
    ///
    /// # Errors
    /// Fails with all problems other than missing secrets.
    pub fn without_missing(mut self) -> Result<(Config, Vec<MissingSecret>), ConfigError> {
        let problems = std::mem::take(&mut self.problems);
        self.or(problems)
    }

    /// Returns all problems, missing secrets included.
    pub fn problems(&self) -> Vec<Problem> {
        let missing = self.missing.iter().map(|missing| missing.problem.clone());
        self.problems.iter().cloned().chain(missing).collect()
    }

    /// Returns the readable parts, for further checks; `None` when the file is not TOML. Invalid
    /// values are left out or have their defaults.
    pub fn partial(&self) -> Option<&Config> {
        self.is_toml.then_some(&self.config)
    }

    fn or(self, problems: Vec<Problem>) -> Result<(Config, Vec<MissingSecret>), ConfigError> {
        match problems.is_empty() {
            true => Ok((self.config, self.missing)),
            false => Err(ConfigError::new(self.file, problems)),
        }
    }
}

/// Parses the text of the configuration file `name`, with all its secrets. Relative paths are
/// resolved against `base`.
///
/// # Errors
/// Fails with all problems, each with file, line, key and the expected value.
pub fn parse(
    name: &str,
    text: &str,
    base: &Path,
    secrets: &dyn SecretReader,
) -> Result<Config, ConfigError> {
    read(name, text, base, secrets).complete()
}

/// Reads the text of the configuration file `name`, as far as it is valid.
pub fn read(name: &str, text: &str, base: &Path, secrets: &dyn SecretReader) -> Reading {
    let mut document = document::read(text);
    let typed = std::mem::take(&mut document.file);
    let problems = std::mem::take(&mut document.problems);
    let is_toml = document.is_toml;
    let (missing, protection) = (Vec::new(), Protection::default());
    let mut resolver = Resolver {
        text,
        base,
        secrets,
        document,
        problems,
        missing,
        protection,
        shared_env: BTreeMap::new(),
    };
    let mut config = match is_toml {
        true => resolver.config(typed),
        false => Config::empty(base),
    };
    let Resolver { problems, missing, protection, .. } = resolver;
    config.protection = protection;
    Reading { file: name.to_owned(), config, problems, missing, is_toml }
}

struct Resolver<'a> {
    text: &'a str,
    base: &'a Path,
    secrets: &'a dyn SecretReader,
    document: Document,
    problems: Vec<Problem>,
    missing: Vec<MissingSecret>,
    protection: Protection,
    /// The environment of every child; empty if it is invalid.
    shared_env: BTreeMap<String, SecretValue>,
}

impl Resolver<'_> {
    /// Returns the text that `{ env = … }` or `{ file = … }` refers to. An unreadable secret is
    /// remembered as missing; whether that is an error depends on the command.
    fn referred(&mut self, offset: usize, key: &str, typed: &file::Value) -> Option<Secret> {
        let secret = match typed {
            file::Value::Plain(text) => Ok(Secret::new(text.clone())),
            file::Value::Env(variable) => self
                .secrets
                .env(variable)
                .ok_or_else(|| format!("environment variable {variable} is not set")),
            file::Value::File(path) => {
                let path = self.base.join(path);
                let secret = self.secrets.file(&path);
                // Confined programs must not read it.
                self.protection.secrets.insert(path);
                secret
            }
        };
        secret
            .map_err(|message| {
                let line = Some(line_of(self.text, offset));
                let problem = Problem { line, key: Some(key.to_owned()), message };
                self.missing.push(MissingSecret { source: None, problem });
            })
            .ok()
    }

    fn complain(&mut self, offset: usize, key: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            line: Some(line_of(self.text, offset)),
            key: Some(key.to_owned()),
            message: message.into(),
        });
    }

    /// Like [`complain`](Self::complain), unless a part of `table` was invalid: that is reported
    /// already, and may be the reason for a missing or superfluous key.
    fn complain_of_absence(
        &mut self,
        offset: usize,
        table: &str,
        key: &str,
        message: impl Into<String>,
    ) {
        if !self.document.has_broken(table) {
            self.complain(offset, key, message);
        }
    }

    /// Returns a path that a confined program may reach, and remembers it for later checks.
    fn reachable(&mut self, key: &str, typed: &Spanned<String>, is_written: bool) -> PathBuf {
        let path = self.base.join(typed.get_ref());
        let line = line_of(self.text, typed.span().start);
        let key = key.to_owned();
        self.protection.named.push(NamedPath { line, key, path: path.clone(), is_written });
        path
    }

    /// Parses `value` by `read`, or reports a problem.
    fn read<T, E: ToString>(
        &mut self,
        key: &str,
        value: Option<&Spanned<String>>,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = value?;
        match read(value.get_ref()) {
            Ok(read) => Some(read),
            Err(error) => {
                self.complain(value.span().start, key, error.to_string());
                None
            }
        }
    }

    fn config(&mut self, typed: file::File) -> Config {
        let mut config = Config::empty(self.base);
        self.server(&mut config, &typed.server);
        self.store(&mut config.store, &typed.store);
        self.record(&mut config.record, typed.record);
        self.gate(&mut config, &typed.gate);
        self.approvals(&mut config.approvals, typed.approvals);
        self.policy(&mut config, &typed.policy);
        config.roles = self.roles(&typed.role);
        config.gate.role_quotas = self.role_quotas(&typed.role);
        config.anonymous = typed.anonymous.as_ref().and_then(|a| self.anonymous(a));
        if let Some(shape) = typed.openwop.list_body {
            config.openwop.list_body = match shape {
                file::ListBody::Array => ListBody::Array,
                file::ListBody::Envelope => ListBody::Envelope,
            };
        }
        let anonymous = config.anonymous.is_some();
        config.otc.auth = self.mount("otc.auth", typed.otc.auth.as_ref(), anonymous);
        config.otc_jwt = typed.otc.jwt.and_then(|jwt| self.shared_jwt(jwt));
        config.oxp.auth = self.mount("oxp.auth", typed.oxp.auth.as_ref(), anonymous);
        config.oxp.enabled = typed.oxp.enabled.unwrap_or(config.oxp.enabled);
        config.mcp.auth = self.mount("mcp.auth", typed.mcp.auth.as_ref(), anonymous);
        self.mcp(&mut config.mcp, &typed.mcp);
        config.issuers = self.issuers(typed.auth.jwt.0, config.otc_jwt.is_some());
        config.resource = typed.auth.resource.and_then(|resource| self.resource(resource));
        self.explorer(&mut config, typed.explorer);
        config.toolsets = self.toolsets(typed.toolset.0);
        self.shared_env = self.shared_env(&typed.sources.env);
        let mut seen = BTreeSet::new();
        for source in typed.source {
            let offset = source.id.span().start;
            let Some(source) = self.source(source) else { continue };
            // Source ids that differ only in `-` and `_` would share an OTC toolkit.
            if !seen.insert(source.spec.id.as_str().replace('-', "_")) {
                let key = format!("source.{}.id", source.spec.id);
                self.complain(
                    offset,
                    &key,
                    "another source has this id (`-` and `_` count as equal)",
                );
            }
            config.sources.push(source);
        }
        config
    }

    fn server(&mut self, config: &mut Config, typed: &file::Server) {
        let server = &mut config.server;
        server.behind_proxy = typed.behind_proxy;
        server.allowed_hosts.clone_from(&typed.allowed_hosts);
        server.allowed_origins.clone_from(&typed.allowed_origins);
        server.public_metrics = typed.public_metrics;
        let listen = self.read("server.listen", typed.listen.as_ref(), |text| {
            SocketAddr::from_str(text)
                .map_err(|_| "expected an address and a port such as \"127.0.0.1:8808\"")
        });
        if let Some(listen) = listen {
            config.server.listen = listen;
        }
        if let Some(bytes) = self.read("server.max_body", typed.max_body.as_ref(), parse_size) {
            config.server.max_body_bytes = bytes;
        }
        let one = config.server.max_body_bytes;
        let total = self.read("server.max_body_total", typed.max_body_total.as_ref(), |text| {
            match parse_size(text)? {
                total if total < one => {
                    Err(format!("must be at least `server.max_body`, which is {one} bytes"))
                }
                total => Ok(total),
            }
        });
        let total = total.unwrap_or(config.server.max_body_total_bytes);
        config.server.max_body_total_bytes = total.max(one);
    }

    fn gate(&mut self, config: &mut Config, typed: &file::Gate) {
        if let Some(rate) = self.read("gate.rate", typed.rate.as_ref(), parse_rate) {
            config.gate.rate = rate;
        }
        if let Some(burst) = self.burst("gate.burst", typed.burst.as_ref()) {
            config.gate.rate = config.gate.rate.map(|rate| rate.with_burst(burst));
        }
        if let Some(quota) = self.read("gate.quota", typed.quota.as_ref(), parse_quota) {
            config.gate.quota = quota;
        }
        let ttl = self.read("gate.idempotency_ttl", typed.idempotency_ttl.as_ref(), |text| {
            let longest = Duration::from_secs(30 * 86_400);
            match parse_age(text)? {
                ttl if ttl > longest => Err("is more than 30 days".to_owned()),
                ttl => Ok(ttl),
            }
        });
        if let Some(ttl) = ttl {
            config.gate.idempotency_ttl = ttl;
        }
        if let Some(timeout) = self.read("gate.timeout", typed.timeout.as_ref(), parse_duration) {
            config.gate.timeout = timeout;
        }
        if let Some(bytes) = self.read("gate.max_result", typed.max_result.as_ref(), parse_size) {
            config.gate.max_result_bytes = bytes;
        }
        if let Some(denied) = typed.denied_calls {
            config.gate.denied_calls = match denied {
                file::DeniedCalls::Forbidden => DeniedCalls::Forbidden,
                file::DeniedCalls::NotFound => DeniedCalls::NotFound,
            };
        }
    }

    fn burst(&mut self, key: &str, typed: Option<&Spanned<u32>>) -> Option<NonZeroU32> {
        let typed = typed?;
        let burst = NonZeroU32::new(*typed.get_ref());
        if burst.is_none() {
            self.complain(typed.span().start, key, "must be at least 1");
        }
        burst
    }

    fn roles(&mut self, typed: &[file::Role]) -> BTreeMap<String, Vec<Grant>> {
        let mut roles = BTreeMap::new();
        for role in typed {
            let name = role.name.get_ref();
            let key = format!("role.{name}");
            if name.is_empty() {
                self.complain(role.name.span().start, "role.name", "is empty");
            }
            let grants = self.scopes(&format!("{key}.scopes"), &role.scopes, Grant::parse);
            if roles.insert(name.clone(), grants.unwrap_or_default()).is_some() {
                self.complain(role.name.span().start, &key, "is defined twice");
            }
        }
        roles
    }

    fn role_quotas(&mut self, typed: &[file::Role]) -> BTreeMap<String, Option<Quota>> {
        let mut quotas = BTreeMap::new();
        for role in typed {
            let name = role.name.get_ref();
            let key = format!("role.{name}.quota");
            if let Some(quota) = self.read(&key, role.quota.as_ref(), parse_quota) {
                quotas.insert(name.clone(), quota);
            }
        }
        quotas
    }

    fn anonymous(&mut self, typed: &file::Anonymous) -> Option<AnonymousConfig> {
        let scopes = self.scopes("anonymous.scopes", &typed.scopes, Grant::parse);
        let tenant =
            self.read("anonymous.tenant", Some(&typed.tenant), |text| TenantId::parse(text));
        Some(AnonymousConfig { tenant: tenant?, scopes: ScopeSet::new(scopes?) })
    }

    fn scopes<T, E: ToString>(
        &mut self,
        key: &str,
        typed: &Spanned<Vec<String>>,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        match typed.get_ref().iter().map(|text| read(text)).collect() {
            Ok(scopes) => Some(scopes),
            Err(error) => {
                self.complain(typed.span().start, key, error.to_string());
                None
            }
        }
    }

    fn mount(
        &mut self,
        key: &str,
        typed: Option<&Spanned<file::Auth>>,
        anonymous: bool,
    ) -> MountAuth {
        match typed.map(|auth| (auth.get_ref(), auth.span().start)) {
            None | Some((file::Auth::Required, _)) => MountAuth::Required,
            Some((file::Auth::Optional, offset)) => {
                if !anonymous {
                    let message = "\"optional\" needs an [anonymous] table that says which tenant \
                                   and scopes callers without credentials get";
                    self.complain_of_absence(offset, "anonymous", key, message);
                }
                MountAuth::Optional
            }
        }
    }

    fn explorer(&mut self, config: &mut Config, typed: file::Explorer) {
        if let Some(policy) = &typed.policy {
            config.explorer.policy = match policy.get_ref() {
                file::ExplorerPolicy::All => ExplorerPolicy::All,
                file::ExplorerPolicy::CallOnly => ExplorerPolicy::CallOnly,
                file::ExplorerPolicy::SpecPublic => ExplorerPolicy::SpecPublic,
                file::ExplorerPolicy::None => ExplorerPolicy::Nothing,
            };
            if config.explorer.policy != ExplorerPolicy::All && config.anonymous.is_none() {
                let message = "anything but \"all\" needs an [anonymous] table that says which \
                               tenant and scopes callers without credentials get";
                let at = policy.span().start;
                self.complain_of_absence(at, "anonymous", "explorer.policy", message);
            }
        }
        let prefix = self.read("explorer.prefix", typed.prefix.as_ref(), |text| {
            let segments = text.strip_prefix('/').is_some_and(|rest| {
                !rest.is_empty()
                    && rest.split('/').all(|segment| {
                        !segment.is_empty()
                            && segment
                                .bytes()
                                .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
                    })
            });
            let taken = ["/v1", "/mcp", "/tools", "/oxp", "/health", "/schemas", "/metrics"];
            match text {
                _ if !segments => Err("expected a path such as \"/explorer\", without a final `/`"),
                _ if taken.iter().any(|t| text == *t || text.starts_with(&format!("{t}/"))) => {
                    Err("another surface has this path; choose another prefix")
                }
                _ => Ok(text.to_owned()),
            }
        });
        let explorer = &mut config.explorer;
        if let Some(prefix) = prefix {
            explorer.prefix = prefix;
        }
        if let Some(allow) = typed.allow_execute {
            explorer.allow_execute = allow;
        }
        if let Some(title) = typed.title {
            explorer.title = title;
        }
        explorer.project_name = typed.project_name;
        explorer.project_url = typed.project_url;
    }
}

fn parse_quota(text: &str) -> Result<Option<Quota>, String> {
    if text == "off" {
        return Ok(None);
    }
    Quota::from_str(text)
        .map(Some)
        .map_err(|_| "expected calls per day such as \"10000/d\", or \"off\"".to_owned())
}

fn parse_rate(text: &str) -> Result<Option<Rate>, String> {
    if text == "off" {
        return Ok(None);
    }
    Rate::parse(text)
        .map(Some)
        .map_err(|_| "expected calls per time such as \"30/m\" or \"5/s\", or \"off\"".to_owned())
}
