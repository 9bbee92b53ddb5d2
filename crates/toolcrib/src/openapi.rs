//! The description of the whole HTTP interface, put together from the handlers.

use serde_json::{Value, json};
use toolcrib_core::{compact::CompactToolDescriptor, descriptor};
use utoipa::openapi::OpenApi;

use crate::openwop::schemas::{self, without_dialect};

/// What the parts of the interface are for.
const TAGS: &[(&str, &str)] = &[
    ("OpenWOP", "The tool catalog of RFC 0078 and the record of RFC 0064"),
    ("Approvals", "Requests for consent, and answers to them"),
    ("Open Tool Calling", "The protocol `otc://1.0`, at the root"),
    ("OXP", "The Open eXecution Protocol, which Open Tool Calling became"),
    ("Explorer", "The page and its endpoints; the prefix is configurable, this is the default one"),
    ("MCP", "Model Context Protocol over streamable HTTP"),
    ("Operations", "Probes, metrics and descriptions"),
];

/// Finishes what the routers collected.
pub(crate) fn document(collected: &OpenApi) -> Value {
    let mut document = match serde_json::to_value(collected) {
        Ok(document) => document,
        Err(error) => {
            tracing::error!(%error, "the interface could not be described");
            json!({})
        }
    };
    let tags: Vec<Value> =
        TAGS.iter().map(|(name, about)| json!({ "name": name, "description": about })).collect();
    let more = json!({
        "openapi": "3.1.0",
        "info": info(),
        "tags": tags,
        "security": [{ "key": [] }],
        "paths": { "/mcp": mcp(), "/mcp/{toolset}": toolset() },
        "components": {
            "securitySchemes": { "key": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key. Open Tool Calling accepts it in X-API-Key, OTC-API-Key \
                    or OXP-API-Key too.",
            } },
            "schemas": {
                "ToolDescriptor": without_dialect(descriptor::json_schema()),
                "CompactToolDescriptor": without_dialect(CompactToolDescriptor::json_schema()),
                "RunEvent": without_dialect(schemas::run_event()),
            },
        },
    });
    put(&mut document, more, DEPTH);
    refuses_unknown_parameters(&mut document);
    document
}

/// Every route under `/v1` refuses query parameters that it does not have ([`crate::parameters`]).
fn refuses_unknown_parameters(document: &mut Value) {
    let refused = json!({
        "description": "A query parameter that this route does not have",
        "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/ErrorEnvelope" },
        } },
    });
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    let v1 = paths.filter(|(path, _)| path.starts_with("/v1/"));
    let operations = v1.filter_map(|(_, item)| item.as_object_mut()).flatten();
    for (_, operation) in operations {
        if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
            responses.entry("400").or_insert_with(|| refused.clone());
        }
    }
}

/// Levels on which members are put beside each other; what stands lower is replaced as a whole.
const DEPTH: usize = 3;

/// Puts the members of `more` into `document`.
fn put(document: &mut Value, more: Value, depth: usize) {
    match (document, more) {
        (Value::Object(document), Value::Object(more)) if depth > 0 => {
            for (name, value) in more {
                put(document.entry(name).or_insert(Value::Null), value, depth - 1);
            }
        }
        (document, more) => *document = more,
    }
}

fn info() -> Value {
    json!({
        "title": "toolcrib",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "One catalog of every tool, one gate that every call passes, one record of \
            what happened. `GET /v1/tools` answers a bare array, which is what the accepted \
            implementations, SDKs and test suites of RFC 0078 use; its text shows an envelope, \
            which is answered to `Accept: application/vnd.openwop.tools+json`.",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    })
}

/// The same as `/mcp`, with another operation id each.
fn toolset() -> Value {
    let mut item = mcp();
    for method in ["get", "delete", "post"] {
        let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) else { continue };
        let id = operation.get("operationId").and_then(Value::as_str).unwrap_or_default();
        let id = format!("{id}Toolset");
        operation.insert("operationId".to_owned(), json!(id));
        let toolset = json!({
            "name": "toolset", "in": "path", "required": true,
            "description": "The name of a toolset: only its tools are listed and called",
            "schema": { "type": "string" },
        });
        if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
            parameters.push(toolset);
        }
    }
    item
}

/// MCP describes its own messages; for HTTP there is one route with JSON-RPC in both directions.
fn mcp() -> Value {
    let message = json!({ "application/json": { "schema": { "type": "object" } } });
    let no_session = json!({ "description": "No session of this caller, or no such toolset", "content": message });
    let unauthenticated = json!({ "description": "No valid key", "content": message });
    let session = |required: bool| {
        json!({
            "name": "Mcp-Session-Id", "in": "header", "required": required,
            "description": "The session, as the answer to `initialize` named it",
            "schema": { "type": "string", "pattern": "^[!-~]+$" },
        })
    };
    json!({ "get": {
        "tags": ["MCP"],
        "operationId": "mcpStream",
        "summary": "The stream of a session of one of the revisions with a handshake: news of the list of tools.",
        "parameters": [session(true)],
        "responses": {
            "200": { "description": "Events, until the session or the server ends", "content": {
                "text/event-stream": { "schema": { "type": "string" } },
            } },
            "401": unauthenticated,
            "404": no_session,
            "405": { "description": "No session is named, or there are none", "content": message },
            "406": { "description": "The client does not read events", "content": message },
        },
    }, "delete": {
        "tags": ["MCP"],
        "operationId": "mcpEnd",
        "summary": "Ends the session that Mcp-Session-Id names.",
        "parameters": [session(true)],
        "responses": {
            "204": { "description": "It has ended" },
            "400": { "description": "No session is named", "content": message },
            "401": unauthenticated,
            "404": no_session,
            "405": { "description": "There are no sessions", "content": message },
        },
    }, "post": {
        "tags": ["MCP"],
        "operationId": "mcp",
        "summary": "One JSON-RPC message of the Model Context Protocol, revision 2026-07-28 or one of those with a handshake.",
        "parameters": [session(false)],
        "requestBody": { "required": true, "content": {
            "application/json": { "schema": request() },
        } },
        "responses": {
            "200": { "description": "The answer, or a stream of events that ends with it", "content": {
                "application/json": { "schema": { "type": "object" } },
                "text/event-stream": { "schema": { "type": "string" } },
            } },
            "202": { "description": "A notification was taken" },
            "400": { "description": "Not a message of this protocol", "content": message },
            "401": unauthenticated,
            "403": { "description": "A scope is missing, and `[auth.resource]` says where to get it", "content": message },
            "404": no_session,
            "406": { "description": "The client does not read the answer's form", "content": message },
            "413": { "description": "The message is longer than `server.max_body`", "content": message },
            "415": { "description": "The Content-Type is not application/json", "content": message },
            "503": { "description": "The bodies of other requests take the memory that they may take; see Retry-After", "content": message },
        },
    } })
}

/// A JSON-RPC request or notification; the protocol says which parameters a method has.
fn request() -> Value {
    json!({
        "type": "object",
        "required": ["jsonrpc", "method"],
        "properties": {
            "jsonrpc": { "const": "2.0" },
            "id": { "type": ["string", "integer"] },
            "method": { "type": "string" },
            "params": { "type": "object" },
        },
    })
}
