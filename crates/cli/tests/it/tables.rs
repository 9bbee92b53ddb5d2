//! Tables on a terminal of 80 columns, over real output of every command that prints one.

use crate::support::{
    CommandOutput, Server, config, demo_key, dir, finish, key, run, toolcrib, write_config,
};

/// Returns the output of `args` on a terminal with this many columns.
fn narrow(dir: &std::path::Path, columns: &str, args: &[&str]) -> CommandOutput {
    finish(toolcrib(dir).env("COLUMNS", columns).args(args)).ok()
}

/// Asserts that what `args` print is a table with at least one row, which fits terminals of several
/// widths: a row stays a line, and a word that is not whole ends in `…`.
fn fits(dir: &std::path::Path, args: &[&str]) {
    let full = run(dir, args).stdout;
    assert!(full.lines().count() > 1, "{args:?}: a head and a row: {full}");
    let words: Vec<&str> = full.split_whitespace().collect();
    for columns in ["60", "80", "120"] {
        let shown = finish(toolcrib(dir).env("COLUMNS", columns).args(args)).stdout;
        assert_eq!(shown.lines().count(), full.lines().count(), "{args:?}: one line a row");
        for line in shown.lines() {
            let width = line.chars().count();
            // Ids are whole, so a table with ids needs 80 columns.
            let columns: usize = columns.parse().unwrap();
            let limit = if has_ids(args) { columns.max(80) } else { columns };
            assert!(width <= limit, "{args:?}, {width}: {line}");
            for word in line.split_whitespace().filter(|word| !word.ends_with('…')) {
                assert!(words.contains(&word) || is_time(word), "{args:?}: {word:?} in {line}");
            }
        }
    }
}

/// Whether the table of `args` has ids that commands take.
fn has_ids(args: &[&str]) -> bool {
    args.ends_with(&["list"])
        && args.iter().any(|it| ["keys", "approvals", "runs", "credentials"].contains(it))
}

#[test]
fn every_table_of_a_server_fits() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    std::fs::write(dir.path().join("key"), demo_key(&data, "admin")).unwrap();
    let there = ["--url", &server.url, "--key-file", "key"];
    run(dir.path(), &[&there[..], &["call", "demo__wipe", "target=the documents"]].concat());
    run(dir.path(), &[&there[..], &["call", "flows__welcome", "name=Ada"]].concat()).ok();
    for args in [
        &["tools", "list"][..],
        &["tools", "search", "weather"],
        &["tools", "lint"],
        &["sources", "list"],
        &["sources", "check"],
        &["approvals", "list"],
        &["runs", "list"],
        &["keys", "list"],
        // Details of failures, which the demo has in `openwop2`, are wider.
        &["conformance", "--protocol", "openwop", "--protocol", "mcp"],
    ] {
        fits(dir.path(), &[&there[..], args].concat());
    }
    server.stop();
    // Nothing is written any more, so that every run prints the same.
    for args in [
        &["keys", "list"][..],
        &["packs", "list"],
        &["runs", "list"],
        &["audit", "verify"],
        &["conformance", "--list"],
    ] {
        fits(dir.path(), &[&["--data-dir", "data"], args].concat());
    }
}

#[test]
fn every_table_of_a_configuration_fits() {
    let dir = dir();
    let more = "[toolset.reading]\ntitle = \"Tools for everybody who reads and never writes\"\n\
                allow = [\"mcp:demo.*\"]\n\
                [[record.forward]]\nname = \"the-files-of-the-security-team\"\nkind = \"file\"\n\
                file = \"copy.ocsf\"\nformat = \"ocsf\"\n\
                [store]\nurl = \"sqlite:state/toolcrib.db\"\nseal_key = { file = \"seal.key\" }";
    run(dir.path(), &["credentials", "new-key", "--out", "seal.key"]).ok();
    write_config(dir.path(), &config(more));
    std::fs::write(dir.path().join("value"), "a-token").unwrap();
    for (name, more) in [
        ("token-of-the-issue-tracker", &["--principal", "ada-of-the-platform-team"][..]),
        ("calendar", &["--expires", "30d"]),
    ] {
        let set = [
            "credentials",
            "set",
            name,
            "--tenant",
            "default",
            "--bearer",
            "--value-file",
            "value",
        ];
        let audiences =
            ["--audience", "api.issues.example", "--audience", "uploads.issues.example"];
        run(dir.path(), &[&set[..], &audiences, more].concat()).ok();
    }
    for args in [
        &["credentials", "list"][..],
        &["audit", "forwarders"],
        &["sources", "list"],
        &["sources", "check"],
        &["tools", "list"],
    ] {
        fits(dir.path(), args);
    }
}

#[test]
fn a_conformance_report_is_in_full_when_asked() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let key = demo_key(&data, "admin");
    let report = ["--url", &server.url, "--key", &key, "conformance", "--only", "openwop.catalog"];
    let short = narrow(dir.path(), "80", &report).stdout;
    let wide = narrow(dir.path(), "80", &[&report[..], &["-o", "wide"]].concat()).stdout;
    assert!(short.contains('…') && !wide.contains('…'), "{short}{wide}");
    let json = narrow(dir.path(), "80", &[&report[..], &["-o", "json"]].concat()).json();
    let checks = json["checks"].as_array().unwrap();
    assert!(!checks.is_empty(), "{json}");
    for check in checks {
        let requirement = check["requirement"].as_str().unwrap();
        assert!(check["outcome"] != "pass" || wide.contains(requirement), "{requirement}: {wide}");
    }
    let mut coloured = toolcrib(dir.path());
    let coloured = finish(coloured.env("CLICOLOR_FORCE", "1").args(report)).ok().stdout;
    assert!(coloured.contains("\u{1b}[32mPASS\u{1b}[39m"), "{coloured:?}");
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
    assert!(broader.contains("expires in 29d") && broader.contains(id), "{broader}");
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
