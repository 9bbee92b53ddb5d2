//! Reads the tables `mcp_servers` of Codex's `config.toml`.
//!
//! They become servers as other desktop clients describe them.

use serde_json::{Map, Value, json};

use super::{
    described::{ClientFile, DescribedServer, Part, Rule, literal},
    servers::{self, ImportContent},
};

/// Settings that this module translates.
const TRANSLATED: &[&str] = &[
    "bearer_token_env_var",
    "disabled_tools",
    "enabled_tools",
    "env_http_headers",
    "env_vars",
    "http_headers",
];

/// `None` if `document` has no `mcp_servers`.
pub(super) fn read(document: &Value) -> Option<ImportContent> {
    described(document).map(|file| servers::of(&file))
}

/// The servers of `document`, unchanged; `None` if it has no `mcp_servers`.
pub(super) fn described(document: &Value) -> Option<ClientFile> {
    let servers = document.get("mcp_servers")?.as_object()?;
    let servers = servers.iter().map(|(name, server)| one(name, server)).collect();
    let others = document.as_object().into_iter().flat_map(Map::keys);
    let others = others.filter(|key| *key != "mcp_servers").cloned().collect::<Vec<_>>().join(", ");
    let part = Part::new(others, "only `mcp_servers` is about tools");
    let parts = [part].into_iter().filter(|part| !part.place.is_empty()).collect();
    Some(ClientFile { servers, parts })
}

fn one(name: &str, server: &Value) -> DescribedServer {
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
    let mut settings = server.clone();
    settings.retain(|key, _| !TRANSLATED.contains(&key.as_str()));
    for (key, table) in [("env", env), ("headers", headers)] {
        if !table.is_empty() {
            settings.insert(key.to_owned(), Value::Object(table));
        }
    }
    let mut described = DescribedServer::new(name, Value::Object(settings));
    for key in ["enabled_tools", "disabled_tools"] {
        match server.get(key) {
            Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
                described.parts.push((key.to_owned(), "it became rules with `hide`".to_owned()));
            }
            Some(_) => described.obstacle.add(format!("its `{key}` is no list of names")),
            None => {}
        }
    }
    described.rules = rules(server);
    described
}

/// Rules that hide the tools which the client does not use.
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
