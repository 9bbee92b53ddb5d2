//! The OpenAPI description of the routes. MCP describes its own messages, so the routes have no
//! types for them.

use serde_json::{Value, json};

/// Returns an OpenAPI document with the paths.
pub(super) fn document() -> Value {
    json!({ "paths": { "/mcp": mcp(), "/mcp/{toolset}": toolset() } })
}

/// Returns the path item of `/mcp` with the parameter `toolset` and other operation ids.
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
