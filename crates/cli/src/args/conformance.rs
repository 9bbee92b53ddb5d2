//! The arguments of `conformance`.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use serde_json::{Map, Value};
use toolcrib_conformance::Protocol;
use toolcrib_core::credential::Secret;

use super::{output::Output, parsers::secret};
use crate::env;

#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// Check only this protocol; may be repeated [default: those that the host serves]
    #[arg(long = "protocol", value_name = "PROTOCOL", value_parser = protocol())]
    pub(crate) protocols: Vec<Protocol>,

    /// Set the path of a protocol on this host, for example `oxp=/`; may be repeated
    #[arg(long = "at", value_name = "PROTOCOL=PATH", value_parser = path)]
    pub(crate) paths: Vec<(Protocol, String)>,

    /// Run only the check or group with this id; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) only: Vec<String>,

    /// List all checks with their requirements, without a request
    #[arg(long)]
    pub(crate) list: bool,

    /// Also write a JUnit report to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Compare with the responses to this key of another principal
    #[arg(
        long,
        value_name = "KEY",
        env = env::SECOND_KEY,
        hide_env_values = true,
        value_parser = secret
    )]
    pub(crate) second_key: Option<Secret>,

    /// Read the second key from this file; takes precedence over --second-key
    #[arg(long, value_name = "FILE")]
    pub(crate) second_key_file: Option<PathBuf>,

    /// Allow calls of this tool, by id or name [default: read-only tools]
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,

    /// Pass these arguments to the tool of --tool [default: derived from its schema]
    #[arg(long, value_name = "JSON", requires = "tool", value_parser = object)]
    pub(crate) arguments: Option<Map<String, Value>>,

    /// Allow calls of this tool, which always fails
    #[arg(long, value_name = "TOOL")]
    pub(crate) failing_tool: Option<String>,

    /// Pass these arguments to the tool of --failing-tool [default: derived from its schema]
    #[arg(long, value_name = "JSON", requires = "failing_tool", value_parser = object)]
    pub(crate) failing_arguments: Option<Map<String, Value>>,

    /// Check access from pages of this origin, which the host grants: `https://app.example.com`
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub(crate) origin: Option<String>,

    /// Fail checks of advertised behavior that cannot be observed, instead of skipping them
    #[arg(long)]
    pub(crate) require_behavior: bool,

    /// Treat failures of level `should` like those of level `must`
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

fn protocol() -> impl TypedValueParser<Value = Protocol> {
    let value = |protocol: Protocol| PossibleValue::new(protocol.as_str()).help(protocol.title());
    PossibleValuesParser::new(Protocol::ALL.map(value)).try_map(|name| name.parse::<Protocol>())
}

fn path(text: &str) -> Result<(Protocol, String), String> {
    let wrong = || "expected PROTOCOL=PATH, such as `oxp=/` or `mcp=/api/mcp`".to_owned();
    let (name, path) = text.split_once('=').ok_or_else(wrong)?;
    let protocol = name.parse()?;
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
    match is_plain && (path.is_empty() || path.starts_with('/')) {
        true => Ok((protocol, path.to_owned())),
        false => Err(wrong()),
    }
}

fn origin(text: &str) -> Result<String, String> {
    let url = url::Url::parse(text).map_err(|error| format!("expected an origin: {error}"))?;
    match url.origin() {
        origin if origin.is_tuple() && origin.ascii_serialization() == text => Ok(text.to_owned()),
        _ => Err("expected an origin such as `https://app.example.com`, without a path".to_owned()),
    }
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a JSON object: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_protocol() {
        assert_eq!(path("mcp=/api/mcp"), Ok((Protocol::Mcp, "/api/mcp".to_owned())));
        assert_eq!(path("openwop="), Ok((Protocol::Openwop, String::new())));
        for text in ["mcp", "mcp=api", "nope=/", "mcp=/a?b", "mcp=/a b"] {
            assert!(path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_origin_has_no_path() {
        for text in ["https://app.example.com", "http://127.0.0.1:3000"] {
            assert_eq!(origin(text).as_deref(), Ok(text));
        }
        for text in ["app.example.com", "https://app.example.com/", "https://a/b", "data:a", "*"] {
            assert!(origin(text).is_err(), "{text}");
        }
    }
}
