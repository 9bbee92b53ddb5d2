//! The options of a measurement of requests.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct RunOptions {
    /// Measured time of each server in each row
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u32,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_value = "1,8,64,512")]
    pub(crate) connections: Vec<u32>,
    /// Measure only the rows whose names contain this text; may be repeated
    #[arg(long)]
    pub(crate) only: Vec<String>,
    /// The program to measure; without it only the limit servers are measured
    #[arg(long)]
    pub(crate) toolcrib: Option<PathBuf>,
    /// A directory with other gateways to measure; `bench/peers` has their configurations
    #[arg(long)]
    pub(crate) peers: Option<PathBuf>,
    /// The file to write the results to
    #[arg(long)]
    pub(crate) write: Option<PathBuf>,
    /// The page whose section on numbers is replaced by the rows of other gateways
    #[arg(long, requires = "peers")]
    pub(crate) comparison: Option<PathBuf>,
}

impl RunOptions {
    /// Whether the row called `name` is measured.
    pub(crate) fn selects(&self, name: &str) -> bool {
        selects(&self.only, name)
    }
}

/// Whether `name` contains one of the texts in `only`, or there is none.
pub(crate) fn selects(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|text| name.contains(text))
}
