//! Canonical JSON against a second implementation of RFC 8785; reading is strict and loses nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolcrib_core::{canonical::canonical_bytes, json::parse_strict, redact::Redactor};

/// Whether all numbers are integers that a double holds: the second implementation knows no others.
fn has_small_integers(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64().is_some_and(|it| it.abs() < 1 << 53),
        Value::Array(items) => items.iter().all(has_small_integers),
        Value::Object(members) => members.values().all(has_small_integers),
        _ => true,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = parse_strict(bytes) else { return };
    let lenient: Value = serde_json::from_slice(bytes).expect("what is strict JSON is JSON");
    // serde_json writes exponents in another form.
    let same: Value = serde_json::from_str(&value.to_string()).expect("it is JSON");
    assert_eq!(same, lenient);
    let canonical = canonical_bytes(&value);
    if has_small_integers(&value) {
        let other = serde_json_canonicalizer::to_vec(&value).expect("it is JSON");
        assert_eq!(String::from_utf8_lossy(&canonical), String::from_utf8_lossy(&other));
    }
    let again = parse_strict(&canonical).expect("the canonical form is JSON");
    assert_eq!(canonical_bytes(&again), canonical, "the canonical form is a fixed point");
    let redactor = Redactor::new([]);
    let redacted = redactor.value(&value);
    assert_eq!(redactor.value(&redacted), redacted, "redacting twice changes nothing");
});
