//! The discovery document.

use serde_json::{Map, Value, json};

use super::{DISCOVERY, catalog, discovery, id_of, kind};
use crate::conformance::{
    Check, Site, Verdict, check, fail,
    shape::{self},
    skip,
};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "openwop.discovery.public",
        Must,
        "capabilities §1, RFC 8615",
        "the document is answered as JSON to whoever asks, without credentials",
        public
    ),
    check!(
        "openwop.discovery.members",
        Must,
        "capabilities.schema.json",
        "the required members are there with their types",
        members
    ),
    check!(
        "openwop.discovery.limits",
        Must,
        "capabilities.schema.json",
        "`limits` holds its three required numbers and nothing that the schema does not name",
        limits
    ),
    check!(
        "openwop.discovery.families-at-root",
        Must,
        "RFC 0073, RFC 0137",
        "capability families are members of the root; a copy elsewhere says the same",
        families_at_root
    ),
    check!(
        "openwop.discovery.tool-catalog",
        Must,
        "RFC 0078 §A",
        "`toolCatalog` holds what its schema names: `supported`, `sources`, `sessionLifecycle`, \
         `compactView`",
        tool_catalog
    ),
    check!(
        "openwop.discovery.tool-hooks",
        Must,
        "RFC 0064 §A",
        "`toolHooks` holds what its schema names, and every facet is a boolean",
        tool_hooks
    ),
    check!(
        "openwop.discovery.other-families",
        Must,
        "capabilities.schema.json",
        "`authorization`, `mcp`, `mcpClient` and `httpClient` have the shape of their schemas when \
         they are there",
        other_families
    ),
    check!(
        "openwop.discovery.same-for-everyone",
        Must,
        "RFC 0011",
        "the document does not depend on who asks, unless the host advertises that it does",
        same_for_everyone
    ),
    check!(
        "openwop.discovery.reveals-no-tools",
        Must,
        "capabilities §security",
        "the public document names no tool of the catalog",
        reveals_no_tools
    ),
    check!(
        "openwop.discovery.cache-control",
        Must,
        "capabilities-change-detection",
        "the document says how long it may be kept",
        cache_control
    ),
    check!(
        "openwop.discovery.etag",
        Should,
        "RFC 0165 §C.2",
        "the document has an `ETag`, and whoever presents it is answered 304",
        etag
    ),
    check!(
        "openwop.discovery.openapi",
        Must,
        "rest-endpoints",
        "`/v1/openapi.json` is public and an OpenAPI document of version 3.1 or later",
        openapi
    ),
];

async fn public(site: &Site) -> Verdict {
    let got = site.once(site.get(DISCOVERY)).await?;
    got.expect_status(&[200])?;
    let kind = got.header("content-type").unwrap_or("(none)");
    got.expect(got.says_json(), "content type application/json", kind)?;
    got.expect(got.json()?.is_object(), "an object", super::kind(got.value()))
}

