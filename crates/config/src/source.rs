//! `[[source]]`: the settings of all kinds, and the forms with additional keys.
//!
//! A form is a kind, or a variant of a kind that one key selects. Its keys are the fields of its
//! type. [`split`] moves them to a separate table before the file is deserialized.

mod breaker;
mod command;
mod connector;
mod mcp;
mod oauth;
mod pack;
mod rule;
mod sandbox;
mod upstream;
mod workflow;

use std::{collections::BTreeMap, num::NonZeroUsize, sync::LazyLock, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};
use toolcrib_core::{
    catalog::Tenants,
    descriptor::SourceKind,
    id::SourceId,
    names::NameStyle,
    scope::Scope,
    source::{
        SecretValue, SourceLimits, SourceSpec, UnusableUpstream, UpstreamSpec, pack::PackOffer,
    },
};

pub use self::{
    breaker::BreakerConfig,
    pack::{pack_location, public_key},
    rule::{Classification, ToolRule},
    upstream::{PinFirst, PinMode, PinPolicy},
};
use super::{
    document::UnknownKey,
    ordered::OrderedTable,
    places::HIDDEN,
    resolver::Resolver,
    secret::Value,
    units::{self as kind, Kind as _},
};

/// A supplier of tools. Keys of one kind only are listed with the kind:
/// [mcp](../guides/mcp-servers.md), [connector](../guides/rest-api.md),
/// [workflow](../guides/workflows.md), [node-pack](../guides/node-packs.md),
/// [host-extension](../guides/host-commands.md).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    /// At most 32 of `a-z`, `0-9`, `_` and `-`, without `__`; part of every tool name.
    id: SourceId,
    /// The kind.
    kind: SourceKind,
    /// Tenants that the source exists for; `*` means all. One tenant for `mcp` with `credential`, and for
    /// `oauth`.
    #[serde(default = "all_tenants")]
    #[schemars(extend("default" = ["*"]))]
    tenants: Tenants,
    /// [Wire names](../explanation/protocols.md#names): `<source>__<name>`, or the server's own
    /// names.
    #[serde(default)]
    names: NameStyle,
    /// Time after which tools are read again without an announced change.
    #[serde(default, with = "kind::Duration")]
    #[schemars(extend("x-default" = "`\"5m\"`; `\"10s\"` for workflows"))]
    refresh: Option<Duration>,
    /// Limit for connecting.
    #[serde(default = "connect_timeout", with = "kind::Duration")]
    connect_timeout: Duration,
    /// Concurrent calls; further calls wait within their own deadline.
    #[serde(default = "max_concurrency")]
    max_concurrency: NonZeroUsize,
    /// Circuit breaker, or `"off"` ([limits](../guides/limits.md#breakers)).
    #[serde(default, deserialize_with = "breaker::choice")]
    #[schemars(with = "BreakerConfig")]
    breaker: Option<Option<BreakerConfig>>,
    /// Rules by glob over the source's own tool names.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Classification>")]
    tools: OrderedTable<Classification>,
    /// The keys of its form.
    #[serde(default)]
    form: Option<Form>,
}

/// The forms of a source: kinds, or variants of a kind.
#[derive(Debug, Deserialize, JsonSchema)]
enum Form {
    #[serde(rename = "mcp with command")]
    Program(mcp::Program),
    #[serde(rename = "mcp with url")]
    Server(mcp::Server),
    #[serde(rename = "connector with document")]
    Document(connector::Document),
    #[serde(rename = "connector with pack")]
    Actions(pack::Pack),
    #[serde(rename = "workflow")]
    Workflows(workflow::Workflows),
    #[serde(rename = "node-pack")]
    Nodes(pack::Pack),
    #[serde(rename = "host-extension")]
    Commands(command::Commands),
}

/// A source and the settings of its tools.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SourceConfig {
    /// The upstream.
    pub spec: SourceSpec,
    /// The kind of source.
    pub kind: SourceKind,
    /// The tenants that it exists for.
    pub tenants: Tenants,
    /// The style of its tools' wire names.
    pub names: NameStyle,
    /// Interval of discovery when the source announces no change.
    pub refresh: Duration,
    /// The treatment of tools that differ from their approved form.
    pub pins: PinPolicy,
    /// The circuit breaker; `None` if it is off.
    pub breaker: Option<BreakerConfig>,
    /// `[source.tools."glob"]`, in the order of the file: later rules override earlier ones, member
    /// by member.
    pub rules: Vec<ToolRule>,
}

