//! A `tools/call`: what was asked, and the messages it gives while it runs.
//!
//! Invariant (I-22): a [`RunningCall`] owns the gateway's future, so dropping it cancels the call.
//! Invariant (I-28): every progress message comes before the answer.

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::{Map, Value};
use toolcrib_core::{
    call::{CallError, CallerInput, ProgressSink},
    id::RunId,
    principal::Principal,
    scope::Scope,
};
use toolcrib_gateway::{
    CallReport, CallRequest, CatalogScope, Gateway, Snapshot, ToolRef, metrics::Surface,
};
use toolcrib_mcp::{message::RpcError, meta as key, revision::Era};

use super::{
    answer, consent, era, error,
    progress::ProgressQueue,
    protocol::{Id, Request},
    session::{Session, Turn},
};
use crate::{call_error, respond};

/// A call that has not started.
pub(super) struct ToolCall {
    gateway: Gateway,
    /// The snapshot of the request (I-23).
    snapshot: Arc<Snapshot>,
    principal: Arc<Principal>,
    era: Era,
    id: Id,
    /// The tool's wire name.
    name: String,
    /// Where it is looked for.
    within: CatalogScope,
    /// Whether the client named a tool that stands for another.
    is_indirect: bool,
    arguments: Value,
    /// JSON text of the token for which the client wants to hear of progress.
    progress_token: Option<String>,
    meta: Map<String, Value>,
    /// What the client brings to be asked for more.
    input: Option<CallerInput>,
    /// Whether the client can send somebody to an address.
    opens: bool,
    /// Its part in the session that it belongs to.
    turn: Option<Arc<Turn>>,
}

/// A call that runs while its messages are awaited.
pub(super) struct RunningCall {
    era: Era,
    id: Id,
    called: Option<Pin<Box<dyn Future<Output = CallReport> + Send>>>,
    ended: Option<CallReport>,
    progress: Option<(String, Arc<ProgressQueue>)>,
    opens: bool,
    turn: Option<Arc<Turn>>,
}

/// What a call says.
pub(super) enum CallMessage {
    /// A notification; more follows.
    Progress(Bytes),
    /// The answer; nothing follows.
    Answer(CallAnswer),
}

/// How a call ended.
pub(super) struct CallAnswer {
    /// The message.
    pub(super) bytes: Bytes,
    /// The run that holds its events, unless the caller must not learn whether there is one.
    pub(super) run_id: Option<RunId>,
    /// The status over HTTP.
    pub(super) status: StatusCode,
    /// When to try again.
    pub(super) retry_after: Option<Duration>,
    /// The scopes without which there is no other answer.
    pub(super) lacks: Option<Vec<Scope>>,
}

/// Members of `_meta` that belong to a trace and travel on to the upstream.
const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];
/// Longest value of such a member, in bytes; W3C asks for 8 192 of baggage.
const MAX_TRACE: usize = 8_192;

// === impl ToolCall ===

impl ToolCall {
    /// Reads the parameters of a `tools/call`.
    pub(super) fn read(
        gateway: &Gateway,
        principal: &Arc<Principal>,
        within: &CatalogScope,
        era: Era,
        request: Request,
    ) -> Result<Self, RpcError> {
        let Request { id, mut params, .. } = request;
        let progress_token = match era::meta(&params).and_then(|meta| meta.get(key::PROGRESS_TOKEN))
        {
            None => None,
            Some(token) => match Id::of(token) {
                Some(token) => Some(token.as_json().to_owned()),
                None => return Err(RpcError::invalid_params(BAD_TOKEN)),
            },
        };
        let meta = trace(&params);
        let input = match era {
            Era::Modern => Some(input(&mut params)?),
            Era::Legacy => None,
        };
        let Some(Value::String(name)) = params.remove("name") else {
            return Err(RpcError::invalid_params("`name` must be a string"));
        };
        let arguments = match params.remove("arguments") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(arguments @ Value::Object(_)) => arguments,
            Some(_) => return Err(RpcError::invalid_params("`arguments` must be an object")),
        };
        let opens = input.as_ref().is_some_and(|input| consent::opens(&input.capabilities));
        Ok(Self {
            gateway: gateway.clone(),
            snapshot: gateway.snapshot(),
            principal: Arc::clone(principal),
            era,
            id,
            name,
            within: within.clone(),
            is_indirect: false,
            arguments,
            progress_token,
            meta,
            input,
            opens,
            turn: None,
        })
    }

    /// The snapshot of the request.
    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The arguments.
    pub(super) fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// The tool's wire name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whom to answer.
    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    /// For a client that reads nothing but the answer.
    pub(super) fn without_progress(mut self) -> Self {
        self.progress_token = None;
        self
    }

    /// The arguments, which are taken out.
    pub(super) fn take_arguments(&mut self) -> Value {
        self.arguments.take()
    }

    /// The call of another tool that this one stands for. Its client sees no schema that asks to
    /// repeat arguments in headers.
    pub(super) fn standing_for(mut self, name: String, arguments: Value) -> Self {
        (self.name, self.arguments, self.is_indirect) = (name, arguments, true);
        self
    }

    /// Whether the client named another tool, which this call was made of.
    pub(super) fn is_indirect(&self) -> bool {
        self.is_indirect
    }

    /// Makes it a part of a session.
    pub(super) fn within(mut self, session: &Arc<Session>) -> Self {
        self.opens |= session.opens();
        self.turn = Some(Arc::new(session.begin(self.id.clone())));
        self
    }

    /// Starts it; it runs while its messages are awaited.
    pub(super) fn run(self) -> RunningCall {
        let Self {
            gateway,
            snapshot,
            principal,
            era,
            id,
            name,
            within,
            is_indirect: _,
            arguments,
            progress_token,
            meta,
            input,
            opens,
            turn,
        } = self;
        let part = turn.clone();
        let progress = progress_token.map(|token| (token, Arc::new(ProgressQueue::default())));
        let sink = progress.as_ref().map(|(_, queue)| Arc::clone(queue) as Arc<dyn ProgressSink>);
        let called = async move {
            let tool = ToolRef::Wire(&name);
            let request = CallRequest {
                scope: within,
                progress: sink,
                meta,
                input,
                ..CallRequest::new(snapshot, Surface::Mcp, tool, arguments)
            };
            match part {
                Some(turn) => turn.call(&principal, request).await,
                None => gateway.call(&principal, request).await,
            }
        };
        RunningCall { era, id, called: Some(Box::pin(called)), ended: None, progress, opens, turn }
    }
}

