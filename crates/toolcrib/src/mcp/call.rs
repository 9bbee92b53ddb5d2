//! A `tools/call`: its parameters, and its messages while it runs.
//!
//! Invariant (I-22): a [`RunningCall`] owns the gateway's future, so dropping it cancels the call.
//! Invariant (I-28): every progress message comes before the response.

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::{Stream, stream};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{CallError, CallInput, CallerInput, Outcome, ProgressSink},
    catalog::Entry,
    id::RunId,
    scope::Scope,
};
use toolcrib_gateway::{
    CallReport, CallRequest, FoundTool, Snapshot, ToolRef, metrics::Surface, trace::TaskContext,
};
use toolcrib_mcp::{code, message::RpcError, meta as key, revision::Era};

use super::{
    answer, consent, era, error,
    host::{Client, RequestContext},
    observe,
    outgoing::OutgoingMessage,
    progress::ProgressQueue,
    protocol::{Id, Request},
    session::{ActiveRequest, Session},
};
use crate::{call_error, respond, serve::connection};

pub(super) const SURFACE: Surface = Surface::new("mcp", "Mcp");

/// A call that has not started.
pub(super) struct ToolCall {
    client: Client,
    /// The snapshot of the request (I-23).
    snapshot: Arc<Snapshot>,
    era: Era,
    pub(super) id: Id,
    /// The tool's wire name.
    pub(super) name: String,
    found: Option<FoundTool>,
    /// Whether the client called a meta tool instead of this tool.
    pub(super) is_indirect: bool,
    pub(super) arguments: Value,
    /// JSON text of the client's progress token.
    progress_token: Option<String>,
    meta: Map<String, Value>,
    /// The client's capabilities for input requests, and its responses to them.
    input: Option<CallerInput>,
    /// Whether the client can open a URL for its user.
    opens: bool,
    /// Whether the client reads structured content.
    reads_structured: bool,
    /// Its place in its session, if it has one.
    turn: Option<Arc<ActiveRequest>>,
}

/// A call that runs while its messages are polled.
pub(super) struct RunningCall {
    era: Era,
    id: Id,
    called: Option<Pin<Box<dyn Future<Output = CallReport> + Send>>>,
    ended: Option<CallReport>,
    progress: Option<(String, Arc<ProgressQueue>)>,
    opens: bool,
    reads_structured: bool,
    /// The answers and the state of a further round, for a client that can be prompted.
    round: Option<String>,
    turn: Option<Arc<ActiveRequest>>,
    /// Cancelled when the server is about to cut off its requests.
    closing: CancellationToken,
}

/// The response of a call.
pub(super) struct CallAnswer {
    /// A JSON-RPC response.
    pub(super) bytes: Bytes,
    /// The run with its events, unless the caller must not learn whether it exists.
    pub(super) run_id: Option<RunId>,
    pub(super) status: StatusCode,
    /// The value of `Retry-After`.
    pub(super) retry_after: Option<Duration>,
    /// The scopes that the tool requires, if the call was denied because the caller lacks one.
    pub(super) lacks: Option<Vec<Scope>>,
}

// === impl ToolCall ===

impl ToolCall {
    /// Parses the parameters of a `tools/call`.
    pub(super) fn read(
        context: RequestContext<'_>,
        era: Era,
        request: Request,
    ) -> Result<Self, RpcError> {
        let RequestContext { client, reads_structured, .. } = context;
        let Request { id, mut params, .. } = request;
        let progress_token = match era::meta(&params).and_then(|meta| meta.get(key::PROGRESS_TOKEN))
        {
            None => None,
            Some(token) => match Id::of(token) {
                Some(token) => Some(token.as_json().to_owned()),
                None => return Err(RpcError::invalid_params(BAD_TOKEN)),
            },
        };
        let meta = observe::members(&params);
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
            client: client.clone(),
            snapshot: client.host.gateway.snapshot(),
            era,
            id,
            name,
            found: None,
            is_indirect: false,
            arguments,
            progress_token,
            meta,
            input,
            opens,
            reads_structured,
            turn: None,
        })
    }

    /// Disables progress messages, for a client that reads only the response.
    pub(super) fn without_progress(mut self) -> Self {
        self.progress_token = None;
        self
    }

    /// Turns the call of a meta tool into the call of the tool `name`. Its client has not seen the
    /// tool's schema, so arguments need not be repeated in headers.
    pub(super) fn indirect(mut self, name: String, arguments: Value) -> Self {
        (self.name, self.arguments, self.is_indirect) = (name, arguments, true);
        self
    }

    /// Looks up the tool, once for the whole call. Returns it if the client sees it.
    pub(super) fn find(&mut self) -> Option<Arc<Entry>> {
        let Client { principal, within, .. } = &self.client;
        let tool = ToolRef::Wire(&self.name);
        let found = FoundTool::look_up(&self.snapshot, principal, tool, within);
        self.found.insert(found).entry().cloned()
    }

    /// Runs the call in `session`.
    pub(super) fn within(mut self, session: &Arc<Session>) -> Self {
        self.opens |= session.handshake.opens;
        self.turn = Some(Arc::new(session.begin(self.id.clone())));
        self
    }

    /// Starts the call, which runs while its messages are polled.
    pub(super) fn run(self) -> RunningCall {
        let turn = self.turn.clone();
        let round = self.input.as_ref().filter(|_| self.opens).and_then(consent::kept);
        let progress = self.progress_token.map(|token| (token, Arc::<ProgressQueue>::default()));
        let sink = progress.as_ref().map(|(_, queue)| Arc::clone(queue) as Arc<dyn ProgressSink>);
        let called = async move {
            let Client { host, principal, within } = self.client;
            let tool = ToolRef::Wire(&self.name);
            let input =
                CallInput { arguments: self.arguments, caller: self.input, meta: self.meta };
            let request = CallRequest {
                scope: within,
                found: self.found,
                progress: sink,
                ..CallRequest::new(self.snapshot, SURFACE, tool, input)
            };
            let report = match self.turn {
                Some(turn) => turn.call(&principal, request).await,
                None => host.gateway.call(&principal, request).await,
            };
            observe::called(&report);
            report
        };
        RunningCall {
            era: self.era,
            id: self.id,
            // A stream outlives the handler of its request.
            called: Some(TaskContext::carry(called)),
            ended: None,
            progress,
            opens: self.opens,
            reads_structured: self.reads_structured,
            round,
            turn,
            closing: connection::closing(),
        }
    }
}

