//! Calls that wait for a human's consent, for clients that can send somebody to an address
//! (elicitation of mode `url`).
//!
//! Invariant (I-15): what a client answers to this grants nothing. It tells the person where to look;
//! consent is given there, by somebody else, and the same call made again finds it.

use serde_json::{Map, Value, json};
use toolcrib_core::call::{Asked, CallError, CallerInput, InputRequired, raw};
use toolcrib_mcp::{
    code,
    message::RpcError,
    method::ELICIT,
    revision::{Era, LATEST_LEGACY},
};

/// The key of our request among those of a round.
const KEY: &str = "toolcrib.approval";

/// How a client is told where to go.
pub(super) enum Told {
    /// As a round of the call (2026-07-28).
    Round(Box<InputRequired>),
    /// As an error (2025-11-25).
    Error(RpcError),
}

/// Where the client should send somebody, when `error` says that a human was asked and there is a
/// place to look at it.
pub(super) fn asked(error: &CallError, era: Era) -> Option<Told> {
    let CallError::ApprovalRequired { asked: Some(asked), .. } = error else { return None };
    let request = request(asked)?;
    Some(match era {
        Era::Modern => {
            let requests = raw(&json!({ KEY: { "method": ELICIT, "params": request } }));
            let able = json!({ "elicitation": { "url": {} } });
            let caller = able.as_object().map(CallerInput::declaring);
            let input = InputRequired::read(Some(&requests), None, caller.as_ref()).ok()?;
            Told::Round(Box::new(input))
        }
        Era::Legacy => Told::Error(
            RpcError::new(code::URL_ELICITATION, error.words())
                .with_data(json!({ "elicitations": [request] })),
        ),
    })
}

fn request(asked: &Asked) -> Option<Value> {
    let link = asked.link.as_ref()?;
    Some(json!({
        "mode": "url",
        "elicitationId": asked.approval,
        "url": link,
        "message": "this call runs only with a person's consent; make it again once that is given",
    }))
}

/// Whether a client that declared `capabilities` can send somebody to an address.
pub(super) fn opens(capabilities: &Map<String, Value>) -> bool {
    let modes = capabilities.get("elicitation").and_then(Value::as_object);
    modes.is_some_and(|modes| modes.get("url").is_some_and(Value::is_object))
}

/// The same of a handshake with `params`; the revisions before 2025-11-25 know no addresses.
pub(super) fn opens_by_handshake(params: &Map<String, Value>) -> bool {
    let version = params.get("protocolVersion").and_then(Value::as_str);
    let capabilities = params.get("capabilities").and_then(Value::as_object);
    version == Some(LATEST_LEGACY) && capabilities.is_some_and(opens)
}

/// Takes the answer to our own request out of a round: it is no tool's business.
pub(super) fn forget(input: &mut CallerInput) {
    if let Some(responses) = &mut input.responses
        && responses.remove(KEY).is_some()
        && responses.is_empty()
    {
        input.responses = None;
    }
}
