//! Text for people: cleaned, counted, and members of JSON documents as text.

use chrono::SecondsFormat;
use serde_json::Value;
use toolcrib_core::{clock::Timestamp, text::visible};

/// Escapes invisible characters in `text` for people: control characters, except line breaks and
/// tabs, and for example those that change the text direction.
pub(crate) fn harmless(text: &str) -> String {
    visible(text).replace("\r\n", "\n").replace('\r', "\\u000d")
}

/// Returns `count` with the noun `what`, in the plural unless it is one.
pub(crate) fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// Returns `at` in its JSON form.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Returns the text `name` of the JSON object `object`; empty if it is missing or not a text.
pub(crate) fn member<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        let text = "a\u{1b}[2Jb\tc\r\nd\u{7}\u{9b}1m";
        assert_eq!(harmless(text), "a\\u001b[2Jb\tc\nd\\u0007\\u009b1m");
        let hidden = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        for c in hidden.chain(['\u{200e}', '\u{200f}', '\u{200b}', '\r']) {
            let shown = format!("gpj\\u{:04x}exe", u32::from(c));
            assert_eq!(harmless(&format!("gpj{c}exe")), shown, "{c:?}");
        }
    }
}
