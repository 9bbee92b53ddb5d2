//! What a node answered, as an outcome.

use serde_json::value::RawValue;
use toolcrib_core::call::{Outcome, UpstreamError, UpstreamErrorKind, raw};

/// An outcome of `output`: the value as it is, and its text for who reads only text.
pub(super) fn completed(output: &RawValue, max: usize) -> Result<Outcome, UpstreamError> {
    let text = match serde_json::from_str::<String>(output.get()) {
        Ok(text) => text,
        Err(_) => output.get().to_owned(),
    };
    let content = raw(&serde_json::json!([{ "type": "text", "text": text }]));
    let outcome = Outcome { content, structured: Some(output.to_owned()), is_error: false };
    match outcome.len() > max {
        true => Err(too_large(outcome.len())),
        false => Ok(outcome),
    }
}

/// More than the caller may be sent.
pub(super) fn too_large(bytes: usize) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::TooLarge, format!("the result has {bytes} bytes"))
}
