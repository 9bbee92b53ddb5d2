//! The places of keys in the text of a configuration file.
//!
//! A key has two forms. Problems show `source.files.command`, with the id or name of an array's
//! element. Code uses the unambiguous `source[0].command`.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::error::Problem;

/// The span of keys that are not in the file. Problems do not show them.
pub(super) const HIDDEN: Range<usize> = usize::MAX..usize::MAX;

/// Every key of a file.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: Vec<Place>,
    /// The end of each line.
    ends: Vec<usize>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    pub(super) exact: String,
    pub(super) shown: String,
    at: usize,
    /// The start of its value.
    start: usize,
}

impl Places {
    pub(super) fn read(text: &str, tree: &DeTable<'_>) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at).collect();
        let mut places = Self { places: Vec::new(), ends };
        places.add_table(&Place::default(), tree);
        places
    }

    /// The line of the byte `offset`, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.ends.partition_point(|&end| end < offset) + 1
    }

    fn add_table(&mut self, around: &Place, table: &DeTable<'_>) {
        for (key, value) in table {
            let place = around.member(key.get_ref());
            self.add(place, key.span().start, value);
        }
    }

    fn add(&mut self, mut place: Place, at: usize, value: &Spanned<DeValue<'_>>) {
        place.at = at;
        place.start = value.span().start;
        self.places.push(place.clone());
        match value.get_ref() {
            DeValue::Table(table) => self.add_table(&place, table),
            DeValue::Array(array) => {
                for (index, element) in
                    array.iter().enumerate().filter(|(_, value)| value.get_ref().is_table())
                {
                    let place = place.element(index, element.get_ref());
                    self.add(place, element.span().start, element);
                }
            }
            _ => {}
        }
    }

    /// Creates a problem of `key`, with the line of the nearest table if the key is absent.
    pub(super) fn problem(&self, key: &str, message: impl Into<String>) -> Problem {
        let line = self.nearest(key).map(|place| self.line(place.at));
        Problem::new(line, Some(self.shown(key)), message)
    }

    /// `key` as problems show it.
    pub(super) fn shown(&self, key: &str) -> String {
        let nearest = self.nearest(key);
        let rest = nearest.and_then(|place| key.strip_prefix(&place.exact));
        nearest.map(|place| place.shown.as_str()).unwrap_or_default().to_owned()
            + rest.unwrap_or(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.places.iter().any(|place| place.exact == key)
    }

    fn nearest(&self, key: &str) -> Option<&Place> {
        let around = |place: &&Place| is_around(&place.exact, key);
        self.places.iter().filter(around).max_by_key(|place| place.exact.len())
    }

    /// The line of `key` as problems show it, or of the nearest table.
    pub(super) fn line_of_shown(&self, key: &str) -> Option<usize> {
        let around = self.places.iter().rev().filter(|place| is_around(&place.shown, key));
        around.max_by_key(|place| place.shown.len()).map(|place| self.line(place.at))
    }

    /// The keys that start before the byte `end`, with their places.
    pub(super) fn before(&self, end: usize) -> impl Iterator<Item = (&str, usize)> {
        let before = self.places.iter().filter(move |place| place.at < end);
        before.map(|place| (place.exact.as_str(), place.at))
    }

    /// The key whose value starts at the byte `start`.
    pub(super) fn starting_at(&self, start: usize) -> Option<&str> {
        self.places.iter().rfind(|place| place.start == start).map(|place| place.exact.as_str())
    }
}

impl Place {
    pub(super) fn member(&self, name: &str) -> Self {
        let exact = member(&self.exact, name);
        Self { exact, shown: member(&self.shown, name), ..Self::default() }
    }

    /// Names an element of an array by its id or name, if it has one.
    pub(super) fn element(&self, index: usize, element: &DeValue<'_>) -> Self {
        let name = ["id", "name"].into_iter().find_map(|key| element.get(key)?.get_ref().as_str());
        let exact = format!("{}[{index}]", self.exact);
        let shown = name.map_or(self.shown.clone(), |name| format!("{}.{name}", self.shown));
        Self { exact, shown, ..Self::default() }
    }
}

/// Whether `key` is `table`, or is in it.
fn is_around(table: &str, key: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The key of the member `name` of `table`.
pub(super) fn member(table: &str, name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    let dot = if table.is_empty() { "" } else { "." };
    match !name.is_empty() && name.bytes().all(bare) {
        true => format!("{table}{dot}{name}"),
        false => format!("{table}{dot}{name:?}"),
    }
}
