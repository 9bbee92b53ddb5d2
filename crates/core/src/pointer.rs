//! RFC 6901 JSON pointers, as text.

use serde_json::Value;

/// Formats `token` as one pointer step: `/` and the token with `~` and `/` written as `~0` and
/// `~1`.
pub(crate) fn step(token: &str) -> String {
    format!("/{}", token.replace('~', "~0").replace('/', "~1"))
}

/// Finds the value that `fragment`, of a reference in `document`, names by a pointer.
pub(crate) fn find<'v>(document: &'v Value, fragment: &str) -> Option<&'v Value> {
    document.pointer(&percent_decoded(fragment)?)
}

/// Decodes `%XX` in `text`, the fragment of a reference; `None` if the result is invalid.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(match byte {
            b'%' => u8::try_from(digit()? * 16 + digit()?).ok()?,
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_find_what_they_name() {
        let document = serde_json::json!({ "a/b": { "~1": [10, { "": 20 }] } });
        let pointer = ["a/b", "~1", "1", ""].map(step).concat();
        assert_eq!(pointer, "/a~1b/~01/1/");
        assert_eq!(document.pointer(&pointer), Some(&serde_json::json!(20)));
    }
}
