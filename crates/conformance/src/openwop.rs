//! OpenWOP: the tool catalog (RFC 0078, RFC 0112) and the tool hooks (RFC 0064), with the discovery,
//! authentication and errors that they rely on.

mod auth;
mod catalog;
mod compact;
mod disclosure;
mod discovery;
mod errors;
mod hooks;
mod sessions;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    CheckResult, Protocol, Suite, Target, fail,
    http::Response,
    skip_unless,
    target::encode_segment,
    value::{kind, text, tool_list},
};

pub(crate) const SUITE: Suite = Suite {
    protocol: Protocol::Openwop,
    path: "",
    is_served: |target| Box::pin(target.serves(target.get(DISCOVERY))),
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
const COMPACT: &str = "/v1/tools?view=compact";
/// Two ids that no host has.
const ABSENT: [&str; 2] =
    ["/v1/tools/conformance.absent-5f1d0c93", "/v1/tools/__conformance_nonexistent_tool__"];
const SOURCES: [&str; 5] = ["node-pack", "workflow", "mcp", "connector", "host-extension"];
/// How many tools of a list a check reads one by one.
const SAMPLE: usize = 5;

const EMPTY_CATALOG: &str = "the key sees no tools";

/// Returns the discovery document.
async fn discovery(target: &Target) -> CheckResult<Response> {
    let response = target.send_once(target.get(DISCOVERY)).await?;
    response.expect_status(&[200])?;
    response.json()?;
    Ok(response)
}

/// Returns a capability family of the discovery document, if the host supports it.
async fn family(target: &Target, name: &str) -> CheckResult<Option<Value>> {
    let response = discovery(target).await?;
    let family = response.value().get(name);
    Ok(family.filter(|it| it.get("supported") == Some(&Value::Bool(true))).cloned())
}

/// Returns whether the host advertises `facet` of the family `name`.
async fn advertises(target: &Target, name: &str, facet: &str) -> CheckResult<bool> {
    let family = family(target, name).await?;
    Ok(family.is_some_and(|family| family.get(facet) == Some(&Value::Bool(true))))
}

/// Skips the check unless the host advertises `facet` of the family `name`.
async fn require_facet(target: &Target, name: &str, facet: &str) -> CheckResult {
    let is_advertised = advertises(target, name, facet).await?;
    skip_unless(is_advertised, format!("the host does not advertise `{name}.{facet}`"))
}

/// Returns the catalog that the first key sees.
async fn catalog(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    target.require_key()?;
    let is_advertised = family(target, "toolCatalog").await?.is_some();
    skip_unless(is_advertised, "the host does not advertise `toolCatalog`")?;
    let response = target.fetch(TOOLS).await?;
    response.expect_status(&[200])?;
    let tools = listed(&response)?;
    Ok((response, tools))
}

/// Like [`catalog()`], but skips the check if the catalog is empty.
async fn tools(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    let (response, tools) = catalog(target).await?;
    skip_unless(!tools.is_empty(), EMPTY_CATALOG)?;
    Ok((response, tools))
}

/// Returns the tools of a list in either of its forms.
fn listed(response: &Response) -> CheckResult<Vec<Value>> {
    match tool_list(response.json()?, &["tools"]) {
        Some(tools) => Ok(tools.clone()),
        None => {
            let seen = kind(response.value());
            fail("an array of tools, or an object with the array `tools`", seen, &[response])
        }
    }
}

fn id_of(tool: &Value) -> &str {
    text(tool, "toolId")
}

fn ids(tools: &[Value]) -> BTreeSet<&str> {
    tools.iter().map(id_of).collect()
}

/// Returns the path of the tool `id`.
fn path_of(id: &str) -> String {
    format!("{TOOLS}/{}", encode_segment(id))
}

/// Fails the check unless the body is the flat, closed error envelope with a JSON content type.
fn expect_flat_error(response: &Response) -> CheckResult {
    response.expect_json_type()?;
    let schema = json!({
        "type": "object",
        "required": ["error", "message"],
        "additionalProperties": false,
        "properties": {
            "error": { "type": "string", "minLength": 1 },
            "message": { "type": "string", "minLength": 1 },
            "details": { "type": "object" },
        },
    });
    let expected = "only `error`, `message` and optionally `details`";
    response.expect_valid(response.json()?, &schema, expected)
}
