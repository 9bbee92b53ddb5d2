//! The types of the file. Unknown keys are errors everywhere. Values that are validated later carry
//! their span, so that an error can name the line.

mod source;
mod tokens;
mod toolset;

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

pub(super) use self::{
    source::{
        BreakerChoice, CommandArgument, CommandLimits, ConnectChoice, HostCommand, Sandbox, Source,
        Tool,
    },
    tokens::{Claims, Jwt, OneOrMore, SharedJwt},
    toolset::{Meta, Toolset},
};
pub(super) use super::approvals::typed::{ApprovalWhen, Approvals};
use super::kinds;

/// The configuration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    #[schemars(with = "Server")]
    pub(super) server: Server,
    #[schemars(with = "Store")]
    pub(super) store: Store,
    #[schemars(with = "Record")]
    pub(super) record: Record,
    #[schemars(with = "Gate")]
    pub(super) gate: Gate,
    #[schemars(with = "Approvals")]
    pub(super) approvals: Approvals,
    #[schemars(with = "Policy")]
    pub(super) policy: Policy,
    #[schemars(with = "Sources")]
    pub(super) sources: Sources,
    #[schemars(with = "Vec<Source>")]
    pub(super) source: Vec<Source>,
    #[schemars(with = "Vec<Role>")]
    pub(super) role: Vec<Role>,
    #[schemars(with = "Option<Anonymous>")]
    pub(super) anonymous: Option<Anonymous>,
    #[schemars(with = "OpenWop")]
    pub(super) openwop: OpenWop,
    #[schemars(with = "Otc")]
    pub(super) otc: Otc,
    #[schemars(with = "Oxp")]
    pub(super) oxp: Oxp,
    #[schemars(with = "Explorer")]
    pub(super) explorer: Explorer,
    #[schemars(with = "Mcp")]
    pub(super) mcp: Mcp,
    #[schemars(with = "Authentication")]
    pub(super) auth: Authentication,
    #[schemars(with = "BTreeMap<String, Toolset>")]
    pub(super) toolset: Ordered<Spanned<Toolset>>,
}

/// The listener and request bodies.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Server {
    /// Address and port. An address other than loopback requires `behind_proxy = true`.
    #[schemars(with = "Option<String>", extend("default" = "127.0.0.1:8808"))]
    pub(super) listen: Option<Spanned<String>>,
    /// A proxy in front of toolcrib terminates TLS.
    #[schemars(with = "bool", extend("default" = false))]
    pub(super) behind_proxy: bool,
    /// Accepted `Host` values in addition to loopback names.
    #[schemars(with = "Vec<String>")]
    pub(super) allowed_hosts: Vec<String>,
    /// Origins of web pages that may send requests and read the answers (CORS), in addition to loopback
    /// ones.
    #[schemars(with = "Vec<String>")]
    pub(super) allowed_origins: Vec<String>,
    /// Largest request body.
    #[schemars(with = "Option<kinds::Size>", extend("default" = "1MiB"))]
    pub(super) max_body: Option<Spanned<String>>,
    /// Budget for the bodies of all requests in flight, at least `max_body`; beyond it 503
    /// ([bounds](bounds.md#bodies-of-requests)).
    #[schemars(with = "Option<kinds::Size>", extend("default" = "256MiB"))]
    pub(super) max_body_total: Option<Spanned<String>>,
    /// `/metrics` requires no key.
    #[schemars(with = "bool", extend("default" = false))]
    pub(super) public_metrics: bool,
}

/// The place of all state.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Store {
    /// The SQLite file, as `sqlite:PATH`. The default is in the data directory (`--data-dir`).
    #[schemars(with = "Option<String>", extend("default" = "sqlite:.toolcrib/toolcrib.db"))]
    pub(super) url: Option<Spanned<String>>,
    /// The key that seals [credentials](../guides/credentials.md#the-seal-key) and stored answers.
    #[schemars(with = "Option<kinds::KeyPlace>", extend("x-default" = "none"))]
    pub(super) seal_key: Option<Spanned<KeyPlace>>,
    /// The previous seal key, until `toolcrib credentials reseal`.
    #[schemars(with = "Option<kinds::KeyPlace>", extend("x-default" = "none"))]
    pub(super) old_seal_key: Option<Spanned<KeyPlace>>,
    /// Free disk space below which only calls that run are recorded, or `off` ([disk
    /// space](../guides/operate.md#disk-space)).
    #[schemars(with = "Option<kinds::Size>", extend("default" = "256MiB"))]
    pub(super) keep_free: Option<Spanned<String>>,
}

