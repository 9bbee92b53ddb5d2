//! The last, variable segment of a path.

use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};

/// The one captured segment, percent-decoded once (`%2F` stays inside); `None` when it is not UTF-8,
/// which no name is.
pub(crate) struct Segment(pub(crate) Option<String>);

impl Segment {
    /// The text; one that cannot name anything is the empty one.
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
