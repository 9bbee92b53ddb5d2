//! The environment of a pack: that of its source, and the permissions that the operator granted.

use std::sync::Arc;

use toolcrib_core::source::pack::PackSpec;

use crate::{context::SourceContext, credential::SourceCredential, egress::Egress};

/// The environment of a pack.
pub(crate) struct PackContext {
    pub(crate) source: SourceContext,
    pub(crate) spec: PackSpec,
    /// The HTTP client, when `http` is granted.
    pub(crate) egress: Option<Egress>,
    /// The credential for requests that the manifest declares.
    pub(crate) credential: Option<Arc<SourceCredential>>,
}
