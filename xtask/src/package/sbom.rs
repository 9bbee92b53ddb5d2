//! The bill of materials in CycloneDX, and the licences, of the crates that the program consists of.
//!
//! `cargo tree` says which crates are linked with the features of the shipped program, and
//! `cargo metadata` describes them. The digests are those of Cargo.lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use cyclonedx_bom::external_models::normalized_string::NormalizedString;
use cyclonedx_bom::external_models::uri::{Purl, Uri};
use cyclonedx_bom::models::bom::{Bom, SpecVersion, UrnUuid};
use cyclonedx_bom::models::component::{Classification, Component, Components, Scope};
use cyclonedx_bom::models::dependency::{Dependencies, Dependency};
use cyclonedx_bom::models::external_reference::{
    ExternalReference, ExternalReferenceType, ExternalReferences,
};
use cyclonedx_bom::models::hash::{Hash, HashAlgorithm, HashValue, Hashes};
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::metadata::Metadata;
use cyclonedx_bom::prelude::Validate as _;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::archive::Files;
use super::parts::Parts;
use crate::cargo::cargo;
use crate::{paths, shell};

/// The version of CycloneDX.
const SPECIFICATION: SpecVersion = SpecVersion::V1_5;
/// The package of the program.
const PROGRAM: &str = "toolcrib";

/// The crates of the program, by name and version.
#[derive(Debug)]
pub(super) struct Crates(BTreeMap<(String, String), Crate>);

#[derive(Debug)]
struct Crate {
    id: String,
    license: Option<String>,
    description: Option<String>,
    repository: Option<String>,
    folder: PathBuf,
    /// The digest of the crate's file; `None` for crates of the workspace.
    sha256: Option<String>,
    /// Ids of the crates that it needs.
    needs: BTreeSet<String>,
}

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<Package>,
    resolve: DependencyGraph,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    description: Option<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct DependencyGraph {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<LockedPackage>,
}

#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    checksum: Option<String>,
}

impl Crates {
    /// The crates of the program for `target`.
    pub(super) fn of(target: &str) -> Result<Self> {
        let linked = linked(target)?;
        let arguments =
            ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
        let text = shell::output(&mut cargo(&arguments))?;
        let described: CargoMetadata =
            serde_json::from_str(&text).context("output of `cargo metadata`")?;
        let lock = fs::read_to_string(paths::root().join("Cargo.lock"))?;
        let lock: Lock = toml::from_str(&lock).context("Cargo.lock")?;
        let digests: BTreeMap<_, _> = lock
            .package
            .into_iter()
            .map(|package| ((package.name, package.version), package.checksum))
            .collect();
        let mut needs: BTreeMap<String, BTreeSet<String>> = described
            .resolve
            .nodes
            .into_iter()
            .map(|node| (node.id, node.dependencies.into_iter().collect()))
            .collect();

        let mut crates = BTreeMap::new();
        for package in described.packages {
            let key = (package.name, package.version);
            if !linked.contains(&key) {
                continue;
            }
            let found = Crate {
                needs: needs.remove(&package.id).unwrap_or_default(),
                id: package.id,
                license: package.license,
                description: package.description,
                repository: package.repository,
                folder: package.manifest_path.parent().unwrap_or(Path::new("")).to_path_buf(),
                sha256: digests.get(&key).cloned().flatten(),
            };
            crates.insert(key, found);
        }
        if crates.len() != linked.len() {
            bail!("`cargo metadata` describes {} of {} crates", crates.len(), linked.len());
        }
        Ok(Self(crates))
    }
}

/// Names and versions of the crates that are linked into the program.
fn linked(target: &str) -> Result<BTreeSet<(String, String)>> {
    let mut tree = cargo(&["tree", "--locked", "--package", PROGRAM, "--target", target]);
    tree.args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]);
    let mut crates = BTreeSet::new();
    for line in shell::output(&mut tree)?.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        crates.insert((name.to_owned(), version.trim_start_matches('v').to_owned()));
    }
    if crates.is_empty() {
        bail!("`cargo tree` lists no crates");
    }
    Ok(crates)
}

