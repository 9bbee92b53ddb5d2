//! Full-text search over the tools that a caller sees: BM25.
//!
//! Invariant (I-77): everything that a ranking depends on, word rarity included, comes from tools
//! that the caller sees. A ranking reveals nothing about any other tool.
//!
//! Invariant: a tool's words are counted once for all snapshots that contain it, and an index is
//! built once per view. A search visits only the tools that have its words.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use serde_json::Value;

use super::{Entry, View};
use crate::{descriptor::SourceKind, id::SourceId};

/// How often a tool has each word, weighted by the place of the word.
#[derive(Debug, Default)]
pub(super) struct Words {
    counts: Vec<(Arc<str>, u16)>,
    /// The sum of all counts.
    length: u32,
}

/// The tools of a view by word.
#[derive(Debug)]
pub(super) struct Index {
    postings: BTreeMap<Arc<str>, Vec<Posting>>,
    /// Each tool's length, by its position in the view.
    lengths: Vec<u32>,
    mean: f64,
    /// The sources of the tools.
    sources: Vec<SourceId>,
}

#[derive(Debug, Clone, Copy)]
struct Posting {
    tool: u32,
    count: u16,
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
/// The most words used of a query.
const MAX_QUERY: usize = 24;
/// Common words without meaning for a search; used only when a query has no others.
const LITTLE: [&str; 32] = [
    "a", "about", "all", "an", "and", "any", "are", "at", "be", "by", "can", "do", "for", "from",
    "how", "i", "in", "is", "it", "me", "my", "of", "on", "or", "some", "that", "the", "thi", "to",
    "what", "with", "you",
];
/// The most longer words that an unknown word is matched with as a prefix.
const MAX_LONGER: usize = 16;

/// The usual constants of BM25: saturation of repeated words, and weight of the length.
const K1: f64 = 1.2;
const B: f64 = 0.75;

impl View {
    /// Returns at most `most` tools that match `query`, best first, of one kind of source or of
    /// all.
    pub fn search(&self, query: &str, source: Option<SourceKind>, most: usize) -> Vec<Arc<Entry>> {
        let found =
            self.index().ranked(query).into_iter().filter_map(|tool| self.entries.get(tool));
        let wanted = found.filter(|entry| source.is_none_or(|kind| entry.tool.source == kind));
        wanted.take(most).map(Arc::clone).collect()
    }

    /// Returns the sources of the visible tools, sorted.
    pub fn sources(&self) -> &[SourceId] {
        &self.index().sources
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::of(&self.entries))
    }
}

// === impl Words ===

