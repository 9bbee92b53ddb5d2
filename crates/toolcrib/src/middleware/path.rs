//! Extracts the last, variable segment of a path.

use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};

/// The captured segment, percent-decoded once (`%2F` becomes part of it). A segment in invalid
/// UTF-8 is empty here, because no name is empty.
pub(crate) struct Segment(String);

impl Segment {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(path.map(|Path(text)| text).unwrap_or_default()))
    }
}
