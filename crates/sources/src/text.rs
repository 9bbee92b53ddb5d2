//! Foreign text made fit for a log line, a status or a model: one line, no control characters, cut.

/// `text` with control and invisible formatting characters as blanks, at most `max` bytes.
pub(crate) fn tidy(text: &str, max: usize) -> String {
    let mut tidy = String::with_capacity(text.len().min(max));
    for character in text.trim().chars() {
        let shown = if hidden(character) { ' ' } else { character };
        if tidy.len() + shown.len_utf8() > max {
            tidy.push('…');
            break;
        }
        tidy.push(shown);
    }
    tidy
}

/// Like [`tidy`], but line breaks and tabs stay: for text of several lines.
pub(crate) fn tidy_lines(text: &str, max: usize) -> String {
    let mut tidy = String::with_capacity(text.len().min(max));
    for character in text.trim().chars() {
        let kept = matches!(character, '\n' | '\t') || !hidden(character);
        let shown = if kept { character } else { ' ' };
        if tidy.len() + shown.len_utf8() > max {
            tidy.push('…');
            break;
        }
        tidy.push(shown);
    }
    tidy
}

/// Control characters, and the ones that change how neighbours are shown without being seen.
fn hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_blanked_and_long_text_is_cut_between_characters() {
        assert_eq!(tidy(" a\u{1b}[31mb\nc\u{202e}d ", 100), "a [31mb c d");
        assert_eq!(tidy("äää", 4), "ää…");
        assert_eq!(tidy_lines("a\nb\u{0}c", 100), "a\nb c");
    }
}
