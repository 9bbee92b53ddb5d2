//! Dependency rules of the architecture against cargo's resolution, and rules for manifests.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cargo::cargo;
use crate::shell;
use crate::tidy::structure::PRODUCT;
use crate::tidy::tree::Tree;

/// Members that a member may depend on, tests aside.
const ALLOWED: &[(&str, &[&str])] = &[
    ("toolcrib-core", &[]),
    ("toolcrib-mcp", &[]),
    ("toolcrib-oauth", &["toolcrib-core"]),
    ("toolcrib-tasks", &[]),
    ("toolcrib-store", &["toolcrib-core", "toolcrib-tasks"]),
    ("toolcrib-sources", &["toolcrib-core", "toolcrib-mcp", "toolcrib-oauth", "toolcrib-tasks"]),
    ("toolcrib-config", &["toolcrib-core", "toolcrib-oauth"]),
    ("toolcrib-gateway", &["toolcrib-config", "toolcrib-core", "toolcrib-oauth", "toolcrib-tasks"]),
    (
        "toolcrib-server",
        &["toolcrib-config", "toolcrib-core", "toolcrib-gateway", "toolcrib-mcp", "toolcrib-tasks"],
    ),
    ("toolcrib-client", &["toolcrib-core"]),
    ("toolcrib-conformance", &["toolcrib-core"]),
    ("toolcrib-telemetry", &["toolcrib-core"]),
    (
        "toolcrib",
        &[
            "toolcrib-server",
            "toolcrib-client",
            "toolcrib-config",
            "toolcrib-conformance",
            "toolcrib-core",
            "toolcrib-gateway",
            "toolcrib-mcp",
            "toolcrib-sources",
            "toolcrib-store",
            "toolcrib-tasks",
            "toolcrib-telemetry",
        ],
    ),
];

/// Crates that only some members may depend on directly, and why.
const CONFINED: &[(&str, &[&str], &str)] = &[
    ("rusqlite", &["toolcrib-store"], "I-2"),
    (
        "reqwest",
        &[
            "toolcrib-sources",
            "toolcrib-client",
            "toolcrib-conformance",
            "toolcrib-telemetry",
            "toolcrib",
        ],
        "I-2",
    ),
    ("process-wrap", &["toolcrib-sources"], "I-2"),
    // The broken hosts of `toolcrib-conformance`, which only tests enable, use axum.
    ("axum", &["toolcrib-server", "toolcrib", "toolcrib-conformance"], "I-2"),
    ("rmcp", &[], "I-5"),
];

