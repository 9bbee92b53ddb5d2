//! The output format and the length of lists.

use clap::{Args, ValueEnum, value_parser};
use toolcrib_core::id::TenantId;

/// The format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// A table with every column in full and with exact times
    Wide,
    /// JSON, as with --json
    Json,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// Print the list in this format [default: a table as wide as the terminal]
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    pub(crate) output: Option<OutputFormat>,
}

/// The options of a list in the store that grows.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// Print at most this many
    #[arg(
        short = 'n', long, value_name = "N", default_value_t = 50,
        value_parser = value_parser!(u32).range(1..=1000)
    )]
    pub(crate) lines: u32,

    /// Select only those of this tenant
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,

    #[command(flatten)]
    pub(crate) output: Output,
}
