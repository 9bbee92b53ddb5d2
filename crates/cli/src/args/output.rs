//! The output format of lists.

use clap::{Args, ValueEnum};

use super::{
    ApprovalsCommand, AuditCommand, Command, CredentialsCommand, KeysCommand, PacksCommand,
    RunsCommand, SourcesCommand, ToolsCommand,
};

/// The format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Every column in full, with absolute times
    Wide,
    /// As --json
    Json,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// How to print the list [default: a table as wide as the terminal]
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    pub(crate) output: Option<OutputFormat>,
}

impl Command {
    /// Returns the output format of the command, if it prints a list.
    pub(crate) fn output(&self) -> Option<OutputFormat> {
        let output = match self {
            Self::Tools(ToolsCommand::List(args)) => args.output,
            Self::Tools(ToolsCommand::Search(args)) => args.of.output,
            Self::Tools(ToolsCommand::Lint(args)) => args.output,
            Self::Sources(SourcesCommand::List(output) | SourcesCommand::Check(output)) => *output,
            Self::Keys(KeysCommand::List(output)) => *output,
            Self::Credentials(CredentialsCommand::List(output)) => *output,
            Self::Packs(PacksCommand::List(output)) => *output,
            Self::Runs(RunsCommand::List(args)) => args.output,
            Self::Approvals(ApprovalsCommand::List(args)) => args.output,
            Self::Audit(AuditCommand::Forwarders(output)) => *output,
            Self::Audit(AuditCommand::Verify(args)) => args.output,
            Self::Conformance(args) => args.output,
            _ => return None,
        };
        output.output
    }
}
