//! The names of schemas: `$id` and `$anchor` of JSON Schema.
//!
//! `$id` changes the address to which the references in its schema are relative. Such references
//! are rewritten to JSON pointers from the root of their file when it is read, and so are
//! references to anchors of the same file. References from other files find the names by their
//! addresses.

use std::{
    collections::{HashMap, hash_map::Entry},
    vec,
};

use percent_encoding::percent_decode_str;
use serde_json::Value;
use toolcrib_core::schema::DATA;
use url::Url;

use super::parse::MAX_DOCUMENT;

/// Most names of one file.
const MAX_NAMES: usize = 10_000;
/// Longest JSON pointer of a named schema, in bytes.
const MAX_POINTER: usize = 2_000;
/// Most bytes of the rewritten references of one file.
const MAX_REWRITTEN: usize = MAX_DOCUMENT;

/// Members whose value is a map: its keys are not keywords.
const MAPS: [&str; 15] = [
    "$defs",
    "callbacks",
    "content",
    "definitions",
    "dependentSchemas",
    "encoding",
    "headers",
    "parameters",
    "pathItems",
    "paths",
    "patternProperties",
    "properties",
    "requestBodies",
    "responses",
    "schemas",
];

/// The JSON pointers of the schemas of a file by their addresses, which include the anchor; `None`
/// for a name shared by several schemas.
pub(super) type Names = HashMap<Url, Option<String>>;

/// The references of a file.
#[derive(Debug, Default)]
pub(super) struct References {
    /// The references that do not start with `#`.
    pub(super) foreign: Vec<String>,
    /// Whether the file has names of schemas.
    pub(super) has_names: bool,
}

/// Whether the keys of an object are keywords, or the names of a map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Keywords,
    Map,
}

/// The schema with an `$id` that a reference is in, or the root of the file.
#[derive(Clone, Copy)]
struct Scope<'v> {
    base: &'v Url,
    schema: &'v Value,
    pointer: &'v str,
}

/// Finds the names of a file.
#[derive(Default)]
struct NameReader {
    names: Names,
    /// The JSON pointers of the schemas with an `$id`, in the order of the file.
    scopes: Vec<String>,
    pointer: String,
}

/// Finds the references of a file that names change.
struct Rewriter<'n> {
    names: &'n Names,
    scopes: vec::IntoIter<String>,
    /// One entry per reference, in the order of the file.
    rewritten: Vec<Option<String>>,
    bytes: usize,
}

// === impl References ===

impl References {
    pub(super) fn of(value: &Value) -> Self {
        let mut references = Self::default();
        references.read(value);
        references
    }

    fn read(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.read(item)),
            Value::Object(members) => {
                for (key, member) in members {
                    match (key.as_str(), member) {
                        ("$ref", Value::String(reference)) if !reference.starts_with('#') => {
                            self.foreign.push(reference.clone());
                        }
                        ("$id" | "$anchor" | "$dynamicAnchor", Value::String(_)) => {
                            self.has_names = true;
                        }
                        (_, member) => self.read(member),
                    }
                }
            }
            _ => {}
        }
    }
}

// === impl Context ===

impl Context {
    /// The context of the member `key`; `None` for data.
    fn of(self, key: &str) -> Option<Self> {
        match self {
            Self::Map => Some(Self::Keywords),
            Self::Keywords if DATA.contains(&key) => None,
            Self::Keywords if MAPS.contains(&key) => Some(Self::Map),
            Self::Keywords => Some(Self::Keywords),
        }
    }
}

/// Rewrites the references in the file at `base` that its names change, and returns its names. An
/// error completes a sentence such as "the file is not …".
pub(super) fn rewrite(root: &mut Value, base: &Url) -> Result<Names, String> {
    let mut reader = NameReader::default();
    reader.read(root, base, Context::Keywords)?;
    let NameReader { names, scopes, .. } = reader;
    let scopes = scopes.into_iter();
    let mut rewriter = Rewriter { names: &names, scopes, rewritten: Vec::new(), bytes: 0 };
    let scope = Scope { base, schema: root, pointer: "" };
    rewriter.read(root, scope, Context::Keywords)?;
    apply(root, &mut rewriter.rewritten.into_iter(), Context::Keywords);
    Ok(names)
}

/// Returns the address of the schema that `id` names, without an anchor.
fn address(base: &Url, id: &str) -> Option<Url> {
    let mut url = base.join(id).ok()?;
    url.set_fragment(None);
    Some(url)
}

pub(super) fn anchored(base: &Url, anchor: &str) -> Url {
    let mut url = base.clone();
    url.set_fragment(Some(anchor));
    url
}

/// Returns the `$id` of a schema, unless it is an anchor.
fn id_of(value: &Value, context: Context) -> Option<&str> {
    let id = value.get("$id").and_then(Value::as_str);
    id.filter(|id| context == Context::Keywords && !id.starts_with('#'))
}

