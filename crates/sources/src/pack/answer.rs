//! Converts the result of a node to an outcome.

use serde_json::value::RawValue;
use toolcrib_core::call::{Outcome, UpstreamError};

/// Creates an outcome with `output` as structured result and as text.
pub(super) fn completed(output: &RawValue, max: usize) -> Result<Outcome, UpstreamError> {
    let text = serde_json::from_str(output.get()).unwrap_or_else(|_| output.get().to_owned());
    let outcome = Outcome { structured: Some(output.to_owned()), ..Outcome::text(&text, false) };
    outcome.check_size(max).map(|()| outcome)
}
