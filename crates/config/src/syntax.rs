//! Errors of an invalid TOML text: the line, the column, the place, and frequent causes.
//!
//! Invariant: a message contains no value of the file, because it may be a secret.

use std::ops::Range;

use toml::de::Error;

use super::{
    error::{LinePosition, Problem},
    places::Places,
    slips,
};

/// The message for JSON.
const JSON: &str = "this is JSON, and the configuration is TOML: a tool server is `[[source]]` with \
                    `id = \"files\"`, `kind = \"mcp\"` and `command = [\"npx\", …]`, one per line; \
                    `toolcrib import FILE` converts the file of a client";

/// Converts `errors` into problems, at most one per line: a second error on the same line is
/// usually a consequence of the first.
pub(super) fn problems(text: &str, errors: &[Error], places: &Places) -> Vec<Problem> {
    // TOML cannot start with a brace, and every line of JSON is an error.
    if !errors.is_empty() && text.trim_start().starts_with('{') {
        return vec![Problem::new(Some(1), None, JSON)];
    }
    let mut problems: Vec<Problem> = Vec::new();
    for error in errors {
        let span = error.span();
        let line = span.as_ref().map(|span| places.line(span.start));
        if problems.iter().any(|known| known.line == line) {
            continue;
        }
        let (message, spot) = match span {
            Some(span) => (explained(text, error, &span, places), Some(spot(text, span.start))),
            None => (error.message().to_owned(), None),
        };
        problems.push(Problem { spot, ..Problem::new(line, None, message) });
    }
    problems
}

fn explained(text: &str, error: &Error, span: &Range<usize>, places: &Places) -> String {
    let message = error.message();
    let is_escape = message.starts_with("missing escaped value") || message.contains("unicode");
    if is_escape {
        return slips::WINDOWS_PATH.to_owned();
    }
    if message == "duplicate key" {
        return duplicate(text, span, places);
    }
    match unquoted(line_at(text, span.start).0) {
        Some(key) => format!("text needs quotes: {key} = \"…\""),
        None => message.to_owned(),
    }
}

/// Names the key at `span`, and the line of the first one.
fn duplicate(text: &str, span: &Range<usize>, places: &Places) -> String {
    let name = text.get(span.clone()).unwrap_or_default();
    let (line, _) = line_at(text, span.start);
    let is_header = header_of(line).is_some();
    let header = header_of(line).unwrap_or_default();
    // A second table replaces the first one among the places, so its header is searched in the text.
    let same = text.lines().position(|other| is_header && header_of(other) == Some(header));
    let same = same.map(|at| at + 1).filter(|&line| line < places.line(span.start));
    let first = places.before(span.start).filter(|(exact, at)| match is_header {
        true => *exact == header,
        // In the same table: no header is between them.
        false => {
            exact.rsplit('.').next() == Some(name)
                && text.get(*at..span.start).is_some_and(|between| !between.contains("\n["))
        }
    });
    let first = same.or(first.map(|(_, at)| places.line(at)).max());
    let what = match (is_header, line.trim_start().starts_with("[[")) {
        (true, true) => format!("`[[{header}]]`, but another key has this name"),
        (true, false) => format!("the table `[{header}]` appears twice"),
        (false, _) => format!("the key `{name}` appears twice"),
    };
    match first {
        Some(line) => format!("{what}; the first is in line {line}"),
        None => what,
    }
}

/// The key of a table if `line` is its header.
fn header_of(line: &str) -> Option<&str> {
    let header = line.split('#').next().unwrap_or_default().trim();
    header.starts_with('[').then(|| header.trim_matches(['[', ']']).trim())
}

/// The key of a line whose value is a text without quotes, such as `listen = 127.0.0.1:80`.
fn unquoted(line: &str) -> Option<&str> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let opens = value.starts_with(['"', '\'', '[', '{', '=', '#']);
    let fails = || format!("x = {value}").parse::<toml::Table>().is_err();
    (!key.is_empty() && key.chars().all(is_bare) && !value.is_empty() && !opens && fails())
        .then_some(key)
}

