//! Patterns that cannot be checked here, and a schema without them.
//!
//! JavaScript and Python run look-around and back-references, whose time may be exponential. The
//! engine used here supports neither, so a value is checked against everything except such a pattern.
//!
//! Invariant: a schema without its patterns accepts every value that the schema accepts.

use serde_json::{Value, json};

use super::bounds::REFERENCES;
use crate::schema::{self, SchemaObject};

/// The different patterns of `schema`.
pub(super) fn of(schema: &Value) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    schema::visit(schema, &mut |members| {
        for pattern in schema::patterns(members) {
            if !found.iter().any(|known| known == pattern) {
                found.push(pattern.to_owned());
            }
        }
    });
    found
}

/// Removes `patterns` from `schema`, and the keywords that would refuse more because of that.
pub(super) fn without(schema: &Value, patterns: &[String]) -> Value {
    let mut remover = Remover { patterns, is_of_names: false };
    schema::visit(schema, &mut |members| {
        remover.is_of_names |=
            schema::name_patterns(members).any(|pattern| remover.is_one(pattern));
    });
    let mut schema = schema.clone();
    schema::visit_mut(&mut schema, &mut |members| remover.remove(members));
    schema
}

struct Remover<'p> {
    patterns: &'p [String],
    /// Whether one of the patterns is for the names of properties. Fewer properties are evaluated
    /// without it.
    is_of_names: bool,
}

impl Remover<'_> {
    fn remove(&self, members: &mut SchemaObject) {
        self.relax(members);
        if members
            .get("pattern")
            .and_then(Value::as_str)
            .is_some_and(|pattern| self.is_one(pattern))
        {
            members.shift_remove("pattern");
        }
        if let Some(Value::Object(named)) = members.get_mut("patternProperties") {
            let before = named.len();
            named.retain(|pattern, _| !self.is_one(pattern));
            if named.len() < before {
                members.shift_remove("additionalProperties");
            }
        }
        if self.is_of_names {
            members.shift_remove("unevaluatedProperties");
        }
    }

    /// Removes keywords that refuse more when one of their subschemas accepts more.
    fn relax(&self, members: &mut SchemaObject) {
        let changes = |members: &SchemaObject, keyword: &str| {
            members.get(keyword).is_some_and(|schema| self.changes(schema))
        };
        if changes(members, "not") {
            members.shift_remove("not");
        }
        if changes(members, "if") {
            for keyword in ["if", "then", "else"] {
                members.shift_remove(keyword);
            }
        }
        if changes(members, "contains") {
            members.shift_remove("maxContains");
        }
        if changes(members, "oneOf")
            && let Some(alternatives) = members.shift_remove("oneOf")
        {
            let any = json!({ "anyOf": alternatives });
            match members.get_mut("allOf") {
                Some(Value::Array(all)) => all.push(any),
                _ => drop(members.insert("allOf".to_owned(), json!([any]))),
            }
        }
    }

    /// Whether `schema` has one of the patterns, or refers to a schema that may have it.
    fn changes(&self, schema: &Value) -> bool {
        match schema {
            Value::Array(items) => items.iter().any(|item| self.changes(item)),
            Value::Object(members) => members.iter().any(|(keyword, value)| {
                REFERENCES.contains(&keyword.as_str())
                    || self.is_one(keyword)
                    || value.as_str().is_some_and(|text| self.is_one(text))
                    || self.changes(value)
            }),
            _ => false,
        }
    }

    fn is_one(&self, pattern: &str) -> bool {
        self.patterns.iter().any(|one| one == pattern)
    }
}
