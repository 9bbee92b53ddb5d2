//! `?view=compact` (RFC 0112).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{TOOLS, catalog, catalog::is_compact, id_of, kind, segment, tools};
use crate::conformance::{Check, Got, Site, Verdict, check, fail, shape, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "openwop.compact.unadvertised",
        Must,
        "RFC 0112",
        "a host that does not advertise the compact view answers the standard one instead",
        unadvertised
    ),
    check!(
        "openwop.compact.list",
        Must,
        "RFC 0112",
        "the compact list is an object with the array `tools`",
        list
    ),
    check!(
        "openwop.compact.descriptors",
        Must,
        "compact-tool-descriptor.schema.json",
        "a compact descriptor has its few members and none of those that it drops",
        descriptors
    ),
    check!(
        "openwop.compact.keywords",
        Must,
        "RFC 0112",
        "its schema uses no `$ref`, `oneOf`, `allOf`, `anyOf`, `not`, `patternProperties` or \
         `dependentSchemas`, however deep",
        keywords
    ),
    check!(
        "openwop.compact.same-tools",
        Must,
        "RFC 0112",
        "it lists the tools of the standard list, with the same source and tier",
        same_tools
    ),
    check!(
        "openwop.compact.with-source",
        Must,
        "RFC 0112",
        "`source` and `view` work together",
        with_source
    ),
    check!(
        "openwop.compact.by-id",
        Must,
        "RFC 0112",
        "one tool with `view=compact` is one bare compact descriptor",
        by_id
    ),
];

async fn unadvertised(site: &Site) -> Verdict {
    let (standard, _) = catalog(site).await?;
    if is_compact(site).await? {
        return skip("the host advertises `toolCatalog.compactView`");
    }
    let got = site.once(site.get(&format!("{TOOLS}?view=compact")).by_first()).await?;
    got.expect_status(&[200])?;
    match got.value() == standard.value() {
        true => Ok(()),
        false => fail("the standard list", "something else", &[&got, &standard]),
    }
}

/// The compact list.
async fn compact(site: &Site) -> Verdict<(Got, Vec<Value>)> {
    catalog(site).await?;
    if !is_compact(site).await? {
        return skip("the host does not advertise `toolCatalog.compactView`");
    }
    let got = site.once(site.get(&format!("{TOOLS}?view=compact")).by_first()).await?;
    got.expect_status(&[200])?;
    match got.json()?.get("tools").and_then(Value::as_array) {
        Some(tools) => Ok((Got::clone(&got), tools.clone())),
        None => fail("an object with the array `tools`", kind(got.value()), &[&got]),
    }
}

async fn list(site: &Site) -> Verdict {
    compact(site).await.map(drop)
}

async fn descriptors(site: &Site) -> Verdict {
    let (got, tools) = compact(site).await?;
    if tools.is_empty() {
        return skip("the key sees no tools");
    }
    tools.iter().try_for_each(|tool| is_descriptor(tool, &got))
}

fn is_descriptor(tool: &Value, got: &Got) -> Verdict {
    let shape = json!({
        "type": "object",
        "required": ["toolId", "source", "safetyTier"],
        "additionalProperties": false,
        "properties": {
            "toolId": { "type": "string", "minLength": 1 },
            "source": { "enum": ["node-pack", "workflow", "mcp", "connector", "host-extension"] },
            "safetyTier": { "enum": ["pure", "read", "write", "exec"] },
            "title": { "type": "string" },
            "description": { "type": "string" },
            "inputSchema": {
                "type": "object",
                "required": ["type", "properties"],
                "properties": { "type": { "const": "object" }, "properties": { "type": "object" } },
            },
        },
        "if": { "properties": { "safetyTier": { "const": "exec" } }, "required": ["safetyTier"] },
        "then": { "properties": { "source": { "const": "host-extension" } } },
    });
    match shape::violation(&shape, tool) {
        None => Ok(()),
        Some(what) => fail("a compact descriptor", format!("`{}`: {what}", id_of(tool)), &[got]),
    }
}

