//! Every promise of docs/explanation/security.md names an existing test.

use anyhow::{Context, Result};

use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

const PAGE: &str = "docs/explanation/security.md";
const SECTION: &str = "## Promises";

/// Promises without a test, and unknown names of tests. A name is `path::function`, where the path
/// starts with `crates/`.
pub(crate) fn proved(tree: &Tree) -> Result<Vec<String>> {
    let page = tree.get(PAGE).with_context(|| format!("{PAGE} is gone"))?;
    let section = page.text.split_once(SECTION).map(|(_, rest)| rest);
    let section = section.with_context(|| format!("{PAGE} has no `{SECTION}`"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut found = Vec::new();
    for row in rows {
        let mut tests = row.split('`').filter(|text| text.contains(".rs::")).peekable();
        if tests.peek().is_none() {
            found.push(format!("{PAGE}: no test proves: {row}"));
        }
        found.extend(
            tests
                .filter(|name| !is_test(tree, name))
                .map(|name| format!("{PAGE}: there is no test `{name}`")),
        );
    }
    Ok(found)
}

fn is_test(tree: &Tree, name: &str) -> bool {
    let Some((path, function)) = name.split_once("::") else { return false };
    let Some(file) = tree.get(&format!("crates/{path}")) else { return false };
    let source = Source::new(&file.path, &file.text);
    let wanted = format!("fn {function}(");
    source.tests().any(|line| line.contains(&wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_without_its_test_is_found() {
        let page = "## Promises\n\n| Promise | | Tests |\n|---|---|---|\n\
                    | one | | `core/tests/a.rs::one` |\n| two | | `core/tests/a.rs::two` |\n\
                    | three | | |\n| four | | `core/tests/b.rs::four` |\n\n## More\n\n| a | b |\n";
        let tree = Tree::of(&[(PAGE, page), ("crates/core/tests/a.rs", "fn one() {}\n")]);
        assert_eq!(
            proved(&tree).unwrap(),
            [
                "docs/explanation/security.md: there is no test `core/tests/a.rs::two`",
                "docs/explanation/security.md: no test proves: | three | | |",
                "docs/explanation/security.md: there is no test `core/tests/b.rs::four`",
            ]
        );
    }
}
