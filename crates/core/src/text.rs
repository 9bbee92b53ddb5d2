//! Invisible characters in text.
//!
//! Invariant (I-53): upstream text about tools reaches callers without characters that models see
//! and people do not: controls, zero-width and direction marks, tags, fillers.

use std::{borrow::Cow, time::Duration};

use serde_json::Value;

/// Returns whether `character` is invisible, or invisibly changes how its neighbours are shown.
/// Line breaks and tabs count as visible.
pub fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\r' | '\t' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{feff}' => true,
        // Fillers: letters without a shape.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' => true,
        // Tags and the second block of variation selectors, which can spell any text.
        '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

/// Returns whether `text` has a character that a one-line name must not have: a hidden one, or any
/// other control character, line breaks and tabs included.
pub fn has_hidden(text: &str) -> bool {
    text.chars().any(|character| character.is_control() || is_hidden(character))
}

/// Returns why a file or program could not be used, as part of a message. The standard library's
/// own text calls a file an entity.
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

/// Returns `text` without invisible characters.
pub fn seen(text: &str) -> Cow<'_, str> {
    match text.chars().any(is_hidden) {
        true => text.chars().filter(|character| !is_hidden(*character)).collect::<String>().into(),
        false => text.into(),
    }
}

/// Removes invisible characters from every text in `value`, names of members included. Arguments
/// must be checked against the cleaned schema, because that is the one that callers know.
pub fn clean(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = seen(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(members) => {
            if members.keys().any(|name| name.chars().any(is_hidden)) {
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

    #[test]
    fn hidden_characters_are_taken_out_of_names_and_values() {
        let mut value =
            json!({ "a\u{200b}": ["x\u{e0041}y\n", 1], "b": { "c\u{7}": "d\u{202e}" } });
        clean(&mut value);
        assert_eq!(value, json!({ "a": ["xy\n", 1], "b": { "c": "d" } }));
        assert!(matches!(seen("naïve 日本 🙂\r\n"), Cow::Borrowed(_)));
    }
}
