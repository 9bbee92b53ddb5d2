//! `import`: three clients' files.

mod clients;
mod commands;
mod gateways;
mod restrictions;
mod secrets;

use std::fs;

use serde_json::json;

use crate::support::{CommandOutput, dir, finish, run, toolcrib};

/// The imported file, after it has passed the check with its variables set.
fn imported(text: &str) -> (String, CommandOutput) {
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
    insta::assert_snapshot!(toml, @r#"
    # Created by `toolcrib import` from client.json.
    #
    # By default, a tool of source S requires the scope `tools:S` and has the tier `write`. Rules
    # belong to their source; later rules override earlier ones:
    #
    # [source.tools."read_*"]
    # scopes = ["files:read"]
    # safety_tier = "read"
    #
    # Not translated:
    # - globalShortcut: not a translated setting of MCP servers
    # - postgres.args[2]: it may be a secret; `sh` takes it from the variable POSTGRES_ARG_3

    [[source]]
    id = "filesystem"
    kind = "mcp"
    command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", '/Users/ana/My "Docs"']

    [[source]]
    id = "github"
    kind = "mcp"
    command = ["docker", "run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"]
    [source.env]
    GITHUB_PERSONAL_ACCESS_TOKEN = { env = "GITHUB_PERSONAL_ACCESS_TOKEN" }
    LOG_LEVEL = "debug"

    [[source]]
    id = "postgres"
    kind = "mcp"
    command = ["sh", "-c", 'exec npx -y @modelcontextprotocol/server-postgres "$POSTGRES_ARG_3"']
    [source.env]
    POSTGRES_ARG_3 = { env = "POSTGRES_ARG_3" }

    # Not in force: it is disabled in the client.
    # [[source]]
    # id = "off"
    # kind = "mcp"
    # command = ["node", "off.js"]
    "#);
    insta::assert_snapshot!(ran.stderr, @r"
    not translated: globalShortcut: not a translated setting of MCP servers
    not translated: postgres.args[2]: it may be a secret; `sh` takes it from the variable POSTGRES_ARG_3
    `off` stays a comment: it is disabled in the client
    set these variables where `toolcrib serve` runs:
      GITHUB_PERSONAL_ACCESS_TOKEN  for `GITHUB_PERSONAL_ACCESS_TOKEN` of source `github`: the value it has in the client
      POSTGRES_ARG_3  for an argument of source `postgres`: the value it has in the client
    3 sources imported
    ");
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
    insta::assert_snapshot!(toml, @r#"
    # Created by `toolcrib import` from client.json.
    #
    # By default, a tool of source S requires the scope `tools:S` and has the tier `write`. Rules
    # belong to their source; later rules override earlier ones:
    #
    # [source.tools."read_*"]
    # scopes = ["files:read"]
    # safety_tier = "read"

    [[source]]
    id = "linear"
    kind = "mcp"
    url = "https://mcp.linear.app/mcp"
    [source.headers]
    Authorization = { env = "LINEAR_AUTHORIZATION" }
    X-Team = { env = "LINEAR_X_TEAM" }

    [[source]]
    id = "search"
    kind = "mcp"
    command = ["uvx", "search"]
    [source.env]
    SEARCH_API_KEY = { env = "SEARCH_KEY" }

    # Not in force: an argument uses a variable of the client; write its value.
    # [[source]]
    # id = "here"
    # kind = "mcp"
    # command = ["node", "${workspaceFolder}/server.js"]
    "#);
    insta::assert_snapshot!(ran.stderr, @r"
    `here` stays a comment: an argument uses a variable of the client; write its value
    set these variables where `toolcrib serve` runs:
      LINEAR_AUTHORIZATION  for `Authorization` of source `linear`: the whole value, in the client `Bearer ${env:LINEAR_TOKEN}`
      LINEAR_X_TEAM  for `X-Team` of source `linear`: the value it has in the client
      SEARCH_KEY  for `SEARCH_API_KEY` of source `search`
    2 sources imported
    ");
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
    insta::assert_snapshot!(toml, @r#"
    # Created by `toolcrib import` from client.json.
    #
    # By default, a tool of source S requires the scope `tools:S` and has the tier `write`. Rules
    # belong to their source; later rules override earlier ones:
    #
    # [source.tools."read_*"]
    # scopes = ["files:read"]
    # safety_tier = "read"
    #
    # Not translated:
    # - envfile.envFile: name its variables in `env`

    [[source]]
    id = "perplexity-ai"
    kind = "mcp"
    command = ["npx", "-y", "server-perplexity-ask"]
    [source.env]
    PERPLEXITY_API_KEY = { env = "PERPLEXITY_API_KEY" }

    # Not in force: it speaks the deprecated HTTP+SSE transport; use its streamable HTTP address.
    # [[source]]
    # id = "old-events"
    # kind = "mcp"
    # url = "https://old.example.com/sse"

    [[source]]
    id = "fetch"
    kind = "mcp"
    url = "http://127.0.0.1:9000/mcp"

    # Not in force: its `envFile` is not translated; name its variables in `env`.
    # [[source]]
    # id = "envfile"
    # kind = "mcp"
    # command = ["x"]
    "#);
    insta::assert_snapshot!(ran.stderr, @r"
    not translated: envfile.envFile: name its variables in `env`
    `old-events` stays a comment: it speaks the deprecated HTTP+SSE transport; use its streamable HTTP address
    `envfile` stays a comment: its `envFile` is not translated; name its variables in `env`
    set these variables where `toolcrib serve` runs:
      PERPLEXITY_API_KEY  for `PERPLEXITY_API_KEY` of source `perplexity-ai` (the client requests `perplexity-key` from the user)
    2 sources imported
    ");
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
    assert!(fs::read_to_string(dir.path().join("toolcrib.toml")).unwrap().contains("# Created by"));
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

#[test]
fn it_reads_what_is_piped() {
    let dir = dir();
    let text = r#"{ "mcpServers": { "files": { "command": "server", "args": ["/srv"] } } }"#;
    std::fs::write(dir.path().join("servers.json"), text).unwrap();
    let piped = std::fs::File::open(dir.path().join("servers.json")).unwrap();
    let piped = finish(toolcrib(dir.path()).args(["import", "-"]).stdin(piped)).ok();
    let named = run(dir.path(), &["import", "servers.json"]).ok();
    assert_eq!(piped.stdout, named.stdout.replace("servers.json", "stdin"));
    assert!(piped.stdout.contains("id = \"files\""), "{}", piped.stdout);
    let empty = run(dir.path(), &["import", "-"]);
    assert_eq!(empty.code, 1);
    assert!(empty.stderr.contains("the text on stdin is not JSON"), "{}", empty.stderr);
}

/// The offered command stores the secret of a header, and the source works with it.
#[test]
fn a_secret_header_can_become_a_credential() {
    let dir = dir();
    let text = r#"{ "mcpServers": {
        "site": { "url": "https://site.example.com/mcp", "headers": { "Authorization": "Bearer canary 1" } },
        "two": { "url": "https://two.example.com/mcp", "headers": { "X-A-Key": "canary-2", "X-B-Key": "canary-3" } },
        "program": { "command": "notes", "env": { "NOTES_KEY": "canary-4" } }
    } }"#;
    std::fs::write(dir.path().join("c.json"), text).unwrap();
    let ran = run(dir.path(), &["import", "c.json"]).ok();
    let offered: Vec<_> =
        ran.stderr.lines().filter(|line| line.contains("credentials set")).collect();
    let expected = "  toolcrib credentials set site --header Authorization --audience site.example.com \
                    --value-env SITE_AUTHORIZATION";
    assert_eq!(offered, [expected], "{}", ran.stderr);
    run(dir.path(), &["credentials", "new-key", "--out", "seal.key"]).ok();
    crate::support::write_config(dir.path(), "[store]\nseal_key = { file = \"seal.key\" }\n");
    let words: Vec<_> = expected.split_whitespace().skip(1).collect();
    let mut command = toolcrib(dir.path());
    finish(command.args(&words).env("SITE_AUTHORIZATION", "Bearer canary 1")).ok();
    let stored = run(dir.path(), &["--json", "credentials", "list"]).ok().json();
    assert_eq!(stored[0]["name"], "site");
    assert_eq!(stored[0]["audiences"], serde_json::json!(["site.example.com"]));
}
