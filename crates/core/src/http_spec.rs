//! An HTTP endpoint that the operator configured.

use std::collections::BTreeMap;

use crate::{credential::SecretValue, egress::AllowList};

/// An HTTP endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSpec {
    /// `http` or `https`, no user information.
    pub url: String,
    /// Extra request headers; values may be secrets.
    pub headers: BTreeMap<String, SecretValue>,
    /// The additions to the public addresses and the host of `url` that may be contacted.
    pub allow: AllowList,
}
