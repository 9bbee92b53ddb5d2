//! JSON to check but not to keep: results of tools are passed on as their bytes.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{self, Deserializer, MapAccess, SeqAccess, Visitor},
};
use serde_json::Number;
use toolcrib_core::json::NUMBER_KEY;

/// The characters that are kept of a text with escapes; type names are shorter.
const KEPT: usize = 64;

/// The members of a content block that are strings.
const STRINGS: [&str; 6] = ["text", "data", "mimeType", "uri", "name", "blob"];

/// The outline of a JSON value. It is accepted when [`serde_json::Value`] accepts it and all its
/// numbers are finite for clients, which read doubles.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// A string; the start of one with escapes.
    Text(Cow<'a, str>),
    Object(Box<Block<'a>>),
    Other,
}

/// The outline of an object. Of members with the same name, the last counts.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    pub(super) kind: Option<Part<'a>>,
    pub(super) resource: Option<Part<'a>>,
    /// Which of [`STRINGS`] are strings.
    strings: [bool; STRINGS.len()],
}

// === impl Part ===

impl Part<'_> {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Part::Text(text) => Some(text),
            Part::Object(_) | Part::Other => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Outline)
    }
}

struct Outline;

impl<'de> Visitor<'de> for Outline {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Part<'de>, E> {
        Ok(Part::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Part<'de>, E> {
        Ok(Part::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Part<'de>, E> {
        Ok(Part::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Part<'de>, E> {
        Ok(Part::Other)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Part<'de>, E> {
        Ok(Part::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Part<'de>, E> {
        Ok(Part::Text(text.chars().take(KEPT).collect::<String>().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Part<'de>, A::Error> {
        while items.next_element::<Part<'de>>()?.is_some() {}
        Ok(Part::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Part<'de>, A::Error> {
        let mut block = Block::default();
        while let Some(Key(key)) = members.next_key()? {
            if key == NUMBER_KEY {
                let text: String = members.next_value()?;
                let number: Number = text.parse().map_err(de::Error::custom)?;
                return match number.as_f64() {
                    Some(_) => Ok(Part::Other),
                    None => Err(de::Error::custom("number out of range")),
                };
            }
            let value: Part<'de> = members.next_value()?;
            if let Some(place) = STRINGS.iter().position(|name| *name == key)
                && let Some(is_string) = block.strings.get_mut(place)
            {
                *is_string = value.text().is_some();
            }
            match &*key {
                "type" => block.kind = Some(value),
                "resource" => block.resource = Some(value),
                _ => {}
            }
        }
        Ok(Part::Object(Box::new(block)))
    }
}

/// The name of a member.
struct Key<'a>(Cow<'a, str>);

// Not derived, because the key of a number is passed as a string, not as a newtype.
impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor).map(Key)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

// === impl Block ===

impl Block<'_> {
    /// Fails unless each of `members`, which are some of [`STRINGS`], is a string.
    pub(super) fn need(&self, members: &[&str]) -> Result<(), String> {
        let is_string = |name: &str| {
            STRINGS.iter().zip(self.strings).any(|(known, is_string)| *known == name && is_string)
        };
        match members.iter().find(|name| !is_string(name)) {
            None => Ok(()),
            Some(name) => Err(format!("its `{name}` is not a string")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_no_json_is_refused() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for text in
            ["{", r#""\ud800""#, "1e", "[1,]", r#"{"a":"\ud800"}"#, "\"\u{1}\"", "01", &deep]
        {
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
            assert!(serde_json::from_str::<Part<'_>>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Part<'_>>("[1e999]").is_err(), "infinite for clients");
        assert!(serde_json::from_str::<Part<'_>>("[1.50, 1e2, -0, 18446744073709551616]").is_ok());
    }

    #[test]
    fn the_outline_has_the_members_of_a_block() {
        let text = r#"{"type":"t\u0065xt","text":1,"text":"a\nb","uri":"x","data":null,
                       "resource":{"blob":"AA=="}}"#;
        let Part::Object(block) = serde_json::from_str(text).unwrap() else { panic!("no object") };
        assert_eq!(block.kind.as_ref().and_then(Part::text), Some("text"));
        assert!(block.need(&["text", "uri"]).is_ok());
        assert_eq!(block.need(&["text", "data"]), Err("its `data` is not a string".to_owned()));
        let Some(Part::Object(resource)) = block.resource else { panic!("no resource") };
        assert!(resource.need(&["blob"]).is_ok());
    }

    proptest! {
        #[test]
        fn it_accepts_what_a_value_accepts(text in r#"[\[\]{}",:0-9eE.\\u a-f-]{0,24}"#) {
            let value = serde_json::from_str::<Value>(&text).is_ok();
            prop_assert_eq!(serde_json::from_str::<Part<'_>>(&text).is_ok(), value);
        }
    }
}
