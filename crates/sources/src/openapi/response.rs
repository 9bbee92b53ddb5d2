//! Converts a response to an outcome.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::DateTime;
use http::{StatusCode, header};
use serde_json::{Value, json, value::RawValue};
use toolcrib_core::{
    call::{Outcome, UpstreamError, text_block},
    clock::Timestamp,
    json::parse_strict,
    limit::wait_millis,
};

use super::media_type::{is_json, is_text};
use crate::{egress::Answer, error::unread};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The longest wait that is passed on.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of an error response's body that are passed on.
const MAX_FAILURE: usize = 8 << 10;

/// Reads the response. An unsuccessful status is a failure of the tool, with the service's own
/// error text.
pub(super) async fn outcome(
    mut answer: Answer,
    max: usize,
    now: Timestamp,
) -> Result<Outcome, UpstreamError> {
    let status = answer.status();
    let media_type = answer.media_type();
    if !status.is_success() {
        let mut body = Vec::new();
        while body.len() < MAX_FAILURE {
            match answer.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                // The status alone is sufficient.
                Ok(None) | Err(_) => break,
            }
        }
        body.truncate(MAX_FAILURE);
        return Ok(failure(status, &media_type, &body, retry_after(&answer, now)));
    }
    let body = answer.collect(max).await.map_err(|error| unread(error, max))?;
    Ok(success(status, &media_type, body))
}

/// Returns the time of `Retry-After` (RFC 9110, section 10.2.3: seconds, or a date).
fn retry_after(answer: &Answer, now: Timestamp) -> Option<Duration> {
    let busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    let value =
        answer.headers().get(header::RETRY_AFTER).filter(|_| busy.contains(&answer.status()))?;
    wait(value.to_str().ok()?.trim(), now)
}

fn wait(value: &str, now: Timestamp) -> Option<Duration> {
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => (DateTime::parse_from_rfc2822(value).ok()?.to_utc() - now).to_std().ok()?,
    };
    (!wait.is_zero()).then_some(wait.min(MAX_WAIT))
}

fn failure(
    status: StatusCode,
    media_type: &str,
    body: &[u8],
    retry_after: Option<Duration>,
) -> Outcome {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP {} {reason}", status.as_u16());
    if let Some(wait) = retry_after {
        head.push_str(&format!("; retry after {} s", wait_millis(wait).div_ceil(1_000)));
    }
    let text = is_readable(media_type).then(|| String::from_utf8_lossy(body));
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let outcome = match text {
        Some(text) => Outcome::text(&format!("{}\n{text}", head.trim_end()), true),
        None => Outcome::text(head.trim_end(), true),
    };
    Outcome { retry_after, ..outcome }
}

/// Every form of body is a success, because the service has done the operation: an agent would repeat a
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

/// Returns bytes as a content block of the matching type.
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

fn is_readable(media_type: &str) -> bool {
    const OTHERS: [&str; 3] =
        ["application/yaml", "application/javascript", "application/x-www-form-urlencoded"];
    is_json(media_type) || is_text(media_type) || OTHERS.contains(&media_type)
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
    fn a_service_says_how_long_to_wait_in_seconds_or_with_a_date() {
        let now = DateTime::from_timestamp(1_445_412_470, 0).unwrap();
        let seconds = |text: &str| wait(text, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("7"), Some(7));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:00 GMT"), Some(10));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:27:00 GMT"), None, "in the past");
        assert_eq!(seconds("999999999999"), Some(24 * 60 * 60));
        for odd in ["", "0", "-1", "soon", "1.5"] {
            assert_eq!(seconds(odd), None, "{odd}");
        }
        let busy = failure(StatusCode::TOO_MANY_REQUESTS, "text/plain", b"slow", wait("7", now));
        assert!(busy.content.get().contains("HTTP 429 Too Many Requests; retry after 7 s\\nslow"));
        assert_eq!(busy.retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn failures_say_their_status_and_what_the_service_said() {
        let failed = failure(StatusCode::NOT_FOUND, "application/json", b"{\"e\":1}", None);
        assert!(failed.is_error);
        assert!(
            failed.content.get().contains("HTTP 404 Not Found\\n{\\\"e\\\":1}"),
            "{:?}",
            failed.content
        );
        let silent = failure(StatusCode::BAD_GATEWAY, "image/png", b"\x89PNG", None);
        assert!(silent.content.get().contains("\"HTTP 502 Bad Gateway\""));
    }
}
