//! JSON-RPC: what is an answer, and what becomes of a message that is none of the protocol's.

use serde_json::{Value, json};

use super::{
    discover::says_server,
    message,
    wire::{self, Wire},
};
use crate::conformance::{Check, Got, Site, Verdict, check, fail, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "mcp.rpc.id",
        Must,
        "basic §responses, JSON-RPC 2.0 §5",
        "an answer is of JSON-RPC 2.0 and has the id of its request, a text as a text and a number \
         as a number",
        ids
    ),
    check!(
        "mcp.rpc.result-type",
        Must,
        "2026-07-28 basic §resulttype",
        "every result of the stateless revision says its `resultType`",
        result_type
    ),
    check!(
        "mcp.rpc.server-info",
        Should,
        "2026-07-28 basic §_meta",
        "every result of the stateless revision says in `_meta` which server it is from",
        server_info
    ),
    check!(
        "mcp.rpc.unknown-method",
        Must,
        "JSON-RPC 2.0 §5.1",
        "a method that there is not is the error -32601",
        unknown_method
    ),
    check!(
        "mcp.rpc.unknown-method-status",
        Must,
        "2026-07-28 streamable-http §protocol-version-header",
        "in the stateless revision its status is 404",
        unknown_method_status
    ),
    check!(
        "mcp.rpc.not-offered",
        Must,
        "JSON-RPC 2.0 §5.1",
        "methods of a capability that the server does not declare are the error -32601",
        not_offered
    ),
    check!(
        "mcp.rpc.removed-methods",
        Must,
        "2026-07-28 changelog",
        "in the stateless revision the methods that it has dropped are the error -32601",
        removed_methods
    ),
    check!(
        "mcp.rpc.not-json",
        Must,
        "JSON-RPC 2.0 §5.1",
        "a body that is no JSON is a status from 400 to 499, and an error in it is -32700",
        not_json
    ),
    check!(
        "mcp.rpc.not-a-request",
        Must,
        "JSON-RPC 2.0 §5.1",
        "JSON that is no request is a status from 400 to 499, and an error in it is -32600",
        not_a_request
    ),
    check!(
        "mcp.rpc.batch",
        Should,
        "2025-06-18 changelog, streamable-http §sending-messages",
        "an array of requests is refused since 2025-06-18",
        batch
    ),
    check!(
        "mcp.rpc.notification",
        Must,
        "streamable-http §sending-messages",
        "a notification is 202 without a body, or an error status",
        notification
    ),
];

async fn ids(site: &Site) -> Verdict {
    for wire in wire::wires(site).await? {
        for id in [json!("conformance-id"), json!(7)] {
            let got = wire.request("tools/list", json!({})).id(id.clone()).send(site).await?;
            let answer = answered(&got)?;
            let seen = answer.get("id").cloned().unwrap_or_default();
            got.expect(seen == id, format!("the id {id}"), format!("{seen}"))?;
        }
    }
    Ok(())
}

async fn result_type(site: &Site) -> Verdict {
    for got in results(site).await? {
        let result = message::result(&got)?;
        let kind = result.get("resultType").and_then(Value::as_str);
        let seen = kind.unwrap_or("none");
        got.expect(kind == Some("complete"), "`resultType` complete", seen)?;
    }
    Ok(())
}

async fn server_info(site: &Site) -> Verdict {
    for got in results(site).await? {
        says_server(&got, &message::result(&got)?)?;
    }
    Ok(())
}

async fn unknown_method(site: &Site) -> Verdict {
    for wire in wire::wires(site).await? {
        let got = wire.request(UNKNOWN, json!({})).send(site).await?;
        message::expect_code(&got, &[-32601])?;
    }
    Ok(())
}

async fn unknown_method_status(site: &Site) -> Verdict {
    let wire = wire::stateless(site).await?;
    wire.request(UNKNOWN, json!({})).send(site).await?.expect_status(&[404])
}

