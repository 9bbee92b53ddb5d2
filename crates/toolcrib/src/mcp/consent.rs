//! Calls that require a person's approval, or an account that the user connects, for clients that can
//! open a URL for their user (elicitation of mode `url`).
//!
//! Invariant (I-15): a client's response to this prompt does not grant the call. The prompt shows
//! the user where the request for approval is; another person approves it there, and a retry of the
//! same call then succeeds. An account is connected by the user alone, signed in at that address.
//!
//! A client repeats a prompted call with only its response and the state of the prompt. So the
//! state of a prompt carries the answers and the state of the round that led to it, and the repeated call is the same call. The state is not protected, because the client could have
//! sent its content itself.

use serde_json::{Map, Value, json};
use toolcrib_core::{
    call::{
        CallError, CallerInput, ConnectionRequired, InputRequired, PendingApproval, Round, raw,
    },
    canonical::Digest,
};
use toolcrib_mcp::{code, message::RpcError, method::ELICIT, revision::Era};

/// The keys of this server's requests among the input requests of a round.
const APPROVAL: &str = "toolcrib.approval";
const CONNECTION: &str = "toolcrib.connection";
/// The prefix of the state of a prompt.
const STATE: &str = "toolcrib.approval:";

/// The form of the prompt.
pub(super) enum Prompt {
    /// As a round of the call (2026-07-28).
    Round(Box<InputRequired>),
    /// As an error (2025-11-25).
    Error(RpcError),
}

/// Builds a prompt to open the URL of the approval or of the connection that `error` asks for, if it
/// has one. `round` has the answers and the state of the call ([`kept`]).
pub(super) fn prompt(error: &CallError, era: Era, round: Option<&str>) -> Option<Prompt> {
    let (key, request) = match error {
        CallError::ApprovalRequired { pending: Some(pending), .. } => {
            (APPROVAL, approval(pending)?)
        }
        CallError::ConnectionRequired(required) => (CONNECTION, connection(required)?),
        _ => return None,
    };
    Some(match era {
        Era::Modern => {
            let requests = raw(&json!({ key: { "method": ELICIT, "params": request } }));
            let able = json!({ "elicitation": { "url": {} } });
            let caller = able.as_object().map(CallerInput::declaring);
            let state = round.map(|round| raw(&json!(format!("{STATE}{round}"))));
            let state = state.as_deref();
            let input = InputRequired::read(Some(&requests), state, caller.as_ref()).ok()?;
            Prompt::Round(Box::new(input))
        }
        Era::Legacy => Prompt::Error(
            RpcError::new(code::URL_ELICITATION, error.words())
                .with_data(json!({ "elicitations": [request] })),
        ),
    })
}

fn approval(pending: &PendingApproval) -> Option<Value> {
    let link = pending.link.as_ref()?;
    Some(json!({
        "mode": "url",
        "elicitationId": pending.approval,
        "url": link,
        "message": "This call requires a person's approval. Retry it after the approval.",
    }))
}

fn connection(required: &ConnectionRequired) -> Option<Value> {
    let link = required.link.as_ref()?;
    Some(json!({
        "mode": "url",
        "elicitationId": connection_id(required)?,
        "url": link.expose(),
        "message": format!("{required}. Retry the call afterwards."),
    }))
}

/// The id of the prompt to connect an account. It does not reveal the link.
pub(super) fn connection_id(required: &ConnectionRequired) -> Option<String> {
    let link = required.link.as_ref()?;
    Some(Digest::of(link.expose().as_bytes()).to_string())
}

/// Whether a client that declared `capabilities` can open a URL.
pub(super) fn opens(capabilities: &Map<String, Value>) -> bool {
    let modes = capabilities.get("elicitation").and_then(Value::as_object);
    modes.is_some_and(|modes| modes.get("url").is_some_and(Value::is_object))
}

/// Writes the answers and the state of a further round as JSON; `None` for a first round.
pub(super) fn kept(input: &CallerInput) -> Option<String> {
    input.round().map(|Round { responses, state }| json!([responses, state]).to_string())
}

/// Removes the responses to this server's requests, which the tool must not get, and restores the
/// answers and the state that its prompt carried.
pub(super) fn forget(input: &mut CallerInput) {
    if let Some(responses) = &mut input.responses {
        // Only an approval is worth a wait of the repeated call.
        input.is_repeated |= responses.remove(APPROVAL).is_some();
        responses.remove(CONNECTION);
        if responses.is_empty() {
            input.responses = None;
        }
    }
    let round = input.state.as_deref().and_then(|state| state.strip_prefix(STATE));
    let Some(round) = round else { return };
    type EarlierRound = (Option<Map<String, Value>>, Option<String>);
    // A state without the form of this server's prompts belongs to the tool.
    let Ok((responses, state)) = serde_json::from_str::<EarlierRound>(round) else { return };
    input.state = state;
    input.responses = match (input.responses.take(), responses) {
        (Some(newer), Some(mut kept)) => {
            kept.extend(newer);
            Some(kept)
        }
        (newer, kept) => newer.or(kept),
    };
}
