//! An HTTP service described by an OpenAPI document (3.0, 3.1), as a source of tools.
//!
//! The parser is our own, because tool schemas must be preserved byte for byte: `document` contains
//! the document and its references, `resolve` makes schemas self-contained, `operation` and `body`
//! read the inputs of one operation, `service` selects operations and names them. `request` and
//! `encode` convert arguments to a request, `response` converts a response to an outcome.

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

#[cfg(fuzzing)]
pub(crate) use service::fuzz;
