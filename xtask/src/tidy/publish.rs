//! The crates that are published: their metadata, and files from outside of their folders.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::cargo::cargo;
use crate::tidy::source::Source;
use crate::tidy::structure::PRODUCT;
use crate::tidy::tree::Tree;
use crate::{paths, shell};

#[derive(Debug, Deserialize)]
struct Workspace {
    packages: Vec<Package>,
}

/// A crate of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    version: String,
    /// An empty list for an unpublished crate.
    publish: Option<Vec<String>>,
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    readme: Option<String>,
    rust_version: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    features: BTreeMap<String, Value>,
    metadata: Value,
    dependencies: Vec<Dependency>,
    manifest_path: String,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    kind: Option<String>,
    /// The folder of a crate of this workspace.
    path: Option<String>,
}

pub(crate) fn packages() -> Result<Vec<Package>> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--locked"];
    let text = shell::output(&mut cargo(&arguments))?;
    let workspace: Workspace = serde_json::from_str(&text).context("cargo metadata")?;
    Ok(workspace.packages)
}

/// Crates that cannot be published as they are.
pub(crate) fn ready(_: &Tree) -> Result<Vec<String>> {
    let packages = packages()?;
    let mut findings = mistakes(&packages);
    let root = paths::root();
    let published = packages.iter().filter(|package| package.is_published());
    let published: BTreeSet<String> =
        published.map(|package| package.folder(&root.to_string_lossy())).collect();
    for folder in &published {
        for file in ["README.md", "LICENSE"] {
            if !root.join(folder).join(file).is_file() {
                findings.push(format!("{folder}: there is no {file}"));
            }
        }
    }
    let product: BTreeSet<String> = PRODUCT.iter().map(|name| format!("crates/{name}")).collect();
    for folder in published.symmetric_difference(&product) {
        findings.push(format!("{folder}: the crates of the product are published, and no others"));
    }
    Ok(findings)
}

fn mistakes(packages: &[Package]) -> Vec<String> {
    let private: BTreeSet<&str> = packages
        .iter()
        .filter(|package| !package.is_published())
        .map(|package| package.name.as_str())
        .collect();
    let published = packages.iter().filter(|package| package.is_published());
    let found = published.flat_map(|package| {
        package.mistakes(&private).into_iter().map(|mistake| format!("{}: {mistake}", package.name))
    });
    found.collect()
}

impl Package {
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// The folder, from the root of the tree.
    fn folder(&self, root: &str) -> String {
        let path = self.manifest_path.trim_start_matches(root).trim_start_matches('/');
        path.trim_end_matches("/Cargo.toml").to_owned()
    }

    fn mistakes(&self, private: &BTreeSet<&str>) -> Vec<String> {
        let mut found = Vec::new();
        let texts = [
            ("description", &self.description),
            ("license", &self.license),
            ("repository", &self.repository),
            ("readme", &self.readme),
            ("rust-version", &self.rust_version),
        ];
        for (key, text) in texts {
            match text.as_deref() {
                None | Some("") => found.push(format!("`{key}` is missing")),
                Some(text) if text.contains("example.") => {
                    found.push(format!("`{key}` is a placeholder"));
                }
                Some(_) => {}
            }
        }
        // The limits of the registry.
        let is_word = |word: &String| {
            word.len() <= 20
                && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_+".contains(&b))
        };
        if !(1..=5).contains(&self.keywords.len()) || !self.keywords.iter().all(is_word) {
            found.push("`keywords` has 1 to 5 words of at most 20 letters and digits".to_owned());
        }
        if !(1..=5).contains(&self.categories.len()) {
            found.push("`categories` has 1 to 5 entries".to_owned());
        }
        if !self.features.is_empty() && self.metadata.pointer("/docs/rs").is_none() {
            found.push("`[package.metadata.docs.rs]` does not say with which features".to_owned());
        }
        for dependency in self.dependencies.iter().filter(|dependency| dependency.path.is_some()) {
            let Dependency { name, req, kind, .. } = dependency;
            let is_private = private.contains(name.as_str()) || *name == self.name;
            let is_test = kind.as_deref() == Some("dev");
            match (is_private, is_test) {
                // Cargo leaves it out of the published crate.
                (true, true) if req == "*" => {}
                (true, true) => found.push(format!("remove the version of {name}, for tests only")),
                (true, false) => found.push(format!("{name} is not published")),
                (false, _) if *req == format!("^{}", self.version) => {}
                (false, _) => found.push(format!("the version of {name} is not {}", self.version)),
            }
        }
        found
    }
}

