//! Reads the tables `mcp_servers` of Codex's `config.toml`.
//!
//! They become servers as other desktop clients describe them.

use serde_json::{Map, Value, json};

use super::{
    cel::literal,
    servers::{self, Described, Imported, Rule},
};

/// Settings with the same meaning in other clients.
const SHARED: &[&str] = &["command", "args", "env", "cwd", "url", "enabled"];
/// Settings that this module translates.
const TRANSLATED: &[&str] = &[
    "bearer_token_env_var",
    "disabled_tools",
    "enabled_tools",
    "env_http_headers",
    "env_vars",
    "http_headers",
];

/// Returns the content of `document`; `None` if it has no `mcp_servers`.
pub(super) fn read(document: &Value) -> Option<Imported> {
    described(document).map(|servers| servers::of(&servers))
}

/// Returns the servers of `document` as they are; `None` if it has no `mcp_servers`.
pub(super) fn described(document: &Value) -> Option<Vec<Described>> {
    let servers = document.get("mcp_servers")?.as_object()?;
    Some(servers.iter().map(|(name, server)| one(name, server)).collect())
}

fn one(name: &str, server: &Value) -> Described {
    let none = Map::new();
    let server = server.as_object().unwrap_or(&none);
    let table = |key: &str| server.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let reference = |variable: &str| json!(format!("${{env:{variable}}}"));

    let mut env = table("env");
    for variable in texts(server.get("env_vars")) {
        env.insert(variable.to_owned(), reference(variable));
    }
    let mut headers = table("http_headers");
    for (header, variable) in table("env_http_headers") {
        headers.insert(header, reference(variable.as_str().unwrap_or_default()));
    }
    if let Some(variable) = server.get("bearer_token_env_var").and_then(Value::as_str) {
        headers.insert("Authorization".to_owned(), json!(format!("Bearer ${{env:{variable}}}")));
    }
    let mut settings: Map<String, Value> = server
        .iter()
        .filter(|(key, _)| SHARED.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for (key, table) in [("env", env), ("headers", headers)] {
        if !table.is_empty() {
            settings.insert(key.to_owned(), Value::Object(table));
        }
    }
    let other = |key: &&String| {
        !SHARED.contains(&key.as_str())
            && !TRANSLATED.contains(&key.as_str())
            && !key.ends_with("_timeout_sec")
            && !key.ends_with("_timeout_ms")
    };
    let parts = server.keys().filter(other);
    let parts = parts.map(|key| (key.clone(), "it is not translated".to_owned())).collect();
    Described {
        name: name.to_owned(),
        settings: Value::Object(settings),
        rules: rules(server),
        parts,
    }
}

/// Returns rules that hide the tools which the client does not use.
fn rules(server: &Map<String, Value>) -> Vec<Rule> {
    let rule = |glob: String, hide| Rule { glob, hide: Some(hide), ..Rule::default() };
    let all = server.contains_key("enabled_tools").then(|| rule("*".to_owned(), true));
    let enabled = texts(server.get("enabled_tools")).map(|name| rule(literal(name), false));
    let disabled = texts(server.get("disabled_tools")).map(|name| rule(literal(name), true));
    all.into_iter().chain(enabled).chain(disabled).collect()
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
