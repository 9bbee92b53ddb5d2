//! Tool hooks (RFC 0064), looked at through the test seam `toolhooks/invoke`.

use serde_json::{Value, json};

use super::{facet, flat};
use crate::conformance::{Check, Got, Site, Verdict, check, fail, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "openwop.seams.authenticated",
        Must,
        "host-sample-test-seams",
        "test seams do not work without credentials",
        authenticated
    ),
    check!(
        "openwop.hooks.content-free",
        Must,
        "RFC 0064 §B",
        "an event tells of the arguments by their hash alone; one of success says how long it took",
        content_free
    ),
    check!(
        "openwop.hooks.args-hash",
        Must,
        "RFC 0064 §B, RFC 8785",
        "`argsHash` is the lower-case SHA-256 of the canonical arguments",
        args_hash
    ),
    check!(
        "openwop.hooks.fail-closed",
        Must,
        "RFC 0064 §C",
        "a call whose scope nobody proves is `forbidden` and did not run",
        fail_closed
    ),
    check!(
        "openwop.hooks.rate-limited",
        Must,
        "RFC 0064 §D",
        "a call over the limit is `rate_limited` and did not run",
        rate_limited
    ),
    check!(
        "openwop.hooks.rate-limit-headers",
        Must,
        "RFC 0064 §D",
        "when that is told as HTTP 429, it has `Retry-After` in whole seconds and says the same in \
         `details`",
        rate_limit_headers
    ),
    check!(
        "openwop.hooks.redaction",
        Must,
        "RFC 0064 §B, SR-1",
        "a secret in the arguments appears nowhere in the answer",
        redaction
    ),
    check!(
        "openwop.hooks.redacted-before-hash",
        Should,
        "RFC 0064 §B, SR-1",
        "secrets are taken out before hashing: two calls that differ in a secret alone hash alike",
        redacted_before_hash
    ),
    check!(
        "openwop.hooks.failure-honesty",
        Must,
        "RFC 0064 §F",
        "a tool that failed says so: `status` error with code and message, no outcome, and how \
         long it ran",
        failure_honesty
    ),
];

const INVOKE: &str = "/v1/host/sample/toolhooks/invoke";
const CANARY: &str = "sk-canary-conformance-do-not-leak-0001";

async fn authenticated(site: &Site) -> Verdict {
    for ask in [
        site.post(INVOKE).json(&plain()),
        site.post("/v1/host/sample/tools/session-run").json(&json!({})),
        site.get("/v1/host/sample/test/runs/__probe__/events"),
    ] {
        site.once(ask).await?.expect_status(&[401, 403, 404, 405, 501])?;
    }
    Ok(())
}

async fn content_free(site: &Site) -> Verdict {
    let text = "conformance-argument-text";
    let body = json!({
        "principal": "core.system", "toolName": "web.search", "args": { "q": text },
    });
    let got = invoke(site, "prePostEvents", &body).await?;
    hash(&got)?;
    got.expect(!got.text().contains(text), "no arguments", "the arguments")?;
    let returned = returned(&got)?;
    let status = status(&got)?;
    if status == "ok" {
        took_time(&got, returned)?;
    }
    got.expect(status == "ok", "`status` ok", format!("`{status}`"))
}

