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
mod stdio;
mod supervise;
mod watch;

pub(crate) use source::McpSource;
use toolcrib_core::source::StdioSpec;

use std::sync::Arc;

use crate::{
    credential::SourceCredential,
    egress::{Egress, Endpoint},
    exec::Launcher,
};

/// Where a source's upstream is.
pub(crate) enum Target {
    /// A program to start, and what starts it.
    Stdio(StdioSpec, Option<Launcher>),
    /// A URL to post to.
    Http { endpoint: Endpoint, egress: Egress, credential: Option<Arc<SourceCredential>> },
}

/// Reads `frame` in every way in which an upstream's bytes are read.
#[cfg(fuzzing)]
pub(crate) fn fuzz(frame: &[u8]) {
    use serde_json::value::RawValue;
    use toolcrib_core::{call::CallerInput, id::SourceId};

    let mut whole = Vec::new();
    let mut parser = sse::SseParser::new(1 << 16);
    parser.push(frame, &mut |event| whole.push(event.to_vec())).ok();
    let mut pieces = Vec::new();
    let mut parser = sse::SseParser::new(1 << 16);
    for piece in frame.chunks(3) {
        if parser.push(piece, &mut |event| pieces.push(event.to_vec())).is_err() {
            break;
        }
    }
    if frame.len() < 1 << 16 {
        assert_eq!(whole, pieces, "how a stream is cut changes nothing");
    }
    let mut scan = scan::IdScan::default();
    scan.feed(frame);
    let scanned = scan.finish();
    if !frame.trim_ascii_start().starts_with(b"{") {
        return;
    }
    let Ok(incoming) = serde_json::from_slice::<message::Incoming<'_>>(frame) else { return };
    // Of a message without a key twice, the scanner finds what the parser finds.
    if toolcrib_core::json::parse_strict(frame).is_ok()
        && let Some(id) = incoming.id.and_then(message::own_id)
    {
        assert_eq!(scanned.id, Some(id));
    }
    let source = SourceId::parse("fuzz").expect("it is an id");
    let all = serde_json::json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    let mut anybody = CallerInput::declaring(all.as_object().expect("it is an object"));
    anybody.state = Some("again".to_owned());
    let asked = |modern, input| result::Asked { source: &source, modern, input };
    if let Some(result) = incoming.result {
        discover::fuzz(result);
        for (modern, input) in [(false, None), (true, None), (true, Some(&anybody))] {
            let reply = message::Reply::Result(RawValue::to_owned(result));
            match asked(modern, input).outcome(&reply, 1 << 16) {
                Ok(outcome) => {
                    let blocks: Vec<&RawValue> =
                        serde_json::from_str(outcome.content.get()).expect("content is a list");
                    assert!(blocks.iter().all(|block| block.get().starts_with('{')));
                }
                Err(error) => assert!(error.ask.is_none() || input.is_some()),
            }
        }
    }
    if let Some(error) = incoming.error {
        for input in [None, Some(&anybody)] {
            let reply = message::Reply::Error(message::RpcError::read(error));
            asked(true, input).outcome(&reply, 1 << 16).ok();
        }
    }
}
