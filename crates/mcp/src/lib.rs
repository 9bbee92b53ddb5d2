//! The wire format of MCP, shared by every side of the protocol.
//!
//! * [`revision`] lists the revisions, [`method`] the methods, [`meta`] the keys of `_meta`, [`code`]
//!   the error codes and [`header`] the HTTP headers with the encoding of their values.
//! * [`message`] has the JSON-RPC messages that more than one side reads or writes, and
//!   [`param_header`] the arguments that a schema repeats in headers.
//! * [`line`](mod@line) and [`sse`] cut byte streams into messages of bounded size; [`scan`] finds
//!   the id of a message over the size limit.
//!
//! This crate opens no connection and makes no decision: that is the work of the client
//! (`toolcrib-sources`) and of the server (`toolcrib`).

pub mod code;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod header;
pub mod line;
pub mod message;
pub mod meta;
pub mod method;
pub mod param_header;
pub mod revision;
pub mod scan;
pub mod sse;
