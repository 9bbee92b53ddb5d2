//! Rewriting a schema without the banned keywords.

use serde_json::{Map, Value};

use super::{
    BANNED, MAX_BYTES, MAX_DEPTH, MAX_NODES,
    irreducible::CompactError,
    merge::{merge, nullable},
};
use crate::{descriptor::SchemaObject, pointer::percent_decoded};

/// The meaning of a declared `$schema`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Draft {
    /// 6 or 7.
    Seven,
    /// 2020-12, or not declared.
    Modern,
}

/// Keywords that only describe. They are dropped, except `description` and `default`.
const ANNOTATIONS: [&str; 13] = [
    "$schema",
    "$anchor",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "$vocabulary",
    "title",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentSchema",
];

/// Keywords with plain values that are copied unchanged.
const PLAIN: [&str; 25] = [
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
    "contentEncoding",
    "contentMediaType",
    "description",
    "default",
];

/// Keywords whose meaning differs between draft 7 and later drafts. A draft 7 schema that has one
/// keeps its `$schema`.
const DRAFT_SENSITIVE: [&str; 8] = [
    "format",
    "contentEncoding",
    "contentMediaType",
    "additionalItems",
    "prefixItems",
    "dependentRequired",
    "minContains",
    "maxContains",
];

/// Rewrites `schema`, which describes arguments, without the [`BANNED`] keywords. The result
/// accepts the same objects.
///
/// # Errors
/// Fails with [`CompactError`] if this function finds no such schema.
pub fn reduce(schema: &SchemaObject) -> Result<SchemaObject, CompactError> {
    let declared = schema.get("$schema");
    let draft = draft(declared)?;
    let mut work =
        Work { root: schema, draft, path: Vec::new(), nodes: 0, bytes: 0, sensitive: false };
    let reduced = work.object(schema, 0)?;
    let mut whole = Map::new();
    if let Some(declared) = declared.filter(|_| draft == Draft::Seven && work.sensitive) {
        whole.insert("$schema".to_owned(), declared.clone());
    }
    // Arguments are always an object, so only that alternative of a type matters.
    let is_object = match reduced.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
    };
    if !is_object {
        return Err(CompactError::NotAnObject);
    }
    whole.insert("type".to_owned(), Value::from("object"));
    for (keyword, value) in reduced {
        if keyword != "type" {
            whole.insert(keyword, value);
        }
    }
    whole.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    Ok(whole)
}

fn draft(declared: Option<&Value>) -> Result<Draft, CompactError> {
    let Some(declared) = declared else { return Ok(Draft::Modern) };
    let text = declared.as_str().ok_or(CompactError::Draft)?;
    let known = text.trim_end_matches('#').trim_end_matches('/');
    let known = known.strip_prefix("http://").or_else(|| known.strip_prefix("https://"));
    match known {
        Some("json-schema.org/draft-07/schema" | "json-schema.org/draft-06/schema") => {
            Ok(Draft::Seven)
        }
        Some("json-schema.org/draft/2020-12/schema") => Ok(Draft::Modern),
        Some(_) | None => Err(CompactError::Draft),
    }
}

struct Work<'a> {
    root: &'a SchemaObject,
    draft: Draft,
    /// References that are being inlined.
    path: Vec<&'a str>,
    nodes: usize,
    /// Bytes of plain values, counted each time they are copied.
    bytes: usize,
    /// Whether a keyword was seen whose meaning differs in another draft.
    sensitive: bool,
}

