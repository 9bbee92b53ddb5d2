//! OpenWOP: the tool catalog (RFC 0078, RFC 0112) and the tool hooks (RFC 0064), with what they
//! lean on: discovery, authentication and errors.

mod auth;
mod catalog;
mod compact;
mod disclosure;
mod discovery;
mod errors;
mod hooks;
mod sessions;

use serde_json::Value;

use super::{Got, Protocol, Site, Suite, Verdict, fail, shape, site::segment, skip};

pub(super) const SUITE: Suite = Suite {
    protocol: Protocol::Openwop,
    path: "",
    served: |site| Box::pin(site.answers(site.get(DISCOVERY))),
    checks: &[
        discovery::CHECKS,
        auth::CHECKS,
        errors::CHECKS,
        catalog::CHECKS,
        compact::CHECKS,
        disclosure::CHECKS,
        hooks::CHECKS,
        sessions::CHECKS,
    ],
};

const DISCOVERY: &str = "/.well-known/openwop";
const TOOLS: &str = "/v1/tools";
/// An id that no host has.
const ABSENT: &str = "/v1/tools/conformance.absent-5f1d0c93";
const ALSO_ABSENT: &str = "/v1/tools/__conformance_nonexistent_tool__";

/// The discovery document.
async fn discovery(site: &Site) -> Verdict<Got> {
    let got = site.once(site.get(DISCOVERY)).await?;
    got.expect_status(&[200])?;
    got.json()?;
    Ok(got)
}

/// A capability family of the discovery document, if it is advertised as supported.
async fn family(site: &Site, name: &str) -> Verdict<Option<Value>> {
    let got = discovery(site).await?;
    let family = got.value().get(name).filter(|it| it.get("supported") == Some(&Value::Bool(true)));
    Ok(family.cloned())
}

/// Whether `facet` of `family` is advertised.
async fn facet(site: &Site, name: &str, facet: &str) -> Verdict<bool> {
    let family = family(site, name).await?;
    Ok(family.is_some_and(|family| family.get(facet) == Some(&Value::Bool(true))))
}

/// The catalog as the first key sees it.
async fn catalog(site: &Site) -> Verdict<(Got, Vec<Value>)> {
    if !site.host().has_key() {
        return skip("the catalog needs a key: --key");
    }
    if family(site, "toolCatalog").await?.is_none() {
        return skip("the host does not advertise `toolCatalog`");
    }
    let got = site.once(site.get(TOOLS).by_first()).await?;
    got.expect_status(&[200])?;
    let tools = listed(&got)?;
    Ok((got, tools))
}

/// The catalog, if there is something in it.
async fn tools(site: &Site) -> Verdict<(Got, Vec<Value>)> {
    let (got, tools) = catalog(site).await?;
    match tools.is_empty() {
        true => skip("the key sees no tools"),
        false => Ok((got, tools)),
    }
}

/// The tools of a list in either of its shapes.
fn listed(got: &Got) -> Verdict<Vec<Value>> {
    let tools = toolcrib_client::listed(got.json()?);
    match tools {
        Some(tools) => Ok(tools.clone()),
        None => fail("an array of tools, or an object with one", kind(got.value()), &[got]),
    }
}

fn id_of(tool: &Value) -> &str {
    tool.get("toolId").and_then(Value::as_str).unwrap_or_default()
}

/// What kind of JSON `value` is.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Fails unless the body is the flat, closed error envelope and says so.
fn flat(got: &Got) -> Verdict {
    got.expect(
        got.says_json(),
        "an error as JSON",
        format!("content type {}", got.header("content-type").unwrap_or("(none)")),
    )?;
    let shape = serde_json::json!({
        "type": "object",
        "required": ["error", "message"],
        "additionalProperties": false,
        "properties": {
            "error": { "type": "string", "minLength": 1 },
            "message": { "type": "string", "minLength": 1 },
            "details": { "type": "object" },
        },
    });
    match shape::violation(&shape, got.json()?) {
        None => Ok(()),
        Some(what) => fail("exactly `error`, `message` and perhaps `details`", what, &[got]),
    }
}