/// Writes the bill of materials.
pub(super) fn write(parts: &Parts, out: &Path) -> Result<PathBuf> {
    let mut json = Vec::new();
    bom(parts)?.output_as_json(&mut json, SPECIFICATION)?;
    json.push(b'\n');
    let target = parts.program.target();
    let file = out.join(format!("toolcrib-{}-{target}.cdx.json", parts.version));
    fs::write(&file, json).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

fn bom(parts: &Parts) -> Result<Bom> {
    let program = Sha256::digest(parts.program_bytes()?);
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    let mut own = None;
    let known: BTreeMap<&str, String> =
        parts.crates.0.iter().map(|(key, found)| (found.id.as_str(), reference(key))).collect();
    for (key, found) in &parts.crates.0 {
        let mut component = component(key, found)?;
        dependencies.push(Dependency {
            dependency_ref: reference(key),
            dependencies: found
                .needs
                .iter()
                .filter_map(|id| known.get(id.as_str()).cloned())
                .collect(),
        });
        if key.0 == PROGRAM {
            component.component_type = Classification::Application;
            component.name = NormalizedString::new("toolcrib");
            component.hashes = Some(sha256(&hex(&program)));
            own = Some(component);
        } else {
            components.push(component);
        }
    }
    let bom = Bom {
        version: 1,
        serial_number: Some(serial(&program)?),
        metadata: Some(Metadata { component: own, ..Metadata::default() }),
        components: Some(Components(components)),
        dependencies: Some(Dependencies(dependencies)),
        services: None,
        external_references: None,
        compositions: None,
        properties: None,
        vulnerabilities: None,
        signature: None,
        annotations: None,
        formulation: None,
        spec_version: SPECIFICATION,
    };
    let checked = bom.validate_version(SPECIFICATION);
    if !checked.passed() {
        bail!("the bill of materials is invalid: {checked:?}");
    }
    Ok(bom)
}

fn component(key: &(String, String), found: &Crate) -> Result<Component> {
    let (name, version) = key;
    let mut component =
        Component::new(Classification::Library, name, version, Some(reference(key)));
    component.scope = Some(Scope::Required);
    component.description = found.description.as_deref().map(NormalizedString::new);
    component.hashes = found.sha256.as_deref().map(sha256);
    component.licenses = found.license.as_deref().map(|license| {
        // The old form of Cargo: a slash means "or".
        Licenses(vec![LicenseChoice::expression(&license.replace('/', " OR "))])
    });
    component.purl = Some(Purl::new("cargo", name, version).context("package URL")?);
    component.external_references = found.repository.as_deref().map(|url| {
        let kind = ExternalReferenceType::Vcs;
        ExternalReferences(vec![ExternalReference::new(kind, Uri::new(url))])
    });
    Ok(component)
}

fn reference((name, version): &(String, String)) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn sha256(digest: &str) -> Hashes {
    Hashes(vec![Hash { alg: HashAlgorithm::SHA_256, content: HashValue(digest.to_owned()) }])
}

/// A serial number that depends only on the bytes of the program, so equal programs share it.
fn serial(digest: &[u8]) -> Result<UrnUuid> {
    let hex = hex(digest);
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    // The bits of a version 8 UUID: "custom".
    let uuid = format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 15),
        part(15, 18),
        part(18, 30)
    );
    UrnUuid::new(uuid).map_err(|error| anyhow!("serial number: {error:?}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The texts of all licences, each once, after the names of its crates.
pub(super) fn notices(crates: &Crates) -> Result<String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for ((name, version), found) in &crates.0 {
        // The licence of the workspace is a separate file.
        if found.sha256.is_none() {
            continue;
        }
        let license = found.license.as_deref().unwrap_or("no license");
        let mut has_text = false;
        for text in license_files(&found.folder)? {
            has_text = true;
            texts.entry(text).or_default().insert(format!("{name} {version} ({license})"));
        }
        if !has_text {
            without.push(format!("{name} {version} ({license})"));
        }
    }
    let mut out = "toolcrib contains the following software of others.\n".to_owned();
    let rule = "-".repeat(78);
    for (text, crates) in &texts {
        let names: Vec<&str> = crates.iter().map(String::as_str).collect();
        out.push_str(&format!("\n{rule}\n{}\n{rule}\n\n{}\n", names.join("\n"), text.trim_end()));
    }
    if !without.is_empty() {
        out.push_str(&format!(
            "\n{rule}\nWithout a file of their licence:\n{}\n",
            without.join("\n")
        ));
    }
    Ok(out)
}

fn license_files(folder: &Path) -> Result<Vec<String>> {
    let mut files = Files::default();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let upper = name.to_uppercase();
        let is_license = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT"]
            .iter()
            .any(|start| upper.starts_with(start));
        if is_license && entry.path().is_file() {
            files.add(name, fs::read(entry.path())?);
        }
    }
    Ok(files.iter().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_number_is_a_uuid_of_the_program() {
        let one = serial(&[0xab; 32]).unwrap();
        assert_eq!(one, serial(&[0xab; 32]).unwrap());
        assert_ne!(one, serial(&[0xac; 32]).unwrap());
    }

    #[test]
    fn the_crates_of_the_program_have_digests_and_licences() {
        let crates = Crates::of("x86_64-unknown-linux-gnu").unwrap();
        let names: Vec<&str> = crates.0.keys().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&PROGRAM) && names.contains(&"tokio"));
        // Only for tests, or only at build time.
        assert!(!names.contains(&"insta") && !names.contains(&"serde_derive"));
        let own = |name: &str| name.starts_with("toolcrib");
        for ((name, version), found) in &crates.0 {
            assert_eq!(found.sha256.is_none(), own(name), "{name} {version}");
            assert!(found.license.is_some(), "{name} {version}");
        }
    }
}
