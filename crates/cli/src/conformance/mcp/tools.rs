//! `tools/list`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    discover::says_caching,
    message,
    wire::{self, Wire},
};
use crate::conformance::{Check, Got, Site, Verdict, check, fail, shape, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "mcp.tools.list",
        Must,
        "server/tools §listing-tools",
        "a server that declares `tools` answers `tools/list` with an array of them",
        list
    ),
    check!(
        "mcp.tools.capability",
        Must,
        "server/tools §capabilities",
        "a server that has tools declares `tools`",
        capability
    ),
    check!(
        "mcp.tools.shape",
        Must,
        "server/tools §tool, schema Tool",
        "a tool has a `name` and an `inputSchema` of type object; what else it has is of the type \
         that the schema says",
        has_shape
    ),
    check!(
        "mcp.tools.schemas",
        Must,
        "basic §json-schema-usage",
        "`inputSchema` and `outputSchema` are valid JSON Schemas",
        schemas
    ),
    check!(
        "mcp.tools.names",
        Should,
        "server/tools §tool-names",
        "a name has 1 to 128 of the characters A-Z, a-z, 0-9, `_`, `-` and `.`",
        names
    ),
    check!(
        "mcp.tools.unique",
        Should,
        "server/tools §tool-names",
        "no two tools share a name",
        unique
    ),
    check!(
        "mcp.tools.param-headers",
        Must,
        "2026-07-28 server/tools §x-mcp-header",
        "`x-mcp-header` names a header: a token, once in a tool, on a text, an integer or a \
         boolean that is reached through `properties` alone",
        param_headers
    ),
    check!(
        "mcp.tools.stable",
        Should,
        "2026-07-28 server/tools §capabilities",
        "two lists name the same tools in the same order",
        stable
    ),
    check!(
        "mcp.tools.caching",
        Must,
        "2026-07-28 server/utilities/caching",
        "every page says `ttlMs` and `cacheScope`, and all the same `cacheScope`",
        caching
    ),
    check!(
        "mcp.tools.pages",
        Must,
        "server/utilities/pagination",
        "following `nextCursor` comes to an end and meets no cursor and no tool twice",
        pages
    ),
    check!(
        "mcp.tools.bad-cursor",
        Should,
        "server/utilities/pagination",
        "a cursor that the server never gave is the error -32602",
        bad_cursor
    ),
];

/// More pages than that are not followed.
const MOST_PAGES: usize = 100;

/// A list in one era.
pub(super) struct List {
    pub(super) wire: Wire,
    /// Its pages.
    pub(super) pages: Vec<Got>,
    pub(super) tools: Vec<Value>,
    /// Whether there was more than was followed.
    has_more: bool,
    cursors: Vec<String>,
}

impl List {
    /// The first page, to show what is wrong.
    fn got(&self) -> Verdict<&Got> {
        match self.pages.first() {
            Some(got) => Ok(got),
            None => skip("there is no list"),
        }
    }
}

async fn list(site: &Site) -> Verdict {
    lists(site).await.map(drop)
}

async fn capability(site: &Site) -> Verdict {
    for list in some(site).await? {
        let offers = wire::capabilities(site, &list.wire).await?;
        let declares = offers.get("tools").is_some_and(Value::is_object);
        list.got()?.expect(declares, "`capabilities.tools`", "tools, and no such capability")?;
    }
    Ok(())
}

async fn has_shape(site: &Site) -> Verdict {
    let text = json!({ "type": "string" });
    let flag = json!({ "type": "boolean" });
    let shape = json!({
        "type": "object",
        "required": ["name", "inputSchema"],
        "properties": {
            "name": text, "title": text, "description": text,
            "inputSchema": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": { "const": "object" },
                    "properties": { "type": "object" },
                    "required": { "type": "array", "items": text },
                },
            },
            "outputSchema": { "type": "object" },
            "annotations": {
                "type": "object",
                "properties": {
                    "title": text, "readOnlyHint": flag, "destructiveHint": flag,
                    "idempotentHint": flag, "openWorldHint": flag,
                },
            },
            "icons": { "type": "array", "items": { "type": "object", "required": ["src"] } },
            "_meta": { "type": "object" },
        },
    });
    each(site, |tool| shape::violation(&shape, tool).map(|what| named(tool, &what))).await
}

