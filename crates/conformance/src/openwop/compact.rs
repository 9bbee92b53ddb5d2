//! `?view=compact` (RFC 0112).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::common::{
    EMPTY_CATALOG, SOURCES, advertises, catalog, id_of, ids, is_v2, path_of, paths, require_facet,
    tools,
};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::Response,
    require, skip, skip_unless,
    value::{array, kind, text},
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop.compact.unadvertised", Must, "RFC 0112", unadvertised:
        "a host that does not advertise the compact view returns the standard list instead";
    "openwop.compact.list", Must, "RFC 0112", list:
        "the compact list is an object with the array `tools`";
    "openwop.compact.descriptors", Must, "compact-tool-descriptor.schema.json", descriptors:
        "a compact descriptor has no members beyond its schema";
    "openwop.compact.keywords", Must, "RFC 0112", keywords:
        "its input schema has no `$ref`, `oneOf`, `allOf`, `anyOf`, `not`, `patternProperties` or \
         `dependentSchemas` at any depth";
    "openwop.compact.same-tools", Must, "RFC 0112", same_tools:
        "it lists the tools of the standard list, with the same source and tier";
    "openwop.compact.with-source", Must, "RFC 0112", with_source:
        "`source` and `view` can be combined";
    "openwop.compact.by-id", Must, "RFC 0112", by_id:
        "one tool with `view=compact` is one bare compact descriptor";
};

pub(crate) async fn unadvertised(target: &Target) -> CheckResult {
    let (standard, _) = catalog(target).await?;
    let is_advertised = advertises(target, "toolCatalog", "compactView").await?;
    skip_unless(!is_advertised, "the host advertises `toolCatalog.compactView`")?;
    let response = target.fetch(paths(target).compact).await?;
    response.expect_status(&[200])?;
    let is_same = response.value() == standard.value();
    require(is_same, "the standard list", "something else", &[&response, &standard])
}

async fn compact(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    catalog(target).await?;
    require_facet(target, "toolCatalog", "compactView").await?;
    let response = target.fetch(paths(target).compact).await?;
    response.expect_status(&[200])?;
    match response.json()?.get("tools").and_then(Value::as_array) {
        Some(tools) => Ok((Response::clone(&response), tools.clone())),
        None => fail("an object with the array `tools`", kind(response.value()), &[&response]),
    }
}

pub(crate) async fn list(target: &Target) -> CheckResult {
    compact(target).await.map(drop)
}

pub(crate) async fn descriptors(target: &Target) -> CheckResult {
    let (response, tools) = compact(target).await?;
    skip_unless(!tools.is_empty(), EMPTY_CATALOG)?;
    tools.iter().try_for_each(|tool| expect_descriptor(target, tool, &response))
}

/// Fails the check unless `tool` is a compact descriptor. In version 2, the schema of its arguments
/// is closed, too.
fn expect_descriptor(target: &Target, tool: &Value, response: &Response) -> CheckResult {
    let schema = json!({
        "type": "object",
        "required": ["toolId", "source", "safetyTier"],
        "additionalProperties": false,
        "properties": {
            "toolId": { "type": "string", "minLength": 1 },
            "source": { "enum": SOURCES },
            "safetyTier": { "enum": ["pure", "read", "write", "exec"] },
            "title": { "type": "string" },
            "description": { "type": "string" },
            "inputSchema": {
                "type": "object",
                "required": ["type", "properties"],
                "additionalProperties": !is_v2(target),
                "properties": { "type": { "const": "object" }, "properties": { "type": "object" } },
            },
        },
        "if": { "properties": { "safetyTier": { "const": "exec" } }, "required": ["safetyTier"] },
        "then": { "properties": { "source": { "const": "host-extension" } } },
    });
    let expected = format!("`{}` as a valid compact descriptor", id_of(tool));
    response.expect_valid(tool, &schema, expected)
}

