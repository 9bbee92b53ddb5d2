//! `import`: Zed, opencode, Continue, Goose, catalogs of Docker, and the built-in servers of LiteLLM.

use serde_json::{Value, json};

use super::restrictions::{hidden, import, import_json, is_named, source};

fn words(toml: &toml::Table, id: &str) -> Vec<String> {
    let command = source(toml, id).and_then(|source| source["command"].as_array());
    command.into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Returns the variable for `name` in the table `env` or `headers` of a source.
fn variable<'a>(toml: &'a toml::Table, id: &str, table: &str, name: &str) -> Option<&'a str> {
    source(toml, id)?.get(table)?.get(name)?.get("env")?.as_str()
}

#[track_caller]
fn assert_named(report: &Value, parts: &[&str]) {
    for part in parts {
        assert!(is_named(report, part), "{part}\n{report:#}");
    }
}

#[track_caller]
fn assert_comments(toml: &toml::Table, text: &str, ids: &[&str]) {
    for id in ids {
        assert!(source(toml, id).is_none() && text.contains(&format!("# id = \"{id}\"")), "{text}");
    }
}

#[test]
fn zed() {
    let (toml, text, report) = import_json(&json!({
        "theme": "One",
        "context_servers": {
            "notes": { "source": "custom", "command": "notes-server", "args": ["--stdio"],
                       "env": { "NOTES_KEY": "canary-1" }, "timeout": 30 },
            "old": { "command": { "path": "old-server", "args": ["x"], "env": {} }, "settings": {} },
            "site": { "url": "https://site.example.com/mcp", "headers": { "Authorization": "Bearer canary-2" } },
            "extension": { "enabled": true, "settings": { "key": "canary-3" } },
            "off": { "enabled": false, "command": "off-server", "args": [] },
        },
        "agent": {
            "tool_permissions": { "tools": { "mcp:notes:erase": { "default": "deny" } } },
            "profiles": { "write": { "context_servers": { "old": { "tools": { "wipe": false, "find": true } } } } },
        },
    }));
    assert!(!report.to_string().contains("canary"), "{report:#}");
    assert_eq!(words(&toml, "notes"), ["notes-server", "--stdio"], "{text}");
    assert_eq!(words(&toml, "old"), ["old-server", "x"], "{text}");
    assert_eq!(hidden(&toml, "notes"), ["erase"], "{text}");
    assert_eq!(hidden(&toml, "old"), ["wipe"], "{text}");
    assert_eq!(variable(&toml, "notes", "env", "NOTES_KEY"), Some("NOTES_KEY"), "{text}");
    assert!(variable(&toml, "site", "headers", "Authorization").is_some(), "{text}");
    assert_comments(&toml, &text, &["extension", "off"]);
    assert_named(
        &report,
        &["theme", "agent", "notes.timeout", "old.settings", "extension.settings"],
    );
}

#[test]
fn a_default_of_zed_that_denies_tools_switches_the_servers_off() {
    let (toml, text, _) = import_json(&json!({
        "context_servers": { "notes": { "command": "notes-server" } },
        "agent": { "tool_permissions": { "default": "deny" } },
    }));
    assert_comments(&toml, &text, &["notes"]);
}

#[test]
fn names_of_other_formats_leave_the_servers_of_a_desktop_client_alone() {
    for key in ["context_servers", "mcp", "extensions", "registry"] {
        let (toml, text, report) = import_json(&json!({
            "mcpServers": { "notes": { "command": "notes-server" } },
            key: { "other": { "type": "local", "command": "other-server" } },
        }));
        assert_eq!(words(&toml, "notes"), ["notes-server"], "{text}");
        if key != "mcp" {
            assert_named(&report, &[key]);
        }
    }
}

