//! The three meta tools that a toolset can list instead of its tools: they search, describe and
//! call those tools. They serve clients that cannot hold hundreds of schemas.
//!
//! Invariant (I-78): meta tools add no permissions. `call_tool` is resolved to the actual call
//! before it reaches the gate, and the other two show only content of the caller's list.

use std::{
    num::NonZeroUsize,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use toolcrib_core::catalog::{Entry, ListFormat, Listing, Pages};
use toolcrib_gateway::ToolRef;
use toolcrib_mcp::{message::RpcError, revision::Era};

use super::{
    answer,
    call::ToolCall,
    cursor,
    format::format,
    host::{Client, RequestContext},
};

/// The resolution of a call.
#[expect(clippy::large_enum_variant, reason = "one for each call, taken apart at once")]
pub(super) enum MetaToolOutcome {
    /// The call of an ordinary tool.
    Call(ToolCall),
    /// A finished response.
    Answer(Bytes),
}

const SEARCH: &str = "search_tools";
const DESCRIBE: &str = "describe_tool";
const CALL: &str = "call_tool";

/// Default and maximum number of tools in a search result.
const FOUND: u64 = 8;
const MOST_FOUND: u64 = 50;
/// Maximum number of sources that a search without results lists.
const MOST_SOURCES: usize = 50;
/// Maximum length of a tool's description in search results, in characters.
const EXCERPT: usize = 200;

/// Instructions for models, when the meta tools are listed.
pub(super) const INSTRUCTIONS: &str = "The list contains three tools that give access to all \
     others: find a tool with search_tools, read its parameters with describe_tool, and run it with \
     call_tool.";

/// The list of the meta tools, the same for every caller.
pub(super) fn list(era: Era, format: &ListFormat) -> Arc<Pages> {
    static LISTS: [OnceLock<Arc<Pages>>; 2] = [const { OnceLock::new() }; 2];
    let [legacy, modern] = &LISTS;
    let list = match era {
        Era::Legacy => legacy,
        Era::Modern => modern,
    };
    let make = || {
        let written = tools().map(|tool| Arc::from(tool.to_string().into_bytes()));
        Arc::new(Pages::of(&written, format, NonZeroUsize::MAX, cursor::open))
    };
    Arc::clone(list.get_or_init(make))
}

/// Resolves `call` within the caller's part of the catalog.
pub(super) fn resolve(
    context: RequestContext<'_>,
    era: Era,
    mut call: ToolCall,
) -> Result<MetaToolOutcome, RpcError> {
    let Client { host, within, .. } = context.client;
    let toolset = host.gateway.snapshot().toolset(within);
    if toolset.is_none_or(|toolset| toolset.listing != Listing::Search) {
        return Ok(MetaToolOutcome::Call(call));
    }
    let answered = match call.name.as_str() {
        CALL => {
            let Value::Object(mut members) = call.arguments.take() else {
                return Err(RpcError::invalid_params("`arguments` must be an object"));
            };
            let Some(Value::String(name)) = members.remove("name") else {
                return Ok(wrong(era, &call, "`name` must be the name of a tool"));
            };
            let arguments = match members.remove("arguments") {
                None | Some(Value::Null) => Value::Object(Map::new()),
                Some(arguments @ Value::Object(_)) => arguments,
                Some(_) => {
                    return Ok(wrong(
                        era,
                        &call,
                        "`arguments` must be a JSON object, not a string",
                    ));
                }
            };
            return Ok(MetaToolOutcome::Call(call.indirect(name, arguments)));
        }
        SEARCH => search(context.client, &call.arguments),
        DESCRIBE => describe(context.client, era, &call.arguments),
        _ => return Ok(MetaToolOutcome::Call(call)),
    };
    Ok(match answered {
        Ok(text) => MetaToolOutcome::Answer(answer::text(&call.id, era, &text, false).into()),
        Err(problem) => wrong(era, &call, problem),
    })
}

fn wrong(era: Era, call: &ToolCall, problem: &str) -> MetaToolOutcome {
    MetaToolOutcome::Answer(answer::text(&call.id, era, problem, true).into())
}

fn search(client: &Client, arguments: &Value) -> Result<String, &'static str> {
    let Some(query) = arguments.get("query").and_then(Value::as_str) else {
        return Err("`query` must be a string");
    };
    let most = match arguments.get("limit") {
        None | Some(Value::Null) => FOUND,
        Some(limit) => limit.as_u64().ok_or("`limit` must be a number from 1 to 50")?,
    };
    let most = usize::try_from(most.clamp(1, MOST_FOUND)).unwrap_or(1);
    let Client { host, principal, within } = client;
    let Some(view) = host.gateway.snapshot().view_within(principal, within) else {
        return Err("unknown toolset");
    };
    let found: Vec<Value> = view.search(query, None, most).iter().map(|entry| hit(entry)).collect();
    let mut answer = json!({ "tools": found, "of": view.entries().len() });
    if found.is_empty()
        && let Some(answer) = answer.as_object_mut()
    {
        // A hint for the next search: the name of a source finds its tools.
        let sources = view.sources().iter().take(MOST_SOURCES);
        answer.insert("sources".to_owned(), sources.map(|source| json!(source)).collect());
    }
    Ok(answer.to_string())
}

