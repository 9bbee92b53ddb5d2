//! Kinds of values: their texts in the file, and their names in the configuration reference.
//!
//! A field of a kind has `#[serde(with = "kind::Duration")]`: serde reads and writes the text, and
//! schemars takes the name from the same type.

use std::{borrow::Cow, fmt, marker::PhantomData, net::SocketAddr, str::FromStr as _, time};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserializer, Serialize as _, Serializer,
    de::{self, Visitor},
};
use toolcrib_core::{limit, quota};

/// A kind of value that the file writes as text.
pub(super) trait Kind: Sized {
    type Value;

    /// Parses the text of a value.
    fn parse(text: &str) -> Result<Self::Value, String>;

    /// The text of a value, for documented defaults.
    fn text(value: &Self::Value) -> String;

    /// Deserializes a value, also as `Some` of an optional field.
    fn deserialize<'de, D: Deserializer<'de>, T: From<Self::Value>>(d: D) -> Result<T, D::Error> {
        d.deserialize_str(KindVisitor::<Self>(PhantomData)).map(T::from)
    }

    /// Serializes a value; `None` becomes no text.
    fn serialize<S, T>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: Clone + Into<Option<Self::Value>>,
    {
        value.clone().into().map(|value| Self::text(&value)).serialize(serializer)
    }
}

/// Reads the text of a kind. A bare number gets an example with its unit.
struct KindVisitor<K>(PhantomData<K>);

impl<K: Kind> Visitor<'_> for KindVisitor<K> {
    type Value = K::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text in quotes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<K::Value, E> {
        K::parse(text).map_err(|expected| match meant::<K>(text) {
            Some(meant) if meant != text => {
                E::custom(format!("{expected}; in place of {text:?} write {meant:?}"))
            }
            _ => E::custom(expected),
        })
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<K::Value, E> {
        let expected = K::parse("").err().unwrap_or_default();
        Err(match meant::<K>(&number.to_string()) {
            Some(meant) => E::custom(format!("{expected}; in place of {number} write {meant:?}")),
            None => E::custom(expected),
        })
    }
}

/// The text of a kind that `text`, a number or a port of this machine, probably means.
fn meant<K: Kind>(text: &str) -> Option<String> {
    let number = text.strip_prefix("localhost").unwrap_or(text);
    let number = number.strip_prefix(':').unwrap_or(number);
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let forms = ["", "d", "s", "/m", "/d"].iter().map(|unit| format!("{number}{unit}"));
    let mut forms = forms.chain([format!("127.0.0.1:{number}")]);
    forms.find(|form| K::parse(form).is_ok())
}

/// Implements the schema of a kind: its name in the reference, and its valid texts.
macro_rules! named {
    ($($type:ty: $name:literal, $texts:literal;)*) => { $(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "title": $name, "type": "string", "pattern": $texts })
            }
        }
    )* };
}

/// Defines the kinds with their values and the functions for their texts.
macro_rules! kinds {
    ($($kind:ident($value:ty): $parse:path, $text:path;)*) => { $(
        #[derive(Debug)]
        pub(super) enum $kind {}

        impl Kind for $kind {
            type Value = $value;

            fn parse(text: &str) -> Result<$value, String> {
                $parse(text)
            }

            fn text(value: &$value) -> String {
                $text(value)
            }
        }
    )* };
}

kinds! {
    Address(SocketAddr): parse_address, SocketAddr::to_string;
    Age(time::Duration): parse_age, duration_text;
    Duration(time::Duration): parse_duration, duration_text;
    KeepFree(u64): parse_keep_free, size_text;
    Quota(Option<quota::Quota>): parse_quota, or_off;
    Rate(Option<limit::Rate>): parse_rate, or_off;
    Size(usize): parse_size, size_text;
    Wait(time::Duration): parse_wait, duration_text;
}

#[derive(Debug)]
pub(super) enum AnyValue {}

impl JsonSchema for AnyValue {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Any".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "title": "any value" })
    }
}

// The patterns accept every text that the functions below accept. They also accept numbers that
// are too large, and impossible addresses.
named! {
    Address: "text", r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}$";
    Age: "age", "^[0-9]*[1-9][0-9]*(ms|s|m|h|d)$";
    Duration: "duration", "^[0-9]*[1-9][0-9]*(ms|s|m|h)$";
    KeepFree: "size", "^(off|[0-9]*[1-9][0-9]*[ \t]*(B|KiB|MiB|GiB)?[ \t]*)$";
    Quota: "quota", "^(off|[0-9]*[1-9][0-9]*/d)$";
    Rate: "rate", "^(off|[0-9]*[1-9][0-9]*/[smhd])$";
    Size: "size", "^[0-9]*[1-9][0-9]*[ \t]*(B|KiB|MiB|GiB)?[ \t]*$";
    Wait: "duration", "^(0|0s|[0-9]*[1-9][0-9]*(ms|s|m|h))$";
}

/// Parses a duration such as `250ms`, `30s`, `5m` or `2h`.
pub fn parse_duration(text: &str) -> Result<time::Duration, String> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    let expected = "expected a duration such as \"250ms\", \"30s\", \"5m\" or \"2h\"";
    number(text, &units, |unit| unit)
        .map(time::Duration::from_millis)
        .ok_or_else(|| expected.to_owned())
}

/// Like [`parse_duration`], but also accepts days such as `90d`.
fn parse_age(text: &str) -> Result<time::Duration, String> {
    let days = number(text, &[("d", 86_400)], |unit| unit).map(time::Duration::from_secs);
    let age = days.map_or_else(|| parse_duration(text), Ok);
    age.map_err(|_| "expected a time such as \"90d\" or \"12h\"".to_owned())
}

