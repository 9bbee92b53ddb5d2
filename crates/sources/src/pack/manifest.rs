//! `pack.json`: the node-pack manifest of OpenWOP, v1 and v2.
//!
//! Unknown members are ignored, as the protocol requires; all known members are checked.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::error::{PackCode, PackError};

/// The path of the manifest in a pack.
pub(super) const MANIFEST: &str = "pack.json";
/// Largest size of a manifest, in bytes.
const MAX_MANIFEST: usize = 1 << 20;
/// Largest number of nodes in a pack.
const MAX_NODES: usize = 1_000;
/// Valid first segments of pack names.
const SCOPES: [&str; 5] = ["core", "vendor", "community", "private", "local"];

/// A validated manifest.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) name: String,
    /// A semantic version.
    pub(crate) version: String,
    pub(crate) description: Option<String>,
    engines: Engines,
    #[serde(default)]
    peer_dependencies: BTreeMap<String, Value>,
    #[serde(default)]
    peer_dependencies_meta: BTreeMap<String, PeerMeta>,
    pub(crate) runtime: Runtime,
    #[serde(default)]
    pub(crate) nodes: Vec<Node>,
    signing: Option<Signing>,
    /// RFC 0045: makes the pack a connector. Its actions are nodes of this pack.
    pub(crate) connector: Option<Connector>,
    /// `sha256-…` of files by their paths.
    #[serde(default, rename = "x-toolcrib-files")]
    pub(super) hashes: BTreeMap<String, String>,
}

/// The engine of the nodes.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Runtime {
    pub(crate) language: String,
    pub(crate) entry: String,
    #[serde(default)]
    pub(super) requires: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) type_id: String,
    pub(crate) version: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) role: Option<String>,
    #[serde(default)]
    pub(crate) capabilities: Vec<String>,
    pub(super) input_schema_ref: Option<String>,
    pub(super) output_schema_ref: Option<String>,
    #[serde(default)]
    pub(super) requires: Vec<String>,
    #[serde(default)]
    pub(super) requires_secrets: Vec<Value>,
    #[serde(default)]
    pub(super) required_credentials: Vec<Value>,
    pub(super) mcp: Option<McpName>,
    /// The node is this request and has no code.
    #[serde(rename = "x-toolcrib-request")]
    pub(crate) request: Option<Value>,
}

/// The node's name among the tools of an MCP server.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct McpName {
    pub(super) tool_name: Option<String>,
}

/// The connector block (RFC 0045).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Connector {
    pub(crate) id: String,
    pub(crate) display_name: String,
    #[serde(default)]
    pub(crate) auth: Value,
    pub(crate) actions: Vec<Action>,
}

/// One action of a connector: a node under another name.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Action {
    pub(crate) type_id: String,
    pub(crate) display_name: String,
    #[serde(default)]
    pub(crate) idempotent: bool,
    pub(crate) rate_limit: Option<RateLimit>,
    #[serde(default)]
    pub(crate) paginated: bool,
}

/// A number of calls per time interval.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RateLimit {
    pub(crate) requests: u32,
    pub(crate) per_seconds: u32,
}

#[derive(Debug, Clone, Deserialize)]
struct Engines {
    openwop: String,
}

#[derive(Debug, Clone, Deserialize)]
struct PeerMeta {
    #[serde(default)]
    optional: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signing {
    signature_ref: Option<String>,
}

// === impl Manifest ===

impl Manifest {
    /// Parses and validates the document.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, PackError> {
        if bytes.len() > MAX_MANIFEST {
            return PackCode::InvalidManifest.refuse("pack.json is larger than 1 MiB");
        }
        // Checked first, because the errors for another kind would only list missing members.
        let kind: Kind = serde_json::from_slice(bytes).map_err(|error| broken(&error))?;
        if kind.kind.is_some_and(|kind| kind != "node") {
            return PackCode::KindInvalid.refuse("only packs of kind \"node\" have nodes to call");
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| broken(&error))?;
        check_name(&manifest.name)?;
        if semver::Version::parse(&manifest.version).is_err() {
            return PackCode::InvalidManifest.refuse("`version` is not a semantic version");
        }
        manifest.check_nodes()?;
        manifest.check_actions()?;
        Ok(manifest)
    }

    /// The supported range of protocol versions.
    pub(super) fn engine(&self) -> &str {
        &self.engines.openwop
    }

    /// Returns the capabilities that the pack requires of this host.
    pub(super) fn required_peers(&self) -> impl Iterator<Item = &str> {
        let optional =
            |name: &str| self.peer_dependencies_meta.get(name).is_some_and(|meta| meta.optional);
        self.peer_dependencies.keys().map(String::as_str).filter(move |name| !optional(name))
    }

    pub(super) fn signature_ref(&self) -> Option<&str> {
        self.signing.as_ref()?.signature_ref.as_deref()
    }

    fn check_nodes(&self) -> Result<(), PackError> {
        if self.nodes.is_empty() || self.nodes.len() > MAX_NODES {
            return PackCode::InvalidManifest.refuse(format!("expected 1 to {MAX_NODES} nodes"));
        }
        let mut seen = BTreeSet::new();
        for node in &self.nodes {
            if !is_type_id(&node.type_id) {
                return PackCode::InvalidManifest
                    .refuse("a `typeId` is not of the form [a-z][a-zA-Z0-9._-]*");
            }
            if !seen.insert(&node.type_id) {
                return PackCode::InvalidManifest
                    .refuse(format!("the node `{}` is listed twice", node.type_id));
            }
        }
        Ok(())
    }

