//! The arguments of `conformance`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value};
use toolcrib_core::credential::Secret;

use super::Output;
use crate::{conformance::Protocol, env};

#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// Only this protocol; may be repeated [default: those that the host serves]
    #[arg(long = "protocol", value_name = "PROTOCOL")]
    pub(crate) protocols: Vec<Protocol>,

    /// Where a protocol starts on this host, for example `oxp=/`; may be repeated
    #[arg(long = "at", value_name = "PROTOCOL=PATH", value_parser = place)]
    pub(crate) places: Vec<(Protocol, String)>,

    /// Only the check or the group of checks with this id; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) only: Vec<String>,

    /// Print every check with the sentence it checks, and ask nobody
    #[arg(long)]
    pub(crate) list: bool,

    /// Also write a JUnit report
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// The key of another principal, to compare what the two are told
    #[arg(
        long,
        value_name = "KEY",
        env = env::SECOND_KEY,
        hide_env_values = true,
        value_parser = super::secret
    )]
    pub(crate) second_key: Option<Secret>,

    /// A file that holds the second key; counts more than --second-key
    #[arg(long, value_name = "FILE")]
    pub(crate) second_key_file: Option<PathBuf>,

    /// A tool that may be called, by id or name [default: one that the host says is harmless]
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,

    /// Arguments for --tool [default: made from its schema]
    #[arg(long, value_name = "JSON", requires = "tool", value_parser = object)]
    pub(crate) arguments: Option<Map<String, Value>>,

    /// A tool that may be called and will fail
    #[arg(long, value_name = "TOOL")]
    pub(crate) failing_tool: Option<String>,

    /// Arguments for --failing-tool [default: made from its schema]
    #[arg(long, value_name = "JSON", requires = "failing_tool", value_parser = object)]
    pub(crate) failing_arguments: Option<Map<String, Value>>,

    /// What the host advertises but gives no way to look at fails, instead of being left out
    #[arg(long)]
    pub(crate) require_behavior: bool,

    /// What a host should do counts like what it must do
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

fn place(text: &str) -> Result<(Protocol, String), String> {
    let wrong = || "expected PROTOCOL=PATH, such as `oxp=/` or `mcp=/api/mcp`".to_owned();
    let (name, path) = text.split_once('=').ok_or_else(wrong)?;
    let protocol = <Protocol as clap::ValueEnum>::from_str(name, false)?;
    let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
    match plain && (path.is_empty() || path.starts_with('/')) {
        true => Ok((protocol, path.to_owned())),
        false => Err(wrong()),
    }
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(error) => Err(format!("expected a JSON object: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_a_protocol_and_a_path() {
        assert_eq!(place("mcp=/api/mcp"), Ok((Protocol::Mcp, "/api/mcp".to_owned())));
        assert_eq!(place("openwop="), Ok((Protocol::Openwop, String::new())));
        for text in ["mcp", "mcp=api", "nope=/", "mcp=/a?b", "mcp=/a b"] {
            assert!(place(text).is_err(), "{text}");
        }
    }
}
