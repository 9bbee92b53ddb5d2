//! The command line. Parsing has no side effects; the commands interpret the values.

mod approvals;
mod commands;
mod conformance;
mod credentials;
mod explain;
mod output;
mod packs;

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand};
use toolcrib_core::credential::Secret;

pub(crate) use approvals::{ApprovalAnswerArgs, ApprovalListArgs, ApprovalsCommand};
pub(crate) use commands::{
    AcceptArgs, AuditCommand, CallArgs, ConfigCommand, DemoCommand, ExportArgs, ExportFormat,
    GenArgs, HashArgs, ImportArgs, KeyCreateArgs, KeysCommand, McpArgs, RunListArgs, RunsCommand,
    ServeArgs, SourcesCommand, TailArgs, ToolApproveArgs, ToolLintArgs, ToolListArgs,
    ToolSearchArgs, ToolsCommand, VerifyArgs,
};
pub(crate) use conformance::ConformanceArgs;
pub(crate) use credentials::{
    ClientAuthArg, CredentialOwnerArgs, CredentialRotateArgs, CredentialSetArgs,
    CredentialValueArgs, CredentialsCommand,
};
pub(crate) use explain::ExplainArgs;
pub(crate) use output::{Output, OutputFormat};
pub(crate) use packs::{PackTrust, PackWord, PacksCommand};

use crate::env;

/// One catalog, one gate and one record for every tool your agents can use.
///
/// toolcrib connects to your MCP servers, shows each caller the tools it may use in four protocols
/// (OpenWOP, Open Tool Calling, MCP and a browser explorer), checks every call, and records what
/// happened.
#[derive(Debug, Parser)]
#[command(
    name = "toolcrib",
    version,
    arg_required_else_help = true,
    propagate_version = true,
    after_help = "\
Examples:
  toolcrib serve --demo                     try it: no configuration, no network needed
  toolcrib import claude_desktop_config.json -o toolcrib.toml
  toolcrib config check                     what is wrong with ./toolcrib.toml
  toolcrib serve                            serve ./toolcrib.toml
  toolcrib keys create --name ci --principal ci --tenant default --scope 'files:*'
  toolcrib call files__read_file '{\"path\": \"/srv/docs/a.md\"}'
  toolcrib audit tail -f                    watch what happens

Exit codes: 0 success, 1 failure, 2 usage error. With --json a failure is printed as an object:
{\"error\": {\"message\": ..., \"causes\": [...], \"hint\": ...}}."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Print JSON instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// The configuration file [default: ./toolcrib.toml when it exists]
    #[arg(long, global = true, value_name = "FILE", env = env::CONFIG, hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,

    /// Where state is kept: the store is DIR/toolcrib.db unless the file sets `[store] url`
    /// [default: .toolcrib next to the configuration file]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Talk to the running server at this address instead of opening the store
    #[arg(long, global = true, value_name = "URL", env = env::URL, hide_env_values = true)]
    pub(crate) url: Option<String>,

    /// The API key to present; prefer the variable or --key-file, because other users of the
    /// machine can see arguments
    #[arg(
        long,
        global = true,
        value_name = "KEY",
        env = env::KEY,
        hide_env_values = true,
        value_parser = secret
    )]
    pub(crate) key: Option<Secret>,

    /// A file with the API key; takes precedence over --key
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Print fewer messages on stderr
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print more messages on stderr; twice for even more
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

Once ready it prints `listening on http://ADDR` on stdout. Logs go to stderr; TOOLCRIB_LOG sets
their filter. SIGTERM and SIGINT end it in order. The configuration is read again when its file
changes and on SIGHUP. If it has errors, they are logged, and the old configuration stays. It also
stays if the file is empty or lost its last source, unless --allow-empty is given.

One server per data directory: a second one is refused, because limits are counted per server.

Only loopback addresses are served unless the file says `[server] behind_proxy = true`: keys travel
unencrypted without TLS, so put a proxy that terminates TLS in front.")]
    Serve(ServeArgs),

    /// Serve MCP over stdin and stdout, for a client that starts its servers itself
    #[command(after_help = "\
Examples:
  toolcrib mcp --config /srv/toolcrib.toml
  toolcrib mcp --scope 'files:read'
  TOOLCRIB_KEY=tc_... toolcrib mcp

Without a key the caller is the operator of this machine: principal `operator` with scope `*` in
tenant `default`. Every call passes the same gate and the same record as on the server.")]
    Mcp(McpArgs),

    /// Print the keys of the demo
    #[command(subcommand)]
    Demo(DemoCommand),

    /// List, search, check and approve tools
    #[command(subcommand)]
    Tools(ToolsCommand),

    /// Call a tool
    #[command(after_help = "\