// === impl RunningCall ===

impl RunningCall {
    pub(super) fn messages(
        self,
    ) -> impl Stream<Item = OutgoingMessage<CallAnswer>> + Send + 'static {
        stream::unfold(self, async |mut running| Some((running.next().await?, running)))
    }

    /// The next message; `None` after the response, and after a cancellation by the client, which
    /// gets no response. Cancel safe: dropping the future loses no message.
    pub(super) async fn next(&mut self) -> Option<OutgoingMessage<CallAnswer>> {
        loop {
            if let Some((token, queue)) = &self.progress
                && let Some(report) = queue.pop()
            {
                return Some(OutgoingMessage::Notification(
                    answer::progress(token, &report).into(),
                ));
            }
            if let Some(called) = self.ended.take() {
                return Some(OutgoingMessage::Answer(self.answer(called)));
            }
            let called = self.called.as_mut()?;
            tokio::select! {
                biased;
                () = wait(self.turn.as_deref().map(ActiveRequest::cancelled)) => {
                    self.called = None;
                    // The client waits for an answer if the session was closed, but not if it
                    // cancelled the request.
                    let ended = self.turn.as_deref().is_some_and(ActiveRequest::is_over);
                    return ended.then(|| OutgoingMessage::Answer(self.lost("the session is over")));
                }
                () = self.closing.cancelled() => {
                    self.called = None;
                    return Some(OutgoingMessage::Answer(self.lost("the server is shutting down")));
                }
                () = wait(self.progress.as_ref().map(|(_, queue)| queue.news())) => {}
                // Queued reports are still sent first, in the next iterations.
                called = called => {
                    self.called = None;
                    self.ended = Some(called);
                }
            }
        }
    }

    /// Answers a call that was cancelled for a reason unknown to its client.
    fn lost(&self, reason: &str) -> CallAnswer {
        let error = RpcError::new(code::INTERNAL, format!("{reason}; the call may have run"));
        CallAnswer {
            bytes: answer::error(Some(&self.id), &error).into(),
            run_id: None,
            status: error::status(&error, self.era),
            retry_after: None,
            lacks: None,
        }
    }

    fn result(&self, outcome: &Outcome, run: &RunId) -> Vec<u8> {
        answer::outcome(&self.id, self.era, outcome, run, self.reads_structured)
    }

    fn answer(&self, called: CallReport) -> CallAnswer {
        match &called.result {
            Ok(outcome) => CallAnswer {
                bytes: self.result(outcome, &called.run_id).into(),
                run_id: Some(called.run_id),
                status: StatusCode::OK,
                retry_after: outcome.retry_after,
                lacks: None,
            },
            Err(refused) => {
                let (run, round) = (&called.run_id, self.round.as_deref());
                let (bytes, rpc) =
                    answer::refusal(&self.id, self.era, refused, run, self.opens, round);
                if let (Era::Legacy, true, Some(turn), CallError::ConnectionRequired(required)) =
                    (self.era, self.opens, &self.turn, refused)
                    && let Some(id) = consent::connection_id(required)
                {
                    turn.note_connecting(required.source_id.clone(), id);
                }
                CallAnswer {
                    bytes: bytes.into(),
                    run_id: respond::visible_run(&called),
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

/// Waits for `event`; forever if it is `None`.
async fn wait(event: Option<impl Future<Output = ()>>) {
    match event {
        Some(event) => event.await,
        None => std::future::pending().await,
    }
}

/// Reads the client's capabilities for input requests, and its responses from an earlier round.
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

const BAD_TOKEN: &str = "`progressToken` must be an integer or a string of at most 254 bytes";