/// The place of a key. It never holds the key itself, because error messages could repeat it.
#[derive(Debug)]
pub(super) enum KeyPlace {
    File(String),
    Env(String),
    Command(Vec<String>),
}

impl<'de> Deserialize<'de> for KeyPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const KEYS: &[&str] = &["file", "env", "command"];
        const EXPECTED: &str =
            "expected { file = \"path\" }, { env = \"NAME\" } or { command = [\"program\", …] }";
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = KeyPlace;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_str<E: de::Error>(self, _: &str) -> Result<KeyPlace, E> {
                Err(E::custom(format!("a key must not be in this file: {EXPECTED}")))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<KeyPlace, A::Error> {
                let place = match map.next_key::<String>()?.as_deref() {
                    Some("file") => KeyPlace::File(map.next_value()?),
                    Some("env") => KeyPlace::Env(map.next_value()?),
                    Some("command") => KeyPlace::Command(map.next_value()?),
                    Some(other) => return Err(de::Error::unknown_field(other, KEYS)),
                    None => return Err(de::Error::custom(EXPECTED)),
                };
                match map.next_key::<String>()? {
                    None => Ok(place),
                    Some(_) => Err(de::Error::custom("expected exactly one of them")),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// The record, its signatures and its retention ([explanation](../explanation/record.md)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Record {
    /// `strict`: a call starts after its event is on disk. `relaxed`: after the operating system
    /// has it, so it survives a crash of the process and not of the machine.
    #[schemars(with = "Option<Durability>", extend("default" = "strict"))]
    pub(super) durability: Option<Durability>,
    /// Number of a tenant's events after which its log is signed.
    #[schemars(with = "Option<u64>", extend("default" = 1000))]
    pub(super) checkpoint_every: Option<Spanned<u64>>,
    /// Time after which a log with new events is signed, at least `100ms`.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "1m"))]
    pub(super) checkpoint_interval: Option<Spanned<String>>,
    /// The key that signs checkpoints.
    #[schemars(with = "Option<kinds::KeyPlace>", extend("x-default" = "a key next to the store, made at the first start"))]
    pub(super) signing_key: Option<Spanned<KeyPlace>>,
    /// Age after which events are removed ([retention](../explanation/record.md#retention)).
    #[schemars(with = "Option<kinds::Age>", extend("x-default" = "for ever"))]
    pub(super) keep: Option<Spanned<String>>,
    /// Age at which a tool session in use is closed; that of `keep` if it is shorter. At least
    /// `1s`.
    #[schemars(with = "Option<kinds::Age>", extend("default" = "24h"))]
    pub(super) max_session_age: Option<Spanned<String>>,
    /// Places that receive every checkpoint.
    #[schemars(with = "Vec<Anchor>", extend("x-default" = "none"))]
    pub(super) anchor: Vec<Spanned<Anchor>>,
    /// Systems that receive every event.
    #[schemars(with = "Vec<Forward>", extend("x-default" = "none"))]
    pub(super) forward: Vec<Forward>,
}

/// A place that receives every checkpoint as a line of JSON, out of reach of the store. It has
/// `file` or `url`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Anchor {
    /// A file, to which lines are appended.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(super) file: Option<String>,
    /// An address, which receives `POST` requests.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(super) url: Option<Spanned<String>>,
    /// Headers of the requests.
    #[schemars(with = "BTreeMap<String, kinds::Secret>", extend("x-default" = "none"))]
    pub(super) headers: BTreeMap<String, Spanned<Value>>,
    /// Private networks, addresses and hosts that it may use.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    pub(super) allow: Vec<Spanned<String>>,
}

/// A system that receives every event of every tenant ([guide](../guides/siem.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Forward {
    /// At most 32 of `a-z`, `0-9`, `_` and `-`; the progress is stored under it.
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// The transport.
    #[schemars(with = "String", extend("x-choice" = ["file", "http", "otlp"]))]
    pub(super) kind: Spanned<String>,
    /// The [format](events.md#export-formats); none with `otlp`.
    #[schemars(with = "Option<String>", extend("x-choice" = ["jsonl", "ocsf", "cloudevents"], "default" = "jsonl"))]
    pub(super) format: Option<Spanned<String>>,
    /// For `file`: the file.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(super) file: Option<String>,
    /// For `http` and `otlp`: the whole address.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(super) url: Option<Spanned<String>>,
    /// Headers of the requests.
    #[schemars(with = "BTreeMap<String, kinds::Secret>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Spanned<Value>>,
    /// Private networks, addresses and hosts that it may use.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(super) allow: Vec<Spanned<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Durability {
    Strict,
    Relaxed,
}

