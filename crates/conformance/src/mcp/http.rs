//! HTTP requirements of the transport, and protection from web pages.

use reqwest::Method;
use serde_json::json;

use super::{
    common::STATELESS,
    message,
    wire::{self, ACCEPTED, Rpc, VERSION_HEADER},
};
use crate::{Check, CheckResult, Target, checks, fail, skip_unless};

pub(super) const CHECKS: &[Check] = checks! {
    "mcp.http.response-type", Must, "streamable-http §sending-messages", response_type:
        "a response has the content type `application/json` or `text/event-stream`";
    "mcp.http.accept", Should, "streamable-http §sending-messages, RFC 9110 §15.5.7", accept:
        "a client that accepts neither JSON nor event streams is rejected";
    "mcp.http.json-alone", Should, "RFC 9110 §12.5.1", json_alone:
        "a client that reads JSON alone, reads anything, or does not say gets an answer that it can \
         read, or 406";
    "mcp.http.content-type", Should, "RFC 9110 §15.5.16", content_type:
        "a request with another content type than JSON is rejected";
    "mcp.http.origin", Must, "streamable-http §security", origin:
        "a request with a foreign `Origin` returns 403";
    "mcp.http.host", Should, "streamable-http §security", host:
        "a server on this machine rejects a foreign `Host`, which indicates DNS rebinding";
    "mcp.http.post-only", Should, "2026-07-28 streamable-http §earlier-revisions", post_only:
        "a server of the stateless revision alone returns 405 for GET and DELETE";
};

/// A name that does not resolve (RFC 2606).
const FOREIGN: &str = "conformance.invalid";

async fn response_type(target: &Target) -> CheckResult {
    for wire in wire::wires(target).await? {
        let response = wire.request("tools/list", json!({})).send(target).await?;
        let media_type = response.media_type();
        let is_allowed = ["application/json", "text/event-stream"].contains(&&*media_type);
        let expected = "`application/json` or `text/event-stream`";
        response.expect(is_allowed, expected, format!("`{media_type}`"))?;
    }
    Ok(())
}

async fn accept(target: &Target) -> CheckResult {
    let rpc = probe(target).await?.header("accept", "text/html");
    rpc.send(target).await?.expect_client_error()
}

async fn json_alone(target: &Target) -> CheckResult {
    for accept in [Some("application/json"), Some("*/*"), None] {
        let rpc = probe(target).await?.without_header("accept");
        let rpc = match accept {
            Some(accept) => rpc.header("accept", accept),
            None => rpc,
        };
        let response = rpc.send(target).await?;
        let is_read = response.status() == 200
            && message::reply(&response).is_some()
            && (accept != Some("application/json") || response.media_type() == "application/json");
        let expected = "a JSON-RPC reply that the client can read, or status 406";
        let is_right = is_read || response.status() == 406;
        response.expect(is_right, expected, message::summary(&response))?;
    }
    Ok(())
}

async fn content_type(target: &Target) -> CheckResult {
    let rpc = probe(target).await?.header("content-type", "text/plain");
    rpc.send(target).await?.expect_client_error()
}

async fn origin(target: &Target) -> CheckResult {
    let rpc = probe(target).await?.header("origin", format!("https://{FOREIGN}"));
    rpc.send(target).await?.expect_status(&[403])
}

async fn host(target: &Target) -> CheckResult {
    skip_unless(target.host().is_loopback(), "the server is not on this machine")?;
    probe(target).await?.header("host", FOREIGN).send(target).await?.expect_client_error()
}

async fn post_only(target: &Target) -> CheckResult {
    let is_stateless = wire::wires(target).await?.iter().all(wire::Wire::is_stateless);
    skip_unless(is_stateless, "the server supports a revision with GET and DELETE")?;
    for method in [Method::GET, Method::DELETE] {
        let request = target.request(method, "").header("accept", ACCEPTED);
        let request = request.header(VERSION_HEADER, STATELESS).read_until(|_| true);
        target.send_once(request.with_key()).await?.expect_status(&[405])?;
    }
    Ok(())
}

/// Creates a request without effects that the server accepts.
async fn probe(target: &Target) -> CheckResult<Rpc> {
    let rpc = wire::any(target).await?.request("tools/list", json!({}));
    let response = rpc.send(target).await?;
    match message::reply(&response) {
        Some(_) => Ok(rpc),
        None => fail("a JSON-RPC reply", message::summary(&response), &[&response]),
    }
}
