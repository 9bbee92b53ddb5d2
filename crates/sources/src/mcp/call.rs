//! One request to an upstream, before a transport carries it.

use std::sync::Arc;

use http::HeaderMap;
use toolcrib_core::{credential::ResolvedCredential, egress::EgressTrail};

use super::{era::Era, peer::Interest};

/// One request, before it has an id.
pub(crate) struct Call<'a> {
    pub(crate) method: &'static str,
    pub(crate) era: &'a Era,
    /// The tool of the request, for routers between this client and the upstream.
    pub(crate) name: Option<&'a str>,
    pub(crate) headers: HeaderMap,
    pub(crate) interest: Interest,
    /// Whether a dropped request is cancelled at the upstream.
    pub(crate) cancellable: bool,
    /// Whether refused credentials fail this request alone, and not the connection.
    pub(crate) optional: bool,
    /// Records which host was reached.
    pub(crate) egress: EgressTrail,
    /// The credential of one caller. Other requests are sent with that of the connection.
    pub(crate) credential: Option<Arc<ResolvedCredential>>,
    pub(crate) encode: &'a (dyn Fn(u64) -> Vec<u8> + Send + Sync),
}

impl<'a> Call<'a> {
    /// Creates a request without a name, headers or progress.
    pub(crate) fn plain(
        method: &'static str,
        era: &'a Era,
        encode: &'a (dyn Fn(u64) -> Vec<u8> + Send + Sync),
    ) -> Self {
        let (headers, interest) = (HeaderMap::new(), Interest::default());
        let egress = EgressTrail::default();
        Self {
            method,
            era,
            name: None,
            headers,
            interest,
            cancellable: false,
            optional: false,
            egress,
            credential: None,
            encode,
        }
    }
}