/// Files that product code includes from outside of its crate. A published crate would lack them.
pub(crate) fn included(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next())
        else {
            continue;
        };
        if !PRODUCT.contains(&name) {
            continue;
        }
        let lines: Vec<&str> = file.text.lines().collect();
        for (number, code) in Source::new(&file.path, &file.text).product_lines() {
            if !code.contains("include_str!") && !code.contains("include_bytes!") {
                continue;
            }
            // The path may be on the next line.
            let rest = lines.get(number - 1..).into_iter().flatten().take(2);
            let path = rest.filter_map(|line| {
                line.split_once("include_").map_or(Some(*line), |pair| Some(pair.1))
            });
            let path = path.filter_map(|text| text.split('"').nth(1)).next().unwrap_or_default();
            let depth = file.path.split('/').count() - 1;
            let up = path.split('/').take_while(|part| *part == "..").count();
            // `crates/NAME` are the first two parts.
            if depth - up.min(depth) < 2 {
                findings.push(format!(
                    "{}:{number}: `{path}` is outside of crates/{name}: a published crate lacks it",
                    file.path
                ));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(change: Value) -> Package {
        let mut package = json!({
            "name": "a", "version": "0.1.0", "publish": null, "description": "d",
            "license": "MIT", "repository": "https://a.test/b", "readme": "README.md",
            "rust_version": "1.95", "keywords": ["a"], "categories": ["b"], "features": {},
            "metadata": null, "dependencies": [], "manifest_path": "/r/crates/a/Cargo.toml",
        });
        package.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        serde_json::from_value(package).unwrap()
    }

    #[test]
    fn a_crate_that_cannot_be_published_is_named() {
        let dependency = |name: &str, req: &str, kind: Value| json!({ "dependencies": [{ "name": name, "req": req, "kind": kind, "path": "/r" }] });
        for (change, expected) in [
            (json!({}), None),
            (json!({ "description": null }), Some("a: `description` is missing")),
            (
                json!({ "repository": "https://example.com" }),
                Some("a: `repository` is a placeholder"),
            ),
            (json!({ "keywords": ["a b"] }), Some("a: `keywords` has 1 to 5 words")),
            (json!({ "categories": [] }), Some("a: `categories`")),
            (json!({ "features": { "f": [] } }), Some("a: `[package.metadata.docs.rs]`")),
            (json!({ "features": { "f": [] }, "metadata": { "docs": { "rs": {} } } }), None),
            (dependency("b", "^0.1.0", Value::Null), None),
            (dependency("b", "*", Value::Null), Some("a: the version of b is not 0.1.0")),
            (dependency("kit", "*", json!("dev")), None),
            (dependency("a", "^0.1.0", json!("dev")), Some("a: remove the version of a")),
            (dependency("kit", "*", Value::Null), Some("a: kit is not published")),
        ] {
            let kit = package(json!({ "name": "kit", "publish": [], "description": null }));
            let found = mistakes(&[package(change.clone()), kit]);
            assert_eq!(found.is_empty(), expected.is_none(), "{change}: {found:?}");
            assert!(
                found.iter().all(|mistake| mistake.starts_with(expected.unwrap())),
                "{found:?}"
            );
        }
    }

    #[test]
    fn files_from_outside_are_named() {
        let tree = Tree::of(&[
            ("crates/cli/src/a.rs", "const A: &str = include_str!(\"../b.txt\");\n"),
            (
                "crates/cli/src/b.rs",
                "const B: &[u8] = include_bytes!(concat!(\"../../c/\", $f));\n",
            ),
            ("crates/cli/src/c.rs", "const C: &str = include_str!(\n    \"../../../c.txt\"\n);\n"),
            (
                "crates/cli/src/d.rs",
                "#[cfg(test)]\nmod tests {\n    const D: &str = include_str!(\"../../d\");\n}\n",
            ),
            ("crates/testkit/src/e.rs", "const E: &str = include_str!(\"../../../e\");\n"),
        ]);
        let found = included(&tree).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/cli/src/b.rs:1: `../../c/` is outside"), "{found:?}");
        assert!(found[1].starts_with("crates/cli/src/c.rs:1: `../../../c.txt`"), "{found:?}");
    }
}
