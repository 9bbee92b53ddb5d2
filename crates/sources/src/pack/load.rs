//! Loads a pack whose nodes can be offered, from its description.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolcrib_core::{
    limit::Rate,
    names,
    source::{
        DiscoveredTool,
        pack::{PackGrant, PackLocation, PackSpec, PackVerification},
    },
};

use super::{
    error::{PackCode, PackError},
    files::{self, Files, Opened},
    library::Library,
    manifest::{MANIFEST, Manifest, Node},
    request::Request,
    requirements, verify,
};

/// Largest size of one schema, in bytes.
const MAX_SCHEMA: usize = 1 << 20;
/// Largest size of a pack's code, in bytes.
const MAX_ARTIFACT: usize = 32 << 20;
/// Largest size of a signature file, with room for base64 and a line break.
const MAX_SIGNATURE: usize = 4096;
/// Longest address that a pack names, in characters.
const MAX_ENTRY: usize = 2048;

/// A checked pack in memory. None of its code has run.
#[derive(Debug)]
pub(crate) struct Pack {
    pub(crate) manifest: Manifest,
    pub(crate) nodes: Vec<PackNode>,
    /// Nodes that were left out, and the reasons.
    pub(crate) problems: Vec<String>,
    /// The code; empty for a remote pack.
    pub(crate) artifact: Vec<u8>,
    /// Rate limits by tool name.
    pub(crate) rates: BTreeMap<String, Rate>,
}

/// A node with its schemas.
#[derive(Debug, Clone)]
pub(crate) struct PackNode {
    pub(crate) type_id: String,
    /// The tool, named after the node or its action.
    pub(crate) tool: DiscoveredTool,
    /// The declared request of a node without code.
    pub(crate) request: Option<Request>,
    /// Whether that request requires a credential.
    pub(crate) wants_credential: bool,
    /// The name of the tool at the MCP server of a remote pack.
    pub(crate) remote_name: String,
}

/// A hash over the files of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

/// The files of a pack, before or after verification.
pub(crate) struct Found {
    opened: Opened,
    signature: Option<Vec<u8>>,
    pub(crate) fingerprint: Fingerprint,
}

/// Checks a description without reading the pack.
pub(crate) fn check(spec: &PackSpec, library: Option<&Library>) -> Result<(), String> {
    patterns(&spec.nodes).map_err(|error| error.problem)?;
    if matches!(spec.location, PackLocation::Installed { .. }) && library.is_none() {
        return Err("there is no directory of installed packs; name a directory or a .tgz".into());
    }
    Ok(())
}

/// Reads the files of the pack.
pub(crate) fn find(spec: &PackSpec, library: Option<&Library>) -> Result<Found, PackError> {
    match (&spec.location, library) {
        (PackLocation::Path(path), _) => at(path),
        (PackLocation::Installed { name, version }, Some(library)) => {
            let version = version.as_deref();
            let installed = match (library.find(name, version), library.bundled(name, version)?) {
                (Ok(installed), _) => installed,
                (Err(_), Some(files)) => {
                    return Ok(Found::new(Opened { files, archive: None }, None));
                }
                (Err(error), None) => return Err(error),
            };
            let found = at(&library.archive(&installed))?;
            // An installed pack must have the bytes that were installed, even without further
            // verification settings.
            let pinned =
                PackVerification { integrity: Some(installed.integrity), keys: Vec::new() };
            let manifest = found.manifest()?;
            verify::verify(&pinned, &found.opened.files, &manifest, found.archive(), None)?;
            Ok(found)
        }
        (PackLocation::Installed { .. }, None) => {
            PackCode::LockfileIncomplete.refuse("there is no directory of installed packs")
        }
    }
}

/// Reads the pack at `path`, and its detached signature.
pub(super) fn at(path: &Path) -> Result<Found, PackError> {
    let opened = files::open(path)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".sig");
    let signature = match opened.archive.is_some() {
        true if Path::new(&beside).exists() => {
            Some(files::read(Path::new(&beside), MAX_SIGNATURE)?)
        }
        _ => None,
    };
    Ok(Found::new(opened, signature))
}

