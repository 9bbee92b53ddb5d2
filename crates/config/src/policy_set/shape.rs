//! The shape of a call's input: names, types and sizes.
//!
//! Invariant (I-82): a shape has no field for a value.

use std::io;

use serde_json::{Map, Value};
use toolcrib_core::{
    call::{CallInput, Round},
    json, number,
};

/// Most arguments of one shape. A call with more arguments has no shape, and is denied.
pub(super) const MAX_ARGUMENTS: usize = 1_000;
/// Longest name of an argument, in bytes.
pub(super) const MAX_NAME: usize = 256;

/// The shape of a call's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InputShape {
    pub(super) arguments: Shape,
    pub(super) round: RoundShape,
}

/// The shape of the answers and the state of a further round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RoundShape {
    /// Whether the call is a further round.
    pub(super) is_further: bool,
    /// The names of the answered requests.
    pub(super) responses: Vec<String>,
    /// Length in bytes of the answers, as JSON without spaces, and of the state.
    pub(super) bytes: u64,
}

/// The shape of a call's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// The type of the whole; validation rejects all but `object`.
    pub(super) kind: &'static str,
    /// The arguments, in the order of the request.
    pub(super) arguments: Vec<ArgumentShape>,
    /// Length of the whole as JSON without spaces, in bytes.
    pub(super) bytes: u64,
    /// Nesting depth: 1 for an object of plain values.
    pub(super) depth: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArgumentShape {
    pub(super) name: String,
    /// `null`, `boolean`, `integer`, `number`, `string`, `array` or `object`.
    pub(super) kind: &'static str,
    /// Bytes of a string, items of an array, members of an object; 0 for everything else.
    pub(super) size: u64,
}

/// Arguments without a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there are more than {MAX_ARGUMENTS} arguments, or one with a name of more than {MAX_NAME} bytes"
)]
pub(super) struct ShapeError;

impl InputShape {
    /// Returns the shape of `input`.
    ///
    /// # Errors
    /// Fails with too many arguments or answers, or names that are too long.
    pub(super) fn of(input: &CallInput) -> Result<Self, ShapeError> {
        // The trace context is not an input of the tool.
        let CallInput { arguments, caller: _, meta: _ } = input;
        let round = match input.round() {
            None => RoundShape::default(),
            Some(round) => RoundShape::of(round)?,
        };
        Ok(Self { arguments: Shape::of(arguments)?, round })
    }
}

impl RoundShape {
    fn of(Round { responses, state }: Round<'_>) -> Result<Self, ShapeError> {
        let mut shape = Self { is_further: true, ..Self::default() };
        let mut counted = ByteCounter(0);
        if let Some(responses) = responses {
            if serde_json::to_writer(&mut counted, responses).is_err() || is_too_large(responses) {
                return Err(ShapeError);
            }
            shape.responses = responses.keys().cloned().collect();
        }
        let state = u64::try_from(state.map_or(0, str::len)).unwrap_or(u64::MAX);
        shape.bytes = counted.0.saturating_add(state);
        Ok(shape)
    }
}

fn is_too_large(members: &Map<String, Value>) -> bool {
    members.len() > MAX_ARGUMENTS || members.keys().any(|name| name.len() > MAX_NAME)
}

impl Shape {
    /// Returns the shape of `arguments`.
    ///
    /// # Errors
    /// Fails with too many arguments, or names that are too long.
    pub(super) fn of(arguments: &Value) -> Result<Self, ShapeError> {
        let mut shape = Self {
            kind: kind(arguments),
            arguments: Vec::new(),
            bytes: 0,
            depth: depth(arguments),
        };
        let mut counted = ByteCounter(0);
        // Cannot fail: the writer only counts, and every JSON value can be serialised.
        if serde_json::to_writer(&mut counted, arguments).is_err() {
            return Err(ShapeError);
        }
        shape.bytes = counted.0;
        let Value::Object(members) = arguments else { return Ok(shape) };
        if is_too_large(members) {
            return Err(ShapeError);
        }
        shape.arguments = members
            .iter()
            .map(|(name, value)| ArgumentShape {
                name: name.clone(),
                kind: kind(value),
                size: size(value),
            })
            .collect();
        Ok(shape)
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number::is_integer(number) => "integer",
        other => json::kind(other),
    }
}

fn size(value: &Value) -> u64 {
    let size = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// Recursion is safe, because the parser bounds the depth of values.
fn depth(value: &Value) -> u32 {
    let deepest = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return 0,
    };
    deepest.unwrap_or(0).saturating_add(1)
}

/// Counts written bytes.
struct ByteCounter(u64);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // I-82
    #[test]
    fn a_shape_has_names_types_and_sizes_and_nothing_else() {
        let secret = "correct horse battery staple";
        let arguments = json!({
            "text": secret, "flag": true, "n": 7, "x": 7.5, "none": null,
            "list": [1, [2]], "deep": { "a": { "b": secret } },
        });
        let shape = Shape::of(&arguments).unwrap();
        let of = |name: &str| {
            let argument = shape.arguments.iter().find(|argument| argument.name == name).unwrap();
            (argument.kind, argument.size)
        };
        assert_eq!(of("text"), ("string", 28));
        assert_eq!((of("flag"), of("none")), (("boolean", 0), ("null", 0)));
        assert_eq!((of("n"), of("x")), (("integer", 0), ("number", 0)));
        assert_eq!((of("list"), of("deep")), (("array", 2), ("object", 1)));
        assert_eq!((shape.kind, shape.depth), ("object", 3));
        assert_eq!(shape.bytes, u64::try_from(arguments.to_string().len()).unwrap());
        assert!(!format!("{shape:?}").contains("horse"));
        assert_eq!(Shape::of(&json!([1])).unwrap().kind, "array");
    }

    #[test]
    fn arguments_that_are_too_large_have_no_shape() {
        let many: serde_json::Map<_, _> =
            (0..=MAX_ARGUMENTS).map(|n| (n.to_string(), json!(1))).collect();
        assert_eq!(Shape::of(&Value::Object(many)), Err(ShapeError));
        assert_eq!(Shape::of(&json!({ "a".repeat(MAX_NAME + 1): 1 })), Err(ShapeError));
        assert!(Shape::of(&json!({ "a".repeat(MAX_NAME): "b".repeat(100_000) })).is_ok());
    }
}
