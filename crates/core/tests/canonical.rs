//! RFC 8785 against the RFC's own vectors and against a second implementation.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use serde_json::{Map, Value};
use toolcrib_core::{
    canonical::{canonical_bytes, digest},
    json::parse_strict,
    redact::Redactor,
};

fn vectors() -> Value {
    parse_strict(include_bytes!("vectors/rfc8785.json")).unwrap()
}

fn list(name: &str) -> Vec<Value> {
    vectors().get(name).and_then(Value::as_array).unwrap().clone()
}

fn text(vector: &Value, name: &str) -> String {
    vector.get(name).and_then(Value::as_str).unwrap().to_owned()
}

fn canonical(value: &Value) -> String {
    String::from_utf8(canonical_bytes(value)).unwrap()
}

// I-17
#[test]
fn appendix_b_numbers() {
    for vector in list("numbers") {
        let bits = u64::from_str_radix(&text(&vector, "bits"), 16).unwrap();
        let number = serde_json::Number::from_f64(f64::from_bits(bits));
        let printed = number.map(|n| canonical(&Value::Number(n)));
        assert_eq!(printed.as_deref(), vector.get("text").unwrap().as_str(), "{bits:016x}");
    }
}

#[test]
fn example_documents() {
    for vector in list("documents") {
        let value = parse_strict(text(&vector, "input").as_bytes()).unwrap();
        assert_eq!(canonical(&value), text(&vector, "canonical"), "{}", text(&vector, "name"));
    }
}

// I-17
#[test]
fn digests_are_over_the_canonical_text() {
    for vector in list("digests") {
        let value = parse_strict(text(&vector, "canonical").as_bytes()).unwrap();
        assert_eq!(canonical(&value), text(&vector, "canonical"));
        assert_eq!(digest(&value).to_string(), text(&vector, "sha256"));
    }
}

// I-17
#[test]
fn a_secret_is_gone_before_it_is_hashed() {
    let hash =
        |json: &str| digest(&Redactor::default().value(&parse_strict(json.as_bytes()).unwrap()));
    assert_eq!(
        hash(r#"{"apiKey":"sk-canary-1"}"#).to_string(),
        "cf3ab1aa561f61faa9b6d7c4715cf3e7d10c3cb924e81f046bbdce97d6e555a2"
    );
    assert_eq!(hash(r#"{"apiKey":"a"}"#), hash(r#"{"apiKey":"b"}"#));
}

/// Without serde_json's `float_roundtrip` this number is read as its neighbour.
#[test]
fn numbers_are_read_exactly() {
    assert_eq!(canonical(&parse_strict(b"333333333.33333329").unwrap()), "333333333.3333333");
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    const EXACT: i64 = (1 << 53) - 1;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-EXACT..=EXACT).prop_map(Value::from),
        any::<u64>().prop_map(|bits| Value::from(f64::from_bits(bits))), // NaN becomes null
        (-400..400_i32, 1..10_000_000_u32)
            .prop_map(|(exponent, digits)| Value::from(f64::from(digits) * 10_f64.powi(exponent))),
        any::<String>().prop_map(Value::from),
    ];
    let key = prop_oneof![
        "[a-c]{0,3}",
        any::<String>(),
        "[\u{20ac}\u{e000}\u{ffff}\u{1f600}\u{10ffff}\u{d7ff}a]{0,3}",
    ];
    leaf.prop_recursive(4, 48, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    // I-17
    #[test]
    fn two_implementations_agree(value in arbitrary_json()) {
        let other = serde_json_canonicalizer::to_vec(&value).unwrap();
        prop_assert_eq!(canonical_bytes(&value), other);
    }

    #[test]
    fn the_canonical_form_is_a_fixed_point(value in arbitrary_json()) {
        let once = canonical_bytes(&value);
        prop_assert_eq!(canonical_bytes(&parse_strict(&once).unwrap()), once);
    }
}