// === impl NameReader ===

impl NameReader {
    fn read(&mut self, value: &Value, base: &Url, context: Context) -> Result<(), String> {
        let own = id_of(value, context).and_then(|id| address(base, id));
        let base = own.as_ref().unwrap_or(base);
        if let Some(own) = &own {
            self.add(own.clone())?;
            self.scopes.push(self.pointer.clone());
        }
        if context == Context::Keywords {
            let text = |key: &str| value.get(key).and_then(Value::as_str);
            let id = text("$id").and_then(|id| id.strip_prefix('#'));
            for anchor in [id, text("$anchor"), text("$dynamicAnchor")].into_iter().flatten() {
                self.add(anchored(base, anchor))?;
            }
        }
        let length = self.pointer.len();
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.pointer.push_str(&format!("/{index}"));
                    self.read(item, base, Context::Keywords)?;
                    self.pointer.truncate(length);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    let Some(context) = context.of(key) else { continue };
                    self.pointer.push('/');
                    self.pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                    self.read(member, base, context)?;
                    self.pointer.truncate(length);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, name: Url) -> Result<(), String> {
        if self.names.len() == MAX_NAMES
            || self.scopes.len() == MAX_NAMES
            || self.pointer.len() > MAX_POINTER
        {
            return Err(format!(
                "usable: it has more than {MAX_NAMES} schemas with `$id` or `$anchor`, or too deep ones"
            ));
        }
        match self.names.entry(name) {
            Entry::Vacant(entry) => drop(entry.insert(Some(self.pointer.clone()))),
            // One schema may have the same name twice.
            Entry::Occupied(entry) if entry.get().as_ref() == Some(&self.pointer) => {}
            Entry::Occupied(mut entry) => drop(entry.insert(None)),
        }
        Ok(())
    }
}

// === impl Rewriter ===

impl Rewriter<'_> {
    fn read(&mut self, value: &Value, scope: Scope<'_>, context: Context) -> Result<(), String> {
        let own = id_of(value, context).and_then(|id| address(scope.base, id));
        let own = own.and_then(|base| Some((base, self.scopes.next()?)));
        let scope = match &own {
            Some((base, pointer)) => Scope { base, schema: value, pointer },
            None => scope,
        };
        match value {
            Value::Array(items) => {
                items.iter().try_for_each(|item| self.read(item, scope, Context::Keywords))
            }
            Value::Object(members) => members.iter().try_for_each(|(key, member)| {
                let Some(inner) = context.of(key) else { return Ok(()) };
                match member {
                    Value::String(reference) if key == "$ref" => self.add(reference, scope),
                    member => self.read(member, scope, inner),
                }
            }),
            _ => Ok(()),
        }
    }

    fn add(&mut self, reference: &str, scope: Scope<'_>) -> Result<(), String> {
        let rewritten = self.target(reference, scope);
        self.bytes += rewritten.as_ref().map_or(0, String::len);
        self.rewritten.push(rewritten);
        match self.bytes > MAX_REWRITTEN {
            true => Err("usable: it has too many references within schemas with `$id`".to_owned()),
            false => Ok(()),
        }
    }

    /// Returns a reference as a JSON pointer from the root of the file. `None` if names do not
    /// change it: it leads from the root of the file or to another file, or the name is ambiguous.
    fn target(&self, reference: &str, scope: Scope<'_>) -> Option<String> {
        let (place, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let decoded = percent_decode_str(fragment).decode_utf8_lossy();
        let base = match place {
            "" => scope.base.clone(),
            _ => address(scope.base, place)?,
        };
        let is_pointer = decoded.is_empty() || decoded.starts_with('/');
        let (pointer, rest) = match (place, is_pointer) {
            // Many documents have references from the root of the file in such schemas.
            ("", true) if scope.pointer.is_empty() => return None,
            ("", true) => (scope.schema.pointer(&decoded).and(Some(scope.pointer))?, &*decoded),
            (_, true) => (self.names.get(&base)?.as_deref()?, &*decoded),
            (_, false) => (self.names.get(&anchored(&base, &decoded))?.as_deref()?, ""),
        };
        Some(format!("#{pointer}{rest}").replace('%', "%25"))
    }
}

/// Replaces the references for which `rewritten` has another one.
fn apply(
    value: &mut Value,
    rewritten: &mut impl Iterator<Item = Option<String>>,
    context: Context,
) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| apply(item, rewritten, Context::Keywords));
        }
        Value::Object(members) => {
            for (key, member) in members {
                let Some(inner) = context.of(key) else { continue };
                match member {
                    Value::String(reference) if key == "$ref" => {
                        if let Some(Some(other)) = rewritten.next() {
                            *reference = other;
                        }
                    }
                    member => apply(member, rewritten, inner),
                }
            }
        }
        _ => {}
    }
}