/// Like [`parse_duration`], but also accepts zero.
fn parse_wait(text: &str) -> Result<time::Duration, String> {
    match text {
        "0" | "0s" => Ok(time::Duration::ZERO),
        text => parse_duration(text),
    }
}

/// Parses a size such as `4096`, `64KiB` or `4MiB`.
fn parse_size(text: &str) -> Result<usize, String> {
    let units = [("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    number(text, &units, str::trim)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| "expected a size such as \"65536\", \"64KiB\" or \"4MiB\"".to_owned())
}

/// Parses a size; `off` means 0.
fn parse_keep_free(text: &str) -> Result<u64, String> {
    match text {
        "off" => Ok(0),
        size => parse_size(size).map(|bytes| bytes as u64),
    }
}

/// Parses a number with one of the units; `None` if it is not positive or too large.
fn number(text: &str, units: &[(&str, u64)], clean: fn(&str) -> &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == clean(unit))?;
    number.parse::<u64>().ok()?.checked_mul(*factor).filter(|&number| number > 0)
}

fn parse_quota(text: &str) -> Result<Option<quota::Quota>, String> {
    let expected = "expected calls per day such as \"10000/d\", or \"off\"";
    unless_off(text, str::parse).map_err(|_| expected.to_owned())
}

fn parse_rate(text: &str) -> Result<Option<limit::Rate>, String> {
    let expected = "expected calls per time such as \"30/m\" or \"5/s\", or \"off\"";
    unless_off(text, str::parse).map_err(|_| expected.to_owned())
}

fn unless_off<T, E>(text: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<Option<T>, E> {
    if text == "off" { Ok(None) } else { parse(text).map(Some) }
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    SocketAddr::from_str(text)
        .map_err(|_| "expected an address and a port such as \"127.0.0.1:8808\"".to_owned())
}

fn or_off<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| "off".to_owned(), T::to_string)
}

fn duration_text(duration: &time::Duration) -> String {
    let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
    in_units(duration.as_millis(), &units)
}

fn size_text<T: Copy + ToString>(bytes: &T) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];
    in_units(bytes.to_string().parse().unwrap_or_default(), &units)
}

/// Formats a number in the largest unit of which it is a multiple.
fn in_units(number: u128, units: &[(&str, u128)]) -> String {
    let unit = units.iter().find(|(_, factor)| number >= *factor && number.is_multiple_of(*factor));
    unit.map_or_else(|| "0s".to_owned(), |(unit, factor)| format!("{}{unit}", number / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_nonsense_is_not() {
        assert_eq!(parse_duration("250ms"), Ok(time::Duration::from_millis(250)));
        assert_eq!(parse_duration("2h"), Ok(time::Duration::from_secs(7200)));
        for text in ["", "5", "s", "0s", "-1s", "1 s", "1d", "99999999999999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_age("90d"), Ok(time::Duration::from_secs(90 * 86_400)));
        assert_eq!(parse_age("1h"), Ok(time::Duration::from_secs(3600)));
        for text in ["0d", "d", "-1d", "99999999999999999d", "1w"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
        assert_eq!(parse_size("64KiB"), Ok(65536));
        assert_eq!(parse_size("12"), Ok(12));
        for text in ["", "KiB", "1KB", "0", "1.5MiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    /// The pattern of `T`, as published for editors.
    fn has_text<T: JsonSchema>() -> impl Fn(&str) -> bool {
        let schema = T::json_schema(&mut SchemaGenerator::default()).to_value();
        let pattern = regex::Regex::new(schema["pattern"].as_str().unwrap()).unwrap();
        move |text| pattern.is_match(text)
    }

    #[test]
    fn the_patterns_accept_what_the_program_reads() {
        fn same<T: JsonSchema, V>(parse: fn(&str) -> Result<V, String>) {
            let matches = has_text::<T>();
            for text in [
                "",
                "0",
                "0s",
                "0d",
                "00",
                "5",
                "05s",
                "s",
                "-1s",
                "+1s",
                "1 s",
                "250ms",
                "30s",
                "5m",
                "2h",
                "90d",
                "1w",
                "64KiB",
                "64 KiB",
                "12",
                "12B",
                "1KB",
                "1.5MiB",
                "1GiB",
                "off",
                "Off",
                "30/m",
                "0/m",
                "5/s",
                "100/h",
                "7/d",
                "+7/d",
                "7/w",
                "5/ s",
                "/s",
                "127.0.0.1:8808",
                "[::1]:0",
                "8808",
                "localhost:1",
                "1.2.3:4",
                ":8808",
                "[::1]",
            ] {
                assert_eq!(matches(text), parse(text).is_ok(), "{} {text:?}", T::schema_name());
            }
        }
        same::<Address, _>(parse_address);
        same::<Age, _>(parse_age);
        same::<Duration, _>(parse_duration);
        same::<KeepFree, _>(parse_keep_free);
        same::<Quota, _>(parse_quota);
        same::<Rate, _>(parse_rate);
        same::<Size, _>(parse_size);
        same::<Wait, _>(parse_wait);
    }

    #[test]
    fn values_have_the_text_that_they_are_read_from() {
        for text in ["250ms", "30s", "5m", "24h", "0s"] {
            assert_eq!(duration_text(&parse_wait(text).unwrap()), text);
        }
        for text in ["12", "64KiB", "4MiB", "1GiB"] {
            assert_eq!(size_text(&parse_size(text).unwrap()), text);
        }
    }
}
