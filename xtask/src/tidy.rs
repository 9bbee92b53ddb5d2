//! Rules that no compiler checks, run by `cargo xtask tidy` and by this crate's tests.
//!
//! Each check reads the tree as it is (tracked and new files, without ignored ones) and returns
//! findings, each with the file, the mistake and the remedy.

mod imports;
mod invariants;
mod links;
mod members;
mod page;
mod promises;
mod prose;
pub(crate) mod publish;
mod source;
mod structure;
mod text;
mod tree;
mod words;

use anyhow::{Result, bail};

use crate::shell::say;
use crate::tidy::tree::Tree;

type Check = fn(&Tree) -> Result<Vec<String>>;

const CHECKS: &[(&str, Check)] = &[
    ("dependencies", members::dependencies),
    ("manifests", members::manifests),
    ("published crates", publish::ready),
    ("included files", publish::included),
    ("boundaries", structure::boundaries),
    ("dialects", structure::dialects),
    ("imports", imports::cycles),
    ("files", structure::files),
    ("page", page::layers),
    ("text", text::places),
    ("lock files", text::locks),
    ("invariants", invariants::cited),
    ("promises", promises::proved),
    ("links", links::followed),
    ("words", words::counted),
];

/// Prints how often each area uses the words that the project avoids.
pub(crate) fn print_words() -> Result<()> {
    words::print(&Tree::read()?);
    Ok(())
}

/// Prints which folder of each crate imports which.
pub(crate) fn print_graph() -> Result<()> {
    imports::print(&Tree::read()?);
    Ok(())
}

/// Runs every check and names every finding.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read()?;
    let mut found = 0;
    for (name, check) in CHECKS {
        for finding in check(&tree)? {
            say(format_args!("{name}: {finding}"));
            found += 1;
        }
    }
    if found > 0 {
        bail!("{found} findings");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(check: Check) -> Vec<String> {
        check(&Tree::read().unwrap()).unwrap()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn members_depend_only_on_what_the_architecture_allows() {
        // I-1, I-2, I-3, I-5
        assert_eq!(findings(members::dependencies), NONE);
    }

    #[test]
    fn every_manifest_takes_lints_and_licence_from_the_workspace() {
        assert_eq!(findings(members::manifests), NONE);
    }

    #[test]
    fn the_crates_of_the_product_can_be_published() {
        assert_eq!(findings(publish::ready), NONE);
        assert_eq!(findings(publish::included), NONE);
    }

    #[test]
    fn only_the_named_places_reach_outward() {
        // I-1, I-2, I-3, I-5
        assert_eq!(findings(structure::boundaries), NONE);
    }

    #[test]
    fn no_dialect_names_another() {
        // I-4
        assert_eq!(findings(structure::dialects), NONE);
    }

    #[test]
    fn files_do_not_import_each_other_in_circles() {
        assert_eq!(findings(imports::cycles), NONE);
    }

    #[test]
    fn the_page_has_one_renderer_and_its_screens_share_through_lib() {
        assert_eq!(findings(page::layers), NONE);
    }

    #[test]
    fn files_are_short_and_never_called_mod() {
        assert_eq!(findings(structure::files), NONE);
    }

    #[test]
    fn no_file_names_a_machine_or_a_registry() {
        assert_eq!(findings(text::places), NONE);
        assert_eq!(findings(text::locks), NONE);
    }

    #[test]
    fn every_invariant_is_cited_by_a_test() {
        assert_eq!(findings(invariants::cited), NONE);
    }

    #[test]
    fn every_promise_names_its_test() {
        assert_eq!(findings(promises::proved), NONE);
    }

    #[test]
    fn every_link_leads_somewhere() {
        assert_eq!(findings(links::followed), NONE);
    }

    #[test]
    fn prose_is_plain() {
        assert_eq!(findings(words::counted), NONE);
    }
}
