//! Dispatches the methods. [`start`] lists all of them.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use toolcrib_core::catalog::Listing;
use toolcrib_mcp::{
    message::RpcError,
    method::{CALL_TOOL, DISCOVER, INITIALIZE, LIST_TOOLS, LISTEN, PING},
    revision::{self, Era},
};

use super::{
    answer,
    call::ToolCall,
    era, error,
    format::server_info,
    host::{Client, RequestContext},
    listen::Subscription,
    meta::{self, MetaToolOutcome},
    observe, pages,
    protocol::Request,
};

/// The way in which a request is answered.
pub(super) enum Step {
    /// The whole answer.
    Answer(Bytes),
    /// Run a tool first.
    Call(Box<ToolCall>),
    /// Stream notifications of changes.
    Listen(Box<Subscription>),
}

/// Instructions for people who inspect the server and for models that use it.
const INSTRUCTIONS: &str = "This server offers tools from several sources. You may call every \
     tool in the list. A call can exceed a limit or require approval; the error then says so.";

/// Starts to process `request`.
pub(super) fn start(
    context: RequestContext<'_>,
    era: Era,
    request: Request,
) -> Result<Step, RpcError> {
    let RequestContext { client, session, notifies_changes, .. } = context;
    observe::request(&request);
    let result = match (era, request.method.as_str()) {
        (_, CALL_TOOL) => {
            let call = ToolCall::read(context, era, request)?;
            let call = match meta::resolve(context, era, call)? {
                MetaToolOutcome::Call(call) => call,
                MetaToolOutcome::Answer(answer) => return Ok(Step::Answer(answer)),
            };
            return Ok(Step::Call(Box::new(match session {
                Some(session) => call.within(session),
                None => call,
            })));
        }
        (_, LIST_TOOLS) => {
            let page = pages::page(client, era, &request.params)?;
            if let (Era::Legacy, Some(session)) = (era, session) {
                session.known.put(page.digest);
            }
            page.result
        }
        (Era::Modern, LISTEN) => {
            return Subscription::read(context, request).map(Box::new).map(Step::Listen);
        }
        (Era::Legacy, INITIALIZE) => {
            Bytes::from(initialize(&request.params, notifies_changes, &instructions(client)))
        }
        (Era::Legacy, PING) => Bytes::from_static(b"{}"),
        (Era::Modern, DISCOVER) => Bytes::from(discover(&instructions(client))),
        (Era::Legacy | Era::Modern, _) => return Err(error::method_not_found()),
    };
    Ok(Step::Answer(answer::result(&request.id, &result).into()))
}

/// The instructions for the part of the catalog to which the client is connected.
fn instructions(client: &Client) -> String {
    let toolset = client.host.gateway.snapshot().toolset(&client.within);
    let mut words = INSTRUCTIONS.to_owned();
    if let Some(toolset) = toolset {
        if let Some(title) = &toolset.title {
            words.insert_str(0, &format!("{title}. "));
        }
        if toolset.listing == Listing::Search {
            words.push(' ');
            words.push_str(meta::INSTRUCTIONS);
        }
    }
    words
}

fn initialize(params: &Map<String, Value>, notifies_changes: bool, instructions: &str) -> String {
    let requested = params.get("protocolVersion").and_then(Value::as_str);
    json!({
        "protocolVersion": revision::negotiate(era::SERVED, requested),
        "capabilities": { "tools": match notifies_changes {
            true => json!({ "listChanged": true }),
            false => json!({}),
        } },
        "serverInfo": {
            "name": "toolcrib", "title": "toolcrib", "version": env!("CARGO_PKG_VERSION"),
        },
        "instructions": instructions,
    })
    .to_string()
}

/// `ttlMs` is a minute: the content changes only with the server's version or configuration.
fn discover(instructions: &str) -> String {
    format!(
        "{{\"resultType\":\"complete\",\"supportedVersions\":{},\"capabilities\":\
         {{\"tools\":{{\"listChanged\":true}}}},\
         \"instructions\":{},\"ttlMs\":60000,\"cacheScope\":\"private\",\"_meta\":{{{}}}}}",
        json!(era::SERVED),
        json!(instructions),
        server_info!(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_answers_are_json() {
        let discovered: Value = serde_json::from_str(&discover("\"")).unwrap();
        assert_eq!(discovered["supportedVersions"][0], "2026-07-28");
        assert_eq!(discovered["capabilities"], json!({ "tools": { "listChanged": true } }));
        let mut params = Map::new();
        params.insert("protocolVersion".to_owned(), json!("2025-06-18"));
        let initialized: Value =
            serde_json::from_str(&initialize(&params, false, INSTRUCTIONS)).unwrap();
        assert_eq!(initialized["capabilities"], json!({ "tools": {} }));
        assert_eq!(initialized["protocolVersion"], "2025-06-18");
        assert_eq!(initialized["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
