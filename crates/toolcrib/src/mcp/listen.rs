//! `subscriptions/listen`: notifies a client of the stateless revision of changes.
//!
//! Invariant: the acknowledgement is the first message, every message names the subscription, and
//! the response to the request is the last message.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolcrib_gateway::listeners::ListenerPermit;
use toolcrib_mcp::{message::RpcError, meta::SUBSCRIPTION_ID, method, revision::Era};

use super::{
    answer,
    changes::{ListWatch, WatchEnd},
    error,
    format::server_info,
    host::RequestContext,
    outgoing::OutgoingMessage,
    protocol::{Id, Request},
};

/// An open subscription.
pub(super) struct Subscription {
    id: Id,
    /// Whether the client wants changes of the list of tools, the only supported notifications.
    tools: bool,
    watch: ListWatch,
    phase: Phase,
    _permit: ListenerPermit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Accepted,
    Listening,
    Over,
}

impl Subscription {
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
        let client = context.client;
        let Some(permit) = client.host.subscribe(&client.principal) else {
            return Err(error::too_many("too many subscriptions are open; close one first"));
        };
        let watch = ListWatch::new(client, Era::Modern, Arc::default());
        Ok(Self { id, tools, watch, phase: Phase::Accepted, _permit: permit })
    }

    /// The messages; `stop` triggers the response.
    pub(super) fn messages(
        self,
        stop: CancellationToken,
    ) -> impl Stream<Item = OutgoingMessage<Bytes>> + Send + 'static {
        stream::unfold((self, stop), async |(mut listen, stop)| {
            Some((listen.next(&stop).await?, (listen, stop)))
        })
    }

    /// The next message; `None` after the response. Cancel safe: dropping the future loses no
    /// message.
    async fn next(&mut self, stop: &CancellationToken) -> Option<OutgoingMessage<Bytes>> {
        match self.phase {
            Phase::Accepted => {
                self.phase = Phase::Listening;
                return Some(OutgoingMessage::Notification(self.acknowledged()));
            }
            Phase::Listening => {}
            Phase::Over => return None,
        }
        loop {
            let ended = tokio::select! {
                () = stop.cancelled() => WatchEnd::Closing,
                changed = self.watch.changed() => match changed {
                    Ok(()) if self.tools => {
                        return Some(OutgoingMessage::Notification(self.notification(method::TOOLS_CHANGED, "")));
                    }
                    Ok(()) => continue,
                    Err(ended) => ended,
                },
            };
            self.phase = Phase::Over;
            return Some(OutgoingMessage::Answer(match ended {
                WatchEnd::Closing => self.complete(),
                WatchEnd::Refused => {
                    answer::error(Some(&self.id), &error::unauthenticated()).into()
                }
            }));
        }
    }

    fn acknowledged(&self) -> Bytes {
        let accepted = if self.tools { "\"toolsListChanged\":true" } else { "" };
        let params = format!("\"notifications\":{{{accepted}}},");
        self.notification(method::ACKNOWLEDGED, &params)
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
