//! Texts with `*` for any characters.

/// A text in which `*` matches any characters. Letters match in both cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPattern(Box<str>);

impl TextPattern {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_lowercase().into())
    }

    /// Creates a pattern that matches texts with `text` in them.
    pub(super) fn within(text: &str) -> Self {
        Self::new(&format!("*{text}*"))
    }

    /// Whether only one text matches, apart from the case of its letters.
    pub(super) fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// Whether `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let mut parts = self.0.split('*');
        let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
            return false;
        };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        let Some(mut rest) = rest.strip_suffix(last) else { return false };
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_case_does_not_matter() {
        for (pattern, text, fits) in [
            ("ada", "ada", true),
            ("ada", "Ada", true),
            ("ADA", "ada", true),
            ("ada", "adam", false),
            ("*", "", true),
            ("a*", "a", true),
            ("a*a", "a", false),
            ("files__*", "files__read", true),
            ("*read*", "files__read_file", true),
            ("f*read*file", "files__read_file", true),
            ("f*read*read*", "files__read_file", false),
            ("**", "x", true),
            ("çelik*", "ÇELIK.a", true),
        ] {
            assert_eq!(TextPattern::new(pattern).matches(text), fits, "{pattern} {text}");
        }
        assert!(TextPattern::within("Read").matches("files__read_file"));
    }
}
