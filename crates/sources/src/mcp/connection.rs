//! One negotiated connection, whatever carries it.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::Map;
use tokio::sync::Notify;
use toolcrib_core::{
    call::{Invocation, UpstreamError},
    schema::Schema,
};
use toolcrib_mcp::{message, method, param_header};

use super::{
    call::{Call, Failure},
    message::{CallParams, ListParams, Reply},
    negotiation::{Session, initialize},
    peer::Interest,
    wire::Wire,
};
use crate::error::unavailable;

/// A connection that requests can be sent on.
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    pub(crate) session: Session,
    pub(crate) list_changed: Arc<Notify>,
    renewing: tokio::sync::Mutex<()>,
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new(wire: Wire, session: Session, list_changed: Arc<Notify>) -> Self {
        Self { wire, session, list_changed, renewing: tokio::sync::Mutex::default() }
    }

    /// Whether calls repeat annotated arguments in HTTP headers.
    pub(crate) fn repeats_arguments_in_headers(&self) -> bool {
        matches!(self.wire, Wire::Http(_)) && self.session.era.is_modern()
    }

    /// Requests one page of the tool list.
    pub(crate) async fn list_tools(&self, cursor: Option<&str>) -> Result<Reply, UpstreamError> {
        let era = &self.session.era;
        let encode = |id| {
            let nothing = Map::new();
            let meta = era.meta(&nothing, None);
            message::request(id, method::LIST_TOOLS, &ListParams { cursor, meta })
        };
        let call = Call { cancellable: true, ..Call::plain(method::LIST_TOOLS, era, &encode) };
        self.request(&call).await
    }

    /// Calls a tool by its upstream name. `schema` is the tool's input schema.
    pub(crate) async fn call_tool(
        &self,
        name: &str,
        schema: Option<&Schema>,
        invocation: &Invocation,
    ) -> Result<Reply, UpstreamError> {
        let era = &self.session.era;
        let arguments = &invocation.arguments;
        // The handshake era has no such members.
        let input = invocation.input.as_ref().filter(|_| era.is_modern());
        let responses = input.and_then(|input| input.responses.as_ref());
        let state = input.and_then(|input| input.state.as_deref());
        let encode = |id| {
            let meta = era.meta(&invocation.meta, Some(id)).declaring(input);
            let params = CallParams { name, arguments, responses, state, meta };
            message::request(id, method::CALL_TOOL, &params)
        };
        let headers = match schema {
            // Few schemas have the keyword, so few are parsed for a call.
            Some(schema)
                if self.repeats_arguments_in_headers()
                    && schema.as_str().contains(param_header::KEYWORD) =>
            {
                param_header::headers(&schema.to_object(), arguments)
            }
            _ => HeaderMap::new(),
        };
        let call = Call {
            name: Some(name),
            headers,
            interest: Interest { progress: invocation.progress.clone(), acknowledged: None },
            cancellable: true,
            egress: invocation.egress.clone(),
            ..Call::plain(method::CALL_TOOL, era, &encode)
        };
        self.request(&call).await
    }

    /// Sends a request, and repeats it with a new session if the old one has expired.
    pub(crate) async fn request(&self, call: &Call<'_>) -> Result<Reply, UpstreamError> {
        let before = match &self.wire {
            Wire::Http(http) => Some((http, http.session())),
            Wire::Stdio(_) => None,
        };
        let failure = match self.wire.request(call).await {
            Ok(reply) => return Ok(reply),
            Err(failure) => failure,
        };
        let (Failure::SessionExpired, Some((http, expired))) = (&failure, before) else {
            return Err(failure.into());
        };
        let one_at_a_time = self.renewing.lock().await;
        if http.session() == expired {
            if let Err(reason) = initialize(&self.wire).await {
                http.end.set(reason.clone()).ok();
                return Err(unavailable(format!(
                    "the session expired and no new one could be had: {reason}"
                )));
            }
            // An upstream that lost the session may have other tools, too.
            self.list_changed.notify_one();
        }
        drop(one_at_a_time);
        Ok(self.wire.request(call).await?)
    }
}
