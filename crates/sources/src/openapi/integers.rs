//! The integers of a value to send as text.
//!
//! JSON writes one integer in many ways (`100`, `1e2`, `100.0`). In a path, a query, a header or a
//! form, services read plain digits alone.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use toolcrib_core::number::{is_integer, plain_integer};

use super::{
    composition::Composition,
    document::{Node, OperationProblem},
};

/// The parts of a value that are integers by its schema. Any other number keeps its text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Integers {
    /// The value itself, or the items of a list.
    itself: bool,
    /// Members of an object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<String>,
}

impl Integers {
    /// Finds the integers of a value that all of `schemas` describe.
    pub(super) fn read<'d>(
        composition: &mut Composition<'d>,
        schemas: &[Node<'d>],
    ) -> Result<Self, OperationProblem> {
        let itself = can_be_integer(composition, schemas)?;
        let mut members = Vec::new();
        for (name, schemas) in composition.properties(schemas)?.named {
            if can_be_integer(composition, &schemas)? {
                members.push(name.to_owned());
            }
        }
        Ok(Self { itself, members })
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Writes the integers of `value` in plain digits.
    pub(super) fn in_plain_digits<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        match value {
            Value::Object(members) if !self.members.is_empty() => {
                let mut members = members.clone();
                for (name, value) in &mut members {
                    if self.members.contains(name) {
                        *value = plain(value).into_owned();
                    }
                }
                Cow::Owned(Value::Object(members))
            }
            value if self.itself => plain(value),
            value => Cow::Borrowed(value),
        }
    }
}

/// The numbers that a schema permits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Integers,
    Any,
}

impl Numbers {
    /// Returns the numbers of one schema; `None` if it does not restrict them. Its listed values
    /// say more than its type, and many lists have no type.
    fn of(schema: Node<'_>) -> Option<Self> {
        let listed = schema.get("enum").into_iter().flat_map(Node::items);
        let mut numbers =
            listed.chain(schema.get("const")).filter_map(|node| node.value.as_number());
        if let Some(first) = numbers.next() {
            let all = is_integer(first) && numbers.all(is_integer);
            return Some(if all { Self::Integers } else { Self::Any });
        }
        match (schema.is_type("number"), schema.is_type("integer")) {
            (true, _) => Some(Self::Any),
            (false, true) => Some(Self::Integers),
            (false, false) => None,
        }
    }
}

/// Whether a value, or each item of a list, can be an integer but no other number.
fn can_be_integer<'d>(
    composition: &mut Composition<'d>,
    schemas: &[Node<'d>],
) -> Result<bool, OperationProblem> {
    let schemas = composition.with_items(schemas)?;
    let numbers: Vec<_> = schemas.into_iter().filter_map(Numbers::of).collect();
    Ok(numbers.contains(&Numbers::Integers) && !numbers.contains(&Numbers::Any))
}

/// Writes an integer in plain digits, also in a list: `1.0`, `1e2` and `-0` are integers, too.
fn plain(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Number(number) => match plain_integer(number) {
            Cow::Borrowed(_) => Cow::Borrowed(value),
            Cow::Owned(text) => text
                .parse()
                .map_or(Cow::Borrowed(value), |parsed| Cow::Owned(Value::Number(parsed))),
        },
        Value::Array(items) => {
            let items = items.iter().map(|item| plain(item).into_owned());
            Cow::Owned(Value::Array(items.collect()))
        }
        other => Cow::Borrowed(other),
    }
}
