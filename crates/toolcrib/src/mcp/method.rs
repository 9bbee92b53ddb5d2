//! What each method does. The whole surface is in [`start`].

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use toolcrib_core::principal::Principal;
use toolcrib_gateway::Gateway;

use super::{
    answer,
    call::ToolCall,
    era::{self, Era},
    error::RpcError,
    format::{LEGACY, MODERN, server_info},
    protocol::Request,
};

/// What becomes of a request.
pub(super) enum Step {
    /// The whole answer.
    Answer(Bytes),
    /// A tool has to run first.
    Call(ToolCall),
}

/// For people who look at the server and for models that use it.
const INSTRUCTIONS: &str = "Tools of several sources behind one gate. A tool that you see may be \
     called; a call can still be limited or need approval, and the answer then says so.";

/// Begins to answer `request`.
pub(super) fn start(
    gateway: &Gateway,
    principal: &Arc<Principal>,
    era: Era,
    request: Request,
) -> Result<Step, RpcError> {
    let result = match (era, request.method.as_str()) {
        (_, "tools/call") => {
            return ToolCall::read(gateway, principal, era, request).map(Step::Call);
        }
        (_, "tools/list") => {
            let format = match era {
                Era::Legacy => &LEGACY,
                Era::Modern => &MODERN,
            };
            no_cursor(&request.params)?;
            gateway.list(principal, format, None).bytes.clone()
        }
        (Era::Legacy, "initialize") => Bytes::from(initialize(&request.params)),
        (Era::Legacy, "ping") => Bytes::from_static(b"{}"),
        (Era::Modern, "server/discover") => Bytes::from(discover()),
        (Era::Legacy | Era::Modern, _) => return Err(RpcError::method_not_found()),
    };
    Ok(Step::Answer(answer::result(&request.id, &result).into()))
}

/// Every list is one page, so no cursor was ever handed out.
fn no_cursor(params: &Map<String, Value>) -> Result<(), RpcError> {
    match params.get("cursor") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(RpcError::invalid_params("the cursor is not one of this server's")),
    }
}

fn initialize(params: &Map<String, Value>) -> String {
    let requested = params.get("protocolVersion").and_then(Value::as_str);
    json!({
        "protocolVersion": era::negotiate(requested),
        "capabilities": { "tools": {} },
        "serverInfo": {
            "name": "toolcrib", "title": "toolcrib", "version": env!("CARGO_PKG_VERSION"),
        },
        "instructions": INSTRUCTIONS,
    })
    .to_string()
}

/// `ttlMs` is a minute: what this says changes only when the server is replaced.
fn discover() -> String {
    format!(
        "{{\"resultType\":\"complete\",\"supportedVersions\":{},\"capabilities\":{{\"tools\":{{}}}},\
         \"instructions\":{},\"ttlMs\":60000,\"cacheScope\":\"private\",\"_meta\":{{{}}}}}",
        json!(era::SUPPORTED),
        json!(INSTRUCTIONS),
        server_info!(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_answers_are_json() {
        let discovered: Value = serde_json::from_str(&discover()).unwrap();
        assert_eq!(discovered["supportedVersions"][0], "2026-07-28");
        assert_eq!(discovered["capabilities"], json!({ "tools": {} }));
        let mut params = Map::new();
        params.insert("protocolVersion".to_owned(), json!("2025-06-18"));
        let initialized: Value = serde_json::from_str(&initialize(&params)).unwrap();
        assert_eq!(initialized["protocolVersion"], "2025-06-18");
        assert_eq!(initialized["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn a_list_is_one_page() {
        let params = |cursor: Value| Map::from_iter([("cursor".to_owned(), cursor)]);
        assert!(no_cursor(&Map::new()).is_ok());
        for cursor in [json!(""), json!("next"), json!(7)] {
            assert!(no_cursor(&params(cursor)).is_err());
        }
    }
}