async fn members(site: &Site) -> Verdict {
    let shape = json!({
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
    fits(site, "", &shape).await
}

async fn limits(site: &Site) -> Verdict {
    let count = json!({ "type": "integer", "minimum": 0 });
    let shape = json!({
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
    fits(site, "/limits", &shape).await
}

async fn families_at_root(site: &Site) -> Verdict {
    const FAMILIES: [&str; 6] =
        ["toolCatalog", "toolHooks", "authorization", "credentials", "httpClient", "mcp"];
    let got = discovery(site).await?;
    let root = got.value();
    for wrapper in ["capabilities", "host"] {
        for family in FAMILIES {
            let Some(copy) = root.get(wrapper).and_then(|it| it.get(family)) else { continue };
            let seen = match root.get(family) {
                None => format!("it stands in `{wrapper}` alone"),
                Some(own) if own != copy => format!("`{wrapper}.{family}` says something else"),
                Some(_) => continue,
            };
            return fail(format!("`{family}` at the root"), seen, &[&got]);
        }
    }
    for family in ["toolCatalog", "toolHooks"] {
        let dotted = format!("host.{family}");
        let seen = format!("a member called `{dotted}`");
        got.expect(root.get(&dotted).is_none(), format!("`{family}` at the root"), seen)?;
    }
    Ok(())
}

async fn tool_catalog(site: &Site) -> Verdict {
    let shape = json!({
        "type": "object",
        "required": ["supported"],
        "additionalProperties": false,
        "properties": {
            "supported": { "type": "boolean" },
            "sources": {
                "type": "array",
                "uniqueItems": true,
                "items": { "enum": ["node-pack", "workflow", "mcp", "connector", "host-extension"] },
            },
            "sessionLifecycle": { "type": "boolean" },
            "compactView": { "type": "boolean" },
        },
    });
    advertised(site, "toolCatalog", &shape).await
}

async fn tool_hooks(site: &Site) -> Verdict {
    let shape = json!({
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
    advertised(site, "toolHooks", &shape).await
}

async fn other_families(site: &Site) -> Verdict {
    let shapes = json!({
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
    let got = discovery(site).await?;
    let none = Map::new();
    let mut seen = 0;
    for (name, shape) in shapes.as_object().unwrap_or(&none) {
        let Some(family) = got.value().get(name) else { continue };
        seen += 1;
        if let Some(what) = shape::violation(shape, family) {
            return fail(format!("`{name}` as its schema says"), what, &[&got]);
        }
    }
    match seen {
        0 => skip("the document has none of these families"),
        _ => Ok(()),
    }
}

async fn same_for_everyone(site: &Site) -> Verdict {
    if !site.host().has_key() {
        return skip("needs a key to ask with: --key");
    }
    let open = discovery(site).await?;
    if open.value().pointer("/discovery/authScoped/supported") == Some(&Value::Bool(true)) {
        return skip("the host advertises `discovery.authScoped`");
    }
    let keyed = site.once(site.get(DISCOVERY).by_first()).await?;
    match keyed.body() == open.body() {
        true => Ok(()),
        false => fail("the same document with a key", "another document", &[&open, &keyed]),
    }
}

async fn reveals_no_tools(site: &Site) -> Verdict {
    let (_, tools) = catalog(site).await?;
    let ids: Vec<&str> = tools.iter().map(id_of).filter(|id| !id.is_empty()).collect();
    if ids.is_empty() {
        return skip("the key sees no tools");
    }
    let got = discovery(site).await?;
    let named = ids.iter().filter(|id| mentions(got.value(), id)).count();
    got.expect(named == 0, "no tool ids", format!("{named} ids of tools"))
}

/// Whether `text` is a text or a name anywhere in `value`.
fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        Value::Array(items) => items.iter().any(|item| mentions(item, text)),
        Value::Object(members) => {
            members.iter().any(|(name, item)| name == text || mentions(item, text))
        }
        _ => false,
    }
}

async fn cache_control(site: &Site) -> Verdict {
    let got = discovery(site).await?;
    let said = got.header("cache-control").unwrap_or_default();
    got.expect(!said.trim().is_empty(), "a `Cache-Control` that is not empty", "none")
}

async fn etag(site: &Site) -> Verdict {
    let got = discovery(site).await?;
    let Some(tag) = got.header("etag") else {
        return fail("an `ETag`", "none", &[&got]);
    };
    let again = site.send(site.get(DISCOVERY).header("if-none-match", tag)).await?;
    again.expect_status(&[304])?;
    again.expect(again.body().is_empty(), "no body with 304", "a body")
}

async fn openapi(site: &Site) -> Verdict {
    let got = site.once(site.get("/v1/openapi.json")).await?;
    got.expect_status(&[200])?;
    let version = got.json()?.get("openapi").and_then(Value::as_str).unwrap_or_default();
    let is_new = version.strip_prefix("3.").and_then(|rest| rest.chars().next());
    let is_new = is_new.is_some_and(|digit| matches!(digit, '1'..='9'));
    got.expect(is_new, "`openapi` 3.1 or later", format!("`openapi` is \"{version}\""))
}

/// Fails unless the part of the document at `pointer` fits `shape`.
async fn fits(site: &Site, pointer: &str, shape: &Value) -> Verdict {
    let got = discovery(site).await?;
    let part = got.value().pointer(pointer).unwrap_or(&Value::Null);
    match shape::violation(shape, part) {
        None => Ok(()),
        Some(what) => {
            let place = if pointer.is_empty() { "the document" } else { pointer };
            fail(format!("{place} as the schema says"), what, &[&got])
        }
    }
}

async fn advertised(site: &Site, name: &str, shape: &Value) -> Verdict {
    let got = discovery(site).await?;
    let Some(family) = got.value().get(name) else {
        return skip(format!("the host does not advertise `{name}`"));
    };
    got.expect(family.is_object(), format!("`{name}` is an object"), kind(family))?;
    match shape::violation(shape, family) {
        None => Ok(()),
        Some(what) => fail(format!("`{name}` as its schema says"), what, &[&got]),
    }
}
