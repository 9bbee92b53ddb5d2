//! Sessions, and the subscriptions that replaced their streams.

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    auth,
    common::HANDSHAKE,
    message,
    wire::{self, Rpc, SESSION_HEADER, Wire},
};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::{Request, Response},
    require, skip, skip_unless,
    value::text,
};

pub(super) const CHECKS: &[Check] = checks! {
    "mcp.session.id", Must, "2025-11-25 basic/transports §session-management", id:
        "an `Mcp-Session-Id` has only visible ASCII characters";
    "mcp.session.unique", Should, "2025-11-25 basic/transports §session-management", unique:
        "every handshake opens a new session";
    "mcp.session.missing", Should, "2025-11-25 basic/transports §session-management", missing:
        "a request without a session returns 400, or needs no session";
    "mcp.session.unknown", Should, "2025-11-25 basic/transports §session-management", unknown:
        "an unknown session returns 404, so that the client opens a new one";
    "mcp.session.delete", Must, "2025-11-25 basic/transports §session-management", delete:
        "after DELETE a session returns 404; a server may also reject DELETE with 405";
    "mcp.session.not-a-credential", Must, "security best practices §session-hijacking", not_a_credential:
        "a session does not replace credentials";
    "mcp.session.foreign", Should, "security best practices §session-hijacking", foreign:
        "another principal cannot use a session";
    "mcp.subscriptions.acknowledged", Must, "2026-07-28 patterns/subscriptions", acknowledged:
        "the first message of `subscriptions/listen` is the acknowledgement with the id of the request";
};

const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const NO_SESSIONS: &str = "the server opens no sessions";

async fn id(target: &Target) -> CheckResult {
    wire::handshake(target).await?;
    let response = wire::initialize(HANDSHAKE[0]).send(target).await?;
    let headers = response.stable_headers();
    let Some((_, id)) = headers.iter().find(|(name, _)| name == SESSION_HEADER) else {
        return skip(NO_SESSIONS);
    };
    let is_visible = !id.is_empty() && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    response.expect(is_visible, "characters from 0x21 to 0x7E", format!("{id:?}"))
}

async fn unique(target: &Target) -> CheckResult {
    shared_session(target).await?;
    let (first, one) = open(target, HANDSHAKE[0]).await?;
    let (second, other) = open(target, HANDSHAKE[0]).await?;
    close(target, &one).await;
    if one.session() != other.session() {
        close(target, &other).await;
        return Ok(());
    }
    fail("two sessions", "the same session twice", &[&first, &second])
}

async fn missing(target: &Target) -> CheckResult {
    let rpc = ping(&shared_session(target).await?).without_header(SESSION_HEADER);
    rpc.send(target).await?.expect_status(&[400, 200])
}

async fn unknown(target: &Target) -> CheckResult {
    let wire = shared_session(target).await?;
    let rpc = ping(&wire).header(SESSION_HEADER, "conformance-no-such-session");
    rpc.send(target).await?.expect_status(&[404])
}

async fn delete(target: &Target) -> CheckResult {
    shared_session(target).await?;
    let (_, wire) = open(target, HANDSHAKE[0]).await?;
    let Some(request) = delete_request(target, &wire) else { return skip(NO_SESSIONS) };
    let deleted = target.send(request).await?;
    skip_unless(deleted.status() != 405, "the server does not support DELETE")?;
    let is_success = (200..300).contains(&deleted.status());
    let seen = message::summary(&deleted);
    deleted.expect(is_success, "a status from 200 to 299, or 405", seen)?;
    let after = target.send(ping(&wire).request(target).with_key()).await?;
    let seen = format!("status {}", after.status());
    require(after.status() == 404, "status 404 afterwards", seen, &[&deleted, &after])
}

async fn not_a_credential(target: &Target) -> CheckResult {
    let wire = shared_session(target).await?;
    let is_locked = auth::rejection(target).await?.is_some();
    skip_unless(is_locked, "the server requires no credentials")?;
    target.send_once(ping(&wire).request(target)).await?.expect_status(&[401])
}

async fn foreign(target: &Target) -> CheckResult {
    let wire = shared_session(target).await?;
    target.require_second_key()?;
    // The second key must be valid without the session.
    let initialize = wire::initialize(HANDSHAKE[0]).again().request(target);
    let initialized = target.send_once(initialize.with_second_key()).await?;
    let Some(own) = wire::negotiated(&initialized) else {
        return skip("the second key opens no session");
    };
    let is_new = own.session() != wire.session();
    initialized.expect(is_new, "another session", "the session of another principal")?;
    let request = ping(&wire).request(target).with_second_key();
    message::expect_client_error(&target.send_once(request).await?)
}

async fn acknowledged(target: &Target) -> CheckResult {
    let wire = wire::stateless(target).await?;
    let capabilities = wire::capabilities(target, &wire).await?;
    let is_declared = capabilities.pointer("/tools/listChanged") == Some(&Value::Bool(true));
    skip_unless(is_declared, "the server does not declare `tools.listChanged`")?;
    let id = json!("conformance-subscription");
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let rpc = wire.request("subscriptions/listen", params).id(id.clone());
    let request = rpc.request(target).with_key().read_until(message::has_message);
    let response = target.send_once(request).await?;
    response.expect_status(&[200])?;
    let first = message::events(response.body()).into_iter().next().unwrap_or_default();
    let method = text(&first, "method");
    let expected = "notifications/subscriptions/acknowledged";
    response.expect(method == expected, format!("`{expected}`"), format!("`{method}`"))?;
    let meta = first.pointer("/params/_meta").and_then(|meta| meta.get(SUBSCRIPTION_KEY));
    let expected = format!("`_meta[\"{SUBSCRIPTION_KEY}\"]` {id}");
    response.expect(meta == Some(&id), expected, "another one")?;
    let subscribed = first.pointer("/params/notifications/toolsListChanged");
    let is_subscribed = subscribed == Some(&Value::Bool(true));
    response.expect(is_subscribed, "`notifications.toolsListChanged` true", "something else")
}

/// The session of the run; skips the check if the server opens none.
async fn shared_session(target: &Target) -> CheckResult<Wire> {
    let wire = wire::handshake(target).await?;
    skip_unless(wire.session().is_some(), NO_SESSIONS)?;
    Ok(wire)
}

/// Opens a session with the first key.
pub(super) async fn open(target: &Target, version: &str) -> CheckResult<(Response, Wire)> {
    let request = wire::initialize(version).request(target).with_key();
    let response = target.send(request).await?;
    match wire::negotiated(&response) {
        Some(wire) => Ok((response, wire)),
        None => fail("a result of `initialize`", message::summary(&response), &[&response]),
    }
}

/// Closes a session. `mcp.session.delete` reports failures.
pub(super) async fn close(target: &Target, wire: &Wire) {
    if let Some(request) = delete_request(target, wire) {
        target.send(request).await.ok();
    }
}

fn delete_request(target: &Target, wire: &Wire) -> Option<Request> {
    wire.session()?;
    let request = target.request(Method::DELETE, "").with_key();
    Some(wire.session_headers().fold(request, |built, (name, value)| built.header(name, value)))
}

fn ping(wire: &Wire) -> Rpc {
    wire.request("ping", json!({}))
}
