//! `[[source]]`, its commands and its rules, as in the file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::{ApprovalWhen, Ordered, Value};
use crate::config::kinds;

/// A supplier of tools. Some keys belong to one kind only: [mcp](../guides/mcp-servers.md),
/// [connector](../guides/rest-api.md), [workflow](../guides/workflows.md),
/// [node-pack](../guides/node-packs.md), [host-extension](../guides/host-commands.md).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Source {
    /// At most 32 of `a-z`, `0-9`, `_` and `-`, without `__`; part of every tool name.
    #[schemars(with = "String")]
    pub(in crate::config) id: Spanned<String>,
    /// The kind.
    #[schemars(with = "String", extend("x-choice" = ["mcp", "connector", "workflow", "node-pack", "host-extension"]))]
    pub(in crate::config) kind: Spanned<String>,
    /// `mcp`: program and arguments of a server that runs as a child. Without a shell.
    #[schemars(with = "Option<Vec<String>>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) command: Option<Spanned<Vec<String>>>,
    /// `mcp` with `command`: variables of the child, in addition to `PATH`, `HOME`, `LANG`, `TMPDIR` and
    /// `USER`.
    #[schemars(with = "BTreeMap<String, kinds::Secret>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) env: BTreeMap<String, Spanned<Value>>,
    /// `mcp` with `command`: working directory.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) cwd: Option<Spanned<String>>,
    /// `mcp` with `command`: the files and ports that the child may use.
    #[schemars(with = "Option<Sandbox>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) sandbox: Option<Sandbox>,
    /// `mcp`, `host-extension`: `keep` holds the last 100 lines of stderr in memory, `log` also
    /// logs them.
    #[schemars(with = "Option<String>", extend("x-choice" = ["keep", "log"], "default" = "keep"))]
    #[serde(default)]
    pub(in crate::config) stderr: Option<Spanned<String>>,
    /// `mcp`: address of a server over streamable HTTP, in place of `command`.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) url: Option<Spanned<String>>,
    /// `mcp` with `url`, `connector`: headers for the source's own origin.
    #[schemars(with = "BTreeMap<String, kinds::Secret>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) headers: BTreeMap<String, Spanned<Value>>,
    /// `mcp` with `url`, `connector`, `node-pack`: name of a [stored
    /// credential](../guides/credentials.md).
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) credential: Option<Spanned<String>>,
    /// Private networks, addresses and hosts that requests may use, in addition to the source's own host
    /// ([rules](../explanation/security.md#where-requests-go)).
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) allow: Vec<Spanned<String>>,
    /// `workflow`: files with workflows; wildcards in the file name only.
    #[schemars(with = "Option<Vec<String>>", extend("x-default" = "none"))]
    pub(in crate::config) files: Option<Spanned<Vec<String>>>,
    /// `workflow`: runs are resumed after a crash.
    #[schemars(with = "Option<bool>", extend("x-default" = "`true` with a seal key"))]
    #[serde(default)]
    pub(in crate::config) durable: Option<bool>,
    /// `connector`: file or address of the OpenAPI document.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) document: Option<Spanned<String>>,
    /// `connector`: address of the service.
    #[schemars(with = "Option<String>", extend("x-default" = "the document's server"))]
    #[serde(default)]
    pub(in crate::config) base_url: Option<Spanned<String>>,
    /// `connector`: globs over names, or over `METHOD /path`; a leading `!` removes operations.
    #[schemars(with = "Vec<String>", extend("x-default" = "all"))]
    #[serde(default)]
    pub(in crate::config) operations: Vec<Spanned<String>>,
    /// `connector`: values of server variables.
    #[schemars(with = "BTreeMap<String, String>", extend("x-default" = "the document's"))]
    #[serde(default)]
    pub(in crate::config) variables: BTreeMap<String, String>,
    /// `node-pack`, `connector`: an installed pack, a directory or an archive.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) pack: Option<Spanned<String>>,
    /// `node-pack`: globs over type ids.
    #[schemars(with = "Vec<String>", extend("x-default" = "all"))]
    #[serde(default)]
    pub(in crate::config) nodes: Vec<Spanned<String>>,
    /// `node-pack`: functions that its code may use.
    #[schemars(with = "Vec<String>", extend("x-choice" = ["log", "clock", "random", "http"], "x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) grants: Vec<Spanned<String>>,
    /// `node-pack`: linear memory of one call.
    #[schemars(with = "Option<kinds::Size>", extend("default" = "64MiB"))]
    #[serde(default)]
    pub(in crate::config) memory: Option<Spanned<String>>,
    /// `node-pack`: `sha256-…` that the archive must have.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) integrity: Option<Spanned<String>>,
    /// `node-pack`: Ed25519 public keys, one of which must have signed the pack.
    #[schemars(with = "Vec<kinds::Secret>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) trusted_keys: Vec<Spanned<Value>>,
    /// Tenants that the source exists for; `*` means all. One tenant for `mcp` with `credential`.
    #[schemars(with = "Option<Vec<String>>", extend("default" = ["*"]))]
    #[serde(default)]
    pub(in crate::config) tenants: Option<Spanned<Vec<String>>>,
    /// [Wire names](../explanation/protocols.md#names): `<source>__<name>`, or the server's own
    /// names.
    #[schemars(with = "Option<String>", extend("x-choice" = ["prefixed", "bare"], "default" = "prefixed"))]
    #[serde(default)]
    pub(in crate::config) names: Option<Spanned<String>>,
    /// Time after which tools are read again without an announced change. `10s` for workflows.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "5m"))]
    #[serde(default)]
    pub(in crate::config) refresh: Option<Spanned<String>>,
    /// Treatment of [changed tools](../guides/review-tools.md#pins).
    #[schemars(with = "Option<String>", extend("x-choice" = ["enforce", "warn", "off"], "default" = "enforce"))]
    #[serde(default)]
    pub(in crate::config) pins: Option<Spanned<String>>,
    /// Treatment of new tools.
    #[schemars(with = "Option<String>", extend("x-choice" = ["trust", "approve"], "default" = "trust"))]
    #[serde(default)]
    pub(in crate::config) pin_first: Option<Spanned<String>>,
    /// Limit for connecting.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "30s"))]
    #[serde(default)]
    pub(in crate::config) connect_timeout: Option<Spanned<String>>,
    /// Concurrent calls; further ones wait inside their own deadline.
    #[schemars(with = "Option<usize>", extend("default" = 64))]
    #[serde(default)]
    pub(in crate::config) max_concurrency: Option<Spanned<usize>>,
    /// Circuit breaker, or `"off"` ([limits](../guides/limits.md#breakers)).
    #[schemars(with = "Option<Breaker>")]
    #[serde(default)]
    pub(in crate::config) breaker: Option<Spanned<BreakerChoice>>,
    /// `host-extension`: commands by name.
    #[schemars(with = "BTreeMap<String, HostCommand>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) commands: Ordered<Spanned<HostCommand>>,
    /// Rules by glob over the source's own tool names.
    #[schemars(with = "BTreeMap<String, Tool>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) tools: Ordered<Spanned<Tool>>,
}

