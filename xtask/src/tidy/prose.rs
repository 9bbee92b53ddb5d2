//! The sentences of a file: comments, texts of the program, and documentation.

use crate::tidy::source::Source;
use crate::tidy::tree::TextFile;

/// Pages that the program writes from its own texts.
const GENERATED: &[&str] = &[
    "docs/reference/cli.md",
    "docs/reference/configuration.md",
    "docs/reference/conformance.md",
    "docs/reference/metrics.md",
    "docs/reference/benchmarks.md",
    "docs/reference/growth.md",
];

/// Where sentences are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Comments,
    Strings,
    PageComments,
    PageStrings,
    Docs,
    GeneratedDocs,
}

/// The sentences of one kind in a file.
#[derive(Debug)]
pub(crate) struct Prose {
    pub(crate) kind: Kind,
    /// Lines of comments and pages, or strings with several words.
    pub(crate) units: usize,
    /// Without code. An item of a list, a row of a table and a string are sentences.
    pub(crate) text: String,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Comments => "comments",
            Self::Strings => "strings",
            Self::PageComments => "page comments",
            Self::PageStrings => "page strings",
            Self::Docs => "docs",
            Self::GeneratedDocs => "generated docs",
        }
    }
}

/// The sentences of a file; empty for tests and files of other kinds.
pub(crate) fn of(file: &TextFile) -> Vec<Prose> {
    let path = file.path.as_str();
    if path.ends_with(".md") {
        let kind = match path {
            _ if GENERATED.contains(&path) => Kind::GeneratedDocs,
            "README.md" | "CONTRIBUTING.md" | "CHANGELOG.md" => Kind::Docs,
            _ if path.starts_with("docs/") => Kind::Docs,
            _ => return Vec::new(),
        };
        return vec![Prose {
            kind,
            units: file.text.lines().count(),
            text: plain(file.text.lines()),
        }];
    }
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["crates", "testkit", ..] => Vec::new(),
        ["crates", _, "src", ..] | ["bench" | "xtask", "src", ..] if path.ends_with(".rs") => {
            let source = Source::new(path, &file.text);
            vec![
                comments(Kind::Comments, source.comments()),
                strings(Kind::Strings, source.strings()),
            ]
        }
        ["crates", "toolcrib", "src", "ui", rest @ ..]
            if path.ends_with(".js") && !rest.contains(&"vendor") =>
        {
            let script = script(&file.text);
            vec![
                comments(Kind::PageComments, script.comments.lines()),
                strings(Kind::PageStrings, script.strings.iter().map(String::as_str)),
            ]
        }
        _ => Vec::new(),
    }
}

fn comments<'a>(kind: Kind, lines: impl Iterator<Item = &'a str>) -> Prose {
    let lines: Vec<&str> = lines.collect();
    Prose { kind, units: lines.len(), text: plain(lines.into_iter()) }
}

/// Strings with several words, without backslashes.
fn strings<'a>(kind: Kind, strings: impl Iterator<Item = &'a str>) -> Prose {
    let words = |text: &&str| text.trim().contains(' ') && text.chars().any(char::is_alphabetic);
    let (mut units, mut all) = (0, String::new());
    for text in strings.filter(words) {
        units += 1;
        all.push_str(&plain(text.replace('\\', " ").lines()));
        all.push_str(".\n");
    }
    Prose { kind, units, text: all }
}

/// Prose without code: no fenced blocks, no code spans. A heading, a row and an item are sentences.
fn plain<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut fenced = false;
    for line in lines.map(str::trim) {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            if line.is_empty() || line.starts_with(['#', '|', '-', '*']) {
                text.push('.');
            }
            let outside = line.split('`').step_by(2);
            text.extend(outside.flat_map(|part| [part, " x "]));
            text.push('\n');
        }
    }
    text
}

/// The prose of a module in JavaScript.
#[derive(Debug, Default)]
struct Script {
    comments: String,
    strings: Vec<String>,
}

fn script(text: &str) -> Script {
    let letters: Vec<char> = text.chars().collect();
    let mut script = Script::default();
    script.read(&letters, 0);
    script
}

