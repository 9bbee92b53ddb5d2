//! Converts JSON with comments and trailing commas, as in editor settings, to JSON.

/// Replaces comments and trailing commas with spaces, which keeps lines and columns.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '"' => string(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => c.len_utf8(),
        };
        let (token, after) = rest.split_at(taken);
        match c {
            '/' if taken > 1 => out.push_str(&blank(token)),
            ',' if closes_next(after) => out.push(' '),
            _ => out.push_str(token),
        }
        rest = after;
    }
    out
}

/// The length in bytes of the string literal at the start of `text`.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Whether the next token in `text`, after spaces and comments, closes an object or array.
fn closes_next(text: &str) -> bool {
    let mut rest = text.trim_start();
    loop {
        if rest.starts_with("//") {
            rest = rest.find('\n').and_then(|end| rest.get(end..)).unwrap_or_default().trim_start();
        } else if rest.starts_with("/*") {
            rest = rest
                .find("*/")
                .and_then(|end| rest.get(end + 2..))
                .unwrap_or_default()
                .trim_start();
        } else {
            return rest.starts_with(['}', ']']);
        }
    }
}

fn blank(comment: &str) -> String {
    comment.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_go_and_strings_stay() {
        let text = r#"{
  // a comment with "quotes", and a comma
  "url": "https://a.example/*not a comment*/", /* { */
  "say": "\"//\\", "list": [1, 2, /* last */ ],
}"#;
        let value: serde_json::Value = serde_json::from_str(&plain(text)).unwrap();
        assert_eq!(
            value,
            serde_json::json!({
                "url": "https://a.example/*not a comment*/", "say": "\"//\\", "list": [1, 2]
            })
        );
        assert_eq!(plain(text).lines().count(), text.lines().count());
    }

    #[test]
    fn nothing_makes_it_loop_or_panic() {
        for text in ["", "\"", "\"\\", "/", "/*", "//", ",", ",//", "\u{feff}{}", "é,]", "/*é*/"]
        {
            assert!(plain(text).chars().count() <= text.chars().count());
        }
        assert_eq!(plain("{}//"), "{}  ");
    }
}
