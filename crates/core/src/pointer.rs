//! RFC 6901 JSON pointers, as text.

/// Returns `token` as one pointer step: `/` and the token with `~` and `/` written as `~0` and
/// `~1`.
pub(crate) fn step(token: &str) -> String {
    let mut text = String::with_capacity(token.len() + 1);
    text.push('/');
    for character in token.chars() {
        match character {
            '~' => text.push_str("~0"),
            '/' => text.push_str("~1"),
            _ => text.push(character),
        }
    }
    text
}

/// Extends `pointer` by the `token` of the enclosing document.
pub(crate) fn push_front(token: &str, pointer: &str) -> String {
    step(token) + pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_find_what_they_name() {
        let document = serde_json::json!({ "a/b": { "~1": [10, { "": 20 }] } });
        let pointer = push_front("a/b", &push_front("~1", &push_front("1", &step(""))));
        assert_eq!(pointer, "/a~1b/~01/1/");
        assert_eq!(document.pointer(&pointer), Some(&serde_json::json!(20)));
    }
}