impl<'a> Work<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<Value, CompactError> {
        match schema {
            Value::Bool(_) => Ok(schema.clone()),
            Value::Object(members) => self.object(members, depth + 1).map(Value::Object),
            _ => Err(CompactError::NotAnObject),
        }
    }

    fn object(
        &mut self,
        schema: &'a SchemaObject,
        depth: usize,
    ) -> Result<SchemaObject, CompactError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES || depth > MAX_DEPTH {
            return Err(CompactError::TooLarge);
        }
        if let Some(reference) = schema.get("$ref") {
            let target = self.follow(reference, depth)?;
            if self.draft == Draft::Seven {
                // In draft 7 the siblings of a reference are ignored.
                return Ok(described(target, schema));
            }
            let own = self.own(schema, depth)?;
            return merge(own, target, 0);
        }
        self.own(schema, depth)
    }

    /// Reduces the target of `reference`.
    fn follow(&mut self, reference: &'a Value, depth: usize) -> Result<SchemaObject, CompactError> {
        let text = reference.as_str().ok_or(CompactError::Unresolved)?;
        if self.path.contains(&text) || text == "#" {
            return Err(CompactError::Recursive);
        }
        let pointer = text.strip_prefix('#').filter(|pointer| pointer.starts_with('/'));
        let pointer = pointer.and_then(percent_decoded).ok_or(CompactError::Unresolved)?;
        let target = lookup(self.root, &pointer).ok_or(CompactError::Unresolved)?;
        self.path.push(text);
        let reduced = match target {
            Value::Object(members) => self.object(members, depth + 1),
            Value::Bool(true) => Ok(Map::new()),
            _ => Err(CompactError::Unresolved),
        };
        self.path.pop();
        reduced
    }

    /// Reduces `schema`, ignoring a `$ref` in it.
    fn own(
        &mut self,
        schema: &'a SchemaObject,
        depth: usize,
    ) -> Result<SchemaObject, CompactError> {
        let mut kept = Map::new();
        let mut also = Vec::new();
        for (keyword, value) in schema {
            match keyword.as_str() {
                "$ref" => {}
                "allOf" => {
                    for part in value.as_array().ok_or(CompactError::NotAnObject)? {
                        match self.schema(part, depth)? {
                            Value::Object(part) => also.push(part),
                            Value::Bool(true) => {}
                            _ => return Err(CompactError::keyword("allOf")),
                        }
                    }
                }
                "anyOf" | "oneOf" => also.push(self.either(keyword, value, depth)?),
                _ => {
                    if let Some(value) = self.value(keyword, value, depth)? {
                        kept.insert(keyword.clone(), value);
                    }
                }
            }
        }
        also.into_iter().try_fold(kept, |kept, part| merge(kept, part, 0))
    }

    /// The value of `keyword` in the reduced schema; `None` if the keyword is dropped.
    fn value(
        &mut self,
        keyword: &str,
        value: &'a Value,
        depth: usize,
    ) -> Result<Option<Value>, CompactError> {
        self.sensitive |= DRAFT_SENSITIVE.contains(&keyword);
        let reduced = match keyword {
            "properties" => {
                let members = value.as_object().ok_or(CompactError::NotAnObject)?.iter();
                let reduced =
                    members.map(|(name, member)| Ok((name.clone(), self.schema(member, depth)?)));
                Value::Object(reduced.collect::<Result<_, CompactError>>()?)
            }
            "items" if value.is_array() && self.draft == Draft::Seven => {
                self.sensitive = true;
                self.list(value, depth)?
            }
            // Without meaning in draft 7, but it would have one if the draft is not declared.
            "prefixItems" if self.draft == Draft::Seven => return Ok(None),
            "prefixItems" => self.list(value, depth)?,
            "additionalItems" if self.draft == Draft::Modern => return Ok(None),
            "additionalProperties" | "items" | "contains" | "propertyNames" | "additionalItems" => {
                self.schema(value, depth)?
            }
            _ if PLAIN.contains(&keyword) => {
                self.bytes += weight(value);
                if self.bytes > MAX_BYTES {
                    return Err(CompactError::TooLarge);
                }
                value.clone()
            }
            // Changes the meaning of references below it.
            "$id" if depth > 0 => return Err(CompactError::keyword(keyword)),
            _ if BANNED.contains(&keyword) || IN_THE_WAY.contains(&keyword) => {
                return Err(CompactError::keyword(keyword));
            }
            _ => return Ok(None),
        };
        Ok(Some(reduced))
    }

    fn list(&mut self, list: &'a Value, depth: usize) -> Result<Value, CompactError> {
        let items = list.as_array().ok_or(CompactError::NotAnObject)?.iter();
        items.map(|item| self.schema(item, depth)).collect()
    }

    /// Reduces "one of these" to one schema: from a single schema, or from one and `null`.
    fn either(
        &mut self,
        keyword: &str,
        either: &'a Value,
        depth: usize,
    ) -> Result<SchemaObject, CompactError> {
        let no_single = || CompactError::keyword(keyword);
        let either = either.as_array().ok_or(CompactError::NotAnObject)?;
        let (chosen, or_null) = match either.as_slice() {
            [only] => (only, false),
            [one, null] | [null, one] if is_null(null) => (one, true),
            _ => return Err(no_single()),
        };
        match self.schema(chosen, depth)? {
            Value::Object(part) if or_null => nullable(part).ok_or_else(no_single),
            Value::Object(part) => Ok(part),
            _ => Err(no_single()),
        }
    }
}

/// Keywords other than [`BANNED`] whose assertions have no equivalent. (`then` and `else` have no
/// meaning without `if`.)
const IN_THE_WAY: [&str; 8] = [
    "if",
    "dependencies",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
    "$dynamicAnchor",
    "$recursiveAnchor",
];

/// Whether this module lists `keyword` as one of JSON Schema.
pub(crate) fn is_plain_keyword(keyword: &str) -> bool {
    let lists: [&[&str]; 4] = [&PLAIN, &BANNED, &IN_THE_WAY, &ANNOTATIONS];
    lists.iter().any(|list| list.contains(&keyword))
}

/// Whether `schema` clearly accepts only `null`.
fn is_null(schema: &Value) -> bool {
    let Some(members) = schema.as_object() else { return false };
    members.get("type").is_some_and(|kind| kind == "null")
        && members.keys().all(|key| {
            key == "type"
                || key == "description"
                || key == "default"
                || ANNOTATIONS.contains(&key.as_str())
        })
}

/// Adds the description and the default of `sibling` to `target`.
fn described(mut target: SchemaObject, sibling: &SchemaObject) -> SchemaObject {
    for keyword in ["description", "default"] {
        if let Some(value) = sibling.get(keyword) {
            target.insert(keyword.to_owned(), value.clone());
        }
    }
    target
}

/// The approximate size of `value` as JSON in bytes.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>() + 2
        }
    }
}

fn lookup<'a>(root: &'a SchemaObject, pointer: &str) -> Option<&'a Value> {
    let path = pointer.strip_prefix('/')?;
    let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    root.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
}
