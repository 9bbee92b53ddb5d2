//! The checked configuration of a source.

use std::{sync::Arc, time::Duration};

use super::upstream::UpstreamSpec;
use crate::{
    credential::{AccountSpec, CredentialRef},
    id::SourceId,
};

/// The checked configuration of a source. The running form is a [`Source`](super::Source).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpec {
    /// The configured id.
    pub id: SourceId,
    /// How the source reaches its upstream, by kind.
    pub upstream: UpstreamSpec,
    /// Limits on the upstream.
    pub limits: SourceLimits,
    /// The stored credential that its requests need.
    pub credential: Option<CredentialRef>,
    /// The accounts that its callers use, in place of a stored credential.
    pub account: Option<Arc<AccountSpec>>,
}

/// Limits on an upstream's use of this host's resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLimits {
    /// Timeout for connecting and for one whole discovery.
    pub connect_timeout: Duration,
    /// Pages of a tool list.
    pub max_pages: usize,
    /// Tools in a list.
    pub max_tools: usize,
    /// Bytes of a whole tool list.
    pub max_list_bytes: usize,
    /// Bytes of one message.
    pub max_message_bytes: usize,
    /// The most calls in flight; further ones wait within their own deadline.
    pub max_concurrency: usize,
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            max_pages: 100,
            max_tools: 5_000,
            max_list_bytes: 16 << 20,
            max_message_bytes: 16 << 20,
            max_concurrency: 64,
        }
    }
}
