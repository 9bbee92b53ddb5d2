//! Completion scripts.

use crate::support::{dir, run};

#[test]
fn there_is_a_script_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(dir().path(), &["completions", shell]).ok().stdout;
        assert!(script.contains("toolcrib") && script.contains("revoke"), "{shell}");
    }
}
