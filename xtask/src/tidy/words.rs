//! Plain English: words that the project avoids, counted per 1 000 lines of prose or strings.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::shell::say;
use crate::tidy::prose::{self, Kind};
use crate::tidy::tree::Tree;

/// Words that are counted together.
struct Row {
    name: &'static str,
    /// The most occurrences per 1 000.
    most: f64,
    counts: fn(&Word<'_>) -> bool,
}

/// A word of a sentence, in small letters, and its neighbours.
struct Word<'a> {
    text: &'a str,
    next: &'a str,
    after_next: &'a str,
    is_question: bool,
}

const ROWS: [Row; 5] = [
    Row { name: "dialect", most: 2.5, counts: is_dialect },
    Row { name: "begin/end", most: 5.0, counts: |word| BEGIN_END.contains(&word.text) },
    Row { name: "that is", most: 15.0, counts: is_relative },
    Row { name: "none", most: 10.0, counts: is_negative },
    Row { name: "its own", most: 1.0, counts: is_own },
];

/// How often comments may use "returns" per 1 000 lines.
const RETURNS: (f64, f64) = (15.0, 50.0);

const DIALECT: &[&str] = &[
    "stand", "stands", "stood", "standing", "tell", "tells", "told", "telling", "whoever",
    "nobody", "somebody", "ask", "asks", "asked", "asking", "beside", "besides",
];
/// Words after `what` that make it a noun, in sentences that are no questions.
const AFTER_WHAT: &[&str] =
    &["is", "was", "were", "are", "has", "had", "it", "they", "a", "an", "comes", "came", "goes"];
const BEGIN_END: &[&str] = &["begin", "begins", "began", "begun", "ends", "ended"];

/// Files that a finding names.
const WORST: usize = 5;

fn is_dialect(word: &Word<'_>) -> bool {
    let is_noun = word.text == "what" && !word.is_question && AFTER_WHAT.contains(&word.next);
    is_noun || DIALECT.contains(&word.text)
}

fn is_relative(word: &Word<'_>) -> bool {
    matches!(word.text, "that" | "which") && matches!(word.next, "is" | "has" | "was")
}

fn is_negative(word: &Word<'_>) -> bool {
    matches!((word.text, word.next), ("none" | "nothing", _) | ("no", "longer" | "such"))
}

fn is_own(word: &Word<'_>) -> bool {
    let owner = matches!(word.next, "its" | "their" | "his" | "our" | "your");
    word.text == "of" && owner && word.after_next == "own"
}

/// The figures of one kind of prose, or of a part of it.
#[derive(Debug, Default)]
struct Area {
    units: usize,
    /// Occurrences by row and file; the last is that of "returns".
    counts: [BTreeMap<String, usize>; ROWS.len() + 1],
}

impl Area {
    fn rate(&self, row: usize) -> f64 {
        let count: usize = self.counts.get(row).map_or(0, |files| files.values().sum());
        count as f64 * 1_000.0 / self.units.max(1) as f64
    }

    fn returns(&self) -> f64 {
        self.rate(ROWS.len())
    }
}

/// Kinds of prose with more of a row than it permits.
pub(crate) fn counted(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for (kind, area) in areas(tree, |kind, _| kind) {
        for (row, Row { name, most, .. }) in ROWS.iter().enumerate() {
            let rate = area.rate(row);
            if rate > *most {
                findings.push(format!(
                    "{}: `{name}` {rate:.1} times per 1 000, at most {most:.1}; most in {}",
                    kind.name(),
                    worst(&area, row)
                ));
            }
        }
        let (rate, (least, most)) = (area.returns(), RETURNS);
        if kind == Kind::Comments && !(least..=most).contains(&rate) {
            findings.push(format!(
                "comments: `returns` {rate:.1} times per 1 000, {least:.0} to {most:.0}; most in {}",
                worst(&area, ROWS.len())
            ));
        }
    }
    Ok(findings)
}