/// The line around the byte `offset`, and the offset within the line.
fn line_at(text: &str, offset: usize) -> (&str, usize) {
    let offset = offset.min(text.len());
    let bytes = text.as_bytes();
    let before = bytes.get(..offset).unwrap_or_default();
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let rest = bytes.get(offset..).unwrap_or_default();
    let end = rest.iter().position(|&byte| byte == b'\n').map_or(text.len(), |at| offset + at);
    (text.get(start..end).unwrap_or_default().trim_end_matches('\r'), offset - start)
}

fn spot(text: &str, offset: usize) -> LinePosition {
    let (line, at) = line_at(text, offset);
    let column = 1 + line.char_indices().take_while(|(index, _)| *index < at).count();
    let (masked, pointer) = masked(line, at);
    LinePosition { column, excerpt: format!("    {masked}\n    {}^", " ".repeat(pointer)) }
}

/// `line` with `…` in place of values, and the column in it of the byte `at` of `line`.
fn masked(line: &str, at: usize) -> (String, usize) {
    let start = line.trim_start();
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-. ".contains(c);
    let has_key = start.split_once('=').is_some_and(|(key, _)| key.chars().all(is_bare));
    // Other lines are parts of longer values.
    let mut in_value = !has_key && !start.starts_with('[');
    let (mut masked, mut pointer) = (String::new(), 0);
    let (mut quote, mut escaped, mut tables) = (None, false, Vec::new());
    for (index, c) in line.char_indices() {
        let is_hidden = match quote {
            Some(end) => {
                let ends = c == end && !escaped;
                escaped = c == '\\' && end == '"' && !escaped;
                if ends {
                    quote = None;
                }
                !ends
            }
            None => match c {
                '#' => break,
                '"' | '\'' => {
                    quote = Some(c);
                    false
                }
                '=' => {
                    in_value = true;
                    false
                }
                '{' => {
                    tables.push(in_value);
                    in_value = false;
                    false
                }
                '}' => {
                    in_value = tables.pop().unwrap_or(true);
                    false
                }
                ',' => {
                    in_value &= tables.is_empty();
                    false
                }
                _ => in_value && !c.is_whitespace() && !"[]".contains(c),
            },
        };
        match is_hidden {
            true if masked.ends_with('…') => {}
            true => masked.push('…'),
            false => masked.push(c),
        }
        if index <= at {
            pointer = masked.chars().count() - 1;
        }
    }
    if at >= line.len() {
        pointer = masked.chars().count();
    }
    (masked, pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_keys_and_no_values() {
        for (line, expected) in [
            ("listen = 127.0.0.1:80", "listen = …"),
            (
                "  env = { TOKEN = \"abc\", URL = 'x' } # old: def",
                "  env = { TOKEN = \"…\", URL = '…' } ",
            ),
            ("command = [\"npx\", abc", "command = [\"…\", …"),
            ("name = \"abc", "name = \"…"),
            ("token = \"a\\\"bc\" def", "token = \"…\" …"),
            ("[server", "[server"),
            ("[source.tools.\"abc\"]", "[source.tools.\"…\"]"),
            // The rest of a text or a list that began above.
            ("sk-abc-def", "…"),
        ] {
            let (shown, _) = masked(line, 0);
            assert_eq!(shown, expected, "{line}");
            assert!(!shown.contains("abc") && !shown.contains("def"), "{shown}");
        }
    }

    #[test]
    fn the_pointer_is_below_the_place() {
        let LinePosition { column, excerpt } = spot("a = 1\nlisten = 12.0.0\n", 17);
        assert_eq!((column, excerpt.as_str()), (12, "    listen = …\n             ^"));
        let LinePosition { column, excerpt } = spot("[server", 7);
        assert_eq!((column, excerpt.as_str()), (8, "    [server\n           ^"));
    }

    #[test]
    fn a_text_without_quotes_is_recognised() {
        assert_eq!(unquoted("listen = 127.0.0.1:80"), Some("listen"));
        assert_eq!(unquoted("drain = 5s"), Some("drain"));
        for line in ["a = 1", "a = \"x", "a = [1", "a", "= 1", "a ="] {
            assert_eq!(unquoted(line), None, "{line}");
        }
    }
}
