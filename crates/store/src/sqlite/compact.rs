//! The small form of an event's columns. Each is exact: a value is read as it was written, and a
//! value without a small form is stored as its text.
//!
//! - A UUID is stored as its 16 bytes.
//! - A type is stored as its number in [`EventBody::KINDS`], a time as milliseconds since the Unix
//!   epoch.
//! - A payload is stored as a *form*, the text with marks in place of the parts that differ from
//!   event to event, and those parts. The forms are in a separate table.
//!
//! Rows of another program are read as well: a text stays a text, and a value that no writer stores
//! becomes a text that no writer stores.

use std::{borrow::Cow, collections::HashMap};

use rusqlite::{
    Connection, OptionalExtension as _, Row, ToSql,
    types::{ToSqlOutput, ValueRef},
};
use toolcrib_core::{canonical::Digest, clock::Timestamp, event::EventBody};

use super::{failure::Failure, row::time_text};

/// The number of `agent.toolCalled`.
pub(super) const TOOL_CALLED: i64 = 1;
/// The number of `agent.toolReturned`.
pub(super) const TOOL_RETURNED: i64 = 2;

/// Members whose texts differ from event to event, or from caller to caller.
const DIFFERING: [&str; 5] = ["callId", "sessionId", "gateId", "key", "principal"];

/// The marks in a form. JSON texts of this program have no control characters.
const UUID: char = '\u{1}';
const DIGEST: char = '\u{2}';
const NUMBER: char = '\u{3}';
const TEXT: char = '\u{4}';
const MARKS: [char; 4] = [UUID, DIGEST, NUMBER, TEXT];

/// The bytes of a UUID that follow a hyphen.
const HYPHENS: [usize; 4] = [4, 6, 8, 10];

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// The text for a value that no writer stores.
const FOREIGN: &str = "\0";

/// An id as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Id<'a> {
    Uuid([u8; 16]),
    Text(&'a str),
}

/// A payload as stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The text with marks.
    pub(crate) form: String,
    /// The parts in place of the marks, in their order.
    pub(crate) parts: Vec<u8>,
}

// === impl Id ===

impl<'a> Id<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        match uuid(text) {
            Some(bytes) => Self::Uuid(bytes),
            None => Self::Text(text),
        }
    }

    /// A number for the id, different from that of any other id.
    pub(super) fn key(&self) -> u128 {
        match self {
            Self::Uuid(bytes) => u128::from_be_bytes(*bytes),
            Self::Text(text) => {
                let digest = Digest::of(text.as_bytes()).0;
                digest.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes))
            }
        }
    }
}

impl ToSql for Id<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Uuid(bytes) => ValueRef::Blob(bytes),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

/// The bytes of a UUID in its canonical text form.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let (mut bytes, mut rest) = ([0; 16], text.as_bytes());
    if rest.len() != 36 {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        if HYPHENS.contains(&place) {
            rest = rest.strip_prefix(b"-")?;
        }
        let (pair, after) = rest.split_first_chunk()?;
        (*byte, rest) = (hex(*pair)?, after);
    }
    Some(bytes)
}

/// Appends the canonical text form of a UUID.
fn push_uuid(out: &mut String, bytes: &[u8]) {
    out.reserve(36);
    for (place, byte) in bytes.iter().enumerate() {
        if HYPHENS.contains(&place) {
            out.push('-');
        }
        push_hex(out, *byte);
    }
}

/// Reads an id; `None` when it is null.
pub(super) fn id(row: &Row<'_>, column: usize) -> Option<String> {
    let mut text = String::new();
    push_id(row, column, &mut text).then_some(text)
}

/// Appends an id to `out`; false when it is null.
pub(super) fn push_id(row: &Row<'_>, column: usize, out: &mut String) -> bool {
    match row.get_ref(column) {
        Ok(ValueRef::Null) => return false,
        Ok(ValueRef::Text(bytes)) => out.push_str(&text(bytes)),
        Ok(ValueRef::Blob(bytes)) if bytes.len() == 16 => push_uuid(out, bytes),
        _ => out.push_str(FOREIGN),
    }
    true
}

/// A type as stored.
pub(super) fn kind_value(kind: &str) -> ValueRef<'_> {
    let place = EventBody::KINDS.iter().position(|name| *name == kind);
    match place.and_then(|place| i64::try_from(place + 1).ok()) {
        Some(number) => ValueRef::Integer(number),
        None => ValueRef::Text(kind.as_bytes()),
    }
}

