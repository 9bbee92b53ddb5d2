//! `tools/list`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    discover::expect_caching,
    message,
    wire::{self, Wire},
};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::Response,
    require, schema, skip_unless,
    value::{array, duplicate, text},
};

pub(super) const CHECKS: &[Check] = checks! {
    "mcp.tools.list", Must, "server/tools §listing-tools", list:
        "`tools/list` of a server that declares `tools` returns an array of tools";
    "mcp.tools.capability", Must, "server/tools §capabilities", capability:
        "a server that has tools declares `tools`";
    "mcp.tools.shape", Must, "server/tools §tool, schema Tool", has_shape:
        "a tool has a `name` and an `inputSchema` of type object; its other members have the types of \
         the schema";
    "mcp.tools.schemas", Must, "basic §json-schema-usage", schemas:
        "`inputSchema` and `outputSchema` are valid JSON Schemas";
    "mcp.tools.names", Should, "server/tools §tool-names", names:
        "a name has 1 to 128 of the characters A-Z, a-z, 0-9, `_`, `-` and `.`";
    "mcp.tools.unique", Should, "server/tools §tool-names", unique:
        "every name is unique";
    "mcp.tools.param-headers", Must, "2026-07-28 server/tools §x-mcp-header", param_headers:
        "`x-mcp-header` is a token, unique in its tool, on a string, integer or boolean that is reached \
         only through `properties`";
    "mcp.tools.stable", Should, "2026-07-28 server/tools §capabilities", stable:
        "two lists contain the same tools in the same order";
    "mcp.tools.caching", Must, "2026-07-28 server/utilities/caching", caching:
        "every page has `ttlMs` and `cacheScope`, and all have the same `cacheScope`";
    "mcp.tools.pages", Must, "server/utilities/pagination", pages:
        "the chain of `nextCursor` ends, and no cursor and no tool occurs twice";
    "mcp.tools.bad-cursor", Should, "server/utilities/pagination", bad_cursor:
        "an unknown cursor returns the error -32602";
};

const MAX_PAGES: usize = 100;

/// The list of one era.
pub(super) struct List {
    pub(super) wire: Wire,
    pages: Vec<Response>,
    pub(super) tools: Vec<Value>,
    /// Whether there are more pages than were read.
    has_more: bool,
    cursors: Vec<String>,
}

async fn list(target: &Target) -> CheckResult {
    lists(target).await.map(drop)
}

async fn capability(target: &Target) -> CheckResult {
    for list in non_empty_lists(target).await? {
        let capabilities = wire::capabilities(target, &list.wire).await?;
        let is_declared = capabilities.get("tools").is_some_and(Value::is_object);
        let pages: Vec<&Response> = list.pages.iter().take(1).collect();
        require(is_declared, "`capabilities.tools`", "tools without that capability", &pages)?;
    }
    Ok(())
}

async fn has_shape(target: &Target) -> CheckResult {
    let string = json!({ "type": "string" });
    let flag = json!({ "type": "boolean" });
    let schema = json!({
        "type": "object",
        "required": ["name", "inputSchema"],
        "properties": {
            "name": string, "title": string, "description": string,
            "inputSchema": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": { "const": "object" },
                    "properties": { "type": "object" },
                    "required": { "type": "array", "items": string },
                },
            },
            "outputSchema": { "type": "object" },
            "annotations": {
                "type": "object",
                "properties": {
                    "title": string, "readOnlyHint": flag, "destructiveHint": flag,
                    "idempotentHint": flag, "openWorldHint": flag,
                },
            },
            "icons": { "type": "array", "items": { "type": "object", "required": ["src"] } },
            "_meta": { "type": "object" },
        },
    });
    expect_no_tool(target, "valid tools", |tool| schema::violation(&schema, tool)).await
}

async fn schemas(target: &Target) -> CheckResult {
    expect_no_tool(target, "valid JSON Schemas", |tool| {
        let mut schemas =
            ["inputSchema", "outputSchema"].iter().filter_map(|member| tool.get(*member));
        schemas.any(|schema| !schema::is_valid(schema)).then(|| "an invalid schema".to_owned())
    })
    .await
}