impl Words {
    pub(super) fn of(entry: &Entry) -> Self {
        let mut counter = Counter::default();
        let tool = &entry.tool;
        counter.read(&entry.names.wire, NAME);
        counter.read(entry.source.as_str(), TITLE);
        counter.read(tool.title.as_deref().unwrap_or_default(), TITLE);
        counter.read(beginning(tool.description.as_deref().unwrap_or_default()), PROSE);
        if let Some(Value::Object(parameters)) =
            tool.input_schema.as_ref().and_then(|schema| schema.get("properties"))
        {
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

// === impl Index ===

impl Index {
    fn of(entries: &[Arc<Entry>]) -> Self {
        let mut postings: BTreeMap<Arc<str>, Vec<Posting>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(entries.len());
        for (tool, entry) in (0_u32..).zip(entries) {
            let words = entry.wire.words(entry);
            for (word, count) in &words.counts {
                let posting = Posting { tool, count: *count };
                match postings.get_mut(word) {
                    Some(held) => held.push(posting),
                    None => {
                        postings.insert(Arc::clone(word), vec![posting]);
                    }
                }
            }
            lengths.push(words.length);
        }
        let total: f64 = lengths.iter().copied().map(f64::from).sum();
        let mean = total / f64::from(u32::try_from(lengths.len()).unwrap_or(u32::MAX).max(1));
        let sources: BTreeSet<_> = entries.iter().map(|entry| entry.source.clone()).collect();
        Self { postings, lengths, mean: mean.max(1.0), sources: sources.into_iter().collect() }
    }

    /// Returns the positions of tools that match `query`, best first; equal scores in view order.
    fn ranked(&self, query: &str) -> Vec<usize> {
        let mut scores: HashMap<u32, f64> = HashMap::new();
        let mut wanted_words: Vec<String> = words(query).take(MAX_QUERY).collect();
        // In a small catalog these words are rare enough to count, without meaning anything.
        if wanted_words.iter().any(|word| !LITTLE.contains(&word.as_str())) {
            wanted_words.retain(|word| !LITTLE.contains(&word.as_str()));
        }
        wanted_words.sort_unstable();
        wanted_words.dedup();
        for word in &wanted_words {
            match self.postings.get(word.as_str()) {
                Some(postings) => self.score(postings, 1.0, &mut scores),
                // An unknown word may be the prefix of a known one.
                None if word.chars().count() >= 3 => {
                    let longer = self
                        .postings
                        .range::<str, _>((Bound::Included(word.as_str()), Bound::Unbounded));
                    let longer = longer.take_while(|(longer, _)| longer.starts_with(word));
                    for (_, postings) in longer.take(MAX_LONGER) {
                        self.score(postings, 0.5, &mut scores);
                    }
                }
                None => {}
            }
        }
        let mut ranked: Vec<(u32, f64)> = scores.into_iter().collect();
        ranked.sort_by(|(a, better), (b, than)| than.total_cmp(better).then(a.cmp(b)));
        ranked.into_iter().filter_map(|(tool, _)| usize::try_from(tool).ok()).collect()
    }

    fn score(&self, postings: &[Posting], weight: f64, scores: &mut HashMap<u32, f64>) {
        let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        let (all, having) = (count(self.lengths.len()), count(postings.len()));
        let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
        for Posting { tool, count } in postings {
            let length = usize::try_from(*tool).ok().and_then(|tool| self.lengths.get(tool));
            let length = f64::from(length.copied().unwrap_or_default());
            let count = f64::from(*count);
            let often = count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / self.mean));
            *scores.entry(*tool).or_default() += weight * rarity * often;
        }
    }
}

/// Splits `text` into words: runs of letters and digits, with `camelCase` split, in lower case and
/// without the ending of a plural.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        authorize::ScopeAuthorizer,
        catalog::{
            Catalog, Generation,
            tests::{caller, catalog, ids, tool},
        },
    };

    fn named(name: &str, description: &str, scope: &str) -> Entry {
        let mut entry = tool(SourceKind::Mcp, "up", name, Some(&[scope]));
        entry.tool.description = Some(description.to_owned());
        entry
    }

    fn shelf() -> Catalog {
        catalog(vec![
            named("create_issue", "Opens an issue in a repository.", "up:a"),
            named("listRepositories", "All repositories that you may read.", "up:a"),
            named("send_mail", "Sends a message. Mentions issue trackers once.", "up:a"),
            named("issue_secret", "Issue issue issue.", "up:b"),
        ])
    }

    fn found(catalog: &Catalog, grants: &[&str], query: &str) -> Vec<String> {
        let caller = caller("t", grants);
        let view = catalog.view(&ScopeAuthorizer, caller.subject());
        view.search(query, None, 10).iter().map(|entry| entry.upstream_name.clone()).collect()
    }

    #[test]
    fn names_count_more_than_prose_and_plurals_do_not_matter() {
        let shelf = shelf();
        assert_eq!(found(&shelf, &["up:a"], "issues"), ["create_issue", "send_mail"]);
        let by_part = found(&shelf, &["up:a"], "LIST the repository");
        assert_eq!(by_part, ["listRepositories", "create_issue"]);
        assert_eq!(found(&shelf, &["up:a"], "repo"), ["listRepositories", "create_issue"]);
        let sentence = "what is the tool that opens an issue";
        assert_eq!(found(&shelf, &["up:a"], sentence)[0], "create_issue");
        assert!(!found(&shelf, &["up:a"], "all").is_empty(), "what is left when there is no other");
        for nothing in ["", " ", "?!", "zebra"] {
            assert!(found(&shelf, &["up:a"], nothing).is_empty(), "{nothing:?}");
        }
    }

    // I-77: the same words and the same visible tools, plus one hidden tool.
    #[test]
    fn hidden_tools_are_not_found_and_change_no_ranking() {
        let (with, all) = (shelf(), found(&shelf(), &["up:a", "up:b"], "issue"));
        assert_eq!(all.len(), 3);
        let entries = with.entries().iter().filter(|entry| entry.upstream_name != "issue_secret");
        let (without, _) = Catalog::build(Generation(1), entries.cloned().collect());
        for query in ["issue", "secret", "issue repository message", "iss"] {
            assert_eq!(found(&with, &["up:a"], query), found(&without, &["up:a"], query));
        }
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        let of = |text: &str| words(text).collect::<Vec<_>>();
        assert_eq!(
            of("getHTTPStatus2 of_entries, class"),
            ["get", "httpstatus2", "of", "entry", "class"]
        );
        assert_eq!(of("Größe überAlles bus"), ["größe", "über", "alle", "bus"]);
        assert_eq!(of(&"x".repeat(41)), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn any_text_can_be_searched_for(query in ".{0,80}", description in ".{0,80}") {
            let catalog = catalog(vec![named("a", &description, "up:a")]);
            let seen = found(&catalog, &["up:a"], &query);
            prop_assert!(seen.len() <= 1);
            let caller = caller("t", &["up:a"]);
            let view = catalog.view(&ScopeAuthorizer, caller.subject());
            prop_assert_eq!(ids(view.entries()), ["mcp:up.a"]);
        }
    }
}
