//! Makes the schemas of one tool self-contained.
//!
//! Each `$ref` becomes a reference to `$defs`, into which its target is copied once, from any file
//! of the document. A recursive schema therefore stays small. Schemas of 3.0 are converted to JSON
//! Schema 2020-12; those of 3.1 already conform to it. All other parts of a schema stay unchanged.
//!
//! Invariant: the total size of a tool's schemas is bounded. Definitions beyond the limit are left
//! open: they keep only type, title and description, and reject no value that the original
//! accepts.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::{
    composition::Composition,
    document::{Document, FileId, Node, ReferenceError},
};
use crate::text::tidy_lines;

/// Longest text kept in an open definition, in bytes.
const MAX_KEPT_TEXT: usize = 400;

/// Most copied maps of schemas within one another.
const MAX_COPIES: usize = 16;

/// Keywords whose value is a schema.
const ONE: &[&str] = &[
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
    "additionalItems",
];
/// Keywords whose value is a list of schemas.
const LIST: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is a map of schemas.
const MAP: &[&str] =
    &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// The direction of the data that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Callers send it, but need not send `readOnly` properties.
    Request,
    /// The service sends it, without `writeOnly` properties.
    Answer,
}

/// A set of schemas that share their definitions.
pub(super) struct Bundle<'d> {
    document: &'d Document,
    direction: Direction,
    /// Bytes left for further definitions.
    left: usize,
    /// Names in `$defs` by file and JSON pointer.
    names: HashMap<(FileId, String), String>,
    taken: HashSet<String>,
    /// Copied maps around the current one.
    copies: usize,
    /// Properties of the other direction only, of the value that the next schema describes with
    /// others.
    one_way: Vec<String>,
    waiting: VecDeque<(String, Node<'d>)>,
}

