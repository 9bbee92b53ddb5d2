//! Completion scripts and man pages.

use std::{collections::BTreeSet, fs};

use crate::support::{dir, run};

#[test]
fn there_is_a_script_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(dir().path(), &["completions", shell]).ok().stdout;
        assert!(script.contains("toolcrib") && script.contains("revoke"), "{shell}");
    }
}

#[test]
fn a_script_stays_a_script() {
    let plain = run(dir().path(), &["completions", "fish"]).ok().stdout;
    assert_eq!(run(dir().path(), &["--json", "completions", "fish"]).ok().stdout, plain);
    let help = run(dir().path(), &["completions", "--help"]).ok().stdout;
    assert!(help.contains("--json does not change the output"), "{help}");
}

/// The commands of a help text.
fn commands(help: &str) -> Vec<String> {
    let list = help.split_once("\nCommands:\n").map(|(_, rest)| rest).unwrap_or_default();
    let rows = list.lines().take_while(|line| !line.is_empty());
    // A description may continue on the next line.
    let rows = rows.filter(|row| row.starts_with("  ") && !row.starts_with("   "));
    let names = rows.filter_map(|row| row.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_a_man_page() {
    let dir = dir();
    let out = run(dir.path(), &["man", "man/man1"]).ok().stdout;
    assert_eq!(out, "wrote the man pages to man/man1\n");
    let mut expected = BTreeSet::from(["toolcrib.1".to_owned()]);
    for command in commands(&run(dir.path(), &["-h"]).ok().stdout) {
        expected.insert(format!("toolcrib-{command}.1"));
        for inner in commands(&run(dir.path(), &[&command, "-h"]).ok().stdout) {
            expected.insert(format!("toolcrib-{command}-{inner}.1"));
        }
    }
    let pages = fs::read_dir(dir.path().join("man/man1")).unwrap();
    let pages: BTreeSet<String> =
        pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(pages, expected);
    assert!(pages.contains("toolcrib-keys-create.1") && pages.len() > 60, "{}", pages.len());
    let page = fs::read_to_string(dir.path().join("man/man1/toolcrib-keys-create.1")).unwrap();
    assert!(page.contains("principal") && page.contains("Examples:"), "{page}");
    // Again, over the pages of another version.
    run(dir.path(), &["--json", "man", "man/man1"]).ok();

    fs::write(dir.path().join("file"), "").unwrap();
    let refused = run(dir.path(), &["man", "file/man1"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("file/man1 cannot be written"), "{}", refused.stderr);
}
