//! An unsuccessful answer over HTTP as a failure of the tool, with the service's own words.

use std::{borrow::Cow, time::Duration};

use http::StatusCode;
use toolcrib_core::{call::Outcome, limit::wait_millis};

use crate::openapi::is_readable;

/// Bytes of the body to pass on.
pub(crate) const MAX_WORDS: usize = 8 << 10;

/// A request answered with an unsuccessful status.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// How long to wait before a retry, if a busy service says so.
    pub(crate) retry_after: Option<Duration>,
    /// The text of the body, which may be empty.
    pub(crate) words: String,
}

impl Refusal {
    pub(crate) fn outcome(&self) -> Outcome {
        let reason = self.status.canonical_reason().unwrap_or_default();
        let mut text = format!("HTTP {} {reason}", self.status.as_u16()).trim_end().to_owned();
        if let Some(wait) = self.retry_after {
            text.push_str(&format!("; retry after {} s", wait_millis(wait).div_ceil(1_000)));
        }
        if !self.words.is_empty() {
            text.push('\n');
            text.push_str(&self.words);
        }
        Outcome { retry_after: self.retry_after, ..Outcome::text(&text, true) }
    }
}

/// Reads the text of the body of a refusal, cut to [`MAX_WORDS`] bytes. It is empty if the body is
/// not text.
pub(crate) fn words<'a>(media_type: &str, body: &'a [u8]) -> Cow<'a, str> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let start = body.get(..MAX_WORDS).unwrap_or(body);
    let is_text = match std::str::from_utf8(start) {
        Ok(_) => true,
        // A character may be cut.
        Err(error) => error.error_len().is_none(),
    };
    match is_readable(media_type) || media_type.is_empty() && is_text {
        true => String::from_utf8_lossy(start.trim_ascii()),
        false => Cow::Borrowed(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(status: u16, retry_after: Option<u64>, media_type: &str, body: &[u8]) -> String {
        let refusal = Refusal {
            status: StatusCode::from_u16(status).unwrap(),
            retry_after: retry_after.map(Duration::from_secs),
            words: words(media_type, body).into_owned(),
        };
        let outcome = refusal.outcome();
        assert!(outcome.is_error);
        assert_eq!(outcome.retry_after.map(|wait| wait.as_secs()), retry_after);
        let blocks: serde_json::Value = serde_json::from_str(outcome.content.get()).unwrap();
        blocks[0]["text"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_refusal_has_its_status_its_wait_and_the_words_of_the_service() {
        let json = "application/problem+json";
        for (refusal, expected) in [
            (text(404, None, json, b"\xef\xbb\xbf{\"e\":1}\n"), "HTTP 404 Not Found\n{\"e\":1}"),
            (
                text(429, Some(7), "text/html", b" <b>slow</b>"),
                "HTTP 429 Too Many Requests; retry after 7 s\n<b>slow</b>",
            ),
            (
                text(503, Some(0), "", b"soon"),
                "HTTP 503 Service Unavailable; retry after 0 s\nsoon",
            ),
            (text(502, None, "image/png", b"\x89PNG"), "HTTP 502 Bad Gateway"),
            (text(502, None, "", b"\x89PNG"), "HTTP 502 Bad Gateway"),
            (text(599, None, "text/plain", b"caf\xe9"), "HTTP 599\ncaf\u{fffd}"),
        ] {
            assert_eq!(refusal, expected);
        }
        let long = text(500, None, "", "ä".repeat(MAX_WORDS).as_bytes());
        assert!(long.len() <= MAX_WORDS + 40, "{}", long.len());
    }
}
