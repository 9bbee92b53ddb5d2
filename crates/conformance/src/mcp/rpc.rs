//! JSON-RPC: replies, and invalid messages.

use serde_json::json;

use super::{
    common::{UNKNOWN_METHOD, WITH_VERSION_HEADER},
    discover::expect_server_info,
    message,
    wire::{self, Wire},
};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::Response,
    skip_unless,
    value::{text, with},
};

pub(super) const CHECKS: &[Check] = checks! {
    "mcp.rpc.id", Must, "basic §responses, JSON-RPC 2.0 §5", ids:
        "a reply is JSON-RPC 2.0 and has the id of its request, with the same JSON type";
    "mcp.rpc.result-type", Must, "2026-07-28 basic §resulttype", result_type:
        "every result of the stateless revision has a `resultType`";
    "mcp.rpc.server-info", Should, "2026-07-28 basic §_meta", server_info:
        "every result of the stateless revision has the name and version of the server in `_meta`";
    "mcp.rpc.unknown-method", Must, "JSON-RPC 2.0 §5.1", unknown_method:
        "an unknown method returns the error -32601";
    "mcp.rpc.unknown-method-status", Must, "2026-07-28 streamable-http §protocol-version-header", unknown_method_status:
        "in the stateless revision its status is 404";
    "mcp.rpc.not-offered", Must, "JSON-RPC 2.0 §5.1", not_offered:
        "methods of undeclared capabilities return the error -32601";
    "mcp.rpc.removed-methods", Must, "2026-07-28 changelog", removed_methods:
        "in the stateless revision its removed methods return the error -32601";
    "mcp.rpc.not-json", Must, "JSON-RPC 2.0 §5.1", not_json:
        "a body that is not JSON returns a status from 400 to 499, and its error is -32700";
    "mcp.rpc.not-a-request", Must, "JSON-RPC 2.0 §5.1", not_a_request:
        "JSON that is not a request returns a status from 400 to 499, and its error is -32600";
    "mcp.rpc.batch", Should, "2025-06-18 changelog, streamable-http §sending-messages", batch:
        "an array of requests is rejected since 2025-06-18";
    "mcp.rpc.notification", Must, "streamable-http §sending-messages", notification:
        "a notification returns 202 without a body, or an error status";
};

async fn ids(target: &Target) -> CheckResult {
    for wire in wire::wires(target).await? {
        for id in [json!("conformance-id"), json!(7)] {
            let rpc = wire.request("tools/list", json!({})).id(id.clone());
            let response = rpc.send(target).await?;
            let Some(reply) = message::reply(&response) else {
                return fail("a JSON-RPC reply", message::summary(&response), &[&response]);
            };
            let seen = reply.get("id").cloned().unwrap_or_default();
            response.expect(seen == id, format!("the id {id}"), format!("{seen}"))?;
        }
    }
    Ok(())
}

async fn result_type(target: &Target) -> CheckResult {
    for response in results(target).await? {
        let result = message::result(&response)?;
        let kind = text(&result, "resultType");
        response.expect(kind == "complete", "`resultType` complete", format!("`{kind}`"))?;
    }
    Ok(())
}

async fn server_info(target: &Target) -> CheckResult {
    for response in results(target).await? {
        expect_server_info(&response, &message::result(&response)?)?;
    }
    Ok(())
}

async fn unknown_method(target: &Target) -> CheckResult {
    for wire in wire::wires(target).await? {
        let response = wire.request(UNKNOWN_METHOD, json!({})).send(target).await?;
        message::expect_code(&response, &[-32601])?;
    }
    Ok(())
}

async fn unknown_method_status(target: &Target) -> CheckResult {
    let wire = wire::stateless(target).await?;
    wire.request(UNKNOWN_METHOD, json!({})).send(target).await?.expect_status(&[404])
}

