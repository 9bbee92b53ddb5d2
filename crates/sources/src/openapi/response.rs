//! Converts a response to an outcome.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::StatusCode;
use serde_json::{Value, json, value::RawValue};
use toolcrib_core::{
    call::{Outcome, UpstreamError, raw},
    json::parse_strict,
};

use super::body::is_json;
use crate::{egress::Answer, error::protocol};

/// Bytes of an error response's body that are passed on.
const MAX_FAILURE: usize = 8 << 10;

/// Reads the response. An unsuccessful status is a failure of the tool, with the service's own
/// error text.
pub(super) async fn outcome(mut answer: Answer, max: usize) -> Result<Outcome, UpstreamError> {
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
        return Ok(failure(status, &media_type, &body));
    }
    let body = answer.collect(max).await?;
    success(status, &media_type, body)
}

fn failure(status: StatusCode, media_type: &str, body: &[u8]) -> Outcome {
    let reason = status.canonical_reason().unwrap_or_default();
    let head = format!("HTTP {} {reason}", status.as_u16());
    let text = is_text(media_type).then(|| String::from_utf8_lossy(body));
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    match text {
        Some(text) => Outcome::text(&format!("{}\n{text}", head.trim_end()), true),
        None => Outcome::text(head.trim_end(), true),
    }
}

fn success(status: StatusCode, media_type: &str, body: Vec<u8>) -> Result<Outcome, UpstreamError> {
    if body.is_empty() {
        return Ok(Outcome::text(&format!("done (HTTP {})", status.as_u16()), false));
    }
    if is_json(media_type) {
        let malformed = || protocol("the response is declared as JSON but is not valid JSON");
        parse_strict(&body).map_err(|_| malformed())?;
        let text = String::from_utf8(body).map_err(|_| malformed())?;
        let structured = RawValue::from_string(text).map_err(|_| malformed())?;
        let outcome = Outcome::text(structured.get(), false);
        return Ok(Outcome { structured: Some(structured), ..outcome });
    }
    if is_text(media_type)
        && let Ok(text) = std::str::from_utf8(&body)
    {
        return Ok(Outcome::text(text, false));
    }
    let content = raw(&json!([block(media_type, &body)]));
    Ok(Outcome { content, structured: None, is_error: false })
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

fn is_text(media_type: &str) -> bool {
    is_json(media_type)
        || media_type.starts_with("text/")
        || media_type.ends_with("/xml")
        || media_type.ends_with("+xml")
        || matches!(
            media_type,
            "application/yaml"
                | "application/javascript"
                | "application/x-ndjson"
                | "application/x-www-form-urlencoded"
        )
}

#[cfg(test)]
mod tests {
    use toolcrib_core::call::UpstreamErrorKind;

    use super::*;

    fn ok(media_type: &str, body: &[u8]) -> Outcome {
        success(StatusCode::OK, media_type, body.to_vec()).unwrap()
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
        let empty = success(StatusCode::NO_CONTENT, "", Vec::new()).unwrap();
        assert!(empty.content.get().contains("done (HTTP 204)") && !empty.is_error);
        for bad in [b"{" as &[u8], b"{\"a\":1,\"a\":2}", b"\xff"] {
            let error = success(StatusCode::OK, "application/json", bad.to_vec()).unwrap_err();
            assert_eq!(error.kind, UpstreamErrorKind::Protocol);
        }
    }

    #[test]
    fn failures_say_their_status_and_what_the_service_said() {
        let failed = failure(StatusCode::NOT_FOUND, "application/json", b"{\"e\":1}");
        assert!(failed.is_error);
        assert!(
            failed.content.get().contains("HTTP 404 Not Found\\n{\\\"e\\\":1}"),
            "{:?}",
            failed.content
        );
        let silent = failure(StatusCode::BAD_GATEWAY, "image/png", b"\x89PNG");
        assert!(silent.content.get().contains("\"HTTP 502 Bad Gateway\""));
    }
}
