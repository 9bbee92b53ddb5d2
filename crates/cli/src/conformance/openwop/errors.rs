//! What failures look like.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{ABSENT, DISCOVERY, TOOLS, flat};
use crate::conformance::{Check, Site, Verdict, check, fail, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "openwop.errors.envelope",
        Must,
        "error-envelope.schema.json",
        "an error is the flat object `error`, `message`, `details?` and nothing else",
        envelope
    ),
    check!(
        "openwop.errors.json",
        Must,
        "rest-endpoints §errors",
        "the framework's own refusals are such objects too: wrong method, unknown route, strange \
         path, body that is no JSON",
        json_everywhere
    ),
    check!(
        "openwop.errors.unknown-run",
        Must,
        "rest-endpoints",
        "an unknown run is 403 or 404, and a run without a workflow is refused, both flat",
        unknown_run
    ),
    check!(
        "openwop.errors.no-echo",
        Must,
        "invariant secret-leakage-error-envelope",
        "an error does not repeat what the caller sent",
        no_echo
    ),
    check!(
        "openwop.errors.rate-limit",
        Must,
        "rest-endpoints §rate limits",
        "a 429 has `Retry-After` in whole seconds, and `details` that agree with it",
        rate_limit
    ),
];

async fn envelope(site: &Site) -> Verdict {
    keyed(site)?;
    let got = site.once(site.get(ABSENT).by_first()).await?;
    got.expect_status(&[404])?;
    flat(&got)
}

async fn json_everywhere(site: &Site) -> Verdict {
    keyed(site)?;
    for ask in [
        site.get("/v1/conformance-nothing-is-here"),
        site.ask(Method::PATCH, ABSENT),
        site.get("/v1/tools/%FF%FE"),
        site.post("/v1/runs").header("content-type", "application/json").body("{not json"),
    ] {
        let got = site.once(ask.by_first()).await?;
        let is_refusal = (400..500).contains(&got.status());
        got.expect(is_refusal, "a status from 400 to 499", format!("status {}", got.status()))?;
        flat(&got)?;
    }
    Ok(())
}

async fn unknown_run(site: &Site) -> Verdict {
    keyed(site)?;
    let got = site.once(site.get("/v1/runs/conformance-absent").by_first()).await?;
    got.expect_status(&[403, 404])?;
    flat(&got)?;
    let got = site.once(site.post("/v1/runs").json(&json!({})).by_first()).await?;
    let is_refusal = (400..500).contains(&got.status());
    got.expect(is_refusal, "a status from 400 to 499", format!("status {}", got.status()))?;
    flat(&got)
}

async fn no_echo(site: &Site) -> Verdict {
    const CANARY: &str = "conformance-canary-7d1f";
    keyed(site)?;
    for ask in [
        site.get(&format!("/v1/tools/{CANARY}")),
        site.get(&format!("/v1/{CANARY}")),
        site.get(&format!("{TOOLS}?source={CANARY}")),
    ] {
        let got = site.once(ask.by_first()).await?;
        if got.status() >= 400 {
            got.expect(
                !got.text().contains(CANARY),
                "nothing of the request",
                "the request's text",
            )?;
        }
    }
    Ok(())
}

async fn rate_limit(site: &Site) -> Verdict {
    const BURST: usize = 24;
    let asks = (0..BURST).map(|_| site.send(site.get(DISCOVERY)));
    let answers = join_all(asks).await;
    let mut limited = None;
    for answer in answers {
        let got = answer?;
        if got.status() == 429 {
            limited = Some(got);
        }
    }
    let Some(got) = limited else {
        return skip(format!("{BURST} requests at once were not limited"));
    };
    flat(&got)?;
    let said = got.header("retry-after").and_then(|text| text.parse::<u64>().ok());
    let Some(seconds) = said else {
        return fail("`Retry-After` in whole seconds", "none", &[&got]);
    };
    let details = got.value().get("details").unwrap_or(&Value::Null);
    if let Some(scope) = details.get("scope") {
        let known = ["tenant", "route", "global", "key"].iter().any(|it| scope == it);
        got.expect(known, "`details.scope` tenant, route, global or key", scope.to_string())?;
    }
    if let Some(millis) = details.get("retryAfterMs").and_then(Value::as_u64) {
        let agrees = millis.abs_diff(seconds.saturating_mul(1000)) <= 1500;
        let seen = format!("{seconds} s and {millis} ms");
        got.expect(agrees, "`retryAfterMs` within 1.5 s of `Retry-After`", seen)?;
    }
    Ok(())
}

fn keyed(site: &Site) -> Verdict {
    match site.host().has_key() {
        true => Ok(()),
        false => skip("needs a key: --key"),
    }
}
