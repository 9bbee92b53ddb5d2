//! Reads client files in other formats: Zed, opencode, Continue, Goose, and catalogs of Docker's
//! MCP gateway.
//!
//! They become servers as other desktop clients describe them.

use serde_json::{Map, Value, json};

use super::{
    described::{ClientFile, DescribedServer, literal},
    desktop::{self, other_settings},
    restrictions::{hiding, is_off},
    servers::{ImportContent, of},
};

/// `None` if `document` has no member for servers.
pub(super) fn read(document: &Value) -> Option<ImportContent> {
    described(document).map(|file| of(&file))
}

/// The servers of `document`, unchanged; `None` if it has no member for servers.
pub(super) fn described(document: &Value) -> Option<ClientFile> {
    let root = document.as_object()?;
    // Continue has a list there.
    if root.get("mcpServers").is_some_and(Value::is_object) {
        return desktop::described(document);
    }
    let formats = [zed, docker, goose, continue_list, opencode];
    formats.iter().find_map(|format| format(root)).or_else(|| desktop::described(document))
}

/// Moves the member `from` of `settings` to `to`, if that is free.
fn rename(settings: &mut Map<String, Value>, from: &str, to: &str) {
    if settings.contains_key(to) {
        return;
    }
    if let Some(value) = settings.remove(from) {
        settings.insert(to.to_owned(), value);
    }
}

