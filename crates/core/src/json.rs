//! Strict parsing of JSON for hashes and decisions.
//!
//! In addition to malformed text it refuses: a repeated key in one object (at any depth), nesting
//! deeper than 128, anything after the document, and a number with more digits than
//! [`MAX_DIGITS`]. Numbers keep their text. Errors give the position, and
//! never repeat the text.

use std::{cell::Cell, fmt};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::number::{self, MAX_DIGITS};

/// Why a text is not acceptable JSON. Never repeats the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at line {line} column {column}")]
pub struct JsonError {
    /// The violated rule or limit, without any part of the text.
    pub problem: String,
    /// 1-based.
    pub line: usize,
    /// 1-based.
    pub column: usize,
}

/// The JSON type of `value`.
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
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let has_exponents = Cell::new(false);
    let strict = StrictReader { has_exponents: &has_exponents };
    let mut value = strict.deserialize(&mut reader).map_err(|e| explain(&e))?;
    reader.end().map_err(|e| explain(&e))?;
    if has_exponents.get() {
        restore_exponents(&mut value, &mut exponent_numbers(bytes));
    }
    Ok(value)
}

/// Parses JSON that passed the checks of its input. Numbers keep their text, unless [`parse_strict`]
/// refuses the document.
///
/// # Errors
/// Fails if it is not JSON.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    parse_strict(text.as_bytes()).or_else(|_| serde_json::from_str(text))
}

/// Errors of this module carry no text of the document, and neither do serde_json's syntax errors.
/// Its other messages quote values, but cannot occur, because [`StrictReader`] accepts every type.
fn explain(error: &serde_json::Error) -> JsonError {
    let mut problem = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    if problem.ends_with(&place) {
        problem.truncate(problem.len() - place.len());
    }
    JsonError { problem, line: error.line().max(1), column: error.column().max(1) }
}

/// The prefix of the keys by which serde_json names its own values. Its other readers would misread
/// an object with such a key.
const RESERVED: &str = "$serde_json::private::";

/// The key of the map as which serde_json presents a number other than a 64-bit integer.
pub const NUMBER_KEY: &str = "$serde_json::private::Number";

#[derive(Clone, Copy)]
struct StrictReader<'a> {
    /// Set when a number with an exponent was read, which serde_json writes in another form.
    has_exponents: &'a Cell<bool>,
}

impl StrictReader<'_> {
    fn number<E: de::Error>(self, text: &str) -> Result<Number, E> {
        let number: Number = text.parse().map_err(E::custom)?;
        if !number::is_bounded(&number) {
            return Err(E::custom(format!("a number has more than {MAX_DIGITS} digits")));
        }
        self.has_exponents.set(self.has_exponents.get() | has_exponent(text));
        Ok(number)
    }
}

impl<'de> DeserializeSeed<'de> for StrictReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictReader<'_> {
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

    // Integers of 64 bits; `visit_map` gets all other numbers.
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
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
            if key.starts_with(RESERVED) {
                let is_number = key == NUMBER_KEY && object.is_empty();
                let text = is_number.then(|| members.next_value_seed(NumberText).ok()).flatten();
                let reserved = || de::Error::custom("an object has a reserved key");
                return self.number(&text.ok_or_else(reserved)?).map(Value::Number);
            }
            let value = members.next_value_seed(self)?;
            if object.insert(key, value).is_some() {
                return Err(de::Error::custom("an object has the same key twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

/// Reads the text of a number. serde_json passes it as an owned string. A string of the document,
/// in an object that only looks like a number, is never owned.
struct NumberText;

impl<'de> DeserializeSeed<'de> for NumberText {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for NumberText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a number")
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<String, E> {
        Err(E::custom("a string of the document"))
    }

    fn visit_string<E>(self, text: String) -> Result<String, E> {
        Ok(text)
    }
}

// === exponents ===

fn has_exponent(number: &str) -> bool {
    number.contains(['e', 'E'])
}

/// Gives the numbers with an exponent in `value` the texts of the document, in its order: serde_json
/// reads `1E2` as `1e+2`.
fn restore_exponents<'a>(value: &mut Value, texts: &mut impl Iterator<Item = &'a str>) {
    match value {
        Value::Number(number) if has_exponent(number.as_str()) => {
            if let Some(text) = texts.next() {
                *number = Number::from_string_unchecked(text.to_owned());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| restore_exponents(item, texts)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| restore_exponents(member, texts));
        }
        _ => {}
    }
}

/// The texts of the numbers with an exponent in a valid document.
fn exponent_numbers(bytes: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        while let [first, after @ ..] = rest {
            match first {
                b'"' => {
                    let mut escaped = false;
                    let end = after.iter().position(|byte| {
                        let ends = *byte == b'"' && !escaped;
                        escaped = *byte == b'\\' && !escaped;
                        ends
                    });
                    rest = end.and_then(|end| after.get(end + 1..)).unwrap_or_default();
                }
                b'-' | b'0'..=b'9' => {
                    let is_part =
                        |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                    let end = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                    let (number, after) = rest.split_at(end);
                    rest = after;
                    if let Some(text) =
                        std::str::from_utf8(number).ok().filter(|text| has_exponent(text))
                    {
                        return Some(text);
                    }
                }
                _ => rest = after,
            }
        }
        None
    })
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
            "1e",
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
    fn numbers_keep_their_text_up_to_a_bound() {
        let text = r#"[1915883588174806058,-0,1e2,0.10,9007199254740993.0,1E-400,{"n":1e400},-0e0,
            1E2,{"1e3 \\\" 1e4":[1e+2,"1e5\\\\",1.50e02],"e":-1e-02},5e1]"#;
        let text = text.replace(['\n', ' '], "");
        assert_eq!(parse_strict(text.as_bytes()).unwrap().to_string(), text);
        let text = format!("{{\"1 \\\" 1e999\": 1,\n \"b\": [{}]}}", "1".repeat(513));
        assert!(problem(&text).starts_with("a number has more than 512 digits at line 2 column "));
        assert!(problem("1e-9999").starts_with("a number has more than 512 digits"));
    }

    #[test]
    fn the_names_serde_json_uses_inside_are_refused() {
        for key in ["RawValue", "Number", "\\u004eumber"] {
            for value in ["\"1\"", "1", "\"\\u0031\"", "[]", "{}"] {
                let text = format!(r#"{{"$serde_json::private::{key}":{value}}}"#);
                assert!(problem(&text).starts_with("an object has a reserved key"), "{text}");
                let text = format!(r#"{{"a":1,"$serde_json::private::{key}":{value}}}"#);
                assert!(problem(&text).starts_with("an object has a reserved key"), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = parse_strict(&bytes) {
                let same: Value = serde_json::from_str(&value.to_string()).unwrap();
                prop_assert_eq!(same, serde_json::from_slice::<Value>(&bytes).unwrap());
            }
        }
    }
}
