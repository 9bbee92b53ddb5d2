//! Completion scripts.

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