/// `"off"`, or the settings of a breaker.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected \"off\", or a table of `failures`, `window` and `open`")]
pub(in crate::config) enum BreakerChoice {
    Word(String),
    Set(Breaker),
}

/// When calls of a source fail at once. Workflows have no breaker.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Breaker {
    /// Consecutive failures that open the breaker, 2 to 100.
    #[schemars(with = "Option<u32>", extend("default" = 5))]
    pub(in crate::config) failures: Option<u32>,
    /// Longest time from the first to the last of them.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "30s"))]
    pub(in crate::config) window: Option<String>,
    /// Time until a call is tried again.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "15s"))]
    pub(in crate::config) open: Option<String>,
}

/// A command of a `host-extension` ([guide](../guides/host-commands.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct HostCommand {
    /// Title for people.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) title: Option<String>,
    /// Description for models.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) description: Option<String>,
    /// Absolute path of the program.
    #[schemars(with = "String")]
    pub(in crate::config) program: Spanned<String>,
    /// Arguments; `{name}` is replaced by a parameter. A nested list is a group that needs all its
    /// parameters.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) args: Vec<CommandArgument>,
    /// The parameter that is the program's input.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) stdin: Option<Spanned<String>>,
    /// JSON Schema of each parameter, of one scalar type.
    #[schemars(with = "BTreeMap<String, kinds::Any>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) parameters: Ordered<Spanned<toml::Value>>,
    /// Working directory, readable for the program.
    #[schemars(with = "Option<String>", extend("x-default" = "an empty directory"))]
    pub(in crate::config) cwd: Option<Spanned<String>>,
    /// Variables, in addition to those of `[sources] env`.
    #[schemars(with = "BTreeMap<String, kinds::Secret>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) env: BTreeMap<String, Spanned<Value>>,
    /// Names of the server's variables that the program gets.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) inherit: Vec<String>,
    /// `json`: the output is one document and becomes structured output.
    #[schemars(with = "Option<String>", extend("x-choice" = ["text", "json"], "default" = "text"))]
    pub(in crate::config) output: Option<Spanned<String>>,
    /// Exit codes of success.
    #[schemars(with = "Option<Vec<u8>>", extend("default" = [0]))]
    #[serde(default)]
    pub(in crate::config) success: Option<Vec<u8>>,
    /// Largest output.
    #[schemars(with = "Option<kinds::Size>", extend("default" = "1MiB"))]
    pub(in crate::config) max_output: Option<Spanned<String>>,
    /// The files and ports that the program may use.
    #[schemars(with = "Sandbox", extend("x-default" = "nothing is reachable"))]
    #[serde(default)]
    pub(in crate::config) sandbox: Sandbox,
    /// Limits of each process.
    #[schemars(with = "CommandLimits")]
    #[serde(default)]
    pub(in crate::config) limits: CommandLimits,
}