/// Prints the figures of every kind, then of every folder below `crates`.
pub(crate) fn print(tree: &Tree) {
    let names: Vec<String> = ROWS.iter().map(|row| format!("{:>11}", row.name)).collect();
    say(format_args!("{:<32}{:>7}{}{:>11}", "", "UNITS", names.concat(), "returns"));
    let line = |name: &str, area: &Area| {
        let rates: String =
            (0..=ROWS.len()).map(|row| format!("{:>11.1}", area.rate(row))).collect();
        say(format_args!("{name:<32}{:>7}{rates}", area.units));
    };
    for (kind, area) in areas(tree, |kind, _| kind) {
        line(kind.name(), &area);
    }
    say("");
    let part = |kind: Kind, path: &str| {
        let parts: Vec<&str> = path.split('/').collect();
        let place = match parts.as_slice() {
            ["crates", name, ..] => name,
            [first, ..] => first,
            [] => "",
        };
        (kind, place.to_owned())
    };
    for ((kind, place), area) in areas(tree, part) {
        line(&format!("{} of {place}", kind.name()), &area);
    }
}

/// The files with most occurrences, and their numbers.
fn worst(area: &Area, row: usize) -> String {
    let mut files: Vec<(&String, &usize)> = area.counts.get(row).into_iter().flatten().collect();
    files.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let shown: Vec<String> =
        files.iter().take(WORST).map(|(file, count)| format!("{file} ({count})")).collect();
    shown.join(", ")
}

fn areas<K: Ord>(tree: &Tree, key: impl Fn(Kind, &str) -> K) -> BTreeMap<K, Area> {
    let mut areas: BTreeMap<K, Area> = BTreeMap::new();
    for file in tree.files() {
        for prose in prose::of(file) {
            let area = areas.entry(key(prose.kind, &file.path)).or_default();
            area.units += prose.units;
            for (files, count) in area.counts.iter_mut().zip(occurrences(&prose.text)) {
                if count > 0 {
                    files.insert(file.path.clone(), count);
                }
            }
        }
    }
    areas
}

/// How often each row occurs, and "returns".
fn occurrences(prose: &str) -> [usize; ROWS.len() + 1] {
    let mut counts = [0; ROWS.len() + 1];
    for sentence in prose.split_inclusive(['.', '?', '!', ';']) {
        let is_question = sentence.ends_with('?');
        let words: Vec<String> = sentence
            .split(|letter: char| !letter.is_alphanumeric() && letter != '\'' && letter != '-')
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let at = |index: usize| words.get(index).map(String::as_str).unwrap_or_default();
        for index in 0..words.len() {
            let (next, after_next) = (at(index + 1), at(index + 2));
            let word = Word { text: at(index), next, after_next, is_question };
            for (count, row) in counts.iter_mut().zip(&ROWS) {
                *count += usize::from((row.counts)(&word));
            }
            let [.., returns] = &mut counts;
            *returns += usize::from(word.text == "returns");
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_counts_its_words() {
        let text = "Nobody is told what is there. What is this? It begins, and no such thing that \
                    is of its own returns nothing. The end of what has ended. Which was asked?";
        assert_eq!(occurrences(text), [5, 2, 2, 2, 1, 1]);
    }

    #[test]
    fn a_kind_over_its_ceiling_names_its_worst_files() {
        let tree = Tree::of(&[
            ("crates/new/src/a.rs", "// told\nlet told = \"told here\";\n//! Returns. told\n"),
            ("crates/new/src/b.rs", "/// told and told and told\n"),
            ("README.md", "fine\n"),
        ]);
        assert_eq!(
            counted(&tree).unwrap(),
            [
                "comments: `dialect` 1666.7 times per 1 000, at most 2.5; most in \
                 crates/new/src/b.rs (3), crates/new/src/a.rs (2)",
                "comments: `returns` 333.3 times per 1 000, 15 to 50; most in \
                 crates/new/src/a.rs (1)",
                "strings: `dialect` 1000.0 times per 1 000, at most 2.5; most in \
                 crates/new/src/a.rs (1)",
            ]
        );
    }
}
