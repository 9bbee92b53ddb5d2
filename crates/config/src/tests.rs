//! The documented defaults are those of the program.

use std::path::Path;

use serde_json::Value;

use super::{NoSecrets, parse, types};

fn resolved(text: &str) -> Option<String> {
    let config = parse("test", text, Path::new(""), &NoSecrets).ok()?;
    Some(format!("{config:?}"))
}

/// Returns the keys of a type with their documented defaults, as TOML.
fn defaults(schema: &Value, name: &str) -> Vec<String> {
    let members = &schema["$defs"][name]["properties"];
    members
        .as_object()
        .unwrap()
        .iter()
        .filter_map(|(key, member)| match &member["default"] {
            Value::Null | Value::Object(_) => None,
            value => Some(format!("{key} = {value}\n")),
        })
        .collect()
}

#[test]
fn documented_defaults_are_the_real_ones() {
    // I-6
    let schema = types();
    let source = "[[source]]\nid = \"a\"\nkind = \"mcp\"\ncommand = [\"x\"]\n";
    let server = "[[source]]\nid = \"a\"\nkind = \"mcp\"\nurl = \"https://a.example\"\n";
    let connector = "[[source]]\nid = \"a\"\nkind = \"connector\"\ndocument = \"a.yaml\"\n";
    let pack = "[[source]]\nid = \"a\"\nkind = \"node-pack\"\npack = \"./a\"\n";
    let workflow = "[[source]]\nid = \"a\"\nkind = \"workflow\"\nfiles = [\"a.yaml\"]\n";
    let command = "[[source]]\nid = \"a\"\nkind = \"host-extension\"\n[source.commands.c]\n\
                   program = \"/bin/true\"\n";
    let commands = "[[source]]\nid = \"a\"\nkind = \"host-extension\"\n\
                    commands.c.program = \"/bin/true\"\n";
    let toolset = "[toolset.a]\nallow = [\"*\"]\n";
    let issuer = "[auth.jwt]\nissuer = \"https://id.example.com\"\naudiences = [\"a\"]\n\
                  tenant = \"a\"\n";
    let sign_in = format!("{issuer}[auth.jwt.sign_in]\nclient_id = \"console\"\n");
    let tables = [
        ("ServerConfig", String::new(), "[server]\n".to_owned()),
        ("Store", String::new(), "[store]\n".to_owned()),
        ("Record", String::new(), "[record]\n".to_owned()),
        ("Metrics", String::new(), "[metrics]\n".to_owned()),
        ("GateConfig", String::new(), "[gate]\n".to_owned()),
        ("Approvals", String::new(), "[approvals]\n".to_owned()),
        ("OpenWopConfig", String::new(), "[openwop]\n".to_owned()),
        ("Otc", String::new(), "[otc]\n".to_owned()),
        ("OxpConfig", String::new(), "[oxp]\n".to_owned()),
        ("McpConfig", String::new(), "[mcp]\n".to_owned()),
        ("ExplorerConfig", String::new(), "[explorer]\n".to_owned()),
        ("Source", source.to_owned(), source.to_owned()),
        ("Program", source.to_owned(), source.to_owned()),
        ("Server", server.to_owned(), server.to_owned()),
        ("Document", connector.to_owned(), connector.to_owned()),
        ("Pack", pack.to_owned(), pack.to_owned()),
        ("Workflows", workflow.to_owned(), workflow.to_owned()),
        ("Commands", commands.to_owned(), commands.to_owned()),
        ("BreakerConfig", source.to_owned(), format!("{source}[source.breaker]\n")),
        ("HostCommand", command.to_owned(), command.to_owned()),
        ("Sandbox", command.to_owned(), format!("{command}[source.commands.c.sandbox]\n")),
        ("CommandLimits", command.to_owned(), format!("{command}[source.commands.c.limits]\n")),
        ("Toolset", toolset.to_owned(), toolset.to_owned()),
        ("JwtConfig", issuer.to_owned(), issuer.to_owned()),
        ("ClaimsConfig", issuer.to_owned(), format!("{issuer}[auth.jwt.claims]\n")),
        ("SignInConfig", sign_in.clone(), sign_in.clone()),
    ];
    let mut compared = 0;
    for (name, without, with) in tables {
        let expected = resolved(&without).unwrap_or_else(|| panic!("{without}"));
        for default in defaults(&schema, name) {
            let found = resolved(&format!("{with}{default}"));
            assert_eq!(found.as_ref(), Some(&expected), "{name}: {default}");
            compared += 1;
        }
    }
    assert!(compared > 55, "{compared}");
}
