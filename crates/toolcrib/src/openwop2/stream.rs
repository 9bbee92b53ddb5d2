//! `GET /runs/{runId}/events`: the events of a run, as server-sent events (events.md).
//!
//! The id of an event in the stream is its sequence, after which `Last-Event-ID` continues. The
//! stream ends when all calls and approvals of the run are closed.

use std::time::Duration;

use axum::response::{IntoResponse as _, Response, sse::Event};
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, Uri};
use serde_json::{Value, json};
use toolcrib_core::{event::RunEvent, id::TenantId};
use toolcrib_gateway::audit::RunFollower;

use super::{
    error::{Code, ErrorEnvelopeV2, Failure},
    events::{document, in_updates, name},
    request::Context,
};
use crate::{middleware::Segment, respond};

/// Maximum of `bufferMs`.
const MAX_BUFFER_MS: u64 = 5_000;

/// The requested part of the events, and its form.
struct Options {
    tenant: TenantId,
    updates: bool,
    debug: bool,
    /// How long events are collected into one frame.
    buffer: Option<Duration>,
    /// The sequence of the last event that the client has.
    after: Option<u64>,
}

/// Streams the events of a run of the caller, or of any run of its tenant with the scope
/// `audit:read`. The stream ends when no call and no approval of the run is open.
#[utoipa::path(
    get,
    path = "/runs/{runId}/events",
    operation_id = "streamRunEvents",
    params(
        ("runId" = String, Path, description = "The run id as one segment: `acme~2F0195…`"),
        ("streamMode" = Option<String>, Query, pattern = "^(updates|debug)(,(updates|debug))*$",
            description = "`updates` (default) for interrupts and approvals, `debug` for all events, or both"),
        ("bufferMs" = Option<u64>, Query, maximum = 5000,
            description = "Time in milliseconds to collect events into one frame `batch`"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Continues after the event with this sequence"),
    ),
    responses(
        (status = 200, description = "A stream of events", content_type = "text/event-stream", body = String),
        (status = 400, description = "The mode is not supported, or a parameter is invalid", body = ErrorEnvelopeV2),
        (status = 403, description = "The run id is bound to another tenant", body = ErrorEnvelopeV2),
        (status = 404, description = "Not found, or not visible to this caller", body = ErrorEnvelopeV2),
        (status = 429, description = "The limit on open streams is reached", body = ErrorEnvelopeV2),
    )
)]
pub(super) async fn events(
    context: Context,
    run: Segment,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let options = options(&context, &uri, &headers)?;
    let run = context.followed(context.run(&run)?).await?;
    let (gateway, caller) = (&context.gateway, &context.caller);
    let follower = gateway.audit().follow(gateway.authenticator(), caller, run);
    let follower = follower.map_err(|too_many| {
        let failure = Failure::new(Code::RateLimited, too_many, None).into_response();
        Failure::from(respond::with_retry_after(failure, Some(Duration::from_secs(1))))
    })?;
    let frames = stream::unfold((follower, options), next).map(stream::iter).flatten();
    Ok(respond::event_stream(frames))
}

/// Reads the options. The mode is checked before anything else of the request (events.md).
fn options(context: &Context, uri: &Uri, headers: &HeaderMap) -> Result<Options, Failure> {
    let modes = respond::query(uri.query(), "streamMode").unwrap_or_else(|| "updates".to_owned());
    let (mut updates, mut debug) = (false, false);
    for mode in modes.split(',') {
        match mode {
            "updates" => updates = true,
            "debug" => debug = true,
            _ => {
                let message = "the parameter `streamMode` names an unsupported mode";
                let supported = json!({ "supported": ["updates", "debug"] });
                return Err(Failure::new(Code::UnsupportedStreamMode, message, Some(supported)));
            }
        }
    }
    let buffer = match respond::query(uri.query(), "bufferMs").map(|text| text.parse::<u64>()) {
        None | Some(Ok(0)) => None,
        Some(Ok(ms @ 1..=MAX_BUFFER_MS)) => Some(Duration::from_millis(ms)),
        Some(_) => return Err(Failure::parameter("bufferMs", "must be a number from 0 to 5000")),
    };
    let after = match headers.get("last-event-id") {
        None => None,
        Some(value) => {
            let sequence = value.to_str().ok().and_then(|text| text.trim().parse().ok());
            let problem = "`Last-Event-ID` must be the id of an event of this stream, a number";
            Some(sequence.ok_or_else(|| Failure::invalid(problem, None))?)
        }
    };
    Ok(Options { tenant: context.caller.tenant.clone(), updates, debug, buffer, after })
}

async fn next(
    (mut follower, options): (RunFollower, Options),
) -> Option<(Vec<Event>, (RunFollower, Options))> {
    let mut events = follower.next().await?;
    if let Some(buffer) = options.buffer {
        let collect = async {
            while let Some(more) = follower.next().await {
                events.extend(more);
            }
        };
        // If the time expires during a read, the read is dropped and repeated, so no event is lost.
        drop(tokio::time::timeout(buffer, collect).await);
        // The caller may have lost the right to these events.
        if !follower.renew().await {
            return None;
        }
    }
    let wanted = events.iter().filter(|event| options.includes(event));
    let frames = match options.buffer {
        Some(_) => options.batch(&wanted.collect::<Vec<_>>()).into_iter().collect(),
        None => wanted.map(|event| options.frame(event)).collect(),
    };
    Some((frames, (follower, options)))
}

impl Options {
    fn includes(&self, event: &RunEvent) -> bool {
        let in_mode = self.debug || in_updates(&event.body);
        in_mode && self.after.is_none_or(|after| event.sequence > after)
    }

    fn frame(&self, event: &RunEvent) -> Event {
        // With two modes, a frame names the one of its event.
        let name = match (self.updates, self.debug, in_updates(&event.body)) {
            (true, true, true) => "updates".into(),
            (true, true, false) => "debug".into(),
            _ => name(&event.body),
        };
        let data = document(&self.tenant, event).to_string();
        Event::default().id(event.sequence.to_string()).event(name).data(data)
    }

    fn batch(&self, events: &[&RunEvent]) -> Option<Event> {
        let last = events.last()?;
        let documents: Value = events.iter().map(|event| document(&self.tenant, event)).collect();
        let data = documents.to_string();
        Some(Event::default().id(last.sequence.to_string()).event("batch").data(data))
    }
}
