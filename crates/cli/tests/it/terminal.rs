//! Output on a terminal has no hidden characters (I-53).
#![expect(clippy::disallowed_methods, reason = "runs the program in a terminal of `script`")]

use std::process::Command;

use serde_json::Value;

use crate::support::{PROGRAM, config, dir, finish, write_config};

/// Returns the output of `toolcrib` with `args` on a terminal.
fn on_a_terminal(directory: &std::path::Path, args: &str) -> String {
    let line = format!("{PROGRAM} {args}");
    let mut script = Command::new("script");
    script.current_dir(directory).args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    finish(script.env("NO_COLOR", "1")).stdout.replace("\r\n", "\n")
}

#[test]
fn json_on_a_terminal_hides_nothing() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let hidden = "\u{202e}gnp.exe \u{200b}\u{9b}2J";
    let call = format!("call demo__echo '{{\"text\": \"{hidden}\"}}'");
    let escaped = "\\u202egnp.exe \\u200b\\u009b2J";
    let json = on_a_terminal(dir.path(), &format!("--json {call}"));
    assert!(json.contains(escaped) && !json.contains('\u{202e}'), "{json:?}");
    let start = json.find('{').unwrap();
    let read: Value = serde_json::from_str(&json[start..=json.rfind('}').unwrap()]).unwrap();
    assert!(read.to_string().contains(hidden), "it is the same document: {read}");
    let text = on_a_terminal(dir.path(), &call);
    assert!(text.contains(escaped) && !text.contains('\u{202e}'), "{text:?}");
    // Another program gets every character as it is.
    let input = format!("{{\"text\": \"{hidden}\"}}");
    let piped = crate::support::run(dir.path(), &["call", "demo__echo", &input]).ok();
    assert!(piped.stdout.contains(hidden), "{piped:?}");
}