async fn not_offered(target: &Target) -> CheckResult {
    let completion = json!({
        "ref": { "type": "ref/prompt", "name": "conformance-absent" },
        "argument": { "name": "a", "value": "" },
    });
    let methods = [
        ("tools", "tools/list", json!({})),
        ("prompts", "prompts/list", json!({})),
        ("resources", "resources/list", json!({})),
        ("completions", "completion/complete", completion),
    ];
    let mut has_undeclared = false;
    for wire in wire::wires(target).await? {
        let capabilities = wire::capabilities(target, &wire).await?;
        if !capabilities.is_object() {
            continue;
        }
        for (capability, method, params) in &methods {
            if capabilities.get(capability).is_none() {
                has_undeclared = true;
                let response = wire.request(method, params.clone()).send(target).await?;
                message::expect_code(&response, &[-32601])?;
            }
        }
    }
    skip_unless(has_undeclared, "the server declares all capabilities")
}

async fn removed_methods(target: &Target) -> CheckResult {
    let wire = wire::stateless(target).await?;
    for (method, params) in [("ping", json!({})), ("logging/setLevel", json!({ "level": "info" }))]
    {
        let response = wire.request(method, params).send(target).await?;
        message::expect_code(&response, &[-32601])?;
    }
    Ok(())
}

async fn not_json(target: &Target) -> CheckResult {
    let rpc = wire::any(target).await?.request("tools/list", json!({}));
    let request = rpc.request_with(target, "{not json").with_key();
    expect_rejected(&target.send_once(request).await?, -32700)
}

async fn not_a_request(target: &Target) -> CheckResult {
    let rpc = wire::any(target).await?.request("tools/list", json!({}));
    let old = with(rpc.body(), "jsonrpc", "1.0");
    for body in [json!({ "jsonrpc": "2.0", "id": 1 }), json!({ "hello": "there" }), json!(42), old]
    {
        let request = rpc.request_with(target, body.to_string()).with_key();
        expect_rejected(&target.send_once(request).await?, -32600)?;
    }
    Ok(())
}

async fn batch(target: &Target) -> CheckResult {
    let wire = wire::any(target).await?;
    let has_no_batches = wire.version() >= WITH_VERSION_HEADER;
    skip_unless(has_no_batches, "the server supports a revision with batches")?;
    let rpc = wire.request("tools/list", json!({}));
    let body = json!([rpc.clone().id(json!("a")).body(), rpc.clone().id(json!("b")).body()]);
    let request = rpc.request_with(target, body.to_string()).with_key();
    let response = target.send_once(request).await?;
    let is_rejected = response.is_client_error() || message::code(&response).is_some();
    response.expect(is_rejected, "a rejection", message::summary(&response))
}

async fn notification(target: &Target) -> CheckResult {
    for wire in wire::wires(target).await? {
        let (method, params) = match wire {
            Wire::Handshake { .. } => ("notifications/initialized", json!({})),
            Wire::Stateless => ("notifications/cancelled", json!({ "requestId": "nothing" })),
        };
        let response = wire.notification(method, params).send(target).await?;
        let is_accepted = response.status() == 202 && response.body().is_empty();
        // A server with a handshake must accept `notifications/initialized`.
        let is_rejected = wire.is_stateless() && response.is_client_error();
        let seen = format!("status {}, {} bytes", response.status(), response.body().len());
        response.expect(is_accepted || is_rejected, "202 without a body", seen)?;
    }
    Ok(())
}

/// Collects responses of the stateless revision that have a result.
async fn results(target: &Target) -> CheckResult<Vec<Response>> {
    let wire = wire::stateless(target).await?;
    let mut all = vec![wire::discover().send(target).await?];
    let listed = wire.request("tools/list", json!({})).send(target).await?;
    // A server without tools returns an error.
    if message::code(&listed).is_none() {
        all.push(listed);
    }
    Ok(all)
}

/// Fails the check unless the message was rejected, with `code` if the body is a reply.
fn expect_rejected(response: &Response, code: i64) -> CheckResult {
    message::expect_client_error(response)?;
    match message::reply(response) {
        Some(_) => message::expect_code(response, &[code]),
        None => Ok(()),
    }
}
