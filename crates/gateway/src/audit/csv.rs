//! Events as CSV (RFC 4180), for spreadsheets: one event per row.

use std::borrow::Cow;

use serde_json::Value;

use crate::audit::search::FoundEvent;

/// The media type. `header` announces the row of [`write_header`] (RFC 4180).
pub const CONTENT_TYPE: &str = "text/csv; charset=utf-8; header=present";

const COLUMNS: [&str; 14] = [
    "time",
    "event",
    "principal",
    "tool",
    "status",
    "code",
    "action",
    "resource",
    "took_ms",
    "run",
    "event_id",
    "position",
    "hash",
    "actors",
];
/// The members of payloads with the object of an event other than a tool: the resource of a denial, a
/// key, a session of the console, a saved item, a host.
const RESOURCES: [&str; 5] = [
    "/payload/resource",
    "/payload/keyId",
    "/payload/savedId",
    "/payload/sessionId",
    "/payload/destination",
];
/// Characters at the start of a cell that make spreadsheets run it as a formula.
const FORMULAS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Appends the row with the names of the columns.
pub fn write_header(out: &mut Vec<u8>) {
    write_row(COLUMNS.map(Cow::Borrowed), out);
}

/// Appends a row for each of `events`.
pub fn write(events: &[FoundEvent], out: &mut Vec<u8>) {
    for event in events {
        write_row(row(event), out);
    }
}

fn row(found: &FoundEvent) -> [Cow<'_, str>; COLUMNS.len()] {
    let event = &found.logged.event;
    let body = serde_json::to_value(&event.body).unwrap_or_default();
    let member = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let code = member("/payload/error/code").or_else(|| member("/payload/reason"));
    let owned = |cell: Option<String>| text(&cell.unwrap_or_default()).into_owned().into();
    let resource = RESOURCES.iter().find_map(|pointer| member(pointer));
    let time = event.timestamp.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let actors = body.pointer("/payload/actors").and_then(Value::as_array);
    let actors: Vec<&str> = actors.into_iter().flatten().filter_map(Value::as_str).collect();
    let took = found.run_time.map(|millis| millis.to_string());
    [
        time.into(),
        event.body.kind().into(),
        text(&found.principal),
        text(&found.tool),
        found.status.into(),
        owned(code),
        owned(member("/payload/action")),
        owned(resource),
        took.unwrap_or_default().into(),
        text(event.run_id.as_str()),
        text(event.event_id.as_str()),
        found.logged.position.to_string().into(),
        found.logged.link.hash.to_string().into(),
        text(&actors.join(" ")).into_owned().into(),
    ]
}

/// Protects a text that a caller chose: if a spreadsheet would run it, the cell starts with `'`.
fn text(text: &str) -> Cow<'_, str> {
    if text.starts_with(FORMULAS) { format!("'{text}").into() } else { text.into() }
}

fn write_row(cells: [Cow<'_, str>; COLUMNS.len()], out: &mut Vec<u8>) {
    let mut writer = ::csv::Writer::from_writer(out);
    // Writing into a vector never fails.
    writer.write_record(cells.iter().map(|cell| cell.as_bytes())).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_and_quotes_are_kept() {
        let mut out = Vec::new();
        let mut cells = COLUMNS.map(Cow::Borrowed);
        cells[2] = text("=cmd|' /C calc'!A0");
        cells[3] = text("a \"b\", c");
        write_row(cells, &mut out);
        let line = String::from_utf8(out).unwrap();
        assert!(
            line.starts_with("time,event,'=cmd|' /C calc'!A0,\"a \"\"b\"\", c\",status,"),
            "{line}"
        );
        for safe in ["", "ada", "mcp:files.read"] {
            assert_eq!(text(safe), safe);
        }
    }
}