async fn schemas(site: &Site) -> Verdict {
    each(site, |tool| {
        let schemas = ["inputSchema", "outputSchema"].iter().filter_map(|it| tool.get(*it));
        let broken = schemas.filter(|schema| !shape::compiles(schema)).count();
        (broken > 0).then(|| named(tool, "a schema that is none"))
    })
    .await
}

async fn names(site: &Site) -> Verdict {
    each(site, |tool| {
        let name = name_of(tool);
        let is_plain =
            name.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-' | b'.'));
        let fits = is_plain && (1..=128).contains(&name.len());
        (!fits).then(|| named(tool, "is not such a name"))
    })
    .await
}

async fn unique(site: &Site) -> Verdict {
    for list in some(site).await? {
        for page in &list.pages {
            let result = message::result(page)?;
            let tools = result.get("tools").and_then(Value::as_array);
            let mut seen = BTreeSet::new();
            let double = tools.into_iter().flatten().find(|tool| !seen.insert(name_of(tool)));
            if let Some(tool) = double {
                return fail("every name once", named(tool, "stands there twice"), &[page]);
            }
        }
    }
    Ok(())
}

async fn param_headers(site: &Site) -> Verdict {
    wire::stateless(site).await?;
    each(site, |tool| {
        let mut seen = BTreeSet::new();
        let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
        bad_header(schema, true, &mut seen).map(|what| named(tool, what))
    })
    .await
}

async fn stable(site: &Site) -> Verdict {
    for list in some(site).await? {
        let again = list.wire.request("tools/list", json!({})).again();
        let second = site.send(again.ask(site).by_first()).await?;
        let first = list.got()?;
        let names = |got: &Got| -> Verdict<Vec<String>> {
            let result = message::result(got)?;
            let tools = result.get("tools").and_then(Value::as_array);
            Ok(tools.into_iter().flatten().map(|tool| name_of(tool).to_owned()).collect())
        };
        if names(first)? != names(&second)? {
            return fail("the same list", "another one", &[first, &second]);
        }
    }
    Ok(())
}

async fn caching(site: &Site) -> Verdict {
    wire::stateless(site).await?;
    for list in lists(site).await?.into_iter().filter(|list| list.wire.is_stateless()) {
        let mut scopes = BTreeSet::new();
        for page in &list.pages {
            let result = message::result(page)?;
            says_caching(page, &result)?;
            scopes.insert(result.get("cacheScope").and_then(Value::as_str).map(str::to_owned));
            page.expect(scopes.len() == 1, "one `cacheScope` on all pages", "another one")?;
        }
    }
    Ok(())
}

async fn pages(site: &Site) -> Verdict {
    for list in lists(site).await? {
        let shown: Vec<&Got> = list.pages.iter().rev().take(2).rev().collect();
        let mut seen = BTreeSet::new();
        if let Some(double) = list.cursors.iter().find(|cursor| !seen.insert(*cursor)) {
            return fail("new cursors", format!("`{double}` again"), &shown);
        }
        if list.has_more {
            return fail("an end", format!("more than {MOST_PAGES} pages"), &shown);
        }
        let mut known: BTreeSet<String> = BTreeSet::new();
        for page in &list.pages {
            let result = message::result(page)?;
            let tools = result.get("tools").and_then(Value::as_array);
            let here: BTreeSet<String> =
                tools.into_iter().flatten().map(|tool| name_of(tool).to_owned()).collect();
            if let Some(name) = here.iter().find(|name| known.contains(*name)) {
                let seen = format!("`{name}` is on an earlier page too");
                return fail("no tool on two pages", seen, &[page]);
            }
            known.extend(here);
        }
    }
    Ok(())
}

async fn bad_cursor(site: &Site) -> Verdict {
    for list in lists(site).await? {
        let params = json!({ "cursor": "conformance-no-such-cursor" });
        let got = list.wire.request("tools/list", params).send(site).await?;
        message::expect_code(&got, &[-32602])?;
    }
    Ok(())
}

/// The list in every era in which the server has tools.
pub(super) async fn lists(site: &Site) -> Verdict<Vec<List>> {
    let mut lists = Vec::new();
    for wire in wire::wires(site).await? {
        let offers = wire::capabilities(site, &wire).await?;
        let first = wire.request("tools/list", json!({})).send(site).await?;
        if offers.get("tools").is_none() && message::code(&first) == Some(-32601) {
            continue;
        }
        lists.push(walked(site, wire, first).await?);
    }
    match lists.is_empty() {
        true => skip("the server has no tools"),
        false => Ok(lists),
    }
}