async fn args_hash(site: &Site) -> Verdict {
    // SHA-256 of `{"q":"hello"}` and of `{"a":1,"b":[true,null,"é"]}`.
    const KNOWN: [(&str, &str); 2] = [
        (r#"{"q":"hello"}"#, "08576d040e5f5ced47690f2c76fef94fd91c9c5e5e77c3392e13cdacacebc7f2"),
        (
            r#"{"b":[true,null,"é"],"a":1.0}"#,
            "9488dd13ca33d3291f5a91a1833dfa164811755ffba538c2b340780f8c31a0cb",
        ),
    ];
    for (args, expected) in KNOWN {
        // Written by hand: another writer of JSON might put it in order.
        let body =
            format!(r#"{{"principal":"core.system","toolName":"web.search","args":{args}}}"#);
        let ask = site.post(INVOKE).header("content-type", "application/json").body(body);
        let got = seam(site, "prePostEvents", site.once(ask.by_first()).await?).await?;
        let seen = hash(&got)?;
        got.expect(seen == expected, expected, seen)?;
    }
    Ok(())
}

async fn fail_closed(site: &Site) -> Verdict {
    let body = json!({
        "principal": "conformance-unprivileged",
        "toolName": "db.delete",
        "requiredScopes": ["db:write"],
    });
    let got = invoke(site, "perToolAuthorization", &body).await?;
    gated(&got, "forbidden")
}

async fn rate_limited(site: &Site) -> Verdict {
    gated(&exhausted(site).await?, "rate_limited")
}

async fn rate_limit_headers(site: &Site) -> Verdict {
    let got = exhausted(site).await?;
    if got.status() != 429 {
        return skip(format!("the seam tells it with status {}", got.status()));
    }
    let said = got.header("retry-after").and_then(|text| text.parse::<u64>().ok());
    let Some(seconds @ 1..) = said else {
        return fail("`Retry-After`, at least 1", "none", &[&got]);
    };
    let Some(details) = got.value().get("details") else { return Ok(()) };
    let scope = details.get("scope").and_then(Value::as_str).unwrap_or_default();
    got.expect(scope == "tool", "`details.scope` tool", format!("`{scope}`"))?;
    let Some(millis) = details.get("retryAfterMs").and_then(Value::as_u64) else {
        return fail("`details.retryAfterMs`", "none", &[&got]);
    };
    let agrees = millis.abs_diff(seconds.saturating_mul(1000)) <= 1500;
    let seen = format!("{seconds} s and {millis} ms");
    got.expect(agrees, "`retryAfterMs` within 1.5 s of `Retry-After`", seen)
}

async fn redaction(site: &Site) -> Verdict {
    let got = invoke(site, "prePostEvents", &secret(CANARY)).await?;
    hash(&got)?;
    got.expect(!got.text().contains(CANARY), "no trace of the secret", "the secret")
}

async fn redacted_before_hash(site: &Site) -> Verdict {
    let one = invoke(site, "prePostEvents", &secret(CANARY)).await?;
    let other = "sk-canary-conformance-do-not-leak-0002";
    let other = invoke(site, "prePostEvents", &secret(other)).await?;
    match hash(&one)? == hash(&other)? {
        true => Ok(()),
        false => fail("one hash", "two", &[&one, &other]),
    }
}

async fn failure_honesty(site: &Site) -> Verdict {
    let body = json!({
        "principal": "core.system", "toolName": "web.search", "args": { "q": "hello" },
        "simulateToolError": true,
    });
    let got = invoke(site, "prePostEvents", &body).await?;
    let returned = returned(&got)?;
    let status = status(&got)?;
    got.expect(status == "error", "`status` error", format!("`{status}`"))?;
    for member in ["code", "message"] {
        let said = returned.pointer(&format!("/error/{member}")).and_then(Value::as_str);
        let said = said.is_some_and(|text| !text.is_empty());
        got.expect(said, format!("`error.{member}`"), "none")?;
    }
    got.expect(returned.get("outcome").is_none(), "no `outcome`", "an `outcome`")?;
    took_time(&got, returned)
}

fn plain() -> Value {
    json!({ "principal": "core.system", "toolName": "web.search", "args": { "q": "hello" } })
}

fn secret(text: &str) -> Value {
    json!({ "principal": "core.system", "toolName": "web.search", "args": { "apiKey": text } })
}

async fn exhausted(site: &Site) -> Verdict<Got> {
    let mut body = plain();
    if let Some(body) = body.as_object_mut() {
        body.insert("simulateRateLimitExhausted".to_owned(), json!(true));
    }
    invoke(site, "perToolRateLimit", &body).await
}

/// What the seam answers to `body`, if the host advertises `needed`.
async fn invoke(site: &Site, needed: &str, body: &Value) -> Verdict<Got> {
    let got = site.once(site.post(INVOKE).json(body).by_first()).await?;
    seam(site, needed, got).await
}

async fn seam(site: &Site, needed: &str, got: Got) -> Verdict<Got> {
    if !site.host().has_key() {
        return skip("needs a key: --key");
    }
    if !facet(site, "toolHooks", needed).await? {
        return skip(format!("the host does not advertise `toolHooks.{needed}`"));
    }
    present(site, got)
}

/// Skips when `got` says that there is no seam.
pub(super) fn present(site: &Site, got: Got) -> Verdict<Got> {
    match got.status() {
        404 | 405 if site.options().require_behavior => {
            fail("the seam that shows what is advertised", "no seam", &[&got])
        }
        404 | 405 => skip("the host has no test seam for it (or it is off)"),
        400 | 401 => {
            flat(&got)?;
            fail("an answer of the seam", format!("status {}", got.status()), &[&got])
        }
        _ => Ok(got),
    }
}

fn returned(got: &Got) -> Verdict<&Value> {
    match got.json()?.get("toolReturned") {
        Some(returned) => Ok(returned),
        None => fail("`toolReturned`", "none", &[got]),
    }
}

fn status(got: &Got) -> Verdict<&str> {
    match returned(got)?.get("status").and_then(Value::as_str) {
        Some(status) => Ok(status),
        None => fail("`toolReturned.status`", "none", &[got]),
    }
}

fn hash(got: &Got) -> Verdict<&str> {
    let hash = got.json()?.pointer("/toolCalled/argsHash").and_then(Value::as_str);
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    match hash {
        Some(hash) if hash.len() == 64 && hash.bytes().all(is_hex) => Ok(hash),
        Some(_) => fail("`toolCalled.argsHash`, 64 lower-case hex digits", "another text", &[got]),
        None => fail("`toolCalled.argsHash`", "none", &[got]),
    }
}

/// Fails unless the call was stopped by a gate.
fn gated(got: &Got, expected: &str) -> Verdict {
    let seen = status(got)?;
    got.expect(seen == expected, format!("`status` {expected}"), format!("`{seen}`"))?;
    let took = returned(got)?.get("durationMs").is_some();
    got.expect(!took, "no `durationMs`, because nothing ran", "a `durationMs`")
}

fn took_time(got: &Got, returned: &Value) -> Verdict {
    let took = returned.get("durationMs").and_then(Value::as_f64);
    got.expect(took.is_some_and(|it| it >= 0.0), "`durationMs`, at least 0", "none")
}