async fn names(target: &Target) -> CheckResult {
    expect_no_tool(target, "names of 1 to 128 allowed characters", |tool| {
        let name = name_of(tool);
        let is_allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let is_valid = name.bytes().all(is_allowed) && (1..=128).contains(&name.len());
        (!is_valid).then(|| "an invalid name".to_owned())
    })
    .await
}

async fn unique(target: &Target) -> CheckResult {
    for page in non_empty_lists(target).await?.iter().flat_map(|list| &list.pages) {
        page.expect_unique(names_of(page)?.iter().map(String::as_str), "unique names")?;
    }
    Ok(())
}

async fn param_headers(target: &Target) -> CheckResult {
    wire::stateless(target).await?;
    expect_no_tool(target, "valid `x-mcp-header`s", |tool| {
        let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
        invalid_header(schema, true, &mut BTreeSet::new()).map(str::to_owned)
    })
    .await
}

async fn stable(target: &Target) -> CheckResult {
    for list in non_empty_lists(target).await? {
        let again = list.wire.request("tools/list", json!({})).again();
        let second = target.send(again.request(target).with_key()).await?;
        let Some(first) = list.pages.first() else { continue };
        let is_same = names_of(first)? == names_of(&second)?;
        require(is_same, "the same list", "another list", &[first, &second])?;
    }
    Ok(())
}

async fn caching(target: &Target) -> CheckResult {
    wire::stateless(target).await?;
    for list in lists(target).await?.into_iter().filter(|list| list.wire.is_stateless()) {
        let mut scopes = BTreeSet::new();
        for page in &list.pages {
            let result = message::result(page)?;
            expect_caching(page, &result)?;
            scopes.insert(text(&result, "cacheScope").to_owned());
            page.expect(scopes.len() == 1, "one `cacheScope` on all pages", "another one")?;
        }
    }
    Ok(())
}

async fn pages(target: &Target) -> CheckResult {
    for list in lists(target).await? {
        let last: Vec<&Response> = list.pages.iter().rev().take(2).rev().collect();
        let repeated = duplicate(list.cursors.iter().map(String::as_str));
        let seen = format!("`{}` again", repeated.unwrap_or_default());
        require(repeated.is_none(), "new cursors", seen, &last)?;
        require(!list.has_more, "a last page", format!("more than {MAX_PAGES} pages"), &last)?;
        let mut known: BTreeSet<String> = BTreeSet::new();
        for page in &list.pages {
            let names = names_of(page)?;
            if let Some(name) = names.iter().find(|name| known.contains(*name)) {
                let seen = format!("`{name}` is on an earlier page, too");
                return fail("no tool on two pages", seen, &[page]);
            }
            known.extend(names);
        }
    }
    Ok(())
}

async fn bad_cursor(target: &Target) -> CheckResult {
    for list in lists(target).await? {
        let params = json!({ "cursor": "conformance-no-such-cursor" });
        let response = list.wire.request("tools/list", params).send(target).await?;
        message::expect_code(&response, &[-32602])?;
    }
    Ok(())
}

/// Reads the list of every era in which the server has tools.
pub(super) async fn lists(target: &Target) -> CheckResult<Vec<List>> {
    let mut lists = Vec::new();
    for wire in wire::wires(target).await? {
        let capabilities = wire::capabilities(target, &wire).await?;
        let first = wire.request("tools/list", json!({})).send(target).await?;
        if capabilities.get("tools").is_some() || message::code(&first) != Some(-32601) {
            lists.push(read_pages(target, wire, first).await?);
        }
    }
    skip_unless(!lists.is_empty(), "the server has no tools")?;
    Ok(lists)
}

/// Reads the [`lists`] without the empty ones.
pub(super) async fn non_empty_lists(target: &Target) -> CheckResult<Vec<List>> {
    let mut lists = lists(target).await?;
    lists.retain(|list| !list.tools.is_empty());
    skip_unless(!lists.is_empty(), "the list is empty")?;
    Ok(lists)
}

pub(super) fn name_of(tool: &Value) -> &str {
    text(tool, "name")
}

