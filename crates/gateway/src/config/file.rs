//! What was typed. Unknown keys are errors everywhere; values that need a second look carry their
//! span so that a complaint can name the line.

mod tokens;
mod toolset;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

pub(super) use self::{
    tokens::{Claims, Jwt, OneOrMore, SharedJwt},
    toolset::{Meta, Toolset},
};
pub(super) use super::approvals::typed::{ApprovalWhen, Approvals};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) server: Server,
    pub(super) store: Store,
    pub(super) record: Record,
    pub(super) gate: Gate,
    pub(super) approvals: Approvals,
    pub(super) policy: Policy,
    pub(super) sources: Sources,
    pub(super) source: Vec<Source>,
    pub(super) role: Vec<Role>,
    pub(super) anonymous: Option<Anonymous>,
    pub(super) openwop: OpenWop,
    pub(super) otc: Otc,
    pub(super) oxp: Oxp,
    pub(super) explorer: Explorer,
    pub(super) mcp: Mcp,
    pub(super) auth: Authentication,
    pub(super) toolset: Ordered<Spanned<Toolset>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Server {
    pub(super) listen: Option<Spanned<String>>,
    pub(super) behind_proxy: bool,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) max_body: Option<Spanned<String>>,
    pub(super) max_body_total: Option<Spanned<String>>,
    pub(super) public_metrics: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Store {
    pub(super) url: Option<Spanned<String>>,
    pub(super) seal_key: Option<Spanned<KeyPlace>>,
    pub(super) old_seal_key: Option<Spanned<KeyPlace>>,
    pub(super) keep_free: Option<Spanned<String>>,
}

/// Where a key is. Never the key itself, which no complaint may repeat.
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
                Err(E::custom(format!("a key must not stand in this file: {EXPECTED}")))
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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Record {
    pub(super) durability: Option<Durability>,
    pub(super) checkpoint_every: Option<Spanned<u64>>,
    pub(super) checkpoint_interval: Option<Spanned<String>>,
    pub(super) signing_key: Option<Spanned<KeyPlace>>,
    pub(super) keep: Option<Spanned<String>>,
    pub(super) max_session_age: Option<Spanned<String>>,
    pub(super) anchor: Vec<Spanned<Anchor>>,
    pub(super) forward: Vec<Forward>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Anchor {
    pub(super) file: Option<String>,
    pub(super) url: Option<Spanned<String>>,
    pub(super) headers: BTreeMap<String, Spanned<Value>>,
    pub(super) allow: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forward {
    pub(super) name: Spanned<String>,
    pub(super) kind: Spanned<String>,
    pub(super) format: Option<Spanned<String>>,
    pub(super) file: Option<String>,
    pub(super) url: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub(super) allow: Vec<Spanned<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Durability {
    Strict,
    Relaxed,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Gate {
    pub(super) rate: Option<Spanned<String>>,
    pub(super) burst: Option<Spanned<u32>>,
    pub(super) quota: Option<Spanned<String>>,
    pub(super) idempotency_ttl: Option<Spanned<String>>,
    pub(super) timeout: Option<Spanned<String>>,
    pub(super) max_result: Option<Spanned<String>>,
    pub(super) denied_calls: Option<DeniedCalls>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Policy {
    pub(super) cedar: Option<Spanned<Vec<String>>>,
    pub(super) schema: Option<Spanned<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DeniedCalls {
    Forbidden,
    NotFound,
}

/// What all sources share.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sources {
    pub(super) env: BTreeMap<String, Spanned<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    pub(super) id: Spanned<String>,
    pub(super) kind: Spanned<String>,
    #[serde(default)]
    pub(super) command: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub(super) cwd: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) sandbox: Option<Sandbox>,
    #[serde(default)]
    pub(super) stderr: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) url: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub(super) credential: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) allow: Vec<Spanned<String>>,
    pub(super) files: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub(super) durable: Option<bool>,
    #[serde(default)]
    pub(super) document: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) base_url: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) operations: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) variables: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) pack: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) nodes: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) grants: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) memory: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) integrity: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) trusted_keys: Vec<Spanned<Value>>,
    #[serde(default)]
    pub(super) tenants: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub(super) names: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) refresh: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) pins: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) pin_first: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) connect_timeout: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) max_concurrency: Option<Spanned<usize>>,
    #[serde(default)]
    pub(super) breaker: Option<Spanned<BreakerChoice>>,
    #[serde(default)]
    pub(super) commands: Ordered<Spanned<HostCommand>>,
    #[serde(default)]
    pub(super) tools: Ordered<Spanned<Tool>>,
}

/// `"off"`, or what to set.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected \"off\", or a table of `failures`, `window` and `open`")]
pub(super) enum BreakerChoice {
    Word(String),
    Set(Breaker),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Breaker {
    pub(super) failures: Option<u32>,
    pub(super) window: Option<String>,
    pub(super) open: Option<String>,
}

/// A command of a host extension.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostCommand {
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) program: Spanned<String>,
    #[serde(default)]
    pub(super) args: Vec<CommandArgument>,
    pub(super) stdin: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) parameters: Ordered<Spanned<toml::Value>>,
    pub(super) cwd: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub(super) inherit: Vec<String>,
    pub(super) output: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) success: Option<Vec<u8>>,
    pub(super) max_output: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) sandbox: Sandbox,
    #[serde(default)]
    pub(super) limits: CommandLimits,
}

