//! Plain English: words that the project avoids, counted per 1 000 lines of prose.
//!
//! An area is a part of the tree. In each, every group of words may occur at most [`PLAIN`] times.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::shell::say;
use crate::tidy::tree::{TextFile, Tree};

/// The most occurrences of a group per 1 000 lines.
const PLAIN: f64 = 2.0;

/// Pages that the program writes from its own texts.
const GENERATED: &[&str] = &[
    "docs/reference/cli.md",
    "docs/reference/configuration.md",
    "docs/reference/conformance.md",
    "docs/reference/metrics.md",
    "docs/reference/benchmarks.md",
    "docs/reference/growth.md",
];

/// Names and words of the groups. `what` counts before one of its followers, in sentences that are
/// no questions.
const GROUPS: [(&str, &[&str]); 6] = [
    ("stand", &["stand", "stands", "stood", "standing"]),
    ("tell", &["tell", "tells", "told", "telling"]),
    ("nobody", &["whoever", "nobody", "somebody"]),
    ("what is", &["what"]),
    ("ask", &["ask", "asks", "asked", "asking"]),
    ("beside", &["beside", "besides"]),
];

/// Words after `what` that make it a noun.
const AFTER_WHAT: &[&str] =
    &["is", "was", "were", "are", "has", "had", "it", "they", "a", "an", "comes", "came", "goes"];

/// Files that a finding names.
const WORST: usize = 3;

/// The figures of one area.
#[derive(Debug, Default)]
struct Area {
    lines: usize,
    /// Occurrences by group and file.
    counts: [BTreeMap<String, usize>; GROUPS.len()],
}

impl Area {
    fn rate(&self, group: usize) -> f64 {
        let count: usize = self.counts.get(group).map_or(0, |files| files.values().sum());
        count as f64 * 1_000.0 / self.lines.max(1) as f64
    }
}

/// Areas with more of a group than [`PLAIN`] permits.
pub(crate) fn counted(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for (name, area) in areas(tree) {
        for (group, (word, _)) in GROUPS.iter().enumerate() {
            let rate = area.rate(group);
            if rate > PLAIN {
                findings.push(format!(
                    "{name}: `{word}` {rate:.1} times per 1 000 lines of prose, at most {PLAIN:.1}; \
                     most in {}",
                    worst(&area, group)
                ));
            }
        }
    }
    Ok(findings)
}

/// Prints the figures of every area.
pub(crate) fn print(tree: &Tree) {
    let names: Vec<String> = GROUPS.iter().map(|(name, _)| format!("{name:>8}")).collect();
    say(format_args!("{:<16}{:>7}{}", "AREA", "LINES", names.concat()));
    for (name, area) in areas(tree) {
        let rates: String =
            (0..GROUPS.len()).map(|group| format!("{:>8.1}", area.rate(group))).collect();
        say(format_args!("{name:<16}{:>7}{rates}", area.lines));
    }
}

/// The files with most occurrences, and their numbers.
fn worst(area: &Area, group: usize) -> String {
    let mut files: Vec<(&String, &usize)> = area.counts.get(group).into_iter().flatten().collect();
    files.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let shown: Vec<String> =
        files.iter().take(WORST).map(|(file, count)| format!("{file} ({count})")).collect();
    shown.join(", ")
}

fn areas(tree: &Tree) -> BTreeMap<String, Area> {
    let mut areas: BTreeMap<String, Area> = BTreeMap::new();
    for file in tree.files() {
        let Some((name, lines, prose)) = prose(file) else { continue };
        let area = areas.entry(name).or_default();
        area.lines += lines;
        for (files, count) in area.counts.iter_mut().zip(occurrences(&prose)) {
            if count > 0 {
                files.insert(file.path.clone(), count);
            }
        }
    }
    areas
}

/// The area of a file, its lines of prose, and the prose; nothing for files that do not count.
fn prose(file: &TextFile) -> Option<(String, usize, String)> {
    let path = file.path.as_str();
    if path.ends_with(".md") {
        let name = match path {
            _ if GENERATED.contains(&path) => "generated docs",
            "README.md" | "CONTRIBUTING.md" | "CHANGELOG.md" => "docs",
            _ if path.starts_with("docs/") => "docs",
            _ => return None,
        };
        return Some((name.to_owned(), file.text.lines().count(), plain(file.text.lines())));
    }
    let name = match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, "src", ..] => name,
        ["xtask", ..] => "xtask",
        ["bench", ..] => "bench",
        _ => return None,
    };
    if !path.ends_with(".rs") {
        return None;
    }
    let comments = || {
        file.text.lines().filter_map(|line| {
            let text = line.trim_start().strip_prefix("//")?;
            Some(text.trim_start_matches(['/', '!']))
        })
    };
    Some((name.to_owned(), comments().count(), plain(comments())))
}

/// Prose without code: no fenced blocks, no code spans. A heading, a row and an item each end a
/// sentence.
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

/// How often each group occurs.
fn occurrences(prose: &str) -> [usize; GROUPS.len()] {
    let mut counts = [0; GROUPS.len()];
    for sentence in prose.split_inclusive(['.', '?', '!', ';']) {
        let words: Vec<String> = sentence
            .split(|letter: char| !letter.is_alphanumeric() && letter != '\'' && letter != '-')
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1).map(String::as_str).unwrap_or_default();
            let counts_here =
                word != "what" || (!sentence.ends_with('?') && AFTER_WHAT.contains(&next));
            for (count, (_, group)) in counts.iter_mut().zip(GROUPS) {
                *count += usize::from(counts_here && group.contains(&word.as_str()));
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_in_prose_and_in_no_code() {
        let text = "Nobody is told what is in `what is`. What is this?\n```\nasked\n```\n\
                    Whatever stands beside it asks.\n";
        assert_eq!(occurrences(&plain(text.lines())), [1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn an_area_over_its_ceiling_names_its_worst_files() {
        let tree = Tree::of(&[
            ("crates/new/src/a.rs", "// told\nlet told = 1;\n//! told\n"),
            ("crates/new/src/b.rs", "/// told and told and told\n"),
            ("README.md", "fine\n"),
        ]);
        assert_eq!(
            counted(&tree).unwrap(),
            ["new: `tell` 1666.7 times per 1 000 lines of prose, at most 2.0; \
              most in crates/new/src/b.rs (3), crates/new/src/a.rs (2)"]
        );
    }
}