/// Appends a type to `out`.
pub(super) fn push_kind(row: &Row<'_>, column: usize, out: &mut String) {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(number)) => {
            let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            out.push_str(
                place.and_then(|place| EventBody::KINDS.get(place)).map_or(FOREIGN, |kind| kind),
            );
        }
        Ok(ValueRef::Text(bytes)) => out.push_str(&text(bytes)),
        _ => out.push_str(FOREIGN),
    }
}

/// Reads a text. Invalid bytes become a text that no writer stores.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(format!("{}\0", String::from_utf8_lossy(bytes))),
    }
}

// === impl Payload ===

impl Payload {
    /// Splits a JSON text of this program; `None` when it contains marks.
    pub(crate) fn split(payload: &str) -> Option<Self> {
        let bytes = payload.as_bytes();
        if bytes.iter().any(|byte| (UUID as u8..=TEXT as u8).contains(byte)) {
            return None;
        }
        let mut split =
            Self { form: String::with_capacity(payload.len()), parts: Vec::with_capacity(64) };
        // The text between these two positions belongs to the form unchanged.
        let (mut copied, mut place) = (0, 0);
        let mut differs = false;
        while let Some(byte) = bytes.get(place) {
            match byte {
                b'"' => {
                    let string = string(payload.get(place..).unwrap_or_default());
                    let end = place + 1 + string.len();
                    let is_key = bytes.get(end + 1) == Some(&b':');
                    if !is_key {
                        split.form.push_str(payload.get(copied..=place).unwrap_or_default());
                        split.push_string(string, differs);
                        copied = end;
                    }
                    differs = is_key && DIFFERING.contains(&string);
                    place = end + 1;
                }
                b'0'..=b'9' | b'-' => {
                    let rest = payload.get(place..).unwrap_or_default();
                    let is_end =
                        |byte| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                    let length = rest.bytes().position(is_end).unwrap_or(rest.len());
                    split.form.push_str(payload.get(copied..place).unwrap_or_default());
                    split.push_number(rest.get(..length).unwrap_or_default());
                    place += length;
                    copied = place;
                }
                _ => place += 1,
            }
        }
        split.form.push_str(payload.get(copied..).unwrap_or_default());
        Some(split)
    }

    /// Adds the content of a string.
    fn push_string(&mut self, content: &str, differs: bool) {
        if let Some(bytes) = uuid(content) {
            self.form.push(UUID);
            self.parts.extend(bytes);
        } else if let Some(digest) = Digest::parse(content) {
            self.form.push(DIGEST);
            self.parts.extend(digest.0);
        } else if differs {
            self.form.push(TEXT);
            self.push_length(content.len() as u64);
            self.parts.extend(content.as_bytes());
        } else {
            self.form.push_str(content);
        }
    }

    fn push_number(&mut self, digits: &str) {
        match digits.parse::<u64>() {
            // Only a number without leading zeros is printed back unchanged.
            Ok(number) if digits == "0" || !digits.starts_with('0') => {
                self.form.push(NUMBER);
                self.push_length(number);
            }
            _ => self.form.push_str(digits),
        }
    }

    /// Adds a number, seven bits per byte, the lowest first.
    fn push_length(&mut self, mut number: u64) {
        loop {
            let low = u8::try_from(number & 0x7f).unwrap_or_default();
            number >>= 7;
            if number == 0 {
                return self.parts.push(low);
            }
            self.parts.push(low | 0x80);
        }
    }
}

/// Appends the payload of a form and its parts to `payload`; `None` when they do not fit.
pub(crate) fn join(form: &str, mut parts: &[u8], payload: &mut String) -> Option<()> {
    payload.reserve(form.len() + 2 * parts.len());
    for piece in form.split_inclusive(MARKS) {
        let Some((text, mark)) = piece.char_indices().next_back() else { continue };
        let Some(kept) = MARKS.contains(&mark).then(|| piece.get(..text)).flatten() else {
            payload.push_str(piece);
            continue;
        };
        payload.push_str(kept);
        match mark {
            UUID => {
                push_uuid(payload, take(&mut parts, 16)?);
            }
            DIGEST => take(&mut parts, 32)?.iter().for_each(|byte| push_hex(payload, *byte)),
            NUMBER => payload.push_str(&length(&mut parts)?.to_string()),
            _ => {
                let length = usize::try_from(length(&mut parts)?).ok()?;
                payload.push_str(std::str::from_utf8(take(&mut parts, length)?).ok()?);
            }
        }
    }
    parts.is_empty().then_some(())
}

