//! `gen`: the generated files are up to date and deterministic.

use std::{collections::BTreeMap, fs, path::Path};

use crate::support::{Server, config, dir, eventually, key, run, write_config};

fn generated(root: &Path) -> BTreeMap<String, String> {
    let files = [
        "docs/reference/openapi.json",
        "docs/reference/schemas/tool-descriptor.schema.json",
        "docs/reference/cli.md",
        "docs/reference/configuration.md",
        "docs/reference/metrics.md",
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
    let openapi: serde_json::Value =
        serde_json::from_str(&files["docs/reference/openapi.json"]).unwrap();
    assert!(openapi["paths"]["/v1/tools"]["get"].is_object());
    assert!(files["docs/reference/cli.md"].contains("## toolcrib keys create"));
    for (name, text) in &files {
        assert!(!text.contains("/tmp") && !text.contains(env!("CARGO_MANIFEST_DIR")), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_described() {
    // I-6
    let root = dir();
    run(root.path(), &["gen", "--out", "."]).ok();
    let described = &generated(root.path())["docs/reference/metrics.md"];

    let dead = "[[source]]\nid = \"dead\"\nkind = \"mcp\"\ncommand = [\"/no/such/program\"]\n";
    let copy = "[[record.forward]]\nname = \"copy\"\nkind = \"file\"\nfile = \"copy.jsonl\"\n";
    write_config(root.path(), &(config("") + dead + copy));
    let (_, text) = key(root.path(), &["--scope", "*", "--scope", "metrics:all"]);
    let server = Server::start(root.path());
    let caller = server.caller(Some(&text));
    eventually("a call", || {
        let call = caller.otc("demo__echo", serde_json::json!({ "text": "x" }));
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(call)).0 == 200
    });
    let exposition = caller.text("/metrics").await;
    let mut seen = 0;
    for line in exposition.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = line.split_once(' ').unwrap();
        let kind = format!("# TYPE {name} ");
        let kind = exposition.lines().find_map(|line| line.strip_prefix(&kind)).unwrap();
        let row = described.lines().find(|row| row.starts_with(&format!("| `{name}` | {kind} |")));
        assert!(
            row.is_some_and(|row| row.ends_with(&format!("| {} |", help.trim_end_matches('.')))),
            "{line}"
        );
        seen += 1;
    }
    // All but the failed discoveries, which take as long as the source's time-out, and those of TLS.
    assert!(seen >= described.matches("| `toolcrib_").count() - 3, "{exposition}");
    assert!(!exposition.contains("toolcrib_tls_"), "{exposition}");
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
    let checked = checked.ok().stdout;
    assert_eq!(checked.lines().next(), Some("toolcrib.toml: ok (6 sources, 1 role)"));
}