/// Builds a search result: enough about a tool to choose it.
fn hit(entry: &Entry) -> Value {
    let mut hit = Map::new();
    hit.insert("name".to_owned(), json!(entry.names.wire));
    if let Some(text) = entry.tool.description.as_deref().or(entry.tool.title.as_deref()) {
        hit.insert("description".to_owned(), json!(excerpt(text)));
    }
    Value::Object(hit)
}

/// The first paragraph of `text`, on one line and cut to a maximum length.
fn excerpt(text: &str) -> String {
    let text = text.trim();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let one_line: String = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(EXCERPT) {
        Some((at, _)) => format!("{}…", one_line.get(..at).unwrap_or_default().trim_end()),
        None => one_line,
    }
}

fn describe(client: &Client, era: Era, arguments: &Value) -> Result<String, &'static str> {
    let Some(name) = arguments.get("name").and_then(Value::as_str) else {
        return Err("`name` must be the name of a tool");
    };
    let Client { host, principal, within } = client;
    let snapshot = host.gateway.snapshot();
    match host.gateway.find(&snapshot, principal, ToolRef::Wire(name), within) {
        Some(entry) => {
            let json = entry.wire.get(&entry, format(client, era));
            Ok(String::from_utf8_lossy(&json).into_owned())
        }
        // The same for a tool that is hidden, outside the toolset or unknown (I-9).
        None => Err("Unknown tool; use search_tools to find the names of tools"),
    }
}

fn tools() -> [Value; 3] {
    let name = json!({ "type": "string", "description": "The name of the tool, as returned by search_tools" });
    let hints = |reads: bool| {
        json!({
            "readOnlyHint": reads, "destructiveHint": !reads,
            "idempotentHint": reads, "openWorldHint": !reads,
        })
    };
    [
        json!({
            "name": SEARCH,
            "description": "Searches the available tools by keywords. Returns their names and \
                descriptions, the best match first. If no result fits, search again with other \
                keywords or with the name of a source.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": { "type": "string", "description": "Keywords for the task" },
                    "limit": { "type": "integer", "minimum": 1, "maximum": MOST_FOUND,
                        "default": FOUND },
                },
                "required": ["query"],
            },
            "annotations": hints(true),
        }),
        json!({
            "name": DESCRIBE,
            "description": "Returns the full description of one tool, with the JSON Schema of its \
                arguments. Use it before the first call of a tool.",
            "inputSchema": {
                "type": "object",
                "properties": { "name": name.clone() },
                "required": ["name"],
            },
            "annotations": hints(true),
        }),
        json!({
            "name": CALL,
            "description": "Runs one tool and returns its result.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "name": name,
                    "arguments": { "type": "object",
                        "description": "The arguments, which must match the schema from describe_tool" },
                },
                "required": ["name"],
            },
            "annotations": hints(false),
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::format::{LEGACY, MODERN};

    #[test]
    fn the_list_is_the_three_in_both_eras() {
        for (era, format) in [(Era::Legacy, &LEGACY), (Era::Modern, &MODERN)] {
            let pages = list(era, format);
            assert_eq!(pages.count(), 1);
            let page: Value = serde_json::from_slice(pages.at(0).unwrap()).unwrap();
            let names: Vec<_> =
                page["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
            assert_eq!(names, [SEARCH, DESCRIBE, CALL]);
        }
    }

    #[test]
    fn an_excerpt_is_the_first_paragraph_on_one_line() {
        assert_eq!(excerpt(" Reads\n  it.\n\nMore."), "Reads it.");
        let long = excerpt(&"ä ".repeat(500));
        assert_eq!(long.chars().count(), EXCERPT);
        assert!(long.ends_with("ä…"));
    }
}
