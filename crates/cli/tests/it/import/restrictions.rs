//! `import`: restrictions of clients, and settings that are not translated.

use std::fs;

use serde_json::{Value, json};

use crate::support::{dir, run};

/// Returns the written file as TOML and as text, and the report.
pub(super) fn import(file: &str, content: &[u8]) -> (toml::Table, String, Value) {
    let dir = dir();
    fs::write(dir.path().join(file), content).unwrap();
    let report = run(dir.path(), &["--json", "import", file]).ok().json();
    let text = report["toml"].as_str().unwrap().to_owned();
    (toml::from_str(&text).unwrap(), text, report)
}

pub(super) fn import_json(content: &Value) -> (toml::Table, String, Value) {
    import("client.json", content.to_string().as_bytes())
}

/// Returns the source `id` of a written file, if it is in force.
pub(super) fn source<'a>(toml: &'a toml::Table, id: &str) -> Option<&'a toml::Value> {
    let sources = toml.get("source")?.as_array()?;
    sources.iter().find(|source| source["id"].as_str() == Some(id))
}

/// Returns the globs of hidden tools of the source `id`.
pub(super) fn hidden(toml: &toml::Table, id: &str) -> Vec<String> {
    let tools = source(toml, id).and_then(|source| source.get("tools")?.as_table());
    let tools = tools.into_iter().flatten();
    let hidden = tools.filter(|(_, rule)| rule["hide"].as_bool() == Some(true));
    hidden.map(|(glob, _)| glob.clone()).collect()
}

pub(super) fn is_named(report: &Value, part: &str) -> bool {
    let parts = report["notTranslated"].as_array().unwrap().iter();
    let place = |it: &Value| it["part"].as_str().unwrap().to_owned();
    parts.map(place).any(|it| it == part)
}

#[test]
fn lists_of_tools_become_rules_and_are_named() {
    let (toml, text, report) = import_json(&json!({ "mcpServers": {
        "shop": { "command": "shop-server", "disabledTools": ["refund", "wipe_*"] },
        "mail": { "command": "mail-server", "excludeTools": ["send"], "trust": true },
        "docs": { "url": "https://docs.example.com/mcp", "includeTools": ["find"] },
        "wiki": { "command": "wiki-server", "tools": ["read"], "allowedTools": ["read", "edit"] },
        "open": { "command": "open-server", "tools": ["*"] },
        "some": { "command": "some-server", "includeTools": ["read_*"] },
    } }));
    assert_eq!(hidden(&toml, "shop"), ["refund", "wipe_*"], "{text}");
    assert_eq!(hidden(&toml, "mail"), ["send"], "{text}");
    for id in ["docs", "wiki"] {
        assert_eq!(hidden(&toml, id), ["*"], "{text}");
    }
    assert_eq!(source(&toml, "docs").unwrap()["tools"]["find"]["hide"].as_bool(), Some(false));
    let wiki = source(&toml, "wiki").unwrap()["tools"].as_table().unwrap();
    assert!(wiki.contains_key("read") && !wiki.contains_key("edit"), "{text}");
    assert!(source(&toml, "open").unwrap().get("tools").is_none(), "{text}");
    assert!(source(&toml, "some").is_none() && text.contains("# id = \"some\""), "{text}");
    for part in [
        "shop.disabledTools",
        "mail.excludeTools",
        "mail.trust",
        "docs.includeTools",
        "wiki.tools",
        "wiki.allowedTools",
        "open.tools",
        "some.includeTools",
    ] {
        assert!(is_named(&report, part), "{part}\n{report:#}");
    }
}

#[test]
fn settings_without_an_equivalent_are_named_and_those_that_may_restrict_are_comments() {
    let (toml, text, report) = import_json(&json!({ "servers": {
        "boxed": { "command": "a", "sandbox": { "network": "off" } },
        "login": { "url": "https://login.example.com/mcp", "oauth": { "clientId": "app" } },
        "strict": { "command": "b", "readOnly": true },
        "plain": { "command": "c", "colour": "blue", "timeout": 60, "description": "It helps." },
        "both": { "command": "d", "url": "https://d.example.com/mcp", "headers": { "A": "b" } },
        "odd": { "command": "e", "env": ["A=b"], "args": "x", "type": "websocket" },
        "empty": { "command": "f", "env": { "UNSET": null }, "oauth": null },
    }, "colourTheme": "dark" }));
    for id in ["boxed", "login", "strict", "odd"] {
        assert!(
            source(&toml, id).is_none() && text.contains(&format!("# id = \"{id}\"")),
            "{text}"
        );
    }
    for id in ["plain", "both", "empty"] {
        assert!(source(&toml, id).is_some(), "{text}");
    }
    for part in [
        "boxed.sandbox",
        "login.oauth",
        "strict.readOnly",
        "plain.colour",
        "plain.timeout",
        "plain.description",
        "both.url",
        "both.headers",
        "odd.env",
        "odd.args",
        "empty.env.UNSET",
        "empty.oauth",
        "colourTheme",
    ] {
        assert!(is_named(&report, part), "{part}\n{report:#}");
    }
}

