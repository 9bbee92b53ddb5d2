//! Reads, verifies and assembles a pack.

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
        DiscoveredOffer,
        pack::{PackGrant, PackVerification},
    },
};

use super::{
    archive,
    error::{PackCode, PackError},
    files::{self, Files},
    manifest::{MANIFEST, Manifest, Node},
    request::Request,
    requirements, verify,
};

/// Largest size of a compressed archive, in bytes.
const MAX_ARCHIVE: usize = 64 << 20;
/// Largest size of one schema, in bytes.
const MAX_SCHEMA: usize = 1 << 20;
/// Largest size of a pack's code, in bytes.
const MAX_ARTIFACT: usize = 32 << 20;
/// Largest size of a signature file, with room for base64 and a line break.
const MAX_SIGNATURE: usize = 4096;
/// Longest address that a pack names, in characters.
const MAX_ENTRY: usize = 2048;

/// A checked pack in memory. Its code has not run.
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
    pub(crate) tool: DiscoveredOffer,
    /// The declared request of a node without code.
    pub(crate) request: Option<Request>,
    /// Whether that request requires a credential.
    pub(crate) wants_credential: bool,
    /// The name of the tool at the MCP server of a remote pack.
    pub(crate) remote_name: String,
}

/// The files of a pack, before or after verification.
pub(crate) struct PackFiles {
    pub(super) files: Files,
    /// The bytes of the archive; `None` for a directory.
    pub(super) archive: Option<Vec<u8>>,
    /// The detached signature.
    pub(super) signature: Option<Vec<u8>>,
}

// === impl PackFiles ===

impl PackFiles {
    /// Reads the pack at `path`, a directory or an archive with an optional detached signature.
    pub(super) fn open(path: &Path) -> Result<Self, PackError> {
        let metadata =
            std::fs::metadata(path).map_err(|error| files::unreadable("the pack", &error))?;
        if metadata.is_dir() {
            return Ok(Self { files: files::directory(path)?, archive: None, signature: None });
        }
        let archive = files::read(path, MAX_ARCHIVE)?;
        let signature = path.with_added_extension("sig");
        let signature =
            signature.exists().then(|| files::read(&signature, MAX_SIGNATURE)).transpose()?;
        Ok(Self { files: archive::read(&archive)?, archive: Some(archive), signature })
    }

    /// Hashes all files and the signature.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for (path, bytes) in self.files.iter() {
            hash.update((path.len() as u64).to_le_bytes());
            hash.update(path);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        hash.update(self.signature.as_deref().unwrap_or_default());
        hash.finalize().into()
    }

    /// Verifies the pack, and parses its manifest.
    pub(super) fn verified(&self, wanted: &PackVerification) -> Result<Manifest, PackError> {
        let Some(manifest) = self.files.get(MANIFEST) else {
            return PackCode::InvalidManifest.refuse("there is no pack.json at the root");
        };
        let manifest = Manifest::parse(manifest)?;
        let (archive, signature) = (self.archive.as_deref(), self.signature.as_deref());
        verify::verify(wanted, &self.files, &manifest, archive, signature)?;
        Ok(manifest)
    }

    /// Returns the archive of the pack, created on demand for a directory.
    pub(super) fn into_archive(self) -> Result<Vec<u8>, PackError> {
        self.archive.map_or_else(|| archive::write(&self.files), Ok)
    }

    /// Verifies and assembles the pack with the given settings.
    pub(super) fn assemble(
        &self,
        verification: &PackVerification,
        nodes: &[String],
        grants: &BTreeSet<PackGrant>,
    ) -> Result<Pack, PackError> {
        let files = &self.files;
        // Verified before any other content is trusted.
        let manifest = self.verified(verification)?;
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
    /// Leaves out nodes whose required credential is missing.
    pub(super) fn drop_unauthorized(&mut self) {
        let code = PackCode::RequirementUnmet;
        for node in self.nodes.extract_if(.., |node| node.wants_credential) {
            self.problems.push(format!(
                "node `{}`: {code}: credential_unavailable: it requires a credential; name the \
                 stored one with `credential`",
                node.type_id
            ));
        }
    }
}

/// Reads the code of the pack. For a remote pack, only checks its address.
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
    if id.split('.').next() == Some("workflow") {
        return PackCode::InvalidManifest
            .refuse("its `typeId` starts with `workflow.`, a prefix reserved for workflows");
    }
    if names::promises_exec(id) {
        return PackCode::InvalidManifest.refuse(
            "its name promises to run commands, which only a host extension may do (RFC 0069)",
        );
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
    let remote_name = node.mcp.as_ref().and_then(|mcp| mcp.tool_name.clone());
    let raw = json!({
        "pack": manifest.name,
        "version": manifest.version,
        "typeId": id,
        "nodeVersion": node.version,
        "description": node.description,
        "role": node.role,
        "capabilities": node.capabilities,
        "inputSchema": input,
        "outputSchema": output,
        "request": node.request,
        "remoteName": remote_name,
        "entry": match artifact {
            [] => manifest.runtime.entry.clone(),
            code => verify::integrity(code),
        },
    });
    let tool = DiscoveredOffer {
        name: id.to_owned(),
        title: node.label.clone(),
        description: node.description.clone(),
        input_schema: input,
        output_schema: output,
        operation: (node.request.is_some() || artifact.is_empty()).then(|| {
            json!({
                "entry": manifest.runtime.entry,
                "request": node.request,
                "remoteName": remote_name,
            })
        }),
        raw,
        ..DiscoveredOffer::default()
    };
    Ok(PackNode {
        type_id: id.to_owned(),
        tool,
        request,
        wants_credential: secrets > 0,
        remote_name: remote_name.unwrap_or_else(|| id.to_owned()),
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

pub(super) fn patterns(globs: &[String]) -> Result<GlobSet, PackError> {
    let mut set = GlobSetBuilder::new();
    let invalid = |_| PackCode::InvalidManifest.error("one of `nodes` is not a glob");
    for glob in globs {
        set.add(Glob::new(glob).map_err(invalid)?);
    }
    set.build().map_err(invalid)
}

/// Runs `work` on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PackError> + Send + 'static,
) -> Result<T, PackError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => PackCode::Unreadable.refuse("reading the pack was interrupted"),
    }
}
