//! The arguments of each command.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use toolcrib_core::{
    descriptor::SourceKind,
    id::{KeyId, PrincipalId, RunId, SourceId, TenantId},
    scope::Grant,
    store::RunState,
    suggest,
    text::has_hidden,
};

use super::Output;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Serve a built-in demo: four keys of two tenants, five sources, one of each kind. It needs no
    /// configuration, no network and no other program
    #[arg(long)]
    pub(crate) demo: bool,

    /// The address to listen on; port 0 takes a free one [default: 127.0.0.1:8808, or the file's]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,

    /// Apply a changed configuration that is empty or has no sources left
    #[arg(long)]
    pub(crate) allow_empty: bool,

    /// Also serve the OpenWOP test routes (/v1/host/sample/...), for conformance runs on a loopback
    /// address with a data directory of their own; never for real callers. Needs a build with the
    /// feature `test-routes`
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

They are read from demo.json in the data directory: name the same --data-dir as `serve --demo`.
With the name of a key only its text is printed.")]
    Keys {
        /// The key's name
        #[arg(value_parser = crate::demo::CALLER_NAMES)]
        name: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The tenant of the caller, when there is no key
    #[arg(long, default_value = "default")]
    pub(crate) tenant: TenantId,

    /// A scope of the caller, when there is no key; may be repeated [default: *]
    #[arg(long = "scope", value_name = "SCOPE", value_parser = grant)]
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

    /// Search tools by words of their names and descriptions, best match first
    #[command(after_help = "\
Examples:
  toolcrib tools search read a file
  toolcrib tools search open issue --limit 5 --json | jq -r '.[].toolId'
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt tools search --toolset work send mail

Names count more than descriptions, rare words more than frequent ones; a word that no tool has counts
as the beginning of one. With --url it searches only the tools that the key may use.")]
    Search(ToolSearchArgs),

    /// Report errors, risks and usability problems of tools
    #[command(after_help = "\
Examples:
  toolcrib tools lint
  toolcrib tools lint --strict --json | jq -r '.[] | [.severity, .tool, .rule, .pointer] | @tsv'
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt tools lint

An error must be fixed, such as a secret in a description or a pure tool with egress. A warning is
probably a mistake, such as invisible characters or a tool that is hidden from all callers. Advice
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
Invisible characters are printed as <U+202E>. The newest form is the one that the server or a
command discovered last. With --url the key needs the scope pins:approve.")]
    Diff {
        /// Tool id, wire name or OTC id [default: all pending changes]
        tool: Option<String>,
    },

    /// Approve the pending changes of upstream tools
    #[command(after_help = "\
Examples:
  toolcrib tools approve mcp:files.read_file
  toolcrib tools approve --source files
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt tools approve --all

Approves the changes that `tools diff` shows. A running server offers the tool at once with --url, and
within two seconds when the store was changed. The approval holds for every tenant of the source.
With --url the key needs the scope pins:approve.")]
    Approve(ToolApproveArgs),

    /// Show one tool: description, schemas, requirements
    #[command(after_help = "\
Examples:
  toolcrib tools show mcp:files.read_file
  toolcrib tools show files__read_file --json")]
    Show {
        /// Tool id, wire name or OTC id
        tool: String,
    },
}

#[derive(Debug, Args)]
#[group(id = "which", required = true, multiple = true)]
pub(crate) struct ToolApproveArgs {
    /// Tool ids, wire names or OTC ids
    #[arg(value_name = "TOOL", group = "which", conflicts_with_all = ["source", "all"])]
    pub(crate) tools: Vec<String>,

    /// All pending changes of this source
    #[arg(long, value_name = "SOURCE", group = "which", conflicts_with = "all")]
    pub(crate) source: Option<SourceId>,

    /// All pending changes
    #[arg(long, group = "which")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ToolLintArgs {
    /// Only tools of this kind of source
    #[arg(long, value_name = "KIND", value_parser = source_kind)]
    pub(crate) source: Option<SourceKind>,

