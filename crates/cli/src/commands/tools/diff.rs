//! The differences between two forms of a tool, member by member.
//!
//! Invariant: upstream text is escaped for the terminal. Invisible characters, and those that change
//! how others are displayed, are printed as `\u202e`.

use std::fmt::Write as _;

use serde_json::Value;
use toolcrib_core::{
    pin::{Change, changes},
    text::visible_line,
};
use toolcrib_gateway::pins::{PinMoment, PinReport, PinState};

use crate::text::rfc3339;

/// Line limit for one side of a change.
const MAX_LINES: usize = 200;

/// The differences between the last approved form and the pending one.
pub(super) fn changes_of(pin: &PinReport) -> Vec<Change> {
    match &pin.seen {
        Some(seen) => changes(document(pin.approved.as_ref()), document(Some(seen))),
        None => Vec::new(),
    }
}

fn document(form: Option<&PinMoment>) -> Option<&Value> {
    form?.document.as_ref()
}

/// The changes as text.
pub(super) fn text(pin: &PinReport) -> String {
    let mut out = format!("{} (source {}): ", pin.tool_id, pin.source_id);
    out += match (pin.state, pin.quarantined) {
        (PinState::Approved, _) => "as it was approved",
        (PinState::New, true) => "new, quarantined until it is approved",
        (PinState::New, false) => "new, not approved",
        (PinState::Changed, true) => "changed, quarantined until it is approved",
        (PinState::Changed, false) => "changed, not approved",
    };
    if let Some(approved) = &pin.approved {
        let by = match &approved.by {
            Some(by) => format!("approved by {}", visible_line(by.as_str())),
            None if approved.by_other_tenant => "approved from outside your tenant".to_owned(),
            None => "trusted as the first form".to_owned(),
        };
        line(&mut out, format_args!("  {by}, {}", moment(approved)));
    }
    for earlier in &pin.earlier {
        line(&mut out, format_args!("  also approved, {}", moment(earlier)));
    }
    if let Some(seen) = &pin.seen {
        line(&mut out, format_args!("  seen {}", moment(seen)));
    }
    for change in changes_of(pin) {
        line(&mut out, format_args!("  {}", visible_line(&change.pointer)));
        let (old, new) = (lines(change.old.as_ref()), lines(change.new.as_ref()));
        // Prints only the differing part of a long text.
        let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let rest = old.len().min(new.len()) - same;
        let tail = old.iter().rev().zip(new.iter().rev()).take(rest);
        let tail = tail.take_while(|(old, new)| old == new).count();
        for (sign, side) in [('-', &old), ('+', &new)] {
            let differing = side.get(same..side.len() - tail).unwrap_or_default();
            for text in differing.iter().take(MAX_LINES) {
                line(&mut out, format_args!("    {sign} {text}"));
            }
            if differing.len() > MAX_LINES {
                let more = differing.len() - MAX_LINES;
                line(&mut out, format_args!("    {sign} … and {more} lines more"));
            }
        }
    }
    if let Some(remedy) = pin.remedy() {
        line(&mut out, format_args!("  {remedy}"));
    }
    out
}

fn moment(form: &PinMoment) -> String {
    format!("{}, sha256 {}", rfc3339(form.at), form.digest)
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    writeln!(out).and_then(|()| out.write_fmt(text)).ok();
}

fn lines(value: Option<&Value>) -> Vec<String> {
    let text = match value {
        None => return Vec::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    text.split('\n').map(|line| visible_line(line).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pin(old: Value, new: Value) -> PinReport {
        serde_json::from_value(json!({
            "toolId": "mcp:up.a", "sourceId": "up", "name": "up__a", "state": "changed",
            "quarantined": true,
            "approved": { "digest": "d1", "at": "2026-11-21T10:00:00Z", "document": old },
            "seen": { "digest": "d2", "at": "2026-11-22T10:00:00Z", "document": new },
        }))
        .unwrap()
    }

    #[test]
    fn a_change_is_shown_where_it_is_and_with_what_is_not_seen() {
        let old = json!({
            "name": "a", "description": "one\ntwo\nthree",
            "inputSchema": { "properties": { "x/y": { "type": "string" } }, "required": ["x/y"] },
        });
        let mut new = old.clone();
        new["description"] = json!("one\n2\u{202e}\u{1b}[2J\nthree");
        new["inputSchema"]["properties"]["x/y"]["type"] = json!("number");
        new["inputSchema"]["required"] = json!([]);
        new["title"] = json!("A");
        let pin = pin(old, new);
        let places: Vec<_> = changes_of(&pin).into_iter().map(|change| change.pointer).collect();
        let expected = [
            "/description",
            "/inputSchema/properties/x~1y/type",
            "/inputSchema/required",
            "/title",
        ];
        assert_eq!(places, expected);
        let text = text(&pin);
        assert!(text.contains("\n  /description\n    - two\n    + 2\\u202e\\u001b[2J\n"), "{text}");
        assert!(!text.contains("three") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_tool_that_changes_again_and_again_has_a_remedy() {
        let text_of = |change_count: u32| {
            let pin = pin(json!({ "name": "a" }), json!({ "name": "a", "title": "A" }));
            text(&PinReport { change_count, ..pin })
        };
        assert!(!text_of(1).contains("--keep-earlier"), "{}", text_of(1));
        let remedy = "\n  it has changed 2 times: if its forms return, approve each with `toolcrib tools \
                      approve mcp:up.a --keep-earlier`; if each start has a new form, ask its maker \
                      for a stable text, or set `pins = \"warn\"` for the source";
        assert!(text_of(2).ends_with(remedy), "{}", text_of(2));
    }
}
