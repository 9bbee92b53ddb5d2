//! MCP servers as sources, over stdio and streamable HTTP, in both eras of the protocol.
//!
//! The protocol code is our own: an existing typed client would drop fields it does not know,
//! reorder progress and give up a whole list for one bad tool. From the wire upwards: `lines`, `scan`
//! and `sse` cut byte streams into bounded messages; `peer` routes them; `stdio` and `http` are the
//! two transports; `era` negotiates; `connection` is what the rest talks to; `discover` and `result`
//! read what comes back; `watch` hears of changed lists; `supervise` keeps it all running.

mod connection;
mod discover;
mod ending;
mod era;
mod headers;
mod http;
mod lines;
mod message;
mod peer;
mod result;
mod scan;
mod source;
mod sse;
mod status;
mod stdio;
mod supervise;
mod watch;

pub(crate) use source::McpSource;
use toolcrib_core::source::StdioSpec;

use crate::egress::{Egress, Endpoint};

/// Where a source's upstream is.
pub(crate) enum Target {
    /// A program to start.
    Stdio(StdioSpec),
    /// A URL to post to.
    Http { endpoint: Endpoint, egress: Egress },
}
