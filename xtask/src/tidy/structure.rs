//! Who may name what (I-1 to I-5), and the shape of files.

use anyhow::Result;

use crate::tidy::source::has_word;
use crate::tidy::tree::Tree;

/// Crates that make up the product.
pub(crate) const PRODUCT: &[&str] = &[
    "core",
    "mcp",
    "oauth",
    "tasks",
    "store",
    "sources",
    "config",
    "gateway",
    "toolcrib",
    "client",
    "conformance",
    "telemetry",
    "cli",
];

/// Where the table of dialects is.
const DIALECTS: &str = "crates/toolcrib/src/lib.rs";

/// A file that needs more lines holds more than one idea.
const MAX_LINES: usize = 800;

/// Words that only some places may use.
struct Boundary {
    words: &'static [&'static str],
    members: &'static [&'static str],
    /// Prefixes of paths.
    allowed: &'static [&'static str],
    why: &'static str,
}

const BOUNDARIES: &[Boundary] = &[
    Boundary {
        words: &["rusqlite"],
        members: PRODUCT,
        allowed: &["crates/store/"],
        why: "I-2: SQL lives in store",
    },
    Boundary {
        words: &["reqwest"],
        members: PRODUCT,
        allowed: &[
            "crates/sources/src/egress",
            "crates/client/",
            "crates/conformance/",
            "crates/telemetry/",
            "crates/cli/src/client",
        ],
        why: "I-2: outgoing HTTP goes through sources::egress",
    },
    Boundary {
        words: &["process_wrap", "process::Command", "tokio::process"],
        members: PRODUCT,
        // The browser belongs to the user of a command, and outlives it.
        allowed: &["crates/sources/src/process", "crates/cli/src/browser.rs"],
        why: "I-2: children are started by sources::process",
    },
    Boundary {
        words: &["axum"],
        members: PRODUCT,
        allowed: &[
            "crates/toolcrib/",
            "crates/cli/",
            "crates/conformance/src/broken.rs",
            "crates/conformance/src/broken/host.rs",
        ],
        why: "I-2: axum belongs to toolcrib and to the wiring of the command line",
    },
    Boundary {
        words: &["tokio::spawn", "task::spawn"],
        members: &["gateway"],
        allowed: &[],
        why: "I-91: tasks of a gateway are started by `Background`, which stops them",
    },
    Boundary {
        words: &["rmcp", "toolcrib_testkit"],
        members: PRODUCT,
        allowed: &[],
        why: "I-5: no product crate uses rmcp or testkit",
    },
    Boundary {
        words: &["toolcrib_store", "toolcrib_sources"],
        members: &["core", "config", "gateway", "toolcrib"],
        allowed: &[],
        why: "I-3: the gateway holds trait objects",
    },
    Boundary {
        words: &[
            "SqliteStore",
            "MemoryStorage",
            "MemoryLog",
            "MemoryCatalogs",
            "MemoryCredentials",
        ],
        members: &["cli"],
        allowed: &[],
        why: "I-3: the command line opens its store by URL and names no engine",
    },
    Boundary {
        words: &[
            "tokio",
            "SystemTime::now",
            "Instant::now",
            "Utc::now",
            "Local::now",
            "getrandom",
            "rand",
            "std::fs",
            "std::env",
            "TcpListener",
            "TcpStream",
            "UdpSocket",
            "ToSocketAddrs",
            "std::process",
            "std::thread",
        ],
        members: &["core"],
        allowed: &[],
        why: "I-1: core has no runtime, clock, randomness, files or environment",
    },
];

/// I-1, I-2, I-3, I-5 in the sources.
pub(crate) fn boundaries(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for boundary in BOUNDARIES {
        for (path, source) in tree.sources(boundary.members) {
            if boundary.allowed.iter().any(|allowed| path.starts_with(allowed)) {
                continue;
            }
            for (number, line) in source.product_lines() {
                for word in boundary.words.iter().filter(|word| has_word(line, word)) {
                    findings.push(format!("{path}:{number}: `{word}`: {}", boundary.why));
                }
            }
        }
    }
    Ok(findings)
}

