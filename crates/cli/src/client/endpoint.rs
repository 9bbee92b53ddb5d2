//! The MCP endpoint of a server, for messages that are forwarded as they are.

use std::time::Duration;

use reqwest::{
    Method, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use tokio::time::timeout;
use toolcrib_mcp::{header, sse::SseParser};
use url::Url;

use super::{Client, MAX_ANSWER, bounded, hint};

/// Timeout of a silent response; a server sends data at least every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);

/// The address to which messages are sent.
pub(crate) struct Endpoint {
    client: Client,
    url: Url,
}

/// The reader of the messages of a stream.
pub(crate) struct Events {
    response: Response,
    parser: SseParser,
}

impl Client {
    /// The endpoint for the whole catalog, or for `toolset`.
    pub(crate) fn endpoint(self, toolset: Option<&str>) -> anyhow::Result<Endpoint> {
        let segments: Vec<_> = ["mcp"].into_iter().chain(toolset).collect();
        let url = self.path(&segments)?;
        Ok(Endpoint { client: self, url })
    }
}

impl Endpoint {
    /// Sends a request with `headers`, and `body` if it is a `POST`.
    ///
    /// Fails with the reason if the server does not answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response, String> {
        let request = self.client.request(method.clone(), self.url.clone());
        let mut request = request.map_err(|error| error.to_string())?.headers(headers);
        request = match method {
            Method::POST => request
                .header(ACCEPT, header::ACCEPT_BOTH)
                .header(CONTENT_TYPE, "application/json")
                .body(body),
            Method::GET => request.header(ACCEPT, HeaderValue::from_static("text/event-stream")),
            _ => request,
        };
        match timeout(SILENCE, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(format!(
                "the server at {} does not answer; {}",
                self.client.base,
                hint(&error, &self.client.base)
            )),
            Err(_) => Err(format!(
                "the server at {} does not answer; is `toolcrib serve` running there?",
                self.client.base
            )),
        }
    }
}

/// Whether `response` is a stream of messages.
pub(crate) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// Reads a response of one document.
///
/// Fails if it is larger than 64 MiB or incomplete.
pub(crate) async fn document(response: Response) -> Result<Vec<u8>, String> {
    timeout(SILENCE, bounded(response))
        .await
        .map_err(|_| "the server stopped sending during the answer".to_owned())?
        .map_err(|error| error.to_string())
}

impl Events {
    pub(crate) fn new(response: Response) -> Self {
        Self { response, parser: SseParser::new(MAX_ANSWER) }
    }

    /// The messages of the next chunk, often an empty list; `None` at the end of the stream.
    ///
    /// Fails if the connection is lost, or a message is larger than 64 MiB.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>, &'static str> {
        let chunk = match timeout(SILENCE, self.response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(_)) | Err(_) => return Err("the connection to the server was lost"),
        };
        let mut events = Vec::new();
        self.parser
            .push(&chunk, &mut |event| events.push(event.to_vec()))
            .map_err(|_| "the server sent a message larger than 64 MiB")?;
        Ok(Some(events))
    }
}
