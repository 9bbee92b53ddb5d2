//! The server side: what an authorization server for MCP clients reads and writes.
//!
//! * [`client`] reads descriptions of clients: documents at their id, and registrations.
//! * [`redirect`] decides where a browser may be sent.
//! * [`authorize`] checks authorization requests and makes their responses.
//! * [`token`] reads the requests of the token and the revocation endpoint.
//! * [`metadata`] is the server's description (RFC 8414).
//!
//! Invariant: no error of this module has text of a request, and every text that is kept has a
//! limit.

pub mod authorize;
pub mod client;
pub mod error;
pub mod metadata;
mod parameters;
pub mod redirect;
pub mod token;
