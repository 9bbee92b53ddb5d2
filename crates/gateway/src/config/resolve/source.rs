//! `[[source]]`: the settings of all kinds, and the list of keys by kind.

mod command;
mod connector;
mod credential;
mod mcp;
mod pack;
mod rule;
mod workflow;

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use toml::Spanned;
use toolcrib_core::{
    catalog::Tenants,
    descriptor::SourceKind,
    egress::{Allow, AllowList},
    id::{SourceId, TenantId},
    names::NameStyle,
    redact,
    source::{
        SecretValue, SourceLimits, SourceSpec, StderrMode, Unusable, UpstreamSpec, pack::PackOffer,
    },
    suggest,
};

pub(super) use mcp::{check_header, check_url};
pub use pack::{pack_location, public_key};

use super::{Resolver, file, parse_duration};
use crate::config::{BreakerConfig, PinFirst, PinMode, PinPolicy, SourceConfig};

/// The kinds that a `[[source]]` can have.
const SERVED: &[SourceKind] = &[
    SourceKind::NodePack,
    SourceKind::Workflow,
    SourceKind::Mcp,
    SourceKind::Connector,
    SourceKind::HostExtension,
];

/// Keys that only some kinds have.
const KEYS: &[(&str, &[SourceKind])] = &[
    ("command", &[SourceKind::Mcp]),
    ("env", &[SourceKind::Mcp]),
    ("cwd", &[SourceKind::Mcp]),
    ("sandbox", &[SourceKind::Mcp]),
    ("stderr", &[SourceKind::Mcp, SourceKind::HostExtension]),
    ("url", &[SourceKind::Mcp]),
    ("headers", &[SourceKind::Connector, SourceKind::Mcp]),
    ("credential", &[SourceKind::Connector, SourceKind::Mcp, SourceKind::NodePack]),
    ("allow", &[SourceKind::Connector, SourceKind::Mcp, SourceKind::NodePack]),
    ("document", &[SourceKind::Connector]),
    ("base_url", &[SourceKind::Connector]),
    ("operations", &[SourceKind::Connector]),
    ("variables", &[SourceKind::Connector]),
    ("commands", &[SourceKind::HostExtension]),
    ("files", &[SourceKind::Workflow]),
    ("durable", &[SourceKind::Workflow]),
    ("pack", &[SourceKind::NodePack, SourceKind::Connector]),
    ("nodes", &[SourceKind::NodePack, SourceKind::Connector]),
    ("grants", &[SourceKind::NodePack, SourceKind::Connector]),
    ("memory", &[SourceKind::NodePack, SourceKind::Connector]),
    ("integrity", &[SourceKind::NodePack, SourceKind::Connector]),
    ("trusted_keys", &[SourceKind::NodePack, SourceKind::Connector]),
    ("pins", PINNED),
    ("pin_first", PINNED),
];

/// Kinds whose tools are described by a third party. The operator writes the others.
const PINNED: &[SourceKind] = &[SourceKind::NodePack, SourceKind::Mcp, SourceKind::Connector];

