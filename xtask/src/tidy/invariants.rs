//! Every invariant of docs/explanation/architecture.md is cited by a test.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

const PAGE: &str = "docs/explanation/architecture.md";

/// A longer invariant is two.
const MAX_WORDS: usize = 25;

/// Invariants that share a number, are too long or out of order, invariants that no test cites, and
/// numbers that tests cite but the page does not have.
pub(crate) fn cited(tree: &Tree) -> Result<Vec<String>> {
    let page = tree.get(PAGE).with_context(|| format!("{PAGE} is gone"))?;
    let mut stated = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut last = 0;
    for line in page.text.lines() {
        if line.starts_with('#') {
            last = 0;
        }
        let Some((name, text)) =
            line.strip_prefix("- **I-").and_then(|line| line.split_once("** "))
        else {
            continue;
        };
        let Ok(number) = name.parse::<u32>() else { continue };
        if !stated.insert(number) {
            wrong.push(format!("I-{number}: two invariants of {PAGE} have this number"));
        }
        if number < last {
            wrong.push(format!("I-{number}: out of order in its section of {PAGE}"));
        }
        last = number;
        let words = text.split_whitespace().count();
        if words > MAX_WORDS {
            wrong.push(format!("I-{number}: {words} words, at most {MAX_WORDS}"));
        }
    }
    let mut cited = BTreeSet::new();
    for file in tree.rust() {
        let source = Source::new(&file.path, &file.text);
        cited.extend(source.tests().flat_map(numbers));
    }
    for file in tree.files().filter(|file| is_script_of_tests(&file.path)) {
        cited.extend(numbers(&file.text));
    }
    let missing = stated.difference(&cited).map(|number| format!("I-{number}: no test cites it"));
    let unknown = cited.difference(&stated).map(|number| format!("I-{number}: not in {PAGE}"));
    Ok(wrong.into_iter().chain(missing).chain(unknown).collect())
}

fn is_script_of_tests(path: &str) -> bool {
    (path.starts_with("tests/") || path.contains("/tests/"))
        && [".mjs", ".py", ".ts"].iter().any(|ending| path.ends_with(ending))
}

/// Every number written as `I-n`.
fn numbers(text: &str) -> Vec<u32> {
    let cited = |(at, _): (usize, &str)| {
        let before = text.get(..at)?.chars().next_back();
        if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '-') {
            return None;
        }
        let digits = text.get(at + 2..)?;
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        digits.get(..end)?.parse().ok()
    };
    text.match_indices("I-").filter_map(cited).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_count_in_tests_only() {
        let page = "- **I-1** one.\n- **I-2** two, see I-1.\n- **I-3** three.\n- **I-2** four.\n## B\n- **I-1** five.\n";
        let tree = Tree::of(&[
            (PAGE, page),
            ("crates/core/src/a.rs", "// I-1\n#[cfg(test)]\nmod tests {\n    // I-2\n}\n"),
            ("crates/core/tests/it/main.rs", "// as I-4 says; UI-1 and API-1 are something else"),
        ]);
        // The third and fourth are cited by the text above only in this tree.
        let found = cited(&tree).unwrap();
        assert_eq!(
            found,
            [
                "I-2: two invariants of docs/explanation/architecture.md have this number",
                "I-2: out of order in its section of docs/explanation/architecture.md",
                "I-1: two invariants of docs/explanation/architecture.md have this number",
                "I-1: no test cites it",
                "I-3: no test cites it",
                "I-4: not in docs/explanation/architecture.md"
            ]
        );
    }
}
