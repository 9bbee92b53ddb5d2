//! Parses a configuration file completely, even when parts of it are invalid, so that all mistakes
//! are reported at once.
//!
//! A value that its type rejects is reported and removed, and the rest is parsed again, until all
//! of it is valid. Removed keys are not reported as missing.

use std::{collections::BTreeSet, ops::Range};

use serde::de::DeserializeOwned;
use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};
use toolcrib_core::suggest;

use super::{
    error::Problem,
    places::{HIDDEN, Place, Places},
    slips,
    strict::StrictDeserializer,
    syntax,
};

/// Limit on reported mistakes; each one requires another parse of the file.
const MAX_PROBLEMS: usize = 200;

/// The parsed parts of a file.
#[derive(Debug, Default)]
pub(super) struct Document<T> {
    pub(super) typed: T,
    pub(super) problems: Vec<Problem>,
    /// The removed keys, in the form of [`Problem::key`] and in the unambiguous form: problems name
    /// an element differently if its id is missing.
    pub(super) broken: BTreeSet<String>,
    pub(super) places: Places,
    pub(super) is_toml: bool,
}

/// An unknown key: a custom message, or the keys that its table accepts.
pub(super) enum UnknownKey {
    Message(String),
    Known(Vec<String>),
}

/// Parses everything valid in `text`. `prepare` changes the tree before it is deserialized.
/// `explain` gets an unknown key and the keys that its type knows.
pub(super) fn read<T: DeserializeOwned + Default>(
    text: &str,
    prepare: impl Fn(&mut DeTable<'_>),
    explain: impl Fn(&str, Vec<String>) -> UnknownKey,
) -> Document<T> {
    let (mut tree, errors) = DeTable::parse_recoverable(text);
    let mut document = Document { is_toml: errors.is_empty(), ..Document::default() };
    document.places = Places::read(text, tree.get_ref());
    prepare(tree.get_mut());
    document.problems = syntax::problems(text, &errors, &document.places);
    let end = document.problems.iter().filter_map(|problem| problem.line).min();
    for slip in slips::escaped_paths(tree.get_ref()) {
        document.report(Some(slip.span), &slip.key, slips::WINDOWS_PATH);
    }
    while document.problems.len() < MAX_PROBLEMS {
        let error = match T::deserialize(StrictDeserializer(Deserializer::from(tree.clone()))) {
            Ok(typed) => {
                document.typed = typed;
                return document;
            }
            Err(error) => error,
        };
        let is_array = error.message().starts_with("invalid type: sequence");
        let rejected = error.span().map(|span| RejectedEntry { span, is_array });
        let removed =
            rejected.and_then(|rejected| remove(tree.get_mut(), &rejected, &Place::default()));
        let Some(RemovedEntry { key, exact, is_key, at, text: typed }) = removed else {
            document.report(error.span(), "", error.message());
            break;
        };
        let missing = quoted(error.message(), "missing field ");
        let lacks_broken = |broken: &BTreeSet<String>| match missing {
            Some(member) => {
                [&key, &exact].iter().any(|table| broken.contains(&format!("{table}.{member}")))
            }
            None => !is_key && broken.iter().any(|table| table.starts_with(&format!("{key}."))),
        };
        // Errors after the place where the file stops being TOML are unreliable, and so are errors
        // with an empty span.
        let is_reliable = end.is_none_or(|end| {
            missing.is_none() && !at.is_empty() && document.places.line(at.start) < end
        });
        if !lacks_broken(&document.broken) && is_reliable {
            let (message, meant) = match slips::of_type(error.message(), &key) {
                Some(message) => (message, None),
                None => explained(error.message(), typed.as_deref(), &explain),
            };
            // The key was misspelled, so it is not missing.
            document.broken.extend(meant.map(|name| sibling(&key, &name)));
            document.report(Some(at), &key, &message);
        }
        if !is_key {
            document.broken.extend([key, exact]);
        }
    }
    document
}

impl<T> Document<T> {
    fn report(&mut self, span: Option<Range<usize>>, key: &str, message: &str) {
        let line = span.map(|span| self.places.line(span.start));
        let key = (!key.is_empty()).then(|| key.to_owned());
        self.problems.push(Problem::new(line, key, message));
    }
}

/// The name in backticks that follows `before` at the start of `message`.
fn quoted<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    message.strip_prefix(before)?.strip_prefix('`')?.split('`').next()
}

