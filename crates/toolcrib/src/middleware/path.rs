//! Extracts the last, variable segment of a path.

use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};

/// The captured segment, percent-decoded once (`%2F` becomes part of it); `None` when it is not
/// UTF-8, because all names are.
pub(crate) struct Segment(pub(crate) Option<String>);

impl Segment {
    /// Returns the text; empty when the segment is not UTF-8, because no name is empty.
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(path.ok().map(|Path(text)| text)))
    }
}
