//! `subscriptions/listen`: notifies a client of the stateless revision of changes.
//!
//! Invariant: the acknowledgement is the first message, every message names the subscription, and
//! the response to the request is the last message.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolcrib_mcp::{message::RpcError, meta::SUBSCRIPTION_ID, method, revision::Era};

use super::{
    answer,
    changes::{Ended, ListWatch},
    error,
    format::server_info,
    host::{Place, RequestContext},
    protocol::{Id, Request},
};

/// An open subscription.
pub(super) struct Listen {
    id: Id,
    /// Whether the client wants changes of the list of tools, the only supported notifications.
    tools: bool,
    watch: ListWatch,
    phase: Phase,
    _place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Accepted,
    Listening,
    Over,
}

/// A message of a subscription.
pub(super) enum ListenMessage {
    /// A notification; more follows.
    Notification(Bytes),
    /// The response; the last message.
    Answer(Bytes),
}

impl ListenMessage {
    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Self::Notification(bytes) | Self::Answer(bytes) => bytes,
        }
    }
}

impl Listen {
    /// Parses the parameters of a `subscriptions/listen`.
    pub(super) fn read(context: RequestContext<'_>, request: Request) -> Result<Self, RpcError> {
        let Request { id, params, .. } = request;
        let Some(Value::Object(wanted)) = params.get("notifications") else {
            return Err(RpcError::invalid_params("`notifications` must be an object"));
        };
        let tools = match wanted.get("toolsListChanged") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(tools)) => *tools,
            Some(_) => {
                return Err(RpcError::invalid_params("`toolsListChanged` must be a boolean"));
            }
        };
        let Some(place) = context.host.place(context.principal) else {
            return Err(error::too_many("too many subscriptions are open; close one first"));
        };
        let watch = ListWatch::new(
            context.host,
            context.principal,
            context.within,
            Era::Modern,
            Arc::default(),
        );
        Ok(Self { id, tools, watch, phase: Phase::Accepted, _place: place })
    }

    /// Returns the id of the request.
    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    /// Returns the next message; `None` after the response, which `stop` triggers. Cancel safe:
    /// dropping the future loses nothing.
    pub(super) async fn next(&mut self, stop: &CancellationToken) -> Option<ListenMessage> {
        match self.phase {
            Phase::Accepted => {
                self.phase = Phase::Listening;
                return Some(ListenMessage::Notification(self.acknowledged()));
            }
            Phase::Listening => {}
            Phase::Over => return None,
        }
        loop {
            let ended = tokio::select! {
                () = stop.cancelled() => Ended::Closing,
                changed = self.watch.changed() => match changed {
                    Ok(()) if self.tools => {
                        return Some(ListenMessage::Notification(self.changed()));
                    }
                    Ok(()) => continue,
                    Err(ended) => ended,
                },
            };
            self.phase = Phase::Over;
            return Some(ListenMessage::Answer(match ended {
                Ended::Closing => self.complete(),
                Ended::Refused => answer::error(Some(&self.id), &error::unauthenticated()).into(),
            }));
        }
    }

    fn acknowledged(&self) -> Bytes {
        let honoured = if self.tools { "\"toolsListChanged\":true" } else { "" };
        let params = format!("\"notifications\":{{{honoured}}},");
        self.notification(method::ACKNOWLEDGED, &params)
    }

    fn changed(&self) -> Bytes {
        self.notification(method::TOOLS_CHANGED, "")
    }

    fn notification(&self, method: &str, params: &str) -> Bytes {
        let id = self.id.as_json();
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{{params}\"_meta\":{{\"{SUBSCRIPTION_ID}\":{id}}}}}}}"
        )
        .into()
    }

    fn complete(&self) -> Bytes {
        let id = self.id.as_json();
        let result = format!(
            "{{\"resultType\":\"complete\",\"_meta\":{{\"{SUBSCRIPTION_ID}\":{id},{}}}}}",
            server_info!()
        );
        answer::result(&self.id, result.as_bytes()).into()
    }
}
