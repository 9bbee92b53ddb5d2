//! A host without its socket: requests, replies, and the table of its faults.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

/// The key that sees all tools.
pub const KEY: &str = "broken-host-first-key-0001";
/// The key of another principal, which sees fewer tools.
pub const SECOND_KEY: &str = "broken-host-second-key-0002";

/// The principal of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Principal {
    First,
    Second,
}

/// The faults of a host, each with the check that it fails (`area.requirement`).
macro_rules! faults {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $check:literal),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The id of the check that fails, without the protocol.
            pub fn check(self) -> &'static str {
                match self { $(Self::$variant => $check),+ }
            }
        }
    };
}
pub(super) use faults;

/// A host without its socket.
pub(super) trait Host: Send + Sync + 'static {
    fn answer(&self, req: &HttpRequest) -> Reply;
}

#[derive(Debug)]
pub(super) struct HttpRequest {
    pub(super) method: Method,
    /// Not decoded.
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl HttpRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The bearer token; the scheme is case-insensitive.
    pub(super) fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.header("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

impl Reply {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            body: body.to_string().into_bytes(),
        }
    }

    #[must_use]
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    pub(super) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.remove(name);
        self.headers.push((name, value.into()));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.headers.retain(|(own, _)| *own != name);
    }

    pub(super) fn into_response(self, is_head: bool) -> Response {
        let mut response = Response::builder().status(StatusCode::from_u16(self.status).unwrap());
        for (name, value) in &self.headers {
            response = response.header(*name, value);
        }
        let body = if is_head { Body::empty() } else { Body::from(self.body) };
        response.body(body).unwrap()
    }
}
