//! Redaction of secrets (SR-1): resolved values, secret-shaped strings, secret-named keys.
//!
//! Invariant: the output does not depend on the secrets. Every secret, of any length, becomes the
//! same `[redacted]`, so that a hash over the result reveals nothing about it.
//! Invariant: the time is linear in the text (times the number of resolved values).

use std::{borrow::Cow, cmp::Reverse};

use serde_json::{Map, Value};

use crate::credential::Secret;

mod echoes;
mod escaped;
mod names;
mod shapes;
mod shared;

pub use self::{
    echoes::Echoes,
    names::suggests_secret,
    shapes::PLACEHOLDER,
    shared::{first_secret, has_secret_shape},
};

/// Shorter values are ignored: they would match harmless text.
const MIN_SECRET_CHARS: usize = 8;

/// Keys whose values are always secrets. A key matches if its letters and digits end in one of
/// these, ignoring case, `_`, `-`, `.` and spaces. (`max_tokens` does not match.)
const SECRET_KEYS: &[&str] = &[
    "apikey",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "secret",
    "secrets",
    "secretkey",
    "accesskey",
    "privatekey",
    "signingkey",
    "authorization",
    "cookie",
    "cookies",
    "credential",
    "credentials",
];

/// Replaces secrets before a value is hashed, logged or returned.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Longest first.
    secrets: Vec<(Secret, String)>,
}

impl Redactor {
    /// Creates a redactor that also knows these resolved values (those of 8 or more characters).
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let labelled = secrets.into_iter().map(|secret| (secret, PLACEHOLDER.to_owned()));
        Self { secrets: longest_first(labelled) }
    }

    /// Removes secrets from `value`: in strings, in keys, and whole values under secret-named keys.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.value(item)).collect())
            }
            Value::Object(members) => Value::Object(self.object(members)),
        }
    }

    /// Removes secrets from `text`.
    pub fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        // Shapes are replaced only in the text between the values. Otherwise a value's characters
        // would decide whether it is part of a shape.
        replace(text, &self.secrets, shapes::redact, &mut out);
        out
    }

    fn object(&self, members: &Map<String, Value>) -> Map<String, Value> {
        let mut clean = Map::with_capacity(members.len());
        let mut copies = 1_usize;
        for (key, value) in members {
            let mut name = self.text(key);
            // Two keys can become equal; the second must not replace the first.
            while clean.contains_key(&name) {
                copies += 1;
                name = format!("{PLACEHOLDER}#{copies}");
            }
            let value = if is_secret_key(key) { PLACEHOLDER.into() } else { self.value(value) };
            clean.insert(name, value);
        }
        clean
    }
}

/// Replaces each of the `secrets` in `text`, in plain or escaped characters, by its label.
pub fn without<'a>(text: &'a str, mut secrets: Vec<(Secret, String)>) -> Cow<'a, str> {
    secrets.sort_by_key(|(secret, _)| Reverse(secret.expose().len()));
    escaped::without(text, &secrets)
}

/// Selects the `secrets` of 8 or more characters with their labels, longest first, so that of two
/// overlapping secrets the longer one is replaced whole.
fn longest_first(secrets: impl Iterator<Item = (Secret, String)>) -> Vec<(Secret, String)> {
    let long = |(secret, _): &(Secret, _)| secret.expose().chars().count() >= MIN_SECRET_CHARS;
    let mut secrets: Vec<_> = secrets.filter(long).collect();
    secrets.sort_by(|(a, _), (b, _)| {
        let (a, b) = (a.expose(), b.expose());
        b.len().cmp(&a.len()).then_with(|| a.cmp(b))
    });
    secrets.dedup_by(|(a, _), (b, _)| a.expose() == b.expose());
    secrets
}

/// Appends `text` to `out` with each secret replaced by its label; `rest` appends the text between
/// the secrets.
fn replace(
    text: &str,
    secrets: &[(Secret, String)],
    rest: fn(&str, &mut String),
    out: &mut String,
) {
    let Some(((secret, label), shorter)) = secrets.split_first() else {
        return rest(text, out);
    };
    for (index, piece) in text.split(secret.expose()).enumerate() {
        if index > 0 {
            out.push_str(label);
        }
        replace(piece, shorter, rest, out);
    }
}

