//! Reads an upstream's tool list, page by page and tool by tool.
//!
//! Invariant: pages, tools and bytes are capped, and a repeated cursor stops the list.
//! Invariant: one malformed tool costs at most itself, and is reported.

use std::{collections::HashSet, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use toolcrib_core::{
    call::UpstreamError,
    credential::ResolvedCredential,
    json::parse_strict,
    source::{Discovered, DiscoveredOffer, FormedOffer, SourceLimits, mcp::is_for_apps_only},
};
use toolcrib_mcp::{
    code,
    param_header::{self, AnnotationError},
};

use super::{connection::Connection, failure::Failure, message::Reply};
use crate::{
    error::{protocol, refused, too_large},
    problems::Problems,
    text::tidy,
};

/// Reports kept; further ones are counted.
const MAX_PROBLEMS: usize = 100;
/// Longest valid name.
const MAX_NAME: usize = 512;
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// Reads the whole list.
pub(crate) async fn discover(
    connection: &Connection,
    limits: &SourceLimits,
) -> Result<Discovered, Failure> {
    let list = read(connection, limits, None).await?;
    Ok(list.finish(connection.session.version.clone()))
}

/// Reads the names in the list of `account`; without it, of the account of the connection. A list
/// that exceeds a limit is an error.
pub(crate) async fn names(
    connection: &Connection,
    limits: &SourceLimits,
    account: Option<&Arc<ResolvedCredential>>,
) -> Result<HashSet<String>, Failure> {
    let list = read(connection, limits, account).await?;
    match list.is_cut {
        true => Err(too_large("the tool list of the account").into()),
        false => Ok(list.names),
    }
}

async fn read(
    connection: &Connection,
    limits: &SourceLimits,
    account: Option<&Arc<ResolvedCredential>>,
) -> Result<List, Failure> {
    let check_headers = connection.repeats_arguments_in_headers();
    let mut list = List { limits: limits.clone(), check_headers, ..List::default() };
    let mut cursor: Option<String> = None;
    loop {
        let page = match connection.list_tools(cursor.as_deref(), account).await? {
            Reply::Result(page) => page,
            Reply::Error(error)
                if error.code == code::METHOD_NOT_FOUND && !connection.session.has_tools =>
            {
                break;
            }
            Reply::Error(error) => {
                let message = tidy(&error.message, 200);
                return Err(refused(format!("tools/list: error {}: {message}", error.code)).into());
            }
        };
        match list.page(&page.json)? {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    Ok(list)
}

/// A list while it is read.
#[derive(Default)]
struct List {
    limits: SourceLimits,
    check_headers: bool,
    tools: Vec<FormedOffer>,
    names: HashSet<String>,
    cursors: HashSet<String>,
    pages: usize,
    seen: usize,
    bytes: usize,
    /// Whether a limit left out the rest.
    is_cut: bool,
    problems: Problems<MAX_PROBLEMS>,
    notes: Problems<MAX_PROBLEMS>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    next_cursor: Option<&'a RawValue>,
}

impl List {
    /// Takes a page; yields the cursor of the next page to read, if any.
    fn page(&mut self, page: &RawValue) -> Result<Option<String>, UpstreamError> {
        let page_bytes = page.get().len();
        let page: Page<'_> = serde_json::from_str(page.get())
            .map_err(|_| protocol("the answer to tools/list is not a list of tools"))?;
        self.pages += 1;
        self.bytes += page_bytes;
        if self.bytes > self.limits.max_list_bytes {
            self.is_cut = true;
            self.problems.add(format!(
                "the tool list is larger than {} bytes; tools from page {} on are left out",
                self.limits.max_list_bytes, self.pages
            ));
            return Ok(None);
        }
        for tool in page.tools {
            if self.tools.len() >= self.limits.max_tools {
                self.is_cut = true;
                self.problems.add(format!(
                    "the tool list has more than {} tools; the rest is left out",
                    self.limits.max_tools
                ));
                return Ok(None);
            }
            self.tool(tool);
        }
        Ok(page.next_cursor.and_then(|cursor| self.cursor(cursor)))
    }

    /// An empty cursor is valid; the list is complete only without a cursor.
    fn cursor(&mut self, cursor: &RawValue) -> Option<String> {
        let Ok(cursor) = serde_json::from_str::<String>(cursor.get()) else {
            self.is_cut = true;
            self.problems.add("the cursor of the next page is not a string; the rest is left out");
            return None;
        };
        if !self.cursors.insert(cursor.clone()) {
            self.is_cut = true;
            self.problems.add("the tool list repeats a cursor; the rest is left out");
            return None;
        }
        if self.pages >= self.limits.max_pages {
            self.is_cut = true;
            self.problems.add(format!(
                "the tool list has more than {} pages; the rest is left out",
                self.limits.max_pages
            ));
            return None;
        }
        Some(cursor)
    }

    fn tool(&mut self, raw: &RawValue) {
        self.seen += 1;
        let position = self.seen;
        let raw = match parse_strict(raw.get().as_bytes()) {
            Ok(raw) => raw,
            Err(error) => {
                return self
                    .problems
                    .add(format!("entry {position} is left out: {}", error.problem));
            }
        };
        let Some(members) = raw.as_object() else {
            return self.problems.add(format!("entry {position} is left out: it is not an object"));
        };
        let name = match members.get("name").and_then(Value::as_str) {
            Some(name) if !name.is_empty() && name.len() <= MAX_NAME => name.to_owned(),
            _ => {
                return self
                    .problems
                    .add(format!("entry {position} is left out: it has no usable name"));
            }
        };
        let shown = tidy(&name, 80);
        if let Some(reason) = unsupported(&raw) {
            return self.notes.add(format!("tool `{shown}` is left out: {reason}"));
        }
        if let Some(reason) = self.reason_to_hide(members) {
            return self.problems.add(format!("tool `{shown}` is left out: {reason}"));
        }
        if !self.names.insert(name.clone()) {
            return self
                .problems
                .add(format!("tool `{shown}` is listed twice; the first one is used"));
        }
        let mut notes = Vec::new();
        let text = |key: &'static str, notes: &mut Vec<String>| match members.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            None | Some(Value::Null) => None,
            Some(_) => {
                notes.push(format!("{key} is not a string"));
                None
            }
        };
        let (title, description) = (text("title", &mut notes), text("description", &mut notes));
        let input_schema = schema(members, "inputSchema", &mut notes);
        let output_schema = schema(members, "outputSchema", &mut notes);
        let annotations = annotations(members, &mut notes);
        let marked =
            input_schema.as_ref().and_then(Value::as_object).filter(|_| !self.check_headers);
        if let Some(problem) = marked.and_then(header_problem) {
            notes.push(format!("{problem}, so callers get no header annotations"));
        }
        if !notes.is_empty() {
            self.problems.add(format!("tool `{shown}`: {}", notes.join(", ")));
        }
        let tool = DiscoveredOffer {
            name,
            title,
            description,
            input_schema,
            output_schema,
            annotations,
            raw,
            ..DiscoveredOffer::default()
        };
        self.tools.push(tool.into());
    }

    fn reason_to_hide(&self, members: &Map<String, Value>) -> Option<&'static str> {
        let schema = members.get("inputSchema").and_then(Value::as_object);
        schema.filter(|_| self.check_headers).and_then(header_problem)
    }

    fn finish(self, version: Option<String>) -> Discovered {
        let problems = self.problems.finish(|more| format!("and {more} more"));
        let notes = self.notes.finish(|more| format!("and {more} more"));
        Discovered { version, offers: self.tools, problems, notes, ..Discovered::default() }
    }
}

/// Why callers cannot use `tool`, although its definition is valid.
fn unsupported(tool: &Value) -> Option<&'static str> {
    if tool.pointer("/execution/taskSupport").and_then(Value::as_str) == Some("required") {
        return Some("it only runs as a task, which is not supported");
    }
    is_for_apps_only(tool).then_some("it is for MCP Apps only, which are not offered")
}

