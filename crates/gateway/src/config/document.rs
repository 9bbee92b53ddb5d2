//! Parses a configuration file completely, even when parts of it are invalid, so that all mistakes
//! are reported at once.
//!
//! A value that the types of [`File`] reject is reported and removed. The rest is parsed again,
//! until nothing is rejected. Removed keys are remembered, and not reported as missing.

use std::{collections::BTreeSet, ops::Range};

use serde::Deserialize as _;
use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};
use toolcrib_core::suggest;

use super::{error::Problem, file::File};

/// Limit on reported mistakes; each one requires another parse of the file.
const MAX_PROBLEMS: usize = 200;

/// The parsed parts of a file.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) file: File,
    pub(super) problems: Vec<Problem>,
    /// The removed keys, in the form of [`Problem::key`].
    pub(super) broken: BTreeSet<String>,
    /// Whether the file is TOML.
    pub(super) is_toml: bool,
}

/// Parses everything in `text` that is valid.
pub(super) fn read(text: &str) -> Document {
    let (mut tree, errors) = DeTable::parse_recoverable(text);
    let mut document = Document { is_toml: errors.is_empty(), ..Document::default() };
    for error in &errors {
        let line = error.span().map(|span| line_of(text, span.start));
        // A second error on the same line is usually a consequence of the first.
        if !document.problems.iter().any(|known| known.line == line) {
            let message = error.message().to_owned();
            document.problems.push(Problem { line, key: None, message });
        }
    }
    let end = document.problems.iter().filter_map(|problem| problem.line).min();
    while document.problems.len() < MAX_PROBLEMS {
        let error = match File::deserialize(Deserializer::from(tree.clone())) {
            Ok(file) => {
                document.file = file;
                return document;
            }
            Err(error) => error,
        };
        let removed = error.span().and_then(|span| remove(tree.get_mut(), &span, &Path::default()));
        let Some(Removed { path, is_key, at }) = removed else {
            document.problems.push(problem(text, error.span(), None, error.message()));
            break;
        };
        let key = path.shown;
        let missing = quoted(error.message(), "missing field ");
        let lacks_broken = |broken: &BTreeSet<String>| match missing {
            Some(member) => broken.contains(&format!("{key}.{member}")),
            None => !is_key && broken.iter().any(|it| it.starts_with(&format!("{key}."))),
        };
        // Errors after the place where the file stops being TOML are unreliable, and so are errors
        // with an empty span.
        let is_reliable = end
            .is_none_or(|end| missing.is_none() && !at.is_empty() && line_of(text, at.start) < end);
        if !lacks_broken(&document.broken) && is_reliable {
            let message = with_suggestion(error.message(), &mut document.broken, &key);
            document.problems.push(problem(text, Some(at), Some(&key), &message));
        }
        if !is_key {
            document.broken.insert(key);
        }
    }
    document
}

/// Returns the line of the configuration key `key`, or of the nearest table around it.
pub(super) fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let (tree, _) = DeTable::parse_recoverable(text);
    let mut best: Option<(usize, usize)> = None;
    walk(tree.get_ref(), &Path::default(), &mut |path, at| {
        let around = key == path.shown || key.starts_with(&format!("{}.", path.shown));
        if around && best.is_none_or(|(length, _)| path.shown.len() > length) {
            best = Some((path.shown.len(), at));
        }
    });
    best.map(|(_, at)| line_of(text, at))
}

impl Document {
    /// Returns whether `key`, or a part of it, was removed.
    pub(super) fn has_broken(&self, key: &str) -> bool {
        let within = format!("{key}.");
        self.broken.iter().any(|it| it == key || it.starts_with(&within))
    }
}

/// Returns the line of byte `offset`.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

fn problem(text: &str, span: Option<Range<usize>>, key: Option<&str>, message: &str) -> Problem {
    Problem {
        line: span.map(|span| line_of(text, span.start)),
        key: key.filter(|key| !key.is_empty()).map(str::to_owned),
        message: message.to_owned(),
    }
}

/// Returns the name in backticks that follows `before` at the start of `message`.
fn quoted<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    message.strip_prefix(before)?.strip_prefix('`')?.split('`').next()
}

