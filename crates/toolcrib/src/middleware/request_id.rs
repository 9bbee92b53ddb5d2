//! `x-request-id`: taken from the request if it is well-formed and generated otherwise; always
//! returned.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

pub(super) const NAME: HeaderName = HeaderName::from_static("x-request-id");

/// Long enough for UUIDs and trace ids, short enough for a log line.
const MAX_LEN: usize = 128;

/// The id of a request with `headers`.
pub(super) fn of(headers: &HeaderMap) -> HeaderValue {
    let sane = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        (1..=MAX_LEN).contains(&bytes.len())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"._:/+=-".contains(b))
    };
    match headers.get(NAME).filter(sane) {
        Some(id) => id.clone(),
        None => fresh(),
    }
}

/// Creates an id, very likely unique. The id names a request in logs and proves no identity, so a
/// keyed hash of a counter replaces a system call for randomness. The counter itself would reveal
/// to each caller how many requests others have sent (I-9).
fn fresh() -> HeaderValue {
    static KEY: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let digit = |half: u8| if half < 10 { b'0' + half } else { b'a' + half - 10 };
    let id: Vec<u8> = KEY
        .iter()
        .flat_map(|half| half.hash_one(count).to_be_bytes())
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)])
        .collect();
    HeaderValue::from_maybe_shared(Bytes::from(id)).unwrap_or(HeaderValue::from_static("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sane_id_is_kept_and_any_other_replaced() {
        let with = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(NAME, HeaderValue::from_static(text));
            of(&headers)
        };
        assert_eq!(with("4bf92f35-77b3"), "4bf92f35-77b3");
        for bad in ["", "a b", "<script>", "a\"b"] {
            assert_ne!(with(bad), bad);
        }
        let (first, second) = (of(&HeaderMap::new()), of(&HeaderMap::new()));
        let alike = first.as_bytes().iter().zip(second.as_bytes()).filter(|(a, b)| a == b).count();
        assert!(first.len() == 32 && alike < 16, "{first:?} {second:?}");
    }
}