    /// Fail on warnings, too
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ToolListArgs {
    /// Only tools of this kind of source
    #[arg(long, value_name = "KIND", value_parser = source_kind)]
    pub(crate) source: Option<SourceKind>,

    /// Only tools of this toolset
    #[arg(long, value_name = "NAME")]
    pub(crate) toolset: Option<String>,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ToolSearchArgs {
    /// Words to search for
    #[arg(required = true, value_name = "WORD")]
    pub(crate) words: Vec<String>,

    /// Maximum number of tools
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) limit: u16,

    #[command(flatten)]
    pub(crate) of: ToolListArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Tool id, wire name or OTC id
    pub(crate) tool: String,

    /// The arguments: a JSON object, `-` for one on stdin, `@FILE` for one in a file, or KEY=VALUE
    #[arg(value_name = "JSON|KEY=VALUE")]
    pub(crate) arguments: Vec<String>,

    /// One argument of the tool, as KEY=VALUE; may be repeated
    #[arg(long = "arg", value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SourcesCommand {
    /// List the sources with their state, tools and problems
    List(Output),

    /// As list, but the exit code is 1 when a source is not ready or a rule matches nothing
    #[command(after_help = "\
Examples:
  toolcrib sources check && systemctl reload toolcrib")]
    Check(Output),

    /// Print the last lines that the processes of a source wrote to stderr
    #[command(after_help = "\
Examples:
  toolcrib sources logs github --url http://127.0.0.1:8808
  toolcrib sources logs github

A source keeps its last 100 lines in memory. They may hold arguments of calls, so they are not in the
server's log unless the source has `stderr = \"log\"`. With --url they are those of the running server,
and the caller needs the scope `sources:logs`. Without --url the command starts the sources, as
`sources check` does, and prints their stderr.")]
    Logs {
        /// The source's id
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print its text once
    #[command(after_help = "\
Examples:
  toolcrib keys create --name ci --principal ci --tenant default --role reader
  toolcrib keys create --name ops --principal ana --tenant default --scope '*' --expires 30d --json

The text of the key is printed on stdout and stored nowhere; only its SHA-256 is. Servers that use
the same store accept the key within a second, without a restart.

A role is a name in the configuration; one that does not exist is refused. A scope is `a:b:c`, where
`*` matches one segment and a last `*` the rest.

With --url the server creates the key in the tenant of the caller, who needs the scope `keys:manage`
and can give only scopes and roles that it has itself. A key of any other existing principal also
needs the scope `keys:impersonate`, even if the caller has just created that principal.")]
    Create(KeyCreateArgs),

    /// List the keys, without their text
    #[command(after_help = "\
Examples:
  toolcrib keys list
  toolcrib keys list --json | jq -r '.[] | [.id, .principal, .lastUsedAt] | @tsv'
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt keys list

The time of the last use is stored once a minute.")]
    List(Output),

    /// Create the successor of a key; both work until the overlap ends
    #[command(after_help = "\
Examples:
  toolcrib keys rotate KEY_ID
  toolcrib keys rotate KEY_ID --overlap 1d --json
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt keys rotate KEY_ID --overlap 10m

The new key has the same principal, roles, scopes and lifetime as the old one. Its text is printed
once.")]
    Rotate {
        /// Id of the key, as `keys list` shows it
        id: KeyId,

        /// How long the old key stays valid: 10m, 1d; at most 30d
        #[arg(long, value_name = "DURATION", value_parser = lifetime, default_value = "1h")]
        overlap: std::time::Duration,
    },

    /// Revoke a key: running servers refuse it within a second, and at once with --url
    #[command(after_help = "\
Examples:
  toolcrib keys revoke KEY_ID
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt keys revoke KEY_ID")]
    Revoke {
        /// Id of the key, as `keys list` shows it
        id: KeyId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct KeyCreateArgs {
    /// Name for people
    #[arg(long, value_parser = name)]
    pub(crate) name: String,

    /// The principal of the key; limits and events are per principal [default: the name]
    #[arg(long)]
    pub(crate) principal: Option<PrincipalId>,

    /// The tenant of the principal [default: default; with --url the caller's]
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,

    /// A role of the configuration; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    pub(crate) roles: Vec<String>,

    /// A scope in addition to those of the roles; may be repeated
    #[arg(long = "scope", value_name = "SCOPE", value_parser = grant)]
    pub(crate) scopes: Vec<Grant>,

    /// When the key stops working, from now: 12h, 30d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    pub(crate) expires: Option<std::time::Duration>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List the runs, the newest first
    #[command(after_help = "\
Examples:
  toolcrib runs list --state running
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt runs list")]
    List(RunListArgs),

    /// Show the workflows of a run and their recorded events
    Show {
        /// The run, as `runs list` shows it
        run: RunId,
    },

    /// End the workflows of a run; the process that runs them does it within a second
    Cancel {
        /// The run, as `runs list` shows it
        run: RunId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunListArgs {
    /// Only in this state: running, completed, failed or cancelled
    #[arg(long, value_parser = run_state)]
    pub(crate) state: Option<RunState>,

    /// Maximum number of runs
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) lines: u32,

    /// Only this tenant's runs
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,

    #[command(flatten)]
    pub(crate) output: Output,
}

fn run_state(text: &str) -> Result<RunState, String> {
    let found = RunState::ALL.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| {
        let suggestion = suggest::did_you_mean(text, RunState::ALL.iter().map(|it| it.as_str()));
        format!("expected running, completed, failed or cancelled{suggestion}")
    })
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show the newest events
    #[command(after_help = "\
Examples:
  toolcrib audit tail -n 50
  toolcrib audit tail -f --tenant default")]
    Tail(TailArgs),

    /// Print events, one a line, oldest first
    #[command(after_help = "\
Examples:
  toolcrib audit export > events.jsonl
  toolcrib audit export --after 4711 >> events.jsonl
  toolcrib audit export --tenant default --format ocsf

At the end, stderr shows the position to continue after. In `jsonl` each line has the members of the
RunEvent and a member `chain`, with which `toolcrib audit verify --file` checks the export. Without
--checkpoints, that proves only that the events fit together.")]
    Export(ExportArgs),

    /// Verify that the record is unchanged
    #[command(after_help = "\
Examples:
  toolcrib audit verify
  toolcrib audit verify --anchor anchors.jsonl --public-key record.pub
  toolcrib audit verify --file events.jsonl

Every event is checked against the hash chain of its tenant, the chains against their signed
checkpoints, and those against the witness, a file next to the store with the last signed state.
That finds events that were changed, removed, moved or added. A file of checkpoints from elsewhere
(--anchor) also reveals a data directory that was rolled back to an earlier state or rewritten.

Exit codes:
  0  verified; events after the last checkpoint, if any, are younger than the checkpoint interval
  1  something was changed, or the check failed
  2  usage error
  3  verified up to the last checkpoint; later events are older than the interval and not signed
  4  no checkpoint covers the events of a tenant, so nothing proves that they are unchanged")]
    Verify(VerifyArgs),

    /// Accept a record that does not continue the last signed state
    #[command(after_help = "\
Examples:
  toolcrib audit accept --reason 'backup of Monday restored'

A server signs only events that continue the state it signed before. After restoring a backup,
changing the signing key or investigating a loss, this accepts the record as it is. Stop the server
first. Each accepted log gets the event record.accepted and a signed checkpoint of that kind.
`toolcrib audit verify` still finds changed events.")]
    Accept(AcceptArgs),

    /// Print the public key that verifies the signatures of checkpoints
    #[command(after_help = "\
Examples:
  toolcrib audit key > record.pub

Keep it where those who can write the store cannot change it; pass it to `toolcrib audit verify`.")]
    Key,

    /// Show the status of forwarders and anchors
    #[command(after_help = "\
Examples:
  toolcrib audit forwarders
  toolcrib audit forwarders --json --url http://127.0.0.1:8808 --key-file operator.key

A server shows them to keys with the scope metrics:read.")]
    Forwarders(Output),
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// Number of events
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) lines: u32,

    /// Keep printing new events as they arrive
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Only this tenant's events
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Only events after this position in the log
    #[arg(long, value_name = "POSITION", conflicts_with = "from")]
    pub(crate) after: Option<u64>,

    /// Only events from this position on
    #[arg(long, value_name = "POSITION")]
    pub(crate) from: Option<u64>,

    /// Only events up to this position
    #[arg(long, value_name = "POSITION")]
    pub(crate) to: Option<u64>,

    /// Only this tenant's events; then positions are those in its own log
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,

    /// Format of the events
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ExportFormat,

    /// Write the signed checkpoints before the events, so that the export proves itself
    #[arg(long)]
    pub(crate) checkpoints: bool,
}

/// The format of exported events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExportFormat {
    /// RunEvents with the hashes that check them
    #[default]
    Jsonl,
    /// RunEvents and nothing else
    Events,
    /// OCSF 1.3 API Activity
    Ocsf,
    /// CloudEvents 1.0
    Cloudevents,
}

#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// Reason for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Only this tenant's log
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,

    /// From this position in the tenant's log on; needs --tenant
    #[arg(long, value_name = "POSITION", requires = "tenant")]
    pub(crate) from: Option<u64>,

    /// Up to this position in the tenant's log; needs --tenant
    #[arg(long, value_name = "POSITION", requires = "tenant")]
    pub(crate) to: Option<u64>,

    /// Check this export instead of the store
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// A file of checkpoints that was kept elsewhere; can be given more than once
    #[arg(long, value_name = "FILE")]
    pub(crate) anchor: Vec<PathBuf>,

    /// A file with another trusted public key; can be given more than once
    #[arg(long, value_name = "FILE")]
    pub(crate) public_key: Vec<PathBuf>,

    /// How often the record is signed [default: `checkpoint_interval` of the configuration]
    #[arg(long, value_name = "DURATION", value_parser = toolcrib_gateway::config::parse_duration)]
    pub(crate) interval: Option<Duration>,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report all problems of a configuration file
    #[command(after_help = "\
Examples:
  toolcrib config check
  toolcrib config check /etc/toolcrib/toolcrib.toml --connect")]
    Check {
        /// The file [default: that of --config]
        file: Option<PathBuf>,

        /// Also start the sources, wait for their tools, and report entries without a match
        #[arg(long)]
        connect: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The client's file, or `-` for stdin; comments in it are fine
    pub(crate) file: PathBuf,

    /// The output file [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the output file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HashArgs {
    /// The document, or `-` for stdin
    #[arg(value_name = "JSON", default_value = "-")]
    pub(crate) document: String,

    /// Hash the document as it is
    #[arg(long)]
    pub(crate) no_redact: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenArgs {
    /// Where to write; files get their paths in the tree
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

fn grant(text: &str) -> Result<Grant, String> {
    Grant::parse(text).map_err(|error| error.to_string())
}

fn name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("is empty".to_owned()),
        name if name.len() > 128 => Err("is longer than 128 bytes".to_owned()),
        name if has_hidden(name) => {
            Err("has a control character or another one that is not seen".to_owned())
        }
        name => Ok(name.to_owned()),
    }
}

fn source_kind(text: &str) -> Result<SourceKind, String> {
    text.parse().map_err(|error: toolcrib_core::descriptor::UnknownValue| {
        let suggestion = suggest::did_you_mean(text, SourceKind::ALL.iter().map(|it| it.as_str()));
        format!("{error}{suggestion}")
    })
}

/// Parses a duration of the configuration, or a number of days.
pub(super) fn lifetime(text: &str) -> Result<std::time::Duration, String> {
    const DAY: u64 = 86_400;
    // The limit is 100 years: longer lifetimes are mistakes and overflow dates.
    const MAX_DAYS: u64 = 36_500;
    let duration = match text.strip_suffix('d').map(str::parse::<u64>) {
        Some(Ok(days @ 1..=MAX_DAYS)) => Some(std::time::Duration::from_secs(days * DAY)),
        Some(_) => None,
        None => toolcrib_gateway::config::parse_duration(text).ok(),
    };
    duration
        .filter(|duration| duration.as_secs() <= MAX_DAYS * DAY)
        .ok_or_else(|| "expected a duration such as \"12h\" or \"30d\"".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_read_and_nonsense_is_not() {
        assert_eq!(lifetime("30d").unwrap().as_secs(), 30 * 86_400);
        assert_eq!(lifetime("12h").unwrap().as_secs(), 43_200);
        for text in ["", "d", "0d", "-1d", "30", "36501d", "99999999999999999999d", "900000h"] {
            assert!(lifetime(text).is_err(), "{text}");
        }
    }
}