/// The names of the tools on `page`.
fn names_of(page: &Response) -> CheckResult<Vec<String>> {
    let result = message::result(page)?;
    Ok(array(&result, "tools").iter().map(|tool| name_of(tool).to_owned()).collect())
}

/// Follows the cursors from the page `first`.
async fn read_pages(target: &Target, wire: Wire, first: Response) -> CheckResult<List> {
    let (pages, tools, cursors) = (Vec::new(), Vec::new(), Vec::new());
    let mut list = List { wire, pages, tools, has_more: false, cursors };
    let mut page = first;
    loop {
        let result = message::result(&page)?;
        match result.get("tools").and_then(Value::as_array) {
            Some(tools) => list.tools.extend(tools.iter().cloned()),
            None => return fail("an array `tools`", "none", &[&page]),
        }
        list.pages.push(page);
        let Some(cursor) = result.get("nextCursor").and_then(Value::as_str) else {
            return Ok(list);
        };
        list.has_more =
            list.pages.len() >= MAX_PAGES || list.cursors.iter().any(|known| known == cursor);
        list.cursors.push(cursor.to_owned());
        if list.has_more {
            return Ok(list);
        }
        let params = json!({ "cursor": cursor });
        page = list.wire.request("tools/list", params).send(target).await?;
    }
}

/// Fails the check with the first problem that `problem` finds in a tool.
async fn expect_no_tool(
    target: &Target,
    expected: &str,
    problem: impl Fn(&Value) -> Option<String>,
) -> CheckResult {
    for page in non_empty_lists(target).await?.iter().flat_map(|list| &list.pages) {
        let result = message::result(page)?;
        page.expect_no_problem(array(&result, "tools"), name_of, expected, &problem)?;
    }
    Ok(())
}

/// Finds the first problem of an `x-mcp-header` in `schema`. `is_reachable` is whether only
/// `properties` lead to `schema`.
fn invalid_header(
    schema: &Value,
    is_reachable: bool,
    seen: &mut BTreeSet<String>,
) -> Option<&'static str> {
    match schema {
        Value::Object(members) => {
            if members.contains_key("x-mcp-header") {
                let is_token =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
                let name = text(schema, "x-mcp-header");
                if name.is_empty() || !name.bytes().all(is_token) {
                    return Some("an `x-mcp-header` is not a token");
                }
                if !["string", "integer", "boolean"].contains(&text(schema, "type")) {
                    return Some("an `x-mcp-header` is on another type");
                }
                if !is_reachable {
                    return Some("an `x-mcp-header` is not reached through `properties` only");
                }
                if !seen.insert(name.to_ascii_lowercase()) {
                    return Some("an `x-mcp-header` occurs twice");
                }
            }
            members.iter().find_map(|(key, inner)| match (key.as_str(), inner) {
                // These contain data instead of schemas.
                ("const" | "default" | "enum" | "examples", _) => None,
                ("properties", Value::Object(properties)) => properties
                    .values()
                    .find_map(|property| invalid_header(property, is_reachable, seen)),
                (_, inner) => invalid_header(inner, false, seen),
            })
        }
        Value::Array(all) => all.iter().find_map(|item| invalid_header(item, false, seen)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_parameters_are_validated() {
        let problem = |schema| invalid_header(&schema, true, &mut BTreeSet::new());
        let header = |name: &str, kind: &str| json!({ "type": kind, "x-mcp-header": name });
        let object = |properties: Value| json!({ "type": "object", "properties": properties });
        let nested = object(json!({ "a": object(json!({ "b": header("B", "integer") })) }));
        assert_eq!(problem(nested), None);
        // A property with that name is not a header.
        assert_eq!(problem(object(json!({ "x-mcp-header": { "type": "string" } }))), None);
        for schema in [
            object(json!({ "a": header("", "string") })),
            object(json!({ "a": header("a b", "string") })),
            object(json!({ "a": header("A", "number") })),
            object(json!({ "a": header("A", "string"), "b": header("a", "string") })),
            object(json!({ "a": { "type": "array", "items": header("A", "string") } })),
        ] {
            assert!(problem(schema.clone()).is_some(), "{schema}");
        }
    }
}
