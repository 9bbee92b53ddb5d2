//! An HTTP service described by an OpenAPI document (3.0, 3.1, 3.2), as a source of tools.
//!
//! The parser is our own, because tool schemas must be preserved byte for byte: `parse` reads one
//! file, `files` finds all of a document, `document` contains them and their references,
//! `identifiers` the names that schemas give themselves, `resolve` makes schemas self-contained.
//! `operation`, `body` and `form` read the inputs of one operation, `service` selects operations
//! and names them. `request`, `encode` and `multipart` convert arguments to a request, `response`
//! converts a response to an outcome.

mod body;
mod composition;
mod document;
mod encode;
mod files;
mod form;
mod identifiers;
mod integers;
mod media_type;
mod multipart;
mod operation;
mod parse;
mod request;
mod resolve;
mod response;
mod select;
mod server;
mod service;
mod source;

pub(crate) use media_type::is_readable;
pub(crate) use source::{ConnectorSource, Plan};

#[cfg(fuzzing)]
pub(crate) use service::fuzz;
