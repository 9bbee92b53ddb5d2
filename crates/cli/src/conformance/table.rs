//! The table of `docs/reference/conformance.md`: every requirement, its check, and how this program does.

use std::fmt::Write as _;

use super::{Check, matches, suites};

/// Where the table stands in the page.
const START: &str = "<!-- checks: made by `cargo xtask gen` -->";
const END: &str = "<!-- end of checks -->";

/// Checks that find nothing to look at in the demo, and why. A test compares this with a run
/// against `serve --demo --test-seams`; whatever is not named here passes there.
const NOTHING_TO_SEE: &[(&str, &str)] = &[
    ("openwop.discovery.other-families", "none of these is advertised"),
    ("openwop.errors.rate-limit", "discovery is not limited"),
    ("openwop.compact.unadvertised", "it is advertised"),
    ("otc.call.requirements", "no tool of the demo requires anything"),
    ("otc.auth.ignored-when-off", "the demo wants keys"),
    ("oxp.call.requirements", "no tool of the demo requires anything"),
    ("oxp.auth.ignored-when-off", "the demo wants keys"),
    ("mcp.http.post-only", "the demo speaks revisions with a handshake too"),
    ("mcp.auth.metadata", "the demo has no authorization server"),
    ("explorer.list.when-disabled", "the demo runs tools"),
    ("explorer.call.disabled", "the demo runs tools"),
    ("explorer.validate.when-disabled", "the demo runs tools"),
    ("explorer.order.disabled-before-unknown", "the demo runs tools"),
    ("explorer.order.disabled-before-auth", "the demo runs tools"),
    ("explorer.validate.no-schema", "every tool of the demo has a schema"),
    ("explorer.validate.bad-schema", "a gateway leaves such tools out"),
    ("explorer.auth.junk-ignored", "the demo's list wants a key"),
    ("explorer.order.unknown-before-auth", "the demo's list wants a key"),
];

/// Groups of checks that do not pass yet. The test leaves them alone.
const NOT_YET: &[&str] = &[];

/// `page` with the current table; `None` when it has no place for one.
pub(crate) fn placed_in(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{START}\n{}\n{END}{after}", table()))
}

fn table() -> String {
    let mut text = String::new();
    for suite in suites() {
        // Writing to a string cannot fail.
        write!(
            text,
            "\n### {}\n\n| Requirement | Check | Level | toolcrib |\n|---|---|---|---|\n",
            suite.protocol
        )
        .ok();
        for check in suite.all() {
            writeln!(
                text,
                "| {} ({}) | `{}` | {} | {} |",
                cell(check.sentence),
                cell(check.section),
                check.id,
                check.level.as_str(),
                status(check)
            )
            .ok();
        }
    }
    text
}

fn status(check: &Check) -> String {
    if NOT_YET.iter().any(|group| matches(check.id, group)) {
        return "not yet".to_owned();
    }
    match NOTHING_TO_SEE.iter().find(|(id, _)| *id == check.id) {
        None => "passes".to_owned(),
        Some((_, why)) => format!("not looked at: {why}"),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let page = format!("a\n{START}\nformerly\n{END}\nb\n");
        let new = placed_in(&page).unwrap();
        assert!(new.starts_with("a\n") && new.ends_with("\nb\n") && !new.contains("formerly"));
        assert!(new.contains("`openwop.discovery.public`"));
        assert_eq!(placed_in(&new), Some(new.clone()));
        assert_eq!(placed_in("no marks"), None);
    }

    #[test]
    fn every_exception_is_a_check() {
        let known = |id: &str| suites().iter().any(|it| it.all().any(|check| check.id == id));
        assert!(NOTHING_TO_SEE.iter().all(|(id, _)| known(id)));
    }
}
