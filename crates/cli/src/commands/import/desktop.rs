//! Reads the files of desktop clients: `mcpServers`, `servers` and `projects`.
//!
//! Invariant: a server that the file switches off anywhere is not in force.
//! Invariant: every other setting is named, unless it is translated.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    described::{ClientFile, DescribedServer, Part},
    restrictions::{Meaning, denied_globs, folded, hiding, is_off, meaning, names, own_tool},
};

/// The most other settings that a note names.
const MOST_NAMED: usize = 40;

/// The servers of `document`, unchanged; `None` if it has no member for servers.
pub(super) fn described(document: &Value) -> Option<ClientFile> {
    let root = document.as_object()?;
    let mut tables = Vec::new();
    for (key, value) in root {
        match (key.as_str(), value) {
            ("mcp", Value::Object(inner)) => {
                tables.extend(["servers", "mcpServers"].iter().filter_map(|key| inner.get(*key)));
            }
            (key, table) if is_table_name(key) => tables.push(table),
            _ => {}
        }
    }
    // Claude Code keeps servers for each project too.
    let projects = root.get("projects").and_then(Value::as_object);
    let projects: Vec<_> = projects.into_iter().flatten().collect();
    tables.extend(projects.iter().filter_map(|(_, project)| project.get("mcpServers")));
    let tables: Vec<_> = tables.into_iter().filter_map(Value::as_object).collect();
    if tables.is_empty() {
        return None;
    }
    let servers = tables.into_iter().flatten();
    let servers =
        servers.map(|(name, settings)| DescribedServer::new(name, settings.clone())).collect();
    let mut file = ClientFile { servers, parts: Vec::new() };
    other_settings(root, &[], "", &mut file);
    if let Some(inner) = root.get("mcp").and_then(Value::as_object) {
        other_settings(inner, &[], "mcp.", &mut file);
    }
    for (name, project) in projects {
        let Some(project) = project.as_object() else { continue };
        other_settings(project, &[], &format!("projects.{name}."), &mut file);
    }
    Some(file)
}

fn is_table_name(key: &str) -> bool {
    matches!(key, "mcpServers" | "servers" | "mcp.servers") || key.ends_with(".mcpServers")
}

/// Applies the settings of `owner` that restrict servers or tools, and names the others. Leaves out
/// tables of servers and the keys in `read`.
pub(super) fn other_settings(
    owner: &Map<String, Value>,
    read: &[&str],
    place: &str,
    file: &mut ClientFile,
) {
    let mut others = Vec::new();
    for (key, value) in owner {
        let is_inner =
            matches!(value, Value::Object(_)) && matches!(key.as_str(), "mcp" | "projects");
        if read.contains(&key.as_str())
            || is_table_name(key)
            || is_inner
            || key == "inputs"
            || key == "$schema"
        {
            continue;
        }
        if !restrict(key, value, place, file) {
            others.push(key.as_str());
        }
    }
    if others.is_empty() {
        return;
    }
    let named = others.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = match others.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let reason = "not a translated setting of MCP servers";
    file.parts.push(Part::new(format!("{place}{named}{more}"), reason));
}

