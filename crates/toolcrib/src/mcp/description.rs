//! The OpenAPI description of the routes. MCP describes its own messages, so the routes have no
//! types for them.

use serde_json::{Value, json};

/// Builds an OpenAPI document with the paths.
pub(super) fn document() -> Value {
    json!({ "paths": { "/mcp": mcp(), "/mcp/{toolset}": toolset() } })
}

/// Derives the path item of `/mcp` with the parameter `toolset` and other operation ids.
fn toolset() -> Value {
    let mut item = mcp();
    for method in ["get", "delete", "post"] {
        let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) else { continue };
        let id = operation.get("operationId").and_then(Value::as_str).unwrap_or_default();
        let id = format!("{id}Toolset");
        operation.insert("operationId".to_owned(), json!(id));
        let toolset = json!({
            "name": "toolset", "in": "path", "required": true,
            "description": "The name of a toolset. Only its tools are listed and can be called",
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
    let no_session =
        json!({ "description": "The session or the toolset is unknown", "content": message });
    let unauthenticated =
        json!({ "description": "The API key is missing or invalid", "content": message });
    let session = |required: bool| {
        json!({
            "name": "Mcp-Session-Id", "in": "header", "required": required,
            "description": "The session id from the response to `initialize`",
            "schema": { "type": "string", "pattern": "^[!-~]+$" },
        })
    };
    json!({ "get": {
        "tags": ["MCP"],
        "operationId": "mcpStream",
        "summary": "Opens the stream of a session of a handshake revision, which notifies of changes of the tool list.",
        "parameters": [session(true)],
        "responses": {
            "200": { "description": "A stream of events, open until the session is closed or the server stops", "content": {
                "text/event-stream": { "schema": { "type": "string" } },
            } },
            "401": unauthenticated,
            "404": no_session,
            "405": { "description": "The header Mcp-Session-Id is missing, or sessions are disabled", "content": message },
            "406": { "description": "The client does not accept events", "content": message },
        },
    }, "delete": {
        "tags": ["MCP"],
        "operationId": "mcpEnd",
        "summary": "Closes the session in the header Mcp-Session-Id.",
        "parameters": [session(true)],
        "responses": {
            "204": { "description": "The session is closed" },
            "400": { "description": "The header Mcp-Session-Id is missing", "content": message },
            "401": unauthenticated,
            "404": no_session,
            "405": { "description": "Sessions are disabled", "content": message },
        },
    }, "post": {
        "tags": ["MCP"],
        "operationId": "mcp",
        "summary": "Processes one JSON-RPC message of the Model Context Protocol, in revision 2026-07-28 or a handshake revision.",
        "parameters": [session(false)],
        "requestBody": { "required": true, "content": {
            "application/json": { "schema": request() },
        } },
        "responses": {
            "200": { "description": "The response, or a stream of events up to the response", "content": {
                "application/json": { "schema": { "type": "object" } },
                "text/event-stream": { "schema": { "type": "string" } },
            } },
            "202": { "description": "The notification was accepted" },
            "400": { "description": "The body is not a message of this protocol", "content": message },
            "401": unauthenticated,
            "403": { "description": "A scope is missing; the header WWW-Authenticate names the resource metadata of `[auth.resource]`", "content": message },
            "404": no_session,
            "406": { "description": "The client does not accept the media type of the response", "content": message },
            "413": { "description": "The message is larger than `server.max_body`", "content": message },
            "415": { "description": "The Content-Type is not application/json", "content": message },
            "503": { "description": "The memory budget for request bodies is exhausted; see Retry-After", "content": message },
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