impl Script {
    /// Reads code from `at` to its closing brace, or to the end; returns that place.
    fn read(&mut self, letters: &[char], mut at: usize) -> usize {
        let (mut depth, mut last) = (0_usize, '(');
        while let Some(letter) = letters.get(at).copied() {
            let next = letters.get(at + 1).copied();
            match (letter, next) {
                ('/', Some('/')) => at = self.comment(letters, at + 2, "\n"),
                ('/', Some('*')) => at = self.comment(letters, at + 2, "*/"),
                ('/', _) if !(last.is_alphanumeric() || ")]}_$".contains(last)) => {
                    at = expression(letters, at + 1);
                    last = ')';
                }
                ('\'' | '"', _) => {
                    at = self.string(letters, at);
                    last = ')';
                }
                ('`', _) => {
                    at = self.template(letters, at + 1);
                    last = ')';
                }
                ('}', _) if depth == 0 => return at,
                _ => {
                    match letter {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        _ => {}
                    }
                    if !letter.is_whitespace() {
                        last = letter;
                    }
                    at += 1;
                }
            }
        }
        at
    }

    fn comment(&mut self, letters: &[char], from: usize, end: &str) -> usize {
        let end: Vec<char> = end.chars().collect();
        let mut at = from;
        while letters.get(at..at + end.len()).is_some_and(|found| found != end) {
            at += 1;
        }
        let inside: String = letters.get(from..at).into_iter().flatten().collect();
        for line in inside.lines() {
            self.comments.push_str(line.trim_start().trim_start_matches('*'));
            self.comments.push('\n');
        }
        at + end.len()
    }

    fn string(&mut self, letters: &[char], from: usize) -> usize {
        let quote = letters.get(from).copied();
        let (mut at, mut inside) = (from + 1, String::new());
        while let Some(letter) = letters.get(at).copied() {
            match letter {
                _ if Some(letter) == quote => break,
                '\\' => at += 1,
                _ => inside.push(letter),
            }
            at += 1;
        }
        self.strings.push(inside);
        at + 1
    }

    /// A template: tags and code between `${` and `}` separate its texts.
    fn template(&mut self, letters: &[char], from: usize) -> usize {
        let (mut at, mut inside, mut tag) = (from, String::new(), false);
        while let Some(letter) = letters.get(at).copied() {
            let next = letters.get(at + 1).copied();
            match (letter, next) {
                ('`', _) => break,
                ('\\', _) => at += 1,
                ('$', Some('{')) => {
                    at = self.read(letters, at + 2);
                    inside.push_str(" x ");
                }
                ('<', Some(next)) if next.is_alphabetic() || "/$".contains(next) => {
                    tag = true;
                    self.strings.push(std::mem::take(&mut inside));
                }
                ('>', _) if tag => {
                    tag = false;
                    self.strings.extend(attributes(&std::mem::take(&mut inside)));
                }
                _ => inside.push(letter),
            }
            at += 1;
        }
        self.strings.push(inside);
        at + 1
    }
}

/// The quoted values of a tag.
fn attributes(tag: &str) -> Vec<String> {
    tag.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The end of a regular expression.
fn expression(letters: &[char], mut at: usize) -> usize {
    let mut class = false;
    while let Some(letter) = letters.get(at).copied() {
        match letter {
            '\\' => at += 1,
            '[' => class = true,
            ']' => class = false,
            '/' if !class => return at + 1,
            '\n' => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_has_no_code() {
        let text = "What is `what is`?\n```\nasked\n```\n- One\n- two\n";
        assert_eq!(plain(text.lines()), "What is  x ? x \n.- One x \n.- two x \n");
    }

    #[test]
    fn comments_strings_and_templates_of_a_script_are_found() {
        let text = "// One\nconst a = 'two // no', b = /['\"]/;\n/* three\n * four */\n\
                    const c = html`<p title=\"five six\">seven ${x ? 'eight' : `nine ${y}`} ten</p>`;\n";
        let script = script(text);
        assert_eq!(
            script.comments.lines().map(str::trim).collect::<Vec<_>>(),
            ["One", "three", "four"]
        );
        let strings: Vec<&str> =
            script.strings.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
        assert_eq!(strings, ["two // no", "five six", "eight", "nine  x", "seven  x  ten"]);
    }

    #[test]
    fn only_strings_with_several_words_count() {
        let found = strings(Kind::Strings, ["a/b", "two words", "1 2"].into_iter());
        assert_eq!((found.units, found.text.as_str()), (1, "two words x \n.\n"));
    }
}