/// As [`lists`], those in which there is something.
pub(super) async fn some(site: &Site) -> Verdict<Vec<List>> {
    let mut lists = lists(site).await?;
    lists.retain(|list| !list.tools.is_empty());
    match lists.is_empty() {
        true => skip("the list is empty"),
        false => Ok(lists),
    }
}

pub(super) fn name_of(tool: &Value) -> &str {
    tool.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Follows the cursors from the page `first`.
async fn walked(site: &Site, wire: Wire, first: Got) -> Verdict<List> {
    let (mut pages, mut tools, mut cursors) = (Vec::new(), Vec::new(), Vec::<String>::new());
    let mut page = first;
    loop {
        let result = message::result(&page)?;
        match result.get("tools").and_then(Value::as_array) {
            Some(here) => tools.extend(here.iter().cloned()),
            None => return fail("an array `tools`", "none", &[&page]),
        }
        let cursor = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        pages.push(page);
        let Some(cursor) = cursor else {
            return Ok(List { wire, pages, tools, has_more: false, cursors });
        };
        let is_known = cursors.contains(&cursor);
        cursors.push(cursor.clone());
        if is_known || pages.len() >= MOST_PAGES {
            return Ok(List { wire, pages, tools, has_more: true, cursors });
        }
        page = wire.request("tools/list", json!({ "cursor": cursor })).send(site).await?;
    }
}

/// Fails when `wrong` finds something in a tool.
async fn each(site: &Site, mut wrong: impl FnMut(&Value) -> Option<String>) -> Verdict {
    for list in some(site).await? {
        for page in &list.pages {
            let result = message::result(page)?;
            let tools = result.get("tools").and_then(Value::as_array);
            if let Some(what) = tools.into_iter().flatten().find_map(&mut wrong) {
                return fail("otherwise", what, &[page]);
            }
        }
    }
    Ok(())
}

fn named(tool: &Value, what: &str) -> String {
    format!("`{}`: {what}", name_of(tool))
}

/// What is wrong with the `x-mcp-header`s of `schema`; `is_reachable` says whether only
/// `properties` led there.
fn bad_header(
    schema: &Value,
    is_reachable: bool,
    seen: &mut BTreeSet<String>,
) -> Option<&'static str> {
    match schema {
        Value::Object(members) => {
            if let Some(name) = members.get("x-mcp-header") {
                let is_token =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
                let name = name.as_str().unwrap_or_default();
                let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
                if name.is_empty() || !name.bytes().all(is_token) {
                    return Some("an `x-mcp-header` is no token");
                }
                if !["string", "integer", "boolean"].contains(&kind) {
                    return Some("an `x-mcp-header` is on something that has no such value");
                }
                if !is_reachable {
                    return Some("an `x-mcp-header` is not reached through `properties` alone");
                }
                if !seen.insert(name.to_ascii_lowercase()) {
                    return Some("an `x-mcp-header` is there twice");
                }
            }
            members.iter().find_map(|(key, inner)| match (key.as_str(), inner) {
                // What stands in these is data.
                ("const" | "default" | "enum" | "examples", _) => None,
                ("properties", Value::Object(properties)) => {
                    properties.values().find_map(|it| bad_header(it, is_reachable, seen))
                }
                (_, inner) => bad_header(inner, false, seen),
            })
        }
        Value::Array(all) => all.iter().find_map(|it| bad_header(it, false, seen)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_parameters_are_looked_at_where_they_are_headers() {
        let wrong = |schema| bad_header(&schema, true, &mut BTreeSet::new());
        let header = |name: &str, kind: &str| json!({ "type": kind, "x-mcp-header": name });
        let object = |properties: Value| json!({ "type": "object", "properties": properties });
        let nested = object(json!({ "a": object(json!({ "b": header("B", "integer") })) }));
        assert_eq!(wrong(nested), None);
        // A property of that name is none.
        assert_eq!(wrong(object(json!({ "x-mcp-header": { "type": "string" } }))), None);
        for schema in [
            object(json!({ "a": header("", "string") })),
            object(json!({ "a": header("a b", "string") })),
            object(json!({ "a": header("A", "number") })),
            object(json!({ "a": header("A", "string"), "b": header("a", "string") })),
            object(json!({ "a": { "type": "array", "items": header("A", "string") } })),
        ] {
            assert!(wrong(schema.clone()).is_some(), "{schema}");
        }
    }
}
