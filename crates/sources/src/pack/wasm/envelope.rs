//! The response envelope of pack code (RFC 0008, §D).

use serde::Deserialize;
use serde_json::value::RawValue;
use toolcrib_core::call::{Outcome, UpstreamError};

use super::super::answer::completed;
use crate::{
    error::protocol,
    text::{fit_for_callers, tidy_lines},
};

/// Longest message of a failed node to pass on, in bytes.
const MAX_MESSAGE: usize = 2048;

#[derive(Deserialize)]
struct Answer<'a> {
    outcome: String,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    error: Option<Failure>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Failure {
    code: String,
    message: String,
}

/// Parses the response of a node's code.
pub(super) fn read(bytes: &[u8], max: usize) -> Result<Outcome, UpstreamError> {
    let Ok(answer) = serde_json::from_slice::<Answer<'_>>(bytes) else {
        return Err(protocol("the response of the node is not a valid outcome"));
    };
    match (answer.outcome.as_str(), answer.output, answer.error) {
        ("completed", output, _) => completed(output.unwrap_or(RawValue::NULL), max),
        ("failed", _, error) => {
            let Failure { code, message } = error.unwrap_or_default();
            let text = match (message.as_str(), code.as_str()) {
                ("", "") => "the node failed without a reason".to_owned(),
                ("", code) => code.to_owned(),
                (message, "") => message.to_owned(),
                (message, code) => format!("{message} ({code})"),
            };
            Ok(Outcome::text(&fit_for_callers(&tidy_lines(&text, MAX_MESSAGE)), true))
        }
        ("suspended", ..) => Ok(Outcome::text(
            "the node requested to be suspended, which tools do not support",
            true,
        )),
        _ => Err(protocol("the node returned an unknown outcome")),
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_core::call::UpstreamErrorKind;

    use super::*;

    #[test]
    fn answers_are_read_and_nonsense_is_refused() {
        let ok = read(br#"{"outcome":"completed","output":{"a": 1.50}}"#, 1000).unwrap();
        assert_eq!(ok.structured.unwrap().get(), r#"{"a": 1.50}"#, "as it was written");
        assert!(ok.content.get().contains(r#"{\"a\": 1.50}"#));
        let text = read(br#"{"outcome":"completed","output":"a\"b"}"#, 1000).unwrap();
        assert_eq!(text.content.get(), r#"[{"type":"text","text":"a\"b"}]"#);
        let failed = br#"{"outcome":"failed","error":{"code":"bad_cron","message":"five fields"}}"#;
        let failed = read(failed, 1000).unwrap();
        assert!(failed.is_error && failed.content.get().contains("five fields (bad_cron)"));
        assert!(read(br#"{"outcome":"suspended","interrupt":{}}"#, 1000).unwrap().is_error);
        for junk in [&b""[..], b"null", b"{}", br#"{"outcome":"done"}"#, b"\xff\xfe", b"[[["] {
            assert_eq!(read(junk, 1000).unwrap_err().kind, UpstreamErrorKind::Protocol);
        }
        let large = read(br#"{"outcome":"completed","output":"0123456789"}"#, 30).unwrap_err();
        assert_eq!(large.kind, UpstreamErrorKind::TooLarge);
    }
}
