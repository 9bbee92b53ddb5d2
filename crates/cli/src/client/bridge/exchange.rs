//! One request: its POST, and the messages that answer it.
//!
//! Invariant: each request that is not cancelled gets one answer: that of the server, or an error.

use std::collections::HashMap;

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use toolcrib_mcp::{
    code,
    message::{self, IncomingMessage, RpcError},
    meta, method, param_header,
    revision::Era,
};

use super::{
    link::{Answer, Document, Link, unavailable},
    message::{Message, Request},
};

/// The most pages of a list of tools.
const MAX_PAGES: usize = 1_000;

/// A page of the list of tools.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: Vec<BridgedTool>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BridgedTool {
    name: String,
    #[serde(default)]
    input_schema: Map<String, Value>,
}

impl Link {
    /// Forwards `request`, and writes its answer.
    pub(super) async fn answer(&self, request: &Request) {
        let answered = match request.era {
            Era::Modern => self.stateless(request).await,
            Era::Legacy if *request.method == *method::INITIALIZE => {
                self.open_session(request).await
            }
            Era::Legacy => self.in_session(request).await,
        };
        if let Err(error) = answered {
            self.outbox.reject(Some(&request.id), &error).await;
        }
    }

    /// Posts a message that has no answer.
    pub(super) async fn notify(&self, body: Vec<u8>) {
        let session = self.session.lock().await.clone();
        match self.post(session.headers(), body.clone()).await {
            Ok(response) if session.is_lost(&response) => {
                if let Ok(session) = self.renew(&session).await {
                    self.post(session.headers(), body).await.ok();
                }
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(error = %error.message, "a notification was lost"),
        }
    }

    async fn in_session(&self, request: &Request) -> Result<(), RpcError> {
        let session = self.session.lock().await.clone();
        let mut response = self.post(session.headers(), request.body.clone()).await?;
        if session.is_lost(&response) {
            // The server did not run it.
            let renewed = self.renew(&session).await?;
            response = self.post(renewed.headers(), request.body.clone()).await?;
        }
        self.pass(request, Answer::read(response).await?).await
    }

    async fn stateless(&self, request: &Request) -> Result<(), RpcError> {
        let mut answer = self.send_stateless(request).await?;
        if let Answer::Document(StatusCode::BAD_REQUEST, body) = &answer
            && *request.method == *method::CALL_TOOL
            && is_header_mismatch(body)
            && self.read_marks(request).await.is_some()
        {
            answer = self.send_stateless(request).await?;
        }
        self.pass(request, answer).await
    }

    async fn send_stateless(&self, request: &Request) -> Result<Answer, RpcError> {
        let mut headers = request.headers();
        if let (Some(name), Some(arguments)) = (request.name(), request.arguments())
            && let Some(schema) = self.marked.lock().await.get(name)
        {
            headers.extend(param_header::headers(schema, arguments));
        }
        Answer::read(self.post(headers, request.body.clone()).await?).await
    }

    /// Lists the tools, for the arguments that headers repeat. Clients over stdio send no headers.
    /// `None` if the tool of `request` has no such argument.
    async fn read_marks(&self, request: &Request) -> Option<()> {
        let (mut marked, mut cursor) = (HashMap::new(), None);
        for _ in 0..MAX_PAGES {
            let meta = request.params.get(meta::META)?.clone();
            let mut params = Map::from_iter([(meta::META.to_owned(), meta)]);
            if let Some(cursor) = cursor {
                params.insert("cursor".to_owned(), Value::String(cursor));
            }
            let body = message::request(1, method::LIST_TOOLS, &params);
            let Ok(Message::Request(list)) = Message::read(&body) else { return None };
            let Ok(Answer::Document(_, body)) = self.send_stateless(&list).await else {
                return None;
            };
            let incoming: IncomingMessage<'_> = serde_json::from_slice(&body).ok()?;
            let page: Page = serde_json::from_str(incoming.result?.get()).ok()?;
            for BridgedTool { name, input_schema } in page.tools {
                if param_header::read(&input_schema).is_ok_and(|marks| !marks.is_empty()) {
                    marked.insert(name, input_schema);
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let is_marked = marked.contains_key(request.name()?);
        *self.marked.lock().await = marked;
        is_marked.then_some(())
    }

    /// Writes the messages of `answer`, up to the one that answers `request`.
    async fn pass(&self, request: &Request, answer: Answer) -> Result<(), RpcError> {
        let mut events = match answer {
            Answer::Document(status, body) => {
                return self.pass_document(request, &Document { status, body }).await;
            }
            Answer::Stream(events) => events,
        };
        let lost = |problem: &str| {
            unavailable(format!("{problem} during the request, which may have run"))
        };
        while let Some(messages) = events.next().await.map_err(lost)? {
            for message in messages {
                match kind(&message, &request.id) {
                    Kind::Answer => {
                        self.outbox.send(message).await;
                        return Ok(());
                    }
                    Kind::Other => self.outbox.send(message).await,
                    Kind::Foreign => tracing::debug!("a message of another request was dropped"),
                }
            }
        }
        Err(lost("the server closed the stream before the response"))
    }

    /// Writes a response of one document.
    pub(super) async fn pass_document(
        &self,
        request: &Request,
        Document { status, body }: &Document,
    ) -> Result<(), RpcError> {
        if body.is_empty() && status.is_success() {
            // The request was cancelled.
            return Ok(());
        }
        if let Kind::Answer = kind(body, &request.id) {
            self.outbox.send(body.clone()).await;
            return Ok(());
        }
        let incoming = serde_json::from_slice::<IncomingMessage<'_>>(body).ok();
        Err(match incoming.and_then(|incoming| incoming.error) {
            // A refusal before the server read the id.
            Some(error) => RpcError::read(error),
            None => unavailable(format!(
                "the server answered with status {} and no message of MCP; is this the address of \
                 a toolcrib server?",
                status.as_u16()
            )),
        })
    }
}

/// The relation of a message to a request.
enum Kind {
    Answer,
    /// A notification or a request.
    Other,
    Foreign,
}

fn kind(message: &[u8], id: &str) -> Kind {
    let Ok(incoming) = serde_json::from_slice::<IncomingMessage<'_>>(message) else {
        return Kind::Foreign;
    };
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (incoming.method, incoming.id.map(RawValue::get)) {
        (Some(_), _) => Kind::Other,
        (None, Some(answered)) if value(answered) == value(id) => Kind::Answer,
        (None, _) => Kind::Foreign,
    }
}

fn is_header_mismatch(body: &[u8]) -> bool {
    let incoming = serde_json::from_slice::<IncomingMessage<'_>>(body).ok();
    let error = incoming.and_then(|incoming| incoming.error);
    error.is_some_and(|error| RpcError::read(error).code == code::HEADER_MISMATCH)
}