/// A form as its type defines it, with the names of its keys.
struct FormKeys {
    /// `mcp with url`.
    name: String,
    keys: Vec<String>,
}

/// The keys of all forms, and the keys of each.
static KEYS: LazyLock<(Vec<String>, Vec<FormKeys>)> = LazyLock::new(|| {
    let schema = schemars::schema_for!(Source).to_value();
    let keys = |described: &Json| -> Vec<String> {
        let keys = described.get("properties").and_then(Json::as_object);
        keys.into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let forms = schema.pointer("/$defs/Form").into_iter().flat_map(forms);
    let forms = forms.map(|(name, reference)| {
        let described = schema.pointer(reference.trim_start_matches('#'));
        FormKeys { name: name.to_owned(), keys: described.map(keys).unwrap_or_default() }
    });
    let forms = forms.collect();
    (keys(&schema).into_iter().filter(|key| key != FORM).collect(), forms)
});

/// The member of [`Source`] for the keys of its form.
pub(super) const FORM: &str = "form";

/// The name of each form in the schema of [`Form`], and the reference to its type.
pub(super) fn forms(schema: &Json) -> Vec<(&str, &str)> {
    let variants = schema.get("oneOf").and_then(Json::as_array).into_iter().flatten();
    let named =
        variants.filter_map(|variant| variant.get("properties")?.as_object()?.iter().next());
    named
        .map(|(name, described)| {
            let reference = described.get("$ref").and_then(Json::as_str).unwrap_or_default();
            (name.as_str(), reference)
        })
        .collect()
}

impl FormKeys {
    fn kind(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    /// The key that selects the form among those of its kind.
    fn selector(&self) -> Option<&str> {
        self.name.split(' ').nth(2)
    }
}

/// Moves the keys of a form to a separate table, in every source.
pub(super) fn split(tree: &mut DeTable<'_>) {
    let Some(DeValue::Array(sources)) = tree.get_mut("source").map(Spanned::get_mut) else {
        return;
    };
    for source in sources.iter_mut() {
        let span = source.span();
        let DeValue::Table(table) = source.get_mut() else { continue };
        let common = |key: &str| KEYS.0.iter().any(|known| known == key);
        let mut own = DeTable::new();
        for (key, value) in std::mem::take(table) {
            match common(key.get_ref()) {
                true => table.insert(key, value),
                false => own.insert(key, value),
            };
        }
        let kind = table.get("kind").and_then(|kind| kind.get_ref().as_str());
        let Some(form) = form(kind, &own) else { continue };
        let hidden = |name: &'static str| Spanned::new(HIDDEN, DeString::Borrowed(name));
        let own = Spanned::new(span.clone(), DeValue::Table(own));
        let form = DeTable::from_iter([(hidden(&form.name), own)]);
        table.insert(hidden(FORM), Spanned::new(span, DeValue::Table(form)));
    }
}

/// The form of a source of `kind` with the keys `own`. If the kind is invalid, the form with the
/// most of these keys.
fn form(kind: Option<&str>, own: &DeTable<'_>) -> Option<&'static FormKeys> {
    let forms = &KEYS.1;
    let selected = |form: &&FormKeys| form.selector().is_none_or(|key| own.contains_key(key));
    let known =
        |form: &&FormKeys| form.keys.iter().filter(|key| own.contains_key(key.as_str())).count();
    let of_kind = || forms.iter().filter(|form| Some(form.kind()) == kind);
    of_kind()
        .find(selected)
        .or_else(|| of_kind().next())
        .or_else(|| forms.iter().rev().max_by_key(known))
}

/// Explains an unknown key of a type with the keys `known`.
pub(super) fn explain(key: &str, known: Vec<String>) -> UnknownKey {
    let (common, forms) = &*KEYS;
    let same: Vec<&FormKeys> = forms.iter().filter(|form| form.keys == known).collect();
    let Some(own) = same.first() else { return UnknownKey::Known(known) };
    let others: Vec<&FormKeys> = forms.iter().filter(|form| form.has(key)).collect();
    let is_rival = |other: &&FormKeys| other.kind() == own.kind() && other.selector() == Some(key);
    if let ([_], Some(selector)) = (same.as_slice(), own.selector())
        && others.iter().any(is_rival)
    {
        return UnknownKey::Message(format!("expected either `{selector}` or `{key}`, not both"));
    }
    if others.is_empty() {
        return UnknownKey::Known(common.iter().chain(&own.keys).cloned().collect());
    }
    let mut names: Vec<String> = Vec::new();
    for form in &others {
        let mut kindred = forms.iter().filter(|other| other.kind() == form.kind());
        let name = match form.selector().filter(|_| !kindred.all(|other| other.has(key))) {
            Some(selector) => format!("\"{}\" with `{selector}`", form.kind()),
            None => format!("\"{}\"", form.kind()),
        };
        names.push(name);
    }
    names.dedup();
    let mut message = format!("is only for a source of kind {}", names.join(" or "));
    if key == "credential" && own.selector() == Some("command") {
        message.push_str("; give a program its secrets with `env`");
    }
    UnknownKey::Message(message)
}

/// The interval of discovery of most sources.
const USUAL_REFRESH: Duration = Duration::from_secs(300);

fn all_tenants() -> Tenants {
    Tenants::All
}

fn connect_timeout() -> Duration {
    SourceLimits::default().connect_timeout
}

fn max_concurrency() -> NonZeroUsize {
    NonZeroUsize::new(SourceLimits::default().max_concurrency).unwrap_or(NonZeroUsize::MIN)
}

impl SourceConfig {
    /// The source `id` of the tools of an embedding program, for all tenants and without rules.
    pub fn native(id: SourceId) -> Self {
        let limits = SourceLimits::default();
        Self {
            spec: SourceSpec {
                id,
                upstream: UpstreamSpec::Native,
                limits,
                credential: None,
                account: None,
            },
            kind: UpstreamSpec::Native.kind(),
            tenants: Tenants::All,
            names: NameStyle::Prefixed,
            refresh: USUAL_REFRESH,
            pins: PinPolicy::OFF,
            breaker: None,
            rules: Vec::new(),
        }
    }

    /// The scope that a tool requires unless a rule sets its scopes: `tools:<source>`.
    pub fn default_scope(&self) -> Result<Scope, String> {
        Scope::parse(&format!("tools:{}", self.spec.id)).map_err(|error| error.to_string())
    }
}

impl Resolver<'_> {
    pub(super) fn source(&mut self, key: &str, typed: Source) -> Option<SourceConfig> {
        let Source { id, kind, tenants, names, .. } = typed;
        let rules = typed.tools.0.into_iter();
        let rules =
            rules.filter_map(|(glob, set)| self.rule(key, kind, &tenants, &glob, set)).collect();
        let missing = self.missing.len();
        let resolved = match typed.form? {
            Form::Program(typed) => self.mcp_program(key, typed),
            Form::Server(typed) => self.mcp_server(key, typed, &tenants),
            Form::Document(typed) => self.connector(key, typed, &tenants),
            Form::Actions(typed) => self.pack(key, typed, PackOffer::Actions),
            Form::Nodes(typed) => self.pack(key, typed, PackOffer::Nodes),
            Form::Workflows(typed) => self.workflows(key, typed),
            Form::Commands(typed) => self.commands(key, typed),
        };
        let upstream = self.withheld(&id, missing, resolved.spec);
        let is_in_gateway = kind.traits().is_in_gateway;
        // Workflows run in this process, so a breaker has no purpose.
        let usual_breaker = (!is_in_gateway).then(BreakerConfig::default);
        // Local files: reading them is cheap, and changes should show up soon.
        let usual_refresh = if is_in_gateway { Duration::from_secs(10) } else { USUAL_REFRESH };
        let limits = SourceLimits {
            connect_timeout: typed.connect_timeout,
            max_concurrency: typed.max_concurrency.get(),
            ..SourceLimits::default()
        };
        let breaker = typed.breaker.unwrap_or(usual_breaker);
        self.breaker(key, breaker.as_ref());
        Some(SourceConfig {
            spec: SourceSpec {
                id,
                upstream: upstream?,
                limits,
                credential: resolved.credential,
                account: resolved.account,
            },
            kind,
            tenants,
            names,
            refresh: typed.refresh.unwrap_or(usual_refresh),
            pins: resolved.pins,
            breaker,
            rules,
        })
    }

    /// Replaces `upstream` by an unusable one if one of its secrets is missing. Its missing secrets
    /// are those after the first `before`.
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
                UpstreamSpec::Unusable(UnusableUpstream { upstream: Box::new(upstream), reason })
            }
        })
    }

    /// Resolves `[sources] env`: the environment of every child.
    pub(super) fn shared_env(
        &mut self,
        typed: &BTreeMap<String, Value>,
    ) -> BTreeMap<String, SecretValue> {
        self.check_variables("sources.env", typed);
        self.values("sources.env", typed).unwrap_or_default()
    }
}
