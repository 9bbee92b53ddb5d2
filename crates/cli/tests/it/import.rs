//! `import`: three clients' files.

use std::fs;

use serde_json::json;

use crate::support::{Ran, dir, finish, run, toolcrib};

/// The imported file, after it has passed the check with its variables set.
fn imported(text: &str) -> (String, Ran) {
    let dir = dir();
    fs::write(dir.path().join("client.json"), text).unwrap();
    let ran = run(dir.path(), &["import", "client.json", "-o", "toolcrib.toml"]).ok();
    assert_eq!(ran.stdout, "");
    let listed = run(dir.path(), &["--json", "import", "client.json"]).ok().json();
    let mut check = toolcrib(dir.path());
    check.args(["config", "check"]);
    for variable in listed["variables"].as_array().unwrap() {
        check.env(variable.as_str().unwrap(), "value");
    }
    let checked = finish(&mut check);
    assert_eq!(checked.code, 0, "{checked:?}");
    (fs::read_to_string(dir.path().join("toolcrib.toml")).unwrap(), ran)
}

#[test]
fn claude_desktop() {
    let (toml, ran) = imported(
        r#"{
  "globalShortcut": "",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ana/My \"Docs\""]
    },
    "GitHub": {
      "command": "docker",
      "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"],
      "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_canary0123456789abcdef", "LOG_LEVEL": "debug" }
    },
    "postgres": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-postgres", "postgresql://me:canary@localhost/db"]
    },
    "off": { "command": "node", "args": ["off.js"], "disabled": true }
  }
}"#,
    );
    assert!(!toml.contains("canary") && !ran.stderr.contains("canary"), "{toml}\n{}", ran.stderr);
    insta::assert_snapshot!(toml, @"");
    insta::assert_snapshot!(ran.stderr, @"");
}

#[test]
fn cursor() {
    let (toml, ran) = imported(
        r#"{ "mcpServers": {
  "linear": { "url": "https://mcp.linear.app/mcp", "headers": { "Authorization": "Bearer ${env:LINEAR_TOKEN}", "X-Team": "crib" } },
  "search": { "command": "uvx", "args": ["search"], "env": { "SEARCH_API_KEY": "${env:SEARCH_KEY}" } },
  "here": { "command": "node", "args": ["${workspaceFolder}/server.js"] }
} }"#,
    );
    insta::assert_snapshot!(toml, @"");
    insta::assert_snapshot!(ran.stderr, @"");
}

#[test]
fn vs_code_with_comments() {
    let (toml, ran) = imported(
        r#"{
  // asked once
  "inputs": [{ "type": "promptString", "id": "perplexity-key", "description": "Key", "password": true }],
  "servers": {
    "Perplexity AI": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "server-perplexity-ask"], // from npm
      "env": { "PERPLEXITY_API_KEY": "${input:perplexity-key}" },
    },
    "old-events": { "type": "sse", "url": "https://old.example.com/sse" },
    "fetch": { "type": "http", "url": "http://127.0.0.1:9000/mcp" }, /* local */
    "envfile": { "command": "x", "envFile": "${workspaceFolder}/.env" },
  },
}"#,
    );
    insta::assert_snapshot!(toml, @"");
    insta::assert_snapshot!(ran.stderr, @"");
}

#[test]
fn nothing_is_overwritten_unless_asked_for() {
    let dir = dir();
    fs::write(dir.path().join("c.json"), r#"{"mcpServers":{}}"#).unwrap();
    fs::write(dir.path().join("toolcrib.toml"), "# mine\n").unwrap();
    let ran = run(dir.path(), &["import", "c.json", "-o", "toolcrib.toml"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("--force"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(dir.path().join("toolcrib.toml")).unwrap(), "# mine\n");
    run(dir.path(), &["import", "c.json", "-o", "toolcrib.toml", "--force"]).ok();
    assert!(fs::read_to_string(dir.path().join("toolcrib.toml")).unwrap().contains("# Made by"));
}

#[test]
fn it_goes_to_stdout_and_says_what_it_cannot_read() {
    let dir = dir();
    let text = json!({ "mcpServers": { "a": { "command": "a" } } }).to_string();
    fs::write(dir.path().join("c.json"), text).unwrap();
    let ran = run(dir.path(), &["import", "c.json"]).ok();
    assert!(ran.stdout.contains("command = [\"a\"]"), "{ran:?}");
    for text in ["{}", "[]", "{", "\"x\""] {
        fs::write(dir.path().join("c.json"), text).unwrap();
        assert_eq!(run(dir.path(), &["import", "c.json"]).code, 1, "{text}");
    }
}
