//! Tool hooks (RFC 0064), observed through the test seam `toolhooks/invoke`.

use serde_json::{Value, json};

use super::common::{expect_flat_error, require_facet};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::{Request, Response},
    require, skip, skip_unless,
    value::{text, with},
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop.seams.authenticated", Must, "host-sample-test-seams", authenticated:
        "test routes require credentials";
    "openwop.hooks.content-free", Must, "RFC 0064 §B", content_free:
        "events contain the hash of the arguments instead of the arguments; a success has a duration";
    "openwop.hooks.args-hash", Must, "RFC 0064 §B, RFC 8785", args_hash:
        "`argsHash` is the SHA-256 of the canonical arguments in lower case";
    "openwop.hooks.fail-closed", Must, "RFC 0064 §C", fail_closed:
        "a call without the required scope is `forbidden` and does not run";
    "openwop.hooks.rate-limited", Must, "RFC 0064 §D", rate_limited:
        "a call over the limit is `rate_limited` and does not run";
    "openwop.hooks.rate-limit-headers", Must, "RFC 0064 §D", rate_limit_headers:
        "an HTTP 429 has `Retry-After` in whole seconds, and its `details` agree";
    "openwop.hooks.redaction", Must, "RFC 0064 §B, SR-1", redaction:
        "the response contains no secret of the arguments";
    "openwop.hooks.redacted-before-hash", Should, "RFC 0064 §B, SR-1", redacted_before_hash:
        "secrets are redacted before hashing: calls that differ only in a secret have the same hash";
    "openwop.hooks.failure-honesty", Must, "RFC 0064 §F", failure_honesty:
        "a failed tool has the `status` error with code, message and duration, and no outcome";
};

const INVOKE: &str = "/v1/host/sample/toolhooks/invoke";
const CANARY: &str = "sk-canary-conformance-do-not-leak-0001";

async fn authenticated(target: &Target) -> CheckResult {
    for request in [
        target.post(INVOKE).json(&call(json!({ "q": "hello" }))),
        target.post("/v1/host/sample/tools/session-run").json(&json!({})),
        target.get("/v1/host/sample/test/runs/__probe__/events"),
    ] {
        target.send_once(request).await?.expect_status(&[401, 403, 404, 405, 501])?;
    }
    Ok(())
}

async fn content_free(target: &Target) -> CheckResult {
    let argument = "conformance-argument-text";
    let response = invoke(target, "prePostEvents", &call(json!({ "q": argument }))).await?;
    hash(&response)?;
    response.expect(!response.text().contains(argument), "no arguments", "the arguments")?;
    expect_call_status(&response, "ok")?;
    expect_duration(&response)
}

