//! Seam to the documents in which an issuer of tokens says which keys it signs with.
//!
//! Whoever implements it fetches and nothing more: what a document says is decided by the gateway.

use async_trait::async_trait;

use crate::egress::AllowList;

/// Largest document that is read, in bytes.
pub const MAX_DOCUMENT: usize = 256 << 10;

/// A document and where it may be fetched from.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// Its address.
    pub url: &'a str,
    /// The address that the operator wrote down, whose host may be a private one. The document may
    /// be elsewhere when an issuer says so; then it must be public, or listed.
    pub named: &'a str,
    /// What may be reached beyond public addresses.
    pub allow: &'a AllowList,
}

/// Why there is no document. `Display` is for the operator and names no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FetchError(pub String);

/// Fetches documents of issuers.
#[async_trait]
pub trait KeySetSource: Send + Sync + 'static {
    /// The document, when it is answered at once (status 200, no redirect) and is at most
    /// [`MAX_DOCUMENT`] bytes.
    async fn fetch(&self, wanted: Wanted<'_>) -> Result<Vec<u8>, FetchError>;
}
