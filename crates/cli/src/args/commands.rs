//! The arguments of each command.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum, value_parser};
use toolcrib_config::parse_duration;
use toolcrib_core::{
    descriptor::SourceKind,
    event::{EventFilter, InvalidFilter},
    id::{KeyId, PrincipalId, RunId, SourceId, TenantId},
    scope::Grant,
    store::RunState,
};

use super::{
    edits::{RemoveArgs, SetArgs, SourceAddArgs},
    output::{Output, PageArgs},
    parsers::{address, lifetime, name, one_of},
};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Serve a built-in demo with five sources and four keys; it needs no configuration, no network
    /// and no other program
    #[arg(long)]
    pub(crate) demo: bool,

    /// Start the demo without the calls that it makes itself at its first start
    #[arg(long, requires = "demo")]
    pub(crate) no_history: bool,

    /// Listen on this address, or on this port of 127.0.0.1; port 0 selects a free port [default: the
    /// file's, or 127.0.0.1:8808]
    #[arg(long, value_name = "ADDR|PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,

    /// Apply a changed configuration that is empty or has no sources left
    #[arg(long)]
    pub(crate) allow_empty: bool,

    /// Also serve the OpenWOP test routes below /v1/host/sample, for conformance runs on a loopback
    /// address; needs a build with the feature `test-routes`
    #[arg(long)]
    pub(crate) test_routes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Print the API keys that `serve --demo` created
    #[command(after_help = "\
Examples:
  toolcrib demo keys
  export TOOLCRIB_KEY=$(toolcrib demo keys admin)

The command reads demo.json in the data directory, so use the --data-dir of `serve --demo`. With the
name of a key it prints only the text of that key.")]
    Keys {
        /// Print only the key with this name
        #[arg(value_parser = crate::demo_facts::CALLER_NAMES)]
        name: Option<String>,
    },

    /// Change a tool of the demo, as an update of its MCP server would
    #[command(after_help = "\
Examples:
  toolcrib demo change
  toolcrib tools diff demo__echo
  toolcrib tools approve demo__echo
  toolcrib demo change --undo

