//! RFC 8785 canonical bytes and their SHA-256.
//!
//! Invariant: equal bytes mean equal documents. An integer that a double cannot hold is refused,
//! never rounded, because two documents that differ there would otherwise share a hash.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use sha2::{Digest as _, Sha256};

use crate::{hex, pointer::push_front};

/// A SHA-256, printed as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(#[serde(with = "hex")] pub [u8; 32]);

impl Digest {
    /// Returns the SHA-256 of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses the output of `Display`; returns `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        hex::decode(text).map(Self)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Why a document has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// An integer that a double cannot hold exactly (RFC 7493 §2.2).
    #[error("an integer at {pointer:?} is outside ±(2^53-1) and has no exact canonical form")]
    IntegerOutOfRange {
        /// RFC 6901 pointer to it.
        pointer: String,
    },
}

/// Returns the RFC 8785 bytes of `value`.
pub fn canonical_bytes(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    let mut out = Vec::with_capacity(256);
    write_value(value, &mut out)?;
    Ok(out)
}

/// Returns the RFC 8785 bytes of an object with these members, whose names must differ.
pub(crate) fn canonical_members<'a>(
    members: impl IntoIterator<Item = (&'a str, &'a Value)>,
) -> Result<Vec<u8>, CanonicalError> {
    let mut out = Vec::with_capacity(256);
    write_members(members.into_iter().collect(), &mut out)?;
    Ok(out)
}

/// Returns the SHA-256 over [`canonical_bytes`].
pub fn digest(value: &Value) -> Result<Digest, CanonicalError> {
    canonical_bytes(value).map(|bytes| Digest::of(&bytes))
}

/// The largest integer up to which every integer is a double (RFC 7493 §2.2).
const MAX_EXACT: u64 = (1 << 53) - 1;

fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out)?,
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(item, out).map_err(|e| e.inside(&index.to_string()))?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            write_members(members.iter().map(|(key, value)| (key.as_str(), value)).collect(), out)?;
        }
    }
    Ok(())
}

fn write_members(
    mut members: Vec<(&str, &Value)>,
    out: &mut Vec<u8>,
) -> Result<(), CanonicalError> {
    members.sort_unstable_by(|(a, _), (b, _)| utf16_order(a, b));
    out.push(b'{');
    for (index, (key, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(key, out);
        out.push(b':');
        write_value(value, out).map_err(|e| e.inside(key))?;
    }
    out.push(b'}');
    Ok(())
}

/// RFC 8785 §3.2.3. Byte order differs from it only where a character beyond U+FFFF (surrogates, so
/// D800..DFFF) meets one of U+E000..U+FFFF, which no ASCII text can do.
fn utf16_order(a: &str, b: &str) -> Ordering {
    if a.is_ascii() || b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

/// RFC 8785 §3.2.2.3: as ECMAScript prints a Number.
fn write_number(number: &Number, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    let exact = match (number.as_u64(), number.as_i64()) {
        (Some(n), _) => n <= MAX_EXACT,
        (None, Some(n)) => n.unsigned_abs() <= MAX_EXACT,
        (None, None) => true, // a double already
    };
    match number.as_f64() {
        Some(double) if exact => {
            out.extend_from_slice(ryu_js::Buffer::new().format_finite(double).as_bytes());
            Ok(())
        }
        _ => Err(CanonicalError::IntegerOutOfRange { pointer: String::new() }),
    }
}

/// RFC 8785 §3.2.2.2: the shortest escapes, and none that is not needed, as serde_json writes them.
fn write_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).ok(); // a vector takes everything
}

impl CanonicalError {
    /// Returns the same error, with its pointer extended by the enclosing `token`.
    fn inside(self, token: &str) -> Self {
        let Self::IntegerOutOfRange { pointer } = self;
        Self::IntegerOutOfRange { pointer: push_front(token, &pointer) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_integer_that_a_double_cannot_hold_is_refused_with_its_place() {
        for (value, pointer) in [
            (json!(9_007_199_254_740_992_i64), ""),
            (json!({"a/b": [0, {"~": u64::MAX}]}), "/a~1b/1/~0"),
            (json!([i64::MIN]), "/0"),
        ] {
            let expected = CanonicalError::IntegerOutOfRange { pointer: pointer.to_owned() };
            assert_eq!(canonical_bytes(&value), Err(expected.clone()));
            assert_eq!(digest(&value), Err(expected));
        }
        for value in
            [json!(MAX_EXACT), json!(-9_007_199_254_740_991_i64), json!(9e15), json!(1e300)]
        {
            assert!(canonical_bytes(&value).is_ok(), "{value}");
        }
    }

    #[test]
    fn keys_are_ordered_by_utf16_units() {
        let mut keys =
            ["\u{fb33}", "\u{1f600}", "\u{20ac}", "\r", "1", "\u{80}", "\u{f6}", "a", "aa", ""];
        keys.sort_by(|a, b| utf16_order(a, b));
        assert_eq!(
            keys,
            ["", "\r", "1", "a", "aa", "\u{80}", "\u{f6}", "\u{20ac}", "\u{1f600}", "\u{fb33}"]
        );
    }

    #[test]
    fn a_digest_prints_as_lower_hex() {
        let digest = Digest::of(b"{}");
        let hex = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(digest.to_string(), hex);
        assert_eq!(format!("{digest:?}"), format!("Digest({hex})"));
        assert_eq!(Digest::parse(hex), Some(digest));
        for wrong in ["", &hex[1..], &format!("{hex}0"), &hex.to_uppercase(), "zz"] {
            assert_eq!(Digest::parse(wrong), None);
        }
    }
}