/// Whether a member with this name holds a secret, regardless of its value.
pub fn is_secret_key(key: &str) -> bool {
    let letters = || {
        key.bytes()
            .rev()
            .filter(|byte| !matches!(byte, b'_' | b'-' | b'.' | b' '))
            .map(|byte| byte.to_ascii_lowercase())
    };
    SECRET_KEYS.iter().any(|name| {
        let mut letters = letters();
        name.bytes().rev().all(|expected| letters.next() == Some(expected))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::digest;
    use proptest::prelude::*;
    use serde_json::json;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor::new(secrets.iter().map(|s| Secret::new((*s).to_owned())))
    }

    #[test]
    fn secret_shapes_are_found_in_text() {
        let key = format!("tc_{}", "aB3_-".repeat(9).split_at(43).0);
        let plain = Redactor::default();
        for (text, expected) in [
            ("sk-canary-123", "[redacted]"),
            ("use sk-abcdef, please", "use [redacted], please"),
            ("risk-abcdefgh", "risk-abcdefgh"),
            ("sk-abcde", "sk-abcde"),
            ("AKIAIOSFODNN7EXAMPLE!", "[redacted]!"),
            ("ASIAIOSFODNN7EXAMPLE", "[redacted]"),
            ("AKIAiosfodnn7example", "AKIAiosfodnn7example"),
            ("AKIAIOSFODNN7EXAMPLEsk-abcdef", "[redacted][redacted]"),
            ("xoxb-12345678-abc", "[redacted]"),
            ("xoxz-12345678-abc", "xoxz-12345678-abc"),
            ("ghp_0123456789abcdef", "[redacted]"),
            ("ghx_0123456789abcdef", "ghx_0123456789abcdef"),
            ("ghp_0123456789abcde", "ghp_0123456789abcde"),
            (
                "Bearer eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.dBjftJeZ4CVP-mB92K end",
                "Bearer [redacted] end",
            ),
            ("eyJhbGciOiJIUzI1.short.dBjftJeZ4CVP", "eyJhbGciOiJIUzI1.short.dBjftJeZ4CVP"),
            ("eyes.wide.open", "eyes.wide.open"),
            ("ä=sk-abcdefé sk-ghijkl", "ä=[redacted]é [redacted]"),
            (key.as_str(), "[redacted]"),
            (key.split_at(45).0, key.split_at(45).0),
            ("", ""),
        ] {
            assert_eq!(plain.text(text), expected);
        }
    }

    #[test]
    fn resolved_values_are_found_anywhere_longest_first() {
        let redactor =
            redactor(&["hunter22", "hunter22-and-more", "seven77", "hunter22", "grün€ßäöü"]);
        assert_eq!(redactor.text("xhunter22-and-morex hunter22y"), "x[redacted]x [redacted]y");
        assert_eq!(redactor.text("seven77"), "seven77", "shorter than 8 characters");
        assert_eq!(redactor.text("grün€ßäöü!"), "[redacted]!");
        let evil = self::redactor(&["redacted", "[redacted]"]);
        assert_eq!(
            evil.text("redacted"),
            "[redacted]",
            "the placeholder itself is not looked into"
        );
    }

    #[test]
    fn values_under_secret_names_go_whole() {
        let value = json!({
            "apiKey": 1, "api_key": [1, 2], "X-API-Key": {"a": 1}, "PASSWORD": null, "passwd": "",
            "access_token": "t", "nextPageToken": "t", "client-secret": "s", "Authorization": "Basic x",
            "Set-Cookie": "c", "credentials": {}, "max_tokens": 5, "secretary": "Ann", "q": ["x", {"token": 2}],
        });
        let r = PLACEHOLDER;
        assert_eq!(
            Redactor::default().value(&value),
            json!({
                "apiKey": r, "api_key": r, "X-API-Key": r, "PASSWORD": r, "passwd": r,
                "access_token": r, "nextPageToken": r, "client-secret": r, "Authorization": r,
                "Set-Cookie": r, "credentials": r, "max_tokens": 5, "secretary": "Ann", "q": ["x", {"token": r}],
            })
        );
    }

    #[test]
    fn keys_are_redacted_and_none_is_lost() {
        let value =
            json!({ "sk-aaaaaa": 1, "b": {"hunter22": 3}, "sk-bbbbbbbb": 2, "[redacted]": 4 });
        assert_eq!(
            redactor(&["hunter22"]).value(&value),
            json!({ "[redacted]": 1, "b": {"[redacted]": 3}, "[redacted]#2": 2, "[redacted]#3": 4 })
        );
    }

    #[test]
    fn hostile_text_is_redacted_in_one_pass() {
        // Each of these is quadratic for a scanner that retries every start: 10^11 steps.
        for unit in ["ey-", "e-", "ey.", "sk-", "tc_-", "AKIA ", "eyaaaaaaaaaa-"] {
            let text = unit.repeat(200_000);
            assert!(Redactor::default().text(&text).len() <= text.len() * 4);
        }
        let keys: Map<String, Value> =
            (0..20_000).map(|i| (format!("sk-aaaaaa{i}"), Value::Null)).collect();
        let clean = Redactor::default().value(&Value::Object(keys));
        assert_eq!(clean.as_object().map(Map::len), Some(20_000));
    }

    proptest! {
        // I-17: the hash covers the redacted text, so it reveals nothing about a secret.
        #[test]
        fn the_hash_does_not_depend_on_the_secret(
            a in ".{8,40}", b in ".{8,40}", before in "[a-z \\[]{0,12}", after in "[a-z \\]]{0,12}",
        ) {
            let hash = |secret: &str| {
                let text = format!("{before}{secret}{after}");
                let args = json!({ "q": text, "list": [secret], "token": secret, "n": {(secret): 1} });
                let clean = redactor(&[secret]).value(&args);
                prop_assert!(clean["list"][0] == PLACEHOLDER);
                Ok(digest(&clean))
            };
            // A secret that also occurs across the edges of its surroundings is cut elsewhere.
            let clean = |secret: &str| format!("{before}{secret}{after}").matches(secret).count() == 1
                && format!("{before}{secret}{after}").find(secret) == Some(before.len());
            prop_assume!(clean(&a) && clean(&b));
            prop_assert_eq!(hash(&a)?, hash(&b)?);
        }

        #[test]
        fn a_resolved_value_never_survives(secret in "[a-z]{8,12}", text in "[a-z]{0,30}") {
            let out = redactor(&[&secret]).text(&format!("{text}{secret}{text}"));
            prop_assert!(!out.replace(PLACEHOLDER, "").contains(&secret) || text.contains(&secret));
            prop_assert!(!out.contains(&secret));
        }
    }
}
