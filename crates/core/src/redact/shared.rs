//! Secrets in what people save for others: names and queries, and the arguments of calls.
//!
//! This search is wider than redaction: a saved call may lose a value without harm, while the
//! record needs its arguments. It finds secrets that people paste by mistake. A secret without a
//! known shape, under a name that does not suggest one, is not found.

use base64::{Engine as _, engine::general_purpose};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use super::{Redactor, names::suggests_secret};
use crate::{
    pointer::{find, step},
    text::is_hidden,
};

/// Texts shorter than this are not decoded.
const MIN_ENCODED: usize = 16;
/// The minimum length of secrets after `Bearer`, `Basic` and similar schemes.
const MIN_AFTER_SCHEME: usize = 8;
/// Words of a sentence are shorter than this.
const LONGER_THAN_WORDS: usize = 20;
/// The most nested encodings that are decoded.
const MAX_ENCODINGS: usize = 2;
/// Prefixes of secrets of some issuers whose keys the redaction of the record does not know.
const BEGINNINGS: [&str; 5] = ["hvs.", "hvb.", "hvr.", "ya29.", "hooks.slack.com/services/"];
/// The most schemas checked for one call. More belong to a hostile tool, and count as a secret.
const MAX_SCHEMAS: usize = 20_000;
/// The members that name another value in a list of pairs, such as headers.
const NAME_MEMBERS: [&str; 5] = ["name", "key", "header", "field", "variable"];

/// Whether `text` is or contains a text with the shape of a secret.
pub fn has_secret_shape(text: &str) -> bool {
    is_secret_text(text, MAX_ENCODINGS)
}

fn is_secret_text(text: &str, levels: usize) -> bool {
    // A secret copied from a page may have other characters between its own.
    let clean: String = text.chars().filter(|character| !is_hidden(*character)).nfkc().collect();
    has_shape_within(&clean, levels)
}

/// Also looks into base64, percent-encoding and JSON, at most `levels` deep.
fn has_shape_within(text: &str, levels: usize) -> bool {
    if has_plain_shape(text) {
        return true;
    }
    if levels == 0 {
        return false;
    }
    let json = text.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str(text));
    let percent = text.contains('%').then(|| percent_decode_str(text).decode_utf8_lossy());
    json.and_then(Result::ok)
        .is_some_and(|inner: Value| named_or_shaped(&inner, levels - 1).is_some())
        || percent.is_some_and(|inner| inner != text && has_shape_within(&inner, levels - 1))
        || decoded(text).is_some_and(|inner| has_shape_within(&inner, levels - 1))
}

/// The place, as a JSON pointer, of the first secret in `arguments`: its name or its schema marks
/// it, or its text has the shape of one. `schema` is the input schema of the tool.
pub fn first_secret(arguments: &Value, schema: Option<&Value>) -> Option<String> {
    let place = named_or_shaped(arguments, MAX_ENCODINGS).or_else(|| {
        let root = schema?;
        let mut walk = Walk { root, schemas: 0 };
        walk.first_secret(root, arguments, "")
    });
    place.map(|place| Redactor::default().text(&place))
}