#[test]
fn opencode() {
    for wrap in [|mcp: Value| mcp, |mcp: Value| json!({ "servers": mcp })] {
        let (toml, text, report) = import_json(&json!({
            "$schema": "https://opencode.ai/config.json",
            "model": "m",
            "mcp": wrap(json!({
                "notes": { "type": "local", "command": ["npx", "-y", "notes"], "cwd": "/srv",
                           "environment": { "NOTES_KEY": "{env:MY_KEY}" }, "timeout": 100 },
                "site": { "type": "remote", "url": "https://site.example.com/mcp", "oauth": false,
                          "headers": { "Authorization": "Bearer {env:SITE_KEY}" } },
                "login": { "type": "remote", "url": "https://login.example.com/mcp", "oauth": { "scope": "a" } },
                "off": { "type": "local", "command": ["off"], "enabled": false },
            })),
            "tools": { "notes_erase": false, "si*": false, "login_x": true },
            "permission": { "notes_send": "deny", "edit": "ask" },
        }));
        assert_eq!(words(&toml, "notes"), ["npx", "-y", "notes"], "{text}");
        assert_eq!(variable(&toml, "notes", "env", "NOTES_KEY"), Some("MY_KEY"), "{text}");
        assert!(variable(&toml, "site", "headers", "Authorization").is_some(), "{text}");
        assert_eq!(hidden(&toml, "notes"), ["erase", "send"], "{text}");
        assert_eq!(hidden(&toml, "site"), ["*"], "{text}");
        assert_comments(&toml, &text, &["login", "off"]);
        assert_named(
            &report,
            &["model", "tools", "permission", "notes.timeout", "site.oauth", "login.oauth"],
        );
    }
}

#[test]
fn continue_with_a_list() {
    let (toml, text, report) = import(
        "config.yaml",
        br#"
name: mine
schema: v1
mcpServers:
  - name: Notes
    command: npx
    args: ["-y", "notes"]
    env: { NOTES_KEY: "${{ secrets.MY_KEY }}" }
    connectionTimeout: 500
  - name: Site
    type: streamable-http
    url: https://site.example.com/mcp
    requestOptions:
      headers: { X-Key: "${{ secrets.SITE_KEY }}" }
      verifySsl: false
  - name: Old
    type: sse
    url: https://old.example.com/sse
  - uses: someone/block
"#,
    );
    assert_eq!(words(&toml, "notes"), ["npx", "-y", "notes"], "{text}");
    assert_eq!(variable(&toml, "notes", "env", "NOTES_KEY"), Some("MY_KEY"), "{text}");
    assert_eq!(variable(&toml, "site", "headers", "X-Key"), Some("SITE_KEY"), "{text}");
    assert_comments(&toml, &text, &["old", "someone-block"]);
    assert_named(
        &report,
        &[
            "name, schema",
            "notes.connectionTimeout",
            "site.requestOptions.verifySsl",
            "someone-block.uses",
        ],
    );
}

#[test]
fn goose() {
    let (toml, text, report) = import(
        "config.yaml",
        br#"
GOOSE_MODEL: m
extensions:
  notes:
    enabled: true
    type: stdio
    name: notes
    cmd: uvx
    args: [notes]
    envs: { LOG_MODE: strict }
    env_keys: [NOTES_KEY]
    timeout: 300
    available_tools: [find]
  site:
    enabled: true
    type: streamable_http
    uri: https://site.example.com/mcp
    headers: { Authorization: Bearer canary-1 }
    available_tools: []
  developer: { enabled: true, type: builtin, name: developer }
  off: { enabled: false, type: stdio, cmd: off, args: [] }
"#,
    );
    assert!(!report.to_string().contains("canary"), "{report:#}");
    assert_eq!(words(&toml, "notes"), ["uvx", "notes"], "{text}");
    assert_eq!(variable(&toml, "notes", "env", "NOTES_KEY"), Some("NOTES_KEY"), "{text}");
    assert_eq!(hidden(&toml, "notes"), ["*"], "{text}");
    assert!(source(&toml, "site").unwrap().get("tools").is_none(), "{text}");
    assert_comments(&toml, &text, &["developer", "off"]);
    assert_named(
        &report,
        &["GOOSE_MODEL", "notes.timeout", "notes.available_tools", "site.available_tools"],
    );
}

