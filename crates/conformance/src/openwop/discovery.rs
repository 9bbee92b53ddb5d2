//! The discovery document.

use serde_json::{Map, Value, json};

use super::common::{DISCOVERY, SOURCES, discovery, id_of, tools};
use crate::{
    Check, CheckResult, Target, checks, fail, require, skip_unless,
    value::{kind, text},
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop.discovery.public", Must, "capabilities §1, RFC 8615", public:
        "the document is public JSON";
    "openwop.discovery.members", Must, "capabilities.schema.json", members:
        "the required members exist and have the right types";
    "openwop.discovery.limits", Must, "capabilities.schema.json", limits:
        "`limits` has its three required numbers and no unknown members";
    "openwop.discovery.families-at-root", Must, "RFC 0073, RFC 0137", families_at_root:
        "capability families are members of the root; copies elsewhere are equal";
    "openwop.discovery.tool-catalog", Must, "RFC 0078 §A", tool_catalog:
        "`toolCatalog` is valid against its schema: `supported`, `sources`, `sessionLifecycle`, \
         `compactView`";
    "openwop.discovery.tool-hooks", Must, "RFC 0064 §A", tool_hooks:
        "`toolHooks` is valid against its schema, and every facet is a boolean";
    "openwop.discovery.other-families", Must, "capabilities.schema.json", other_families:
        "`authorization`, `mcp`, `mcpClient` and `httpClient` are valid against their schemas if \
         present";
    "openwop.discovery.same-for-everyone", Must, "RFC 0011", same_for_everyone:
        "the document is the same for every caller, unless the host advertises otherwise";
    "openwop.discovery.reveals-no-tools", Must, "capabilities §security", reveals_no_tools:
        "the public document contains no id of a tool in the catalog";
    "openwop.discovery.cache-control", Must, "capabilities-change-detection", cache_control:
        "the document has a `Cache-Control` header";
    "openwop.discovery.etag", Should, "RFC 0165 §C.2", etag:
        "the document has an `ETag`, and a request with it returns 304";
    "openwop.discovery.openapi", Must, "rest-endpoints", openapi:
        "`/v1/openapi.json` is a public OpenAPI document of version 3.1 or later";
};

pub(crate) async fn public(target: &Target) -> CheckResult {
    let response = target.send_once(target.get(DISCOVERY)).await?;
    response.expect_status(&[200])?;
    response.expect_json_type()?;
    response.expect(response.json()?.is_object(), "an object", kind(response.value()))
}

pub(crate) async fn members(target: &Target) -> CheckResult {
    let schema = json!({
        "type": "object",
        "required": ["protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"],
        "properties": {
            "protocolVersion": {
                "type": "string", "pattern": "^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)$",
            },
            "supportedEnvelopes": { "type": "array", "items": { "type": "string" } },
            "schemaVersions": {
                "type": "object",
                "additionalProperties": { "type": "integer", "minimum": 0 },
            },
            "limits": { "type": "object" },
            "supportedTransports": {
                "type": "array", "items": { "enum": ["rest", "mcp", "a2a", "grpc"] },
            },
            "implementation": { "type": "object" },
            "fixtures": {
                "type": "array", "uniqueItems": true, "items": { "type": "string", "minLength": 1 },
            },
            "extensions": { "type": "object" },
        },
    });
    expect_part(target, "", &schema).await
}

pub(crate) async fn limits(target: &Target) -> CheckResult {
    let count = json!({ "type": "integer", "minimum": 0 });
    let schema = json!({
        "type": "object",
        "required": ["clarificationRounds", "schemaRounds", "envelopesPerTurn"],
        "additionalProperties": false,
        "properties": {
            "clarificationRounds": count, "schemaRounds": count, "envelopesPerTurn": count,
            "maxNodeExecutions": { "type": "integer", "minimum": 1 },
            "maxRunDurationMs": { "type": "integer", "minimum": 1000 },
            "maxLoopIterations": { "type": "integer", "minimum": 1 },
            "maxBudgetTokens": { "type": "number" },
            "maxBudgetCostUsd": { "type": "number" },
            "maxRequestBodyBytes": { "type": "integer", "minimum": 1 },
        },
    });
    expect_part(target, "/limits", &schema).await
}

pub(crate) async fn families_at_root(target: &Target) -> CheckResult {
    const FAMILIES: [&str; 6] =
        ["toolCatalog", "toolHooks", "authorization", "credentials", "httpClient", "mcp"];
    let response = discovery(target).await?;
    let root = response.value();
    for wrapper in ["capabilities", "host"] {
        for family in FAMILIES {
            let Some(copy) = root.get(wrapper).and_then(|members| members.get(family)) else {
                continue;
            };
            let seen = match root.get(family) {
                None => format!("it is in `{wrapper}` only"),
                Some(own) if own != copy => format!("`{wrapper}.{family}` is different"),
                Some(_) => continue,
            };
            return fail(format!("`{family}` at the root"), seen, &[&response]);
        }
    }
    for family in ["toolCatalog", "toolHooks"] {
        let dotted = format!("host.{family}");
        let seen = format!("a member named `{dotted}`");
        response.expect(root.get(&dotted).is_none(), format!("`{family}` at the root"), seen)?;
    }
    Ok(())
}

pub(crate) async fn tool_catalog(target: &Target) -> CheckResult {
    let schema = json!({
        "type": "object",
        "required": ["supported"],
        "additionalProperties": false,
        "properties": {
            "supported": { "type": "boolean" },
            "sources": {
                "type": "array",
                "uniqueItems": true,
                "items": { "enum": SOURCES },
            },
            "sessionLifecycle": { "type": "boolean" },
            "compactView": { "type": "boolean" },
        },
    });
    expect_family(target, "toolCatalog", &schema).await
}

