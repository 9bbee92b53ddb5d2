//! An HTTP service that an OpenAPI document (3.0, 3.1) describes, as a source of tools.
//!
//! The reader is our own, because the schemas of tools have to survive byte for byte: `document` has
//! the document and its references, `resolve` makes schemas stand on their own, `operation` and
//! `body` read what one operation takes, `service` picks operations and names them. `request` and
//! `encode` turn arguments into a request, `response` an answer into an outcome.

mod body;
mod document;
mod encode;
mod operation;
mod request;
mod resolve;
mod response;
mod select;
mod server;
mod service;
mod source;

pub(crate) use source::{ConnectorSource, Plan};

/// Reads `bytes` as a document and makes requests of what is in it.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    service::fuzz(bytes);
}
