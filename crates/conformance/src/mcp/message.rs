//! JSON-RPC messages in responses, as one JSON object or as an event stream.

use serde_json::Value;

use crate::{CheckResult, fail, http::Response};

/// The JSON-RPC reply, in either form.
pub(super) fn reply(response: &Response) -> Option<Value> {
    if is_reply(response.value()) {
        return Some(response.value().clone());
    }
    events(response.body()).into_iter().find(is_reply)
}

/// The part of the reply at `pointer`, or `null`.
pub(super) fn reply_part(response: &Response, pointer: &str) -> Value {
    let reply = reply(response).unwrap_or_default();
    reply.pointer(pointer).cloned().unwrap_or_default()
}

/// The result of the reply; fails the check unless it is an object.
pub(super) fn result(response: &Response) -> CheckResult<Value> {
    match reply_part(response, "/result") {
        result if result.is_object() => {
            response.expect_status(&[200])?;
            Ok(result)
        }
        _ => fail("a result", summary(response), &[response]),
    }
}

pub(super) fn code(response: &Response) -> Option<i64> {
    reply_part(response, "/error/code").as_i64()
}

/// Fails the check unless the reply is any JSON-RPC error.
pub(super) fn expect_error(response: &Response) -> CheckResult {
    response.expect(code(response).is_some(), "a JSON-RPC error", summary(response))
}

/// Fails the check unless the reply is an error with one of the codes.
pub(super) fn expect_code(response: &Response, expected: &[i64]) -> CheckResult {
    let is_expected = code(response).is_some_and(|code| expected.contains(&code));
    let names: Vec<String> = expected.iter().map(i64::to_string).collect();
    let expected = format!("a JSON-RPC error {}", names.join(" or "));
    response.expect(is_expected, expected, summary(response))
}

/// Like [`expect_code`], and the status must be 400.
pub(super) fn expect_bad_request(response: &Response, expected: &[i64]) -> CheckResult {
    expect_code(response, expected)?;
    response.expect_status(&[400])
}

/// Fails the check unless the status is from 400 to 499.
pub(super) fn expect_client_error(response: &Response) -> CheckResult {
    response.expect(response.is_client_error(), "a status from 400 to 499", summary(response))
}

/// Describes a response in a few words.
pub(super) fn summary(response: &Response) -> String {
    let kind = match (reply(response), code(response)) {
        (_, Some(code)) => format!("error {code}"),
        (Some(reply), None) if reply.get("result").is_some() => "a result".to_owned(),
        (Some(_), None) => "an error without a code".to_owned(),
        (None, None) => "no JSON-RPC reply".to_owned(),
    };
    format!("status {}, {kind}", response.status())
}

/// Whether an event stream contains the reply to its request.
pub(super) fn has_reply(body: &[u8]) -> bool {
    events(body).iter().any(is_reply)
}

/// Whether an event stream contains any message.
pub(super) fn has_message(body: &[u8]) -> bool {
    !events(body).is_empty()
}

/// Parses the messages of the complete events of an event stream.
pub(super) fn events(body: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(body).replace("\r\n", "\n");
    // An event is complete when an empty line follows.
    let mut events: Vec<&str> = text.split("\n\n").collect();
    events.pop();
    let message = |event: &str| {
        let data = event.lines().filter_map(|line| line.strip_prefix("data:"));
        let data: Vec<&str> = data.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        serde_json::from_str::<Value>(&data.join("\n")).ok()
    };
    events.into_iter().filter_map(message).filter(Value::is_object).collect()
}

fn is_reply(message: &Value) -> bool {
    let is_json_rpc = message.get("jsonrpc").is_some_and(|version| version == "2.0");
    is_json_rpc && (message.get("result").is_some() || message.get("error").is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_complete_events_are_read() {
        let body = b": hello\r\n\r\nid: 0\nretry: 3\ndata:\n\nevent: message\ndata: {\"a\":\ndata: 1}\n\ndata: {\"b\":2}\n";
        assert_eq!(events(body), [json!({ "a": 1 })]);
        assert!(has_message(body) && !has_reply(body));
        let body = b"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
        assert!(has_reply(body));
    }
}
