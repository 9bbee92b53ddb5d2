//! The state of a bridge: the server, its session, and the forms of responses.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use reqwest::{
    Method, Response, StatusCode,
    header::{HeaderMap, HeaderValue},
};
use serde_json::{Map, Value, value::RawValue};
use tokio::sync::Mutex;
use toolcrib_mcp::{
    code, header,
    message::{IncomingMessage, RpcError},
    revision::LATEST_LEGACY,
};

use super::{message::header_value, outbox::Outbox};
use crate::client::endpoint::{Endpoint, Events, document, is_stream};

/// The state that the requests of one client share.
pub(super) struct Link {
    pub(super) endpoint: Endpoint,
    pub(super) outbox: Outbox,
    pub(super) session: Mutex<Session>,
    /// The input schemas of tools with arguments that headers repeat, by name.
    pub(super) marked: Mutex<HashMap<String, Map<String, Value>>>,
}

/// The body of a response.
pub(super) enum Answer {
    Document(StatusCode, Vec<u8>),
    Stream(Events),
}

/// A session of the server. The default is no session.
#[derive(Clone, Default)]
pub(super) struct Session {
    pub(super) id: Option<HeaderValue>,
    pub(super) version: Option<HeaderValue>,
    /// The request that opened it.
    pub(super) handshake: Arc<[u8]>,
}

impl Session {
    pub(super) fn headers(&self) -> HeaderMap {
        let values = [(header::SESSION_ID, &self.id), (header::PROTOCOL_VERSION, &self.version)];
        values.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }

    pub(super) fn is_lost(&self, response: &Response) -> bool {
        self.id.is_some() && response.status() == StatusCode::NOT_FOUND
    }
}

/// A response of one document.
pub(super) struct Document {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

impl Document {
    /// The revision that the answer to a handshake chooses; `None` if the answer is an error.
    pub(super) fn version(&self) -> Option<HeaderValue> {
        let incoming: IncomingMessage<'_> = serde_json::from_slice(&self.body).ok()?;
        let result: Value = serde_json::from_str(incoming.result.map(RawValue::get)?).ok()?;
        let version = result.get("protocolVersion").and_then(Value::as_str);
        header_value(version.unwrap_or(LATEST_LEGACY))
    }

    /// The error of a refused handshake.
    pub(super) fn refusal(&self) -> RpcError {
        let incoming = serde_json::from_slice::<IncomingMessage<'_>>(&self.body).ok();
        match incoming.and_then(|incoming| incoming.error) {
            Some(error) => RpcError::read(error),
            None => unavailable("the server has lost the session and opened no new one"),
        }
    }
}

/// The error for a request that the server has not answered.
pub(super) fn unavailable(reason: impl Into<Cow<'static, str>>) -> RpcError {
    RpcError::new(code::INTERNAL, reason)
}

impl Answer {
    pub(super) async fn read(response: Response) -> Result<Self, RpcError> {
        if is_stream(&response) {
            return Ok(Self::Stream(Events::new(response)));
        }
        let status = response.status();
        Ok(Self::Document(status, document(response).await.map_err(unavailable)?))
    }
}

impl Link {
    pub(super) fn new(endpoint: Endpoint, outbox: Outbox) -> Self {
        Self { endpoint, outbox, session: Mutex::default(), marked: Mutex::default() }
    }

    pub(super) async fn post(
        &self,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response, RpcError> {
        self.endpoint.send(Method::POST, headers, body).await.map_err(unavailable)
    }
}