/// Defaults for all tools; a rule of a source overrides `rate`, `burst` and `timeout`
/// ([limits](../guides/limits.md)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Gate {
    /// Calls of each principal and tool.
    #[schemars(with = "Option<kinds::Rate>", extend("default" = "600/m"))]
    pub(super) rate: Option<Spanned<String>>,
    /// Calls that may come at once.
    #[schemars(with = "Option<u32>", extend("x-default" = "the number in `rate`"))]
    pub(super) burst: Option<Spanned<u32>>,
    /// Calls of each principal per UTC day.
    #[schemars(with = "Option<kinds::Quota>", extend("default" = "off"))]
    pub(super) quota: Option<Spanned<String>>,
    /// Time for which the answer to an [idempotent
    /// call](../explanation/protocols.md#idempotent-calls) is repeated.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "24h"))]
    pub(super) idempotency_ttl: Option<Spanned<String>>,
    /// Deadline of a call.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "300s"))]
    pub(super) timeout: Option<Spanned<String>>,
    /// Largest result.
    #[schemars(with = "Option<kinds::Size>", extend("default" = "4MiB"))]
    pub(super) max_result: Option<Spanned<String>>,
    /// Answer to a call without the scope; `not_found` makes it equal to an unknown tool
    /// ([guide](../guides/teams.md#hide-denied-tools)).
    #[schemars(with = "Option<DeniedCalls>", extend("default" = "forbidden"))]
    pub(super) denied_calls: Option<DeniedCalls>,
}

/// Cedar policies, which restrict calls further ([guide](../guides/policies.md)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Policy {
    /// Files with policies; wildcards in the file name.
    #[schemars(with = "Option<Vec<String>>", extend("x-default" = "none"))]
    pub(super) cedar: Option<Spanned<Vec<String>>>,
    /// A file with your own Cedar schema for the checks.
    #[schemars(with = "Option<String>", extend("x-default" = "built in"))]
    pub(super) schema: Option<Spanned<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum DeniedCalls {
    Forbidden,
    NotFound,
}

/// Settings of all sources.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sources {
    /// Variables of every child process and command, such as a private certificate authority or a
    /// proxy. A source's own `env` has priority.
    #[schemars(with = "BTreeMap<String, kinds::Secret>", extend("x-default" = "none"))]
    pub(super) env: BTreeMap<String, Spanned<Value>>,
}

/// A named list of scopes ([guide](../guides/teams.md#define-roles)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Role {
    /// The name.
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// Scopes such as `files:read`; `*` is one segment, a trailing `*` the rest.
    #[schemars(with = "Vec<String>")]
    pub(super) scopes: Spanned<Vec<String>>,
    /// Calls per UTC day of principals with this role; of several roles the most generous counts.
    #[schemars(with = "Option<kinds::Quota>", extend("x-default" = "that of `[gate]`"))]
    pub(super) quota: Option<Spanned<String>>,
}

/// Rights of callers without a key, on mounts that admit them
/// ([guide](../guides/teams.md#admit-callers-without-a-key)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Anonymous {
    /// Their tenant.
    #[schemars(with = "String")]
    pub(super) tenant: Spanned<String>,
    /// Their scopes.
    #[schemars(with = "Vec<String>")]
    pub(super) scopes: Spanned<Vec<String>>,
}

/// OpenWOP.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OpenWop {
    /// Shape of `GET /v1/tools`: a bare array, or `{"tools":[…]}`.
    #[schemars(with = "Option<ListBody>", extend("default" = "array"))]
    pub(super) list_body: Option<ListBody>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ListBody {
    Array,
    Envelope,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Auth {
    Required,
    Optional,
}

/// Open Tool Calling.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Otc {
    /// `optional`: callers without a key are `[anonymous]`.
    #[schemars(with = "Option<Auth>", extend("default" = "required"))]
    pub(super) auth: Option<Spanned<Auth>>,
    /// Tokens with a shared secret.
    #[schemars(with = "Option<SharedJwt>", extend("x-default" = "none"))]
    pub(super) jwt: Option<SharedJwt>,
}

/// OXP under `/oxp`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Oxp {
    /// Whether the routes exist.
    #[schemars(with = "Option<bool>", extend("default" = true))]
    pub(super) enabled: Option<bool>,
    /// `optional`: callers without a key are `[anonymous]`.
    #[schemars(with = "Option<Auth>", extend("default" = "required"))]
    pub(super) auth: Option<Spanned<Auth>>,
}

