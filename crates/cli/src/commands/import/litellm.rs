//! Reads the sections `mcp_servers` and `mcp_builtin_servers` of LiteLLM's `config.yaml`.
//!
//! Invariant: a source with an untranslated restriction is not in force.

use serde_json::{Map, Value, json};

use super::{
    described::{Obstacle, Rule, literal},
    secrets::shown,
    servers::{ImportContent, Reader, SSE, Upstream, words},
};

/// The tables of servers.
const TABLES: [&str; 2] = ["mcp_servers", "mcp_builtin_servers"];

/// The start of values from the environment.
const ENVIRONMENT: &str = "os.environ/";

/// Settings that only describe a server.
const DESCRIPTIVE: &[&str] =
    &["alias", "description", "mcp_info", "server_id", "server_name", "spec_version", "status"];

/// Settings of other parts of the gateway that callers notice, and their equivalents here.
const OTHERS: &[(&str, &str)] = &[
    ("access_groups", "grant the scope `tools:SOURCE` to the callers of the group"),
    ("mcp_access_groups", "grant the scope `tools:SOURCE` to the callers of the group"),
    ("allow_all_keys", "grant the scope `tools:SOURCE` to every key"),
    ("available_on_public_internet", "`[server] listen` decides for all sources"),
    ("extra_headers", "headers of callers are not forwarded"),
    ("tool_name_to_description", "tools are described by their servers"),
    ("tool_name_to_display_name", "tools are called SOURCE__TOOL"),
];

/// `None` if `document` has neither section.
pub(super) fn read(document: &Value) -> Option<ImportContent> {
    let tables = TABLES.iter().filter_map(|table| {
        let servers = document.get(*table)?.as_object()?;
        Some((*table, servers))
    });
    let tables: Vec<_> = tables.collect();
    tables.first()?;
    let mut reader = Reader::default();
    for key in document.as_object().into_iter().flat_map(Map::keys) {
        if !TABLES.contains(&key.as_str()) {
            reader.part(key, "only `mcp_servers` and `mcp_builtin_servers` are about tools");
        }
    }
    for (table, servers) in tables {
        for (name, server) in servers {
            add(table, name, server, &mut reader);
        }
    }
    Some(reader.imported)
}

fn add(table: &str, name: &str, server: &Value, reader: &mut Reader) {
    let id = reader.id(name);
    let place = format!("{table}.{name}");
    let mut obstacle = Obstacle::default();
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let known = [
        "url",
        "transport",
        "command",
        "args",
        "enabled",
        "env",
        "env_key",
        "auth_type",
        "auth_value",
        "authentication_token",
        "headers",
        "static_headers",
        "allowed_tools",
        "disallowed_tools",
        "spec_path",
    ];
    for key in server.as_object().into_iter().flat_map(Map::keys) {
        let key = key.as_str();
        if known.contains(&key) {
            continue;
        }
        if DESCRIPTIVE.contains(&key) {
            reader.part(format!("{place}.{key}"), "it only describes the server");
            continue;
        }
        let other = OTHERS.iter().find(|(other, _)| *other == key);
        let reason = other.map_or("it is not translated", |(_, reason)| reason);
        reader.part(format!("{place}.{key}"), reason);
        if other.is_none() {
            obstacle.add(format!("its setting `{key}` is not translated"));
        }
    }
    match server.get("enabled") {
        None | Some(Value::Null | Value::Bool(true)) => {}
        Some(Value::Bool(false)) => obstacle.add("it is switched off in LiteLLM"),
        Some(_) => obstacle.add("its `enabled` is neither true nor false"),
    }
    let mut headers = Map::new();
    for key in ["headers", "static_headers"] {
        let more = server.get(key).and_then(Value::as_object);
        headers.extend(more.map(references).unwrap_or_default());
    }
    authenticate(server, &mut headers, &mut obstacle);
    let upstream = match (text("command"), text("url"), text("spec_path")) {
        (_, url, Some(document)) => reader.document(&id, document, url, &headers, &mut obstacle),
        (Some(program), _, _) => {
            let words = words(program, server.get("args").and_then(Value::as_array));
            let mut env = match server.get("env") {
                Some(Value::Object(env)) => references(env),
                Some(Value::Null) | None => Map::new(),
                Some(_) => {
                    obstacle.add("its `env` is not a table");
                    Map::new()
                }
            };
            if let Some(key) = text("env_key") {
                env.entry(key).or_insert_with(|| json!(format!("${{env:{key}}}")));
            }
            reader.command(&id, words, &env, None, &mut obstacle)
        }
        (None, Some(url), None) => {
            match text("transport") {
                Some("http" | "streamable_http" | "streamable-http") => {}
                Some("sse") => obstacle.add(SSE),
                Some(_) => obstacle.add("its `transport` is not `http`"),
                None => obstacle.add(
                    "it has no `transport`, which means HTTP+SSE; use its streamable HTTP address",
                ),
            }
            let url = reference(url);
            reader.url(&id, &url, &headers, &mut obstacle)
        }
        (None, None, None) => {
            obstacle.add("it has neither `command` nor `url`");
            Upstream::Command { command: Vec::new(), env: Vec::new(), cwd: None }
        }
    };
    let rules = rules(name, server, &mut obstacle);
    for key in ["allowed_tools", "disallowed_tools"] {
        if server.get(key).is_some_and(|value| !value.is_null()) {
            reader.part(format!("{place}.{key}"), "it became rules with `hide`");
        }
    }
    reader.add(name, id, upstream, rules, obstacle);
}