impl<'d> Bundle<'d> {
    /// Creates a bundle limited to about `share` bytes.
    pub(super) fn new(document: &'d Document, direction: Direction, share: usize) -> Self {
        Self {
            document,
            direction,
            left: share,
            names: HashMap::new(),
            taken: HashSet::new(),
            copies: 0,
            one_way: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Rewrites `schema` for use in a tool's schema.
    pub(super) fn schema(&mut self, schema: Node<'_>) -> Result<Value, ReferenceError> {
        let size = size(schema.value);
        if size > self.left {
            return Ok(open(schema.value));
        }
        self.left -= size;
        self.rewritten(schema)
    }

    /// Adds the definitions that the rewritten schemas refer to.
    pub(super) fn add_definitions(
        mut self,
        mut schema: Map<String, Value>,
    ) -> Result<Map<String, Value>, ReferenceError> {
        let mut definitions = Map::new();
        while let Some((name, schema)) = self.waiting.pop_front() {
            let schema = self.schema(schema)?;
            definitions.insert(name, schema);
        }
        if !definitions.is_empty() {
            schema.insert("$defs".to_owned(), Value::Object(definitions));
        }
        Ok(schema)
    }

    fn rewritten(&mut self, schema: Node<'_>) -> Result<Value, ReferenceError> {
        let Value::Object(members) = schema.value else { return Ok(schema.value.clone()) };
        let is_old = self.document.is_old(schema.file);
        let reference = match members.get("$ref") {
            Some(Value::String(reference)) => {
                Some(Value::String(self.reference(schema.file, reference)?))
            }
            _ => None,
        };
        if let (Some(reference), true) = (&reference, is_old) {
            // In 3.0, siblings of a reference are ignored.
            return Ok(json!({ "$ref": reference }));
        }
        let mut kept = self.members(schema)?;
        match reference {
            Some(reference) => drop(kept.insert("$ref".to_owned(), reference)),
            None if is_old => modernise(&mut kept),
            None => {}
        }
        Ok(Value::Object(kept))
    }

    fn members(&mut self, schema: Node<'_>) -> Result<Map<String, Value>, ReferenceError> {
        let mut kept = Map::new();
        let mut one_way = std::mem::take(&mut self.one_way);
        if schema.get("allOf").is_some() {
            one_way.extend(self.one_way_of(schema));
        }
        for (keyword, member) in schema.members() {
            let value = match member.value {
                Value::Array(_) if keyword == "allOf" => {
                    let mut all = Vec::new();
                    for schema in member.items() {
                        self.one_way.clone_from(&one_way);
                        all.push(self.rewritten(schema)?);
                    }
                    self.one_way.clear();
                    Value::Array(all)
                }
                // These would change how references are resolved.
                _ if ["$id", "$anchor", "$schema"].contains(&keyword) => continue,
                Value::Object(_) if ONE.contains(&keyword) => self.rewritten(member)?,
                Value::Array(_) if LIST.contains(&keyword) => {
                    member.items().map(|schema| self.rewritten(schema)).collect::<Result<_, _>>()?
                }
                Value::Object(_) if MAP.contains(&keyword) => self.map(member)?,
                value => value.clone(),
            };
            kept.insert(keyword.to_owned(), value);
        }
        self.drop_required_of_other_direction(schema, &one_way, &mut kept);
        Ok(kept)
    }

    /// Rewrites a map of schemas. Some documents of several files have a reference in place of a
    /// whole map. It cannot point to `$defs`, so the map is copied.
    fn map(&mut self, schemas: Node<'_>) -> Result<Value, ReferenceError> {
        let Some(reference) = schemas.text("$ref") else { return self.each(schemas) };
        let copied = self.document.follow(schemas)?;
        let (size, depth) = (size(copied.value), self.copies + 1);
        if depth > MAX_COPIES || size > self.left {
            return Err(ReferenceError::circle(reference));
        }
        self.left -= size;
        self.copies = depth;
        let rewritten = self.each(copied);
        self.copies -= 1;
        rewritten
    }

    fn each(&mut self, schemas: Node<'_>) -> Result<Value, ReferenceError> {
        let schemas = schemas.members();
        let rewritten =
            schemas.map(|(name, schema)| Ok((name.to_owned(), self.rewritten(schema)?)));
        Ok(Value::Object(rewritten.collect::<Result<_, ReferenceError>>()?))
    }

    /// Returns the properties that exist in the other direction only, of an object that several
    /// schemas describe together.
    fn one_way_of(&self, schema: Node<'_>) -> Vec<String> {
        let properties = Composition::repeated(self.document).properties(&[schema]);
        let is_one_way = |(name, schemas): (&str, Vec<Node<'_>>)| {
            schemas.into_iter().any(|schema| self.is_one_way(schema)).then(|| name.to_owned())
        };
        properties.unwrap_or_default().named.into_iter().filter_map(is_one_way).collect()
    }

    fn is_one_way(&self, property: Node<'_>) -> bool {
        let annotation = match self.direction {
            Direction::Request => "readOnly",
            Direction::Answer => "writeOnly",
        };
        let followed = self.document.follow(property).ok();
        [property].into_iter().chain(followed).any(|node| node.flag(annotation) == Some(true))
    }

    /// Removes from `required` the properties that exist in the other direction only, and
    /// `one_way`.
    fn drop_required_of_other_direction(
        &self,
        schema: Node<'_>,
        one_way: &[String],
        kept: &mut Map<String, Value>,
    ) {
        let properties = schema.get("properties");
        let properties = properties.and_then(|properties| self.document.follow(properties).ok());
        let Some(required) = kept.get_mut("required").and_then(Value::as_array_mut) else { return };
        let before = required.len();
        required.retain(|name| {
            let Some(name) = name.as_str() else { return true };
            let property = properties.and_then(|properties| properties.get(name));
            !one_way.iter().any(|other| other == name)
                && !property.is_some_and(|node| self.is_one_way(node))
        });
        if required.is_empty() && before > 0 {
            kept.shift_remove("required");
        }
    }

    fn reference(&mut self, from: FileId, reference: &str) -> Result<String, ReferenceError> {
        let place = self.document.target(from, reference)?;
        if let Some(name) = self.names.get(&place) {
            return Ok(format!("#/$defs/{name}"));
        }
        let target = self.document.at(from, reference)?;
        let last = match place.1.rsplit_once('/') {
            Some((_, last)) => last,
            None => self.document.stem(place.0),
        };
        let plain: String = plain_name(last).chars().take(120).collect();
        let plain = if plain.is_empty() { "schema".to_owned() } else { plain };
        let mut name = plain.clone();
        let mut count = 1_usize;
        while !self.taken.insert(name.clone()) {
            count += 1;
            name = format!("{plain}_{count}");
        }
        self.names.insert(place, name.clone());
        self.waiting.push_back((name.clone(), target));
        Ok(format!("#/$defs/{name}"))
    }
}

/// Replaces the characters of `name` that are invalid in names.
pub(super) fn plain_name(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.chars().map(legal).collect()
}

/// Converts a schema of OpenAPI 3.0 to JSON Schema 2020-12.
fn modernise(schema: &mut Map<String, Value>) {
    for (bound, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match schema.get(bound) {
            Some(Value::Bool(true)) if schema.contains_key(limit) => {
                let value = schema.shift_remove(limit).unwrap_or_default();
                schema.insert(bound.to_owned(), value);
            }
            Some(Value::Bool(_)) => drop(schema.shift_remove(bound)),
            _ => {}
        }
    }
    if schema.shift_remove("nullable") != Some(Value::Bool(true)) {
        return;
    }
    match schema.get_mut("type") {
        Some(kind @ Value::String(_)) => {
            let one = kind.take();
            *kind = json!([one, "null"]);
            if let Some(Value::Array(values)) = schema.get_mut("enum")
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
            // A combination can still reject `null`, whatever `type` says.
            if ["allOf", "anyOf", "oneOf"].iter().any(|word| schema.contains_key(*word)) {
                or_null(schema);
            }
        }
        _ => or_null(schema),
    }
}

/// Makes `schema` accept `null`; title and description stay at the top, where readers expect them.
fn or_null(schema: &mut Map<String, Value>) {
    let mut outer = Map::new();
    for word in ["title", "description"] {
        if let Some(text) = schema.shift_remove(word) {
            outer.insert(word.to_owned(), text);
        }
    }
    let inner = Value::Object(std::mem::take(schema));
    outer.insert("anyOf".to_owned(), json!([inner, { "type": "null" }]));
    *schema = outer;
}

/// Keeps only the outermost level of a schema.
fn open(schema: &Value) -> Value {
    let mut kept = Map::new();
    for word in ["title", "description"] {
        if let Some(text) = schema.get(word).and_then(Value::as_str) {
            kept.insert(word.to_owned(), json!(tidy_lines(text, MAX_KEPT_TEXT)));
        }
    }
    let nullable = schema.get("nullable") == Some(&Value::Bool(true));
    if let Some(kind) = schema.get("type").filter(|_| !nullable) {
        kept.insert("type".to_owned(), kind.clone());
    }
    Value::Object(kept)
}

/// Estimates the bytes of a value as JSON.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(key, value)| key.len() + 4 + size(value)).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(version: &str, schemas: Value) -> Document {
        let text = json!({ "openapi": version, "components": { "schemas": schemas } }).to_string();
        Document::of(text.as_bytes()).unwrap()
    }