The demo's MCP server then describes its tool `echo` differently and takes one more argument, `loud`.
The demo quarantines the tool: no caller can list or call it until its new form is approved. The
command writes a file to the data directory, so use the --data-dir of `serve --demo`.")]
    Change {
        /// Change the tool back to its first form
        #[arg(long)]
        undo: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// Show all steps without waiting for Enter
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// The arguments of the demo's MCP server.
#[derive(Debug, Args)]
pub(crate) struct DemoUpstreamArgs {
    /// Offer `echo` in its changed form while this file exists
    #[arg(long, value_name = "FILE")]
    pub(crate) changed_by: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Set the tenant of the caller, if there is no key [default: default]
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<TenantId>,

    /// Give the caller this scope, if there is no key; may be repeated [default: *]
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<Grant>,

    /// Serve only the tools of this toolset
    #[arg(long, value_name = "NAME")]
    pub(crate) toolset: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools with their source, tier, scopes and approval
    #[command(after_help = "\
Examples:
  toolcrib tools list
  toolcrib tools list -o wide
  toolcrib tools list --json | jq -r '.[].toolId'
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt tools list --source mcp
  toolcrib tools list --toolset work

Without --url the command starts the sources of the configuration and lists all tools. With --url
it lists the tools that the key may use.")]
    List(ToolListArgs),

    /// Search tools by words in their names and descriptions, best match first
    #[command(after_help = "\
Examples:
  toolcrib tools search read a file
  toolcrib tools search open issue --limit 5 --json | jq -r '.[].toolId'
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt tools search --toolset work send mail

Names count more than descriptions, and rare words more than frequent ones. A word that no tool
contains matches the beginnings of words. With --url it searches only the tools that the key may
use.")]
    Search(ToolSearchArgs),

    /// Report errors, risks and usability problems of tools
    #[command(after_help = "\
Examples:
  toolcrib tools lint
  toolcrib tools lint --strict --json | jq -r '.[] | [.severity, .tool, .rule, .pointer] | @tsv'
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt tools lint

An error must be fixed, such as a secret in a description or a pure tool with egress. A warning is
probably a mistake, such as invisible characters or a tool hidden from all callers. Advice
helps models: descriptions, the portable subset of JSON Schema, the compact view.
Invisible characters are never sent to callers, so they are found only without --url, which checks
the texts as the upstreams sent them, and also the quarantined tools.
The exit code is 1 when there is an error, with --strict also for a warning.")]
    Lint(ToolLintArgs),

    /// Show the changes of upstream tools since their approval
    #[command(after_help = "\
Examples:
  toolcrib tools diff
  toolcrib tools diff mcp:files.read_file
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt tools diff --json

Shows the differences between the approved form and the newest other form, member by member.
Invisible characters are printed as \\u202e. The newest form is the one that the server or a
command discovered last. With --url the key needs the scope pins:approve.")]
    Diff {
        /// Show only this tool, by tool id, wire name or OTC id [default: all pending changes]
        tool: Option<String>,
    },

    /// Approve the pending changes of upstream tools
    #[command(after_help = "\
Examples:
  toolcrib tools approve mcp:files.read_file
  toolcrib tools approve --source files
  toolcrib tools approve mcp:files.read_file --keep-earlier
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt tools approve --all

Approves the changes that `tools diff` shows, for every tenant of the source. A running server
offers the tool at once with --url, and otherwise within two seconds. With --url the key needs the
scope pins:approve.

Only the new form is approved then. With --keep-earlier, a tool that alternates between forms is
offered in each of them. Without a pending change, naming a tool withdraws its earlier forms.")]
    Approve(ToolApproveArgs),

    /// Show the description, schemas and requirements of one tool
    #[command(after_help = "\
Examples:
  toolcrib tools show mcp:files.read_file
  toolcrib tools show files__read_file --json")]
    Show {
        /// Show this tool, by tool id, wire name or OTC id
        tool: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ToolApproveArgs {
    #[command(flatten)]
    pub(crate) which: ToolSelection,

    /// Keep the forms approved that were approved before, at most seven of each tool
    #[arg(long)]
    pub(crate) keep_earlier: bool,
}

#[derive(Debug, Args)]
#[group(id = "which", required = true, multiple = true)]
pub(crate) struct ToolSelection {
    /// Approve these tools, by tool id, wire name or OTC id
    #[arg(value_name = "TOOL", group = "which", conflicts_with_all = ["source", "all"])]
    pub(crate) tools: Vec<String>,

    /// Approve all pending changes of this source
    #[arg(long, value_name = "SOURCE", group = "which", conflicts_with = "all")]
    pub(crate) source: Option<SourceId>,

    /// Approve all pending changes
    #[arg(long, group = "which")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ToolLintArgs {
    /// Select only tools of this kind of source
    #[arg(long, value_name = "KIND", value_parser = one_of(SourceKind::ALL, SourceKind::as_str))]
    pub(crate) source: Option<SourceKind>,

    /// Fail on warnings too
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ToolListArgs {
    /// Select only tools of this kind of source
    #[arg(long, value_name = "KIND", value_parser = one_of(SourceKind::ALL, SourceKind::as_str))]
    pub(crate) source: Option<SourceKind>,

    /// Select only tools of this toolset
    #[arg(long, value_name = "NAME")]
    pub(crate) toolset: Option<String>,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ToolSearchArgs {
    /// Search for these words
    #[arg(required = true, value_name = "WORD")]
    pub(crate) words: Vec<String>,

    /// Print at most this many tools
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u16).range(1..=100))]
    pub(crate) limit: u16,

    #[command(flatten)]
    pub(crate) of: ToolListArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Call this tool, by tool id, wire name or OTC id
    pub(crate) tool: String,

    /// Pass these arguments: a JSON object, `-` (stdin), `@FILE`, or KEY=VALUE pairs
    #[arg(value_name = "JSON|KEY=VALUE")]
    pub(crate) arguments: Vec<String>,

    /// Pass one argument as KEY=VALUE; may be repeated
    #[arg(long = "arg", value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SourcesCommand {
    /// List the sources with their state, tools and problems
    List(Output),

    /// List the sources, and fail if one is not ready or a rule matches no tool
    #[command(after_help = "\
Examples:
  toolcrib sources check && systemctl reload toolcrib")]
    Check(Output),

    /// Add a source to the configuration file
    #[command(after_help = "\
Examples:
  toolcrib sources add files --command npx --args -y @modelcontextprotocol/server-filesystem /srv/docs
  toolcrib sources add tickets --openapi https://tickets.example.com/openapi.json --dry-run
  toolcrib sources add crm --mcp https://crm.example.com/mcp --header Authorization=CRM_TOKEN
  toolcrib sources add notes --command ./notes-server --env NOTES_TOKEN --set pins=warn --yes

The command connects the source, prints the changed lines and the tools that appear for each role, and
waits for a confirmation before it writes. A tool of the source requires the scope `tools:ID` unless a
rule says otherwise: `toolcrib roles add` gives it to a role.

The file keeps its comments and layout, and is replaced as a whole. The text before is kept as
toolcrib.toml.bak. A running server reads the file by itself. Secrets are never in the file: --env NAME
and --header take them from variables of the server.")]
    Add(Box<SourceAddArgs>),

    /// Change a source of the configuration file
    #[command(after_help = "\
Examples:
  toolcrib sources set files --set 'command=[\"npx\", \"-y\", \"files-server\"]'
  toolcrib sources set files --set connect_timeout=60s --unset cwd --dry-run
  toolcrib sources set files --set env.LOG_LEVEL=debug --yes")]
    Set(SetArgs),

    /// Remove a source from the configuration file
    #[command(after_help = "\
Examples:
  toolcrib sources remove files --dry-run")]
    Remove(RemoveArgs),

    /// Print the last stderr lines of the processes of a source
    #[command(after_help = "\
Examples:
  toolcrib sources logs github --url http://127.0.0.1:8808
  toolcrib sources logs github

A source keeps its last 100 lines in memory. They may contain arguments of calls, so the server logs
them only if the source has `stderr = \"log\"`. With --url the command prints the lines of the running
server, and the key needs the scope `sources:logs`. Without --url it starts the sources first.")]
    Logs {
        /// Print the lines of the source with this id
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create an API key and print its text once
    #[command(after_help = "\
Examples:
  toolcrib keys create --name ci --principal ci --tenant default --role reader
  toolcrib keys create --name ops --principal ana --tenant default --scope '*' --expires 30d --json

The store contains only the SHA-256 of the key. Servers that use the same store accept the key
within a second, without a restart.

A role must exist in the configuration. A scope is `a:b:c`, where `*` matches one segment and a last
`*` matches the rest.

With --url the server creates the key in the tenant of the caller. The caller needs the scope
`keys:manage`, and can give only its own scopes and roles. A key for another existing principal also
needs the scope `keys:impersonate`.")]
    Create(KeyCreateArgs),

    /// List the keys without their texts
    #[command(after_help = "\
Examples:
  toolcrib keys list
  toolcrib keys list --json | jq -r '.[] | [.id, .principal, .lastUsedAt] | @tsv'
  toolcrib keys list --sessions
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt keys list

The time of the last use is updated once a minute. With --sessions the command lists the people who
stay signed in to the page; `toolcrib keys revoke` closes a session.")]
    List(KeyListArgs),

    /// Replace a key by a new one; both work until the overlap is over
    #[command(after_help = "\
Examples:
  toolcrib keys rotate KEY_ID
  toolcrib keys rotate KEY_ID --overlap 1d --json
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt keys rotate KEY_ID --overlap 10m

The new key has the same principal, roles, scopes and lifetime as the old one. Its text is printed
once.")]
    Rotate {
        /// Replace the key with this id
        id: KeyId,

        /// Keep the old key valid for this time: 10m, 1d; at most 30d
        #[arg(long, value_name = "DURATION", value_parser = lifetime, default_value = "1h")]
        overlap: Duration,
    },

    /// Revoke a key or a session; running servers refuse it within a second, and at once with --url
    #[command(after_help = "\
Examples:
  toolcrib keys revoke KEY_ID
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt keys revoke KEY_ID")]
    Revoke {
        /// Revoke the key or the session with this id
        id: KeyId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct KeyListArgs {
    /// List the active sessions of people who are signed in to the page
    #[arg(long)]
    pub(crate) sessions: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct KeyCreateArgs {
    /// Name the key, for people
    #[arg(long, value_parser = name)]
    pub(crate) name: String,

    /// Create the key for this principal [default: the name of the key]
    #[arg(long)]
    pub(crate) principal: Option<PrincipalId>,

    /// Set the tenant of the principal [default: default; with --url the caller's]
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,

    /// Give the key this role of the configuration; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    pub(crate) roles: Vec<String>,

    /// Give the key this scope, in addition to those of its roles; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<Grant>,

    /// Let the key expire after this time: 12h, 30d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    pub(crate) expires: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List the runs, newest first
    #[command(after_help = "\
Examples:
  toolcrib runs list --state running
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt runs list")]
    List(RunListArgs),

    /// Show the workflows of a run and their recorded events
    Show {
        /// Show the run with this id
        run: RunId,
    },

    /// Cancel the workflows of a run; they stop within a second
    Cancel {
        /// Cancel the run with this id
        run: RunId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunListArgs {
    /// Select only runs in this state
    #[arg(long, value_parser = one_of(&RunState::ALL, RunState::as_str))]
    pub(crate) state: Option<RunState>,

    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show the newest events
    #[command(after_help = "\
Examples:
  toolcrib audit tail -n 50
  toolcrib audit tail -f --tenant default
  toolcrib audit tail --query 'actor:ada OR actor:bob -status:ok after:7d'")]
    Tail(TailArgs),

    /// Print the events as lines, oldest first
    #[command(after_help = "\
Examples:
  toolcrib audit export > events.jsonl
  toolcrib audit export --after 4711 >> events.jsonl
  toolcrib audit export --tenant default --format ocsf
  toolcrib audit export --tool 'files__*' --from 7d --format cloudevents

At the end, stderr shows the position to continue after. In `jsonl` each line is a RunEvent with the
member `chain`, which `toolcrib audit verify --file` checks. Without --checkpoints, that proves only
that the events fit together.")]
    Export(ExportArgs),

    /// Verify that the record is unchanged
    #[command(after_help = "\
Examples:
  toolcrib audit verify
  toolcrib audit verify --anchor anchors.jsonl --public-key record.pub
  toolcrib audit verify --file events.jsonl

Checks every event against the hash chain of its tenant, the chains against their signed
checkpoints, and those against the witness: the last signed state, in a file next to the store and,
with PostgreSQL, of every server in the database.
That finds events that were changed, removed, moved or added. A file of checkpoints from elsewhere
(--anchor) also reveals a rolled back or rewritten data directory.

Exit codes:
  0  verified; events after the last checkpoint, if any, are younger than the checkpoint interval
  1  something was changed, or the check failed
  2  usage error
  3  verified up to the last checkpoint; later events are older than the interval and not signed
  4  no checkpoint covers the events of a tenant, so it is not proven that they are unchanged
  5  no witness here, although the signing key is: the events match their checkpoints, but the end
     may have been removed with its checkpoints")]
    Verify(VerifyArgs),

    /// Accept a record that does not continue the last signed state
    #[command(after_help = "\
Examples:
  toolcrib audit accept --reason 'backup of Monday restored'

A server signs only events that continue the state it signed before. After you restore a backup,
change the signing key or investigate a loss, this command accepts the record as it is. Stop all
servers first. Each accepted log gets the event record.accepted and a signed checkpoint.
`toolcrib audit verify` still finds changed events.")]
    Accept(AcceptArgs),

    /// Print the public key that verifies the signatures of checkpoints
    #[command(after_help = "\
Examples:
  toolcrib audit key > record.pub

Keep it where users of the store cannot change it, and pass it to `toolcrib audit verify`.")]
    Key,

    /// Show the status of forwarders and anchors
    #[command(after_help = "\
Examples:
  toolcrib audit forwarders
  toolcrib audit forwarders --json --url http://127.0.0.1:8808 --key-file operator.key

A server shows them to keys with the scope metrics:all.")]
    Forwarders(Output),
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// Show this many events
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u32).range(0..=1000))]
    pub(crate) lines: u32,

    /// Keep printing new events as they arrive
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Select only events of this tenant
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// The conditions of a search of the record.
#[derive(Debug, Args)]
#[command(next_help_heading = "Conditions (`*` matches any characters)")]
pub(crate) struct FilterArgs {
    /// Set conditions in one text, such as `actor:ada OR actor:bob -status:ok took:>1s`. Fields: actor,
    /// tool, source, kind, type, status, took, run, id, after, before; a word is found in names and codes
    #[arg(long, value_name = "TEXT")]
    pub(crate) query: Option<String>,

    /// Select only events at this time or later: RFC 3339, a day, or an age such as 24h or 7d
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,

    /// Select only events before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,

    /// Select only events of this principal
    #[arg(long, value_name = "PATTERN")]
    pub(crate) principal: Option<String>,

    /// Select only events of this tool, by id or as `source__name`
    #[arg(long, value_name = "PATTERN")]
    pub(crate) tool: Option<String>,

    /// Select only events of tools of this source
    #[arg(long, value_name = "PATTERN")]
    pub(crate) source: Option<String>,

    /// Select only events of tools of this kind: mcp, connector, workflow, node-pack or host-extension
    #[arg(long, value_name = "PATTERN")]
    pub(crate) kind: Option<String>,

    /// Select only events of this type, such as `approval.*`
    #[arg(long = "type", value_name = "PATTERN")]
    pub(crate) event_type: Option<String>,

    /// Select only events with this status or error code, or every `denied` or `failed` one
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,

    /// Select only calls with this duration, such as `>1s` or `<=250ms`
    #[arg(long, value_name = "COMPARISON")]
    pub(crate) took: Option<String>,

    /// Select only events of this run
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,

    /// Select only events with an id that starts with at least 8 characters: of the event, its run,
    /// call, session or approval
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
}

impl FilterArgs {
    /// The conditions as parameters of `GET /v1/events`.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("query", &self.query),
            ("from", &self.from),
            ("to", &self.to),
            ("principal", &self.principal),
            ("tool", &self.tool),
            ("source", &self.source),
            ("kind", &self.kind),
            ("type", &self.event_type),
            ("status", &self.status),
            ("took", &self.took),
            ("run", &self.run),
            ("id", &self.id),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }

    /// # Errors
    /// An invalid condition.
    pub(crate) fn filter(&self) -> Result<EventFilter, InvalidFilter> {
        let now = chrono::Utc::now();
        let mut filter = EventFilter::default();
        for (name, value) in self.parameters() {
            match name {
                "query" => filter.add_query(value, now)?,
                _ => filter.set(name, value, now)?,
            }
        }
        Ok(filter)
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Select only events after this position in the log
    #[arg(long, value_name = "POSITION")]
    pub(crate) after: Option<u64>,

    /// Select only events up to this position
    #[arg(long, value_name = "POSITION")]
    pub(crate) until: Option<u64>,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    /// Select only events of this tenant; positions are those in its own log
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,

    /// Set the format of the events
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ExportFormat,

    /// Print the signed checkpoints before the events, so that the export can be verified alone
    #[arg(long)]
    pub(crate) checkpoints: bool,
}

/// The format of exported events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExportFormat {
    /// RunEvents with the hashes that check them
    #[default]
    Jsonl,
    /// RunEvents only
    Events,
    /// A table for spreadsheets
    Csv,
    /// OCSF 1.3 API Activity
    Ocsf,
    /// CloudEvents 1.0
    Cloudevents,
}

#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// Record this reason
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Check only the log of this tenant
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,

    /// Start at this position in the tenant's log; needs --tenant
    #[arg(long, value_name = "POSITION", requires = "tenant")]
    pub(crate) from: Option<u64>,

    /// Stop at this position in the tenant's log; needs --tenant
    #[arg(long, value_name = "POSITION", requires = "tenant")]
    pub(crate) to: Option<u64>,

    /// Check this export instead of the store
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Also check the checkpoints in this file from elsewhere; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) anchor: Vec<PathBuf>,

    /// Also trust the public key in this file; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) public_key: Vec<PathBuf>,

    /// Set the signing interval [default: `checkpoint_interval` of the configuration]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) interval: Option<Duration>,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct HashArgs {
    /// Hash this document, or `-` for stdin
    #[arg(value_name = "JSON", default_value = "-")]
    pub(crate) document: String,

    /// Hash the document without redaction
    #[arg(long)]
    pub(crate) no_redact: bool,

    /// Hash with `[record] hash_key` of the configuration: HMAC-SHA-256
    #[arg(long)]
    pub(crate) keyed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenArgs {
    /// Write the files below this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// The arguments of `health`.
#[derive(Debug, clap::Args)]
pub(crate) struct HealthArgs {
    /// Check only whether the process answers (`/livez`), not whether it is ready (`/readyz`)
    #[arg(long)]
    pub(crate) live: bool,

    /// Wait at most this long for the answer
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=300))]
    pub(crate) timeout: u64,
}
