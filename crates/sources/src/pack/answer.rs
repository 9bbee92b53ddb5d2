//! Converts the result of a node to an outcome.

use serde_json::value::RawValue;
use toolcrib_core::call::{Outcome, UpstreamError, raw};

use crate::error::too_large;

/// Returns an outcome with `output` as structured result and as text.
pub(super) fn completed(output: &RawValue, max: usize) -> Result<Outcome, UpstreamError> {
    let text = match serde_json::from_str::<String>(output.get()) {
        Ok(text) => text,
        Err(_) => output.get().to_owned(),
    };
    let content = raw(&serde_json::json!([{ "type": "text", "text": text }]));
    let outcome = Outcome { content, structured: Some(output.to_owned()), is_error: false };
    match outcome.len() > max {
        true => Err(too_large(format!("the result has {} bytes", outcome.len()))),
        false => Ok(outcome),
    }
}