/// Adds the header of `auth_type` with a value from the environment.
fn authenticate(server: &Value, headers: &mut Map<String, Value>, obstacle: &mut Obstacle) {
    let kind = server.get("auth_type").and_then(Value::as_str).unwrap_or("none");
    let value = ["auth_value", "authentication_token"].iter().find_map(|key| server.get(key));
    let value = reference(value.and_then(Value::as_str).unwrap_or_default());
    let variable = server.get("env_key").and_then(Value::as_str);
    let value = match variable.filter(|_| value.is_empty()) {
        Some(variable) => format!("${{env:{variable}}}"),
        None => value,
    };
    let (name, value) = match kind {
        "none" => return,
        "api_key" => ("X-API-Key", value),
        "authorization" => ("Authorization", value),
        "bearer_token" => ("Authorization", format!("Bearer {value}")),
        "basic" => ("Authorization", format!("Basic {value}")),
        "token" => ("Authorization", format!("token {value}")),
        _ => {
            let kind = shown(kind);
            obstacle.add(format!(
                "its `auth_type` is `{kind}`; store a credential with `toolcrib credentials set`, and \
                 name it in `credential`"
            ));
            return;
        }
    };
    headers.insert(name.to_owned(), json!(value));
}

/// Rules for `allowed_tools` and `disallowed_tools`, whose names may start with that of the server.
fn rules(server: &str, settings: &Value, obstacle: &mut Obstacle) -> Vec<Rule> {
    let mut listed = |key: &str| match settings.get(key) {
        None | Some(Value::Null) => None,
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
            let names = names.iter().filter_map(Value::as_str);
            let own = |name: &str| name.strip_prefix(server)?.strip_prefix('-').map(str::to_owned);
            let both =
                |name: &str| std::iter::once(name.to_owned()).chain(own(name)).collect::<Vec<_>>();
            Some(names.flat_map(both).collect::<Vec<String>>())
        }
        Some(_) => {
            obstacle.add(format!("its `{key}` is not a list of names"));
            None
        }
    };
    let (allowed, disallowed) = (listed("allowed_tools"), listed("disallowed_tools"));
    let rule = |glob: String, hide| Rule { glob, hide: Some(hide), ..Rule::default() };
    let all = allowed.is_some().then(|| rule("*".to_owned(), true));
    let allowed = allowed.into_iter().flatten().map(|name| rule(literal(&name), false));
    let disallowed = disallowed.into_iter().flatten().map(|name| rule(literal(&name), true));
    all.into_iter().chain(allowed).chain(disallowed).collect()
}

fn references(values: &Map<String, Value>) -> Map<String, Value> {
    let value =
        |value: &Value| value.as_str().map_or_else(|| value.clone(), |text| json!(reference(text)));
    values.iter().map(|(name, setting)| (name.clone(), value(setting))).collect()
}

/// Writes a reference to the environment in the form of desktop clients.
fn reference(text: &str) -> String {
    match text.strip_prefix(ENVIRONMENT) {
        Some(name) => format!("${{env:{name}}}"),
        None => text.to_owned(),
    }
}
