//! Descriptions that address the model without the user's notice: invisible characters, and
//! instructions unrelated to the tool. They are reported, and no tool is refused because of them.

use serde_json::Value;

use super::finding::{Findings, Severity};
use crate::{pointer::step, source::DiscoveredOffer, text::is_hidden};

/// The most texts checked in one tool.
const MAX_TEXTS: usize = 10_000;
/// The deepest nesting checked.
const MAX_DEPTH: usize = 64;

/// Phrases that do not belong in the description of a tool, in lower case, with single blanks.
const MARKERS: [&str; 26] = [
    "ignore previous instructions",
    "ignore all previous",
    "ignore the above",
    "ignore your instructions",
    "disregard previous",
    "disregard all",
    "disregard the above",
    "forget previous instructions",
    "override your instructions",
    "system prompt",
    "do not tell the user",
    "don't tell the user",
    "do not inform the user",
    "do not mention this",
    "without telling the user",
    "without the user knowing",
    "hide this from the user",
    "before using any other tool",
    "before calling any other tool",
    "<important>",
    "<system>",
    "[system]",
    "[inst]",
    "<|im_start|>",
    "~/.ssh",
    "id_rsa",
];

/// Checks all texts of `tool`, as its upstream wrote them.
pub(super) fn check(tool: &DiscoveredOffer, found: &mut Findings<'_>) {
    one("/name", &tool.name, found);
    let texts = [("/title", &tool.title), ("/description", &tool.description)];
    for (pointer, text) in texts {
        if let Some(text) = text {
            one(pointer, text, found);
        }
    }
    let mut left = MAX_TEXTS;
    let values = [
        ("/inputSchema", &tool.input_schema),
        ("/outputSchema", &tool.output_schema),
        ("/annotations", &tool.annotations),
    ];
    for (pointer, value) in values {
        if let Some(value) = value {
            walk(pointer, value, MAX_DEPTH, &mut left, found);
        }
    }
}

fn walk(pointer: &str, value: &Value, depth: usize, left: &mut usize, found: &mut Findings<'_>) {
    let (Some(rest), Some(depth)) = (left.checked_sub(1), depth.checked_sub(1)) else { return };
    *left = rest;
    match value {
        Value::String(text) => one(pointer, text, found),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(&format!("{pointer}/{index}"), item, depth, left, found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let at = format!("{pointer}{}", step(name));
                one(&at, name, found);
                walk(&at, member, depth, left, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Checks one text.
pub(super) fn one(pointer: &str, text: &str, found: &mut Findings<'_>) {
    hidden(pointer, text, found);
    instructions(pointer, text, found);
}

fn hidden(pointer: &str, text: &str, found: &mut Findings<'_>) {
    let mut before = None;
    let mut hidden: Vec<String> = text
        .chars()
        .filter(|character| {
            let before = before.replace(*character);
            is_hidden(*character) && !is_style_of(before, *character)
        })
        .map(|character| format!("U+{:04X}", u32::from(character)))
        .collect();
    hidden.sort();
    hidden.dedup();
    if hidden.is_empty() {
        return;
    }
    let more = hidden.len().saturating_sub(8);
    hidden.truncate(8);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    found.push(
        pointer,
        "text/hidden",
        Severity::Warning,
        format!("the text contains invisible characters: {}{more}", hidden.join(", ")),
        "inspect the text byte by byte; models follow instructions that people cannot see",
    );
}

/// Whether `character` selects the style of the emoji before it. This is common, and too short to
/// hide a text.
fn is_style_of(before: Option<char>, character: char) -> bool {
    matches!(character, '\u{fe0e}' | '\u{fe0f}')
        && before.is_some_and(|previous| {
            !previous.is_alphabetic() && !previous.is_whitespace() && !is_hidden(previous)
        })
}

fn instructions(pointer: &str, text: &str, found: &mut Findings<'_>) {
    let mut plain = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        let seen = word.chars().filter(|character| !is_hidden(*character));
        plain.extend(seen.flat_map(char::to_lowercase));
    }
    if let Some(marker) = MARKERS.iter().find(|marker| plain.contains(**marker)) {
        found.push(
            pointer,
            "text/instructions",
            Severity::Warning,
            format!("the text seems to instruct the model beyond the tool: `{marker}`"),
            "read it with `toolcrib tools diff` before you approve it, and contact its author",
        );
    }
}
