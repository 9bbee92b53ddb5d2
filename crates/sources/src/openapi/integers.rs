//! The integers of a value that is sent as text.
//!
//! JSON writes one integer in many ways (`100`, `1e2`, `100.0`). In a path, a query, a header or a form,
//! services read plain digits alone.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use toolcrib_core::number::plain_integer;

use super::{
    composition::Composition,
    document::{Node, Unusable},
};

/// The parts of a value that are integers by its schema. Any other number keeps its text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Integers {
    /// The value itself, or the items of the list that it is.
    itself: bool,
    /// Members of the object that it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<String>,
}

impl Integers {
    /// Finds the integers of a value that all of `schemas` describe.
    pub(super) fn read<'d>(
        composition: &mut Composition<'d>,
        schemas: &[Node<'d>],
    ) -> Result<Self, Unusable> {
        let itself = is_integer(composition, schemas)?;
        let mut members = Vec::new();
        for (name, schemas) in composition.properties(schemas)? {
            if is_integer(composition, &schemas)? {
                members.push(name.to_owned());
            }
        }
        Ok(Self { itself, members })
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `value` with its integers in plain digits.
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

/// Returns whether a value, or each item of the list that it is, can be an integer and no other number.
fn is_integer<'d>(
    composition: &mut Composition<'d>,
    schemas: &[Node<'d>],
) -> Result<bool, Unusable> {
    let all = composition.with_items(schemas)?;
    let is = |name| all.iter().any(|schema| schema.is_type(name));
    Ok(is("integer") && !is("number"))
}

/// Returns a number that is an integer in plain digits, also in a list: `1.0`, `1e2` and `-0` are
/// integers, too.
fn plain(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Number(number) => match plain_integer(number) {
            Cow::Borrowed(_) => Cow::Borrowed(value),
            Cow::Owned(text) => {
                text.parse().map_or(Cow::Borrowed(value), |it| Cow::Owned(Value::Number(it)))
            }
        },
        Value::Array(items) => {
            let items = items.iter().map(|item| plain(item).into_owned());
            Cow::Owned(Value::Array(items.collect()))
        }
        other => Cow::Borrowed(other),
    }
}
