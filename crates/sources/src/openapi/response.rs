//! Converts a response to an outcome.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::StatusCode;
use serde_json::{Value, json, value::RawValue};
use toolcrib_core::{
    call::{Outcome, UpstreamError, text_block},
    clock::Timestamp,
    json::parse_strict,
};

use super::media_type::{is_json, is_readable};
use crate::{
    egress::{Answer, Body, Flaw},
    error::unread,
    refusal::{MAX_WORDS, Refusal, words},
};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the response. An unsuccessful status is a failure of the tool, with the service's own
/// error text.
pub(super) async fn outcome(
    answer: Answer,
    max: usize,
    now: Timestamp,
) -> Result<Outcome, UpstreamError> {
    let status = answer.status();
    let media_type = answer.media_type();
    if !status.is_success() {
        let retry_after = answer.retry_after(now);
        let body = answer.beginning(MAX_WORDS).await;
        let words = words(&media_type, &body).into_owned();
        return Ok(Refusal { status, retry_after, words }.outcome());
    }
    let Body { bytes, flaw } = answer.read(max).await.map_err(|error| unread(error, max))?;
    Ok(match flaw {
        None => success(status, &media_type, bytes),
        Some(flaw) => flawed(status, &media_type, &bytes, flaw),
    })
}

/// A body that could not be read as the service declares it is passed on as far as it was read. It
/// is a success nevertheless, because the service has done the operation.
fn flawed(status: StatusCode, media_type: &str, body: &[u8], flaw: Flaw) -> Outcome {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    let status = status.as_u16();
    let content = match std::str::from_utf8(body) {
        _ if body.trim_ascii().is_empty() => text_block(&format!("done (HTTP {status})")),
        Ok(text) => text_block(text),
        // A character may be cut. Compressed bytes are not text.
        Err(_) if is_readable(media_type) && flaw != Flaw::UnknownCoding => {
            text_block(&String::from_utf8_lossy(body))
        }
        Err(_) => block(media_type, body),
    };
    let note = format!(
        "[the service did it (HTTP {status}), but there is a problem with its answer: {flaw}]"
    );
    Outcome::blocks(vec![content, text_block(&note)], false)
}

/// Any body is a success, because the service has done the operation: an agent would repeat a
/// failed call.
fn success(status: StatusCode, media_type: &str, body: Vec<u8>) -> Outcome {
    let body = match body.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => rest.to_vec(),
        None => body,
    };
    let done = || Outcome::text(&format!("done (HTTP {})", status.as_u16()), false);
    if body.is_empty() || is_readable(media_type) && body.trim_ascii().is_empty() {
        return done();
    }
    let text = match String::from_utf8(body) {
        Ok(text) if is_readable(media_type) => text,
        Ok(text) => return binary(media_type, text.as_bytes()),
        Err(error) => return binary(media_type, error.as_bytes()),
    };
    if !is_json(media_type) {
        return Outcome::text(&text, false);
    }
    let strict = parse_strict(text.as_bytes()).map_err(|error| error.to_string());
    let structured = strict.and_then(|_| {
        serde_json::from_str::<Box<RawValue>>(&text).map_err(|error| error.to_string())
    });
    match structured {
        Ok(structured) => {
            let outcome = Outcome::text(structured.get(), false);
            Outcome { structured: Some(structured), ..outcome }
        }
        Err(problem) => {
            let note = format!(
                "[the service declared its answer as JSON, but it is not valid JSON: {problem}]"
            );
            Outcome::blocks(vec![text_block(&text), text_block(&note)], false)
        }
    }
}

fn binary(media_type: &str, body: &[u8]) -> Outcome {
    Outcome::blocks(vec![block(media_type, body)], false)
}

