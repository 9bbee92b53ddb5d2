//! Serializes values in the styles of OpenAPI.
//!
//! Invariant: a value cannot extend beyond its parameter, because the separators of parameters,
//! segments and URL parts are always escaped.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Map, Value};

/// Escapes all characters except the unreserved ones of RFC 3986.
const STRICT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Like `STRICT`, but keeps reserved characters that have no meaning inside a query value.
const RESERVED: &AsciiSet = &STRICT
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b';');

/// The serialization style of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    Spaces,
    Pipes,
    Deep,
    /// Like `Form`, without escapes.
    Cookie,
    /// The value as JSON (`content`).
    Json,
}

/// How characters are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// Percent-encoding, for a URL.
    Url { reserved: bool },
    /// No escaping, for a header.
    None,
}

impl Escape {
    pub(super) fn apply(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Url { reserved: false } => utf8_percent_encode(text, STRICT).into(),
            Self::Url { reserved: true } => utf8_percent_encode(text, RESERVED).into(),
            Self::None => Cow::Borrowed(text),
        }
    }
}

/// Describes an argument that does not fit the operation. The message contains no value.
pub(super) fn unfit(argument: &str, problem: &str) -> String {
    format!("the argument `{argument}` {problem}")
}

/// Writes a value as plain text: a string unchanged, a structure as JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Whether a value has no parts.
pub(super) fn is_plain(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}

/// Serializes a value for a path or a header.
pub(super) fn single(
    name: &str,
    value: &Value,
    style: Style,
    explode: bool,
    escape: Escape,
) -> String {
    let text = |value: &Value| escape.apply(&plain(value)).into_owned();
    let pairs = |members: &Map<String, Value>, between: &str, joint: &str| {
        let pair = |(key, value): (&String, &Value)| {
            format!("{}{joint}{}", escape.apply(key), text(value))
        };
        members.iter().map(pair).collect::<Vec<_>>().join(between)
    };
    let list =
        |items: &[Value], between: &str| items.iter().map(text).collect::<Vec<_>>().join(between);
    let name = escape.apply(name);
    match (style, value) {
        (Style::Json, value) => escape.apply(&value.to_string()).into_owned(),
        (Style::Label, Value::Array(items)) => {
            format!(".{}", list(items, if explode { "." } else { "," }))
        }
        (Style::Label, Value::Object(members)) => {
            format!(
                ".{}",
                if explode { pairs(members, ".", "=") } else { pairs(members, ",", ",") }
            )
        }
        (Style::Label, value) => format!(".{}", text(value)),
        (Style::Matrix, Value::Array(items)) if explode => {
            items.iter().map(|item| format!(";{name}={}", text(item))).collect()
        }
        (Style::Matrix, Value::Array(items)) => format!(";{name}={}", list(items, ",")),
        (Style::Matrix, Value::Object(members)) if explode => {
            format!(";{}", pairs(members, ";", "="))
        }
        (Style::Matrix, Value::Object(members)) => format!(";{name}={}", pairs(members, ",", ",")),
        (Style::Matrix, value) => format!(";{name}={}", text(value)),
        (_, Value::Array(items)) => list(items, ","),
        (_, Value::Object(members)) => pairs(members, ",", if explode { "=" } else { "," }),
        (_, value) => text(value),
    }
}

/// Returns the `name=value` pairs of a query, a form or a cookie. They are unescaped, except for
/// the separators of a [`DelimitedValue`] value.
pub(super) fn pairs(
    name: &str,
    value: &Value,
    style: Style,
    explode: bool,
) -> Vec<(String, DelimitedValue)> {
    let one = |value: &Value| (name.to_owned(), DelimitedValue::one(plain(value)));
    let delimited = |pieces: Vec<String>| {
        let separator = match style {
            Style::Spaces => "%20",
            Style::Pipes => "%7C",
            _ => ",",
        };
        vec![(name.to_owned(), DelimitedValue { pieces, separator })]
    };
    match (style, value) {
        (Style::Json, value) => vec![(name.to_owned(), DelimitedValue::one(value.to_string()))],
        (Style::Deep, value) => {
            let mut pairs = Vec::new();
            deep(name.to_owned(), value, &mut pairs);
            pairs
        }
        (_, Value::Array(items)) if items.is_empty() => Vec::new(),
        (_, Value::Array(items)) if explode => items.iter().map(one).collect(),
        (_, Value::Array(items)) => delimited(items.iter().map(plain).collect()),
        (_, Value::Object(members)) if explode => {
            let pair =
                |(key, value): (&String, _)| (key.clone(), DelimitedValue::one(plain(value)));
            members.iter().map(pair).collect()
        }
        (_, Value::Object(members)) => {
            delimited(members.iter().flat_map(|(key, value)| [key.clone(), plain(value)]).collect())
        }
        (_, value) => vec![one(value)],
    }
}