#[test]
fn catalogs_of_docker() {
    let (toml, text, report) = import(
        "catalog.yaml",
        br#"
name: mine
registry:
  notes:
    type: server
    title: Notes
    image: mcp/notes:1.2
    command: [serve, --stdio]
    secrets: [{ name: notes.key, env: NOTES_KEY }]
    env: [{ name: LOG_MODE, value: strict }]
    volumes: ["/srv/notes:/data"]
    user: "1000"
    disableNetwork: true
    tools: [{ name: find }]
    metadata: { stars: 5 }
  bound: { type: server, image: mcp/bound, allowHosts: ["a.example.com:443"] }
  filled: { type: server, image: mcp/filled, volumes: ["{{filled.paths}}:/data"] }
  set: { type: server, image: mcp/set, env: [{ name: PLACE, value: "{{set.place}}" }] }
  odd: { type: server, image: mcp/odd, volumes: "/srv:/data" }
  site:
    type: remote
    remote:
      region: eu
      url: https://site.example.com/mcp
      transport_type: streamable-http
      headers: { Authorization: "Bearer ${SITE_KEY}" }
  old: { type: remote, remote: { url: "https://old.example.com/sse", transport_type: sse } }
  poci: { type: poci, tools: [] }
"#,
    );
    assert_eq!(
        words(&toml, "notes").join(" "),
        "docker run -i --rm -e NOTES_KEY -e LOG_MODE -v /srv/notes:/data --user 1000 --network none \
         mcp/notes:1.2 serve --stdio",
        "{text}"
    );
    assert_eq!(variable(&toml, "notes", "env", "NOTES_KEY"), Some("NOTES_KEY"), "{text}");
    assert_eq!(
        source(&toml, "notes").unwrap()["env"]["LOG_MODE"].as_str(),
        Some("strict"),
        "{text}"
    );
    assert!(variable(&toml, "site", "headers", "Authorization").is_some(), "{text}");
    assert_comments(&toml, &text, &["bound", "filled", "set", "odd", "old", "poci"]);
    assert_named(
        &report,
        &[
            "name",
            "notes.title",
            "notes.tools",
            "notes.metadata",
            "bound.allowHosts",
            "odd.volumes",
            "site.remote.region",
        ],
    );
}

#[test]
fn built_in_servers_of_litellm() {
    let (toml, text, report) = import(
        "config.yaml",
        br#"
mcp_builtin_servers:
  notes: { transport: stdio, command: notes, args: [--stdio], env_key: NOTES_KEY, enabled: true }
  site:
    url: https://site.example.com/mcp
    transport: http
    auth_type: authorization
    env_key: SITE_KEY
    description: A site
  off: { transport: stdio, command: off, enabled: false }
mcp_servers:
  plain: { transport: stdio, command: plain }
general_settings: { master_key: canary-1 }
"#,
    );
    assert!(!report.to_string().contains("canary"), "{report:#}");
    assert_eq!(words(&toml, "notes"), ["notes", "--stdio"], "{text}");
    assert_eq!(variable(&toml, "notes", "env", "NOTES_KEY"), Some("NOTES_KEY"), "{text}");
    assert_eq!(variable(&toml, "site", "headers", "Authorization"), Some("SITE_KEY"), "{text}");
    assert!(source(&toml, "plain").is_some(), "{text}");
    assert_comments(&toml, &text, &["off"]);
    assert_named(&report, &["general_settings", "mcp_builtin_servers.site.description"]);
}

#[test]
fn odd_files_of_these_clients_are_answered() {
    let odd = [
        json!(null),
        json!(true),
        json!(7),
        json!("x"),
        json!([]),
        json!([[7]]),
        json!({ "": {} }),
    ];
    let keys = [
        "command",
        "cmd",
        "config",
        "environment",
        "env_keys",
        "envs",
        "image",
        "remote",
        "requestOptions",
        "secrets",
        "type",
        "uri",
        "volumes",
        "oauth",
        "tools",
        "allowHosts",
    ];
    for value in &odd {
        let server = |key: &&str| {
            let mut server = json!({ "type": "local", "image": "a", "uri": "https://a.example/m" });
            server[*key] = value.clone();
            server
        };
        let list: Vec<Value> = keys.iter().map(server).chain([value.clone()]).collect();
        let mut table: Value = keys.iter().map(|key| ((*key).to_owned(), server(key))).collect();
        table["other"] = value.clone();
        table["usual"] = json!({ "type": "local" });
        for file in [
            json!({ "context_servers": table, "agent": value }),
            json!({ "mcp": table, "tools": value, "permission": value }),
            json!({ "mcpServers": list }),
            json!({ "extensions": table }),
            json!({ "registry": table }),
            json!({ "mcp_builtin_servers": table }),
        ] {
            import_json(&file);
        }
    }
}
