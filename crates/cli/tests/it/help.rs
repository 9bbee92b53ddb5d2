//! Help, versions and exit codes.

use std::process::Stdio;

use crate::support::{dir, run, toolcrib};

const COMMANDS: [&[&str]; 19] = [
    &["serve"],
    &["mcp"],
    &["tools", "list"],
    &["tools", "show"],
    &["call"],
    &["sources", "list"],
    &["sources", "check"],
    &["keys", "create"],
    &["keys", "list"],
    &["keys", "revoke"],
    &["audit", "tail"],
    &["audit", "export"],
    &["config", "check"],
    &["import"],
    &["hash"],
    &["completions"],
    &["tools"],
    &["keys"],
    &["audit"],
];

#[test]
fn the_help_names_what_there_is() {
    let help = run(dir().path(), &["-h"]).ok().stdout;
    insta::assert_snapshot!(help, @"");
}

#[test]
fn every_command_explains_itself() {
    for command in COMMANDS {
        let help = run(dir().path(), &[command, &["--help"]].concat()).ok();
        assert!(help.stdout.contains("Usage: toolcrib"), "{help:?}");
        assert!(help.stdout.contains("--json"), "{command:?} has no --json");
        assert_eq!(help.stderr, "");
    }
}

#[test]
fn hidden_commands_stay_hidden() {
    let help = run(dir().path(), &["--help"]).ok().stdout;
    assert!(!help.contains("demo-upstream") && !help.contains("\n  gen "), "{help}");
}

#[test]
fn a_wrong_request_is_2_and_a_failure_is_1() {
    let dir = dir();
    for args in [
        &["nonsense"][..],
        &["serve", "--no-such-flag"],
        &["keys", "create", "--name", "x"],
        &["keys", "create", "--name", "x", "--scope", "a:*b"],
        &["keys", "create", "--name", "x", "--scope", "a", "--expires", "soon"],
        &["keys", "revoke"],
        &["tools", "list", "--source", "nonsense"],
        &["call", "x", "not json"],
        &["call", "x", "[1]"],
        &["call", "x", r#"{"a":1,"a":2}"#],
        &["hash", "{"],
        &["--url", "not an address", "tools", "list"],
        &["--url", "http://user:pw@127.0.0.1", "tools", "list"],
        &["--url", "http://127.0.0.1:1", "keys", "list"],
        &["-q", "-v", "keys", "list"],
    ] {
        let ran = run(dir.path(), args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("error: "), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
    for args in [
        &["keys", "list"][..],
        &["audit", "tail"],
        &["config", "check"],
        &["--config", "missing.toml", "serve"],
        &["import", "missing.json"],
        &["call", "no_such_tool"],
        &["--key-file", "missing", "--url", "http://127.0.0.1:1", "tools", "list"],
        &["--url", "http://127.0.0.1:1", "tools", "list"],
    ] {
        let ran = run(dir.path(), args);
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("error: "), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn an_error_says_why_and_what_to_do() {
    let ran = run(dir().path(), &["--config", "missing.toml", "serve"]);
    insta::assert_snapshot!(ran.stderr, @"");
    let ran = run(dir().path(), &["audit", "export"]);
    insta::assert_snapshot!(ran.stderr, @"");
    let ran = run(dir().path(), &["--url", "http://127.0.0.1:1", "tools", "list"]);
    assert!(ran.stderr.starts_with("error: the server at http://127.0.0.1:1/ does not answer\ncaused by: "));
    assert!(ran.stderr.ends_with("hint: is `toolcrib serve` running there?\n"), "{}", ran.stderr);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let dir = dir();
    let mut child = toolcrib(dir.path())
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
}
