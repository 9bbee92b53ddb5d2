//! Invisible characters in text.
//!
//! Invariant (I-53): upstream text about tools reaches callers without characters that models see
//! and people do not: controls, zero-width and direction marks, tags, fillers.

use std::{borrow::Cow, time::Duration};

use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

/// Whether `character` is invisible, or invisibly changes how its neighbours are shown. Line breaks
/// and tabs count as visible.
pub fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\r' | '\t' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{feff}' => true,
        // Fillers: letters without a shape.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' => true,
        '\u{1d159}' | '\u{1d173}'..='\u{1d17a}' | '\u{16fe4}' | '\u{2800}' => true,
        '\u{13430}'..='\u{13440}' | '\u{13447}'..='\u{13455}' => true,
        // Variation selectors and tags, which can spell any text.
        '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

/// Whether `text` has a character that a one-line name must not have: a hidden one, or any other
/// control character, including line breaks and tabs.
pub fn has_hidden(text: &str) -> bool {
    hides(text) || text.contains(['\n', '\r', '\t'])
}

fn hides(text: &str) -> bool {
    // Most text is printable ASCII, of which many bytes are compared at a time without a branch.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t');
    !text.bytes().fold(true, |plain, byte| plain & is_plain(byte)) && text.chars().any(is_hidden)
}

/// Normalizes a name for storage, so that names that look the same are the same: NFC, a single
/// space for each run of spaces of any kind, and no space at the start or end.
pub fn plain_name(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").nfc().collect()
}

/// Whether people see no character of `text`: it has only spaces, hidden characters and marks
/// without a letter.
pub fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|character| character.is_whitespace() || is_hidden(character) || is_mark(character))
}

/// Whether `character` is in a block of marks that are drawn over other characters.
fn is_mark(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{fe20}'..='\u{fe2f}'
    )
}

/// Returns `text` for people, with a visible escape in place of each hidden character: one `\uXXXX`
/// for each of its UTF-16 code units. JSON text stays the same JSON. The page has the same function
/// (`ui/lib/visible.js`).
///
/// Invariant (I-53): text that others wrote is shown to people through this function.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// As [`visible`], on one line: line breaks and tabs are escapes too.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character.is_control() || is_hidden(character))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_escaped(character) {
            true => shown.push_str(&escape(character)),
            false => shown.push(character),
        }
    }
    shown.into()
}

/// The JSON escape of `character`.
fn escape(character: char) -> String {
    let mut units = [0; 2];
    let units = character.encode_utf16(&mut units);
    units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Why a file or program could not be used, as part of a message. The standard library's own text
/// calls a file an entity.
pub fn io_reason(kind: std::io::ErrorKind) -> String {
    match kind {
        std::io::ErrorKind::NotFound => "not found".to_owned(),
        std::io::ErrorKind::AlreadyExists => "already exists".to_owned(),
        other => other.to_string(),
    }
}

/// Formats `duration` for people, no finer than a millisecond.
pub fn duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    format!("{:?}", Duration::from_millis(millis.max(1)))
}

/// Removes invisible characters from `text`.
pub fn seen(text: &str) -> Cow<'_, str> {
    match hides(text) {
        true => text.chars().filter(|character| !is_hidden(*character)).collect::<String>().into(),
        false => text.into(),
    }
}

/// Does the same as [`clean`], on a copy if `value` must change.
pub fn cleaned(value: &Value) -> Cow<'_, Value> {
    if !hides_within(value) {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    clean(&mut value);
    Cow::Owned(value)
}

fn hides_within(value: &Value) -> bool {
    match value {
        Value::String(text) => hides(text),
        Value::Array(items) => items.iter().any(hides_within),
        Value::Object(members) => {
            members.iter().any(|(name, member)| hides(name) || hides_within(member))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Removes invisible characters from every text in `value`, including names of members. Arguments
/// must be checked against the cleaned schema, because callers know only that one.
pub fn clean(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = seen(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(members) => {
            if members.keys().any(|name| hides(name)) {
                *members = std::mem::take(members)
                    .into_iter()
                    .map(|(name, member)| (seen(&name).into_owned(), member))
                    .collect();
            }
            members.iter_mut().for_each(|(_, member)| clean(member));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_duration_has_no_nanoseconds() {
        for (nanos, text) in [
            (9_998_734_512, "9.998s"),
            (30_000_000_000, "30s"),
            (250_000_000, "250ms"),
            (17, "1ms"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn a_missing_file_is_not_called_an_entity() {
        for kind in [std::io::ErrorKind::NotFound, std::io::ErrorKind::AlreadyExists] {
            assert!(!io_reason(kind).contains("entity"), "{kind:?}");
        }
    }

    #[test]
    fn a_name_has_no_hidden_characters() {
        for hidden in
            ["\u{200e}", "\u{200f}", "\u{2028}", "\u{feff}", "\n", "\t", "\u{7f}", "\u{9b}"]
        {
            assert!(has_hidden(&format!("a{hidden}b")), "{hidden:?}");
        }
        for hidden in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            assert!(has_hidden(&format!("a{hidden}b")), "{hidden:?}");
        }
        assert!(!has_hidden("the build server's key, \"naïve\" 日本 🙂 עברית"));
    }

    // I-53
    #[test]
    fn the_page_and_this_program_escape_the_same_characters() {
        let table = include_str!("../../../tests/browser/hidden.json");
        let table: Value = serde_json::from_str(table).unwrap();
        let mut hidden: Vec<[u32; 2]> = Vec::new();
        for character in
            (0..=0x10_ffff).filter_map(char::from_u32).filter(|character| is_hidden(*character))
        {
            let code = u32::from(character);
            match hidden.last_mut() {
                Some(range) if range[1] + 1 == code => range[1] = code,
                _ => hidden.push([code, code]),
            }
        }
        assert_eq!(json!(hidden), table["hidden"]);
        for pair in table["shown"].as_array().unwrap() {
            assert_eq!(visible(pair[0].as_str().unwrap()), pair[1].as_str().unwrap(), "{pair}");
        }
    }

    // I-53
    #[test]
    fn json_with_escapes_is_the_same_json() {
        let value = json!({ "a\u{202e}": ["\u{e0041}x\n", "\u{7f}\u{9b}"] });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = visible(&text);
        assert!(shown.contains("\\u202e") && shown.contains("\\udb40\\udc41"), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        assert_eq!(visible_line("a\nb\u{202e}"), "a\\u000ab\\u202e");
        assert!(matches!(visible("naïve 日本 🙂\r\n\t"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_text_that_shows_nothing_is_blank() {
        for blank in [
            "",
            " \n\t",
            "\u{200b}\u{2060}",
            "\u{a0}\u{3000}",
            "\u{2800}\u{3164}",
            "\u{301}",
            "\u{fe0f}",
        ] {
            assert!(is_blank(blank), "{blank:?}");
        }
        assert!(!is_blank("\u{202e}.") && !is_blank("ok"));
    }

    #[test]
    fn hidden_characters_are_taken_out_of_names_and_values() {
        let mut value =
            json!({ "a\u{200b}": ["x\u{e0041}y\n", 1], "b": { "c\u{7}": "d\u{202e}" } });
        clean(&mut value);
        assert_eq!(value, json!({ "a": ["xy\n", 1], "b": { "c": "d" } }));
        assert!(matches!(seen("naïve 日本 🙂\r\n"), Cow::Borrowed(_)));
    }
}