/// Adds a suggestion to a message about an unknown key. The suggested key is marked as broken, so
/// that it is not reported as missing.
fn with_suggestion(message: &str, broken: &mut BTreeSet<String>, key: &str) -> String {
    let split = message.split_once(", expected ").filter(|_| message.starts_with("unknown field"));
    let (Some((unknown, expected)), Some(typed)) = (split, quoted(message, "unknown field "))
    else {
        // Serde names the Rust type of a field; the message says "a whole number".
        let number = |text: String, name| text.replace(name, "expected a whole number");
        return ["expected usize", "expected u64", "expected u32", "expected u8"]
            .into_iter()
            .fold(message.to_owned(), number);
    };
    let known = expected.split('`').skip(1).step_by(2);
    let Some(suggestion) = suggest::closest(typed, known) else { return message.to_owned() };
    let table = key.rsplit_once('.').map_or("", |(table, _)| table);
    broken.insert(if table.is_empty() {
        suggestion.to_owned()
    } else {
        format!("{table}.{suggestion}")
    });
    format!("{unknown}, did you mean `{suggestion}`? Expected {expected}")
}

/// The path of a key.
#[derive(Debug, Clone, Default)]
struct Path {
    shown: String,
}

impl Path {
    fn member(&self, name: &str) -> Self {
        let bare = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
        let name = match !name.is_empty() && name.bytes().all(bare) {
            true => name.to_owned(),
            false => format!("{name:?}"),
        };
        let dot = if self.shown.is_empty() { "" } else { "." };
        Self { shown: format!("{}{dot}{name}", self.shown) }
    }

    /// An element of an array is named by its id or name, if it has one.
    fn element(&self, element: &DeValue<'_>) -> Self {
        let name = ["id", "name"].into_iter().find_map(|key| element.get(key)?.get_ref().as_str());
        match name {
            Some(name) => Self { shown: format!("{}.{name}", self.shown) },
            None => self.clone(),
        }
    }
}

struct Removed {
    path: Path,
    /// Whether the key itself is wrong, not its value.
    is_key: bool,
    at: Range<usize>,
}

/// Removes the innermost entry of `table` that encloses `span`.
fn remove(table: &mut DeTable<'_>, span: &Range<usize>, path: &Path) -> Option<Removed> {
    let mut found = None;
    for (key, value) in table.iter_mut() {
        let path = path.member(key.get_ref());
        if let Some(removed) = remove_within(value, span, &path) {
            return Some(removed);
        }
        let is_key = key.span() == *span;
        if is_key || value.span() == *span || encloses(value, span) {
            found = Some((key.get_ref().to_string(), Removed { path, is_key, at: span.clone() }));
            break;
        }
    }
    let (name, removed) = found?;
    table.remove(name.as_str());
    Some(removed)
}

fn remove_within(
    value: &mut Spanned<DeValue<'_>>,
    span: &Range<usize>,
    path: &Path,
) -> Option<Removed> {
    match value.get_mut() {
        DeValue::Table(table) => remove(table, span, path),
        DeValue::Array(array) => {
            let mut found = None;
            for (index, element) in array.iter_mut().enumerate() {
                let path = path.element(element.get_ref());
                if let Some(removed) = remove_within(element, span, &path) {
                    return Some(removed);
                }
                if element.span() == *span || encloses(element, span) {
                    found = Some((index, Removed { path, is_key: false, at: span.clone() }));
                    break;
                }
            }
            let (index, removed) = found?;
            let kept = array.iter().enumerate().filter(|(at, _)| *at != index);
            let kept: Vec<_> = kept.map(|(_, element)| element.clone()).collect();
            *array = kept.into_iter().collect();
            Some(removed)
        }
        _ => None,
    }
}

/// Returns whether `span` is within a plain value, which has no removable parts.
fn encloses(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    let within = value.span();
    let is_plain = !value.get_ref().is_table() && !value.get_ref().is_array();
    is_plain && within.start <= span.start && span.end <= within.end
}

fn walk(table: &DeTable<'_>, path: &Path, visit: &mut impl FnMut(&Path, usize)) {
    for (key, value) in table {
        let path = path.member(key.get_ref());
        visit(&path, key.span().start);
        match value.get_ref() {
            DeValue::Table(table) => walk(table, &path, visit),
            DeValue::Array(array) => {
                for element in array.iter() {
                    let path = path.element(element.get_ref());
                    if let DeValue::Table(table) = element.get_ref() {
                        visit(&path, element.span().start);
                        walk(table, &path, visit);
                    }
                }
            }
            _ => {}
        }
    }
}
