//! The schema of the configuration in Taplo, the TOML checker of editors.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, process::Output};

use super::program;
use crate::examples::{FOLDERS, examples};
use crate::support::{dir, run};

#[test]
fn taplo_accepts_the_examples_and_marks_a_mistake() {
    let Some(node) = program("TOOLCRIB_NODE") else { return };
    let Some(packages) = program("TOOLCRIB_CLIENTS_DIR") else { return };
    let taplo = packages.join("node_modules/@taplo/cli/dist/cli.js");
    let place = dir();
    let schema = run(place.path(), &["config", "schema"]).ok().stdout;
    fs::write(place.path().join("toolcrib.schema.json"), schema).unwrap();
    let lint = |text: String| {
        let text = format!("#:schema ./toolcrib.schema.json\n{text}");
        fs::write(place.path().join("toolcrib.toml"), text).unwrap();
        lint(&node, &taplo, place.path())
    };
    for name in FOLDERS {
        let text = fs::read_to_string(examples().join(name).join("toolcrib.toml")).unwrap();
        let found = lint(text.clone());
        let said = String::from_utf8_lossy(&found.stderr).into_owned();
        assert!(found.status.success(), "{name}: {said}");

        let found = lint(format!("{text}\n[servers]\nlisten = \"127.0.0.1:1\"\n"));
        let said = String::from_utf8_lossy(&found.stderr).into_owned();
        assert!(
            !found.status.success() && said.contains("'servers' was unexpected"),
            "{name}: {said}"
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "a program of a user, not a child of the server")]
fn lint(node: &Path, taplo: &Path, folder: &Path) -> Output {
    let mut command = Command::new(node);
    command.arg(taplo).args(["lint", "--colors", "never", "toolcrib.toml"]).current_dir(folder);
    command.stdin(Stdio::null()).output().unwrap()
}
