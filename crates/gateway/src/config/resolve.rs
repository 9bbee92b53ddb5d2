//! From what was typed to what it means. All problems are collected, not just the first.

mod mcp;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
    str::FromStr,
};

use globset::Glob;
use toml::Spanned;
use toolcrib_core::{
    catalog::Tenants,
    credential::Secret,
    descriptor::{Egress, ReplayPolicy, SafetyTier, SourceKind},
    id::{SourceId, TenantId},
    limit::Rate,
    names::NameStyle,
    redact,
    scope::{Grant, Scope, ScopeSet},
    source::{HttpSpec, SecretValue, SourceLimits, SourceSpec, StdioSpec, UpstreamSpec},
};

use super::{
    AnonymousConfig, Classification, Config, ConfigError, DeniedCalls, Durability, ExplorerPolicy,
    ListBody, MountAuth, Problem, SecretReader, SourceConfig, ToolRule, file,
    units::{parse_duration, parse_size},
};

/// Reads the text of configuration file `name`. Relative paths in it start from `base`.
///
/// # Errors
/// Everything that is wrong, each with file, line, key and what was expected.
pub fn parse(
    name: &str,
    text: &str,
    base: &Path,
    secrets: &dyn SecretReader,
) -> Result<Config, ConfigError> {
    let typed: file::File = toml::from_str(text).map_err(|error| ConfigError {
        file: name.to_owned(),
        problems: vec![Problem {
            line: error.span().map(|span| line_of(text, span.start)),
            key: None,
            message: error.message().to_owned(),
        }],
    })?;
    let mut resolver = Resolver { text, base, secrets, problems: Vec::new() };
    let config = resolver.config(typed);
    match resolver.problems {
        problems if problems.is_empty() => Ok(config),
        problems => Err(ConfigError { file: name.to_owned(), problems }),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

struct Resolver<'a> {
    text: &'a str,
    base: &'a Path,
    secrets: &'a dyn SecretReader,
    problems: Vec<Problem>,
}

impl Resolver<'_> {
    fn complain(&mut self, offset: usize, key: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            line: Some(line_of(self.text, offset)),
            key: Some(key.to_owned()),
            message: message.into(),
        });
    }

    /// `value` read by `read`, or a complaint.
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
        if let Some(path) = self.read("store.url", typed.store.url.as_ref(), sqlite_path) {
            config.store.path = self.base.join(path);
        }
        if let Some(durability) = typed.record.durability {
            config.record.durability = match durability {
                file::Durability::Strict => Durability::Strict,
                file::Durability::Relaxed => Durability::Relaxed,
            };
        }
        self.gate(&mut config, &typed.gate);
        config.roles = self.roles(&typed.role);
        config.anonymous = typed.anonymous.as_ref().and_then(|a| self.anonymous(a));
        if let Some(shape) = typed.openwop.list_body {
            config.openwop.list_body = match shape {
                file::ListBody::Array => ListBody::Array,
                file::ListBody::Envelope => ListBody::Envelope,
            };
        }
        let anonymous = config.anonymous.is_some();
        config.otc.auth = self.mount("otc.auth", typed.otc.auth.as_ref(), anonymous);
        config.oxp.auth = self.mount("oxp.auth", typed.oxp.auth.as_ref(), anonymous);
        config.oxp.enabled = typed.oxp.enabled.unwrap_or(config.oxp.enabled);
        config.mcp.auth = self.mount("mcp.auth", typed.mcp.auth.as_ref(), anonymous);
        self.mcp(&mut config.mcp, &typed.mcp);
        config.resource = typed.auth.resource.and_then(|resource| self.resource(resource));
        self.explorer(&mut config, typed.explorer);
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
    }

    fn gate(&mut self, config: &mut Config, typed: &file::Gate) {
        if let Some(rate) = self.read("gate.rate", typed.rate.as_ref(), parse_rate) {
            config.gate.rate = rate;
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
                    self.complain(offset, key, message);
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
                self.complain(policy.span().start, "explorer.policy", message);
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
                    Err("another surface lives there; choose another prefix")
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

    fn source(&mut self, mut typed: file::Source) -> Option<SourceConfig> {
        let id = self.read("source.id", Some(&typed.id), |text| SourceId::parse(text))?;
        let key = |member: &str| format!("source.{id}.{member}");
        let kind =
            self.read(&key("kind"), Some(&typed.kind), |text| match SourceKind::from_str(text) {
                Ok(SourceKind::Mcp) => Ok(SourceKind::Mcp),
                Ok(_) => Err("this version serves kind \"mcp\" only".to_owned()),
                Err(error) => Err(error.to_string()),
            })?;
        // Before anything that may end this early, so that all mistakes are told at once.
        let rules = std::mem::take(&mut typed.tools)
            .0
            .into_iter()
            .filter_map(|(pattern, rule)| self.rule(&id, kind, pattern, rule))
            .collect();
        let upstream = self.upstream(&id, &typed);
        let mut limits = SourceLimits::default();
        if let Some(timeout) =
            self.read(&key("connect_timeout"), typed.connect_timeout.as_ref(), parse_duration)
        {
            limits.connect_timeout = timeout;
        }
        if let Some(typed) = &typed.max_concurrency {
            limits.max_concurrency = *typed.get_ref();
            if limits.max_concurrency == 0 {
                self.complain(typed.span().start, &key("max_concurrency"), "must be at least 1");
            }
        }
        let names = self
            .read(&key("names"), typed.names.as_ref(), |text| match text {
                "prefixed" => Ok(NameStyle::Prefixed),
                "bare" => Ok(NameStyle::Bare),
                _ => Err("expected \"prefixed\" or \"bare\""),
            })
            .unwrap_or_default();
        let refresh = self
            .read(&key("refresh"), typed.refresh.as_ref(), parse_duration)
            .unwrap_or(std::time::Duration::from_secs(300));
        let tenants = match &typed.tenants {
            None => Tenants::All,
            Some(tenants) if tenants.get_ref().iter().any(|tenant| tenant == "*") => Tenants::All,
            Some(tenants) => {
                let only = self.scopes(&key("tenants"), tenants, |text| TenantId::parse(text))?;
                Tenants::Only(only)
            }
        };
        Some(SourceConfig {
            spec: SourceSpec { id, upstream: upstream?, limits },
            kind,
            tenants,
            names,
            refresh,
            rules,
        })
    }

    fn upstream(&mut self, id: &SourceId, typed: &file::Source) -> Option<UpstreamSpec> {
        let key = |member: &str| format!("source.{id}.{member}");
        let at = typed.id.span().start;
        match (&typed.command, &typed.url) {
            (Some(command), None) => {
                if command.get_ref().first().is_none_or(String::is_empty) {
                    let message =
                        "expected a program and its arguments, such as [\"node\", \"server.js\"]";
                    self.complain(command.span().start, &key("command"), message);
                    return None;
                }
                if !typed.headers.is_empty() {
                    self.complain(at, &key("headers"), "only a source with `url` has headers");
                }
                Some(UpstreamSpec::McpStdio(StdioSpec {
                    command: command.get_ref().clone(),
                    env: self.values(&key("env"), &typed.env)?,
                    cwd: typed.cwd.as_ref().map(|cwd| self.base.join(cwd)),
                }))
            }
            (None, Some(url)) => {
                let checked = self.read(&key("url"), Some(url), check_url);
                if !typed.env.is_empty() || typed.cwd.is_some() {
                    self.complain(
                        at,
                        &key("env"),
                        "only a source with `command` has `env` and `cwd`",
                    );
                }
                for (name, value) in &typed.headers {
                    if let Err(problem) = check_header(name) {
                        let key = key(&format!("headers.{name}"));
                        self.complain(value.span().start, &key, problem);
                    }
                }
                let headers = self.values(&key("headers"), &typed.headers)?;
                Some(UpstreamSpec::McpHttp(HttpSpec { url: checked?, headers }))
            }
            (Some(_), Some(url)) => {
                self.complain(
                    url.span().start,
                    &key("url"),
                    "expected either `command` or `url`, not both",
                );
                None
            }
            (None, None) => {
                self.complain(
                    at,
                    &key("command"),
                    "expected `command = [\"program\", …]` or `url = \"https://…\"`",
                );
                None
            }
        }
    }

    fn values(
        &mut self,
        key: &str,
        typed: &BTreeMap<String, Spanned<file::Value>>,
    ) -> Option<BTreeMap<String, SecretValue>> {
        let mut values = BTreeMap::new();
        let before = self.problems.len();
        for (name, value) in typed {
            let key = format!("{key}.{name}");
            let offset = value.span().start;
            let secret = match value.get_ref() {
                file::Value::Plain(_) if redact::is_secret_key(name) => {
                    let message = "a secret must not stand in this file: write { env = \"NAME\" } \
                                   or { file = \"path\" }";
                    self.complain(offset, &key, message);
                    continue;
                }
                file::Value::Plain(text) => Ok(Secret::new(text.clone())),
                file::Value::Env(variable) => self
                    .secrets
                    .env(variable)
                    .ok_or_else(|| format!("environment variable {variable} is not set")),
                file::Value::File(path) => self.secrets.file(&self.base.join(path)),
            };
            match secret {
                Ok(secret) => {
                    values.insert(name.clone(), SecretValue(secret));
                }
                Err(problem) => self.complain(offset, &key, problem),
            }
        }
        (self.problems.len() == before).then_some(values)
    }

    fn rule(
        &mut self,
        id: &SourceId,
        kind: SourceKind,
        pattern: String,
        rule: Spanned<file::Tool>,
    ) -> Option<ToolRule> {
        let at = rule.span().start;
        let typed = rule.into_inner();
        let prefix = format!("source.{id}.tools.\"{pattern}\"");
        let key = |member: &str| format!("{prefix}.{member}");
        let glob = match Glob::new(&pattern) {
            Ok(glob) => glob.compile_matcher(),
            Err(error) => {
                self.complain(at, &prefix, format!("is not a glob: {}", error.kind()));
                return None;
            }
        };
        let set = Classification {
            scopes: match &typed.scopes {
                None => None,
                Some(scopes) => Some(self.scopes(&key("scopes"), scopes, Scope::parse)?),
            },
            safety_tier: self.read(&key("safety_tier"), typed.safety_tier.as_ref(), str::parse),
            egress: self.read(&key("egress"), typed.egress.as_ref(), str::parse),
            replay_policy: self.read(
                &key("replay_policy"),
                typed.replay_policy.as_ref(),
                str::parse,
            ),
            approval: self.read(&key("approval"), typed.approval.as_ref(), str::parse),
            rate: self.read(&key("rate"), typed.rate.as_ref(), parse_rate),
            timeout: self.read(&key("timeout"), typed.timeout.as_ref(), parse_duration),
            cost_hint: self.read(&key("cost_hint"), typed.cost_hint.as_ref(), str::parse),
            latency_hint: self.read(&key("latency_hint"), typed.latency_hint.as_ref(), str::parse),
            hide: typed.hide,
        };
        if set.safety_tier == Some(SafetyTier::Exec) && kind != SourceKind::HostExtension {
            let message = "\"exec\" is only for kind \"host-extension\"; use \"write\"";
            self.complain(at, &key("safety_tier"), message);
        }
        if set.safety_tier == Some(SafetyTier::Pure)
            && !matches!(set.egress, None | Some(Egress::None))
        {
            self.complain(at, &key("egress"), "a \"pure\" tool has no egress");
        }
        if set.replay_policy == Some(ReplayPolicy::Deterministic)
            && matches!(set.safety_tier, Some(SafetyTier::Write | SafetyTier::Exec))
        {
            let message = "a tool that changes state is not \"deterministic\"; use \"idempotent\" or \
                           \"non-deterministic\"";
            self.complain(at, &key("replay_policy"), message);
        }
        Some(ToolRule { pattern, glob, set })
    }
}

fn parse_rate(text: &str) -> Result<Option<Rate>, String> {
    if text == "off" {
        return Ok(None);
    }
    Rate::parse(text)
        .map(Some)
        .map_err(|_| "expected calls per time such as \"30/m\" or \"5/s\", or \"off\"".to_owned())
}

fn sqlite_path(url: &str) -> Result<String, &'static str> {
    match url.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Ok(path.to_owned()),
        _ => Err("expected \"sqlite:PATH\""),
    }
}

/// A field name (RFC 9110, section 5.1) that is not the transport's own.
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

fn check_url(text: &str) -> Result<String, &'static str> {
    let url =
        url::Url::parse(text).map_err(|_| "expected an address such as \"https://host/mcp\"")?;
    match url.scheme() {
        "http" | "https" => {}
        _ => return Err("expected an http or https address"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain user information; use `headers` with { env = … }");
    }
    Ok(text.to_owned())
}
