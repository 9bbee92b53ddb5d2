//! The session of a client of the handshake revisions.
//!
//! Invariant: if the server loses a session, for example by a restart, all waiting requests share
//! one new session, opened with the client's own handshake.

use std::{sync::Arc, time::Duration};

use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::json;
use toolcrib_mcp::{
    header,
    message::{self, IncomingMessage, RpcError},
    method,
};
use toolcrib_tasks::Backoff;

use super::{
    link::{Answer, Document, Link, Session, unavailable},
    message::Request,
};
use crate::client::endpoint::{Events, is_stream};

/// The pause before the stream of notifications is opened again.
const PAUSE: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(15));
/// Time limit for closing a session.
const FAREWELL: Duration = Duration::from_secs(5);

impl Link {
    /// Performs the client's handshake.
    pub(super) async fn open_session(&self, request: &Request) -> Result<(), RpcError> {
        let mut session = self.session.lock().await;
        let before = std::mem::take(&mut *session);
        self.end_session(&before).await;
        let (opened, answer) = self.handshake(request.body.as_slice().into()).await?;
        *session = opened;
        drop(session);
        self.pass_document(request, &answer).await
    }

    /// Replaces the session `lost`, unless another request has already replaced it.
    pub(super) async fn renew(&self, lost: &Session) -> Result<Session, RpcError> {
        let mut session = self.session.lock().await;
        if session.id != lost.id {
            return Ok(session.clone());
        }
        let (opened, answer) = self.handshake(Arc::clone(&lost.handshake)).await?;
        if opened.version.is_none() {
            return Err(answer.refusal());
        }
        let initialized = message::notification(method::INITIALIZED, &json!({}));
        self.post(opened.headers(), initialized).await?;
        tracing::info!("the server has lost the session; a new one is open");
        *session = opened.clone();
        drop(session);
        // The tools may have changed meanwhile.
        self.outbox.send(message::tools_changed()).await;
        Ok(opened)
    }

    /// Sends `initialize`. A response without a version opens no session.
    async fn handshake(&self, initialize: Arc<[u8]>) -> Result<(Session, Document), RpcError> {
        let response = self.post(HeaderMap::new(), initialize.to_vec()).await?;
        let id = response.headers().get(header::SESSION_ID).cloned();
        let status = response.status();
        let body = match Answer::read(response).await? {
            Answer::Document(_, body) => body,
            Answer::Stream(events) => first_answer(events).await?,
        };
        let answer = Document { status, body };
        let version = answer.version();
        let session = match version {
            Some(_) => Session { id, version, handshake: initialize },
            None => Session::default(),
        };
        Ok((session, answer))
    }

    /// Relays the notifications of the session, and reopens the stream whenever it closes. Stops if
    /// the server has no such stream.
    pub(super) async fn follow(&self) {
        let mut failures = 0;
        loop {
            let session = self.session.lock().await.clone();
            if session.id.is_none() {
                return;
            }
            match self.endpoint.send(Method::GET, session.headers(), Vec::new()).await {
                Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => return,
                Ok(response) if session.is_lost(&response) => {
                    failures += u64::from(self.renew(&session).await.is_err());
                }
                Ok(response) if is_stream(&response) => {
                    failures = 0;
                    self.relay(Events::new(response)).await;
                }
                Ok(_) | Err(_) => failures += 1,
            }
            tokio::time::sleep(PAUSE.jittered(failures.max(1))).await;
        }
    }

    async fn relay(&self, mut events: Events) {
        while let Ok(Some(messages)) = events.next().await {
            for message in messages {
                let incoming = serde_json::from_slice::<IncomingMessage<'_>>(&message);
                if incoming.is_ok_and(|incoming| incoming.method.is_some()) {
                    self.outbox.send(message).await;
                }
            }
        }
    }

    /// Closes the session at the server, if there is one.
    pub(super) async fn end_session(&self, session: &Session) {
        if session.id.is_some() {
            let ended = self.endpoint.send(Method::DELETE, session.headers(), Vec::new());
            // The server closes an abandoned session after a while.
            tokio::time::timeout(FAREWELL, ended).await.ok();
        }
    }
}

/// Reads a stream up to its answer.
async fn first_answer(mut events: Events) -> Result<Vec<u8>, RpcError> {
    while let Some(messages) = events.next().await.map_err(unavailable)? {
        for message in messages {
            let incoming = serde_json::from_slice::<IncomingMessage<'_>>(&message);
            if incoming.is_ok_and(|incoming| incoming.method.is_none()) {
                return Ok(message);
            }
        }
    }
    Err(unavailable("the server closed the handshake without a response"))
}