#[test]
fn servers_that_are_switched_off_anywhere_are_comments() {
    for (settings, off, part) in [
        (json!({ "disabledMcpServers": ["one"] }), &["one"][..], "disabledMcpServers"),
        (
            json!({ "disabledMcpjsonServers": ["one", "two"] }),
            &["one", "two"],
            "disabledMcpjsonServers",
        ),
        (
            json!({ "projects": { "/srv/a": { "disabledMcpServers": ["two"] } } }),
            &["two"],
            "projects./srv/a.disabledMcpServers",
        ),
        (json!({ "deniedMcpServers": [{ "serverName": "two" }] }), &["two"], "deniedMcpServers"),
        (
            json!({ "deniedMcpServers": [{ "serverUrl": "https://*" }] }),
            &["one", "two"],
            "deniedMcpServers",
        ),
        (json!({ "mcp": { "excluded": ["one"] } }), &["one"], "mcp.excluded"),
        (json!({ "mcp": { "allowed": ["one"] } }), &["two"], "mcp.allowed"),
        (json!({ "allowMCPServers": [] }), &["one", "two"], "allowMCPServers"),
        (
            json!({ "permissions": { "deny": ["mcp__two", "Shell(rm *)"] } }),
            &[],
            "permissions.deny",
        ),
    ] {
        let mut file = settings.clone();
        file["mcpServers"] = json!({ "one": { "command": "a" }, "two": { "command": "b" } });
        let (toml, text, report) = import_json(&file);
        for id in ["one", "two"] {
            assert_eq!(source(&toml, id).is_none(), off.contains(&id), "{settings}\n{text}");
        }
        assert!(is_named(&report, part), "{part}\n{report:#}");
    }
}

#[test]
fn tools_that_the_whole_file_denies_are_hidden() {
    let (toml, text, report) = import_json(&json!({
        "mcpServers": { "one": { "command": "a" }, "two": { "command": "b" } },
        "permissions": { "deny": ["mcp__one__drop", "mcp__two"], "allow": ["mcp__one__read"] },
        "excludeTools": ["wipe"],
    }));
    assert_eq!(hidden(&toml, "one"), ["drop", "wipe"], "{text}");
    assert_eq!(hidden(&toml, "two"), ["*", "wipe"], "{text}");
    for part in ["permissions.deny", "permissions.allow", "excludeTools"] {
        assert!(is_named(&report, part), "{part}\n{report:#}");
    }
}

#[test]
fn codex_names_each_setting() {
    let (toml, text, report) = import(
        "config.toml",
        br#"
model = "m"
[mcp_servers.notes]
command = "notes-server"
disabled_tools = ["erase"]
tool_timeout_sec = 9
startup_timeout_ms = 100
scopes = ["write"]
[mcp_servers.plain]
command = "plain-server"
supports_parallel_tool_calls = true
"#,
    );
    assert!(
        source(&toml, "notes").is_none() && text.contains("# [source.tools.\"erase\"]"),
        "{text}"
    );
    assert!(source(&toml, "plain").is_some(), "{text}");
    for part in [
        "model",
        "notes.disabled_tools",
        "notes.tool_timeout_sec",
        "notes.startup_timeout_ms",
        "notes.scopes",
        "plain.supports_parallel_tool_calls",
    ] {
        assert!(is_named(&report, part), "{part}\n{report:#}");
    }
}

#[test]
fn any_shape_of_a_file_is_answered() {
    let odd =
        [json!(null), json!(true), json!(7), json!(""), json!([]), json!([[]]), json!({ "": {} })];
    for value in &odd {
        for key in ["command", "args", "env", "url", "headers", "cwd", "type", "disabled", "tools"]
        {
            for base in
                [json!({}), json!({ "command": "a" }), json!({ "url": "https://a.example/m" })]
            {
                let mut server = base;
                server[key] = value.clone();
                import_json(&json!({ "mcpServers": { "s": server, "t": value } }));
            }
        }
        let keys =
            ["disabledMcpServers", "allowMCPServers", "permissions", "tools", "projects", "mcp"];
        let mut file: Value = keys.iter().map(|key| ((*key).to_owned(), value.clone())).collect();
        file["mcpServers"] = json!({ "s": { "command": "a" } });
        import_json(&file);
    }
}
