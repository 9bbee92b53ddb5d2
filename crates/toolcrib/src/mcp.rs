//! MCP: the stateless revision 2026-07-28 and the handshake revisions, on one URL and over stdio.
//!
//! Two rules decide the era of a request, and nothing else does: what the request says of itself in
//! `_meta`, and for HTTP the `MCP-Protocol-Version` header. A request of the stateless revision is
//! answered by any replica. A handshake opens a session where it can, which adds to what is served
//! without one: news of the list, cancellation by notification, and one run for all calls.
//!
//! * `protocol` reads one JSON-RPC message, `era` says which revision it speaks.
//! * `method` answers it; `pages` is `tools/list`, `call` is a `tools/call` while it runs, `listen`
//!   a subscription while it is open.
//! * `session` is what a handshake opens; `changes` notices that a caller's list has changed.
//! * `meta` are the three tools that a toolset can list in place of its own.
//! * `http` and `stdio` carry messages; they share everything above.
//! * `format` writes tools, `answer` writes messages around JSON that is already there, `error` is
//!   the one table of codes.
//!
//! The dialect is written on raw JSON: a list is the bytes that the gateway made once per view, and
//! a result is the upstream's own text.

mod answer;
mod call;
mod changes;
mod consent;
mod description;
mod era;
mod error;
mod format;
mod host;
mod http;
mod listen;
mod meta;
mod method;
mod pages;
mod param_headers;
mod progress;
mod protocol;
mod session;
mod stdio;

pub use stdio::{serve_stdio, serve_stdio_within};

use crate::dialect::Dialect;

pub(crate) const DIALECT: Dialect = Dialect {
    tags: &[("MCP", "Model Context Protocol over streamable HTTP")],
    mounts: http::mounts,
    routes: http::routes,
    description: description::document,
};

/// Reads `frame` as far as it is read before a tool is looked up.
#[cfg(fuzzing)]
pub(crate) fn fuzz(frame: &[u8]) {
    if let Ok(protocol::Message::Request(request)) = protocol::parse(frame) {
        let id: serde_json::Value =
            serde_json::from_str(request.id.as_json()).expect("an id is JSON");
        assert!(id.is_string() || id.is_i64() || id.is_u64());
        let answered = answer::result(&request.id, b"{}");
        serde_json::from_slice::<serde_json::Value>(answered.as_ref()).expect("an answer is JSON");
        era::detect(&request, None).ok();
    }
}
