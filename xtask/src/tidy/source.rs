//! Just enough of Rust's grammar to separate code from comments and strings, and product from tests.

use std::ops::Range;

/// One file, split into product code, tests, and comments and literals.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    text: &'a str,
    /// As long as the text, with comments and the insides of literals blanked.
    code: String,
    /// Parts that are compiled for tests only.
    tests: Vec<Range<usize>>,
    /// Comments and literals with their delimiters.
    blanked: Vec<Range<usize>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(path: &str, text: &'a str) -> Self {
        let (code, blanked) = masked(text);
        let whole = path.contains("/tests/")
            || path.ends_with("/tests.rs")
            || code.trim_start().starts_with("#![cfg(test)]");
        let tests =
            if whole { std::iter::once(0..text.len()).collect() } else { test_items(&code) };
        Self { text, code, tests, blanked }
    }

    /// Lines of product code: number from 1, and the code on it.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut start = 0;
        self.code.split_inclusive('\n').enumerate().filter_map(move |(index, line)| {
            let at = start;
            start += line.len();
            let tested = self.tests.iter().any(|range| range.contains(&at));
            (!tested).then_some((index + 1, line))
        })
    }

    /// All product code, tests blanked.
    pub(crate) fn product(&self) -> String {
        let lines = self.product_lines().map(|(_, line)| line);
        lines.collect()
    }

    /// Lines of product comments, without their slashes.
    pub(crate) fn comments(&self) -> impl Iterator<Item = &str> {
        let blanked = self.blanked().filter(|text| text.starts_with('/'));
        blanked
            .flat_map(str::lines)
            .map(|line| line.trim_start().trim_start_matches(['/', '!', '*']))
    }

    /// The insides of product strings.
    pub(crate) fn strings(&self) -> impl Iterator<Item = &str> {
        let blanked = self.blanked().filter(|text| text.contains('"') && !text.starts_with('/'));
        blanked.map(|text| text.trim_start_matches(['b', 'c', 'r', '#']).trim_matches(['#', '"']))
    }

    /// Comments and literals of product code.
    fn blanked(&self) -> impl Iterator<Item = &str> {
        let tested = |at: usize| self.tests.iter().any(|range| range.contains(&at));
        let product = self.blanked.iter().filter(move |range| !tested(range.start));
        product.filter_map(|range| self.text.get(range.clone()))
    }

    /// The text of tests, comments included.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().filter_map(|range| self.text.get(range.clone()))
    }
}

/// Whether `code` has `word`, whole: `axum` is in `axum::Router` and not in `axum_core`.
/// A word may itself hold `::`.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code.get(..at).and_then(|text| text.chars().next_back());
        let after = code.get(at + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

/// Blanks comments and string and character literals; returns their places. Newlines stay.
fn masked(text: &str) -> (String, Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(bytes.len());
    let (mut at, mut blanked) = (0, Vec::new());
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let length = match literal(rest, at > 0 && is_word(bytes.get(at - 1))) {
            Some(length) => length,
            None => {
                // Only ASCII matters to the checks; other characters keep their length.
                let byte = rest.first().copied().unwrap_or(b' ');
                code.push(if byte.is_ascii() { char::from(byte) } else { ' ' });
                at += 1;
                continue;
            }
        };
        let hidden = rest.get(..length).unwrap_or(rest);
        code.extend(hidden.iter().map(|byte| if *byte == b'\n' { '\n' } else { ' ' }));
        blanked.push(at..at + hidden.len());
        at += hidden.len();
    }
    (code, blanked)
}