fn header_problem(schema: &Map<String, Value>) -> Option<&'static str> {
    param_header::read(schema).err().map(AnnotationError::reason)
}

fn schema(
    members: &Map<String, Value>,
    key: &'static str,
    notes: &mut Vec<String>,
) -> Option<Value> {
    match members.get(key) {
        Some(schema @ Value::Object(_)) => return Some(schema.clone()),
        Some(_) => notes.push(format!("{key} is not an object")),
        None if key == "inputSchema" => notes.push(format!("{key} is missing")),
        None => {}
    }
    None
}

/// The hints with the required type.
fn annotations(members: &Map<String, Value>, notes: &mut Vec<String>) -> Option<Value> {
    let claimed = match members.get("annotations") {
        Some(Value::Object(claimed)) => claimed,
        None | Some(Value::Null) => return None,
        Some(_) => {
            notes.push("annotations is not an object".to_owned());
            return None;
        }
    };
    let mut kept = claimed.clone();
    kept.retain(|key, value| {
        let is_known = key == "title" || HINTS.contains(&key.as_str());
        let fits = if key == "title" { value.is_string() } else { value.is_boolean() };
        if is_known && !fits && !value.is_null() {
            notes.push(format!("annotation {key} has the wrong type"));
        }
        is_known && fits
    });
    (!kept.is_empty()).then_some(Value::Object(kept))
}

/// Reads `page` as one page of a list.
#[cfg(fuzzing)]
pub(crate) fn fuzz(page: &RawValue) {
    for check_headers in [false, true] {
        let mut list = List { check_headers, ..List::default() };
        list.page(page).ok();
        list.finish(None);
    }
}