// === impl Found ===

impl Found {
    fn new(opened: Opened, signature: Option<Vec<u8>>) -> Self {
        let mut hash = Sha256::new();
        for (path, bytes) in opened.files.iter() {
            hash.update((path.len() as u64).to_le_bytes());
            hash.update(path);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        hash.update(signature.as_deref().unwrap_or_default());
        Self { opened, signature, fingerprint: Fingerprint(hash.finalize().into()) }
    }

    pub(super) fn manifest(&self) -> Result<Manifest, PackError> {
        match self.opened.files.get(MANIFEST) {
            Some(bytes) => Manifest::parse(bytes),
            None => PackCode::InvalidManifest.refuse("there is no pack.json at the root"),
        }
    }

    pub(super) fn archive(&self) -> Option<&[u8]> {
        self.opened.archive.as_deref()
    }

    pub(super) fn signature(&self) -> Option<&[u8]> {
        self.signature.as_deref()
    }

    /// Returns the archive of the pack, created on demand for a directory.
    pub(super) fn into_archive(self) -> Result<Vec<u8>, PackError> {
        match self.opened.archive {
            Some(archive) => Ok(archive),
            None => super::archive::write(&self.opened.files),
        }
    }

    /// Verifies and assembles the pack.
    pub(crate) fn load(self, spec: &PackSpec) -> Result<Pack, PackError> {
        self.assemble(&spec.verify, &spec.nodes, &spec.grants)
    }

    /// Verifies and assembles the pack with the given settings.
    pub(super) fn assemble(
        &self,
        verification: &PackVerification,
        nodes: &[String],
        grants: &BTreeSet<PackGrant>,
    ) -> Result<Pack, PackError> {
        let files = &self.opened.files;
        let manifest = self.manifest()?;
        // Verified before any other content is trusted.
        verify::verify(verification, files, &manifest, self.archive(), self.signature())?;
        requirements::check(&manifest, grants)?;
        let artifact = artifact(&manifest, files)?;
        let chosen = patterns(nodes)?;
        let mut pack = Pack {
            manifest,
            nodes: Vec::new(),
            problems: Vec::new(),
            artifact,
            rates: BTreeMap::new(),
        };
        for node in &pack.manifest.nodes {
            if !nodes.is_empty() && !chosen.is_match(&node.type_id) {
                continue;
            }
            match pack_node(&pack.manifest, node, files, grants, &pack.artifact) {
                Ok(made) => pack.nodes.push(made),
                Err(error) => pack.problems.push(format!("node `{}`: {error}", node.type_id)),
            }
        }
        Ok(pack)
    }
}

// === impl Pack ===

impl Pack {
    /// Leaves out nodes that require a credential when there is none.
    pub(super) fn drop_unauthorized(&mut self) {
        let problems = &mut self.problems;
        self.nodes.retain(|node| {
            if node.wants_credential {
                let code = PackCode::RequirementUnmet;
                problems.push(format!(
                    "node `{}`: {code}: credential_unavailable: it requires a credential; name the \
                     stored one with `credential`",
                    node.type_id
                ));
            }
            !node.wants_credential
        });
    }
}

/// Returns the code of the pack. For a remote pack, only checks its address.
fn artifact(manifest: &Manifest, files: &Files) -> Result<Vec<u8>, PackError> {
    let entry = &manifest.runtime.entry;
    if manifest.runtime.language == "remote" {
        let address = url::Url::parse(entry).ok().filter(|url| {
            let plain = url.username().is_empty() && url.password().is_none();
            entry.len() <= MAX_ENTRY && plain && matches!(url.scheme(), "http" | "https")
        });
        return match address {
            Some(_) => Ok(Vec::new()),
            None => PackCode::InvalidManifest
                .refuse("`runtime.entry` of a remote pack must be an http or https address"),
        };
    }
    match files.get(entry) {
        Some(code) if code.len() <= MAX_ARTIFACT => Ok(code.to_vec()),
        Some(_) => PackCode::InvalidManifest.refuse("the code is larger than 32 MiB"),
        None => PackCode::InvalidManifest
            .refuse("the file that `runtime.entry` names is not in the pack"),
    }
}

fn pack_node(
    manifest: &Manifest,
    node: &Node,
    files: &Files,
    grants: &BTreeSet<PackGrant>,
    artifact: &[u8],
) -> Result<PackNode, PackError> {
    let id = node.type_id.as_str();
    if id.starts_with("workflow.") {
        return PackCode::InvalidManifest
            .refuse("its `typeId` begins with `workflow.`, which is reserved for workflows");
    }
    if names::promises_exec(id) {
        return PackCode::InvalidManifest.refuse(
            "its name promises to run commands, which only a host extension may do (RFC 0069)",
        );
    }
    if id.split('.').next() == Some("workflow") {
        return PackCode::InvalidManifest
            .refuse("names under `workflow.` are reserved for workflows");
    }
    let secrets = node.requires_secrets.len() + node.required_credentials.len();
    if secrets > 0 && node.request.is_none() {
        return PackCode::RequirementUnmet
            .refuse("credential_unavailable: this host gives no secrets to code of packs");
    }
    if secrets > 1 {
        return PackCode::RequirementUnmet.refuse(
            "credential_unavailable: a request carries one credential, and it requires more",
        );
    }
    requirements::needs(&node.requires, grants)?;
    let input = schema(files, node.input_schema_ref.as_deref(), "inputSchemaRef")?;
    let output = schema(files, node.output_schema_ref.as_deref(), "outputSchemaRef")?;
    let request = match &node.request {
        Some(_) if manifest.runtime.language != "remote" => {
            return PackCode::InvalidManifest
                .refuse("`x-toolcrib-request` is only for packs with `runtime.language` remote");
        }
        Some(declared) => Some(Request::parse(&manifest.runtime.entry, declared)?),
        None => None,
    };
    let raw = json!({
        "pack": manifest.name,
        "version": manifest.version.to_string(),
        "typeId": id,
        "nodeVersion": node.version,
        "description": node.description,
        "role": node.role,
        "capabilities": node.capabilities,
        "inputSchema": input,
        "outputSchema": output,
        "request": node.request,
        "remoteName": node.mcp.as_ref().and_then(|mcp| mcp.tool_name.clone()),
        "entry": match artifact {
            [] => manifest.runtime.entry.clone(),
            code => verify::integrity(code),
        },
    });
    let tool = DiscoveredTool {
        name: id.to_owned(),
        title: node.label.clone(),
        description: node.description.clone(),
        input_schema: input,
        output_schema: output,
        annotations: None,
        raw,
    };
    let named = node.mcp.as_ref().and_then(|mcp| mcp.tool_name.clone());
    Ok(PackNode {
        type_id: id.to_owned(),
        tool,
        request,
        wants_credential: secrets > 0,
        remote_name: named.unwrap_or_else(|| id.to_owned()),
    })
}

fn schema(files: &Files, path: Option<&str>, member: &str) -> Result<Option<Value>, PackError> {
    let Some(path) = path else { return Ok(None) };
    let invalid = |problem: &str| PackCode::InvalidManifest.refuse(format!("`{member}` {problem}"));
    match files.get(path) {
        None => invalid("names a file that is not in the pack"),
        Some(bytes) if bytes.len() > MAX_SCHEMA => invalid("names a file larger than 1 MiB"),
        Some(bytes) => match serde_json::from_slice(bytes) {
            Ok(schema @ Value::Object(_)) => Ok(Some(schema)),
            Ok(_) | Err(_) => invalid("names a file that is not a JSON object"),
        },
    }
}

fn patterns(globs: &[String]) -> Result<GlobSet, PackError> {
    let mut set = GlobSetBuilder::new();
    let invalid = |_| PackCode::InvalidManifest.error("one of `nodes` is not a glob");
    for glob in globs {
        set.add(Glob::new(glob).map_err(invalid)?);
    }
    set.build().map_err(invalid)
}