async fn args_hash(target: &Target) -> CheckResult {
    // The SHA-256 of `{"q":"hello"}` and of `{"a":1,"b":[true,null,"é"]}`.
    const KNOWN: [(&str, &str); 2] = [
        (r#"{"q":"hello"}"#, "08576d040e5f5ced47690f2c76fef94fd91c9c5e5e77c3392e13cdacacebc7f2"),
        (
            r#"{"b":[true,null,"é"],"a":1.0}"#,
            "9488dd13ca33d3291f5a91a1833dfa164811755ffba538c2b340780f8c31a0cb",
        ),
    ];
    for (args, expected) in KNOWN {
        // Formatted by hand, because a JSON serializer could change the order.
        let body =
            format!(r#"{{"principal":"core.system","toolName":"web.search","args":{args}}}"#);
        let request = target.post(INVOKE).json_text(body);
        let response = seam(target, "prePostEvents", request).await?;
        let seen = hash(&response)?;
        response.expect(seen == expected, expected, seen)?;
    }
    Ok(())
}

async fn fail_closed(target: &Target) -> CheckResult {
    let body = json!({
        "principal": "conformance-unprivileged",
        "toolName": "db.delete",
        "requiredScopes": ["db:write"],
    });
    let response = invoke(target, "perToolAuthorization", &body).await?;
    expect_not_run(&response, "forbidden")
}

async fn rate_limited(target: &Target) -> CheckResult {
    expect_not_run(&exhaust(target).await?, "rate_limited")
}

async fn rate_limit_headers(target: &Target) -> CheckResult {
    let response = exhaust(target).await?;
    let status = response.status();
    skip_unless(status == 429, format!("the seam reports the limit with status {status}"))?;
    let Ok(seconds @ 1..) = response.header_text("retry-after").parse::<u64>() else {
        return fail("`Retry-After`, at least 1", "none", &[&response]);
    };
    let Some(details) = response.value().get("details") else { return Ok(()) };
    let scope = text(details, "scope");
    response.expect(scope == "tool", "`details.scope` tool", format!("`{scope}`"))?;
    match details.get("retryAfterMs").and_then(Value::as_u64) {
        Some(millis) => response.expect_same_delay(seconds, millis),
        None => fail("`details.retryAfterMs`", "none", &[&response]),
    }
}

async fn redaction(target: &Target) -> CheckResult {
    let response = invoke(target, "prePostEvents", &call(json!({ "apiKey": CANARY }))).await?;
    hash(&response)?;
    response.expect(!response.text().contains(CANARY), "no secret", "the secret")
}

async fn redacted_before_hash(target: &Target) -> CheckResult {
    let first = call(json!({ "apiKey": CANARY }));
    let first = invoke(target, "prePostEvents", &first).await?;
    let second = call(json!({ "apiKey": "sk-canary-conformance-do-not-leak-0002" }));
    let second = invoke(target, "prePostEvents", &second).await?;
    let is_same = hash(&first)? == hash(&second)?;
    require(is_same, "the same hash", "two hashes", &[&first, &second])
}

async fn failure_honesty(target: &Target) -> CheckResult {
    let body = with(call(json!({ "q": "hello" })), "simulateToolError", true);
    let response = invoke(target, "prePostEvents", &body).await?;
    expect_call_status(&response, "error")?;
    let returned = returned(&response)?;
    let error = returned.get("error").unwrap_or(&Value::Null);
    for member in ["code", "message"] {
        response.expect(!text(error, member).is_empty(), format!("`error.{member}`"), "none")?;
    }
    response.expect(returned.get("outcome").is_none(), "no `outcome`", "an `outcome`")?;
    expect_duration(&response)
}

/// Builds the body that calls a tool with `args`.
fn call(args: Value) -> Value {
    json!({ "principal": "core.system", "toolName": "web.search", "args": args })
}

/// Calls a tool whose rate limit is exhausted.
async fn exhaust(target: &Target) -> CheckResult<Response> {
    let body = with(call(json!({ "q": "hello" })), "simulateRateLimitExhausted", true);
    invoke(target, "perToolRateLimit", &body).await
}

async fn invoke(target: &Target, facet: &str, body: &Value) -> CheckResult<Response> {
    seam(target, facet, target.post(INVOKE).json(body)).await
}

/// Sends `request` to the seam; skips the check unless the host advertises `facet`.
async fn seam(target: &Target, facet: &str, request: Request) -> CheckResult<Response> {
    target.require_key()?;
    require_facet(target, "toolHooks", facet).await?;
    send_to_seam(target, request).await
}

/// Sends `request` to a test seam; skips the check if the host does not have it.
pub(super) async fn send_to_seam(target: &Target, request: Request) -> CheckResult<Response> {
    let response = target.send_once(request.with_key()).await?;
    match response.status() {
        404 | 405 if target.options().require_behavior => {
            fail("a test seam for the advertised behavior", "no seam", &[&response])
        }
        404 | 405 => skip("the host has no test seam for it, or the seam is disabled"),
        400 | 401 => {
            expect_flat_error(&response)?;
            let seen = format!("status {}", response.status());
            fail("a response of the test seam", seen, &[&response])
        }
        _ => Ok(response),
    }
}

fn returned(response: &Response) -> CheckResult<&Value> {
    match response.json()?.get("toolReturned") {
        Some(returned) => Ok(returned),
        None => fail("`toolReturned`", "none", &[response]),
    }
}

fn hash(response: &Response) -> CheckResult<&str> {
    let called = response.json()?.get("toolCalled").unwrap_or(&Value::Null);
    let hash = text(called, "argsHash");
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_hash = hash.len() == 64 && hash.bytes().all(is_hex);
    let seen = if hash.is_empty() { "none" } else { "another string" };
    response.expect(is_hash, "`toolCalled.argsHash`, 64 hexadecimal digits in lower case", seen)?;
    Ok(hash)
}

fn expect_call_status(response: &Response, expected: &str) -> CheckResult {
    let status = text(returned(response)?, "status");
    response.expect(status == expected, format!("`status` {expected}"), format!("`{status}`"))
}

/// Fails the check unless the call was rejected with `status` before it ran.
fn expect_not_run(response: &Response, status: &str) -> CheckResult {
    expect_call_status(response, status)?;
    let has_duration = returned(response)?.get("durationMs").is_some();
    response.expect(!has_duration, "no `durationMs`, because no tool ran", "a `durationMs`")
}

fn expect_duration(response: &Response) -> CheckResult {
    let duration = returned(response)?.get("durationMs").and_then(Value::as_f64);
    response.expect(duration.is_some_and(|value| value >= 0.0), "`durationMs`, at least 0", "none")
}
