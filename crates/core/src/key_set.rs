//! The trait that fetches an issuer's key documents, and that exchanges codes of sign-ins.
//!
//! An implementation only fetches; the gateway interprets the documents.

use async_trait::async_trait;

use crate::egress::AllowList;

/// The size limit of a document, in bytes.
pub const MAX_DOCUMENT: usize = 256 << 10;

/// The address of a document, and the addresses that may be contacted.
#[derive(Debug, Clone)]
pub struct DocumentRequest<'a> {
    /// Its address.
    pub url: &'a str,
    /// The address that the operator configured, whose host may be private. If the issuer names
    /// another address for the document, that one must be public or listed.
    pub named: &'a str,
    /// The additions to the public addresses that may be contacted.
    pub allow: &'a AllowList,
}

/// Why a document was not fetched. `Display` is for the operator and names no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FetchError(pub String);

/// The answer of a token endpoint, of any status.
#[derive(Debug, Clone)]
pub struct FormAnswer {
    /// The HTTP status.
    pub status: u16,
    /// At most [`MAX_DOCUMENT`] bytes.
    pub body: Vec<u8>,
}

/// Fetches documents of issuers.
#[async_trait]
pub trait KeySetSource: Send + Sync + 'static {
    /// Fetches the document. Requires status 200, without a redirect, and at most [`MAX_DOCUMENT`]
    /// bytes.
    async fn fetch(&self, wanted: DocumentRequest<'_>) -> Result<Vec<u8>, FetchError>;

    /// Sends `form`, in the encoding of HTML forms, to a token endpoint. A redirect is an error.
    async fn send_form(
        &self,
        to: DocumentRequest<'_>,
        form: String,
    ) -> Result<FormAnswer, FetchError>;
}
