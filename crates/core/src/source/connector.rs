//! An HTTP service that an OpenAPI document describes.

use std::{collections::BTreeMap, path::PathBuf};

use crate::{credential::SecretValue, egress::AllowList};

/// A connector: the operations of an OpenAPI document as tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorSpec {
    /// The location of the document.
    pub document: OpenApiLocation,
    /// The base URL of the service; without it, the document's `servers` apply.
    pub base_url: Option<String>,
    /// The operations that become tools: globs over their names, or `METHOD /path` with globs.
    /// Empty means all.
    pub operations: Vec<String>,
    /// Values of the document's server variables that differ from the defaults.
    pub variables: BTreeMap<String, String>,
    /// Extra request headers; values may be secrets. Sent only to `base_url`'s origin, or else to
    /// that of the document's URL.
    pub headers: BTreeMap<String, SecretValue>,
    /// The additions to the public addresses and the configured hosts that may be contacted. The
    /// document may refer to files on hosts in it.
    pub allow: AllowList,
}

/// The location of an OpenAPI document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenApiLocation {
    /// A file, JSON or YAML, or a folder that contains it as `openapi.yaml`, `openapi.yml` or
    /// `openapi.json`. It may refer to other files beneath its folder.
    Path(PathBuf),
    /// `http` or `https`, no user information.
    Url(String),
}
