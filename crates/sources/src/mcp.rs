//! MCP servers as sources, over stdio and streamable HTTP, in both eras of the protocol.
//!
//! The protocol code is our own: an existing typed client would drop fields it does not know,
//! reorder progress and give up a whole list for one bad tool. The wire format is in
//! `toolcrib_mcp`. From there upwards: `peer` routes messages; `stdio` and `http` are the two
//! transports of a `wire`; `negotiation` finds the `era`; `connection` is the interface for the
//! rest, and `sessions` has one for each account; `discover` and `result` read the answers; `watch` follows changed lists; `remainder`
//! counts the parts that are not offered; `supervise` keeps it all running.

mod call;
mod connection;
mod discover;
mod era;
mod failure;
mod http;
mod list_changes;
mod message;
mod negotiation;
mod part;
mod peer;
mod remainder;
mod result;
mod sessions;
mod source;
mod stdio;
mod supervise;
mod tool_call;
mod watch;
mod wire;

pub(crate) use self::{
    http::HttpTarget,
    source::McpSource,
    supervise::{Listing, Target},
};

/// Parses `frame` with every parser for an upstream's bytes.
#[cfg(fuzzing)]
pub(crate) fn fuzz(frame: &[u8]) {
    use serde_json::value::RawValue;
    use toolcrib_core::{
        call::{CallerInput, Reply},
        id::SourceId,
    };
    use toolcrib_mcp::message::{IncomingMessage, RpcError};

    let source = SourceId::parse("fuzz").expect("it is an id");
    let all = serde_json::json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    let mut anybody = CallerInput::declaring(all.as_object().expect("it is an object"));
    anybody.state = Some("again".to_owned());
    let (text, _) = message::decode(frame);
    let incoming = serde_json::from_str::<IncomingMessage<'_>>(&text).ok();
    let incoming = incoming.filter(|_| text.trim_ascii_start().starts_with('{'));
    let result = incoming.as_ref().and_then(|incoming| incoming.result);
    let error = incoming.as_ref().and_then(|incoming| incoming.error);
    if let Some(result) = result {
        discover::fuzz(result);
    }
    for (modern, input) in [(false, None), (true, None), (true, Some(&anybody))] {
        let result = result.map(|result| {
            let json = RawValue::to_owned(result);
            Ok(message::Reply::Result(message::RpcResult { json, problem: None }))
        });
        let error = error.map(|error| Ok(message::Reply::Error(RpcError::read(error))));
        let malformed = message::read_malformed(&text, "it is fuzzed");
        for answer in result.into_iter().chain(error).chain([malformed]) {
            let context = result::ReplyContext { source: &source, modern, input };
            match context.reply(answer, 1 << 16) {
                Ok(Reply::Done(outcome)) => {
                    let blocks: Vec<&RawValue> =
                        serde_json::from_str(outcome.content.get()).expect("content is a list");
                    assert!(blocks.iter().all(|block| block.get().starts_with('{')));
                }
                Ok(Reply::NeedsInput(_)) => assert!(input.is_some()),
                Err(_) => {}
            }
        }
    }
}