/// Crates that must not be dependencies, not even indirect ones.
const NEVER: &[(&str, &[&str], &str)] = &[
    (
        "toolcrib-core",
        &["tokio", "rand", "uuid", "hyper", "reqwest", "axum", "rusqlite", "rustix"],
        "I-1",
    ),
    ("toolcrib-gateway", &["toolcrib-store", "toolcrib-sources", "rusqlite", "axum"], "I-3"),
];
const NEVER_IN_PRODUCT: &[&str] = &["toolcrib-testkit", "rmcp"];

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: ResolveGraph,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    license: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ResolveGraph {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// Names and, per crate, its dependencies outside tests.
struct Graph {
    names: BTreeMap<String, String>,
    edges: BTreeMap<String, Vec<String>>,
    members: BTreeSet<String>,
}

/// I-1, I-2, I-3, I-5 in the dependency graph.
pub(crate) fn dependencies(_: &Tree) -> Result<Vec<String>> {
    let graph = Graph::of(metadata()?);
    let mut findings = Vec::new();
    for (member, allowed) in ALLOWED {
        let direct = graph.direct(member).with_context(|| format!("no member {member}"))?;
        for name in direct {
            if graph.is_member(name) && !allowed.contains(&name) {
                findings.push(format!("{member} must not depend on {name}"));
            }
            for (confined, places, why) in CONFINED {
                if name == *confined && !places.contains(member) {
                    findings.push(format!("{member} must not depend on {name} ({why})"));
                }
            }
        }
        let reached = graph.reached(member);
        let never = NEVER.iter().filter(|(name, ..)| name == member);
        for (name, why) in never.flat_map(|(_, names, why)| names.iter().map(move |n| (n, why))) {
            if reached.contains(name) {
                findings.push(format!("{member} reaches {name} ({why})"));
            }
        }
        for name in NEVER_IN_PRODUCT.iter().filter(|name| reached.contains(*name)) {
            findings.push(format!("{member} reaches {name} (I-5)"));
        }
    }
    Ok(findings)
}

/// Every member takes its lints from the workspace and names its licence. `fuzz` and the packs are
/// separate workspaces, without either.
pub(crate) fn manifests(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let own = |path: &str| path.starts_with("fuzz/") || path.starts_with("packs/");
    let member = |path: &str| path.ends_with("/Cargo.toml") && !own(path);
    for file in tree.files().filter(|file| member(&file.path)) {
        if !file.text.contains("[lints]\nworkspace = true") {
            findings.push(format!("{}: `[lints] workspace = true` is missing", file.path));
        }
        if !file.text.contains("\nlicense.workspace = true\n") {
            findings.push(format!("{}: `license.workspace = true` is missing", file.path));
        }
    }
    let without = |package: &&Package| package.license.is_none();
    for package in metadata()?.packages.iter().filter(without) {
        findings.push(format!("the dependency {} names no licence", package.name));
    }
    for member in PRODUCT {
        if tree.get(&format!("crates/{member}/Cargo.toml")).is_none() {
            findings.push(format!("crates/{member} is gone: adapt the rules of this task"));
        }
    }
    Ok(findings)
}

fn metadata() -> Result<Metadata> {
    let text = shell::output(&mut cargo(&["metadata", "--format-version", "1", "--locked"]))?;
    serde_json::from_str(&text).context("cargo metadata")
}

// === impl Graph ===

impl Graph {
    fn of(metadata: Metadata) -> Self {
        let names: BTreeMap<String, String> =
            metadata.packages.into_iter().map(|package| (package.id, package.name)).collect();
        // Development dependencies do not count; dependencies of build scripts do.
        let counts =
            |edge: &Edge| edge.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"));
        let edges = metadata.resolve.nodes.into_iter().map(|node| {
            let reached = node.deps.into_iter().filter(counts).map(|edge| edge.pkg);
            (node.id, reached.collect())
        });
        let edges = edges.collect();
        let member = |id: &String| names.get(id).cloned();
        let members = metadata.workspace_members.iter().filter_map(member).collect();
        Self { names, edges, members }
    }

    fn is_member(&self, name: &str) -> bool {
        self.members.contains(name)
    }

    fn id_of(&self, member: &str) -> Option<&str> {
        let is_it = |(_, name): &(&String, &String)| *name == member;
        self.names.iter().find(is_it).map(|(id, _)| id.as_str())
    }

    fn direct(&self, member: &str) -> Option<Vec<&str>> {
        let edges = self.edges.get(self.id_of(member)?)?;
        Some(edges.iter().filter_map(|id| self.names.get(id).map(String::as_str)).collect())
    }

    fn reached(&self, member: &str) -> BTreeSet<&str> {
        let mut open: Vec<&str> = self.id_of(member).into_iter().collect();
        let mut seen: BTreeSet<&str> = open.iter().copied().collect();
        while let Some(id) = open.pop() {
            for next in self.edges.get(id).into_iter().flatten() {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen.iter().filter_map(|id| self.names.get(*id).map(String::as_str)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_follows_product_edges_only() {
        // I-5: a development dependency is not part of the product.
        let metadata: Metadata = serde_json::from_str(
            r#"{
              "packages": [
                {"id": "a#1", "name": "a", "license": "MIT"},
                {"id": "b#1", "name": "b", "license": "MIT"},
                {"id": "c#1", "name": "c", "license": null},
                {"id": "d#1", "name": "d", "license": "MIT"}
              ],
              "workspace_members": ["a#1"],
              "resolve": {"nodes": [
                {"id": "a#1", "deps": [
                  {"pkg": "b#1", "dep_kinds": [{"kind": null}]},
                  {"pkg": "d#1", "dep_kinds": [{"kind": "dev"}]}
                ]},
                {"id": "b#1", "deps": [{"pkg": "c#1", "dep_kinds": [{"kind": "build"}]}]},
                {"id": "c#1", "deps": []},
                {"id": "d#1", "deps": []}
              ]}
            }"#,
        )
        .unwrap();
        let graph = Graph::of(metadata);
        assert_eq!(graph.direct("a"), Some(vec!["b"]));
        assert_eq!(graph.reached("a"), BTreeSet::from(["a", "b", "c"]));
        assert!(graph.is_member("a") && !graph.is_member("b"));
    }
}