// === impl RunningCall ===

impl RunningCall {
    /// The next message; `None` after the answer, and when the client has cancelled the call, which
    /// is then not answered. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<CallMessage> {
        loop {
            if let Some((token, queue)) = &self.progress
                && let Some(report) = queue.pop()
            {
                return Some(CallMessage::Progress(answer::progress(token, &report).into()));
            }
            if let Some(called) = self.ended.take() {
                return Some(CallMessage::Answer(self.answer(called)));
            }
            let called = self.called.as_mut()?;
            tokio::select! {
                biased;
                () = cancelled(self.turn.as_deref()) => {
                    self.called = None;
                    return None;
                }
                () = news(self.progress.as_ref()) => {}
                // What was reported until now is still said first, by the next round.
                called = called => {
                    self.called = None;
                    self.ended = Some(called);
                }
            }
        }
    }

    fn answer(&self, called: CallReport) -> CallAnswer {
        match &called.result {
            Ok(outcome) => CallAnswer {
                bytes: answer::outcome(&self.id, self.era, outcome, &called.run_id).into(),
                run_id: Some(called.run_id),
                status: StatusCode::OK,
                retry_after: None,
                lacks: None,
            },
            Err(refused) => {
                let (bytes, rpc) =
                    answer::refusal(&self.id, self.era, refused, &called.run_id, self.opens);
                CallAnswer {
                    bytes: bytes.into(),
                    run_id: respond::run_to_tell(&called),
                    status: rpc.as_ref().map_or(StatusCode::OK, |rpc| error::status(rpc, self.era)),
                    retry_after: call_error::retry_after(refused),
                    lacks: match refused {
                        CallError::Forbidden { required, .. } => Some(required.clone()),
                        _ => None,
                    },
                }
            }
        }
    }
}

async fn cancelled(turn: Option<&Turn>) {
    match turn {
        Some(turn) => turn.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn news(progress: Option<&(String, Arc<ProgressQueue>)>) {
    match progress {
        Some((_, queue)) => queue.news().await,
        None => std::future::pending().await,
    }
}

/// What a client of the stateless revision can be asked, and what it brings from an earlier round.
fn input(params: &mut Map<String, Value>) -> Result<CallerInput, RpcError> {
    let mut input = era::capabilities(params).map(CallerInput::declaring).unwrap_or_default();
    input.responses = match params.remove("inputResponses") {
        None => None,
        Some(Value::Object(responses)) => Some(responses),
        Some(_) => return Err(RpcError::invalid_params("`inputResponses` must be an object")),
    };
    input.state = match params.remove("requestState") {
        None => None,
        Some(Value::String(state)) => Some(state),
        Some(_) => return Err(RpcError::invalid_params("`requestState` must be a string")),
    };
    consent::forget(&mut input);
    Ok(input)
}

fn trace(params: &Map<String, Value>) -> Map<String, Value> {
    let Some(meta) = era::meta(params) else { return Map::new() };
    TRACE
        .into_iter()
        .filter_map(|key| Some((key, meta.get(key)?)))
        .filter(|(_, value)| value.as_str().is_some_and(|text| text.len() <= MAX_TRACE))
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect()
}

const BAD_TOKEN: &str = "`progressToken` must be an integer or a string of at most 254 bytes";