/// An argument, or a group of arguments.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string, or an array of strings")]
pub(in crate::config) enum CommandArgument {
    One(String),
    Group(Vec<String>),
}

/// Reachable files and ports of a child process, in addition to the system's own programs and libraries.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Sandbox {
    /// `required`: nothing runs without the sandbox. The other modes require `mode_reason`.
    #[schemars(with = "Option<String>", extend("x-choice" = ["required", "best-effort", "off"], "default" = "required"))]
    pub(in crate::config) mode: Option<Spanned<String>>,
    /// The reason for another mode.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) mode_reason: Option<String>,
    /// Readable files and directories.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    pub(in crate::config) read: Vec<Spanned<String>>,
    /// Writable files and directories.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    pub(in crate::config) write: Vec<Spanned<String>>,
    /// TCP ports for connections to any host, or `"any"` for all ports and for listening.
    #[schemars(with = "Option<Vec<u16>>", extend("x-default" = "none"))]
    pub(in crate::config) connect: Option<Spanned<ConnectChoice>>,
}

/// TCP ports, or `"any"`.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected TCP ports such as [443], or \"any\"")]
pub(in crate::config) enum ConnectChoice {
    Ports(Vec<u16>),
    Word(String),
}

/// Limits of each process of a command.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct CommandLimits {
    /// Address space.
    #[schemars(with = "Option<kinds::Size>", extend("default" = "4GiB"))]
    pub(in crate::config) memory: Option<Spanned<String>>,
    /// Processor time.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "60s"))]
    pub(in crate::config) cpu: Option<Spanned<String>>,
    /// Open files.
    #[schemars(with = "Option<u64>", extend("default" = 256))]
    pub(in crate::config) files: Option<Spanned<u64>>,
    /// Size of a written file.
    #[schemars(with = "Option<kinds::Size>", extend("default" = "64MiB"))]
    pub(in crate::config) file_size: Option<Spanned<String>>,
}

