//! Values of the file that may be secrets, and the places of keys.

use std::{borrow::Cow, fmt, path::PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Value as Json, json};

/// A plain value, or the place of a secret one.
#[derive(Debug)]
pub(super) enum Value {
    Plain(String),
    Env(String),
    File(String),
}

/// The place of a key. The key is read only when it is needed, so that other commands work without
/// access to it. The file never holds the key itself, because error messages could repeat it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// The content of a file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// The output of a program: its path or name, and its arguments.
    Command(Vec<String>),
}

/// A plain text, or a table with one of some keys.
enum Place {
    Text(String),
    Env(String),
    File(String),
    Command(Vec<String>),
}

struct PlaceVisitor {
    keys: &'static [&'static str],
    expected: &'static str,
}

impl<'de> de::Visitor<'de> for PlaceVisitor {
    type Value = Place;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Place, E> {
        Ok(Place::Text(text.to_owned()))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Place, A::Error> {
        let key = map.next_key::<String>()?;
        let place = match key.as_deref().filter(|key| self.keys.contains(key)) {
            Some("env") => Place::Env(map.next_value()?),
            Some("file") => Place::File(map.next_value()?),
            Some(_) => Place::Command(map.next_value()?),
            None => {
                return Err(match key {
                    Some(other) => de::Error::unknown_field(&other, self.keys),
                    None => de::Error::custom(format!("expected {}", self.expected)),
                });
            }
        };
        match map.next_key::<String>()? {
            None => Ok(place),
            Some(_) => Err(de::Error::custom(format!("expected only {}", self.expected))),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a string, { env = \"NAME\" } or { file = \"path\" }";
        let place =
            deserializer.deserialize_any(PlaceVisitor { keys: &["env", "file"], expected })?;
        match place {
            Place::Text(text) => Ok(Self::Plain(text)),
            Place::Env(name) => Ok(Self::Env(name)),
            Place::File(path) => Ok(Self::File(path)),
            Place::Command(_) => Err(de::Error::custom(format!("expected {expected}"))),
        }
    }
}

impl<'de> Deserialize<'de> for KeyPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "{ file = \"path\" }, { env = \"NAME\" } or { command = [\"program\", …] }";
        let keys = &["file", "env", "command"];
        let empty = match deserializer.deserialize_any(PlaceVisitor { keys, expected })? {
            Place::File(path) if !path.is_empty() => return Ok(Self::File(path.into())),
            Place::Env(name) if !name.is_empty() => return Ok(Self::Env(name)),
            Place::Command(command)
                if command.first().is_some_and(|program| !program.is_empty()) =>
            {
                return Ok(Self::Command(command));
            }
            Place::File(_) => "expected the path of a file",
            Place::Env(_) => "expected the name of an environment variable",
            Place::Command(_) => {
                "expected a program and its arguments, such as [\"pass\", \"show\", \"toolcrib\"]"
            }
            Place::Text(_) => {
                let message = format!("a key must not be in this file: expected {expected}");
                return Err(de::Error::custom(message));
            }
        };
        Err(de::Error::custom(empty))
    }
}

/// The schema of a table with only the key `name`.
pub(super) fn only(name: &str, value: &Json) -> Json {
    json!({
        "type": "object",
        "properties": { name: value },
        "required": [name],
        "additionalProperties": false,
    })
}

/// The schema of a name or a path: a non-empty text.
fn text() -> Json {
    json!({ "type": "string", "minLength": 1 })
}

impl JsonSchema for Value {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let places = [json!({ "type": "string" }), only("env", &text()), only("file", &text())];
        json_schema!({ "title": "text or secret", "anyOf": places })
    }
}

impl JsonSchema for KeyPlace {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "KeyPlace".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let command = json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 });
        let places = [only("file", &text()), only("env", &text()), only("command", &command)];
        json_schema!({ "title": "place of a key", "anyOf": places })
    }
}