/// Applies a setting that restricts servers or tools; `false` if it is another setting.
fn restrict(key: &str, value: &Value, place: &str, file: &mut ClientFile) -> bool {
    let name = folded(key);
    let in_mcp = place == "mcp.";
    match name.as_str() {
        "blockedmcpservers"
        | "deniedmcpservers"
        | "disabledmcpjsonservers"
        | "disabledmcpservers"
        | "disabledservers"
        | "excludedmcpservers"
        | "excludemcpservers" => {
            switch_off(key, value, place, file);
        }
        "excluded" | "disabled" if in_mcp => switch_off(key, value, place, file),
        "allowedmcpservers" | "allowmcpservers" | "enabledmcpservers" | "enabledservers" => {
            limit_to(key, value, place, file);
        }
        "allowed" | "enabled" if in_mcp => limit_to(key, value, place, file),
        "permissions" => {
            let denied = value.get("deny").unwrap_or(&Value::Null);
            hide(&format!("{key}.deny"), denied, place, file, false);
            let others = value.as_object().into_iter().flat_map(Map::keys);
            for other in others.filter(|other| *other != "deny") {
                let part = format!("{place}{key}.{other}");
                file.parts.push(Part::new(part, "clients request consent themselves"));
            }
        }
        "tools" if value.is_object() => {
            for (inner, value) in value.as_object().into_iter().flatten() {
                let part = format!("{key}.{inner}");
                match folded(inner).as_str() {
                    "exclude" | "excluded" | "disabled" | "deny" => {
                        hide(&part, value, place, file, true);
                    }
                    _ => file.parts.push(Part::new(
                        format!("{place}{part}"),
                        "it is about the client's own tools",
                    )),
                }
            }
        }
        _ => match meaning(key) {
            Meaning::Denied => hide(key, value, place, file, true),
            // A project's list has the calls that need no consent.
            Meaning::Allowed if place.is_empty() && !is_off(value) => {
                let reason =
                    format!("`{key}` of the file limits the tools; write rules with `hide`");
                file.parts.push(Part::new(key, "it is not translated"));
                file.each(|server| server.obstacle.add(reason.clone()));
            }
            _ => return false,
        },
    }
    true
}

/// Switches the listed servers off.
fn switch_off(key: &str, value: &Value, place: &str, file: &mut ClientFile) {
    let (listed, is_complete) = servers(value);
    let why = format!("it is disabled in the client (`{place}{key}`)");
    file.each(|server| {
        if listed.contains(&server.name) || !is_complete {
            server.obstacle.add(why.clone());
        }
    });
    if !is_off(value) {
        let reason = match is_complete {
            true => "its servers are comments",
            false => "it does not name its servers, so all of them are comments",
        };
        file.parts.push(Part::new(format!("{place}{key}"), reason));
    }
}

/// Switches all servers off but the listed ones.
fn limit_to(key: &str, value: &Value, place: &str, file: &mut ClientFile) {
    if value.is_null() {
        return;
    }
    let (listed, _) = servers(value);
    let why = format!("`{place}{key}` does not name it");
    file.each(|server| {
        if !listed.contains(&server.name) {
            server.obstacle.add(why.clone());
        }
    });
    file.parts.push(Part::new(format!("{place}{key}"), "all other servers are comments"));
}

/// The names of servers in a list, and whether each entry has one.
fn servers(value: &Value) -> (BTreeSet<String>, bool) {
    let name = |value: &Value| {
        let name = value.get("serverName").or(value.get("name")).unwrap_or(value);
        name.as_str().map(str::to_owned)
    };
    let named: Vec<_> = match value {
        Value::Array(list) => list.iter().map(name).collect(),
        Value::Null | Value::Bool(false) => Vec::new(),
        Value::String(_) => vec![name(value)],
        Value::Object(table) => {
            let on = table.iter().filter(|(_, value)| !is_off(value));
            on.map(|(name, _)| Some(name.clone())).collect()
        }
        _ => vec![None],
    };
    let is_complete = named.iter().all(Option::is_some);
    (named.into_iter().flatten().collect(), is_complete)
}

/// Hides tools that the file denies. Names without a server count for all if `is_plain`.
fn hide(key: &str, value: &Value, place: &str, file: &mut ClientFile, is_plain: bool) {
    let why = format!("`{place}{key}` is no list of names");
    let listed = names(value);
    file.each(|server| match &listed {
        None => server.obstacle.add(why.clone()),
        Some(listed) => {
            let globs = listed.iter().flat_map(|name| match is_plain {
                true => denied_globs(&server.name, name),
                false => own_tool(&server.name, name)
                    .map(|tool| denied_globs(&server.name, tool))
                    .unwrap_or_default(),
            });
            server.rules.extend(hiding(None, globs.collect()));
        }
    });
    if !is_off(value) {
        let reason = "it became rules with `hide` where it names tools of a server";
        file.parts.push(Part::new(format!("{place}{key}"), reason));
    }
}
