//! The header `Idempotency-Key`: a caller's own name for one call, where its protocol has none.
//!
//! The value is the key itself; one in quotes, as the draft of the IETF has it, is the same key.

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_gateway::idempotency::MAX_KEY;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

/// Says that an answer is that of an earlier call.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A header that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`Idempotency-Key` must appear exactly once and contain 1 to 256 visible ASCII characters")]
pub(crate) struct BadKey;

/// The key in `headers`, if there is one.
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

/// The value of the header, as described.
pub(crate) struct IdempotencyKeyText;

impl PartialSchema for IdempotencyKeyText {
    fn schema() -> RefOr<Schema> {
        let pattern = r#"^([!#-~][!-~]{0,255}|"[!-~]{1,256}"|")$"#;
        ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).into()
    }
}

impl ToSchema for IdempotencyKeyText {}

/// Marks `response` as that of an earlier call.
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
    fn a_key_stands_once_and_is_not_empty() {
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