    fn at<'d>(document: &'d Document, value: &'d Value) -> Node<'d> {
        document.root().with(value)
    }

    fn rewritten(version: &str, schema: Value) -> Value {
        let document = document(version, json!({ "S": {} }));
        Bundle::new(&document, Direction::Request, 1 << 20).schema(at(&document, &schema)).unwrap()
    }

    #[test]
    fn schemas_of_3_0_become_json_schema() {
        for (old, new) in [
            (json!({ "type": "string", "nullable": true }), json!({ "type": ["string", "null"] })),
            (json!({ "type": "string", "nullable": false }), json!({ "type": "string" })),
            (
                json!({ "type": "string", "enum": ["a"], "nullable": true }),
                json!({ "type": ["string", "null"], "enum": ["a", null] }),
            ),
            (
                json!({ "nullable": true, "description": "d", "allOf": [{ "type": "object" }] }),
                json!({ "description": "d", "anyOf": [
                    { "allOf": [{ "type": "object" }] }, { "type": "null" },
                ] }),
            ),
            (json!({ "minimum": 1, "exclusiveMinimum": true }), json!({ "exclusiveMinimum": 1 })),
            (
                json!({ "maximum": 9, "exclusiveMaximum": false, "minimum": 0 }),
                json!({ "maximum": 9, "minimum": 0 }),
            ),
            (
                json!({ "$ref": "#/components/schemas/S", "description": "does not count" }),
                json!({ "$ref": "#/$defs/S" }),
            ),
            (
                json!({ "properties": { "nullable": { "type": "string", "nullable": true } } }),
                json!({ "properties": { "nullable": { "type": ["string", "null"] } } }),
            ),
        ] {
            assert_eq!(rewritten("3.0.3", old.clone()), new, "{old}");
        }
    }