/// How long the comment or literal is that starts here, if one does.
fn literal(rest: &[u8], in_word: bool) -> Option<usize> {
    let end = rest.len();
    match rest {
        [b'/', b'/', ..] => Some(rest.iter().position(|byte| *byte == b'\n').unwrap_or(end)),
        [b'/', b'*', ..] => Some(block_comment(rest)),
        [b'"', ..] => Some(quoted(rest)),
        [b'r', b'"' | b'#', ..] if !in_word => raw(rest.get(1..)?).map(|length| length + 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !in_word => {
            raw(rest.get(2..)?).map(|length| length + 2)
        }
        [b'\'', b'\\', ..] => {
            let close = rest.iter().skip(3).position(|byte| *byte == b'\'')?;
            Some(close + 4)
        }
        // 'x', but not the lifetime in &'x str. A character has at most four bytes.
        [b'\'', tail @ ..] => {
            let close = tail.iter().take(5).skip(1).position(|byte| *byte == b'\'')? + 1;
            let inside = std::str::from_utf8(tail.get(..close)?).ok()?;
            (inside.chars().count() == 1).then_some(close + 2)
        }
        _ => None,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        match rest.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") if depth == 1 => return at + 2,
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            Some(_) => at += 1,
            None => return rest.len(),
        }
    }
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match rest.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return at + 1,
            Some(_) => at += 1,
            None => return rest.len(),
        }
    }
}

/// A raw string from its first `#` or quote on; `None` for a raw identifier.
fn raw(rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    if rest.get(hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let inside = rest.get(hashes + 1..)?;
    let length = inside.windows(close.len()).position(|window| window == close);
    Some(length.map_or(rest.len(), |length| hashes + 1 + length + close.len()))
}

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Every item under `#[cfg(test)]`: to its closing brace, or its semicolon.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    for (start, _) in code.match_indices("#[cfg(test)]") {
        if items.last().is_some_and(|item| item.contains(&start)) {
            continue;
        }
        let mut depth = 0_usize;
        let end = code.bytes().enumerate().skip(start).find_map(|(at, byte)| {
            match byte {
                b'{' => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            (depth == 0 && matches!(byte, b'}' | b';')).then_some(at + 1)
        });
        items.push(start..end.unwrap_or(code.len()));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let text = r##"use a; // axum
/* axum /* nested */ axum */ let s = "axum \" axum"; let r = r#"axum " axum"#;
let c = '"'; let l: &'static str = b"axum"; let e = '\''; let u = '\u{1F600}'; axum::run();"##;
        let (code, _) = masked(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.matches("axum").count(), 1);
        assert!(code.contains("axum::run()"));
        assert!(code.contains("&'static str"));
    }

    #[test]
    fn comments_and_strings_of_the_product_are_found() {
        let text = "//! One\nlet a = \"two /* no */\"; /* three\n * four */ let b = 'x';\n\
                    let c = r#\"five\"#;\n#[cfg(test)]\nmod tests { /* six */ f(\"seven\") }\n";
        let source = Source::new("crates/core/src/a.rs", text);
        let comments: Vec<&str> = source.comments().map(str::trim).collect();
        assert_eq!(comments, ["One", "three", "four */"]);
        assert_eq!(source.strings().collect::<Vec<_>>(), ["two /* no */", "five"]);
    }

    #[test]
    fn tests_are_told_from_product() {
        let text = "use a;\n#[cfg(test)]\nmod tests {\n    // I-7\n    fn f() { b() }\n}\nfn c() {}\n#[cfg(test)]\nmod more;\nfn d() {}\n";
        let source = Source::new("crates/core/src/a.rs", text);
        let product = source.product();
        assert!(
            product.contains("use a;") && product.contains("fn c()") && product.contains("fn d()")
        );
        assert!(!product.contains("b()") && !product.contains("more"));
        assert!(source.tests().any(|text| text.contains("I-7")));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("axum::Router", "axum"));
        assert!(has_word("{axum}", "axum"));
        assert!(!has_word("axum_core::x", "axum"));
        assert!(!has_word("my_axum", "axum"));
        assert!(has_word("std::process::Command::new()", "process::Command"));
        assert!(!has_word("std::process::CommandLine", "process::Command"));
    }
}