fn named_or_shaped(arguments: &Value, levels: usize) -> Option<String> {
    let mut open = vec![(String::new(), arguments)];
    while let Some((place, value)) = open.pop() {
        match value {
            Value::Object(members) => {
                let names = NAME_MEMBERS.iter().filter_map(|name| members.get(*name)?.as_str());
                let is_pair = names.into_iter().any(suggests_secret);
                for (name, inner) in members {
                    let is_secret = suggests_secret(name)
                        || name.eq_ignore_ascii_case("auth") && inner.is_string()
                        || has_secret_shape(name)
                        || is_pair && !NAME_MEMBERS.contains(&&**name);
                    let place = format!("{place}{}", step(name));
                    if is_secret && !is_variable(inner) {
                        return Some(place);
                    }
                    open.push((place, inner));
                }
            }
            Value::Array(items) => {
                let texts = items.iter().map(|item| item.as_str().unwrap_or_default());
                let words: Vec<&str> = texts.collect();
                if let Some(at) = option_with_secret(&words) {
                    return Some(format!("{place}/{at}"));
                }
                let places = items.iter().enumerate();
                open.extend(places.map(|(at, item)| (format!("{place}/{at}"), item)));
            }
            Value::String(text) if is_secret_text(text, levels) => return Some(place),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    None
}

/// Whether `value` is present, and not a variable to enter later.
fn is_given(value: &str) -> bool {
    !value.is_empty() && !value.starts_with("{{")
}

/// The place of the value after an option such as `--password`.
fn option_with_secret(words: &[&str]) -> Option<usize> {
    let named = |pair: &[&str]| match pair {
        [name, value] => {
            name.starts_with('-')
                && suggests_secret(name)
                && !value.starts_with('-')
                && is_given(value)
        }
        _ => false,
    };
    words.windows(2).position(named).map(|at| at + 1)
}

/// Whether `value` is only a variable, such as `{{password}}`. The person who runs the call enters
/// its value.
fn is_variable(value: &Value) -> bool {
    let inner = value.as_str().and_then(|text| text.strip_prefix("{{")?.strip_suffix("}}"));
    inner.is_some_and(|name| !name.is_empty() && !name.contains(['{', '}']))
}

fn has_plain_shape(text: &str) -> bool {
    Redactor::default().text(text) != text
        || text.contains("PRIVATE KEY-----")
        || has_scheme_and_secret(text)
        || has_password_in_url(text)
        || has_assignment(text)
        || has_value_of_element(text)
        || option_with_secret(&text.split_whitespace().collect::<Vec<_>>()).is_some()
        || BEGINNINGS.iter().any(|beginning| {
            let mut parts = text.split(beginning).skip(1);
            parts.any(|rest| rest.chars().take_while(char::is_ascii_alphanumeric).count() >= 6)
        })
}

/// Finds `<password>…</password>`.
fn has_value_of_element(text: &str) -> bool {
    text.split('<').skip(1).filter_map(|part| part.split_once('>')).any(|(name, value)| {
        let name = name.split_whitespace().next().unwrap_or_default();
        !name.starts_with('/') && suggests_secret(name) && is_given(value.trim())
    })
}

/// Finds the value of a header: `Bearer`, `Basic` or `Token`, and a text with letters and digits.
fn has_scheme_and_secret(text: &str) -> bool {
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let word = word.rsplit([':', '=', '"', '\'']).next().unwrap_or_default();
        let is_scheme =
            ["bearer", "basic", "token"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
        let is_random = |next: &&str| {
            let has = |kind: fn(&char) -> bool| next.chars().any(|character| kind(&character));
            next.len() >= MIN_AFTER_SCHEME
                && !next.contains("{{")
                && (next.len() >= LONGER_THAN_WORDS
                    || has(char::is_ascii_digit)
                    || next.ends_with('=')
                    || has_mixed_case(next))
        };
        if is_scheme && words.peek().is_some_and(is_random) {
            return true;
        }
    }
    false
}

/// Whether `word` has capital letters after small ones.
fn has_mixed_case(word: &str) -> bool {
    let small = word.find(|character: char| character.is_ascii_lowercase());
    small.is_some_and(|at| {
        word.get(at..).is_some_and(|rest| rest.contains(|c: char| c.is_ascii_uppercase()))
    })
}

/// Finds `scheme://user:password@host`.
fn has_password_in_url(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let end = rest.find(|character: char| {
            character.is_whitespace() || matches!(character, '/' | '?' | '#')
        });
        let authority = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        let password = user.and_then(|user| user.split_once(':')).map(|(_, password)| password);
        password.is_some_and(is_given)
    })
}