/// Wraps bytes in a content block of the matching type.
fn block(media_type: &str, body: &[u8]) -> Value {
    let data = STANDARD.encode(body);
    let kind = if media_type.is_empty() { "application/octet-stream" } else { media_type };
    match kind.split('/').next() {
        Some("image") => json!({ "type": "image", "data": data, "mimeType": kind }),
        Some("audio") => json!({ "type": "audio", "data": data, "mimeType": kind }),
        _ => json!({
            "type": "resource",
            "resource": { "uri": "response:body", "mimeType": kind, "blob": data },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(media_type: &str, body: &[u8]) -> Outcome {
        success(StatusCode::OK, media_type, body.to_vec())
    }

    #[test]
    fn each_kind_of_body_has_its_outcome() {
        let json = ok("application/problem+json", b" {\"b\": 12345678901234567890, \"a\":1}");
        assert_eq!(
            json.structured.unwrap().get(),
            " {\"b\": 12345678901234567890, \"a\":1}".trim()
        );
        assert!(ok("text/html", b"<p>").content.get().contains("<p>"));
        assert!(ok("image/png", b"\x89").content.get().contains("\"image\""));
        assert!(ok("", b"\xff").content.get().contains("\"blob\":\"/w==\""));
        assert!(ok("text/plain", b"\xff").content.get().contains("blob"), "no text after all");
        let empty = success(StatusCode::NO_CONTENT, "", Vec::new());
        assert!(empty.content.get().contains("done (HTTP 204)") && !empty.is_error);
    }

    #[test]
    fn a_success_stays_one_in_whatever_form_the_service_says_so() {
        let json = "application/json";
        for blank in [b" \r\n" as &[u8], b"\xef\xbb\xbf", b"\xef\xbb\xbf \n"] {
            let outcome = ok(json, blank);
            assert!(!outcome.is_error && outcome.structured.is_none(), "{blank:?}");
            assert!(outcome.content.get().contains("done (HTTP 200)"), "{blank:?}");
        }
        let marked = ok(json, b"\xef\xbb\xbf{\"a\":1}\n");
        assert_eq!(marked.structured.unwrap().get(), "{\"a\":1}");
        for odd in ["ok", "{", "{\"a\":1,\"a\":2}", "[NaN]", "\"\\ud800\"", "{\"a\":1e999}", "{}{}"]
        {
            let outcome = ok(json, odd.as_bytes());
            assert!(!outcome.is_error && outcome.structured.is_none(), "{odd}");
            let blocks: Value = serde_json::from_str(outcome.content.get()).unwrap();
            assert_eq!(blocks[0]["text"], odd);
            assert!(blocks[1]["text"].as_str().unwrap().contains("not valid JSON"), "{blocks}");
        }
        let bytes = ok(json, b"\xff{}");
        assert!(!bytes.is_error && bytes.content.get().contains("\"blob\""));
    }

    #[test]
    fn a_flawed_body_is_passed_on_with_a_note() {
        let json = "application/json";
        for (media_type, body, flaw, first) in [
            (json, b"\xef\xbb\xbf{\"a\":1}" as &[u8], Flaw::NotCompressed, "{\"a\":1}"),
            (json, b"{\"a\":\"\xc3", Flaw::Damaged, "{\"a\":\"\u{fffd}"),
            ("", b"plain", Flaw::Incomplete, "plain"),
            (json, b"", Flaw::Damaged, "done (HTTP 201)"),
        ] {
            let outcome = flawed(StatusCode::CREATED, media_type, body, flaw);
            assert!(!outcome.is_error && outcome.structured.is_none(), "{flaw:?}");
            let blocks: Value = serde_json::from_str(outcome.content.get()).unwrap();
            assert_eq!(blocks[0]["text"], first);
            let note = blocks[1]["text"].as_str().unwrap();
            assert!(note.contains("HTTP 201") && note.contains(&flaw.to_string()), "{note}");
        }
        let coded = flawed(StatusCode::OK, json, b"\x0b\x80", Flaw::UnknownCoding);
        assert!(coded.content.get().contains("\"blob\":\"C4A=\""), "{:?}", coded.content);
    }
}
