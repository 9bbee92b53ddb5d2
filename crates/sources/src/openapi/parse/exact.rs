//! Reads YAML whose numbers a double changes: those beyond 64 bits, and decimals with more digits
//! than a double has or with another form, such as `1.50`.
//!
//! The YAML parser hands over numbers as doubles. This module replaces them with their text in the
//! file, found by its position. That takes longer, so other files skip this step.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;
use toolcrib_core::json::parse_strict;

/// A value of a YAML file.
pub(super) enum Node {
    /// Anything but the following.
    Plain(Value),
    Double {
        value: f64,
        /// The position of its text in the file, in bytes.
        text: Option<(usize, usize)>,
    },
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Whether `text` contains a number that a double changes. It may be a part of a string instead of
/// a number of the document.
pub(super) fn is_needed(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_first = |c: char| c.is_ascii_digit() || c == '-' || c == '+';
    text.split(|c: char| !is_part(c)).filter(|word| word.starts_with(is_first)).any(|word| {
        let Some((text, number)) = json_number(word) else { return false };
        let is_short = number.is_i64() || number.is_u64();
        let double = number.as_f64().and_then(Number::from_f64);
        !is_short && double.is_none_or(|double| double.as_str() != text)
    })
}

/// Returns a number in JSON's form; `None` for the other forms of YAML, such as `.5` and `.inf`.
fn json_number(text: &str) -> Option<(&str, Number)> {
    let text = text.strip_prefix('+').unwrap_or(text);
    Some((text, text.parse().ok()?))
}

// === impl Node ===

impl Node {
    /// The value, with the texts of its numbers in `source`. An error completes a sentence such as
    /// "the file is not …".
    pub(super) fn into_value(self, source: &str) -> Result<Value, String> {
        Ok(match self {
            Self::Plain(value) => value,
            Self::Double { value, text } => {
                let text = text.and_then(|(at, len)| source.get(at..at.checked_add(len)?));
                match text.and_then(|text| json_number(text.trim())) {
                    Some((text, _)) => parse_strict(text.as_bytes())
                        .map_err(|error| format!("usable: {}", error.problem))?,
                    None => Number::from_f64(value).map_or(Value::Null, Value::Number),
                }
            }
            Self::List(items) => {
                let items = items.into_iter().map(|item| item.into_value(source));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Self::Map(members) => {
                let members = members.into_iter();
                let members = members.map(|(key, member)| Ok((key, member.into_value(source)?)));
                Value::Object(members.collect::<Result<Map<_, _>, String>>()?)
            }
        })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value: Content(node), defined, .. } = Spanned::deserialize(deserializer)?;
        Ok(match node {
            Self::Double { value, .. } => {
                let span = defined.span();
                let position = |bytes: Option<u64>| usize::try_from(bytes?).ok();
                let text = position(span.byte_offset()).zip(position(span.byte_len()));
                Self::Double { value, text }
            }
            node => node,
        })
    }
}

/// A node without its position.
struct Content(Node);

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor).map(Self)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Plain(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Plain(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Double { value, text: None })
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = members.next_key::<String>()? {
            if key.starts_with("$serde_json::private::") {
                return Err(de::Error::custom("an object has a reserved key"));
            }
            map.push((key, members.next_value()?));
        }
        Ok(Node::Map(map))
    }
}
