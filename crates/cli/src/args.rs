//! The command line. Parsing has no side effects; the commands interpret the values.

mod approvals;
mod clients;
mod commands;
mod config;
mod conformance;
mod connections;
mod credentials;
mod edits;
mod explain;
mod output;
mod packs;
mod parsers;
mod store;
mod top;

use std::path::PathBuf;

use clap::{ArgAction, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use toolcrib_core::credential::Secret;

pub(crate) use approvals::{ApprovalAnswerArgs, ApprovalListArgs, ApprovalsCommand};
pub(crate) use clients::ClientsCommand;
pub(crate) use commands::{
    AcceptArgs, AuditCommand, CallArgs, DemoCommand, DemoUpstreamArgs, ExportArgs, ExportFormat,
    FilterArgs, GenArgs, HashArgs, HealthArgs, KeyCreateArgs, KeysCommand, McpArgs, RunListArgs,
    RunsCommand, ServeArgs, SourcesCommand, TailArgs, ToolApproveArgs, ToolLintArgs, ToolListArgs,
    ToolsCommand, TryArgs, VerifyArgs,
};
pub(crate) use config::{ConfigCommand, ImportArgs, InitArgs};
pub(crate) use conformance::ConformanceArgs;
pub(crate) use connections::{ConnectArgs, ConnectionsCommand, DisconnectArgs};
pub(crate) use credentials::{
    ClientAuthArg, CredentialOwnerArgs, CredentialRotateArgs, CredentialSetArgs,
    CredentialValueArgs, CredentialsCommand,
};
pub(crate) use edits::{
    ApprovalArg, EditArgs, RemoveArgs, RoleAddArgs, RoleSetArgs, RolesCommand, RuleArgs,
    RulesCommand, SetArgs, SettingArgs, SourceAddArgs, TierArg, ToolsetsCommand,
};
pub(crate) use explain::ExplainArgs;
pub(crate) use output::OutputFormat;
pub(crate) use packs::{PackSelector, PackTrust, PacksCommand};
pub(crate) use store::{StoreCommand, StoreCopyArgs};
pub(crate) use top::TopArgs;

use crate::{env, version};

/// Give your agents one catalog of tools, check every call, and record it.
///
/// toolcrib connects to your tool servers, lists for each caller the tools that it may use, in four
/// protocols (OpenWOP, Open Tool Calling, MCP and a browser explorer), checks every call against
/// your rules, and records what happened.
#[derive(Debug, Parser)]
#[command(
    name = "toolcrib",
    version = version::SHORT.as_str(),
    long_version = version::LONG.as_str(),
    arg_required_else_help = true,
    propagate_version = true,
    after_help = "\
Examples:
  toolcrib try                              take a tour in five steps
  toolcrib serve --demo                     try it without a configuration or a network
  toolcrib init                             write a toolcrib.toml from the clients you have
  toolcrib import claude_desktop_config.json -o toolcrib.toml
  toolcrib config check                     report the problems of ./toolcrib.toml
  toolcrib serve                            serve ./toolcrib.toml
  toolcrib keys create --name ci --principal ci --tenant default --scope 'files:*'
  toolcrib call files__read_file '{\"path\": \"/srv/docs/a.md\"}'
  toolcrib audit tail -f                    watch the events

Exit codes: 0 success, 1 failure, 2 usage error. With --json a failure is an object on stdout:
{\"error\": {\"message\": ..., \"causes\": [...], \"hint\": ...}}."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that an environment variable can set.
const WITH_VARIABLES: [(&str, &str); 7] = [
    ("config", env::CONFIG),
    ("data_dir", env::DATA_DIR),
    ("url", env::URL),
    ("key", env::KEY),
    ("ca_file", env::CA_FILE),
    ("client_cert", env::CLIENT_CERT),
    ("client_key", env::CLIENT_KEY),
];

/// Parses the arguments of this process. An empty variable counts as unset, because services and
/// shell scripts may pass one on.
pub(crate) fn parse() -> Result<Args, clap::Error> {
    let mut command = Args::command();
    for (option, variable) in WITH_VARIABLES {
        if env::is_empty(variable) {
            command = command.mut_arg(option, |arg| arg.env(None::<&'static str>));
        }
    }
    Args::from_arg_matches(&command.try_get_matches()?)
}

/// The options of every command.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct GlobalOptions {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Read this configuration file [default: ./toolcrib.toml if it exists]
    #[arg(long, global = true, value_name = "FILE", env = env::CONFIG, hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,

    /// Keep state in this directory: the store is DIR/toolcrib.db unless the file sets
    /// `[store] url` [default: the directory of an absolute `[store] url`, or .toolcrib next to the
    /// configuration file]
    #[arg(long, global = true, value_name = "DIR", env = env::DATA_DIR, hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Use the running server at this address instead of the store
    #[arg(long, global = true, value_name = "URL", env = env::URL, hide_env_values = true)]
    pub(crate) url: Option<String>,

    /// Present this API key; prefer the variable or --key-file, because other users of the machine
    /// can see arguments
    #[arg(
        long,
        global = true,
        value_name = "KEY",
        env = env::KEY,
        hide_env_values = true,
        value_parser = parsers::secret
    )]
    pub(crate) key: Option<Secret>,

    /// Read the API key from this file; takes precedence over --key
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Trust the certificate authorities in this PEM file too, for an https --url
    #[arg(long, global = true, value_name = "FILE", env = env::CA_FILE, hide_env_values = true)]
    pub(crate) ca_file: Option<PathBuf>,

    /// Present the client certificate in this PEM file, for a server that requires one
    #[arg(long, global = true, value_name = "FILE", env = env::CLIENT_CERT, hide_env_values = true)]
    pub(crate) client_cert: Option<PathBuf>,

    /// Read the private key of --client-cert from this PEM file, if it is not in the same one
    #[arg(long, global = true, value_name = "FILE", env = env::CLIENT_KEY, hide_env_values = true)]
    pub(crate) client_key: Option<PathBuf>,

    /// Print fewer messages on stderr
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print more messages on stderr; repeat for even more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the tools of a configuration, or a demo
    #[command(after_help = "\
Examples:
  toolcrib serve
  toolcrib serve --config /etc/toolcrib/toolcrib.toml --data-dir /var/lib/toolcrib
  toolcrib serve --demo --listen 127.0.0.1:0

When the server is ready, it prints `listening on http://ADDR` on stdout, with `[server] tls`
`https://ADDR`. Logs go to stderr; TOOLCRIB_LOG sets the filter. SIGTERM and SIGINT shut it down in order.

The server reloads the configuration on SIGHUP and when the file changes. A file with errors is
logged and not applied. A file that became empty or lost all its sources needs --allow-empty.

Only one server can use a data directory, because each server counts limits on its own.

The address must be a loopback address unless the file sets `[server] tls`, or `behind_proxy = true`
with a proxy in front that terminates TLS: otherwise keys are sent unencrypted.")]
    Serve(ServeArgs),

    /// Serve MCP over stdin and stdout, for clients that start their servers
    #[command(after_help = "\
Examples:
  toolcrib mcp --config /srv/toolcrib.toml
  toolcrib mcp --scope 'files:read'
  TOOLCRIB_KEY=tc_... toolcrib mcp
  TOOLCRIB_URL=https://crib.example.com TOOLCRIB_KEY=tc_... toolcrib mcp

Without a key the caller is the principal `operator` with scope `*` in tenant `default`. Calls are
checked and recorded as on a server. With --url the command starts no sources: it forwards messages
to the running server, and the key decides what the caller may do.")]
    Mcp(McpArgs),

    /// Take a tour in five steps; it needs no configuration and no network
    #[command(after_help = "\
Examples:
  toolcrib try
  toolcrib try --yes
  toolcrib try --json | jq -r '.commands[].command'

The five steps: list tools as two callers, explain a denied call, approve a risky call, quarantine a
tool that its server has changed, and prove that the record is unchanged.

The command starts the server of `serve --demo` on a free port of 127.0.0.1, with its state in a
temporary directory, and removes both at the end. Each step prints the commands that it runs and
their real output. Repeat them in a second terminal while a step waits for Enter; q stops the tour.
Without a terminal, and with --yes, it does not wait. With --json each step is an object on one line,
with its commands, exit codes and outputs.

Each step checks its results. If one fails, the command names it, and its exit code is 1.")]
    Try(TryArgs),

    /// Print the keys of the demo, or change one of its tools
    #[command(subcommand)]
    Demo(DemoCommand),

    /// List, search, check and approve tools
    #[command(subcommand)]
    Tools(ToolsCommand),

    /// Call a tool and print its result
    #[command(after_help = "\
Examples:
  toolcrib call files__read_file '{\"path\": \"/srv/docs/a.md\"}'
  toolcrib call files__read_file path=/srv/docs/a.md
  toolcrib call demo__add a=1 --arg b=2
  toolcrib call mcp:files.read_file @arguments.json
  toolcrib call notes__write name=today text=@notes.md
  echo '{\"a\": 1, \"b\": 2}' | toolcrib call demo__add -
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt call demo__echo '{\"text\": \"hi\"}'

The tool's schema sets the type of a VALUE: a number, true or false, JSON for lists and objects, or
text. @FILE is the text of a file, @- the text of stdin, and @@ a literal @.

Progress goes to stderr. With --json the command prints the whole response. The exit code is 1 when
the tool failed or did not run.")]
    Call(CallArgs),

    /// Explain why a principal can or cannot call a tool, or why its list is empty
    #[command(after_help = "\
Examples:
  toolcrib explain --principal ci --tool files__write_file
  toolcrib explain --principal ci --tenant acme
  toolcrib explain --scope 'files:*' --tool mcp:files.read --arguments-shape '{\"path\": \"x\"}'
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt explain --tool files__write_file
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt explain --principal ci --tool files__write_file

Prints the checks in the order of a call: key, tool, tenant, pin, scope, policy, connection, rate,
quota, approval, source. It makes no call and uses up no limit. With --url the server explains only facts
that a call of the key would reveal. Another principal of the tenant needs --principal and the scope
`explain:others`.

The exit code is 0 if a call would run, perhaps only after an approval or with other arguments, and
else 1; for a list, it is 1 if the list is empty.")]
    Explain(ExplainArgs),

    /// List, check, add, change and remove sources
    #[command(subcommand)]
    Sources(SourcesCommand),

    /// Show what roles see; add, change and remove roles
    #[command(subcommand)]
    Roles(RolesCommand),

    /// Add, change and remove toolsets
    #[command(subcommand)]
    Toolsets(ToolsetsCommand),

    /// Propose, add, change and remove rules of sources
    #[command(subcommand)]
    Rules(RulesCommand),

    /// Show the calls, sources and pending approvals of a running server
    #[command(after_help = "\
Examples:
  toolcrib top --url http://127.0.0.1:8808 --key-file operator.key
  toolcrib top --once
  toolcrib top --once --json | jq '.sources[] | select(.up | not)'
  toolcrib top --json --interval 10s >> figures.jsonl

The figures are those of `/metrics`, so the key needs the scope metrics:all, unless the server sets
`[server] public_metrics = true`. Rates and quantiles are of the last interval. The key q stops the
command. Without a terminal it prints once. With --json it prints a line after each interval.")]
    Top(TopArgs),

    /// Create, list, rotate and revoke API keys
    #[command(subcommand)]
    Keys(KeysCommand),

    /// Manage the credentials of sources: tokens, passwords, OAuth clients
    #[command(subcommand)]
    Credentials(CredentialsCommand),

    /// List, connect and disconnect the accounts that your calls act with
    #[command(subcommand)]
    Connections(ConnectionsCommand),

    /// List and end the clients that people signed in with
    #[command(subcommand)]
    Clients(ClientsCommand),

    /// Install, list, check and remove packs of tools
    #[command(subcommand)]
    Packs(PacksCommand),

    /// List, show and cancel workflow runs
    #[command(subcommand)]
    Runs(RunsCommand),

    /// List and answer approvals
    #[command(subcommand)]
    Approvals(ApprovalsCommand),

    /// Read, export and verify the record
    #[command(subcommand)]
    Audit(AuditCommand),

    /// Copy, migrate or check the store
    #[command(subcommand)]
    Store(StoreCommand),

    /// Check a configuration file, or print its JSON Schema
    #[command(subcommand)]
    Config(ConfigCommand),

    /// Check whether a host conforms to the protocols it serves
    #[command(after_help = "\
Examples:
  toolcrib conformance --list
  toolcrib conformance --url http://127.0.0.1:8808 --key-file key.txt --protocol openwop
  toolcrib conformance --url https://tools.example.com --junit report.xml --tool files.list

The host can be this program or any other. Without --protocol, the command checks all protocols that
the host serves. It calls only the tool of --tool and tools that the host marks as read-only, and
skips checks that need another call.

A failure is printed with its requests and responses; keys are masked. The exit code is 1 if a
requirement of level `must` fails, with --strict also one of level `should`.")]
    Conformance(Box<ConformanceArgs>),

    /// Check whether a running server is ready, for probes and scripts
    #[command(after_help = "\
Examples:
  toolcrib health
  toolcrib health --config /etc/toolcrib/toolcrib.toml
  toolcrib --url https://tools.example.com health --live

Without --url the server is that of `[server] listen` on this machine, and has to present the
certificate of `[server] tls`. The command sends no key. The exit code is 0 if the server is ready, and
1 if it is not ready or does not answer in time.")]
    Health(HealthArgs),

    /// Write a first toolcrib.toml from the clients that are installed
    #[command(after_help = "\
Examples:
  toolcrib init
  toolcrib init --yes
  toolcrib init --from ~/.cursor/mcp.json --dry-run
  toolcrib init --no-input --config /etc/toolcrib/toolcrib.toml

The command looks for the files of Claude Desktop, Claude Code, Cursor, VS Code and Codex in their
usual places in your home and in this directory, lists the servers in each, and waits for your consent
before it imports them. Without a terminal it imports only with --yes or --from. It changes no file of
a client and starts no server.

Secrets are not copied: a variable or header that may be one becomes `{ env = \"NAME\" }`, and the
command lists the variables to set. `toolcrib import --help` has the rules, and converts other files.

It writes ./toolcrib.toml or the file of --config, with comments, and next to it the JSON Schema of
such files, by which editors complete and check them. Files that exist stay as they are without
--force.")]
    Init(InitArgs),

    /// Convert the servers of a desktop client or another gateway to a toolcrib.toml
    #[command(after_help = "\
Examples:
  toolcrib import ~/.config/Claude/claude_desktop_config.json
  toolcrib import .cursor/mcp.json -o toolcrib.toml
  toolcrib import .vscode/mcp.json | less
  ssh laptop cat .cursor/mcp.json | toolcrib import -
  toolcrib import agentgateway.yaml -o toolcrib.toml

The format is detected: `mcpServers` of Claude Desktop, Cursor, Continue and other clients, `servers` of
VS Code, `context_servers` of Zed, `mcp` of opencode, `extensions` of Goose, a catalog of Docker's MCP
gateway, the configuration of agentgateway, an export of ContextForge, and `mcp_servers` of LiteLLM; as
JSON or YAML. A `.toml` file is that of Codex.

Only headers and variables that cannot be secrets are copied. The others become `{ env = \"NAME\" }`,
and stderr lists the variables to set. An argument that may be a secret comes from a variable too; the
server then starts through `sh`. A server with an address that may contain a secret becomes a comment
without it. So does one that cannot be converted, or whose restrictions have no
equivalent, with the reason. stderr and the comments name every part without a translation.")]
    Import(ImportArgs),

    /// Hash JSON as the record does: redacted, RFC 8785, SHA-256
    #[command(after_help = "\
Examples:
  toolcrib hash '{\"b\": 1, \"a\": [2.0, 1e3]}'
  curl -s https://example.com/document.json | toolcrib hash --no-redact -

The `argsHash` of an event is the hash of the call's arguments; with `[record] hash_key`, that
of `--keyed`.")]
    Hash(HashArgs),

    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  toolcrib completions bash > ~/.local/share/bash-completion/completions/toolcrib
  toolcrib completions zsh > \"${fpath[1]}/_toolcrib\"
  toolcrib completions fish > ~/.config/fish/completions/toolcrib.fish

--json does not change the output.")]
    Completions {
        /// Complete commands in this shell
        shell: clap_complete::Shell,
    },

    /// Write a man page for each command
    #[command(after_help = "\
Examples:
  toolcrib man ~/.local/share/man/man1
  man toolcrib-keys-create

Creates the directory if it is missing, and replaces the pages of another version. The Debian package
and the archive contain the pages.")]
    Man {
        /// Write toolcrib.1, toolcrib-serve.1 and so on to this directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },

    /// Write the generated files of the source tree
    #[command(hide = true)]
    Gen(GenArgs),

    /// The MCP server of the demo, over stdin and stdout
    #[command(hide = true)]
    DemoUpstream(DemoUpstreamArgs),
}

impl Command {
    /// The output format, if the command prints a list.
    pub(crate) fn output(&self) -> Option<OutputFormat> {
        let output = match self {
            Self::Tools(ToolsCommand::List(args)) => args.output,
            Self::Tools(ToolsCommand::Search(args)) => args.of.output,
            Self::Tools(ToolsCommand::Lint(args)) => args.output,
            Self::Sources(SourcesCommand::List(output) | SourcesCommand::Check(output))
            | Self::Credentials(CredentialsCommand::List(output))
            | Self::Packs(PacksCommand::List(output))
            | Self::Audit(AuditCommand::Forwarders(output)) => *output,
            Self::Roles(RolesCommand::List(args) | RolesCommand::Show { of: args, .. }) => {
                args.output
            }
            Self::Keys(KeysCommand::List(args)) => args.output,
            Self::Connections(ConnectionsCommand::List(args)) => args.output,
            Self::Clients(ClientsCommand::List(args)) => args.output,
            Self::Runs(RunsCommand::List(args)) => args.page.output,
            Self::Approvals(ApprovalsCommand::List(args)) => args.page.output,
            Self::Audit(AuditCommand::Verify(args)) => args.output,
            Self::Conformance(args) => args.output,
            _ => return None,
        };
        output.output
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_key_is_not_printed_with_the_arguments() {
        // I-29
        let args =
            Args::try_parse_from(["toolcrib", "--key", "tc_canary", "keys", "list"]).unwrap();
        assert!(!format!("{args:?}").contains("canary"));
    }
}
