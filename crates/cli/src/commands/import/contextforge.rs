//! Reads an export of ContextForge (`mcpgateway export`).
//!
//! Invariant: encrypted values are not copied; a credential becomes a variable to set.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    described::Obstacle,
    secrets::shown,
    servers::{ImportContent, Reader, SSE, Upstream},
};

/// The value of an unknown credential, which distinguishes it from others. It is never written.
const SEALED: &str = "?sealed";

/// The most tools of a virtual server that a note names.
const MOST_SHOWN: usize = 20;

/// Members of a gateway that describe it, or are made by ContextForge.
const DESCRIPTIVE: &[&str] = &[
    "capabilities",
    "created_at",
    "description",
    "federation_enabled",
    "health_check",
    "id",
    "last_seen",
    "reachable",
    "slug",
    "tags",
    "updated_at",
    "version",
];

/// `None` if `document` is not an export.
pub(super) fn read(document: &Value) -> Option<ImportContent> {
    let entities = document.get("entities")?.as_object()?;
    document.get("exported_at").or_else(|| document.get("version"))?;
    let mut reader = Reader::default();
    for (kind, list) in entities {
        let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
        match kind.as_str() {
            "gateways" => list.iter().for_each(|gateway| add(gateway, &mut reader)),
            "tools" => list.iter().for_each(|tool| note_tool(tool, &mut reader)),
            "servers" => list.iter().for_each(|server| note_server(server, &mut reader)),
            _ if list.is_empty() => {}
            "prompts" | "resources" | "roots" => {
                let reason =
                    format!("{} are not translated; toolcrib serves tools only", list.len());
                reader.part(format!("entities.{kind}"), reason);
            }
            _ => reader.part(format!("entities.{kind}"), "it is not translated"),
        }
    }
    let about = document.as_object().into_iter().flat_map(Map::keys);
    let about: Vec<_> = about.filter(|key| *key != "entities").map(String::as_str).collect();
    if !about.is_empty() {
        reader.part(about.join(", "), "it only describes the export");
    }
    Some(reader.imported)
}

fn add(gateway: &Value, reader: &mut Reader) {
    let text = |key: &str| gateway.get(key).and_then(Value::as_str);
    let name = text("name").unwrap_or("gateway");
    let id = reader.id(name);
    let place = format!("entities.gateways.{name}");
    let mut obstacle = Obstacle::default();
    let known = [
        "name",
        "url",
        "transport",
        "is_active",
        "enabled",
        "auth_type",
        "auth_value",
        "passthrough_headers",
        "visibility",
        "team_id",
        "owner_email",
        "team",
    ];
    let is_descriptive = |key: &&String| DESCRIPTIVE.contains(&key.as_str());
    let descriptive: Vec<_> = gateway.as_object().into_iter().flat_map(Map::keys).collect();
    let descriptive: Vec<_> = descriptive.into_iter().filter(is_descriptive).cloned().collect();
    if !descriptive.is_empty() {
        let reason = "it only describes the gateway";
        reader.part(format!("{place}.{}", descriptive.join(", ")), reason);
    }
    for (key, value) in gateway.as_object().into_iter().flatten() {
        let key = key.as_str();
        let is_empty = value.is_null() || *value == Value::Array(Vec::new());
        match key {
            _ if is_empty || DESCRIPTIVE.contains(&key) => {}
            "passthrough_headers" => {
                reader.part(format!("{place}.{key}"), "headers of callers are not forwarded");
            }
            "visibility" | "team_id" | "team" | "owner_email" => {
                let reason = "only callers with the scope `tools:SOURCE` see the tools; use `tenants` \
                              for teams that must not know of each other";
                reader.part(format!("{place}.{key}"), reason);
            }
            _ if known.contains(&key) => {}
            _ => {
                reader.part(format!("{place}.{key}"), "it is not translated");
                obstacle.add(format!("its member `{key}` is not translated"));
            }
        }
    }
    if ["is_active", "enabled"].iter().any(|key| gateway.get(key) == Some(&Value::Bool(false))) {
        obstacle.add("it is switched off in ContextForge");
    }
    let transport = text("transport").unwrap_or_default().to_ascii_uppercase();
    match transport.as_str() {
        "STREAMABLEHTTP" | "STREAMABLE_HTTP" | "HTTP" => {}
        "SSE" => obstacle.add(SSE),
        _ => {
            let transport = shown(&transport);
            obstacle.add(format!("its transport is `{transport}`; use its streamable HTTP address"))
        }
    }
    let url = text("url").unwrap_or_default();
    let mut upstream = reader.url(&id, url, &Map::new(), &mut obstacle);
    let header = match text("auth_type").unwrap_or_default() {
        "" | "none" => None,
        "bearer" => Some(("Authorization", "`Bearer ` and the token that ContextForge uses")),
        "basic" => Some(("Authorization", "`Basic ` and Base64 of `USER:PASSWORD`")),
        other => {
            let other = shown(other);
            obstacle.add(format!(
                "its `auth_type` is `{other}`, and the values are encrypted; write `headers`, or store \
                 a credential with `toolcrib credentials set`"
            ));
            None
        }
    };
    if let (Some((name, about)), Upstream::Url { headers, .. }) = (header, &mut upstream) {
        let setting = reader.secret(&id, name, about, &format!("{SEALED} {id}"));
        headers.push((name.to_owned(), setting));
    }
    reader.add(name, id, upstream, Vec::new(), obstacle);
}

fn note_tool(tool: &Value, reader: &mut Reader) {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
    let (name, kind) = (text("name"), text("integration_type"));
    let reason = match kind {
        "REST" => {
            "a REST tool; describe its service in an OpenAPI document, and add a source of kind \
             `connector`"
                .to_owned()
        }
        "MCP" => "it belongs to a gateway, whose source lists it".to_owned(),
        other => format!("tools of type `{}` have no equivalent", shown(other)),
    };
    reader.part(format!("entities.tools.{name}"), reason);
}

/// Notes a virtual server. The export names its tools by ids, or by slugs from which the names of tools
/// cannot be derived.
fn note_server(server: &Value, reader: &mut Reader) {
    let name = server.get("name").and_then(Value::as_str).unwrap_or_default();
    let tools: BTreeSet<&str> = ["tool_ids", "associated_tools"]
        .iter()
        .filter_map(|key| server.get(key)?.as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let shown: Vec<&str> = tools.iter().take(MOST_SHOWN).copied().collect();
    let more = if tools.len() > MOST_SHOWN { ", …" } else { "" };
    let reason = format!(
        "a virtual server; write `[toolset.NAME]` with `allow` for its tools, which is served at \
         /mcp/NAME. The export calls them {}{more}",
        shown.join(", ")
    );
    reader.part(format!("entities.servers.{name}"), reason);
}
