//! Messages that wrap serialised JSON.
//!
//! Invariant: a message contains no line break. Upstream JSON may span many lines, but in SSE and
//! stdio a line break terminates the message.

use std::borrow::Cow;

use chrono::SecondsFormat;
use serde_json::json;
use toolcrib_core::{
    call::{CallError, InputRequired, Outcome, Progress, text_block},
    clock::Timestamp,
    id::RunId,
};
use toolcrib_mcp::{
    message::{self, RpcError},
    meta::toolcrib as key,
    revision::Era,
};

use super::{consent, error::Refusal, format::server_info, protocol::Id};

/// Builds a response to `id` with `result`, which must be a JSON object.
pub(super) fn result(id: &Id, result: &[u8]) -> Vec<u8> {
    message::result(id.as_json(), result)
}

/// Builds an error response; `id` is `None` if the request's id is unknown.
pub(super) fn error(id: Option<&Id>, error: &RpcError) -> Vec<u8> {
    message::error(id.map(Id::as_json), error)
}

/// Builds a response to `id` with the result of a tool. A client that does not read structured
/// content gets it as text when there is no other content.
pub(super) fn outcome(
    id: &Id,
    era: Era,
    outcome: &Outcome,
    run: &RunId,
    reads_structured: bool,
) -> Vec<u8> {
    // Until 2025-11-25 structured content must be an object.
    let structured = outcome.structured.as_ref().map(|raw| raw.get());
    let structured = structured.filter(|raw| era == Era::Modern || raw.starts_with('{'));
    let is_read = reads_structured && structured.is_some();
    let content = match &outcome.structured {
        Some(unread) if !is_read && outcome.content.get() == "[]" => {
            Cow::Owned(one_text(unread.get()))
        }
        _ => Cow::Borrowed(outcome.content.get()),
    };
    let mut out = Vec::with_capacity(outcome.len() + 512);
    message::open_result(id.as_json(), &mut out);
    let start = out.len();
    tool_result(era, &content, structured, outcome.is_error, &mut out);
    one_line(out.get_mut(start..).unwrap_or_default());
    close(era, &[(key::RUN_ID, run.as_str())], &mut out);
    out
}

/// Builds the response to a refused call. `opens` is whether the client declared that it can open a
/// URL, and `round` has the answers and the state of a further round.
pub(super) fn refusal(
    id: &Id,
    era: Era,
    refused: &CallError,
    run: &RunId,
    opens: bool,
    round: Option<&str>,
) -> (Vec<u8>, Option<RpcError>) {
    if opens && let Some(prompt) = consent::prompt(refused, era, round) {
        return match prompt {
            consent::Prompt::Round(input) => (input_required(id, era, &input, run), None),
            consent::Prompt::Error(rpc) => (error(Some(id), &rpc), Some(rpc)),
        };
    }
    match Refusal::of(refused) {
        Refusal::Input(input) => (input_required(id, era, input, run), None),
        Refusal::Error(rpc) => (error(Some(id), &rpc), Some(rpc)),
        Refusal::Tool(text) => {
            let mut meta = vec![(key::RUN_ID, run.as_str()), (key::ERROR, refused.code())];
            let expires_at;
            let until = |time: Timestamp| time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
            match refused {
                CallError::ApprovalRequired { pending: Some(pending), .. } => {
                    expires_at = until(pending.expires_at);
                    meta.push((key::APPROVAL_ID, pending.approval.as_str()));
                    meta.push((key::EXPIRES_AT, &expires_at));
                }
                CallError::ApprovalRejected { approval, .. } => {
                    meta.push((key::APPROVAL_ID, approval.as_str()));
                }
                CallError::ConnectionRequired(required) => {
                    if let Some(link) = &required.link {
                        expires_at = until(required.expires_at);
                        meta.push((key::LINK, link.expose()));
                        meta.push((key::EXPIRES_AT, &expires_at));
                    }
                }
                _ => {}
            }
            (words(id, era, &text, true, &meta), None)
        }
    }
}

/// Builds a response to `id` with `text` as a tool's result, for a tool without a run.
pub(super) fn text(id: &Id, era: Era, text: &str, is_error: bool) -> Vec<u8> {
    words(id, era, text, is_error, &[])
}

/// The content of a result with only one text.
fn one_text(text: &str) -> String {
    json!([text_block(text)]).to_string()
}

fn words(id: &Id, era: Era, text: &str, is_error: bool, meta: &[(&str, &str)]) -> Vec<u8> {
    let content = one_text(text);
    let mut out = Vec::with_capacity(content.len() + 512);
    message::open_result(id.as_json(), &mut out);
    tool_result(era, &content, None, is_error, &mut out);
    close(era, meta, &mut out);
    out
}

/// Builds a response to `id` with a tool's request for input. Only the stateless revision has such
/// a response; callers of the handshake revisions are never prompted.
fn input_required(id: &Id, era: Era, input: &InputRequired, run: &RunId) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len() + 512);
    message::open_result(id.as_json(), &mut out);
    let start = out.len();
    out.extend_from_slice(b"{\"resultType\":\"input_required\"");
    let members = [("inputRequests", input.requests()), ("requestState", input.state())];
    for (key, value) in members {
        let Some(value) = value else { continue };
        for part in [",\"", key, "\":", value.get()] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    one_line(out.get_mut(start..).unwrap_or_default());
    close(era, &[(key::RUN_ID, run.as_str())], &mut out);
    out
}