async fn not_offered(site: &Site) -> Verdict {
    let mut is_looked_at = false;
    for wire in wire::wires(site).await? {
        let offers = wire::capabilities(site, &wire).await?;
        if !offers.is_object() {
            continue;
        }
        for (capability, method, params) in [
            ("tools", "tools/list", json!({})),
            ("prompts", "prompts/list", json!({})),
            ("resources", "resources/list", json!({})),
            ("completions", "completion/complete", completion()),
        ] {
            if offers.get(capability).is_none() {
                is_looked_at = true;
                let got = wire.request(method, params).send(site).await?;
                message::expect_code(&got, &[-32601])?;
            }
        }
    }
    match is_looked_at {
        true => Ok(()),
        false => skip("the server declares everything that there is"),
    }
}

async fn removed_methods(site: &Site) -> Verdict {
    let wire = wire::stateless(site).await?;
    for (method, params) in [("ping", json!({})), ("logging/setLevel", json!({ "level": "info" }))]
    {
        let got = wire.request(method, params).send(site).await?;
        message::expect_code(&got, &[-32601])?;
    }
    Ok(())
}

async fn not_json(site: &Site) -> Verdict {
    let rpc = wire::any(site).await?.request("tools/list", json!({}));
    let got = site.once(rpc.ask_with(site, "{not json").by_first()).await?;
    refused(&got, -32700)
}

async fn not_a_request(site: &Site) -> Verdict {
    let rpc = wire::any(site).await?.request("tools/list", json!({}));
    let mut old = rpc.body();
    if let Some(old) = old.as_object_mut() {
        old.insert("jsonrpc".to_owned(), json!("1.0"));
    }
    for body in [json!({ "jsonrpc": "2.0", "id": 1 }), json!({ "hello": "there" }), json!(42), old]
    {
        let got = site.once(rpc.ask_with(site, body.to_string()).by_first()).await?;
        refused(&got, -32600)?;
    }
    Ok(())
}

async fn batch(site: &Site) -> Verdict {
    let wire = wire::any(site).await?;
    if wire.version() < "2025-06-18" {
        return skip("the server speaks a revision that has batches");
    }
    let rpc = wire.request("tools/list", json!({}));
    let body = json!([rpc.clone().id(json!("a")).body(), rpc.clone().id(json!("b")).body()]);
    let got = site.once(rpc.ask_with(site, body.to_string()).by_first()).await?;
    let is_refusal = (400..500).contains(&got.status()) || message::code(&got).is_some();
    got.expect(is_refusal, "a refusal", message::what(&got))
}

async fn notification(site: &Site) -> Verdict {
    for wire in wire::wires(site).await? {
        let (method, params) = match wire {
            Wire::Handshake { .. } => ("notifications/initialized", json!({})),
            Wire::Stateless => ("notifications/cancelled", json!({ "requestId": "nothing" })),
        };
        let got = wire.notification(method, params).send(site).await?;
        let is_taken = got.status() == 202 && got.body().is_empty();
        // Only the stateless revision has none that has to be taken.
        let is_refused = wire.is_stateless() && (400..500).contains(&got.status());
        let seen = format!("status {}, {} bytes", got.status(), got.body().len());
        got.expect(is_taken || is_refused, "202 without a body", seen)?;
    }
    Ok(())
}

/// A method that there is not.
const UNKNOWN: &str = "conformance/absent";

fn completion() -> Value {
    json!({
        "ref": { "type": "ref/prompt", "name": "conformance-absent" },
        "argument": { "name": "a", "value": "" },
    })
}

/// Results of the stateless revision.
async fn results(site: &Site) -> Verdict<Vec<Got>> {
    let wire = wire::stateless(site).await?;
    let mut all = vec![wire::discover().send(site).await?];
    let listed = wire.request("tools/list", json!({})).send(site).await?;
    // A server without tools has no such result.
    if message::code(&listed).is_none() {
        all.push(listed);
    }
    Ok(all)
}

fn answered(got: &Got) -> Verdict<Value> {
    match message::of(got) {
        Some(answer) => Ok(answer),
        None => fail("a JSON-RPC answer", message::what(got), &[got]),
    }
}

/// Fails unless the message was refused before it was a request.
fn refused(got: &Got, code: i64) -> Verdict {
    let is_refusal = (400..500).contains(&got.status());
    got.expect(is_refusal, "a status from 400 to 499", message::what(got))?;
    match message::of(got) {
        Some(_) => message::expect_code(got, &[code]),
        None => Ok(()),
    }
}
