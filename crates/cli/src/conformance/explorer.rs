//! The embedded tool explorer: a page, and the JSON endpoints behind it (features F1 to F7).
//!
//! Whether tools run at all, and who may ask for what, is the host's choice: each check says what
//! follows from the choice it finds, and is left out where nothing does.

mod auth;
mod call;
mod detail;
mod errors;
mod list;
mod order;
mod page;
mod pick;
mod validate;

use serde_json::{Value, json};

use super::{Got, Protocol, Site, Suite, Verdict, fail, site::segment, skip};

pub(super) const SUITE: Suite = Suite {
    protocol: Protocol::Explorer,
    path: "/explorer",
    served: |site| Box::pin(site.answers(site.get("/tools").by_first())),
    checks: &[
        page::CHECKS,
        list::CHECKS,
        detail::CHECKS,
        call::CHECKS,
        validate::CHECKS,
        auth::CHECKS,
        order::CHECKS,
        errors::CHECKS,
    ],
};

/// A name that no tool has.
const ABSENT: &str = "conformance-absent-5f1d0c93";
/// A token that looks like one and is none.
const BOGUS: &str = "Bearer definitely_not_a_real_key_12345";

/// The path of what belongs to the tool `name`.
fn path(name: &str, rest: &str) -> String {
    format!("/tools/{}{rest}", segment(name))
}

/// The summaries, in any shape in which hosts list them.
async fn listed(site: &Site) -> Verdict<(Got, Vec<Value>)> {
    let got = site.once(site.get("/tools").by_first()).await?;
    if is_refused(&got) && !site.host().has_key() {
        return skip("the host wants a key: --key");
    }
    got.expect_status(&[200])?;
    let tools = match got.json()? {
        Value::Array(tools) => Some(tools),
        envelope => envelope.get("tools").and_then(Value::as_array),
    };
    match tools {
        Some(tools) => Ok((Got::clone(&got), tools.clone())),
        None => fail("an array of tools", "none", &[&got]),
    }
}

/// The summaries, if there are any.
async fn summaries(site: &Site) -> Verdict<(Got, Vec<Value>)> {
    let (got, tools) = listed(site).await?;
    match tools.is_empty() {
        true => skip("the host lists no tools"),
        false => Ok((got, tools)),
    }
}

fn name_of(tool: &Value) -> &str {
    tool.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The page, where the host has it.
async fn page(site: &Site) -> Verdict<Got> {
    let mut last = None;
    for path in ["", "/"] {
        for ask in [site.get(path), site.get(path).by_first()] {
            let got = site.once(ask).await?;
            if got.status() == 200 {
                return Ok(got);
            }
            last = Some(got);
        }
    }
    match last {
        Some(got) => fail("a page", format!("status {}", got.status()), &[&got]),
        None => skip("nothing was asked"),
    }
}

/// What the page says about running tools; `None` when it says nothing.
async fn flag(site: &Site) -> Option<bool> {
    let text = page(site).await.ok()?.text();
    [true, false].into_iter().find(|is_on| text.contains(&statement(*is_on)))
}

/// The statement of the page that says whether tools run.
fn statement(is_on: bool) -> String {
    format!("var executeEnabled = {is_on};")
}

/// Whether tools run here: neither the page nor the host says that they do not.
async fn runs(site: &Site) -> Verdict<bool> {
    Ok(flag(site).await != Some(false) && unknown_call(site).await?.status() != 403)
}

/// Skips where tools do not run.
async fn running(site: &Site) -> Verdict {
    match runs(site).await? {
        true => Ok(()),
        false => skip("the host does not run tools from here"),
    }
}

/// Skips where tools run.
async fn disabled(site: &Site) -> Verdict {
    match runs(site).await? {
        true => skip("the host runs tools from here"),
        false => Ok(()),
    }
}

/// The answer to a call of a tool that there is not.
async fn unknown_call(site: &Site) -> Verdict<Got> {
    let got = site.once(site.post(&path(ABSENT, "/call")).json(&json!({})).by_first()).await?;
    match is_refused(&got) && got.status() != 403 && !site.host().has_key() {
        true => skip("the host wants a key: --key"),
        false => Ok(got),
    }
}

/// Whether the catalog is not for everybody, which the protocol leaves to what stands around it.
async fn is_guarded(site: &Site) -> Verdict<bool> {
    Ok(is_refused(&*site.once(site.get("/tools")).await?))
}

fn is_refused(got: &super::exchange::Exchange) -> bool {
    matches!(got.status(), 401 | 403)
}

/// Fails unless the body is exactly `body`.
fn exactly(got: &Got, body: &Value) -> Verdict {
    got.expect(got.json()? == body, format!("exactly `{body}`"), "something else")
}

/// Fails unless the answer is that there is no tool `name`.
fn not_found(got: &Got, name: &str) -> Verdict {
    got.expect_status(&[404])?;
    exactly(got, &json!({ "error": format!("Tool not found: {name}") }))
}
