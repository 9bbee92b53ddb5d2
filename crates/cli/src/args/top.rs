//! The arguments of `top`.

use std::time::Duration;

use clap::{Args, value_parser};
use toolcrib_config::parse_duration;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Measure for this time before each output
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    pub(crate) interval: Duration,

    /// Print once, and stop
    #[arg(long)]
    pub(crate) once: bool,

    /// Print at most this many tools, tenants and sources each [default: those that fit the terminal]
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u16).range(1..=1000))]
    pub(crate) rows: Option<u16>,
}

fn interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        short if short < Duration::from_millis(100) => Err("must be at least 100ms".to_owned()),
        long if long > Duration::from_secs(3600) => Err("must be at most 1h".to_owned()),
        interval => Ok(interval),
    }
}