/// MCP under `/mcp`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Mcp {
    /// `optional`: callers without a key are `[anonymous]`.
    #[schemars(with = "Option<Auth>", extend("default" = "required"))]
    pub(super) auth: Option<Spanned<Auth>>,
    /// Tools on one page of a list.
    #[schemars(with = "Option<usize>", extend("default" = 1000))]
    pub(super) page_size: Option<Spanned<usize>>,
    /// Whether a handshake over HTTP opens a session.
    #[schemars(with = "Option<bool>", extend("default" = true))]
    pub(super) sessions: Option<bool>,
    /// Lifetime of an unused session.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "30m"))]
    pub(super) session_idle: Option<Spanned<String>>,
    /// Number of sessions; the longest idle one makes room.
    #[schemars(with = "Option<usize>", extend("default" = 10000))]
    pub(super) max_sessions: Option<Spanned<usize>>,
    /// The same for one principal.
    #[schemars(with = "Option<usize>", extend("default" = 256))]
    pub(super) max_sessions_per_principal: Option<Spanned<usize>>,
    /// Open `subscriptions/listen` of one principal.
    #[schemars(with = "Option<usize>", extend("default" = 64))]
    pub(super) max_listeners_per_principal: Option<Spanned<usize>>,
}

/// Identity providers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Authentication {
    /// Information for OAuth clients.
    #[schemars(with = "Option<Resource>", extend("x-default" = "none"))]
    pub(super) resource: Option<Resource>,
    /// Issuers of tokens; one table or several.
    #[schemars(with = "Vec<Jwt>", extend("x-default" = "none"))]
    pub(super) jwt: OneOrMore<Jwt>,
}

/// Information for OAuth clients (RFC 9728,
/// [guide](../guides/oidc.md#help-oauth-clients-find-the-issuer)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resource {
    /// Address of `/mcp` as clients see it.
    #[schemars(with = "String")]
    pub(super) resource: Spanned<String>,
    /// Addresses of the authorization servers.
    #[schemars(with = "Vec<String>")]
    pub(super) authorization_servers: Spanned<Vec<String>>,
    /// Scopes that clients should request.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    #[serde(default = "nothing")]
    pub(super) scopes: Spanned<Vec<String>>,
}

fn nothing() -> Spanned<Vec<String>> {
    Spanned::new(0..0, Vec::new())
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ExplorerPolicy {
    All,
    CallOnly,
    SpecPublic,
    None,
}

/// The explorer: web page and JSON endpoints.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Explorer {
    /// The [operations that need a key](../explanation/protocols.md#explorer); other values than
    /// `all` require `[anonymous]`.
    #[schemars(with = "Option<ExplorerPolicy>", extend("default" = "all"))]
    pub(super) policy: Option<Spanned<ExplorerPolicy>>,
    /// Path of the page.
    #[schemars(with = "Option<String>", extend("default" = "/explorer"))]
    pub(super) prefix: Option<Spanned<String>>,
    /// Whether tools can be called from it.
    #[schemars(with = "Option<bool>", extend("default" = true))]
    pub(super) allow_execute: Option<bool>,
    /// Heading.
    #[schemars(with = "Option<String>", extend("default" = "toolcrib"))]
    pub(super) title: Option<String>,
    /// Text of the link in the footer.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(super) project_name: Option<String>,
    /// Address of the link.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(super) project_url: Option<String>,
}

/// A plain value, or the place of a secret one.
#[derive(Debug)]
pub(super) enum Value {
    Plain(String),
    Env(String),
    File(String),
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, { env = \"NAME\" } or { file = \"path\" }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
                Ok(Value::Plain(text.to_owned()))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let value = match map.next_key::<String>()?.as_deref() {
                    Some("env") => Value::Env(map.next_value()?),
                    Some("file") => Value::File(map.next_value()?),
                    Some(other) => return Err(de::Error::unknown_field(other, &["env", "file"])),
                    None => return Err(de::Error::missing_field("env")),
                };
                match map.next_key::<String>()? {
                    None => Ok(value),
                    Some(_) => Err(de::Error::custom("expected exactly one of `env` and `file`")),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A table in the order of the file.
#[derive(Debug)]
pub(super) struct Ordered<T>(pub(super) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Ordered<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of rules by glob")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Visitor(std::marker::PhantomData))
    }
}