async fn keywords(site: &Site) -> Verdict {
    let (got, tools) = compact(site).await?;
    let mut schemas = 0;
    for tool in &tools {
        let Some(schema) = tool.get("inputSchema") else { continue };
        schemas += 1;
        if let Some(word) = banned(schema) {
            let seen = format!("`{word}` in the schema of `{}`", id_of(tool));
            return fail("none of the keywords that are left out", seen, &[&got]);
        }
    }
    match schemas {
        0 => skip("no tool has a compact schema"),
        _ => Ok(()),
    }
}

/// A keyword of `schema`, or of a schema in it, that the compact view leaves out. Names of
/// properties are no keywords.
fn banned(schema: &Value) -> Option<&'static str> {
    const BANNED: [&str; 7] =
        ["$ref", "oneOf", "allOf", "anyOf", "not", "patternProperties", "dependentSchemas"];
    const SCHEMAS: [&str; 9] = [
        "items",
        "additionalProperties",
        "contains",
        "propertyNames",
        "if",
        "then",
        "else",
        "unevaluatedItems",
        "unevaluatedProperties",
    ];
    let members = schema.as_object()?;
    if let Some(word) = BANNED.into_iter().find(|word| members.contains_key(*word)) {
        return Some(word);
    }
    let maps = ["properties", "$defs", "definitions"];
    let named = maps.iter().filter_map(|name| members.get(*name)?.as_object());
    let single = SCHEMAS.iter().filter_map(|name| members.get(*name));
    let listed = ["items", "prefixItems"].iter().filter_map(|name| members.get(*name)?.as_array());
    named.flat_map(|map| map.values()).chain(single).chain(listed.flatten()).find_map(banned)
}

async fn same_tools(site: &Site) -> Verdict {
    let (got, compact) = compact(site).await?;
    let (list, standard) = catalog(site).await?;
    let facts = |tools: &[Value]| -> BTreeSet<String> {
        let fact = |tool: &Value| {
            ["toolId", "source", "safetyTier"]
                .map(|name| tool.get(name).and_then(Value::as_str).unwrap_or_default().to_owned())
                .join(" ")
        };
        tools.iter().map(fact).collect()
    };
    let (own, other) = (facts(&compact), facts(&standard));
    if own == other && compact.len() == standard.len() {
        return Ok(());
    }
    let odd = own.symmetric_difference(&other).count();
    fail("the tools of the standard list", format!("{odd} that differ"), &[&got, &list])
}

async fn with_source(site: &Site) -> Verdict {
    compact(site).await?;
    let (_, standard) = tools(site).await?;
    let Some(source) = standard.first().and_then(|tool| tool.get("source")?.as_str()) else {
        return skip("no tool says its source");
    };
    let path = format!("{TOOLS}?source={source}&view=compact");
    let got = site.once(site.get(&path).by_first()).await?;
    got.expect_status(&[200])?;
    let seen = got.json()?.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let seen: BTreeSet<&str> = seen.iter().map(id_of).collect();
    let wanted = standard.iter().filter(|tool| tool.get("source").is_some_and(|it| it == source));
    let wanted: BTreeSet<&str> = wanted.map(id_of).collect();
    let expected = format!("the {} tools of the source `{source}`, compact", wanted.len());
    got.expect(seen == wanted, expected, format!("{} tools", seen.len()))
}

async fn by_id(site: &Site) -> Verdict {
    let (list, compact) = compact(site).await?;
    let Some(tool) = compact.first() else { return skip("the key sees no tools") };
    let path = format!("{TOOLS}/{}?view=compact", segment(id_of(tool)));
    let got = site.once(site.get(&path).by_first()).await?;
    got.expect_status(&[200])?;
    is_descriptor(got.json()?, &got)?;
    match got.value() == tool {
        true => Ok(()),
        false => fail("the descriptor of the compact list", "something else", &[&got, &list]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_called_like_a_keyword_is_none() {
        assert_eq!(banned(&json!({ "properties": { "not": { "type": "string" } } })), None);
        let deep = json!({ "properties": { "a": { "items": { "anyOf": [] } } } });
        assert_eq!(banned(&deep), Some("anyOf"));
        assert_eq!(banned(&json!({ "prefixItems": [{}, { "$ref": "#" }] })), Some("$ref"));
    }
}