/// An argument, or a group of arguments.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string, or an array of strings")]
pub(super) enum CommandArgument {
    One(String),
    Group(Vec<String>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sandbox {
    pub(super) mode: Option<Spanned<String>>,
    pub(super) mode_reason: Option<String>,
    pub(super) read: Vec<Spanned<String>>,
    pub(super) write: Vec<Spanned<String>>,
    pub(super) connect: Option<Spanned<ConnectChoice>>,
}

/// TCP ports, or a word.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected TCP ports such as [443], or \"any\"")]
pub(super) enum ConnectChoice {
    Ports(Vec<u16>),
    Word(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CommandLimits {
    pub(super) memory: Option<Spanned<String>>,
    pub(super) cpu: Option<Spanned<String>>,
    pub(super) files: Option<Spanned<u64>>,
    pub(super) file_size: Option<Spanned<String>>,
}

impl Source {
    /// Whether `key`, which only some kinds have, was typed.
    pub(super) fn has(&self, key: &str) -> bool {
        match key {
            "command" => self.command.is_some(),
            "env" => !self.env.is_empty(),
            "cwd" => self.cwd.is_some(),
            "sandbox" => self.sandbox.is_some(),
            "stderr" => self.stderr.is_some(),
            "url" => self.url.is_some(),
            "headers" => !self.headers.is_empty(),
            "credential" => self.credential.is_some(),
            "allow" => !self.allow.is_empty(),
            "document" => self.document.is_some(),
            "base_url" => self.base_url.is_some(),
            "operations" => !self.operations.is_empty(),
            "variables" => !self.variables.is_empty(),
            "commands" => !self.commands.0.is_empty(),
            "files" => self.files.is_some(),
            "durable" => self.durable.is_some(),
            "pack" => self.pack.is_some(),
            "pins" => self.pins.is_some(),
            "pin_first" => self.pin_first.is_some(),
            "nodes" => !self.nodes.is_empty(),
            "grants" => !self.grants.is_empty(),
            "memory" => self.memory.is_some(),
            "integrity" => self.integrity.is_some(),
            "trusted_keys" => !self.trusted_keys.is_empty(),
            _ => false,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tool {
    pub(super) tenants: Option<Spanned<Vec<String>>>,
    pub(super) scopes: Option<Spanned<Vec<String>>>,
    pub(super) safety_tier: Option<Spanned<String>>,
    pub(super) egress: Option<Spanned<String>>,
    pub(super) replay_policy: Option<Spanned<String>>,
    pub(super) approval: Option<Spanned<String>>,
    pub(super) approval_reason: Option<String>,
    pub(super) approval_when: Option<Spanned<ApprovalWhen>>,
    pub(super) approval_quorum: Option<Spanned<u32>>,
    pub(super) approval_role: Option<Spanned<String>>,
    pub(super) approval_scope: Option<Spanned<String>>,
    pub(super) rate: Option<Spanned<String>>,
    pub(super) burst: Option<Spanned<u32>>,
    pub(super) quota: Option<Spanned<String>>,
    pub(super) timeout: Option<Spanned<String>>,
    pub(super) cost_hint: Option<Spanned<String>>,
    pub(super) latency_hint: Option<Spanned<String>>,
    pub(super) hide: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Role {
    pub(super) name: Spanned<String>,
    pub(super) scopes: Spanned<Vec<String>>,
    pub(super) quota: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Anonymous {
    pub(super) tenant: Spanned<String>,
    pub(super) scopes: Spanned<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OpenWop {
    pub(super) list_body: Option<ListBody>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ListBody {
    Array,
    Envelope,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Auth {
    Required,
    Optional,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Otc {
    pub(super) auth: Option<Spanned<Auth>>,
    pub(super) jwt: Option<SharedJwt>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Oxp {
    pub(super) enabled: Option<bool>,
    pub(super) auth: Option<Spanned<Auth>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Mcp {
    pub(super) auth: Option<Spanned<Auth>>,
    pub(super) page_size: Option<Spanned<usize>>,
    pub(super) sessions: Option<bool>,
    pub(super) session_idle: Option<Spanned<String>>,
    pub(super) max_sessions: Option<Spanned<usize>>,
    pub(super) max_sessions_per_principal: Option<Spanned<usize>>,
    pub(super) max_listeners_per_principal: Option<Spanned<usize>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Authentication {
    pub(super) resource: Option<Resource>,
    pub(super) jwt: OneOrMore<Jwt>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resource {
    pub(super) resource: Spanned<String>,
    pub(super) authorization_servers: Spanned<Vec<String>>,
    #[serde(default = "nothing")]
    pub(super) scopes: Spanned<Vec<String>>,
}

fn nothing() -> Spanned<Vec<String>> {
    Spanned::new(0..0, Vec::new())
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ExplorerPolicy {
    All,
    CallOnly,
    SpecPublic,
    None,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Explorer {
    pub(super) policy: Option<Spanned<ExplorerPolicy>>,
    pub(super) prefix: Option<Spanned<String>>,
    pub(super) allow_execute: Option<bool>,
    pub(super) title: Option<String>,
    pub(super) project_name: Option<String>,
    pub(super) project_url: Option<String>,
}

/// A plain value, or where to find a secret one.
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