pub(crate) async fn keywords(target: &Target) -> CheckResult {
    let (response, tools) = compact(target).await?;
    let mut schemas = 0;
    for tool in &tools {
        let Some(schema) = tool.get("inputSchema") else { continue };
        schemas += 1;
        if let Some(keyword) = banned_keyword(schema) {
            let seen = format!("`{keyword}` in the schema of `{}`", id_of(tool));
            return fail("schemas without the excluded keywords", seen, &[&response]);
        }
    }
    skip_unless(schemas > 0, "no tool has a compact schema")
}

/// Finds a keyword of `schema`, or of a schema in it, that the compact view excludes. Names of
/// properties are not keywords.
fn banned_keyword(schema: &Value) -> Option<&'static str> {
    const BANNED: [&str; 7] =
        ["$ref", "oneOf", "allOf", "anyOf", "not", "patternProperties", "dependentSchemas"];
    #[rustfmt::skip]
    const SCHEMAS: [&str; 9] = [
        "items", "additionalProperties", "contains", "propertyNames", "if", "then", "else",
        "unevaluatedItems", "unevaluatedProperties",
    ];
    let members = schema.as_object()?;
    if let Some(keyword) = BANNED.into_iter().find(|keyword| members.contains_key(*keyword)) {
        return Some(keyword);
    }
    let maps = ["properties", "$defs", "definitions"];
    let named = maps.iter().filter_map(|name| members.get(*name)?.as_object());
    let single = SCHEMAS.iter().filter_map(|name| members.get(*name));
    let listed = ["items", "prefixItems"].iter().flat_map(|name| array(schema, name));
    named.flat_map(|map| map.values()).chain(single).chain(listed).find_map(banned_keyword)
}

pub(crate) async fn same_tools(target: &Target) -> CheckResult {
    let (response, compact) = compact(target).await?;
    let (list, standard) = catalog(target).await?;
    let facts = |tools: &[Value]| -> BTreeSet<String> {
        let fact = |tool: &Value| {
            ["toolId", "source", "safetyTier"].map(|member| text(tool, member)).join(" ")
        };
        tools.iter().map(fact).collect()
    };
    let (own, other) = (facts(&compact), facts(&standard));
    let is_same = own == other && compact.len() == standard.len();
    let seen = format!("{} differences", own.symmetric_difference(&other).count());
    require(is_same, "the tools of the standard list", seen, &[&response, &list])
}

pub(crate) async fn with_source(target: &Target) -> CheckResult {
    compact(target).await?;
    let (_, standard) = tools(target).await?;
    let Some(source) = standard.first().and_then(|tool| tool.get("source")?.as_str()) else {
        return skip("no tool has a source");
    };
    let response =
        target.fetch(&format!("{}?source={source}&view=compact", paths(target).tools)).await?;
    response.expect_status(&[200])?;
    let seen = ids(array(response.json()?, "tools"));
    let wanted = standard.iter().filter(|tool| text(tool, "source") == source);
    let wanted: BTreeSet<&str> = wanted.map(id_of).collect();
    let expected = format!("the {} tools of the source `{source}`, compact", wanted.len());
    response.expect(seen == wanted, expected, format!("{} tools", seen.len()))
}

pub(crate) async fn by_id(target: &Target) -> CheckResult {
    let (list, compact) = compact(target).await?;
    let Some(tool) = compact.first() else { return skip(EMPTY_CATALOG) };
    let response = target.fetch(&format!("{}?view=compact", path_of(target, id_of(tool)))).await?;
    response.expect_status(&[200])?;
    expect_descriptor(target, response.json()?, &response)?;
    let is_same = response.value() == tool;
    require(is_same, "the descriptor of the compact list", "something else", &[&response, &list])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_named_like_a_keyword_is_allowed() {
        assert_eq!(banned_keyword(&json!({ "properties": { "not": { "type": "string" } } })), None);
        let deep = json!({ "properties": { "a": { "items": { "anyOf": [] } } } });
        assert_eq!(banned_keyword(&deep), Some("anyOf"));
        assert_eq!(banned_keyword(&json!({ "prefixItems": [{}, { "$ref": "#" }] })), Some("$ref"));
    }
}