/// Finds `password=…` and similar texts, as in addresses, connection strings and environments, and
/// `password: hunter2`. After a colon, a plain word is part of a sentence.
fn has_assignment(text: &str) -> bool {
    let is_end =
        |character: char| character.is_whitespace() || matches!(character, '&' | ';' | '?' | ',');
    let mut parts = text.split(is_end).filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        if let Some((name, value)) = part.split_once('=') {
            let value = value.trim_matches(['"', '\'']);
            let is_signature = name.eq_ignore_ascii_case("sig") && value.len() >= LONGER_THAN_WORDS;
            if (suggests_secret(name) || is_signature) && is_given(value) {
                return true;
            }
        }
        if let Some((name, rest)) = part.split_once(':') {
            let value =
                if rest.is_empty() { parts.peek().copied().unwrap_or_default() } else { rest };
            let value = value.trim_matches(['"', '\'']);
            let letters = value.trim_end_matches(['.', ')']);
            let is_word =
                letters.bytes().all(|byte| byte.is_ascii_alphabetic()) && !has_mixed_case(letters);
            let is_secret = value.len() >= 4 && is_given(value) && !is_word;
            let name = name.trim_start_matches(['"', '\'', '{', '(']);
            // A host follows `//`.
            if is_secret && suggests_secret(name) && !rest.starts_with("//") {
                return true;
            }
        }
    }
    false
}

/// Decodes `text`, if it is base64 of a text.
fn decoded(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('=');
    if text.len() < MIN_ENCODED {
        return None;
    }
    let engines = [&general_purpose::STANDARD_NO_PAD, &general_purpose::URL_SAFE_NO_PAD];
    let bytes = engines.into_iter().find_map(|engine| engine.decode(text).ok())?;
    String::from_utf8(bytes).ok()
}

/// Follows the arguments and their schema together.
struct Walk<'s> {
    root: &'s Value,
    schemas: usize,
}

