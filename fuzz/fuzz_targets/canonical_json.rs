//! Canonical JSON against a second implementation of RFC 8785; reading is strict and loses nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolcrib_core::{
    canonical::{CanonicalError, canonical_bytes},
    json::parse_strict,
    redact::Redactor,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = parse_strict(bytes) else { return };
    let lenient: Value = serde_json::from_slice(bytes).expect("what is strict JSON is JSON");
    assert_eq!(value, lenient);
    match canonical_bytes(&value) {
        Ok(canonical) => {
            let other = serde_json_canonicalizer::to_vec(&value).expect("it is JSON");
            assert_eq!(String::from_utf8_lossy(&canonical), String::from_utf8_lossy(&other));
            // A double such as 2e17 prints as an integer that would be refused as one.
            if let Ok(Ok(again)) = parse_strict(&canonical).map(|again| canonical_bytes(&again)) {
                assert_eq!(again, canonical);
            }
        }
        Err(CanonicalError::IntegerOutOfRange { .. }) => {}
    }
    let redactor = Redactor::new([]);
    let redacted = redactor.value(&value);
    assert_eq!(redactor.value(&redacted), redacted, "redacting twice changes nothing");
});
