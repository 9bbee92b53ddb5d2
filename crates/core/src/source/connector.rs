//! An HTTP service that an OpenAPI document describes.

use std::{collections::BTreeMap, path::PathBuf};

use super::SecretValue;
use crate::egress::AllowList;

/// A connector: the operations of an OpenAPI document as tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorSpec {
    /// Where the document is.
    pub document: DocumentAt,
    /// Where the service is; without it, where the document's `servers` say.
    pub base_url: Option<String>,
    /// Which operations are tools: globs over their names, or `METHOD /path` with globs. Empty
    /// means all.
    pub operations: Vec<String>,
    /// Values of the document's server variables, where they are not the defaults.
    pub variables: BTreeMap<String, String>,
    /// Extra request headers; values may be secrets. Sent to `base_url`'s origin, or else to that
    /// of the document's URL, and nowhere else.
    pub headers: BTreeMap<String, SecretValue>,
    /// What may be reached besides public addresses and the configured hosts.
    pub allow: AllowList,
}

/// Where an OpenAPI document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentAt {
    /// A file, JSON or YAML.
    File(PathBuf),
    /// `http` or `https`, no user information.
    Url(String),
}
