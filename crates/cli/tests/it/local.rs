//! Commands that start the sources of the configuration themselves.

use serde_json::json;

use crate::support::{config, dir, run, write_config};

const RULES: &str = "[source.tools.fail]\nscopes = [\"demo:write\"]\nsafety_tier = \"write\"\n\
                     [source.tools.wipe]\napproval = \"always\"\n";

#[test]
fn tools_are_listed_with_what_they_need() {
    let dir = dir();
    write_config(dir.path(), &config(RULES));
    insta::assert_snapshot!(run(dir.path(), &["tools", "list"]).ok().stdout, @r#"
    NAME              SOURCE  KIND  TIER   APPROVAL  SCOPES      TOOL
    demo__add         demo    mcp   read   never     demo:read   mcp:demo.add
    demo__echo        demo    mcp   read   never     demo:read   mcp:demo.echo
    demo__fail        demo    mcp   write  never     demo:write  mcp:demo.fail
    demo__slow        demo    mcp   read   never     demo:read   mcp:demo.slow
    demo__structured  demo    mcp   read   never     demo:read   mcp:demo.structured
    demo__wipe        demo    mcp   read   always    demo:read   mcp:demo.wipe
    "#);
    let listed = run(dir.path(), &["--json", "tools", "list", "--source", "mcp"]).ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 6);
    assert_eq!(listed[0]["wireName"], "demo__add");
    assert!(listed[0]["digest"].as_str().unwrap().len() == 64);
    let none = run(dir.path(), &["--json", "tools", "list", "--source", "connector"]).ok().json();
    assert_eq!(none, json!([]));
}

/// The OTC id with its version.
const VERSIONED: &str = concat!("demo.fail@", env!("CARGO_PKG_VERSION"));

#[test]
fn one_tool_is_shown() {
    let dir = dir();
    write_config(dir.path(), &config(RULES));
    for name in ["mcp:demo.fail", "demo__fail", "demo.fail", VERSIONED] {
        let shown = run(dir.path(), &["tools", "show", name]).ok().stdout;
        assert!(
            shown.contains("tier:     write") && shown.contains("scopes:   demo:write"),
            "{shown}"
        );
        assert!(shown.contains("Always fails"), "{shown}");
    }
}

