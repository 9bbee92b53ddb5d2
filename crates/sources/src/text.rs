//! Cleans text from upstreams for a log line, a status or a model: single line, no control
//! characters, truncated.

use toolcrib_core::{redact::Redactor, text::is_hidden};

/// Replaces control and invisible formatting characters of `text` by blanks, and truncates it to
/// `max` bytes.
pub(crate) fn tidy(text: &str, max: usize) -> String {
    cleaned(text, max, |character| character.is_control() || is_hidden(character))
}

/// Like [`tidy`], but keeps line breaks and tabs, for text of several lines.
pub(crate) fn tidy_lines(text: &str, max: usize) -> String {
    cleaned(text, max, |character| character == '\r' || is_hidden(character))
}

fn cleaned(text: &str, max: usize, is_blank: impl Fn(char) -> bool) -> String {
    let mut cleaned = String::with_capacity(text.len().min(max));
    for character in text.trim().chars() {
        let shown = if is_blank(character) { ' ' } else { character };
        if cleaned.len() + shown.len_utf8() > max {
            cleaned.push('…');
            break;
        }
        cleaned.push(shown);
    }
    cleaned
}

/// Redacts secrets and URLs in upstream text for callers.
pub(crate) fn fit_for_callers(text: &str) -> String {
    let text = Redactor::default().text(text);
    let mut cleaned = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c: char| c.is_whitespace()) {
        match piece.find("://") {
            None => cleaned.push_str(piece),
            Some(at) => {
                let word = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                let (before, _) = piece.split_at(at);
                cleaned.push_str(before.trim_end_matches(word));
                cleaned.push_str("[address]");
                cleaned.push_str(&piece[piece.trim_end().len()..]);
            }
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_secrets_do_not_get_through() {
        let said = "failed at (http://10.0.0.7:9/x?token=abc)\nretry with sk-1234567890abcdef now";
        let cleaned = fit_for_callers(said);
        assert_eq!(cleaned, "failed at ([address]\nretry with [redacted] now");
        assert_eq!(fit_for_callers("timezone `Mars` is unknown"), "timezone `Mars` is unknown");
    }

    #[test]
    fn control_characters_are_blanked_and_long_text_is_cut_between_characters() {
        assert_eq!(tidy(" a\u{1b}[31mb\nc\u{202e}d ", 100), "a [31mb c d");
        assert_eq!(tidy("äää", 4), "ää…");
        assert_eq!(tidy_lines("a\nb\u{0}c", 100), "a\nb c");
    }
}
