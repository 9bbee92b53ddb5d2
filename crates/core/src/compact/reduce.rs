//! Rewriting a schema without the banned keywords.

use serde_json::{Map, Value};

use super::{
    BANNED, MAX_BYTES, MAX_DEPTH, MAX_NODES,
    merge::{merge, nullable},
};
use crate::descriptor::SchemaObject;

/// Why a schema has no compact form. Positions are JSON pointers into the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Irreducible {
    /// A keyword that has no equivalent without combining schemas.
    #[error("`{keyword}` cannot be expressed without combining schemas")]
    Keyword {
        /// The keyword.
        keyword: String,
    },
    /// A reference that is part of a cycle.
    #[error("a reference leads back to itself")]
    Recursive,
    /// A reference without a target in the document.
    #[error("a reference leads out of the schema or nowhere")]
    Unresolved,
    /// Two schemas that both apply and that one schema cannot express.
    #[error("`{keyword}` of two schemas that both apply cannot be merged")]
    Conflict {
        /// The keyword.
        keyword: String,
    },
    /// The arguments are not an object.
    #[error("the arguments are not described as an object")]
    NotAnObject,
    /// A draft whose keywords have another meaning.
    #[error("the `$schema` is of an old or unknown draft")]
    Draft,
    /// Past [`MAX_NODES`], [`MAX_DEPTH`] or [`MAX_BYTES`].
    #[error("the schema is too large or too deep")]
    TooLarge,
}