#[test]
fn a_call_prints_the_answer_and_the_code_says_how_it_went() {
    let dir = dir();
    write_config(dir.path(), &config(RULES));
    let call = |args: &[&str]| run(dir.path(), &[&["call"], args].concat());
    assert_eq!(call(&["demo__echo", r#"{"text":"hi"}"#]).ok().stdout, "hi\n");
    std::fs::write(dir.path().join("a.json"), r#"{"a":1,"b":2}"#).unwrap();
    assert_eq!(call(&["mcp:demo.add", "@a.json"]).ok().stdout, "3\n");

    let failed = call(&["demo.fail", r#"{"message":"no luck"}"#]);
    assert_eq!((failed.code, failed.stdout.as_str()), (1, "no luck\n"));

    let slow = call(&["demo__slow", r#"{"steps":3,"step_ms":1}"#]).ok();
    assert_eq!(slow.stdout, "counted to 3\n");
    // I-28
    let steps: Vec<&str> = slow.stderr.lines().collect();
    assert_eq!(
        steps,
        ["progress 1/3 step 1 of 3", "progress 2/3 step 2 of 3", "progress 3/3 step 3 of 3"]
    );

    // As pairs, typed by the schema: `5` is text for one tool and a number for the other.
    assert_eq!(call(&["demo__add", "a=1", "--arg", "b=2"]).ok().stdout, "3\n");
    assert_eq!(call(&["demo__echo", "text=5"]).ok().stdout, "5\n");
    assert_eq!(call(&["demo__add", r#"{"a":1}"#, "b=2"]).ok().stdout, "3\n");
    std::fs::write(dir.path().join("words.txt"), "from a file").unwrap();
    assert_eq!(call(&["demo__echo", "text=@words.txt"]).ok().stdout, "from a file\n");
    let untyped = call(&["demo__add", "a=one", "b=2"]);
    assert_eq!((untyped.code, untyped.stdout.as_str()), (2, ""));
    assert!(untyped.stderr.contains("`a` must be a number"), "{}", untyped.stderr);

    let wrong = call(&["demo__add", r#"{"a":"x"}"#]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("  /a: ") && wrong.stderr.contains("  /b: "), "{}", wrong.stderr);

    // I-15
    let refused = call(&["demo__wipe"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.contains("approval required"), "{}", refused.stderr);

    assert!(
        refused.stderr.contains("the request was made as `operator`; another principal"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("with the scope `approvals:respond`"), "{}", refused.stderr);

    for meant in ["demo__ehco", "mcp:demo.ecko", "echo"] {
        let unknown = call(&[meant]);
        assert!(unknown.stderr.contains("no such tool; did you mean `"), "{}", unknown.stderr);
    }
    let unknown = call(&["demo__nothing"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("no such tool"), "{}", unknown.stderr);
}

#[test]
fn a_call_can_be_json() {
    let dir = dir();
    write_config(dir.path(), &config(RULES));
    let called =
        run(dir.path(), &["--json", "call", "demo__structured", r#"{"city":"Bonn"}"#]).ok().json();
    assert_eq!(called["isError"], false);
    assert_eq!(called["structuredContent"]["city"], "Bonn");
    assert!(called["runId"].is_string() && called["durationMs"].is_u64());
    let refused = run(dir.path(), &["--json", "call", "demo__wipe"]);
    assert_eq!(refused.code, 1);
    assert_eq!(refused.json()["error"]["code"], "approval_required");
    // The local store records the two calls and the approval request.
    let events = run(dir.path(), &["audit", "export"]).ok().stdout;
    assert_eq!(events.lines().count(), 5, "{events}");
    assert!(events.contains(called["runId"].as_str().unwrap()) && events.contains("\"operator\""));
}

#[test]
fn sources_are_listed_and_checked() {
    let dir = dir();
    write_config(dir.path(), &config(RULES));
    let listed = run(dir.path(), &["--json", "sources", "list"]).ok().json();
    assert_eq!(
        json!([listed[0]["id"], listed[0]["state"], listed[0]["tools"], listed[0]["problems"]]),
        json!(["demo", "ready", 6, []])
    );
    run(dir.path(), &["sources", "check"]).ok();

    write_config(dir.path(), &config("[source.tools.nothing]\nhide = true\n"));
    let checked = run(dir.path(), &["sources", "check"]);
    assert_eq!(checked.code, 1);
    assert!(
        checked.stdout.contains("demo: rule \"nothing\" matches no tool"),
        "{}",
        checked.stdout
    );

    let dead = "[[source]]\nid = \"dead\"\nkind = \"mcp\"\ncommand = [\"/no/such/program\"]\n";
    write_config(dir.path(), &(config("") + dead));
    let checked = run(dir.path(), &["sources", "check"]);
    assert_eq!(checked.code, 1);
    assert!(
        checked.stdout.contains("dead") && checked.stdout.contains("ready"),
        "{}",
        checked.stdout
    );
    // I-25
    assert_eq!(run(dir.path(), &["call", "demo__echo", r#"{"text":"hi"}"#]).ok().stdout, "hi\n");
    let listed = run(dir.path(), &["tools", "list"]).ok();
    assert_eq!(listed.stdout.lines().count(), 7, "{}", listed.stdout);
    assert!(listed.stderr.contains("source `dead` did not answer"), "{}", listed.stderr);
}

#[test]
fn tools_are_looked_over() {
    let dir = dir();
    write_config(dir.path(), &config(RULES));
    let fine = run(dir.path(), &["tools", "lint"]).ok();
    assert!(fine.stderr.contains("6 tools: 0 errors, 0 warnings"), "{}", fine.stderr);

    let only_warns = "[source.tools.slow]\nreplay_policy = \"deterministic\"\n";
    write_config(dir.path(), &config(only_warns));
    let found = run(dir.path(), &["--json", "tools", "lint"]).ok().json();
    // The worst of each tool comes first.
    let slow: Vec<_> =
        found.as_array().unwrap().iter().filter(|it| it["tool"] == "mcp:demo.slow").collect();
    assert_eq!(slow[0]["rule"], "contradiction/deterministic-with-egress");
    assert_eq!(
        (&slow[0]["severity"], &slow[0]["pointer"]),
        (&json!("warning"), &json!("/replayPolicy"))
    );
    assert!(slow[1..].iter().all(|it| it["severity"] == "advice"));
    assert_eq!(run(dir.path(), &["tools", "lint", "--strict"]).code, 1);
}
