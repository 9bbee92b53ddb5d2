//! Tables on a terminal of 80 columns, over real output of every command that prints one.

use crate::support::{
    Ran, Server, config, demo_key, dir, finish, key, run, toolcrib, write_config,
};

/// What `args` print on a terminal of that many columns.
fn narrow(dir: &std::path::Path, columns: &str, args: &[&str]) -> Ran {
    finish(toolcrib(dir).env("COLUMNS", columns).args(args)).ok()
}

#[test]
fn every_table_fits_and_says_everything_when_asked() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    std::fs::write(dir.path().join("key"), demo_key(&data, "admin")).unwrap();
    let there = ["--url", &server.url, "--key-file", "key"];
    run(dir.path(), &[&there[..], &["call", "demo__wipe", "target=the documents"]].concat());
    run(dir.path(), &[&there[..], &["call", "flows__digest"]].concat());
    let here = ["--data-dir", "data"];
    for (place, args) in [
        (&there[..], &["tools", "list"][..]),
        (&there, &["tools", "search", "weather"]),
        (&there, &["tools", "lint"]),
        (&there, &["sources", "list"]),
        (&there, &["approvals", "list"]),
        (&there, &["runs", "list"]),
        (&there, &["keys", "list"]),
        (&there, &["audit", "forwarders"]),
        (&here, &["keys", "list"]),
        (&here, &["packs", "list"]),
        (&here, &["audit", "verify"]),
        (&here, &["conformance", "--list"]),
    ] {
        let args = [place, args].concat();
        let full = run(dir.path(), &args).stdout;
        for columns in ["60", "80", "120"] {
            let shown = finish(toolcrib(dir.path()).env("COLUMNS", columns).args(&args)).stdout;
            assert_eq!(shown.lines().count(), full.lines().count(), "{args:?}: one line a row");
            let words: Vec<&str> = full.split_whitespace().collect();
            for line in shown.lines() {
                let width = line.chars().count();
                assert!(width <= columns.parse().unwrap(), "{args:?}, {width}: {line}");
                // A word is whole, or what is left of it ends in `…`.
                for word in line.split_whitespace().filter(|word| !word.ends_with('…')) {
                    assert!(words.contains(&word) || is_time(word), "{args:?}: {word:?} in {line}");
                }
            }
        }
    }
}

/// A part of `3m ago` or `in 2d`.
fn is_time(word: &str) -> bool {
    matches!(word, "ago" | "in") || word.chars().next().is_some_and(|c| c.is_ascii_digit())
}

#[test]
fn lists_are_wide_or_json_when_asked() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let scopes: Vec<String> = (0..9).map(|at| format!("--scope=area{at}:read")).collect();
    let mut create = vec!["--name", "a-rather-long-name-of-a-key", "--expires", "30d"];
    create.extend(scopes.iter().map(String::as_str));
    let made = run(dir.path(), &[&["keys", "create", "--json"], &create[..]].concat()).ok().json();
    let id = made["id"].as_str().unwrap();
    let short = narrow(dir.path(), "80", &["keys", "list"]).stdout;
    assert!(short.contains('…') && short.contains(id) && !short.contains("area8:read"), "{short}");
    let broader = narrow(dir.path(), "120", &["keys", "list"]).stdout;
    assert!(broader.contains("until in 29d") && broader.contains(id), "{broader}");
    let wide = narrow(dir.path(), "80", &["keys", "list", "-o", "wide"]).stdout;
    assert!(!wide.contains('…') && wide.contains("area8:read"), "{wide}");
    assert!(
        wide.contains("CREATED") && wide.contains(made["createdAt"].as_str().unwrap()),
        "{wide}"
    );
    assert_eq!(
        run(dir.path(), &["keys", "list", "-o", "json"]).ok().stdout,
        run(dir.path(), &["keys", "list", "--json"]).ok().stdout
    );
    assert_eq!(run(dir.path(), &["keys", "list", "-o", "yaml"]).code, 2);
}

#[test]
fn colours_are_for_terminals() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    key(dir.path(), &["--scope", "demo:read"]);
    let list = |variables: &[(&str, &str)]| {
        let mut command = toolcrib(dir.path());
        command.envs(variables.iter().copied()).args(["tools", "list"]);
        finish(&mut command).ok().stdout
    };
    let coloured = "\u{1b}[32mread\u{1b}[39m";
    assert!(!list(&[]).contains('\u{1b}'));
    let forced = list(&[("CLICOLOR_FORCE", "1")]);
    assert!(forced.contains(coloured), "{forced:?}");
    assert!(!list(&[("NO_COLOR", "1")]).contains('\u{1b}'));
}
