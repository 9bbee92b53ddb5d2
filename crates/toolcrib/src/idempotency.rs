//! Idempotent calls over HTTP: the header `Idempotency-Key`, and the parts of a response that all
//! dialects share.
//!
//! The value of the header is the key itself. A quoted value, as in the IETF draft, is the same key
//! as the bare one.

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use toolcrib_core::principal::Principal;
use toolcrib_gateway::{
    CallReport, CallRequest, Gateway,
    idempotency::{self, ClientKey, IdempotencyError, IdempotentOutcome, MAX_KEY},
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use crate::parameters;

/// Marks the replayed response of an earlier call.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The wait before a retry, if the call of the key is running or too many calls are running.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The header does not contain a valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`Idempotency-Key` must appear exactly once and contain 1 to 256 visible ASCII characters")]
pub(crate) struct BadKey;

/// Reads the key in `headers`, if there is one.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, BadKey> {
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(BadKey);
    }
    let text = value.to_str().map_err(|_| BadKey)?.trim();
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let visible = bare.bytes().all(|byte| byte.is_ascii_graphic());
    match bare.len() {
        1..=MAX_KEY if visible => Ok(Some(bare.to_owned())),
        _ => Err(BadKey),
    }
}

/// The schema of the header's value, for the OpenAPI description.
pub(crate) struct IdempotencyKeyText;

impl PartialSchema for IdempotencyKeyText {
    fn schema() -> RefOr<Schema> {
        parameters::pattern(r#"^([!#-~][!-~]{0,255}|"[!-~]{1,256}"|")$"#)
    }
}

impl ToSchema for IdempotencyKeyText {}

/// Calls a tool, at most once under `key` if there is one. `keep` encodes the response of a final
/// call for storage.
///
/// # Errors
/// Fails when the key cannot be used for this call; the tool did not run.
pub(crate) async fn call(
    gateway: &Gateway,
    caller: &Arc<Principal>,
    key: Option<ClientKey<'_>>,
    request: CallRequest<'_>,
    keep: impl FnOnce(&CallReport) -> Option<Bytes> + Send + 'static,
) -> Result<IdempotentOutcome, IdempotencyError> {
    let Some(key) = key else {
        return Ok(IdempotentOutcome::Report(Arc::new(gateway.call(caller, request).await)));
    };
    let keep = |report: &CallReport| idempotency::is_final(report).then(|| keep(report)).flatten();
    gateway.call_idempotent(caller, key, request, keep).await
}

pub(crate) fn status(refused: IdempotencyError) -> StatusCode {
    match refused {
        IdempotencyError::Unusable => StatusCode::BAD_REQUEST,
        IdempotencyError::Conflict => StatusCode::UNPROCESSABLE_ENTITY,
        IdempotencyError::Spent | IdempotencyError::Running => StatusCode::CONFLICT,
        IdempotencyError::Busy => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// The time after which the same key may be usable; `None` if it never will be for this call.
pub(crate) fn retry_after(refused: IdempotencyError) -> Option<Duration> {
    match refused {
        IdempotencyError::Running | IdempotencyError::Busy => Some(RETRY_AFTER),
        IdempotencyError::Unusable | IdempotencyError::Conflict | IdempotencyError::Spent => None,
    }
}

/// Marks `response` as the replay of an earlier call.
pub(crate) fn replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Result<Option<String>, BadKey> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(KEY, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        key(&headers)
    }

    #[test]
    fn a_key_appears_exactly_once_and_is_not_empty() {
        assert_eq!(read(&[]), Ok(None));
        for text in ["8e03978e-40d5", "\"8e03978e-40d5\"", " 8e03978e-40d5 "] {
            assert_eq!(read(&[text]), Ok(Some("8e03978e-40d5".to_owned())), "{text}");
        }
        assert_eq!(read(&["\""]), Ok(Some("\"".to_owned())));
        let longest = "x".repeat(MAX_KEY);
        assert_eq!(read(&[&longest]), Ok(Some(longest.clone())));
        let long = format!("{longest}x");
        for values in
            [&["a b"][..], &["a", "b"], &["a", "a"], &[""], &["\"\""], &["  "], &["ü"], &[&long]]
        {
            assert_eq!(read(values), Err(BadKey), "{values:?}");
        }
    }
}
