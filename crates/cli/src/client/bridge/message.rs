//! The messages of the client, and the headers that repeat their parts.

use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, value::RawValue};
use toolcrib_mcp::{
    header,
    message::{IncomingMessage, RpcError},
    meta, method,
    revision::{Era, LEGACY},
    scan::IdScan,
};

/// A message of the client.
pub(super) enum Message {
    Request(Request),
    Notification(Notification),
    /// The answer to a request of the server.
    Response(Vec<u8>),
}

/// A request of the client.
pub(super) struct Request {
    /// The id, as JSON text.
    pub(super) id: Box<str>,
    pub(super) method: Box<str>,
    pub(super) era: Era,
    pub(super) params: Map<String, Value>,
    /// The whole message.
    pub(super) body: Vec<u8>,
}

/// A notification of the client.
pub(super) struct Notification {
    pub(super) method: Box<str>,
    /// The id of the request that it cancels, as JSON text.
    pub(super) cancels: Option<String>,
    /// The whole message.
    pub(super) body: Vec<u8>,
}

/// The response to a line that is not a message.
pub(super) struct InvalidLine {
    /// The id, as JSON text.
    pub(super) id: Option<Box<str>>,
    pub(super) error: RpcError,
}

impl Message {
    pub(super) fn read(line: &[u8]) -> Result<Self, InvalidLine> {
        let invalid = |id, error| InvalidLine { id, error };
        if line.trim_ascii_start().first() == Some(&b'[') {
            let error = RpcError::invalid_request("batches are not supported");
            return Err(invalid(None, error));
        }
        let incoming: IncomingMessage<'_> = serde_json::from_slice(line).map_err(|_| {
            // A client without the id would wait for the answer until its deadline.
            let mut scan = IdScan::default();
            scan.feed(line);
            let error = RpcError::parse("the line is not a message of JSON-RPC");
            invalid(scan.finish().id, error)
        })?;
        let id = incoming.id.map(|id| Box::from(id.get()));
        let params = incoming.params.map(RawValue::get).unwrap_or("{}");
        let body = line.to_vec();
        let Some(method) = incoming.method.as_deref().map(Box::from) else {
            return match id {
                Some(_) if incoming.result.is_some() || incoming.error.is_some() => {
                    Ok(Self::Response(body))
                }
                id => Err(invalid(id, RpcError::invalid_request("the message has no method"))),
            };
        };
        // The server judges other parameters.
        let params: Map<String, Value> = serde_json::from_str(params).unwrap_or_default();
        Ok(match id {
            Some(id) => Self::Request(Request { id, method, era: era(&params), params, body }),
            None => {
                let cancels = params.get("requestId").filter(|_| *method == *method::CANCELLED);
                Self::Notification(Notification {
                    cancels: cancels.map(ToString::to_string),
                    method,
                    body,
                })
            }
        })
    }
}

impl Request {
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut insert = |name, text: Option<&str>| {
            if let Some(value) = text.and_then(header::encode) {
                headers.insert(name, value);
            }
        };
        insert(header::PROTOCOL_VERSION, revision(&self.params));
        insert(header::METHOD, Some(&self.method));
        insert(header::NAME, self.name());
        headers
    }

    /// The tool, prompt or resource that the request names.
    pub(super) fn name(&self) -> Option<&str> {
        self.params.get(method::named_parameter(&self.method)?)?.as_str()
    }

    pub(super) fn arguments(&self) -> Option<&Map<String, Value>> {
        self.params.get("arguments").and_then(Value::as_object)
    }
}

/// The revision that a request of the stateless revision names.
fn revision(params: &Map<String, Value>) -> Option<&str> {
    params.get(meta::META)?.get(meta::PROTOCOL_VERSION)?.as_str()
}

/// Requests without a revision belong to a session.
fn era(params: &Map<String, Value>) -> Era {
    match revision(params) {
        Some(revision) if !LEGACY.contains(&revision) => Era::Modern,
        Some(_) | None => Era::Legacy,
    }
}

/// `None` if `text` cannot be the value of a header.
pub(super) fn header_value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Message, (Option<Box<str>>, i64)> {
        Message::read(line.as_bytes()).map_err(|InvalidLine { id, error }| (id, error.code))
    }

    #[test]
    fn a_request_of_the_stateless_revision_repeats_its_parts_in_headers() {
        let line = r#"{"id":"a","method":"tools/call","params":{"name":"zürich","arguments":{"n":1},
            "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let Ok(Message::Request(request)) = read(line) else { panic!("no request") };
        assert_eq!((&*request.id, request.era), ("\"a\"", Era::Modern));
        let headers = request.headers();
        assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
        assert_eq!(headers["mcp-method"], "tools/call");
        assert_eq!(headers["mcp-name"], "=?base64?esO8cmljaA==?=");
    }

    #[test]
    fn other_lines_are_told_apart() {
        let Ok(Message::Request(request)) = read(r#"{"id":1,"method":"ping"}"#) else { panic!() };
        assert_eq!(request.era, Era::Legacy);
        let line = r#"{"method":"notifications/cancelled","params":{"requestId":"a"}}"#;
        let Ok(Message::Notification(notification)) = read(line) else { panic!("no notification") };
        assert_eq!(notification.cancels.as_deref(), Some("\"a\""));
        let line = r#"{"method":"notifications/other","params":{"requestId":1}}"#;
        let Ok(Message::Notification(notification)) = read(line) else { panic!("no notification") };
        assert_eq!(notification.cancels, None);
        assert!(matches!(read(r#"{"id":1,"result":{}}"#), Ok(Message::Response(_))));
        assert_eq!(read("nonsense").err(), Some((None, -32700)));
        for (line, code) in [
            (r#"{"id":7,"method":"a","method":"b"}"#, -32700),
            (r#"{"id":7,"method":5}"#, -32700),
            (r#"{"id":7,"method":"tools/call","params":{"n":NaN}}"#, -32700),
            (r#"{"jsonrpc":"2.0","id":7}"#, -32600),
        ] {
            assert_eq!(read(line).err(), Some((Some("7".into()), code)), "{line}");
        }
        assert_eq!(read("[]").err(), Some((None, -32600)));
        assert_eq!(read("{}").err(), Some((None, -32600)));
    }
}
