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

use super::{entry::Entry, words::words};
use crate::id::SourceId;

/// The tools of a view by word.
#[derive(Debug)]
pub(super) struct Index {
    postings: BTreeMap<Arc<str>, Vec<Posting>>,
    /// Each tool's length, by its position in the view.
    lengths: Vec<u32>,
    mean: f64,
    /// The sources of the tools.
    pub(super) sources: Vec<SourceId>,
}

#[derive(Debug, Clone, Copy)]
struct Posting {
    tool: u32,
    count: u16,
}

/// The most words used of a query.
const MAX_QUERY: usize = 24;
/// Common words without meaning for a search; used only if a query has no others.
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

// === impl Index ===

impl Index {
    pub(super) fn of(entries: &[Arc<Entry>]) -> Self {
        let mut postings: BTreeMap<Arc<str>, Vec<Posting>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(entries.len());
        for (tool, entry) in (0_u32..).zip(entries) {
            let words = entry.wire.words(entry);
            for (word, count) in &words.counts {
                let posting = Posting { tool, count: *count };
                postings.entry(Arc::clone(word)).or_default().push(posting);
            }
            lengths.push(words.length);
        }
        let total: f64 = lengths.iter().copied().map(f64::from).sum();
        let mean = total / f64::from(u32::try_from(lengths.len()).unwrap_or(u32::MAX).max(1));
        let sources: BTreeSet<_> = entries.iter().map(|entry| entry.source.clone()).collect();
        Self { postings, lengths, mean: mean.max(1.0), sources: sources.into_iter().collect() }
    }

    /// The positions of tools that match `query`, best first; equal scores in view order.
    pub(super) fn ranked(&self, query: &str) -> Vec<usize> {
        let mut scores: HashMap<u32, f64> = HashMap::new();
        let mut wanted_words: Vec<String> = words(query).take(MAX_QUERY).collect();
        // In a small catalog these words are rare enough to count, but they mean little.
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
        descriptor::SourceKind,
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
