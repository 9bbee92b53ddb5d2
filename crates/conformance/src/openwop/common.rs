//! The paths and documents that several checks of OpenWOP read.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    CheckResult, Protocol, Target, http::Response, skip_unless, target::encode_segment, value::text,
};

pub(crate) const DISCOVERY: &str = "/.well-known/openwop";

/// The paths of the catalog. Only version 1 of the protocol has a prefix.
pub(crate) struct CatalogPaths {
    pub(crate) tools: &'static str,
    pub(crate) compact: &'static str,
    /// Two tools that no host has.
    pub(crate) absent: [&'static str; 2],
}

const V1: CatalogPaths = CatalogPaths {
    tools: "/v1/tools",
    compact: "/v1/tools?view=compact",
    absent: ["/v1/tools/conformance.absent-5f1d0c93", "/v1/tools/__conformance_nonexistent_tool__"],
};

const V2: CatalogPaths = CatalogPaths {
    tools: "/tools",
    compact: "/tools?view=compact",
    absent: ["/tools/conformance.absent-5f1d0c93", "/tools/__conformance_nonexistent_tool__"],
};

pub(crate) const SOURCES: [&str; 5] =
    ["node-pack", "workflow", "mcp", "connector", "host-extension"];
/// How many tools of a list a check reads one by one.
pub(crate) const SAMPLE: usize = 5;

pub(crate) const EMPTY_CATALOG: &str = "the key sees no tools";

pub(crate) fn paths(target: &Target) -> &'static CatalogPaths {
    if is_v2(target) { &V2 } else { &V1 }
}

pub(crate) fn is_v2(target: &Target) -> bool {
    target.protocol() == Protocol::Openwop2
}

pub(crate) async fn discovery(target: &Target) -> CheckResult<Response> {
    let response = target.send_once(target.get(DISCOVERY)).await?;
    response.expect_status(&[200])?;
    response.json()?;
    Ok(response)
}

/// Reads a capability family of the discovery document, if the host supports it. In version 2, a
/// family that is present is supported.
pub(crate) async fn family(target: &Target, name: &str) -> CheckResult<Option<Value>> {
    let response = discovery(target).await?;
    let family = response.value().get(name);
    let is_claimed = |value: &&Value| value.get("supported") == Some(&Value::Bool(true));
    Ok(family.filter(|value| is_v2(target) || is_claimed(value)).cloned())
}

/// Checks whether the host advertises `facet` of the family `name`.
pub(crate) async fn advertises(target: &Target, name: &str, facet: &str) -> CheckResult<bool> {
    let family = family(target, name).await?;
    Ok(family.is_some_and(|family| family.get(facet) == Some(&Value::Bool(true))))
}

/// Skips the check unless the host advertises `facet` of the family `name`.
pub(crate) async fn require_facet(target: &Target, name: &str, facet: &str) -> CheckResult {
    let is_advertised = advertises(target, name, facet).await?;
    skip_unless(is_advertised, format!("the host does not advertise `{name}.{facet}`"))
}

/// Reads the catalog that the first key sees.
pub(crate) async fn catalog(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    target.require_key()?;
    let is_advertised = family(target, "toolCatalog").await?.is_some();
    skip_unless(is_advertised, "the host does not advertise `toolCatalog`")?;
    let response = target.fetch(paths(target).tools).await?;
    response.expect_status(&[200])?;
    let tools = listed(&response)?;
    Ok((response, tools))
}

/// Like [`catalog()`], but skips the check if the catalog is empty.
pub(crate) async fn tools(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    let (response, tools) = catalog(target).await?;
    skip_unless(!tools.is_empty(), EMPTY_CATALOG)?;
    Ok((response, tools))
}

/// The tools of a list in either of its forms.
pub(crate) fn listed(response: &Response) -> CheckResult<Vec<Value>> {
    response.tool_list(&["tools"])
}

pub(crate) fn id_of(tool: &Value) -> &str {
    text(tool, "toolId")
}

pub(crate) fn ids(tools: &[Value]) -> BTreeSet<&str> {
    tools.iter().map(id_of).collect()
}

pub(crate) fn path_of(target: &Target, id: &str) -> String {
    format!("{}/{}", paths(target).tools, encode_segment(id))
}

/// Fails the check unless the body is the flat, closed error envelope with a JSON content type.
pub(crate) fn expect_flat_error(response: &Response) -> CheckResult {
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
