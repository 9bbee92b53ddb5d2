//! MCP: the stateless revision 2026-07-28 and the handshake revisions, on one URL and over stdio.
//!
//! The era of a request depends on two things only: the version in its `_meta`, and for HTTP the
//! `MCP-Protocol-Version` header. Any replica can answer a request of the stateless revision. A
//! handshake opens a session where it can. A session adds notifications of list changes,
//! cancellation by notification, and one run for all calls.
//!
//! * `protocol` parses one JSON-RPC message, `era` determines its revision.
//! * `method` answers it; `pages` is `tools/list`, `call` is a running `tools/call`, `listen` an
//!   open subscription; `outgoing` is a message of the latter two.
//! * `session` is the state that a handshake creates; `changes` detects changes of a caller's list.
//! * `meta` has the three tools that a toolset can list instead of its tools.
//! * `http` and `stdio` are the transports; they share everything above.
//! * `format` serialises tools, `answer` wraps serialised JSON into messages, `error` is the one
//!   table of codes.
//!
//! The dialect passes raw JSON through. A list consists of bytes that the gateway serialised once
//! per view, and a result is the upstream's text.

mod answer;
mod call;
mod changes;
mod connected;
mod consent;
mod cursor;
mod description;
mod era;
mod error;
mod format;
mod host;
mod http;
mod listen;
mod meta;
mod method;
mod observe;
mod outgoing;
mod pages;
mod param_headers;
mod progress;
mod protocol;
mod session;
mod stdio;

pub use stdio::{serve_stdio, serve_stdio_within};

use crate::route_set::RouteSet;

pub(crate) const DIALECT: RouteSet = RouteSet {
    tags: &[("MCP", "Model Context Protocol over streamable HTTP")],
    surfaces: &[call::SURFACE],
    error: "",
    mounts: http::mounts,
    separate: false,
    routes: http::routes,
    description: description::document,
};

/// Parses `frame` up to the lookup of the tool.
#[cfg(fuzzing)]
pub(crate) fn fuzz(frame: &[u8]) {
    if let Ok(protocol::Message::Request(request)) = protocol::parse(frame) {
        let id: serde_json::Value =
            serde_json::from_str(request.id.as_json()).expect("an id is JSON");
        assert!(id.is_string() || id.is_number());
        let answered = answer::result(&request.id, b"{}");
        serde_json::from_slice::<serde_json::Value>(answered.as_ref()).expect("an answer is JSON");
        era::detect(&request, era::VersionHeader::Never).ok();
    }
}