impl Source {
    /// Returns whether the file sets `key`, which only some kinds have.
    pub(in crate::config) fn has(&self, key: &str) -> bool {
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

/// A rule: labels and limits of the tools whose names match the glob. All matching rules apply in
/// order; a later one overrides an earlier one, key by key
/// ([guide](../guides/teams.md#classify-tools)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Tool {
    /// A subset of the source's tenants; for others the tool does not exist.
    #[schemars(with = "Option<Vec<String>>", extend("x-default" = "those of the source"))]
    pub(in crate::config) tenants: Option<Spanned<Vec<String>>>,
    /// Scopes that a caller needs; an empty list requires none.
    #[schemars(with = "Option<Vec<String>>", extend("x-default" = "`tools:<source>`"))]
    pub(in crate::config) scopes: Option<Spanned<Vec<String>>>,
    /// Effect of the tool.
    #[schemars(with = "Option<String>", extend("x-choice" = ["pure", "read", "write", "exec"], "x-default" = "`write`; `exec` for commands"))]
    pub(in crate::config) safety_tier: Option<Spanned<String>>,
    /// Reach of the tool outside. Other defaults: `none` for `pure` tools, `safe-fetch` for
    /// connectors, `host-owned` for commands.
    #[schemars(with = "Option<String>", extend("x-choice" = ["none", "safe-fetch", "host-mediated", "host-owned"], "x-default" = "`host-mediated`"))]
    pub(in crate::config) egress: Option<Spanned<String>>,
    /// Whether a call may be repeated.
    #[schemars(with = "Option<String>", extend("x-choice" = ["deterministic", "idempotent", "non-deterministic"], "default" = "non-deterministic"))]
    pub(in crate::config) replay_policy: Option<Spanned<String>>,
    /// Whether a person must consent.
    #[schemars(with = "Option<String>", extend("x-choice" = ["never", "conditional", "always"], "x-default" = "`never`; `always` for commands"))]
    pub(in crate::config) approval: Option<Spanned<String>>,
    /// For commands: the reason for a lower approval.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) approval_reason: Option<String>,
    /// Conditions of `conditional`.
    #[schemars(with = "Option<ApprovalWhen>", extend("x-default" = "every call"))]
    pub(in crate::config) approval_when: Option<Spanned<ApprovalWhen>>,
    /// Number of consents.
    #[schemars(with = "Option<u32>", extend("x-default" = "that of `[approvals]`"))]
    pub(in crate::config) approval_quorum: Option<Spanned<u32>>,
    /// Role that an approver needs in addition to the scope.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) approval_role: Option<Spanned<String>>,
    /// Scope that an approver needs.
    #[schemars(with = "Option<String>", extend("x-default" = "`respond_scope`"))]
    pub(in crate::config) approval_scope: Option<Spanned<String>>,
    /// Calls of each principal and tool.
    #[schemars(with = "Option<kinds::Rate>", extend("x-default" = "that of `[gate]`"))]
    pub(in crate::config) rate: Option<Spanned<String>>,
    /// Calls that may come at once.
    #[schemars(with = "Option<u32>", extend("x-default" = "the number in `rate`"))]
    pub(in crate::config) burst: Option<Spanned<u32>>,
    /// Calls of each principal and tool per UTC day, in addition to the principal's own.
    #[schemars(with = "Option<kinds::Quota>", extend("x-default" = "none"))]
    pub(in crate::config) quota: Option<Spanned<String>>,
    /// Deadline of a call.
    #[schemars(with = "Option<kinds::Duration>", extend("x-default" = "that of `[gate]`"))]
    pub(in crate::config) timeout: Option<Spanned<String>>,
    /// Hint for callers.
    #[schemars(with = "Option<String>", extend("x-choice" = ["low", "medium", "high"], "x-default" = "none"))]
    pub(in crate::config) cost_hint: Option<Spanned<String>>,
    /// Hint for callers.
    #[schemars(with = "Option<String>", extend("x-choice" = ["low", "medium", "high"], "x-default" = "none"))]
    pub(in crate::config) latency_hint: Option<Spanned<String>>,
    /// The tool does not exist for callers.
    #[schemars(with = "Option<bool>", extend("default" = false))]
    pub(in crate::config) hide: Option<bool>,
}