/// Builds a `notifications/progress` for the JSON text of a progress token.
pub(super) fn progress(token: &str, progress: &Progress) -> Vec<u8> {
    let Progress { progress, total, message } = progress;
    message::progress(token, progress, total.as_ref(), message.as_deref())
}

fn tool_result(
    era: Era,
    content: &str,
    structured: Option<&str>,
    is_error: bool,
    out: &mut Vec<u8>,
) {
    let mut push = |part: &str| out.extend_from_slice(part.as_bytes());
    push(match era {
        Era::Modern => "{\"resultType\":\"complete\",\"content\":",
        Era::Legacy => "{\"content\":",
    });
    push(content);
    if let Some(structured) = structured {
        push(",\"structuredContent\":");
        push(structured);
    }
    push(match is_error {
        true => ",\"isError\":true",
        false => ",\"isError\":false",
    });
}

/// Closes a tool result and the message around it.
fn close(era: Era, meta: &[(&str, &str)], out: &mut Vec<u8>) {
    let mut push = |part: &str| out.extend_from_slice(part.as_bytes());
    push(",\"_meta\":{");
    for (i, (key, value)) in meta.iter().enumerate() {
        // Keys are constants; values are identifiers, codes and times, which need no escapes.
        for part in [if i == 0 { "\"" } else { ",\"" }, key, "\":\"", value, "\""] {
            push(part);
        }
    }
    if era == Era::Modern {
        if !meta.is_empty() {
            push(",");
        }
        push(server_info!());
    }
    push("}}}");
}

/// Replaces line breaks with spaces. In JSON, unescaped line breaks occur only between tokens.
fn one_line(json: &mut [u8]) {
    for byte in json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, value::RawValue};

    use super::*;

    fn id() -> Id {
        Id::of(&json!("a\"b")).unwrap()
    }

    fn read(bytes: &[u8]) -> Value {
        assert!(!bytes.contains(&b'\n') && !bytes.contains(&b'\r'));
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn an_outcome_is_passed_on_as_it_is() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let given = Outcome {
            content: raw("[\r\n {\"type\":\"text\",\"text\":\"a\\nb\",\"n\":1.0}\n]"),
            structured: Some(raw("{\"big\":12345678901234567890123}")),
            is_error: false,
            retry_after: None,
        };
        let run = RunId::parse("r-1").unwrap();
        let modern = outcome(&id(), Era::Modern, &given, &run, true);
        let text = String::from_utf8(modern.clone()).unwrap();
        assert!(text.contains("\"n\":1.0") && text.contains("12345678901234567890123"), "{text}");
        let modern = read(&modern);
        assert_eq!(modern["id"], "a\"b");
        assert_eq!(modern["result"]["resultType"], "complete");
        assert_eq!(modern["result"]["content"][0]["text"], "a\nb");
        assert_eq!(modern["result"]["_meta"]["dev.toolcrib/runId"], "r-1");
        let server = &modern["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "toolcrib");
        let legacy = read(&outcome(&id(), Era::Legacy, &given, &run, true));
        assert_eq!(legacy["result"].get("resultType"), None);
        assert_eq!(legacy["result"]["_meta"], json!({ "dev.toolcrib/runId": "r-1" }));
        assert_eq!(legacy["result"]["isError"], false);
    }

    #[test]
    fn older_clients_get_structured_content_of_objects_only() {
        let mut given = Outcome::text("[1]", false);
        given.structured = Some(RawValue::from_string("[1]".to_owned()).unwrap());
        let run = RunId::parse("r").unwrap();
        let legacy = read(&outcome(&id(), Era::Legacy, &given, &run, true));
        assert_eq!(legacy["result"].get("structuredContent"), None);
        let modern = read(&outcome(&id(), Era::Modern, &given, &run, true));
        assert_eq!(modern["result"]["structuredContent"], json!([1]));
    }

    #[test]
    fn content_that_a_client_does_not_read_is_text_when_there_is_no_other() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let run = RunId::parse("r").unwrap();
        let content = |content: &str, structured: &str, reads: bool| {
            let (content, structured) = (raw(content), Some(raw(structured)));
            let given = Outcome { content, structured, is_error: false, retry_after: None };
            read(&outcome(&id(), Era::Legacy, &given, &run, reads))["result"]["content"].take()
        };
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        assert_eq!(content("[]", r#"{"n": 1}"#, false), text(r#"{"n": 1}"#));
        assert_eq!(content("[]", r#"{"n": 1}"#, true), json!([]));
        assert_eq!(content("[]", "[1]", true), text("[1]"));
        assert_eq!(content(r#"[{"type":"text","text":"a"}]"#, r#"{"n":1}"#, false), text("a"));
    }

    #[test]
    fn progress_is_a_message() {
        let report = Progress {
            progress: 1.into(),
            total: Some(3.into()),
            message: Some("one\n\"two\"".to_owned()),
        };
        let sent = read(&progress("\"t\"", &report));
        assert_eq!(
            sent["params"],
            json!({ "progressToken": "t", "progress": 1, "total": 3, "message": "one\n\"two\"" })
        );
    }
}
