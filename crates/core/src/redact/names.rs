//! Names that suggest a secret, for arguments that people save for others. Wider than the keys that are
//! redacted: a saved call may lose a value without harm, while the record needs its arguments.

use serde_json::Value;

use super::{Redactor, is_secret_key};
use crate::pointer::step;

/// A name with one of these suggests a secret, whatever its case and without `_`, `-`, `.` and spaces. The
/// page has the same list (`ui/tools/saved.js`).
const WORDS: [&str; 11] = [
    "token",
    "secret",
    "passw",
    "passphrase",
    "credential",
    "authorization",
    "apikey",
    "privatekey",
    "accesskey",
    "cookie",
    "sessionid",
];
/// These suggest one as the whole name.
const WHOLE: [&str; 2] = ["pin", "otp"];

/// Returns whether the name of an argument suggests that its value is a secret.
pub fn suggests_secret(name: &str) -> bool {
    let is_part = |letter: &char| !matches!(letter, '_' | '-' | '.' | ' ');
    let letters: String = name.to_lowercase().chars().filter(is_part).collect();
    is_secret_key(name)
        || WHOLE.contains(&&*letters)
        || WORDS.iter().any(|word| letters.contains(word))
}

/// Returns the place, as a JSON pointer, of the first value of `value` whose name suggests a secret or
/// whose text has the shape of one.
pub fn first_secret(value: &Value) -> Option<String> {
    let plain = Redactor::default();
    let mut open = vec![(String::new(), value)];
    while let Some((place, value)) = open.pop() {
        match value {
            Value::Object(members) => {
                for (name, inner) in members {
                    let place = format!("{place}{}", step(name));
                    if suggests_secret(name) || plain.text(name) != *name {
                        return Some(plain.text(&place));
                    }
                    open.push((place, inner));
                }
            }
            Value::Array(items) => {
                let places = items.iter().enumerate();
                open.extend(places.map(|(at, item)| (format!("{place}/{at}"), item)));
            }
            Value::String(text) if plain.text(text) != *text => return Some(place),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_that_suggest_a_secret_are_found() {
        for name in [
            "token",
            "accessToken",
            "API_KEY",
            "api key",
            "private-key",
            "x.session.id",
            "PIN",
            "otp",
            "passwordHash",
            "Set-Cookie",
            "pwd",
            "signing_key",
            "max_tokens",
        ] {
            assert!(suggests_secret(name), "{name}");
        }
        for name in ["ticket", "spin", "pinned", "otping", "key", "session", "", "path"] {
            assert!(!suggests_secret(name), "{name}");
        }
    }

    #[test]
    fn the_place_of_a_secret_is_named() {
        assert_eq!(first_secret(&json!({ "a": [1, { "b": "{{ticket}}" }], "c": null })), None);
        for (value, place) in [
            (json!({ "a": { "b/c": { "token": 1 } } }), "/a/b~1c/token"),
            (json!({ "a": ["x", "use sk-abcdefgh"] }), "/a/1"),
            (json!({ "sk-abcdefgh": 1 }), "/[redacted]"),
        ] {
            assert_eq!(first_secret(&value).as_deref(), Some(place));
        }
    }

    /// The page leaves the same names out before it saves anything.
    #[test]
    fn the_page_has_the_same_list() {
        let page = include_str!("../../../toolcrib/src/ui/tools/saved.js");
        let list = |name: &str| {
            let (_, rest) = page.split_once(&format!("const {name} = [")).unwrap();
            let (inside, _) = rest.split_once(']').unwrap();
            let words = inside.split(',').map(|word| word.trim().trim_matches('\''));
            words.filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(list("SECRET_WORDS"), WORDS);
        assert_eq!(list("SECRET_NAMES"), WHOLE);
    }
}
