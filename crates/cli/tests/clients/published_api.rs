//! A connector of a large published API: the OpenAPI document of GitHub, as it is on npm.

use std::{
    path::Path,
    process::{Command, Output},
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    recorder::{self, Recorder},
    rig::tool,
};

fn toolcrib(dir: &Path, args: &[&str]) -> Output {
    #[expect(clippy::disallowed_methods, reason = "the test starts the program under test")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolcrib"));
    command.current_dir(dir).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_large_published_document_loads_lists_lints_and_is_called() {
    let Some(document) = tool("TOOLCRIB_OPENAPI_DOCUMENT") else { return };
    let service = Recorder::start(|_, target| {
        let body = if target.starts_with("/repos/octo%20org/") { "{\"number\":7}" } else { "[]" };
        recorder::json(200, body)
    });
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "[[source]]\nid = \"github\"\nkind = \"connector\"\ndocument = {document:?}\n\
         base_url = \"{}\"\nheaders = {{ X-GitHub-Api-Version = \"2022-11-28\" }}\n\
         [source.tools.\"*\"]\nscopes = []\n",
        service.url
    );
    std::fs::write(dir.path().join("toolcrib.toml"), config).unwrap();

    let start = Instant::now();
    let checked = said(&toolcrib(dir.path(), &["--json", "sources", "check"]));
    let took = start.elapsed();
    let report: Value = serde_json::from_str(&checked).unwrap();
    let tools = report[0]["tools"].as_u64().unwrap();
    assert!(tools >= 300, "{checked}");
    assert_eq!(report[0]["problems"], json!([]), "{checked}");
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    eprintln!(
        "FIGURE: {tools} operations were read in {:.1} s ({build} build)",
        took.as_secs_f64()
    );

    let listed: Value =
        serde_json::from_str(&said(&toolcrib(dir.path(), &["--json", "tools", "list"]))).unwrap();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len() as u64, tools);
    assert!(listed.iter().all(|tool| tool["inputSchema"]["type"] == "object"));
    let linted = toolcrib(dir.path(), &["tools", "lint"]);
    let summary = String::from_utf8(linted.stderr).unwrap();
    assert!(summary.contains(&format!("{tools} tools: ")), "{summary:.2000}");

    let call = |tool: &str, arguments: &Value| {
        std::fs::write(dir.path().join("a.json"), arguments.to_string()).unwrap();
        said(&toolcrib(dir.path(), &["call", tool, "@a.json"]))
    };
    let found = call(
        "github__issues_list-for-repo",
        &json!({
            "owner": "o/../ü", "repo": "r?#", "labels": "bug,help wanted & more", "state": "all",
            "since": "2026-11-20T10:00:00+01:00", "per_page": 5,
        }),
    );
    assert_eq!(found.trim(), "[]");
    let made = call(
        "github__issues_create",
        &json!({ "owner": "octo org", "repo": "r", "body": {
            "title": "ü \"q\" \u{1}", "labels": ["a", { "name": "b", "color": null }], "milestone": null,
        } }),
    );
    assert_eq!(made.trim(), "{\"number\":7}");
    assert_eq!(
        service.heard(),
        [
            "GET /repos/o%2F..%2F%C3%BC/r%3F%23/issues?state=all&labels=bug%2Chelp%20wanted%20%26%20more\
             &since=2026-11-20T10%3A00%3A00%2B01%3A00&per_page=5 HTTP/1.1\n\
             x-github-api-version: 2022-11-28\n\n",
            "POST /repos/octo%20org/r/issues HTTP/1.1\ncontent-type: application/json\n\
             x-github-api-version: 2022-11-28\n\n\
             {\"title\":\"ü \\\"q\\\" \\u0001\",\"labels\":[\"a\",{\"name\":\"b\",\"color\":null}],\"milestone\":null}",
        ]
    );
}
