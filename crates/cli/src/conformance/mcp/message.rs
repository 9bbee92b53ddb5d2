//! JSON-RPC messages in answers, which come as one object or as a stream of events.

use serde_json::Value;

use crate::conformance::{Got, Verdict, fail};

/// The answer to the request, whichever way it came.
pub(super) fn of(got: &Got) -> Option<Value> {
    if is_answer(got.value()) {
        return Some(got.value().clone());
    }
    events(got.body()).into_iter().find(is_answer)
}

/// Its result, which has to be an object.
pub(super) fn result(got: &Got) -> Verdict<Value> {
    match of(got).as_ref().and_then(|message| message.get("result")) {
        Some(result) if result.is_object() => {
            got.expect_status(&[200])?;
            Ok(result.clone())
        }
        _ => fail("a result", what(got), &[got]),
    }
}

/// The code of its error.
pub(super) fn code(got: &Got) -> Option<i64> {
    of(got)?.pointer("/error/code")?.as_i64()
}

/// Fails unless it is an error with `code`.
pub(super) fn expect_code(got: &Got, wanted: &[i64]) -> Verdict {
    let is_wanted = code(got).is_some_and(|code| wanted.contains(&code));
    let names: Vec<String> = wanted.iter().map(i64::to_string).collect();
    got.expect(is_wanted, format!("a JSON-RPC error {}", names.join(" or ")), what(got))
}

/// Fails unless it is an error with one of the codes, under a status of 400.
pub(super) fn expect_refused(got: &Got, wanted: &[i64]) -> Verdict {
    expect_code(got, wanted)?;
    got.expect_status(&[400])
}

/// What an answer is, in a few words.
pub(super) fn what(got: &Got) -> String {
    let status = got.status();
    match of(got) {
        Some(message) if message.get("result").is_some() => format!("status {status}, a result"),
        Some(message) => match message.pointer("/error/code").and_then(Value::as_i64) {
            Some(code) => format!("status {status}, error {code}"),
            None => format!("status {status}, an error without a code"),
        },
        None => format!("status {status}, no JSON-RPC answer"),
    }
}

/// Whether an event stream has brought the answer to its request.
pub(super) fn has_answer(body: &[u8]) -> bool {
    events(body).iter().any(is_answer)
}

/// Whether an event stream has brought any message.
pub(super) fn has_message(body: &[u8]) -> bool {
    !events(body).is_empty()
}

/// The messages of an event stream, as far as it goes.
pub(super) fn events(body: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(body).replace("\r\n", "\n");
    // What follows the last empty line is not complete.
    let mut whole: Vec<&str> = text.split("\n\n").collect();
    whole.pop();
    let message = |event: &str| {
        let data = event.lines().filter_map(|line| line.strip_prefix("data:"));
        let data: Vec<&str> = data.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        serde_json::from_str::<Value>(&data.join("\n")).ok()
    };
    whole.into_iter().filter_map(message).filter(Value::is_object).collect()
}

fn is_answer(message: &Value) -> bool {
    let says_version = message.get("jsonrpc").is_some_and(|it| it == "2.0");
    says_version && (message.get("result").is_some() || message.get("error").is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_as_far_as_they_are_whole() {
        let body = b": hello\r\n\r\nid: 0\nretry: 3\ndata:\n\nevent: message\ndata: {\"a\":\ndata: 1}\n\ndata: {\"b\":2}\n";
        assert_eq!(events(body), [json!({ "a": 1 })]);
        assert!(has_message(body) && !has_answer(body));
        let body = b"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
        assert!(has_answer(body));
    }
}