impl Walk<'_> {
    /// The place of the first value in `value` that its schema marks as a secret.
    fn first_secret(&mut self, schema: &Value, value: &Value, place: &str) -> Option<String> {
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS {
            return Some(place.to_owned());
        }
        let schema = schema.as_object()?;
        let says = |keyword: &str, expected: Value| schema.get(keyword) == Some(&expected);
        let is_secret = says("format", "password".into()) || says("writeOnly", true.into());
        if is_secret && !value.is_null() && !is_variable(value) {
            return Some(place.to_owned());
        }
        let fragment = schema.get("$ref").and_then(Value::as_str);
        // A circular reference stops at the limit above.
        let target = fragment.and_then(|reference| find(self.root, reference.strip_prefix('#')?));
        let combined =
            ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword));
        let branches = combined.filter_map(Value::as_array).flatten();
        let conditional = ["then", "else"].into_iter().filter_map(|keyword| schema.get(keyword));
        for inner in target.into_iter().chain(branches).chain(conditional) {
            if let Some(found) = self.first_secret(inner, value, place) {
                return Some(found);
            }
        }
        match value {
            Value::Object(members) => members.iter().find_map(|(name, inner)| {
                let own = schema.get("properties").and_then(|all| all.get(name));
                let its = own.or_else(|| schema.get("additionalProperties"))?;
                self.first_secret(its, inner, &format!("{place}{}", step(name)))
            }),
            Value::Array(items) => items.iter().enumerate().find_map(|(at, inner)| {
                let own = schema.get("prefixItems").and_then(|all| all.get(at));
                let its = own.or_else(|| schema.get("items"))?;
                self.first_secret(its, inner, &format!("{place}/{at}"))
            }),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_with_the_shape_of_a_secret_are_found() {
        let encoded = general_purpose::STANDARD.encode("user=ann&password=hunter22");
        for text in [
            "sk-abcdefgh",
            "sk\u{200b}-abcd\u{feff}efgh",
            "ｓｋ－abcdefgh",
            "glpat-0123456789abcdefghij",
            "sk_live_0123456789abcdefghij",
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
            "Authorization: Bearer abcdef123456",
            "Basic dXNlcjpwYXNzd29yZA==",
            "postgres://ann:hunter2@db/x",
            "server=db;Password=hunter2",
            "https://x.example/?api_key=7",
            "Bearer abcdefghijklmnopqrstu",
            "Bearer eyJabc123",
            r#"{"password":"hunter2"}"#,
            r#"[{"name":"api_key","value":"a8Jk3LmN"}]"#,
            "password: hunter2",
            "curl -u ann --password hunter2 https://x.example",
            "password%3Dhunter2",
            "q=%2567hp_0123456789abcdefghijABCDEFGHIJ012345",
            "<password>hunter2</password>",
            "hvs.CAESIJabcdef",
            "ya29.a0AfH6SMB",
            "https://hooks.slack.com/services/T000000/B000000/xyz",
            "https://a.blob.example/c?sv=1&sig=abcdefghijklmnopqrstuvwx%3D",
            &encoded,
        ] {
            assert!(has_secret_shape(text), "{text}");
        }
        for text in [
            "",
            "bearer certificates explained",
            "the basic understanding",
            "https://ann@host/a:b@c",
            "https://x.example/?page=2&token={{token}}",
            "postgres://ann:{{password}}@db/x",
            "a=b",
            "Reset password: step one",
            "token: see the docs",
            "password://x",
            "type:authorization.decided OR type:key.changed",
            "--password {{password}}",
            "<password></password>",
            r#"{"password":"{{password}}"}"#,
            "100% sure",
            "0190a5e2-7c1b-7d9a-8000-000000000001",
            "VGhlIHF1aWNrIGJyb3duIGZveA==",
            "1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms",
        ] {
            assert!(!has_secret_shape(text), "{text}");
        }
    }

    #[test]
    fn the_place_of_a_secret_is_named() {
        let harmless = json!({
            "a": [1, { "b": "{{ticket}}" }],
            "c": null,
            "password": "{{password}}",
            "headers": [{ "name": "Accept", "value": "text/html" }],
        });
        assert_eq!(first_secret(&harmless, None), None);
        for (value, place) in [
            (json!({ "a": { "b/c": { "token": 1 } } }), "/a/b~1c/token"),
            (json!({ "a": ["x", "use sk-abcdefgh"] }), "/a/1"),
            (json!({ "sk-abcdefgh": 1 }), "/[redacted]"),
            (json!({ "h": [{ "name": "Authorization", "value": "x" }] }), "/h/0/value"),
            (json!({ "db_pass": "x" }), "/db_pass"),
            (json!({ "args": ["--password", "hunter2"] }), "/args/1"),
            (json!({ "auth": "hunter2" }), "/auth"),
            (json!({ "password": "{{a}}{{b}}" }), "/password"),
        ] {
            assert_eq!(first_secret(&value, None).as_deref(), Some(place));
        }
    }

    #[test]
    fn a_schema_names_secrets_too() {
        let schema = json!({
            "$defs": { "login": { "properties": { "phrase": { "format": "password" } } } },
            "properties": {
                "who": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/login" }] },
                "rows": { "items": { "writeOnly": true } },
                "loop": { "$ref": "#/properties/loop" },
            },
            "additionalProperties": { "properties": { "in": { "writeOnly": true } } },
        });
        for (value, place) in [
            (json!({ "who": { "phrase": "a" } }), Some("/who/phrase")),
            (json!({ "who": { "phrase": "{{phrase}}", "other": 1 } }), None),
            (json!({ "rows": [null, 1] }), Some("/rows/1")),
            (json!({ "more": { "in": false } }), Some("/more/in")),
            (json!({ "free": { "out": 1 } }), None),
        ] {
            assert_eq!(first_secret(&value, Some(&schema)).as_deref(), place, "{value}");
        }
    }
}