/// The meaning of a declared `$schema`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Draft {
    /// 6 or 7.
    Seven,
    /// 2020-12, or none declared.
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
/// Returns [`Irreducible`] when this function finds no such schema.
pub fn reduce(schema: &SchemaObject) -> Result<SchemaObject, Irreducible> {
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
        return Err(Irreducible::NotAnObject);
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

fn draft(declared: Option<&Value>) -> Result<Draft, Irreducible> {
    let Some(declared) = declared else { return Ok(Draft::Modern) };
    let text = declared.as_str().ok_or(Irreducible::Draft)?;
    let known = text.trim_end_matches('#').trim_end_matches('/');
    let known = known.strip_prefix("http://").or_else(|| known.strip_prefix("https://"));
    match known {
        Some("json-schema.org/draft-07/schema" | "json-schema.org/draft-06/schema") => {
            Ok(Draft::Seven)
        }
        Some("json-schema.org/draft/2020-12/schema") => Ok(Draft::Modern),
        Some(_) | None => Err(Irreducible::Draft),
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
    /// Whether a keyword was seen that has another meaning in another draft.
    sensitive: bool,
}

impl<'a> Work<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<Value, Irreducible> {
        match schema {
            Value::Bool(_) => Ok(schema.clone()),
            Value::Object(members) => self.object(members, depth + 1).map(Value::Object),
            _ => Err(Irreducible::NotAnObject),
        }
    }

    fn object(
        &mut self,
        schema: &'a SchemaObject,
        depth: usize,
    ) -> Result<SchemaObject, Irreducible> {
        self.nodes += 1;
        if self.nodes > MAX_NODES || depth > MAX_DEPTH {
            return Err(Irreducible::TooLarge);
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

    /// Returns the target of `reference`, reduced.
    fn follow(&mut self, reference: &'a Value, depth: usize) -> Result<SchemaObject, Irreducible> {
        let text = reference.as_str().ok_or(Irreducible::Unresolved)?;
        if self.path.contains(&text) || text == "#" {
            return Err(Irreducible::Recursive);
        }
        let pointer = text.strip_prefix('#').filter(|pointer| pointer.starts_with('/'));
        let pointer = pointer.and_then(percent_decoded).ok_or(Irreducible::Unresolved)?;
        let target = lookup(self.root, &pointer).ok_or(Irreducible::Unresolved)?;
        self.path.push(text);
        let reduced = match target {
            Value::Object(members) => self.object(members, depth + 1),
            Value::Bool(true) => Ok(Map::new()),
            _ => Err(Irreducible::Unresolved),
        };
        self.path.pop();
        reduced
    }

    /// Reduces `schema`, ignoring a `$ref` in it.
    fn own(&mut self, schema: &'a SchemaObject, depth: usize) -> Result<SchemaObject, Irreducible> {
        let mut kept = Map::new();
        let mut also = Vec::new();
        for (keyword, value) in schema {
            let keyword_text = keyword.as_str();
            match keyword_text {
                "$ref" => continue,
                "allOf" => {
                    for part in value.as_array().ok_or(Irreducible::NotAnObject)? {
                        match self.schema(part, depth)? {
                            Value::Object(part) => also.push(part),
                            Value::Bool(true) => {}
                            _ => return Err(banned("allOf")),
                        }
                    }
                    continue;
                }
                "anyOf" | "oneOf" => {
                    let either = value.as_array().ok_or(Irreducible::NotAnObject)?;
                    also.push(self.either(keyword_text, either, depth)?);
                    continue;
                }
                "properties" => {
                    let members = value.as_object().ok_or(Irreducible::NotAnObject)?;
                    let mut reduced = Map::new();
                    for (name, member) in members {
                        reduced.insert(name.clone(), self.schema(member, depth)?);
                    }
                    kept.insert(keyword.clone(), Value::Object(reduced));
                    continue;
                }
                "items" if value.is_array() && self.draft == Draft::Seven => {
                    self.sensitive = true;
                    kept.insert(keyword.clone(), self.list(value, depth)?);
                    continue;
                }
                "prefixItems" => {
                    self.sensitive = true;
                    // Without meaning in draft 7, but it would have one where the draft is not
                    // declared.
                    if self.draft == Draft::Modern {
                        kept.insert(keyword.clone(), self.list(value, depth)?);
                    }
                    continue;
                }
                "additionalItems" if self.draft == Draft::Modern => continue,
                "additionalProperties"
                | "items"
                | "contains"
                | "propertyNames"
                | "additionalItems" => {
                    self.sensitive |= keyword_text == "additionalItems";
                    let reduced = self.schema(value, depth)?;
                    kept.insert(keyword.clone(), reduced);
                    continue;
                }
                _ => {}
            }
            if PLAIN.contains(&keyword_text) {
                self.sensitive |= DRAFT_SENSITIVE.contains(&keyword_text);
                self.bytes += weight(value);
                if self.bytes > MAX_BYTES {
                    return Err(Irreducible::TooLarge);
                }
                kept.insert(keyword.clone(), value.clone());
            } else if BANNED.contains(&keyword_text) || IN_THE_WAY.contains(&keyword_text) {
                // `then` and `else` have no meaning without `if`.
                if !matches!(keyword_text, "then" | "else") {
                    return Err(banned(keyword_text));
                }
            } else if depth > 0 && keyword_text == "$id" {
                // Changes the meaning of references below it.
                return Err(banned(keyword_text));
            } else {
                debug_assert!(
                    ANNOTATIONS.contains(&keyword_text) || !is_assertion(keyword_text),
                    "{keyword_text} asserts something"
                );
            }
        }
        for part in also {
            kept = merge(kept, part, 0)?;
        }
        Ok(kept)
    }

    fn list(&mut self, list: &'a Value, depth: usize) -> Result<Value, Irreducible> {
        let items = list.as_array().ok_or(Irreducible::NotAnObject)?;
        items
            .iter()
            .map(|item| self.schema(item, depth))
            .collect::<Result<Vec<_>, _>>()
            .map(Value::Array)
    }

    /// Returns one schema for "one of these": a single schema, or one and `null`.
    fn either(
        &mut self,
        keyword: &str,
        either: &'a [Value],
        depth: usize,
    ) -> Result<SchemaObject, Irreducible> {
        let chosen = match either {
            [only] => return self.part(keyword, only, depth),
            [one, null] if is_null(null) => one,
            [null, one] if is_null(null) => one,
            _ => return Err(banned(keyword)),
        };
        nullable(self.part(keyword, chosen, depth)?).ok_or_else(|| banned(keyword))
    }

    fn part(
        &mut self,
        keyword: &str,
        part: &'a Value,
        depth: usize,
    ) -> Result<SchemaObject, Irreducible> {
        match self.schema(part, depth)? {
            Value::Object(part) => Ok(part),
            _ => Err(banned(keyword)),
        }
    }
}

/// Keywords other than [`BANNED`] whose assertions have no equivalent.
const IN_THE_WAY: [&str; 10] = [
    "if",
    "then",
    "else",
    "dependencies",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
    "$dynamicAnchor",
    "$recursiveAnchor",
];

fn is_assertion(keyword: &str) -> bool {
    PLAIN.contains(&keyword) || BANNED.contains(&keyword) || IN_THE_WAY.contains(&keyword)
}

fn banned(keyword: &str) -> Irreducible {
    Irreducible::Keyword { keyword: keyword.to_owned() }
}

/// Returns whether `schema` plainly accepts `null` and nothing else.
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

/// Returns `target` with the description and the default of `sibling`.
fn described(mut target: SchemaObject, sibling: &SchemaObject) -> SchemaObject {
    for keyword in ["description", "default"] {
        if let Some(value) = sibling.get(keyword) {
            target.insert(keyword.to_owned(), value.clone());
        }
    }
    target
}

/// Returns the approximate size of `value` as JSON in bytes.
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
    let mut tokens =
        pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"));
    let mut at = root.get(&tokens.next()?)?;
    for token in tokens {
        at = match at {
            Value::Object(members) => members.get(&token)?,
            Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(at)
}

/// Decodes `%XX` in `text`; returns `None` when the result is invalid.
fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(out).ok()
}
