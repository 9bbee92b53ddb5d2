//! The table of requirements in the documentation: each check, and whether toolcrib passes it.

use std::fmt::Write as _;

use crate::{Check, suites};

/// The marks around the table.
const START: &str = "<!-- checks: made by `cargo xtask gen` -->";
const END: &str = "<!-- end of checks -->";

/// Checks that do not apply to the demo, and why. A test compares this list with a run against
/// `serve --demo --test-routes`, which passes all checks that are in neither list.
const SKIPPED: &[(&str, &str)] = &[
    ("openwop.discovery.other-families", "the demo does not advertise these families"),
    ("openwop.errors.rate-limit", "the demo does not limit discovery"),
    ("openwop.compact.unadvertised", "the demo advertises the view"),
    ("openwop2.discovery.mcp", "the demo does not advertise `mcp`"),
    ("openwop2.errors.rate-limit", "the demo does not limit discovery"),
    ("openwop2.cors.preflight", "the demo grants access to no origin"),
    ("openwop2.cors.exposed", "the demo grants access to no origin"),
    ("otc.call.requirements", "no tool of the demo requires anything"),
    ("otc.auth.ignored-when-off", "the demo requires keys"),
    ("oxp.call.requirements", "no tool of the demo requires anything"),
    ("oxp.auth.ignored-when-off", "the demo requires keys"),
    ("mcp.http.post-only", "the demo also supports revisions with a handshake"),
    ("mcp.auth.metadata", "the demo has no authorization server"),
    ("mcp.auth.resource", "the demo has no authorization server"),
    ("mcp.auth.scope", "the demo has no authorization server"),
    ("explorer.list.when-disabled", "the demo runs tools"),
    ("explorer.call.disabled", "the demo runs tools"),
    ("explorer.validate.when-disabled", "the demo runs tools"),
    ("explorer.order.disabled-before-unknown", "the demo runs tools"),
    ("explorer.order.disabled-before-auth", "the demo runs tools"),
    ("explorer.validate.no-schema", "every tool of the demo has a schema"),
    ("explorer.validate.pointers", "no argument of the demo has a name with `/` or `~`"),
    ("explorer.validate.bad-schema", "a gateway omits such tools"),
    ("explorer.auth.invalid-ignored", "the list of the demo requires a key"),
    ("explorer.order.unknown-before-auth", "the list of the demo requires a key"),
];

/// Checks that the demo fails, and why.
const FAILED: &[(&str, &str)] = &[(
    "openwop2.versions.default-tools",
    "Open Tool Calling has this path without the header; passes with `[openwop] v2 = \"root\"`",
)];

/// Returns `page` with the current table, or `None` if it has no marks.
pub fn update(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{START}\n{}\n{END}{after}", table()))
}

fn table() -> String {
    let mut text = String::new();
    for suite in suites() {
        let protocol = suite.protocol;
        let head = "| Requirement | Check | Level | toolcrib |\n|---|---|---|---|";
        // Writing to a string cannot fail.
        writeln!(text, "\n### {protocol}\n\n{head}").ok();
        for check in suite.all() {
            let Check { id, level, section, requirement, .. } = check;
            let requirement = format!("{requirement} ({section})").replace('|', "\\|");
            let status = status(id);
            writeln!(text, "| {requirement} | `{id}` | {} | {status} |", level.as_str()).ok();
        }
    }
    text
}

/// The outcome of a check of the demo, with the reason if it does not pass.
fn status(id: &str) -> String {
    let reason = |list: &[(&str, &'static str)]| {
        let found = list.iter().find(|(listed, _)| *listed == id);
        found.map(|(_, why)| *why)
    };
    match (reason(SKIPPED), reason(FAILED)) {
        (Some(why), _) => format!("skipped: {why}"),
        (None, Some(why)) => format!("fails: {why}"),
        (None, None) => "passes".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let page = format!("a\n{START}\nformerly\n{END}\nb\n");
        let new = update(&page).unwrap();
        assert!(new.starts_with("a\n") && new.ends_with("\nb\n") && !new.contains("formerly"));
        assert!(new.contains("`openwop.discovery.public`"));
        assert_eq!(update(&new), Some(new.clone()));
        assert_eq!(update("no marks"), None);
    }

    #[test]
    fn every_exception_is_a_check() {
        let known = |id: &str| suites().iter().any(|suite| suite.all().any(|check| check.id == id));
        assert!(SKIPPED.iter().chain(FAILED).all(|(id, _)| known(id)));
    }
}