/// Adds a suggestion to `message` for an unknown key or word. The second value is the suggested
/// key. `typed` is the rejected text.
fn explained(
    message: &str,
    typed: Option<&str>,
    explain: impl Fn(&str, Vec<String>) -> UnknownKey,
) -> (String, Option<String>) {
    if let (Some(known), Some(typed)) = (message.strip_prefix("must be one of "), typed) {
        return (message.to_owned() + &suggest::did_you_mean(typed, known.split(", ")), None);
    }
    let names = |list: &str| list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let unknown = |kind| Some((quoted(message, kind)?, message.split_once(", expected ")?));
    if let Some((name, (unknown, expected))) = unknown("unknown field ") {
        let before: Vec<String> = names(expected);
        let known = match explain(name, before.clone()) {
            UnknownKey::Message(message) => return (message, None),
            UnknownKey::Known(known) => known,
        };
        let expected = match known == before {
            true => expected.to_owned(),
            false => format!("one of `{}`", known.join("`, `")),
        };
        let meant = suggest::closest(name, known.iter().map(String::as_str)).map(str::to_owned);
        return (suggesting(unknown, meant.as_deref(), &expected), meant);
    }
    if let Some((name, (unknown, expected))) = unknown("unknown variant ") {
        let known: Vec<String> = names(expected);
        let meant = suggest::closest(name, known.iter().map(String::as_str));
        return (suggesting(unknown, meant, expected), None);
    }
    if message.starts_with("invalid value") && message.contains("expected a nonzero ") {
        return ("must be at least 1".to_owned(), None);
    }
    // The value in place of a table may hold a secret, so the message does not repeat it.
    if message.starts_with("invalid type: ")
        && let Some((_, expected)) = message.rsplit_once(", expected ")
        && (expected == "a map" || expected.starts_with("a table"))
    {
        return (format!("expected {}", expected.replace("a map", "a table")), None);
    }
    // Serde names the Rust type of a field; the message says "a whole number".
    let number = |text: String, name: &str| text.replace(name, "expected a whole number");
    let types = ["a nonzero usize", "a nonzero u32", "usize", "u64", "u32", "u16", "u8"];
    (
        types
            .iter()
            .fold(message.to_owned(), |text, kind| number(text, &format!("expected {kind}"))),
        None,
    )
}

fn suggesting(unknown: &str, meant: Option<&str>, expected: &str) -> String {
    match meant {
        Some(meant) => format!("{unknown}, did you mean `{meant}`? Expected {expected}"),
        None => format!("{unknown}, expected {expected}"),
    }
}

/// The key `name` in the table of `key`.
fn sibling(key: &str, name: &str) -> String {
    key.rsplit_once('.').map_or(name.to_owned(), |(table, _)| format!("{table}.{name}"))
}

/// The value or key that a type rejects.
struct RejectedEntry {
    span: Range<usize>,
    /// Whether it is an array: an array of tables and its first table have the same span.
    is_array: bool,
}

struct RemovedEntry {
    /// The key, as problems show it.
    key: String,
    /// The key in its unambiguous form.
    exact: String,
    /// Whether the key itself is wrong, instead of its value.
    is_key: bool,
    at: Range<usize>,
    /// The value, if it is a text.
    text: Option<String>,
}

impl RemovedEntry {
    fn new(place: &Place, is_key: bool, at: &Range<usize>, value: &DeValue<'_>) -> Self {
        let text = value.as_str().map(str::to_owned);
        let (key, exact) = (place.shown.clone(), place.exact.clone());
        Self { key, exact, is_key, at: at.clone(), text }
    }
}

/// Removes the innermost entry of `table` that encloses the rejected value.
fn remove(
    table: &mut DeTable<'_>,
    rejected: &RejectedEntry,
    place: &Place,
) -> Option<RemovedEntry> {
    let span = &rejected.span;
    let mut found = None;
    for (key, value) in table.iter_mut() {
        let is_hidden = key.span() == HIDDEN;
        let place = if is_hidden { place.clone() } else { place.member(key.get_ref()) };
        if let Some(removed) = remove_within(value, rejected, &place) {
            return Some(removed);
        }
        let is_key = key.span() == *span;
        if !is_hidden && (is_key || is_at(value, rejected)) {
            let removed = RemovedEntry::new(&place, is_key, span, value.get_ref());
            found = Some((key.get_ref().to_string(), removed));
            break;
        }
    }
    let (name, removed) = found?;
    table.remove(name.as_str());
    Some(removed)
}

fn remove_within(
    value: &mut Spanned<DeValue<'_>>,
    rejected: &RejectedEntry,
    place: &Place,
) -> Option<RemovedEntry> {
    match value.get_mut() {
        DeValue::Table(table) => remove(table, rejected, place),
        DeValue::Array(array) => {
            let mut found = None;
            for (index, element) in array.iter_mut().enumerate() {
                let place = place.element(index, element.get_ref());
                if let Some(removed) = remove_within(element, rejected, &place) {
                    return Some(removed);
                }
                if is_at(element, rejected) {
                    let span = &rejected.span;
                    found =
                        Some((index, RemovedEntry::new(&place, false, span, element.get_ref())));
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

/// Whether `value` is the rejected value, or encloses it and has no removable parts.
fn is_at(value: &Spanned<DeValue<'_>>, rejected: &RejectedEntry) -> bool {
    let RejectedEntry { span, is_array } = rejected;
    let within = value.span();
    if *is_array {
        return value.get_ref().is_array() && within == *span;
    }
    let is_plain = !value.get_ref().is_table() && !value.get_ref().is_array();
    within == *span || (is_plain && within.start <= span.start && span.end <= within.end)
}
