//! The canonical bytes of RFC 8785 and their SHA-256, extended to numbers that a double cannot hold.
//!
//! RFC 8785 covers numbers that are doubles (RFC 7493 §2.2). An integer that a double would round,
//! and a number that it would make infinite or zero, is written by the same rules with its own
//! digits. Two documents that differ there therefore have different hashes.
//! docs/explanation/record.md has test vectors.
//!
//! Invariant: equal bytes mean equal documents; of [`canonical_bytes`] up to the rounding of fractions
//! that RFC 8785 prescribes, of [`exact_bytes`] without it.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{hex, number::write_canonical};

/// A SHA-256, printed as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(#[serde(with = "hex")] pub [u8; 32]);

impl Digest {
    /// The SHA-256 of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses the output of `Display`; `None` for other texts.
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

/// The canonical bytes of `value`, in which fractions are rounded as RFC 8785 prescribes.
pub fn canonical_bytes(value: &Value) -> Vec<u8> {
    written(|writer| writer.value(value), false)
}

/// The canonical bytes of `value`, with all digits of fractions, for the identity of a call, where
/// RFC 8785 is not prescribed.
pub fn exact_bytes(value: &Value) -> Vec<u8> {
    written(|writer| writer.value(value), true)
}

/// The [`exact_bytes`] of an object with these members, whose names must differ.
pub(crate) fn exact_members<'a>(
    members: impl IntoIterator<Item = (&'a str, &'a Value)>,
) -> Vec<u8> {
    written(|writer| writer.members(members.into_iter().collect()), true)
}

/// The SHA-256 over [`canonical_bytes`].
pub fn digest(value: &Value) -> Digest {
    Digest::of(&canonical_bytes(value))
}

fn written(write: impl FnOnce(&mut Writer), exact: bool) -> Vec<u8> {
    let mut writer = Writer { out: Vec::with_capacity(256), exact };
    write(&mut writer);
    writer.out
}

struct Writer {
    out: Vec<u8>,
    /// Whether fractions keep all digits.
    exact: bool,
}

// === impl Writer ===

impl Writer {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.out.extend_from_slice(b"null"),
            Value::Bool(true) => self.out.extend_from_slice(b"true"),
            Value::Bool(false) => self.out.extend_from_slice(b"false"),
            Value::Number(number) => write_canonical(number, self.exact, &mut self.out),
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.out.push(b',');
                    }
                    self.value(item);
                }
                self.out.push(b']');
            }
            Value::Object(members) => {
                self.members(members.iter().map(|(key, value)| (key.as_str(), value)).collect());
            }
        }
    }

    fn members(&mut self, mut members: Vec<(&str, &Value)>) {
        members.sort_unstable_by(|(a, _), (b, _)| utf16_order(a, b));
        self.out.push(b'{');
        for (index, (key, value)) in members.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.string(key);
            self.out.push(b':');
            self.value(value);
        }
        self.out.push(b'}');
    }

    /// RFC 8785 §3.2.2.2: only necessary escapes, in their shortest form, as serde_json writes
    /// them.
    fn string(&mut self, text: &str) {
        serde_json::to_writer(&mut self.out, text).ok(); // a vector takes everything
    }
}

/// RFC 8785 §3.2.3. Byte order differs from it only where a character beyond U+FFFF (surrogates, so
/// D800..DFFF) meets one of U+E000..U+FFFF, which no ASCII text can do.
fn utf16_order(a: &str, b: &str) -> Ordering {
    if a.is_ascii() || b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