impl Resolver<'_> {
    pub(super) fn source(&mut self, mut typed: file::Source) -> Option<SourceConfig> {
        let id = self.read("source.id", Some(&typed.id), |text| SourceId::parse(text))?;
        let key = |member: &str| format!("source.{id}.{member}");
        let kind =
            self.read(&key("kind"), Some(&typed.kind), |text| match SourceKind::from_str(text) {
                Ok(kind) if SERVED.contains(&kind) => Ok(kind),
                Ok(_) => Err(format!("this version serves {} only", served())),
                Err(error) => {
                    let known = SERVED.iter().map(|kind| kind.as_str());
                    Err(format!("{error}{}", suggest::did_you_mean(text, known)))
                }
            })?;
        // Before any early return, so that all mistakes are reported at once.
        let tenants = match &typed.tenants {
            None => Some(Tenants::All),
            Some(tenants) => self.tenants(&key("tenants"), tenants),
        };
        let rules = std::mem::take(&mut typed.tools)
            .0
            .into_iter()
            .filter_map(|(pattern, rule)| self.rule(&id, kind, tenants.as_ref(), pattern, rule))
            .collect();
        self.foreign_keys(&id, kind, &typed);
        let missing = self.missing.len();
        let upstream = match kind {
            SourceKind::Mcp => self.mcp_source(&id, &mut typed),
            SourceKind::HostExtension => self.command_source(&id, &mut typed),
            SourceKind::Connector => self.connector_source(&id, &typed),
            SourceKind::Workflow => self.workflow_source(&id, &typed),
            SourceKind::NodePack => self.pack_source(&id, PackOffer::Nodes, &typed),
        };
        let upstream = self.withheld(&id, missing, upstream);
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
        let refresh = self.read(&key("refresh"), typed.refresh.as_ref(), parse_duration).unwrap_or(
            match kind {
                // Local files: reading them is cheap, and changes should show up soon.
                SourceKind::Workflow => Duration::from_secs(10),
                _ => Duration::from_secs(300),
            },
        );
        let pins = self.pin_policy(&id, kind, &typed);
        let tenants = tenants?;
        let breaker = match &typed.breaker {
            // Workflows run in this process, so a breaker has no purpose.
            None if kind == SourceKind::Workflow => None,
            None => Some(BreakerConfig::default()),
            Some(typed) => self.breaker(&key("breaker"), typed),
        };
        let credential = self.credential(&id, kind, &typed, &tenants);
        Some(SourceConfig {
            spec: SourceSpec { id, upstream: upstream?, limits, credential },
            kind,
            tenants,
            names,
            refresh,
            pins,
            breaker,
            rules,
        })
    }

    /// Returns `upstream`, or an unusable one if a secret of it is missing. Its missing secrets are
    /// those after the first `before`.
    fn withheld(
        &mut self,
        id: &SourceId,
        before: usize,
        upstream: Option<UpstreamSpec>,
    ) -> Option<UpstreamSpec> {
        let mut reason = None;
        for missing in self.missing.iter_mut().skip(before) {
            missing.source = Some(id.clone());
            reason.get_or_insert_with(|| missing.problem.message.clone());
        }
        let upstream = upstream?;
        Some(match reason {
            None => upstream,
            Some(reason) => {
                UpstreamSpec::Unusable(Unusable { upstream: Box::new(upstream), reason })
            }
        })
    }

    /// Resolves a list of tenants; `*` means all.
    pub(super) fn tenants(&mut self, key: &str, typed: &Spanned<Vec<String>>) -> Option<Tenants> {
        if typed.get_ref().iter().any(|tenant| tenant == "*") {
            return Some(Tenants::All);
        }
        self.scopes(key, typed, |text| TenantId::parse(text)).map(Tenants::Only)
    }

    fn pin_policy(&mut self, id: &SourceId, kind: SourceKind, typed: &file::Source) -> PinPolicy {
        let key = |member: &str| format!("source.{id}.{member}");
        let mode = self.read(&key("pins"), typed.pins.as_ref(), |text| match text {
            "enforce" => Ok(PinMode::Enforce),
            "warn" => Ok(PinMode::Warn),
            "off" => Ok(PinMode::Off),
            _ => Err("expected \"enforce\", \"warn\" or \"off\""),
        });
        let first = self.read(&key("pin_first"), typed.pin_first.as_ref(), |text| match text {
            "trust" => Ok(PinFirst::Trust),
            "approve" => Ok(PinFirst::Approve),
            _ => Err("expected \"trust\" or \"approve\""),
        });
        if !PINNED.contains(&kind) {
            return PinPolicy::OFF;
        }
        PinPolicy {
            mode: mode.unwrap_or(PinMode::Enforce),
            first: first.unwrap_or(PinFirst::Trust),
        }
    }

    fn breaker(
        &mut self,
        key: &str,
        typed: &Spanned<file::BreakerChoice>,
    ) -> Option<BreakerConfig> {
        let at = typed.span().start;
        let set = match typed.get_ref() {
            file::BreakerChoice::Word(word) => {
                if word != "off" {
                    let message = "expected \"off\", or a table of `failures`, `window` and `open`";
                    self.complain(at, key, message);
                }
                return None;
            }
            file::BreakerChoice::Set(set) => set,
        };
        let usual = BreakerConfig::default();
        let mut time = |member: &str, typed: Option<&String>, usual: Duration| match typed {
            None => usual,
            Some(text) => parse_duration(text).unwrap_or_else(|problem| {
                self.complain(at, &format!("{key}.{member}"), problem);
                usual
            }),
        };
        let window = time("window", set.window.as_ref(), usual.window);
        let open = time("open", set.open.as_ref(), usual.open);
        let failures = match set.failures {
            None => usual.failures,
            Some(failures @ 2..=100) => usize::try_from(failures).unwrap_or(usual.failures),
            Some(_) => {
                // A single failure is not enough to block a source for all callers.
                self.complain(at, &format!("{key}.failures"), "must be from 2 to 100");
                usual.failures
            }
        };
        Some(BreakerConfig { failures, window, open })
    }

    /// Reports keys that belong to other kinds.
    fn foreign_keys(&mut self, id: &SourceId, kind: SourceKind, typed: &file::Source) {
        for (key, kinds) in KEYS {
            if typed.has(key) && !kinds.contains(&kind) {
                let owners: Vec<_> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
                let message = format!("is only for a source of kind {}", owners.join(" or "));
                self.complain(typed.id.span().start, &format!("source.{id}.{key}"), message);
            }
        }
    }

    /// Resolves the addresses that a source may reach in addition to public ones.
    fn allow_list(&mut self, id: &SourceId, typed: &[Spanned<String>]) -> Option<AllowList> {
        self.allowed(&format!("source.{id}.allow"), typed)
    }

    /// Resolves a list of addresses that are allowed in addition to public ones.
    pub(super) fn allowed(&mut self, key: &str, typed: &[Spanned<String>]) -> Option<AllowList> {
        let before = self.problems.len();
        let entries: AllowList =
            typed.iter().filter_map(|entry| self.read(key, Some(entry), Allow::from_str)).collect();
        (self.problems.len() == before).then_some(entries)
    }

    /// Resolves `[sources] env`: the environment of every child.
    pub(super) fn shared_env(
        &mut self,
        typed: &BTreeMap<String, Spanned<file::Value>>,
    ) -> BTreeMap<String, SecretValue> {
        for (name, value) in typed {
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = "expected the name of an environment variable";
                self.complain(value.span().start, &format!("sources.env.{name}"), message);
            }
        }
        self.values("sources.env", typed).unwrap_or_default()
    }

    /// Resolves the environment of a child: the shared one, overridden by its own.
    fn child_env(
        &mut self,
        key: &str,
        own: &BTreeMap<String, Spanned<file::Value>>,
    ) -> Option<BTreeMap<String, SecretValue>> {
        let own = self.values(key, own)?;
        let mut env = self.shared_env.clone();
        env.extend(own);
        Some(env)
    }

    /// Resolves the destination of the stderr of a source's children.
    fn stderr(&mut self, id: &SourceId, typed: &file::Source) -> StderrMode {
        let key = format!("source.{id}.stderr");
        let read = self.read(&key, typed.stderr.as_ref(), |text| match text {
            "keep" => Ok(StderrMode::Keep),
            "log" => Ok(StderrMode::Log),
            _ => Err("expected \"keep\" (the last lines, in memory) or \"log\""),
        });
        read.unwrap_or_default()
    }

    /// Resolves secrets and plain values by name, for an environment or headers. Missing secrets
    /// are left out.
    pub(super) fn values(
        &mut self,
        key: &str,
        typed: &BTreeMap<String, Spanned<file::Value>>,
    ) -> Option<BTreeMap<String, SecretValue>> {
        let mut values = BTreeMap::new();
        let before = self.problems.len();
        for (name, value) in typed {
            let key = format!("{key}.{name}");
            let offset = value.span().start;
            if matches!(value.get_ref(), file::Value::Plain(_)) && redact::is_secret_key(name) {
                let message = "a secret must not be in this file: write { env = \"NAME\" } \
                               or { file = \"path\" }";
                self.complain(offset, &key, message);
                continue;
            }
            if let Some(secret) = self.referred(offset, &key, value.get_ref()) {
                values.insert(name.clone(), SecretValue(secret));
            }
        }
        (self.problems.len() == before).then_some(values)
    }
}

fn served() -> String {
    let kinds: Vec<_> = SERVED.iter().map(|kind| format!("kind \"{kind}\"")).collect();
    kinds.join(", ")
}
