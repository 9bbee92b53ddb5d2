//! The differences between two forms of a tool, with their places.

use serde::Serialize;
use serde_json::Value;

use crate::pointer::step;

/// One member that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The place, an RFC 6901 pointer.
    pub pointer: String,
    /// The value in the older form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// The value in the newer form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Compares two documents of a [`PinForm`](super::PinForm). A new tool differs in each of its
/// members.
pub fn changes(old: Option<&Value>, new: Option<&Value>) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(old, new, &mut String::new(), &mut changes);
    changes
}

/// Whether a list with this item is compared item by item. A list of words is one change.
fn has_members(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn compare(
    old: Option<&Value>,
    new: Option<&Value>,
    pointer: &mut String,
    changes: &mut Vec<Change>,
) {
    if old == new {
        return;
    }
    let length = pointer.len();
    match (old, new) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let added = after.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(added) {
                pointer.push_str(&step(name));
                compare(before.get(name), after.get(name), pointer, changes);
                pointer.truncate(length);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after)))
            if before.len() == after.len() && before.iter().any(has_members) =>
        {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                pointer.push_str(&step(&index.to_string()));
                compare(Some(before), Some(after), pointer, changes);
                pointer.truncate(length);
            }
        }
        // A new tool is shown member by member, too.
        (None, Some(Value::Object(after))) if pointer.is_empty() => {
            for (name, member) in after {
                changes.push(Change { pointer: step(name), old: None, new: Some(member.clone()) });
            }
        }
        _ => {
            changes.push(Change { pointer: pointer.clone(), old: old.cloned(), new: new.cloned() })
        }
    }
}