    /// RFC 0045: rejects an action without a node.
    fn check_actions(&self) -> Result<(), PackError> {
        let Some(connector) = &self.connector else { return Ok(()) };
        let id = connector.id.as_bytes();
        let legal = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(b);
        if !id.first().is_some_and(u8::is_ascii_lowercase) || !id.iter().all(legal) {
            return PackCode::InvalidManifest
                .refuse("`connector.id` is not of the form [a-z][a-z0-9.-]*");
        }
        let nodes: BTreeSet<&str> = self.nodes.iter().map(|node| node.type_id.as_str()).collect();
        for action in &connector.actions {
            if !nodes.contains(action.type_id.as_str()) {
                return PackCode::ActionUnresolved.refuse(
                    "an action of the connector names a `typeId` without a node in the pack",
                );
            }
            let sound = |rate: RateLimit| rate.requests > 0 && rate.per_seconds > 0;
            if !action.rate_limit.is_none_or(sound) {
                return PackCode::InvalidManifest.refuse("a `rateLimit` is zero");
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// Reports the position only: the text of the pack is not repeated.
fn broken(error: &serde_json::Error) -> PackError {
    let (line, column) = (error.line(), error.column());
    let problem = match error.classify() {
        serde_json::error::Category::Data => "a member is missing or of the wrong type",
        _ => "not JSON",
    };
    PackCode::InvalidManifest.error(format!("pack.json, line {line}, column {column}: {problem}"))
}

/// Requires the form `scope.segment[.segment]…`.
fn check_name(name: &str) -> Result<(), PackError> {
    let mut segments = name.split('.');
    if !segments.next().is_some_and(|scope| SCOPES.contains(&scope)) {
        return PackCode::InvalidScope.refuse(format!(
            "the name of the pack must start with one of {}",
            SCOPES.map(|scope| format!("`{scope}.`")).join(", ")
        ));
    }
    let rest: Vec<&str> = segments.collect();
    let legal = |segment: &&str| {
        segment.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
            && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    match !rest.is_empty() && rest.iter().all(legal) && name.len() <= 128 {
        true => Ok(()),
        false => PackCode::InvalidManifest
            .refuse("`name` is not segments of [a-z][a-zA-Z0-9_-]* with dots between them"),
    }
}

fn is_type_id(text: &str) -> bool {
    text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && text.len() <= 160
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest() -> Value {
        json!({
            "name": "vendor.acme.text", "version": "1.2.3", "kind": "node",
            "engines": { "openwop": ">=1.0.0 <2.0.0" },
            "runtime": { "language": "wasm", "entry": "a.wasm", "format": "wasm" },
            "nodes": [
                { "typeId": "vendor.acme.text.count", "version": "1.0.0", "category": "data",
                  "role": "pure", "unknown": 1 },
            ],
            "x-anything": true,
        })
    }

    fn with(pointer: &str, value: Value) -> Result<Manifest, PackError> {
        let mut document = manifest();
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[member] = value;
        Manifest::parse(document.to_string().as_bytes())
    }

    #[test]
    fn a_manifest_is_read_and_what_breaks_the_rules_is_refused() {
        use PackCode::{ActionUnresolved, InvalidManifest, InvalidScope, KindInvalid};
        let good = with("/description", json!("d")).unwrap();
        assert_eq!((good.name.as_str(), good.nodes.len()), ("vendor.acme.text", 1));
        let node = |id: &str| json!([{ "typeId": id }]);
        let connector = |id: &str, action: &str| {
            json!({ "id": id, "displayName": "A", "auth": {},
                    "actions": [{ "typeId": action, "displayName": "a" }] })
        };
        for (pointer, value, code) in [
            ("/name", json!("acme.text"), InvalidScope),
            ("/name", json!("vendor"), InvalidManifest),
            ("/name", json!("vendor.Acme"), InvalidManifest),
            ("/name", json!("vendor.acme/../x"), InvalidManifest),
            ("/version", json!("1.2"), InvalidManifest),
            ("/kind", json!("prompt"), KindInvalid),
            ("/runtime", json!({}), InvalidManifest),
            ("/engines", json!({}), InvalidManifest),
            ("/nodes", json!([]), InvalidManifest),
            ("/nodes", node("A.b"), InvalidManifest),
            ("/nodes", node("a b"), InvalidManifest),
            ("/nodes", json!([{ "typeId": "a" }, { "typeId": "a" }]), InvalidManifest),
            ("/connector", connector("acme", "vendor.acme.text.other"), ActionUnresolved),
            ("/connector", connector("Acme", "vendor.acme.text.count"), InvalidManifest),
        ] {
            let error = with(pointer, value.clone()).err().map(|error| error.code);
            assert_eq!(error, Some(code), "{pointer} {value}");
        }
        let sound = with("/connector", connector("acme.v2", "vendor.acme.text.count")).unwrap();
        assert_eq!(sound.connector.unwrap().actions.len(), 1);
        let error = Manifest::parse(b"{\"name\": \"secret\"").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