/// Fails when a part of `value` contains the separator of its parts, because the service would
/// receive more parts. Other separators are escaped in the parts.
pub(super) fn check_separators(
    argument: &str,
    value: &Value,
    style: Style,
    explode: bool,
    escape: Escape,
) -> Result<(), String> {
    let separator = match style {
        Style::Spaces => ' ',
        Style::Pipes => '|',
        Style::Simple if matches!(escape, Escape::None) => ',',
        _ => return Ok(()),
    };
    let is_in = |value: &Value| plain(value).contains(separator);
    let is_ambiguous = match value {
        Value::Array(items) => (!explode || style == Style::Simple) && items.iter().any(is_in),
        Value::Object(members) => {
            (!explode || style == Style::Simple)
                && members.iter().any(|(key, value)| key.contains(separator) || is_in(value))
        }
        _ => false,
    };
    match is_ambiguous {
        false => Ok(()),
        true => {
            let problem = format!("has an item with `{separator}`, which separates its items");
            Err(unfit(argument, &problem))
        }
    }
}

/// Serializes nested values as `a[b][0]=c`.
fn deep(name: String, value: &Value, pairs: &mut Vec<(String, DelimitedValue)>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                deep(format!("{name}[{key}]"), value, pairs);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                deep(format!("{name}[{index}]"), value, pairs);
            }
        }
        value => pairs.push((name, DelimitedValue::one(plain(value)))),
    }
}

/// A value whose separators are not escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DelimitedValue {
    pieces: Vec<String>,
    separator: &'static str,
}

impl DelimitedValue {
    fn one(text: String) -> Self {
        Self { pieces: vec![text], separator: "" }
    }

    pub(super) fn escaped(&self, escape: Escape) -> String {
        let pieces: Vec<_> = self.pieces.iter().map(|piece| escape.apply(piece)).collect();
        pieces.join(self.separator)
    }

    /// The unescaped text, for a multipart part.
    pub(super) fn into_text(self) -> String {
        let separator = match self.separator {
            "%20" => " ",
            "%7C" => "|",
            separator => separator,
        };
        self.pieces.join(separator)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const URL: Escape = Escape::Url { reserved: false };

    fn query(value: Value, style: Style, explode: bool) -> String {
        let pairs = pairs("color", &value, style, explode);
        let pair = |(name, value): &(String, DelimitedValue)| {
            format!("{}={}", URL.apply(name), value.escaped(URL))
        };
        pairs.iter().map(pair).collect::<Vec<_>>().join("&")
    }

    /// The table of the specification (OpenAPI 3.1, "Style Examples").
    #[test]
    fn styles_are_written_as_the_specification_shows() {
        let (list, object) =
            (json!(["blue", "black", "brown"]), json!({ "R": 100, "G": 200, "B": 150 }));
        for (style, explode, of_one, of_list, of_object) in [
            (
                Style::Matrix,
                false,
                ";color=blue",
                ";color=blue,black,brown",
                ";color=R,100,G,200,B,150",
            ),
            (
                Style::Matrix,
                true,
                ";color=blue",
                ";color=blue;color=black;color=brown",
                ";R=100;G=200;B=150",
            ),
            (Style::Label, false, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
            (Style::Label, true, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
            (Style::Simple, false, "blue", "blue,black,brown", "R,100,G,200,B,150"),
            (Style::Simple, true, "blue", "blue,black,brown", "R=100,G=200,B=150"),
        ] {
            for (value, expected) in
                [(&json!("blue"), of_one), (&list, of_list), (&object, of_object)]
            {
                assert_eq!(single("color", value, style, explode, URL), expected);
            }
        }
        for (style, explode, of_list, of_object) in [
            (Style::Form, false, "color=blue,black,brown", "color=R,100,G,200,B,150"),
            (Style::Form, true, "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
            (
                Style::Spaces,
                false,
                "color=blue%20black%20brown",
                "color=R%20100%20G%20200%20B%20150",
            ),
            (
                Style::Pipes,
                false,
                "color=blue%7Cblack%7Cbrown",
                "color=R%7C100%7CG%7C200%7CB%7C150",
            ),
            (
                Style::Deep,
                true,
                "color%5B0%5D=blue&color%5B1%5D=black&color%5B2%5D=brown",
                "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150",
            ),
        ] {
            assert_eq!(query(list.clone(), style, explode), of_list);
            assert_eq!(query(object.clone(), style, explode), of_object);
        }
        assert_eq!(query(json!(""), Style::Form, true), "color=");
        assert_eq!(query(json!([]), Style::Form, false), "");
        assert_eq!(
            query(json!({ "a": [1, true] }), Style::Json, false),
            "color=%7B%22a%22%3A%5B1%2Ctrue%5D%7D"
        );
    }

    #[test]
    fn a_value_cannot_become_more_than_its_parameter() {
        let hostile = "a&b=c#d?e/f;g,h+i%20\r\n\u{e9} \0";
        for escape in [URL, Escape::Url { reserved: true }] {
            let escaped = escape.apply(hostile);
            assert!(!escaped.contains(['&', '=', '#', '+', ' ', '\r', '\n', '\0']), "{escaped}");
            assert!(escaped.contains("%2520"), "an escape is no escape: {escaped}");
        }
        assert_eq!(
            single("x", &json!(hostile), Style::Simple, false, URL),
            "a%26b%3Dc%23d%3Fe%2Ff%3Bg%2Ch%2Bi%2520%0D%0A%C3%A9%20%00"
        );
    }
}
