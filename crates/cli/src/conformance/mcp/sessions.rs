//! Sessions, and subscriptions, which have taken the place of their streams.

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    HANDSHAKE, access, message,
    wire::{self, Rpc, SESSION_HEADER, VERSION_HEADER, Wire},
};
use crate::conformance::{Ask, Check, Got, Site, Verdict, check, fail, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "mcp.session.id",
        Must,
        "2025-11-25 basic/transports §session-management",
        "an `Mcp-Session-Id` has visible ASCII characters only",
        id
    ),
    check!(
        "mcp.session.unique",
        Should,
        "2025-11-25 basic/transports §session-management",
        "every handshake opens a session of its own",
        unique
    ),
    check!(
        "mcp.session.missing",
        Should,
        "2025-11-25 basic/transports §session-management",
        "a request that names no session is 400, or needs none",
        missing
    ),
    check!(
        "mcp.session.unknown",
        Should,
        "2025-11-25 basic/transports §session-management",
        "a session that there is not is 404, so that the client begins again",
        unknown
    ),
    check!(
        "mcp.session.delete",
        Must,
        "2025-11-25 basic/transports §session-management",
        "after DELETE a session is 404; a server may also refuse DELETE as 405",
        delete
    ),
    check!(
        "mcp.session.not-a-credential",
        Must,
        "security best practices §session-hijacking",
        "a session does not stand in for credentials",
        not_a_credential
    ),
    check!(
        "mcp.session.foreign",
        Should,
        "security best practices §session-hijacking",
        "a session cannot be used by another principal",
        foreign
    ),
    check!(
        "mcp.subscriptions.acknowledged",
        Must,
        "2026-07-28 patterns/subscriptions",
        "`subscriptions/listen` first acknowledges what it will tell, under the id of the request",
        acknowledged
    ),
];

const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

async fn id(site: &Site) -> Verdict {
    wire::handshake(site).await?;
    let got = wire::initialize(HANDSHAKE[0]).send(site).await?;
    let headers = got.lasting_headers();
    let Some((_, id)) = headers.iter().find(|(name, _)| name == SESSION_HEADER) else {
        return skip(NO_SESSIONS);
    };
    let is_visible = !id.is_empty() && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    got.expect(is_visible, "characters from 0x21 to 0x7E", format!("{id:?}"))
}

async fn unique(site: &Site) -> Verdict {
    used(site).await?;
    let (first, one) = opened(site, HANDSHAKE[0]).await?;
    let (second, other) = opened(site, HANDSHAKE[0]).await?;
    close(site, &one).await;
    if one.session() == other.session() {
        return fail("two sessions", "the same one", &[&first, &second]);
    }
    close(site, &other).await;
    Ok(())
}

async fn missing(site: &Site) -> Verdict {
    let got = ping(&used(site).await?).silent(SESSION_HEADER).send(site).await?;
    got.expect_status(&[400, 200])
}

async fn unknown(site: &Site) -> Verdict {
    let stray = ping(&used(site).await?).says(SESSION_HEADER, "conformance-no-such-session");
    stray.send(site).await?.expect_status(&[404])
}

async fn delete(site: &Site) -> Verdict {
    used(site).await?;
    let (_, wire) = opened(site, HANDSHAKE[0]).await?;
    let Some(ask) = end(site, &wire) else { return skip(NO_SESSIONS) };
    let ended = site.send(ask).await?;
    if ended.status() == 405 {
        return skip("the server lets nobody end a session");
    }
    let is_ended = (200..300).contains(&ended.status());
    ended.expect(is_ended, "a status from 200 to 299, or 405", message::what(&ended))?;
    let after = site.send(ping(&wire).ask(site).by_first()).await?;
    match after.status() {
        404 => Ok(()),
        status => fail("status 404 afterwards", format!("status {status}"), &[&ended, &after]),
    }
}

async fn not_a_credential(site: &Site) -> Verdict {
    let wire = used(site).await?;
    if access::refusal(site).await?.is_none() {
        return skip("the server wants no credentials");
    }
    site.once(ping(&wire).ask(site)).await?.expect_status(&[401])
}

async fn foreign(site: &Site) -> Verdict {
    let wire = used(site).await?;
    if !site.host().has_second_key() {
        return skip("needs the key of another principal: --second-key");
    }
    let rpc = ping(&wire);
    // Without the session the key is good.
    let known = site.once(wire::initialize(HANDSHAKE[0]).again().ask(site).by_second()).await?;
    let Some(own) = wire::settled(&known) else {
        return skip("the second key opens no session");
    };
    if own.session() == wire.session() {
        return fail("another session", "the session of another principal", &[&known]);
    }
    let got = site.once(rpc.ask(site).by_second()).await?;
    let is_refused = (400..500).contains(&got.status());
    got.expect(is_refused, "a status from 400 to 499", message::what(&got))
}

async fn acknowledged(site: &Site) -> Verdict {
    let wire = wire::stateless(site).await?;
    let offers = wire::capabilities(site, &wire).await?;
    if offers.pointer("/tools/listChanged") != Some(&Value::Bool(true)) {
        return skip("the server declares no `listChanged` of its tools");
    }
    let id = json!("conformance-subscription");
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let rpc = wire.request("subscriptions/listen", params).id(id.clone());
    let got = site.once(rpc.ask(site).by_first().until(message::has_message)).await?;
    got.expect_status(&[200])?;
    let events = message::events(got.body());
    let first = events.first().unwrap_or(&Value::Null);
    let method = first.get("method").and_then(Value::as_str).unwrap_or("something else");
    let is_acknowledged = method == "notifications/subscriptions/acknowledged";
    got.expect(is_acknowledged, "`notifications/subscriptions/acknowledged`", method)?;
    let meta = first.pointer("/params/_meta").and_then(|meta| meta.get(SUBSCRIPTION_KEY));
    got.expect(meta == Some(&id), format!("`_meta[\"{SUBSCRIPTION_KEY}\"]` {id}"), "another one")?;
    let honoured = first.pointer("/params/notifications/toolsListChanged");
    let is_honoured = honoured == Some(&Value::Bool(true));
    got.expect(is_honoured, "`notifications.toolsListChanged` true", "not honoured")
}

const NO_SESSIONS: &str = "the server opens no sessions";

/// The session of the run, if the server has any.
async fn used(site: &Site) -> Verdict<Wire> {
    let wire = wire::handshake(site).await?;
    match wire.session() {
        Some(_) => Ok(wire),
        None => skip(NO_SESSIONS),
    }
}

/// A new session for the first key.
pub(super) async fn opened(site: &Site, version: &str) -> Verdict<(Got, Wire)> {
    let got = site.send(wire::initialize(version).ask(site).by_first()).await?;
    match wire::settled(&got) {
        Some(wire) => Ok((got, wire)),
        None => fail("a result of `initialize`", message::what(&got), &[&got]),
    }
}

/// Ends a session that is of no more use; that it cannot be ended is another check's.
pub(super) async fn close(site: &Site, wire: &Wire) {
    if let Some(ask) = end(site, wire) {
        site.send(ask).await.ok();
    }
}

fn end(site: &Site, wire: &Wire) -> Option<Ask> {
    let session = wire.session()?;
    let ask = site.ask(Method::DELETE, "").header(SESSION_HEADER, session);
    Some(match wire.version() {
        version if version >= "2025-06-18" => ask.header(VERSION_HEADER, version).by_first(),
        _ => ask.by_first(),
    })
}

fn ping(wire: &Wire) -> Rpc {
    wire.request("ping", json!({}))
}
