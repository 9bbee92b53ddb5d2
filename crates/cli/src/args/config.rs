//! The arguments of commands that read or write configuration files.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report all problems of a configuration file
    #[command(after_help = "\
Examples:
  toolcrib config check
  toolcrib config check /etc/toolcrib/toolcrib.toml --connect

An error is a reason for a server to refuse the file, and with --connect also a source that
is not ready. A rule, role or list without a match is a warning of --connect.

Exit codes:
  0  no errors; with --connect, no warnings either
  1  errors
  2  usage error
  3  with --connect: warnings and no errors")]
    Check {
        /// Check this file [default: the file of --config]
        file: Option<PathBuf>,

        /// Also start the sources, and report rules without a matching tool
        #[arg(long)]
        connect: bool,
    },

    /// Print the JSON Schema of configuration files, for editors
    #[command(after_help = "\
Examples:
  toolcrib config schema > toolcrib.schema.json

An editor with the schema completes keys, shows their meaning and marks mistakes. Editors with Taplo
(Even Better TOML) find it by the first line of the configuration, which `toolcrib init` writes:
`#:schema ./toolcrib.schema.json`. It is JSON Schema 2020-12; --json does not change the output.")]
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Import the servers of this file, and look for no others; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Vec<PathBuf>,

    /// Import the servers of every file found, without a question
    #[arg(short, long, conflicts_with_all = ["from", "no_input"])]
    pub(crate) yes: bool,

    /// Never wait for an answer, and import only the files of --from
    #[arg(long)]
    pub(crate) no_input: bool,

    /// Print the configuration on stdout instead of writing it
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Replace an existing configuration, and keep it as FILE.bak
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Read this file of the client, or `-` for stdin; it may contain comments
    pub(crate) file: PathBuf,

    /// Write to this file [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the output file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}
