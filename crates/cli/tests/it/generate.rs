//! `gen`.

use std::{collections::BTreeMap, fs, path::Path};

use crate::support::{dir, run};

fn generated(root: &Path) -> BTreeMap<String, String> {
    let files = [
        "docs/openapi.json",
        "docs/schemas/tool-descriptor.schema.json",
        "docs/cli.md",
        "docs/metrics.md",
        "toolcrib.example.toml",
    ];
    files.iter().map(|it| ((*it).to_owned(), fs::read_to_string(root.join(it)).unwrap())).collect()
}

#[test]
fn what_is_generated_depends_on_the_program_alone() {
    // I-6
    let (one, two) = (dir(), dir());
    run(one.path(), &["gen", "--out", "."]).ok();
    run(Path::new("/"), &["gen", "--out", two.path().to_str().unwrap()]).ok();
    let files = generated(one.path());
    assert_eq!(files, generated(two.path()));
    let openapi: serde_json::Value = serde_json::from_str(&files["docs/openapi.json"]).unwrap();
    assert!(openapi["paths"]["/v1/tools"]["get"].is_object());
    assert!(files["docs/cli.md"].contains("## toolcrib keys create"));
    for (name, text) in &files {
        assert!(!text.contains("/tmp") && !text.contains(env!("CARGO_MANIFEST_DIR")), "{name}");
    }
}

#[test]
fn the_example_passes_the_check() {
    let dir = dir();
    run(dir.path(), &["gen", "--out", "."]).ok();
    let example = fs::read_to_string(dir.path().join("toolcrib.example.toml")).unwrap();
    let example = example.replace("/run/secrets/tickets", "token");
    fs::write(dir.path().join("toolcrib.toml"), example).unwrap();
    fs::write(dir.path().join("token"), "x\n").unwrap();
    let checked = crate::support::finish(
        crate::support::toolcrib(dir.path()).args(["config", "check"]).env("FILES_TOKEN", "x"),
    );
    assert_eq!(checked.ok().stdout, "toolcrib.toml: ok (2 sources, 1 role)\n");
}
