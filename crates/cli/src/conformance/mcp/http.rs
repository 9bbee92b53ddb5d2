//! What the transport asks of HTTP, and what keeps web pages out.

use reqwest::Method;
use serde_json::json;
use url::Url;

use super::{
    message,
    wire::{self, BOTH, Rpc, VERSION_HEADER},
};
use crate::{
    client::is_loopback,
    conformance::{Check, Site, Verdict, check, fail, skip},
};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "mcp.http.answer-type",
        Must,
        "streamable-http §sending-messages",
        "a request is answered as `application/json` or `text/event-stream`",
        answer_type
    ),
    check!(
        "mcp.http.accept",
        Should,
        "streamable-http §sending-messages, RFC 9110 §15.5.7",
        "a client that reads neither JSON nor event streams is refused",
        accept
    ),
    check!(
        "mcp.http.content-type",
        Should,
        "RFC 9110 §15.5.16",
        "a body that is said to be something else than JSON is refused",
        content_type
    ),
    check!(
        "mcp.http.origin",
        Must,
        "streamable-http §security",
        "a request with a foreign `Origin` is 403",
        origin
    ),
    check!(
        "mcp.http.host",
        Should,
        "streamable-http §security",
        "a server on this machine refuses a `Host` that is not its own, which is how DNS \
         rebinding looks",
        host
    ),
    check!(
        "mcp.http.post-only",
        Should,
        "2026-07-28 streamable-http §earlier-revisions",
        "a server of the stateless revision alone answers GET and DELETE as 405",
        post_only
    ),
];

/// A name that resolves nowhere (RFC 2606).
const FOREIGN: &str = "conformance.invalid";

async fn answer_type(site: &Site) -> Verdict {
    for wire in wire::wires(site).await? {
        let got = wire.request("tools/list", json!({})).send(site).await?;
        let kind = got.header("content-type").unwrap_or_default().to_ascii_lowercase();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let is_legal = kind == "application/json" || kind == "text/event-stream";
        got.expect(is_legal, "`application/json` or `text/event-stream`", format!("`{kind}`"))?;
    }
    Ok(())
}

async fn accept(site: &Site) -> Verdict {
    refused(site, probe(site).await?.says("accept", "text/html"), &[]).await
}

async fn content_type(site: &Site) -> Verdict {
    refused(site, probe(site).await?.says("content-type", "text/plain"), &[]).await
}

async fn origin(site: &Site) -> Verdict {
    let foreign = probe(site).await?.says("origin", format!("https://{FOREIGN}"));
    refused(site, foreign, &[403]).await
}

async fn host(site: &Site) -> Verdict {
    let is_near = Url::parse(site.host().base()).is_ok_and(|url| is_loopback(&url));
    if !is_near {
        return skip("the server is not on this machine");
    }
    refused(site, probe(site).await?.says("host", FOREIGN), &[]).await
}

async fn post_only(site: &Site) -> Verdict {
    let wires = wire::wires(site).await?;
    if wires.iter().any(|wire| !wire.is_stateless()) {
        return skip("the server speaks a revision in which they mean something");
    }
    for method in [Method::GET, Method::DELETE] {
        let ask = site
            .ask(method, "")
            .header("accept", BOTH)
            .header(VERSION_HEADER, super::STATELESS)
            .until(|_| true);
        site.once(ask.by_first()).await?.expect_status(&[405])?;
    }
    Ok(())
}

/// A request that does nothing and is served.
async fn probe(site: &Site) -> Verdict<Rpc> {
    let rpc = wire::any(site).await?.request("tools/list", json!({}));
    let got = rpc.send(site).await?;
    match message::of(&got) {
        Some(_) => Ok(rpc),
        None => fail("a JSON-RPC answer", message::what(&got), &[&got]),
    }
}

async fn refused(site: &Site, rpc: Rpc, statuses: &[u16]) -> Verdict {
    let got = rpc.send(site).await?;
    if !statuses.is_empty() {
        return got.expect_status(statuses);
    }
    let is_refusal = (400..500).contains(&got.status());
    got.expect(is_refusal, "a status from 400 to 499", format!("status {}", got.status()))
}
