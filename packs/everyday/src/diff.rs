//! What differs between two JSON documents, as a patch (RFC 6902) from the one to the other.

use serde_json::{Value, json};

use crate::Failure;

/// Steps of a patch. What differs in more places is another document.
const MAX_STEPS: usize = 10_000;

/// `{from, to}` → `{equal, patch}`.
pub fn node(inputs: &Value) -> Result<Value, Failure> {
    let missing = |name: &str| Failure {
        code: "invalid_arguments",
        message: format!("`{name}` is missing"),
    };
    let from = inputs.get("from").ok_or_else(|| missing("from"))?;
    let to = inputs.get("to").ok_or_else(|| missing("to"))?;
    let mut patch = Vec::new();
    diff(from, to, &mut String::new(), &mut patch);
    if patch.len() > MAX_STEPS {
        return Err(Failure {
            code: "too_different",
            message: format!("the documents differ in over {MAX_STEPS} places"),
        });
    }
    Ok(json!({ "equal": patch.is_empty(), "patch": patch }))
}

fn diff(from: &Value, to: &Value, path: &mut String, patch: &mut Vec<Value>) {
    if patch.len() > MAX_STEPS {
        return;
    }
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for (key, old) in from {
                at(path, key, |path| match to.get(key) {
                    Some(new) => diff(old, new, path, patch),
                    None => patch.push(json!({ "op": "remove", "path": path })),
                });
            }
            for (key, new) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
                at(path, key, |path| {
                    patch.push(json!({ "op": "add", "path": path, "value": new }));
                });
            }
        }
        (Value::Array(from), Value::Array(to)) => items(from, to, path, patch),
        _ if from == to => {}
        _ => patch.push(json!({ "op": "replace", "path": path, "value": to })),
    }
}

/// Items that begin and end both lists stay; those between are changed in their places, and then
/// there are some too many or too few.
fn items(from: &[Value], to: &[Value], path: &mut String, patch: &mut Vec<Value>) {
    let start = from.iter().zip(to).take_while(|(old, new)| old == new).count();
    let (old, new) = (&from[start..], &to[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    let both = old.len().min(new.len());
    for (index, (old, new)) in old.iter().zip(new).enumerate() {
        at(path, &(start + index).to_string(), |path| diff(old, new, path, patch));
    }
    for index in (both..old.len()).rev() {
        at(path, &(start + index).to_string(), |path| {
            patch.push(json!({ "op": "remove", "path": path }));
        });
    }
    for (index, new) in new.iter().enumerate().skip(both) {
        at(path, &(start + index).to_string(), |path| {
            patch.push(json!({ "op": "add", "path": path, "value": new }));
        });
    }
}

/// Does `work` one segment further down (RFC 6901).
fn at(path: &mut String, segment: &str, work: impl FnOnce(&mut String)) {
    let before = path.len();
    path.push('/');
    path.push_str(&segment.replace('~', "~0").replace('/', "~1"));
    work(path);
    path.truncate(before);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(from: Value, to: Value) -> Value {
        node(&json!({ "from": from, "to": to })).ok().unwrap()["patch"].take()
    }

    #[test]
    fn a_patch_names_what_differs_and_nothing_else() {
        assert_eq!(patch(json!({ "a": [1, { "b": null }] }), json!({ "a": [1, { "b": null }] })), json!([]));
        assert_eq!(
            patch(json!({ "a": 1, "b/c": 2, "~": 3 }), json!({ "b/c": 4, "~": 3, "d": [] })),
            json!([
                { "op": "remove", "path": "/a" },
                { "op": "replace", "path": "/b~1c", "value": 4 },
                { "op": "add", "path": "/d", "value": [] },
            ])
        );
        assert_eq!(
            patch(json!([1, 2, 3, 4]), json!([1, 4])),
            json!([{ "op": "remove", "path": "/2" }, { "op": "remove", "path": "/1" }])
        );
        assert_eq!(
            patch(json!([1, { "x": 1 }, 9]), json!([1, { "x": 2 }, 3, 9])),
            json!([
                { "op": "replace", "path": "/1/x", "value": 2 },
                { "op": "add", "path": "/2", "value": 3 },
            ])
        );
        assert_eq!(patch(json!(1), json!("1")), json!([{ "op": "replace", "path": "", "value": "1" }]));
    }

    #[test]
    fn what_is_missing_or_too_different_is_told() {
        assert_eq!(node(&json!({ "from": 1 })).err().unwrap().code, "invalid_arguments");
        let many: Vec<u32> = (0..20_000).collect();
        let failure = node(&json!({ "from": [], "to": many })).err().unwrap();
        assert_eq!(failure.code, "too_different");
    }
}
