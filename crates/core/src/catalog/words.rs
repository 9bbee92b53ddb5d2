//! The words of a tool, by which it is found.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;

use crate::{descriptor::ToolDescriptor, id::SourceId, schema::Schema};

/// How often a tool has each word, weighted by the place of the word.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) counts: Vec<(Arc<str>, u16)>,
    /// The sum of all counts.
    pub(super) length: u32,
}

/// The weight of a word by its place.
const NAME: u16 = 5;
const TITLE: u16 = 3;
const PROSE: u16 = 1;

/// The most bytes read of a description; its beginning says the most.
const MAX_PROSE: usize = 4_096;
/// The most different words kept per tool.
const MAX_WORDS: usize = 512;
/// The most parameters whose names and descriptions are read.
const MAX_PARAMETERS: usize = 64;
/// The longest word, in characters; longer runs are ignored.
const MAX_WORD: usize = 40;

impl Words {
    /// Reads the words of `tool` of `source` with the wire name `name`.
    pub(super) fn of(name: &str, source: &SourceId, tool: &ToolDescriptor) -> Self {
        let mut counter = Counter::default();
        counter.read(name, NAME);
        counter.read(source.as_str(), TITLE);
        counter.read(tool.title.as_deref().unwrap_or_default(), TITLE);
        counter.read(beginning(tool.description.as_deref().unwrap_or_default()), PROSE);
        let schema = tool.input_schema.as_ref().map(Schema::to_object).unwrap_or_default();
        if let Some(Value::Object(parameters)) = schema.get("properties") {
            for (name, schema) in parameters.iter().take(MAX_PARAMETERS) {
                counter.read(name, PROSE);
                let text = schema.get("description").and_then(Value::as_str);
                counter.read(beginning(text.unwrap_or_default()), PROSE);
            }
        }
        let counts: Vec<_> = counter.0.into_iter().map(|(word, n)| (word.into(), n)).collect();
        let length = counts.iter().map(|(_, count)| u32::from(*count)).sum();
        Self { counts, length }
    }
}

#[derive(Default)]
struct Counter(HashMap<String, u16>);

impl Counter {
    fn read(&mut self, text: &str, weight: u16) {
        for word in words(text) {
            let known = self.0.len();
            match self.0.get_mut(&word) {
                Some(count) => *count = count.saturating_add(weight),
                None if known < MAX_WORDS => {
                    self.0.insert(word, weight);
                }
                None => {}
            }
        }
    }
}

fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_PROSE)).unwrap_or_default()
}

/// Splits `text` into words: runs of letters and digits, with `camelCase` split, in lower case and
/// without the ending of a plural.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|character: char| !character.is_alphanumeric())
        .flat_map(humps)
        .filter(|word| !word.is_empty() && word.chars().count() <= MAX_WORD)
        .map(|word| singular(word.to_lowercase()))
}

fn humps(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut rest, mut lower) = (word, false);
    let mut start = 0;
    for (at, character) in word.char_indices() {
        if character.is_uppercase() && lower {
            let (part, after) = rest.split_at(at - start);
            parts.push(part);
            (rest, start) = (after, at);
        }
        lower = character.is_lowercase();
    }
    parts.push(rest);
    parts
}

fn singular(mut word: String) -> String {
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") {
        word.pop();
        if word.len() > 3 && word.ends_with("ie") {
            word.truncate(word.len() - 2);
            word.push('y');
        }
    }
    word
}
