//! Strict parsing of JSON that is hashed or decided upon.
//!
//! In addition to malformed text it refuses: a repeated key in one object (at any depth), nesting
//! deeper than 128, anything after the document, and an integer whose digits would be lost. Errors
//! give the position, and never repeat the text.

use std::{cell::Cell, fmt};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text is not acceptable JSON. Never repeats the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at line {line} column {column}")]
pub struct JsonError {
    /// The problem.
    pub problem: String,
    /// 1-based.
    pub line: usize,
    /// 1-based.
    pub column: usize,
}

/// Returns the JSON type of `value`.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Parses one JSON document; duplicate keys at any depth are an error.
pub fn parse_strict(bytes: &[u8]) -> Result<Value, JsonError> {
    let huge = Cell::new(false);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { huge: &huge }.deserialize(&mut reader).map_err(|e| explain(&e))?;
    reader.end().map_err(|e| explain(&e))?;
    if huge.get() {
        refuse_rounded_integers(bytes)?;
    }
    Ok(value)
}

/// Errors of this module carry no text of the document, and neither do serde_json's syntax errors.
/// Its other messages quote values, but cannot occur, because [`Strict`] accepts every type.
fn explain(error: &serde_json::Error) -> JsonError {
    let mut problem = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    if problem.ends_with(&place) {
        problem.truncate(problem.len() - place.len());
    }
    JsonError { problem, line: error.line().max(1), column: error.column().max(1) }
}

#[derive(Clone, Copy)]
struct Strict<'a> {
    /// Set when a number was read that may have been an integer beyond 64 bits.
    huge: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        if value.abs() >= MIN_HUGE {
            self.huge.set(true);
        }
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let value = members.next_value_seed(self)?;
            if object.insert(key, value).is_some() {
                return Err(de::Error::custom("an object has the same key twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

// === integers beyond 64 bits ===

/// Integers up to this are read exactly, as `i64` or `u64`; beyond it, serde_json makes doubles.
const MIN_HUGE: f64 = i64::MAX as f64;

/// serde_json reads an integer beyond 64 bits as the nearest double. That is acceptable only if RFC
/// 8785 prints exactly the digits of the text; otherwise two different documents would share a
/// hash. Scans the text again, but only for documents with such numbers.
fn refuse_rounded_integers(bytes: &[u8]) -> Result<(), JsonError> {
    let mut rest = bytes.iter().copied().enumerate().peekable();
    while let Some((at, byte)) = rest.next() {
        match byte {
            b'"' => {
                while let Some((_, inside)) = rest.next() {
                    match inside {
                        b'\\' => drop(rest.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            b'-' | b'0'..=b'9' => {
                let mut end = at + 1;
                while let Some((next, _)) = rest
                    .next_if(|(_, b)| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
                {
                    end = next + 1;
                }
                let number = bytes.get(at..end).unwrap_or_default();
                if !survives(number) {
                    let before = bytes.get(..at).unwrap_or_default();
                    return Err(JsonError {
                        problem: "an integer has more digits than can be kept".to_owned(),
                        line: before.iter().filter(|b| **b == b'\n').count() + 1,
                        column: before.iter().rev().take_while(|b| **b != b'\n').count() + 1,
                    });
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn survives(number: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(number) else { return false };
    if text.contains(['.', 'e', 'E']) || text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()
    {
        return true;
    }
    let Ok(double) = text.parse::<f64>() else { return false };
    // RFC 8785 uses exponents from 1e21.
    ryu_js::Buffer::new().format_finite(double) == text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problem(text: &str) -> String {
        parse_strict(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn reads_what_serde_json_reads() {
        let text = r#"{"z":[1,-2,18446744073709551615,1.5,"é\u0001",null,true,{}],"a":{"b":[]}}"#;
        let value = parse_strict(text.as_bytes()).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(value.to_string(), text, "member order is kept");
    }

    #[test]
    fn a_repeated_key_is_refused_at_any_depth() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"x":{"a":null,"b":0,"a":null}}]"#,
            r#"{"":1,"":2}"#,
        ] {
            assert!(problem(text).starts_with("an object has the same key twice"), "{text}");
        }
        assert!(parse_strict(br#"[{"a":1},{"a":1}]"#).is_ok());
    }

    #[test]
    fn errors_have_a_place_and_no_content() {
        assert_eq!(
            problem("{\"canary\": 1,\n \"canary\": 2}"),
            "an object has the same key twice at line 2 column 13"
        );
        for text in
            ["canary", r#"{"canary"}"#, r#"{"a":canary}"#, r#"["canary" "canary"]"#, "1 canary"]
        {
            assert!(!problem(text).contains("canary"), "{}", problem(text));
        }
        assert_eq!(parse_strict(b"").unwrap_err().column, 1);
    }

    #[test]
    fn anything_but_one_json_document_is_refused() {
        for text in [
            "",
            " ",
            "{}{}",
            "1 2",
            "nul",
            "[1,]",
            "{\"a\":1,}",
            "'a'",
            "01",
            "1e999",
            "\"\\ud800\"",
            "\u{feff}1",
        ] {
            assert!(parse_strict(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(parse_strict(b"\"\xff\"").is_err(), "not UTF-8");
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse_strict(nested(127).as_bytes()).is_ok());
        assert!(problem(&nested(100_000)).starts_with("recursion limit exceeded"));
    }

    #[test]
    fn an_integer_that_would_be_rounded_is_refused() {
        for text in [
            "100000000000000000000",
            "-100000000000000000000",
            "1e20",
            "1e300",
            "295147905179352830000",
        ] {
            assert!(parse_strict(text.as_bytes()).is_ok(), "{text}");
        }
        for text in ["100000000000000000001", "-9223372036854775809", "295147905179352830001"] {
            assert_eq!(
                problem(text),
                "an integer has more digits than can be kept at line 1 column 1"
            );
        }
        let text = "{\"1 \\\" 100000000000000000001\": 1e20,\n \"b\": [100000000000000000001]}";
        assert_eq!(problem(text), "an integer has more digits than can be kept at line 2 column 8");
    }

    #[test]
    fn the_names_serde_json_uses_inside_are_ordinary_keys() {
        for key in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
            let text = format!(r#"{{"{key}":"1"}}"#);
            assert_eq!(parse_strict(text.as_bytes()).unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = parse_strict(&bytes) {
                prop_assert_eq!(value, serde_json::from_slice::<Value>(&bytes).unwrap());
            }
        }
    }
}
