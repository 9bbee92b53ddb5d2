//! Toolsets on the command line: lists and searches, locally and on a server, and warnings about
//! entries that match no tool.

use serde_json::{Value, json};

use crate::support::{Server, config, dir, finish, key, run, toolcrib, write_config};

const TOOLSETS: &str = r#"
[toolset.greet]
title = "Greetings"
allow = ["mcp:demo.echo*", "demo__add"]
[toolset.lean]
allow = ["*"]
meta = "search"
"#;

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|tool| tool["toolId"].as_str().unwrap()).collect()
}

#[test]
fn lists_and_searches_are_of_a_toolset_here_and_on_a_server() {
    let dir = dir();
    write_config(dir.path(), &config(TOOLSETS));
    let (_, key) = key(dir.path(), &["--scope", "*"]);
    let all = run(dir.path(), &["tools", "list", "--json"]).ok().json();
    assert!(all.as_array().unwrap().len() > 2, "{all}");
    let server = Server::start(dir.path());
    let remote = ["--url", &server.url, "--key", &key];
    for place in [&[][..], &remote[..]] {
        let ask = |args: &[&str]| run(dir.path(), &[place, args, &["--json"]].concat());
        let greet = ask(&["tools", "list", "--toolset", "greet"]).ok().json();
        assert_eq!(names(&greet), ["mcp:demo.add", "mcp:demo.echo"]);
        let found = ask(&["tools", "search", "ECHO", "text"]).ok().json();
        assert_eq!(names(&found)[0], "mcp:demo.echo");
        let found = ask(&["tools", "search", "--toolset", "greet", "--limit", "1", "numbers"]);
        assert_eq!(names(&found.ok().json()), ["mcp:demo.add"]);
        assert_eq!(ask(&["tools", "search", "xyzzy"]).ok().json(), json!([]));
        assert_eq!(ask(&["tools", "list", "--toolset", "nobody"]).code, 1);
        assert_eq!(ask(&["tools", "search", "x", "--limit", "0"]).code, 2);
        assert_eq!(ask(&["tools", "search"]).code, 2);
    }
}

#[test]
fn an_entry_that_reaches_nothing_is_told_everywhere() {
    let dir = dir();
    let idle = "[toolset.work]\nallow = [\"mcp:demo.*\", \"mcp:gone.*\"]\n";
    write_config(dir.path(), &config(idle));
    run(dir.path(), &["config", "check"]).ok();
    let checked = run(dir.path(), &["config", "check", "--connect"]);
    assert_eq!(checked.code, 3, "a warning");
    insta::assert_snapshot!(checked.stdout, @r#"
    toolcrib.toml: warning: toolset "work": mcp:gone.* reaches no tool
    toolcrib.toml: 1 warning (1 source, 0 roles)
    "#);
    let listed = run(dir.path(), &["sources", "list"]).ok();
    assert!(listed.stdout.contains("work"), "{listed:?}");
    assert!(listed.stderr.contains("mcp:gone.* reaches no tool"), "{listed:?}");
    assert_eq!(run(dir.path(), &["sources", "check", "--json"]).code, 1);
    let (_, key) = key(dir.path(), &["--scope", "sources:read"]);
    let server = Server::start(dir.path());
    let remote = ["--url", &server.url, "--key", &key, "sources", "check"];
    // Whose the entry is, an answer cannot know.
    let told = "entries of its allow-list that reach no tool: 1\n";
    let mut checked = run(dir.path(), &remote);
    for _ in 0..200 {
        if checked.stderr.contains(told) {
            break;
        }
        // The server listens before its source has listed its tools.
        std::thread::sleep(std::time::Duration::from_millis(50));
        checked = run(dir.path(), &remote);
    }
    assert_eq!(checked.code, 1, "{checked:?}");
    assert!(checked.stderr.contains(told), "{checked:?}");
    assert!(!checked.stderr.contains("gone"), "{checked:?}");
}

#[test]
fn wrong_toolsets_are_found_with_their_place() {
    let refused = |text: &str| {
        let dir = dir();
        write_config(dir.path(), text);
        let checked = run(dir.path(), &["config", "check"]);
        assert_eq!(checked.code, 1, "{checked:?}");
        checked.stdout
    };
    insta::assert_snapshot!(refused("[toolset.a]\n"), @"toolcrib.toml:1: `toolset.a`: missing field `allow`");
    insta::assert_snapshot!(refused("[toolset.a]\nallow = []\n"), @"toolcrib.toml:2: `toolset.a.allow`: expected at least one glob over tool ids and wire names");
    insta::assert_snapshot!(refused("[toolset.A]\nallow = [\"*\"]\n"), @"toolcrib.toml:1: `toolset.A`: a toolset's name has lower-case letters, digits, `-` and `_`, at most 64, and starts and ends with a letter or a digit");
    insta::assert_snapshot!(refused("[toolset.a]\nallow = [\"*\"]\nmeta = \"all\"\n"), @"toolcrib.toml:3: `toolset.a.meta`: unknown variant `all`, expected `off` or `search`");
    insta::assert_snapshot!(refused("[toolset.a]\nallow = [\"*\"]\ndeny = [\"a[\"]\n"), @"toolcrib.toml:3: `toolset.a.deny`: is not a glob: unclosed character class; missing ']'");
    insta::assert_snapshot!(refused("[toolset.a]\nallow = [\"*\"]\nscopes = []\n"), @"toolcrib.toml:3: `toolset.a.scopes`: unknown field `scopes`, expected one of `title`, `allow`, `deny`, `meta`, `inline_refs`");
}

#[test]
fn a_toolset_is_served_over_stdio() {
    let dir = dir();
    write_config(dir.path(), &config(TOOLSETS));
    let ask = |toolset: &str| {
        let requests = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "t", "version": "1" } } }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
        ];
        let input = dir.path().join("input");
        let lines: String = requests.iter().map(|request| format!("{request}\n")).collect();
        std::fs::write(&input, lines).unwrap();
        let mut command = toolcrib(dir.path());
        command.args(["mcp", "--toolset", toolset]);
        finish(command.stdin(std::fs::File::open(&input).unwrap()))
    };
    let listed = |toolset: &str| {
        let said = ask(toolset).ok().stdout;
        let list: Value = serde_json::from_str(said.lines().nth(1).unwrap()).unwrap();
        let tools = list["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("greet"), ["demo__add", "demo__echo"]);
    assert_eq!(listed("lean"), ["search_tools", "describe_tool", "call_tool"]);
    assert_eq!(ask("nobody").code, 1);
}