Examples:
  toolcrib call files__read_file '{\"path\": \"/srv/docs/a.md\"}'
  toolcrib call files__read_file path=/srv/docs/a.md
  toolcrib call demo__add a=1 --arg b=2
  toolcrib call mcp:files.read_file @arguments.json
  toolcrib call notes__write name=today text=@notes.md
  echo '{\"a\": 1, \"b\": 2}' | toolcrib call demo__add -
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt call demo__echo '{\"text\": \"hi\"}'

A VALUE is read as the tool's schema says: a number, true or false, JSON for lists and objects, and
text otherwise. @FILE is the text of a file, @- that of stdin, and @@ an @.

Prints the result of the tool; progress goes to stderr. With --json it prints the whole response.
The exit code is 1 when the tool failed or was not run.")]
    Call(CallArgs),

    /// Explain why a principal can or cannot call a tool, or why a list is empty
    #[command(after_help = "\
Examples:
  toolcrib explain --principal ci --tool files__write_file
  toolcrib explain --principal ci --tenant acme
  toolcrib explain --scope 'files:*' --tool mcp:files.read --arguments-shape '{\"path\": \"x\"}'
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt explain --tool files__write_file
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt explain --principal ci --tool files__write_file

Prints the steps in the order of the gate: key, tool, tenant, pin, scope, policy, rate, quota,
approval, source. Nothing is called, and nothing is taken from a limit. With --url the server
reveals what a call would reveal, to the key's own principal or, with --principal and the scope
`explain:others`, to another principal of its tenant.

The exit code is 0 when a call would run, if only after consent or with the right arguments, and 1
when it would not; for a list, 1 when it is empty.")]
    Explain(ExplainArgs),

    /// Show the status of sources
    #[command(subcommand)]
    Sources(SourcesCommand),

    /// Create, list, rotate and revoke API keys
    #[command(subcommand)]
    Keys(KeysCommand),

    /// Store the credentials of sources: tokens, passwords, OAuth clients
    #[command(subcommand)]
    Credentials(CredentialsCommand),

    /// Install and check packs of tools
    #[command(subcommand)]
    Packs(PacksCommand),

    /// List, show and cancel workflow runs
    #[command(subcommand)]
    Runs(RunsCommand),

    /// List and answer approvals
    #[command(subcommand)]
    Approvals(ApprovalsCommand),

    /// Read and verify the record
    #[command(subcommand)]
    Audit(AuditCommand),

    /// Check a configuration file
    #[command(subcommand)]
    Config(ConfigCommand),

    /// Check whether a host conforms to the protocols it serves
    #[command(after_help = "\
Examples:
  toolcrib conformance --list
  toolcrib conformance --url http://127.0.0.1:8808 --key-file key.txt --protocol openwop
  toolcrib conformance --url https://tools.example.com --junit report.xml --tool files.list

The host can be this program or any other. Without --protocol, the command checks all protocols that
the host serves. It calls only tools that the host marks as read-only, and the one of --tool; checks
that need another call are skipped.

A check passes, fails, or is skipped with a reason. A failure is printed with the requests and
responses; keys are masked. The exit code is 1 if a requirement of level `must` fails. Failures of
level `should` are warnings, unless --strict is given.")]
    Conformance(Box<ConformanceArgs>),

    /// Turn the MCP servers of Claude Desktop, Cursor or VS Code into a toolcrib.toml
    #[command(after_help = "\
Examples:
  toolcrib import ~/.config/Claude/claude_desktop_config.json
  toolcrib import .cursor/mcp.json -o toolcrib.toml
  toolcrib import .vscode/mcp.json | less
  ssh laptop cat .cursor/mcp.json | toolcrib import -

Secrets are not copied: they become `{ env = \"NAME\" }`, and the variables to set are listed on
stderr. A server that cannot be expressed is kept as a comment that says why.")]
    Import(ImportArgs),

    /// Hash JSON as the record does: redact, RFC 8785, SHA-256
    #[command(after_help = "\
Examples:
  toolcrib hash '{\"b\": 1, \"a\": [2.0, 1e3]}'
  curl -s https://example.com/document.json | toolcrib hash --no-redact -

The `argsHash` of an event is the hash of the call's arguments.")]
    Hash(HashArgs),

    /// Print a completion script
    #[command(after_help = "\
Examples:
  toolcrib completions bash > ~/.local/share/bash-completion/completions/toolcrib
  toolcrib completions zsh > \"${fpath[1]}/_toolcrib\"
  toolcrib completions fish > ~/.config/fish/completions/toolcrib.fish

The script is printed as it is; --json changes nothing about it.")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },

    /// Write the generated files of the source tree
    #[command(hide = true)]
    Gen(GenArgs),

    /// The MCP server of the demo, over stdin and stdout
    #[command(hide = true)]
    DemoUpstream,
}

fn secret(text: &str) -> Result<Secret, String> {
    match text.trim() {
        "" => Err("is empty".to_owned()),
        key => Ok(Secret::new(key.to_owned())),
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
