//! The trait that fetches an issuer's key documents, and that exchanges codes of sign-ins.
//!
//! An implementation only fetches; the gateway interprets the documents.

use async_trait::async_trait;

use crate::{credential::Secret, egress::AllowList};

/// The size limit of a document, in bytes.
pub const MAX_DOCUMENT: usize = 256 << 10;
/// The size limit of the answer of a token endpoint, in bytes.
pub const MAX_TOKEN_ANSWER: usize = 64 << 10;

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

/// Why there is no document or answer. `Display` is for the operator and names no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The server answers with another status than 200.
    #[error("it answers {0}")]
    Status(u16),
    /// There is no usable answer.
    #[error("{0}")]
    Failed(String),
}

/// A form for a token endpoint.
#[derive(Debug, Clone)]
pub struct TokenForm {
    /// The form, in the encoding of HTML forms.
    pub body: Secret,
    /// The header `Authorization`, if the client authenticates by one.
    pub authorization: Option<Secret>,
}

/// The answer of a token endpoint, of any status. It has no `Debug`, because it may contain tokens.
pub struct FormAnswer {
    /// The HTTP status.
    pub status: u16,
    /// At most [`MAX_TOKEN_ANSWER`] bytes.
    pub body: Vec<u8>,
}

/// Fetches documents of issuers.
#[async_trait]
pub trait KeySetSource: Send + Sync + 'static {
    /// Fetches the document. Requires status 200, without a redirect, and at most [`MAX_DOCUMENT`]
    /// bytes.
    async fn fetch(&self, wanted: DocumentRequest<'_>) -> Result<Vec<u8>, FetchError>;

    /// Fetches the document of a stranger at `url`, from a public address or one in `allow`. Requires
    /// status 200, without a redirect, and at most `max` bytes.
    async fn fetch_foreign(
        &self,
        url: &str,
        allow: &AllowList,
        max: usize,
    ) -> Result<Vec<u8>, FetchError>;

    /// Sends `form` to a token endpoint. A redirect is not followed.
    async fn send_form(
        &self,
        to: DocumentRequest<'_>,
        form: &TokenForm,
    ) -> Result<FormAnswer, FetchError>;
}