/// The content of the string at the start of `rest`, with its escapes.
fn string(rest: &str) -> &str {
    let mut is_escaped = false;
    let content = rest.get(1..).unwrap_or_default();
    let end = content.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    content.get(..end.unwrap_or(content.len())).unwrap_or_default()
}

/// Parses a byte from two digits in lower case.
fn hex([high, low]: [u8; 2]) -> Option<u8> {
    Some(nibble(high)? << 4 | nibble(low)?)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn push_hex(out: &mut String, byte: u8) {
    for digit in [byte >> 4, byte & 0xf] {
        out.push(char::from(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }));
    }
}

fn take<'a>(parts: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = parts.split_at_checked(length)?;
    *parts = rest;
    Some(taken)
}

fn length(parts: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *take(parts, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Reads payloads and times of many rows. Each form is read from the file once.
pub(super) struct Forms<'a> {
    connection: &'a Connection,
    known: HashMap<i64, Option<String>>,
    /// The number of a day, and its text up to `T`. Verification formats a million times.
    day: Option<(i64, String)>,
}

// === impl Forms ===

impl<'a> Forms<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, known: HashMap::new(), day: None }
    }

    /// Reads a payload from the columns `form` and `payload`, which follow one another.
    pub(super) fn payload(&mut self, row: &Row<'_>, column: usize) -> Result<String, Failure> {
        let mut payload = String::new();
        self.push_payload(row, column, &mut payload)?;
        Ok(payload)
    }

    /// Like [`Forms::payload`], into an empty `out`.
    pub(super) fn push_payload(
        &mut self,
        row: &Row<'_>,
        column: usize,
        out: &mut String,
    ) -> Result<(), Failure> {
        let is_whole = match (row.get_ref(column), row.get_ref(column + 1)) {
            (Ok(ValueRef::Null), Ok(ValueRef::Text(bytes))) => {
                out.push_str(&text(bytes));
                true
            }
            (Ok(ValueRef::Integer(number)), Ok(ValueRef::Blob(parts))) => {
                self.form(number)?.and_then(|form| join(form, parts, out)).is_some()
            }
            _ => false,
        };
        if !is_whole {
            out.clear();
            out.push_str(FOREIGN);
        }
        Ok(())
    }

    /// Appends a time as text to `out`.
    pub(super) fn push_timestamp(&mut self, row: &Row<'_>, column: usize, out: &mut String) {
        match row.get_ref(column) {
            Ok(ValueRef::Integer(millis)) => self.push_time(millis, out),
            Ok(ValueRef::Text(bytes)) => out.push_str(&text(bytes)),
            _ => out.push_str(FOREIGN),
        }
    }

    /// Appends the same text as [`time_text`].
    fn push_time(&mut self, millis: i64, text: &mut String) {
        let (day, rest) = (millis.div_euclid(DAY), millis.rem_euclid(DAY));
        if self.day.as_ref().is_none_or(|known| known.0 != day) {
            let Some(at) = Timestamp::from_timestamp_millis(millis) else {
                return text.push_str(FOREIGN);
            };
            let whole = time_text(at);
            let date = whole.split_inclusive('T').next().unwrap_or_default();
            self.day = Some((day, date.to_owned()));
        }
        let date = self.day.as_ref().map_or("", |known| &known.1);
        text.reserve(date.len() + 13);
        text.push_str(date);
        let (seconds, minutes) = (rest / 1000, rest / 60_000);
        for (number, places, end) in [
            (minutes / 60, 2, ':'),
            (minutes % 60, 2, ':'),
            (seconds % 60, 2, '.'),
            (rest % 1000, 3, 'Z'),
        ] {
            for place in (0..places).rev() {
                let digit = u8::try_from(number / 10_i64.pow(place) % 10).unwrap_or_default();
                text.push(char::from(b'0' + digit));
            }
            text.push(end);
        }
    }

    fn form(&mut self, number: i64) -> Result<Option<&str>, Failure> {
        if !self.known.contains_key(&number) {
            let sql = "SELECT text FROM forms WHERE number = ?1";
            let mut statement = self.connection.prepare_cached(sql)?;
            let bytes = |row: &Row<'_>| {
                Ok(row.get_ref(0)?.as_bytes().ok().map(|raw| text(raw).into_owned()))
            };
            let form = statement.query_row([number], bytes).optional()?.flatten();
            self.known.insert(number, form);
        }
        Ok(self.known.get(&number).and_then(|form| form.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conformance::event_log::{called, closed, decided, egress, opened, returned};

    fn joined(form: &str, parts: &[u8]) -> Option<String> {
        let mut payload = String::new();
        join(form, parts, &mut payload).map(|()| payload)
    }

    fn round_trip(payload: &str) -> Payload {
        let split = Payload::split(payload).unwrap();
        assert_eq!(joined(&split.form, &split.parts).as_deref(), Some(payload));
        split
    }

    #[test]
    fn events_of_one_kind_share_a_form() {
        let name = |number: u32| format!("018f0000-0000-7000-8000-0000000000{number:02}");
        let forms = |call: &str| {
            let call = called("t", "r", "e", call);
            let session = opened("t", "r", "e", "s");
            [call.clone(), returned(&call, "x"), egress(&call, "x"), closed(&session, "x"), session]
                .map(|event| round_trip(&event.body.payload_text().unwrap()).form)
        };
        assert_eq!(forms(&name(1)), forms(&name(2)));
        assert_eq!(forms("call-1"), forms("another-call"));
        let split = round_trip(&called("t", "r", "e", &name(1)).body.payload_text().unwrap());
        assert_eq!(split.parts.len(), 16 + 32 + 1 + "alice".len());
        let decided = decided("t", "r", "e").body.payload_text().unwrap();
        assert!(round_trip(&decided).form.contains("\"allowed\":false"), "the rest is readable");
    }

    #[test]
    fn unusual_texts_are_exact() {
        for payload in [
            "",
            "{}",
            "\"",
            "\"a\\",
            "{\"callId\":\"a\\\"b\\\\\",\"n\":007,\"m\":-1.5e+9,\"k\":18446744073709551616}",
            "{\"principal\":\"é\",\"x\":\"018F0000-0000-7000-8000-000000000001\"}",
            "{\"x\":\"018f00000000700080000000000000018f00\",\"callId\":\"\"}",
            "[0,18446744073709551615,\"é\\u0001\"]",
        ] {
            round_trip(payload);
        }
        assert_eq!(Payload::split("\u{3}"), None);
        for (form, parts) in
            [("\u{1}", &[0; 15][..]), ("\u{3}", &[0x80]), ("", &[1]), ("\u{4}", &[2, 65])]
        {
            assert_eq!(joined(form, parts), None, "{form:?}");
        }
    }

    #[test]
    fn every_type_has_its_number() {
        for (place, kind) in EventBody::KINDS.iter().enumerate() {
            let number = i64::try_from(place + 1).unwrap();
            assert_eq!(kind_value(kind), ValueRef::Integer(number));
        }
        assert_eq!(kind_value("agent.toolCalled"), ValueRef::Integer(TOOL_CALLED));
        assert_eq!(kind_value("agent.toolReturned"), ValueRef::Integer(TOOL_RETURNED));
        assert_eq!(kind_value("other"), ValueRef::Text(b"other"));
    }

    proptest! {
        #[test]
        fn any_time_is_exact(millis in -62_200_000_000_000..253_500_000_000_000_i64, more in 0..DAY) {
            let connection = Connection::open_in_memory().unwrap();
            let mut forms = Forms::new(&connection);
            for millis in [millis, millis + more, millis + 2 * DAY, millis] {
                let at = Timestamp::from_timestamp_millis(millis).unwrap();
                let mut text = String::new();
                forms.push_time(millis, &mut text);
                prop_assert_eq!(text, time_text(at));
            }
        }

        #[test]
        fn any_text_is_exact(payload in "([\"\\\\:,{}0-9a-f.-]|\"callId\":\"|é|[0-9a-f]{64}){0,40}") {
            round_trip(&payload);
        }

        #[test]
        fn any_id_is_exact(text in "[0-9a-fA-F]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}") {
            if let Id::Uuid(bytes) = Id::new(&text) {
                prop_assert_eq!(uuid::Uuid::from_bytes(bytes).to_string(), text.clone());
                let mut again = String::new();
                push_uuid(&mut again, &bytes);
                prop_assert_eq!(again, text);
            } else {
                prop_assert!(text.chars().any(|letter| letter.is_ascii_uppercase()));
            }
        }
    }
}