/// Applies `change` to every text in `value`.
fn with_texts(value: &Value, change: fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => json!(change(text)),
        Value::Array(list) => list.iter().map(|value| with_texts(value, change)).collect(),
        Value::Object(table) => {
            let member = |(key, value): (&String, &Value)| (key.clone(), with_texts(value, change));
            Value::Object(table.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

/// Rewrites references such as `{open}NAME{close}` as `${env:NAME}`.
fn with_references(text: &str, open: &str, close: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(open) {
        let Some((name, after)) = after.split_once(close) else { break };
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = name.trim();
        out.push_str(before);
        match !name.is_empty() && name.chars().all(legal) {
            true => out.push_str(&format!("${{env:{name}}}")),
            false => out.push_str(&format!("{open}{name}{close}")),
        }
        rest = after;
    }
    out + rest
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Reads `context_servers` of Zed.
fn zed(root: &Map<String, Value>) -> Option<ClientFile> {
    let servers = root.get("context_servers")?.as_object()?;
    let servers = servers.iter().map(|(name, settings)| {
        let mut described = DescribedServer::new(name, settings.clone());
        let Some(settings) = described.settings.as_object_mut() else { return described };
        // Older versions have the whole command in a table.
        if let Some(Value::Object(command)) = settings.get("command").cloned() {
            settings.remove("command");
            for (key, value) in command {
                match key.as_str() {
                    "path" => {
                        settings.insert("command".to_owned(), value);
                    }
                    "args" | "env" => {
                        settings.insert(key, value);
                    }
                    _ => {
                        let reason = "it is not translated".to_owned();
                        described.parts.push((format!("command.{key}"), reason));
                    }
                }
            }
        }
        if !settings.contains_key("command") && !settings.contains_key("url") {
            described.obstacle.add("an extension of Zed starts it; write its command");
        }
        described
    });
    let mut file = ClientFile { servers: servers.collect(), parts: Vec::new() };
    other_settings(root, &["context_servers", "agent"], "", &mut file);
    if let Some(agent) = root.get("agent") {
        zed_agent(agent, &mut file);
    }
    Some(file)
}

/// Hides the tools that a profile of Zed's agent switches off, or that its permissions deny.
fn zed_agent(agent: &Value, file: &mut ClientFile) {
    let table =
        |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let permissions = table(agent.pointer("/tool_permissions/tools"));
    let profiles = table(agent.get("profiles"));
    let denies_all =
        agent.pointer("/tool_permissions/default").is_some_and(|default| default == "deny");
    file.each(|server| {
        if denies_all {
            server.obstacle.add("`agent.tool_permissions` denies tools by default");
        }
        let mut denied = Vec::new();
        for (name, permission) in &permissions {
            let tool = name.strip_prefix("mcp:").and_then(|name| name.strip_prefix(&server.name));
            let Some(tool) = tool.and_then(|name| name.strip_prefix(':')) else { continue };
            if permission.get("default").unwrap_or(permission) == "deny" {
                denied.push(literal(tool));
            }
        }
        for profile in profiles.values() {
            let servers = table(profile.get("context_servers"));
            let tools = table(servers.get(&server.name).and_then(|settings| settings.get("tools")));
            let off = tools.iter().filter(|(_, on)| **on == false);
            denied.extend(off.map(|(tool, _)| literal(tool)));
        }
        server.rules.extend(hiding(None, denied));
    });
    let reason = "only tools that it denies became rules with `hide`";
    file.part("agent", reason);
}

/// Reads `mcp` of opencode.
fn opencode(root: &Map<String, Value>) -> Option<ClientFile> {
    let mcp = root.get("mcp")?.as_object()?;
    let table = mcp.get("servers").and_then(Value::as_object).unwrap_or(mcp);
    let schema = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let kind = |server: &Value| server.get("type").and_then(Value::as_str).map(str::to_owned);
    let is_own = |server: &Value| matches!(kind(server).as_deref(), Some("local" | "remote"));
    if !schema.contains("opencode") && !table.values().any(is_own) {
        return None;
    }
    let servers = table.iter().map(|(name, settings)| {
        let settings = with_texts(settings, |text| with_references(text, "{env:", "}"));
        let mut described = DescribedServer::new(name, settings);
        if let Some(settings) = described.settings.as_object_mut() {
            rename(settings, "environment", "env");
        }
        described
    });
    let mut file = ClientFile { servers: servers.collect(), parts: Vec::new() };
    other_settings(root, &["mcp", "tools", "permission"], "", &mut file);
    if mcp.contains_key("servers") {
        other_settings(mcp, &["servers"], "mcp.", &mut file);
    }
    for key in ["tools", "permission"] {
        let Some(settings) = root.get(key) else { continue };
        if settings == "deny" {
            file.each(|server| server.obstacle.add("`permission` denies all tools"));
        }
        let denied = settings.as_object().into_iter().flatten();
        let denied: Vec<_> =
            denied.filter(|(_, value)| **value == false || **value == "deny").collect();
        file.each(|server| {
            let globs = denied.iter().filter_map(|(name, _)| opencode_glob(&server.name, name));
            server.rules.extend(hiding(None, globs.collect()));
        });
        file.part(key, "only tools that it denies became rules with `hide`");
    }
    Some(file)
}

/// The glob of the tools of `server` that a name such as `SERVER_TOOL` or `SERVER*` matches.
fn opencode_glob(server: &str, name: &str) -> Option<String> {
    let word = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let prefix: String = server.chars().map(word).chain(['_']).collect();
    if let Some(tool) = name.strip_prefix(&prefix) {
        return Some(tool.to_owned());
    }
    let (before, _) = name.split_once('*')?;
    prefix.starts_with(before).then(|| "*".to_owned())
}

/// Reads the list `mcpServers` of Continue.
fn continue_list(root: &Map<String, Value>) -> Option<ClientFile> {
    let servers = root.get("mcpServers")?.as_array()?;
    let servers = servers.iter().map(|settings| {
        let settings = with_texts(settings, |text| {
            let text = with_references(text, "${{ secrets.", "}}");
            let text = with_references(&text, "${{secrets.", "}}");
            with_references(&with_references(&text, "${{ inputs.", "}}"), "${{inputs.", "}}")
        });
        let name = ["name", "uses"].iter().find_map(|key| settings.get(*key)?.as_str());
        let mut described = DescribedServer::new(name.unwrap_or("server"), settings.clone());
        let Some(settings) = described.settings.as_object_mut() else { return described };
        settings.remove("name");
        if settings.contains_key("uses") {
            described.obstacle.add("it is a block of Continue's hub; write its command or address");
        }
        let options = settings.get("requestOptions").and_then(Value::as_object).cloned();
        if let Some(options) = options {
            settings.remove("requestOptions");
            for (key, value) in options {
                match key.as_str() {
                    "headers" if !settings.contains_key("headers") => {
                        settings.insert(key, value);
                    }
                    _ => {
                        let reason = "it is not translated".to_owned();
                        described.parts.push((format!("requestOptions.{key}"), reason));
                    }
                }
            }
        }
        described
    });
    let mut file = ClientFile { servers: servers.collect(), parts: Vec::new() };
    other_settings(root, &["mcpServers"], "", &mut file);
    Some(file)
}

/// Reads `extensions` of Goose, also as the list in a recipe.
fn goose(root: &Map<String, Value>) -> Option<ClientFile> {
    let extensions: Vec<(String, &Value)> = match root.get("extensions")? {
        Value::Object(table) => {
            table.iter().map(|(name, extension)| (name.clone(), extension)).collect()
        }
        Value::Array(list) => {
            let name = |extension: &Value| {
                extension.get("name").and_then(Value::as_str).unwrap_or("server").to_owned()
            };
            list.iter().map(|extension| (name(extension), extension)).collect()
        }
        _ => return None,
    };
    let is_own = |settings: &Value| {
        ["cmd", "uri", "type", "config"].iter().any(|key| settings.get(*key).is_some())
    };
    if !extensions.iter().any(|(_, settings)| is_own(settings)) {
        return None;
    }
    let servers = extensions.into_iter().map(|(name, settings)| {
        let mut described = DescribedServer::new(&name, settings.clone());
        let Some(settings) = described.settings.as_object_mut() else { return described };
        if let Some(inner) = settings.get("config").and_then(Value::as_object).cloned() {
            settings.remove("config");
            settings.extend(inner);
        }
        for (from, to) in [("cmd", "command"), ("uri", "url"), ("envs", "env")] {
            rename(settings, from, to);
        }
        if settings.contains_key("command") {
            let keys = texts(settings.get("env_keys"));
            let is_list = settings.get("env_keys").is_none_or(Value::is_array);
            let mut env =
                settings.get("env").and_then(Value::as_object).cloned().unwrap_or_default();
            for key in &keys {
                env.entry(key).or_insert_with(|| json!(format!("${{env:{key}}}")));
            }
            if is_list && !keys.is_empty() && settings.get("env").is_none_or(Value::is_object) {
                settings.remove("env_keys");
                settings.insert("env".to_owned(), Value::Object(env));
            }
        }
        // An empty list means all tools.
        if settings.get("available_tools").is_some_and(is_off) {
            settings.remove("available_tools");
            described.parts.push(("available_tools".to_owned(), "it is empty".to_owned()));
        }
        let kind = settings.get("type").and_then(Value::as_str).unwrap_or("stdio");
        if !matches!(kind, "stdio" | "streamable_http" | "sse") {
            described.obstacle.add("it is a part of Goose, not an MCP server");
        }
        described
    });
    let mut file = ClientFile { servers: servers.collect(), parts: Vec::new() };
    other_settings(root, &["extensions"], "", &mut file);
    Some(file)
}

/// Reads `registry` of a catalog of Docker's MCP gateway.
fn docker(root: &Map<String, Value>) -> Option<ClientFile> {
    let registry = root.get("registry")?.as_object()?;
    let is_own = |settings: &Value| {
        ["image", "remote", "type"].iter().any(|key| settings.get(*key).is_some())
    };
    if !registry.values().any(is_own) {
        return None;
    }
    let servers = registry.iter().map(|(name, settings)| docker_server(name, settings)).collect();
    let mut file = ClientFile { servers, parts: Vec::new() };
    other_settings(root, &["registry"], "", &mut file);
    Some(file)
}

fn docker_server(name: &str, settings: &Value) -> DescribedServer {
    let mut described = DescribedServer::new(name, settings.clone());
    let Some(settings) = described.settings.as_object_mut() else { return described };
    // The list describes the tools, and leaves none out.
    if settings.remove("tools").is_some() {
        let reason = "tools are described by their servers".to_owned();
        described.parts.push(("tools".to_owned(), reason));
    }
    if settings.get("allowHosts").is_some_and(|hosts| !is_off(hosts)) {
        described.obstacle.add("its `allowHosts` limits its connections; `docker` cannot do that");
    }
    if settings.remove("type").is_some_and(|kind| kind == "poci") {
        described.obstacle.add("its tools are separate containers");
    }
    let text = |settings: &Map<String, Value>, key: &str| {
        settings.get(key).and_then(Value::as_str).map(str::to_owned)
    };
    if let Some(remote) = settings.get("remote").and_then(Value::as_object).cloned() {
        settings.remove("remote");
        for (key, value) in remote {
            match key.as_str() {
                "transport_type" => {
                    settings.insert("transport".to_owned(), value);
                }
                "url" | "headers" => {
                    settings.insert(key, value);
                }
                _ => {
                    let reason = "it is not translated".to_owned();
                    described.parts.push((format!("remote.{key}"), reason));
                }
            }
        }
    }
    if let Some(endpoint) = settings.remove("sseEndpoint") {
        settings.insert("url".to_owned(), endpoint);
        settings.insert("transport".to_owned(), json!("sse"));
    }
    let Some(image) = text(settings, "image") else { return described };
    settings.remove("image");
    for key in ["command", "env", "secrets", "volumes", "extraHosts"] {
        if settings.get(key).is_some_and(|value| !value.is_array() && !value.is_null()) {
            described.parts.push((key.to_owned(), "it is not a list".to_owned()));
            described.obstacle.add(format!("its `{key}` is not a list"));
        }
    }
    let mut args = vec!["run".to_owned(), "-i".to_owned(), "--rm".to_owned()];
    let mut env = Map::new();
    let list = |key: &str| settings.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    for secret in list("secrets") {
        if let Some(name) = secret.get("env").and_then(Value::as_str) {
            env.insert(name.to_owned(), json!(format!("${{env:{name}}}")));
        }
    }
    for variable in list("env") {
        if let (Some(name), Some(value)) =
            (variable.get("name").and_then(Value::as_str), variable.get("value"))
        {
            env.insert(name.to_owned(), value.clone());
        }
    }
    for name in env.keys() {
        args.extend(["-e".to_owned(), name.clone()]);
    }
    let volumes = texts(settings.get("volumes"));
    args.extend(volumes.into_iter().flat_map(|volume| ["-v".to_owned(), volume]));
    let hosts = texts(settings.get("extraHosts"));
    args.extend(hosts.into_iter().flat_map(|host| ["--add-host".to_owned(), host]));
    if let Some(user) = text(settings, "user") {
        args.extend(["--user".to_owned(), user]);
    }
    if settings.get("disableNetwork").is_some_and(|value| !is_off(value)) {
        args.extend(["--network".to_owned(), "none".to_owned()]);
    }
    args.push(image);
    args.extend(texts(settings.get("command")));
    let values = env.values().filter_map(Value::as_str);
    if args.iter().map(String::as_str).chain(values).any(|text| text.contains("{{")) {
        described.obstacle.add("it uses a setting of Docker's MCP gateway; write its value");
    }
    for key in ["secrets", "volumes", "extraHosts", "user", "disableNetwork"] {
        settings.remove(key);
    }
    settings.insert("command".to_owned(), json!("docker"));
    settings.insert("args".to_owned(), json!(args));
    settings.insert("env".to_owned(), Value::Object(env));
    described
}
