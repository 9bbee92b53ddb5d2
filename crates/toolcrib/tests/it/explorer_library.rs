//! `toolcrib::explorer` with tools of the embedding program: the black-box assertions of the
//! embedded-explorer protocol. The number before a test is that of the assertion; "extra" marks
//! criteria of the specification that its own tests do not cover.

mod auth;
mod call;
mod checks;
mod mount;
mod page;
mod tools;

use std::sync::Arc;

use axum::Router;
use serde_json::json;
use toolcrib::{
    Annotations, ExplorerConfig, Tool, ToolAnswer, ToolCall, ToolDefinition, ToolsProvider,
};
use toolcrib_testkit::gateway::TestServer;

/// Fixture F: `echo` with a hint and a schema, `boom` without them.
fn fixture_f() -> Vec<Arc<dyn Tool>> {
    let hint = Annotations { read_only_hint: Some(true), ..Annotations::default() };
    let schema = json!({ "type": "object", "properties": { "msg": { "type": "string" } } });
    vec![
        ToolDefinition::new("echo")
            .description("Echoes")
            .input_schema(schema)
            .annotations(hint)
            .shared(),
        ToolDefinition::new("boom").description("Fails").shared(),
    ]
}

/// The handler of F: `echo` returns a trace, `boom` reports a failure.
async fn handler_f(call: ToolCall) -> Result<ToolAnswer, String> {
    match call.name.as_str() {
        "echo" => {
            let text = call.arguments.get("msg").and_then(|msg| msg.as_str()).unwrap_or_default();
            Ok(ToolAnswer::text(format!("echo: {text}")).traced("t1"))
        }
        "boom" => Ok(ToolAnswer::error("kaboom")),
        other => Err(format!("no {other} here")),
    }
}

/// Fixture V: schemas for validation.
fn fixture_v() -> Vec<Arc<dyn Tool>> {
    let echo = json!({
        "type": "object",
        "properties": { "city": { "type": "string" }, "count": { "type": "integer" } },
        "required": ["city"],
    });
    let two = json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        "required": ["a", "b"],
    });
    let tool = |name: &str, schema| ToolDefinition::new(name).input_schema(schema).shared();
    vec![
        tool("echo", echo),
        tool("two", two),
        tool("noschema", json!({})),
        tool("null", json!(null)),
        tool("badschema", json!({ "type": "no-such-type" })),
        tool("dangling", json!({ "$ref": "#/$defs/none" })),
        tool("remote", json!({ "$ref": "https://schemas.example/x.json" })),
        tool("nothing", json!(false)),
        tool("anything", json!(true)),
        tool("a/b~c", json!({ "type": "object", "required": ["x/y~z"] })),
    ]
}

/// Execution is off unless `config` enables it.
fn config() -> ExplorerConfig {
    ExplorerConfig::new().handler(handler_f)
}

/// Fixture F with calls, at `/explorer`.
fn f(config: ExplorerConfig) -> Router {
    toolcrib::explorer("/explorer", fixture_f(), config)
}

async fn serve_f(config: ExplorerConfig) -> TestServer {
    TestServer::start(f(config)).await
}

/// Any provider, at `/explorer`.
async fn serve<P, Kind>(provider: P, config: ExplorerConfig) -> TestServer
where
    P: ToolsProvider<Kind>,
    Kind: 'static,
{
    TestServer::start(toolcrib::explorer("/explorer", provider, config)).await
}