/// I-4: no dialect of `crates/toolcrib` names another.
pub(crate) fn dialects(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let table = tree.get(DIALECTS).map(|file| file.text.as_str()).unwrap_or_default();
    // Its entries are `name::DIALECT`.
    let entries: Vec<&str> = table.split("::DIALECT").collect();
    let names = entries.split_last().map_or(&[][..], |(_, before)| before).iter();
    let names: Vec<&str> = names.filter_map(|before| last_name(before)).collect();
    if names.is_empty() {
        findings.push(format!("{DIALECTS}: no table of dialects: adapt this rule"));
    }
    for (path, source) in tree.sources(&["toolcrib"]) {
        let Some(inside) = path.strip_prefix("crates/toolcrib/src/") else { continue };
        let own = inside.split(['/', '.']).next().unwrap_or_default();
        if !names.contains(&own) {
            continue;
        }
        let code = source.product();
        for named in modules_named(&code).filter(|named| *named != own) {
            if names.contains(&named) {
                findings.push(format!(
                    "{path}: names `{named}`: I-4: code for two dialects belongs next to them"
                ));
            }
        }
    }
    Ok(findings)
}

/// File names and lengths.
pub(crate) fn files(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        if lines > MAX_LINES {
            findings.push(format!("{}: {lines} lines: split it ({MAX_LINES} at most)", file.path));
        }
        if file.path.ends_with("/mod.rs") {
            findings.push(format!("{}: name it after its folder, next to it", file.path));
        }
    }
    Ok(findings)
}

/// Every module that follows `crate::` or `super::` directly, in groups too.
fn modules_named(code: &str) -> impl Iterator<Item = &str> {
    ["crate::", "super::"]
        .into_iter()
        .flat_map(|root| code.match_indices(root).map(move |(at, _)| at + root.len()))
        .filter_map(|at| code.get(at..))
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(group) => first_of_each(group),
            None => vec![first_name(rest)],
        })
}

/// The first name of each part of a `use` group, whose opening brace is gone.
fn first_of_each(group: &str) -> Vec<&str> {
    let (mut depth, mut names, mut start) = (0_usize, Vec::new(), 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                names.push(first_name(group.get(start..at).unwrap_or_default().trim_start()));
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names
}

fn last_name(text: &str) -> Option<&str> {
    text.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

fn first_name(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    text.get(..end.unwrap_or(text.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_that_is_crossed_is_found() {
        // I-1, I-2, I-3, I-5
        let tree = Tree::of(&[
            (
                "crates/core/src/a.rs",
                "fn f() { std::time::Instant::now() }\n// tokio is fine here\n",
            ),
            ("crates/gateway/src/b.rs", "use toolcrib_store::SqliteLog;\nuse rusqlite::Row;"),
            ("crates/store/src/c.rs", "use rusqlite::Row;"),
            (
                "crates/sources/src/mcp.rs",
                "use rmcp::model;\n#[cfg(test)]\nmod tests { use rmcp::x; }",
            ),
            ("crates/sources/src/egress.rs", "use reqwest::Client;"),
            ("crates/cli/src/main.rs", "fn f() { std::process::Command::new(\"x\") }"),
            ("crates/cli/src/store.rs", "use toolcrib_store::SqliteStore;"),
        ]);
        let mut found = boundaries(&tree).unwrap();
        found.sort();
        let places: Vec<_> =
            found.iter().map(|finding| finding.split(": I-").next().unwrap()).collect();
        assert_eq!(
            places,
            [
                "crates/cli/src/main.rs:1: `process::Command`",
                "crates/cli/src/store.rs:1: `SqliteStore`",
                "crates/core/src/a.rs:1: `Instant::now`",
                "crates/gateway/src/b.rs:1: `toolcrib_store`",
                "crates/gateway/src/b.rs:2: `rusqlite`",
                "crates/sources/src/mcp.rs:1: `rmcp`",
            ]
        );
    }

    #[test]
    fn a_dialect_that_names_another_is_found() {
        // I-4
        let tree = Tree::of(&[
            (
                "crates/toolcrib/src/lib.rs",
                "const DIALECTS: &[Dialect] =\n    &[openwop::DIALECT, otc::DIALECT, explorer::DIALECT, mcp::DIALECT];",
            ),
            ("crates/toolcrib/src/otc/call.rs", "use crate::respond;\nuse super::error;"),
            ("crates/toolcrib/src/otc.rs", "use crate::{respond, openwop::error::Body};"),
            ("crates/toolcrib/src/mcp/convert.rs", "fn f() { crate::explorer::list() }"),
            ("crates/toolcrib/src/router.rs", "use crate::{openwop, otc};"),
        ]);
        let found = dialects(&tree).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|finding| finding.contains("names `openwop`")));
        assert!(found.iter().any(|finding| finding.contains("names `explorer`")));
    }
}
