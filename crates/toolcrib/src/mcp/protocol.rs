//! Parses one JSON-RPC message strictly.
//!
//! Invariant: an id is a string or an integer, and is returned exactly as received.

use serde_json::{Map, Value};
use toolcrib_core::json;
use toolcrib_mcp::{
    message::RpcError,
    method::CANCELLED,
    scan::{IdScan, MessageScan},
};

/// A message from a peer.
#[derive(Debug)]
pub(super) enum Message {
    /// Requires a response.
    Request(Request),
    /// Has no response.
    Notification(Notification),
    /// A response, although this server never sends requests.
    Response,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

#[derive(Debug)]
pub(super) struct Notification {
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// A request's id as JSON text, so that `1` and `"1"` differ.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Id(Box<str>);

/// An invalid message. Over HTTP the status is always 400.
#[derive(Debug)]
pub(super) struct InvalidMessage {
    /// The id, if one could be parsed.
    pub(super) id: Option<Id>,
    pub(super) error: RpcError,
}

/// Longest id, in bytes of JSON: ids are stored while a call runs and repeated in every message.
const MAX_ID: usize = 256;

// === impl Message ===

impl Message {
    /// The id, if the message requires a response.
    pub(super) fn id(&self) -> Option<&Id> {
        match self {
            Self::Request(request) => Some(&request.id),
            Self::Notification(_) | Self::Response => None,
        }
    }
}

// === impl Notification ===

impl Notification {
    /// The id of the request that this notification cancels, if it is a cancellation.
    pub(super) fn cancels(&self) -> Option<Id> {
        let id = self.params.get("requestId")?;
        (self.method == CANCELLED).then(|| Id::of(id))?
    }
}

// === impl Id ===

impl Id {
    pub(super) fn as_json(&self) -> &str {
        &self.0
    }

    /// Parses `value` as an id, if it is a legal one.
    pub(super) fn of(value: &Value) -> Option<Self> {
        // JSON-RPC 2.0 §4: no fraction.
        let is_legal =
            !matches!(value, Value::Number(number) if number.as_str().contains(['.', 'e', 'E']));
        Self::echoed(value).filter(|_| is_legal)
    }

    /// Parses `value` as the id of a refusal, which may be any number. A client without its id
    /// would wait for the answer until its deadline.
    fn echoed(value: &Value) -> Option<Self> {
        let text =
            matches!(value, Value::String(_) | Value::Number(_)).then(|| value.to_string())?;
        (text.len() <= MAX_ID).then(|| Self(text.into()))
    }

    /// The id of a message that could not be parsed.
    pub(super) fn scanned(scanned: &MessageScan) -> Option<Self> {
        Self::echoed(&serde_json::from_str(scanned.id.as_deref()?).ok()?)
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Message, InvalidMessage> {
    let value = json::parse_strict(bytes).map_err(|error| {
        let mut scan = IdScan::default();
        scan.feed(bytes);
        let id = Id::scanned(&scan.finish());
        reject(id, RpcError::parse(format!("the message is not acceptable JSON: {error}")))
    })?;
    let mut message = match value {
        Value::Object(message) => message,
        Value::Array(_) => {
            return Err(invalid(None, "batches are not supported; send one message"));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(invalid(None, "a message must be a JSON object"));
        }
    };
    let id = match message.remove("id") {
        None => None,
        Some(id) => Some(Id::of(&id).ok_or_else(|| {
            invalid(Id::echoed(&id), "`id` must be an integer or a string of at most 254 bytes")
        })?),
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid(id, "`jsonrpc` must be \"2.0\""));
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return Err(invalid(id, "`method` must be a string")),
        None if message.contains_key("result") || message.contains_key("error") => {
            return Ok(Message::Response);
        }
        None => return Err(invalid(id, "`method` is missing")),
    };
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(reject(id, RpcError::invalid_params("`params` must be an object"))),
    };
    Ok(match id {
        Some(id) => Message::Request(Request { id, method, params }),
        None => Message::Notification(Notification { method, params }),
    })
}

fn invalid(id: Option<Id>, message: &'static str) -> InvalidMessage {
    reject(id, RpcError::invalid_request(message))
}

fn reject(id: Option<Id>, error: RpcError) -> InvalidMessage {
    InvalidMessage { id, error }
}

#[cfg(test)]
mod tests {
    use toolcrib_mcp::code;

    use super::*;

    fn rejected(text: &str) -> (Option<String>, i64) {
        let rejected = parse(text.as_bytes()).unwrap_err();
        (rejected.id.map(|id| id.as_json().to_owned()), rejected.error.code)
    }

    #[test]
    fn messages_are_told_apart() {
        let parsed = |text: &str| parse(text.as_bytes()).unwrap();
        assert!(matches!(
            parsed(r#"{"jsonrpc":"2.0","id":"a","method":"m"}"#),
            Message::Request(Request { id, .. }) if id.as_json() == "\"a\""
        ));
        assert!(matches!(
            parsed(r#"{"jsonrpc":"2.0","method":"m","params":{"a":1}}"#),
            Message::Notification(Notification { params, .. }) if params.len() == 1
        ));
        for answer in [r#""result":{}"#, r#""error":{}"#] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,{answer}}}"#);
            assert!(matches!(parsed(&text), Message::Response));
        }
    }

    #[test]
    fn what_is_no_message_is_rejected_with_the_right_code() {
        for (text, id, expected) in [
            ("", None, code::PARSE),
            ("{\"id\":1", Some("1"), code::PARSE),
            (r#"{"id":"a","method":"m","params":{"a":"\ud800"}}"#, Some("\"a\""), code::PARSE),
            (r#"{"id":4,"method":"m","params":{"a":1,"a":2}}"#, Some("4"), code::PARSE),
            (r#"{"id":1.5,"method":"m","params":{"a":1,"a":2}}"#, Some("1.5"), code::PARSE),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, None, code::PARSE),
            ("[]", None, code::INVALID_REQUEST),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, None, code::INVALID_REQUEST),
            ("\"text\"", None, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, None, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#, Some("1.0"), code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, None, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, None, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#, Some("7"), code::INVALID_REQUEST),
            (r#"{"id":7,"method":"m"}"#, Some("7"), code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":7}"#, Some("7"), code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":7,"method":8}"#, Some("7"), code::INVALID_REQUEST),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[]}"#,
                Some("7"),
                code::INVALID_PARAMS,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"m","params":null}"#,
                Some("7"),
                code::INVALID_PARAMS,
            ),
        ] {
            assert_eq!(rejected(text), (id.map(str::to_owned), expected), "{text}");
        }
    }

    #[test]
    fn ids_are_bounded_and_exact() {
        let long = "x".repeat(MAX_ID);
        assert_eq!(Id::of(&Value::String(long)), None);
        let text = format!(r#"{{"jsonrpc":"2.0","id":{},"method":"m"}}"#, u64::MAX);
        let Message::Request(request) = parse(text.as_bytes()).unwrap() else { panic!() };
        assert_eq!(request.id.as_json(), u64::MAX.to_string());
    }
}