    #[test]
    fn schemas_of_3_1_stay_as_they_are() {
        let schema = json!({
            "type": ["object", "null"], "exclusiveMinimum": 1, "x-own": { "$ref": "kept" },
            "properties": { "$ref": { "const": { "nullable": true } }, "b": false },
            "example": { "$ref": "#/components/schemas/S" }, "default": { "z": 1, "a": 2 },
            "prefixItems": [true, { "enum": [{ "$ref": "no reference" }] }],
        });
        let text = schema.to_string();
        assert_eq!(rewritten("3.1.0", schema).to_string(), text, "byte for byte");
        let beside = json!({ "description": "counts", "$ref": "#/components/schemas/S" });
        assert_eq!(
            rewritten("3.1.0", beside),
            json!({ "description": "counts", "$ref": "#/$defs/S" })
        );
    }

    #[test]
    fn what_exists_in_the_other_direction_only_is_not_required() {
        let document = document("3.0.3", json!({ "Id": { "type": "string", "readOnly": true } }));
        let schema = json!({
            "required": ["id", "at", "name", "secret"],
            "properties": {
                "id": { "$ref": "#/components/schemas/Id" },
                "at": { "type": "string", "readOnly": true },
                "name": { "type": "string" },
                "secret": { "type": "string", "writeOnly": true },
            },
        });
        let required = |direction| {
            let schema =
                Bundle::new(&document, direction, 1 << 20).schema(at(&document, &schema)).unwrap();
            schema["required"].clone()
        };
        assert_eq!(required(Direction::Request), json!(["name", "secret"]));
        assert_eq!(required(Direction::Answer), json!(["id", "at", "name"]));
        let only = json!({ "required": ["a"], "properties": { "a": { "readOnly": true } } });
        let schema = Bundle::new(&document, Direction::Request, 1 << 20)
            .schema(at(&document, &only))
            .unwrap();
        assert_eq!(schema.get("required"), None);
        // Of an object that several schemas describe, any of them can require it.
        let parts = json!({
            "required": ["id"],
            "allOf": [
                { "properties": { "id": { "readOnly": true }, "name": {}, "more": {
                    "required": ["id"], "properties": { "id": {} } } } },
                { "required": ["id", "name"] },
            ],
        });
        let schema = Bundle::new(&document, Direction::Request, 1 << 20)
            .schema(at(&document, &parts))
            .unwrap();
        assert_eq!(schema.get("required"), None);
        assert_eq!(schema["allOf"][1]["required"], json!(["name"]));
        assert_eq!(schema["allOf"][0]["properties"]["more"]["required"], json!(["id"]));
    }

    #[test]
    fn definitions_are_copied_once_and_may_refer_to_themselves() {
        let node = json!({
            "type": "object",
            "properties": {
                "next": { "$ref": "#/components/schemas/Node" },
                "other": { "$ref": "#/components/schemas/a~1b" },
                "inner": { "$ref": "#/components/schemas/a~1b/items" },
            },
        });
        let document =
            document("3.1.0", json!({ "Node": node, "a/b": { "items": { "type": "string" } } }));
        let mut bundle = Bundle::new(&document, Direction::Request, 1 << 20);
        let root = json!({ "$ref": "#/components/schemas/Node" });
        let root = bundle.schema(at(&document, &root)).unwrap();
        assert_eq!(root, json!({ "$ref": "#/$defs/Node" }));
        let schema = bundle.add_definitions(Map::new()).unwrap();
        let definitions = schema["$defs"].as_object().unwrap();
        assert_eq!(definitions.keys().collect::<Vec<_>>(), ["Node", "a_1b", "items"]);
        assert_eq!(definitions["Node"]["properties"]["next"]["$ref"], "#/$defs/Node");
        assert_eq!(definitions["items"], json!({ "type": "string" }));
    }

    #[test]
    fn a_schema_that_is_too_large_is_left_open_and_keeps_its_type() {
        let wide = json!({
            "type": "object", "description": "d".repeat(9_000),
            "properties": { "a": { "enum": ["x".repeat(4_000)] } },
        });
        let document = document("3.1.0", json!({ "Wide": wide, "Small": { "type": "integer" } }));
        let mut bundle = Bundle::new(&document, Direction::Request, 2_000);
        let schema = json!({ "prefixItems": [
            { "$ref": "#/components/schemas/Wide" }, { "$ref": "#/components/schemas/Small" },
        ] });
        bundle.schema(at(&document, &schema)).unwrap();
        let definitions = &bundle.add_definitions(Map::new()).unwrap()["$defs"];
        assert_eq!(definitions["Small"], json!({ "type": "integer" }));
        assert_eq!(definitions["Wide"]["type"], "object");
        assert!(definitions["Wide"].get("properties").is_none());
        assert!(definitions["Wide"].to_string().len() < 1_000);
    }
}
