//! A configuration file as a document: read whole even when parts of it are wrong, so that all
//! mistakes are reported at once.
//!
//! What the types of [`File`] refuse is reported, taken out, and the rest is read again, until
//! nothing is refused. What was taken out is remembered: nothing is then said to be missing.

use std::{collections::BTreeSet, ops::Range};

use serde::Deserialize as _;
use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};
use toolcrib_core::suggest;

use super::{error::Problem, file::File};

/// More mistakes than anybody reads; each one costs a reading of the file.
const MAX_PROBLEMS: usize = 200;

/// What could be read of a file.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) file: File,
    pub(super) problems: Vec<Problem>,
    /// The keys that were taken out, in the form of [`Problem::key`].
    pub(super) broken: BTreeSet<String>,
    /// Whether the file is TOML.
    pub(super) is_toml: bool,
}

/// Reads all that can be read of `text`.
pub(super) fn read(text: &str) -> Document {
    let (mut tree, errors) = DeTable::parse_recoverable(text);
    let mut document = Document { is_toml: errors.is_empty(), ..Document::default() };
    for error in &errors {
        let line = error.span().map(|span| line_of(text, span.start));
        // What follows a mistake on the same line is mostly that mistake again.
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
        // After the place where the file stops being TOML nothing is reliable, nor is what has no
        // text at all.
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

/// The line of the configuration key `key`, or of the nearest table around it.
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
    /// Whether `key`, or something in it, was taken out.
    pub(super) fn has_broken(&self, key: &str) -> bool {
        let within = format!("{key}.");
        self.broken.iter().any(|it| it == key || it.starts_with(&within))
    }
}

/// The line of byte `offset`.
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

/// The name in backticks that follows `before`, at the start of `message`.
fn quoted<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    message.strip_prefix(before)?.strip_prefix('`')?.split('`').next()
}

/// A message about an unknown key, with the one that was probably meant; that one is then not
/// missing.
fn with_suggestion(message: &str, broken: &mut BTreeSet<String>, key: &str) -> String {
    let split = message.split_once(", expected ").filter(|_| message.starts_with("unknown field"));
    let (Some((unknown, expected)), Some(typed)) = (split, quoted(message, "unknown field "))
    else {
        // Serde names the type of a field; people know numbers.
        let number = |text: String, name| text.replace(name, "expected a whole number");
        return ["expected usize", "expected u64", "expected u32", "expected u8"]
            .into_iter()
            .fold(message.to_owned(), number);
    };
    let known = expected.split('`').skip(1).step_by(2);
    let Some(meant) = suggest::closest(typed, known) else { return message.to_owned() };
    let table = key.rsplit_once('.').map_or("", |(table, _)| table);
    broken.insert(if table.is_empty() { meant.to_owned() } else { format!("{table}.{meant}") });
    format!("{unknown}, did you mean `{meant}`? Expected {expected}")
}

/// Where something is.
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

    /// An element of an array goes by its id or name, when it has one.
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
    /// Whether the key itself was wrong, not its value.
    is_key: bool,
    at: Range<usize>,
}

/// Takes out of `table` what is at `span`: the innermost such thing.
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

/// Whether a plain value, which has no parts that could be removed, has `span` within it.
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