pub(crate) async fn tool_hooks(target: &Target) -> CheckResult {
    let schema = json!({
        "type": "object",
        "required": ["supported"],
        "additionalProperties": false,
        "properties": {
            "supported": { "type": "boolean" },
            "prePostEvents": { "type": "boolean" },
            "perToolAuthorization": { "type": "boolean" },
            "perToolRateLimit": { "type": "boolean" },
        },
    });
    expect_family(target, "toolHooks", &schema).await
}

pub(crate) async fn other_families(target: &Target) -> CheckResult {
    let schemas = json!({
        "authorization": {
            "type": "object",
            "required": ["supported"],
            "additionalProperties": false,
            "properties": {
                "supported": { "type": "boolean" },
                "failClosed": { "const": true },
                "roles": { "type": "array", "items": {
                    "type": "object",
                    "required": ["role", "scopes"],
                    "properties": {
                        "role": { "type": "string", "minLength": 1 },
                        "scopes": {
                            "type": "array", "uniqueItems": true, "items": { "type": "string" },
                        },
                    },
                } },
            },
        },
        "mcp": {
            "type": "object",
            "if": { "properties": { "supported": { "const": true } }, "required": ["supported"] },
            "then": { "required": ["serverUrls"], "properties": { "serverUrls": {
                "type": "array",
                "minItems": 1,
                "items": { "type": "string", "pattern": "^(/|https?://)" },
            } } },
        },
        "mcpClient": {
            "type": "object",
            "required": ["transports", "trustBoundary"],
            "properties": {
                "transports": { "type": "array" }, "trustBoundary": { "const": "untrusted" },
            },
        },
        "httpClient": {
            "type": "object",
            "required": ["ssrfGuard", "maxResponseBodyBytes", "methods"],
            "properties": {
                "ssrfGuard": { "const": true },
                "maxResponseBodyBytes": { "type": "number", "exclusiveMinimum": 0 },
                "methods": { "type": "array", "items": { "type": "string" } },
            },
        },
    });
    let response = discovery(target).await?;
    let mut present = 0;
    for (name, schema) in schemas.as_object().unwrap_or(&Map::new()) {
        let Some(family) = response.value().get(name) else { continue };
        present += 1;
        response.expect_valid(family, schema, format!("`{name}` valid against its schema"))?;
    }
    skip_unless(present > 0, "these families are missing from the document")
}

pub(crate) async fn same_for_everyone(target: &Target) -> CheckResult {
    target.require_key()?;
    let public = discovery(target).await?;
    let is_scoped = public.value().pointer("/discovery/authScoped/supported");
    let is_scoped = is_scoped == Some(&Value::Bool(true));
    skip_unless(!is_scoped, "the host advertises `discovery.authScoped`")?;
    let keyed = target.fetch(DISCOVERY).await?;
    let is_same = keyed.body() == public.body();
    require(is_same, "the same document with a key", "another document", &[&public, &keyed])
}

pub(crate) async fn reveals_no_tools(target: &Target) -> CheckResult {
    let (_, tools) = tools(target).await?;
    let response = discovery(target).await?;
    let ids = tools.iter().map(id_of).filter(|id| !id.is_empty());
    let revealed = ids.filter(|id| contains(response.value(), id)).count();
    response.expect(revealed == 0, "no ids of tools", format!("{revealed} ids of tools"))
}

/// Whether `text` is a string or a member name anywhere in `value`.
fn contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        Value::Array(items) => items.iter().any(|item| contains(item, text)),
        Value::Object(members) => {
            members.iter().any(|(name, item)| name == text || contains(item, text))
        }
        _ => false,
    }
}

pub(crate) async fn cache_control(target: &Target) -> CheckResult {
    let response = discovery(target).await?;
    let is_set = !response.header_text("cache-control").trim().is_empty();
    response.expect(is_set, "a `Cache-Control` header", "none")
}

pub(crate) async fn etag(target: &Target) -> CheckResult {
    let response = discovery(target).await?;
    let Some(tag) = response.header("etag") else { return fail("an `ETag`", "none", &[&response]) };
    let again = target.send(target.get(DISCOVERY).header("if-none-match", tag)).await?;
    again.expect_status(&[304])?;
    again.expect(again.body().is_empty(), "no body with 304", "a body")
}

pub(crate) async fn openapi(target: &Target) -> CheckResult {
    let response = target.send_once(target.get("/v1/openapi.json")).await?;
    response.expect_status(&[200])?;
    let version = text(response.json()?, "openapi");
    let minor = version.strip_prefix("3.").and_then(|rest| rest.chars().next());
    let is_supported = minor.is_some_and(|digit| matches!(digit, '1'..='9'));
    response.expect(is_supported, "`openapi` 3.1 or later", format!("`openapi` is \"{version}\""))
}

/// Fails the check unless the part of the document at `pointer` is valid against `schema`.
pub(crate) async fn expect_part(target: &Target, pointer: &str, schema: &Value) -> CheckResult {
    let response = discovery(target).await?;
    let part = response.value().pointer(pointer).unwrap_or(&Value::Null);
    let place = if pointer.is_empty() { "the document" } else { pointer };
    response.expect_valid(part, schema, format!("{place} valid against its schema"))
}

/// Fails the check unless the family `name` is valid; skips it if the host does not advertise it.
pub(crate) async fn expect_family(target: &Target, name: &str, schema: &Value) -> CheckResult {
    let response = discovery(target).await?;
    let is_advertised = response.value().get(name).is_some();
    skip_unless(is_advertised, format!("the host does not advertise `{name}`"))?;
    expect_part(target, &format!("/{name}"), schema).await
}
