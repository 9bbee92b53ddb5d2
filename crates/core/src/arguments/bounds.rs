//! The cost of a schema, determined before it is compiled.
//!
//! A few lines of schema can require 2^100 evaluations (each definition referring twice to the
//! next), a deeper stack than exists, or another machine's documents. This walk follows every
//! reference as the validator will, inside a fixed budget, and refuses a schema that exceeds it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{
    pointer::percent_decoded,
    schema::{DATA, MAPS},
    text::visible_line,
};

/// The most JSON values in a schema document. The largest tool schemas seen in practice have some
/// 5 000.
const MAX_NODES: usize = 50_000;
/// The deepest nesting of a schema document; also bounds the compiler's stack.
const MAX_NESTING: usize = 64;
/// The most subschemas, with every reference expanded.
const MAX_EVALUATIONS: u32 = 50_000;
/// The most subschemas inside each other, with references expanded.
const MAX_DEPTH: u32 = 192;
/// The most nested subschemas that apply to one value (`$ref` to `allOf` to `$ref` …).
const MAX_IN_PLACE: u32 = 48;
/// The most different patterns; each may take 256 KiB when compiled.
const MAX_PATTERNS: usize = 64;
/// The most validator frames for one value; each takes about a kilobyte, and a worker's stack has 2
/// MiB.
const MAX_FRAMES: u32 = 640;
/// The most evaluations for a full explanation of a refused call.
const MAX_EXPLAINED: u64 = 4_000_000;
/// The most evaluations for explaining a refused call at all.
const MAX_REPEATED: u64 = 1 << 16;
/// The most evaluations to find the unevaluated members of a value: about a third of a second.
const MAX_UNEVALUATED: u64 = 1_000_000;
/// The most characters of a reference in an error.
const MAX_SHOWN: usize = 160;

/// The memory of a compiled schema, as measured: its base, each subschema, and each pattern such as
/// `^[A-Za-z0-9_-]{1,256}$`. Enumerations and similar keywords add the size of their text.
const BYTES: u64 = 2 << 10;
const BYTES_OF_SUBSCHEMA: u64 = 1 << 10;
const BYTES_OF_PATTERN: u64 = 64 << 10;

type Members = Map<String, Value>;

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(pub String);

/// The cost of one evaluation of a schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weight {
    /// Subschemas evaluated, without following recursion.
    evaluations: u32,
    /// Longest chain of subschemas for one value.
    in_place: u32,
    /// How many times a recursive schema reaches one and the same nested value. 0 when the schema
    /// is not recursive, 1 for an ordinary tree.
    repeats: u32,
    /// Subschemas that `unevaluatedProperties` and `unevaluatedItems` can evaluate again for each
    /// member.
    unevaluated: u32,
    /// Different patterns.
    patterns: u32,
}

/// The dimensions of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    nodes: u64,
    depth: u32,
}

impl Size {
    pub(super) fn of(value: &Value) -> Self {
        let children = |size: Self, child: &Value| {
            let child = Self::of(child);
            Self { nodes: size.nodes + child.nodes, depth: size.depth.max(child.depth + 1) }
        };
        let leaf = Self { nodes: 1, depth: 0 };
        match value {
            Value::Array(items) => items.iter().fold(leaf, children),
            Value::Object(members) => members.values().fold(leaf, children),
            _ => leaf,
        }
    }
}

impl Weight {
    /// The approximate bytes of a compiled schema with a text of `length` bytes.
    pub(super) fn bytes(&self, length: usize) -> u64 {
        BYTES
            .saturating_add(u64::from(self.evaluations).saturating_mul(BYTES_OF_SUBSCHEMA))
            .saturating_add(u64::from(self.patterns).saturating_mul(BYTES_OF_PATTERN))
            .saturating_add(u64::try_from(length).unwrap_or(u64::MAX).saturating_mul(4))
    }

    /// Whether the validator's stack suffices for a value.
    pub(super) fn allows(&self, value: &Size) -> bool {
        self.repeats == 0 || (value.depth + 1).saturating_mul(self.in_place + 1) <= MAX_FRAMES
    }

    /// Whether the unevaluated members of a value can be found within the budget.
    pub(super) fn affords(&self, value: &Size) -> bool {
        u64::from(self.unevaluated).saturating_mul(value.nodes) <= MAX_UNEVALUATED
    }

    /// Whether all violations of a value can be listed within the budget.
    pub(super) fn explains_fully(&self, value: &Size) -> bool {
        u64::from(self.evaluations).saturating_mul(value.nodes) <= MAX_EXPLAINED
    }

    /// Whether one violation can be explained within the budget. The validator caches the verdicts
    /// on nested values, but not their explanations. It therefore revisits them `repeats` times at
    /// each level.
    pub(super) fn explains(&self, value: &Size) -> bool {
        u64::from(self.repeats).saturating_pow(value.depth) <= MAX_REPEATED
    }
}

/// Measures the cost of `schema`, and fails if it exceeds a bound.
pub(super) fn weigh(schema: &Value) -> Result<Weight, SchemaError> {
    let mut index = Index::default();
    index.read(schema, 0, Context::Schema)?;
    let patterns = index.patterns.len();
    let mut walk = Walk {
        index,
        root: schema,
        open: vec![(schema, 0)],
        path: Vec::new(),
        weight: Tally::default(),
    };
    walk.visit(schema, WalkPosition { base: schema, depth: 0, in_place: 0 })?;
    let tally = walk.weight;
    let repeats = if tally.anywhere {
        tally.returns.values().sum()
    } else {
        tally.returns.values().copied().max().unwrap_or(0)
    };
    let patterns = u32::try_from(patterns).unwrap_or(u32::MAX);
    let Tally { evaluations, in_place, unevaluated, .. } = tally;
    Ok(Weight { evaluations, in_place, repeats, unevaluated, patterns })
}

fn refuse(problem: &str) -> SchemaError {
    SchemaError(format!("the schema is not usable: {problem}"))
}

// === Index: the targets of references, and the size of the document ===

/// The meaning of a value in a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    Schema,
    /// A map of schemas under any names.
    Map,
    /// An example or other data. It never names a subschema.
    Data,
}

impl Context {
    /// The context of the member `key`.
    fn of(self, key: &str, member: &Value) -> Self {
        match self {
            Self::Data => Self::Data,
            Self::Map => Self::Schema,
            Self::Schema if DATA.contains(&key) => Self::Data,
            Self::Schema if MAPS.contains(&key) && member.is_object() => Self::Map,
            Self::Schema => Self::Schema,
        }
    }
}

#[derive(Default)]
struct Index<'s> {
    nodes: usize,
    patterns: std::collections::HashSet<&'s str>,
    /// Schemas by their `$id`, as written.
    documents: HashMap<&'s str, &'s Value>,
    /// Schemas by their `$anchor`, `$dynamicAnchor`, or `$id` of the form `#name`.
    anchors: HashMap<&'s str, &'s Value>,
}

impl<'s> Index<'s> {
    fn read(
        &mut self,
        value: &'s Value,
        nesting: usize,
        context: Context,
    ) -> Result<(), SchemaError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(refuse("it has more than 50000 values"));
        }
        if nesting > MAX_NESTING {
            return Err(refuse("it is nested deeper than 64 levels"));
        }
        match value {
            Value::Array(items) => {
                items.iter().try_for_each(|item| self.read(item, nesting + 1, context))
            }
            Value::Object(members) => {
                self.patterns(members)?;
                if context == Context::Schema {
                    self.name(value, members)?;
                }
                members.iter().try_for_each(|(key, member)| {
                    self.read(member, nesting + 1, context.of(key, member))
                })
            }
            _ => Ok(()),
        }
    }

    /// Counts the patterns, also of data: a reference can use it as a schema.
    fn patterns(&mut self, members: &'s Members) -> Result<(), SchemaError> {
        let text = |key: &str| members.get(key).and_then(Value::as_str);
        if let Some(pattern) = text("pattern") {
            self.patterns.insert(pattern);
        }
        if let Some(Value::Object(patterns)) = members.get("patternProperties") {
            self.patterns.extend(patterns.keys().map(String::as_str));
        }
        if self.patterns.len() > MAX_PATTERNS {
            return Err(refuse("it has more than 64 different patterns"));
        }
        Ok(())
    }

    fn name(&mut self, value: &'s Value, members: &'s Members) -> Result<(), SchemaError> {
        let text = |key: &str| members.get(key).and_then(Value::as_str);
        // A repeated name of an embedded document would make references ambiguous.
        let mut again = false;
        if let Some(id) = text("$id").map(|id| id.strip_suffix('#').unwrap_or(id)) {
            again |= match id.strip_prefix('#') {
                Some(anchor) => self.anchors.insert(anchor, value).is_some(),
                None => self.documents.insert(id, value).is_some(),
            };
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = text(key) {
                let before = self.anchors.insert(anchor, value);
                again |= before.is_some_and(|before| !std::ptr::eq(before, value));
            }
        }
        if again { Err(refuse("it gives two subschemas the same $id or $anchor")) } else { Ok(()) }
    }
}

// === Walk: every subschema as often as it will be evaluated ===

#[derive(Default)]
struct Tally<'s> {
    evaluations: u32,
    in_place: u32,
    unevaluated: u32,
    /// For each path down into the value: the number of recursive references reached by it.
    returns: HashMap<Vec<Step<'s>>, u32>,
    /// Whether one of those paths contains a step to any member.
    anywhere: bool,
}

/// One step down into the value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Step<'s> {
    Member(&'s str),
    AnyMember,
    Item,
}

struct Walk<'s> {
    index: Index<'s>,
    root: &'s Value,
    /// Targets of the references being followed, with the length of `path` there.
    open: Vec<(&'s Value, usize)>,
    path: Vec<Step<'s>>,
    weight: Tally<'s>,
}

/// The place of a subschema in the walk.
#[derive(Clone, Copy)]
struct WalkPosition<'s> {
    /// The document that its references are relative to.
    base: &'s Value,
    /// The number of subschemas around it.
    depth: u32,
    /// The number of subschemas around it that apply to the same value.
    in_place: u32,
}

/// Subschemas for the same value; the keywords' values are schemas, lists of schemas, or maps of
/// schemas.
const ONE_IN_PLACE: &[&str] = &["not", "if", "then", "else"];
const LIST_IN_PLACE: &[&str] = &["allOf", "anyOf", "oneOf"];
const MAP_IN_PLACE: &[&str] = &["dependentSchemas", "dependencies"];
pub(super) const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];

impl<'s> Walk<'s> {
    fn visit(&mut self, schema: &'s Value, at: WalkPosition<'s>) -> Result<(), SchemaError> {
        self.weight.evaluations += 1;
        self.weight.in_place = self.weight.in_place.max(at.in_place);
        if self.weight.evaluations > MAX_EVALUATIONS {
            return Err(refuse(
                "with its references written out it has more than 50000 subschemas",
            ));
        }
        if at.depth > MAX_DEPTH || at.in_place > MAX_IN_PLACE {
            return Err(refuse("its subschemas refer to each other in too long a chain"));
        }
        let Value::Object(members) = schema else { return Ok(()) };
        let is_document = members.get("$id").is_some_and(Value::is_string);
        let base = if is_document { schema } else { at.base };
        let inner = WalkPosition { base, depth: at.depth + 1, in_place: at.in_place + 1 };
        // To find the unevaluated members, the validator evaluates the other subschemas once more.
        if members.keys().any(|key| key.starts_with("unevaluated")) {
            let before = self.weight.evaluations;
            self.visit_in_place(members, inner)?;
            self.weight.unevaluated += self.weight.evaluations - before;
        }
        self.visit_in_place(members, inner)?;
        self.visit_members(members, inner)?;
        self.visit_items(members, inner)
    }

    fn visit_in_place(
        &mut self,
        members: &'s Members,
        at: WalkPosition<'s>,
    ) -> Result<(), SchemaError> {
        for (key, value) in members {
            match (key.as_str(), value) {
                (key, Value::String(reference)) if REFERENCES.contains(&key) => {
                    self.follow(reference, at)?;
                }
                (key, _) if ONE_IN_PLACE.contains(&key) => self.visit(value, at)?,
                (key, Value::Array(list)) if LIST_IN_PLACE.contains(&key) => {
                    list.iter().try_for_each(|each| self.visit(each, at))?;
                }
                (key, Value::Object(map)) if MAP_IN_PLACE.contains(&key) => {
                    map.values().try_for_each(|each| self.visit(each, at))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn visit_members(
        &mut self,
        members: &'s Members,
        at: WalkPosition<'s>,
    ) -> Result<(), SchemaError> {
        if let Some(Value::Object(properties)) = members.get("properties") {
            for (name, schema) in properties {
                self.descend(Step::Member(name), schema, at)?;
            }
        }
        if let Some(Value::Object(patterns)) = members.get("patternProperties") {
            patterns.values().try_for_each(|each| self.descend(Step::AnyMember, each, at))?;
        }
        let any = ["additionalProperties", "unevaluatedProperties", "propertyNames"];
        let mut any = any.into_iter().filter_map(|key| members.get(key));
        any.try_for_each(|schema| self.descend(Step::AnyMember, schema, at))
    }

    fn visit_items(
        &mut self,
        members: &'s Members,
        at: WalkPosition<'s>,
    ) -> Result<(), SchemaError> {
        for key in ["items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"] {
            match members.get(key) {
                // One item matches one of these, and which one is unknown here.
                Some(Value::Array(list)) => {
                    list.iter().try_for_each(|each| self.descend(Step::Item, each, at))?;
                }
                Some(schema) => self.descend(Step::Item, schema, at)?,
                None => {}
            }
        }
        Ok(())
    }

    fn descend(
        &mut self,
        step: Step<'s>,
        schema: &'s Value,
        at: WalkPosition<'s>,
    ) -> Result<(), SchemaError> {
        self.path.push(step);
        let visited = self.visit(schema, WalkPosition { in_place: 0, ..at });
        self.path.pop();
        visited
    }

    fn follow(&mut self, reference: &str, at: WalkPosition<'s>) -> Result<(), SchemaError> {
        let resolved = self.resolve(reference, at.base);
        let (target, base) = resolved.ok_or_else(|| self.unresolved(reference))?;
        if let Some((_, from)) = self.open.iter().find(|(open, _)| std::ptr::eq(*open, target)) {
            // Without a step down the validator detects the cycle at once.
            if let Some(way) = self.path.get(*from..).filter(|way| !way.is_empty()) {
                self.weight.anywhere |= way.contains(&Step::AnyMember);
                *self.weight.returns.entry(way.to_vec()).or_default() += 1;
            }
            return Ok(());
        }
        self.open.push((target, self.path.len()));
        let visited = self.visit(target, WalkPosition { base, ..at });
        self.open.pop();
        visited
    }

    /// Explains why `reference` has no target.
    fn unresolved(&self, reference: &str) -> SchemaError {
        let document = reference.split('#').next().unwrap_or_default();
        let is_own = document.is_empty() || self.index.documents.contains_key(document);
        let shown: String = visible_line(reference).chars().take(MAX_SHOWN).collect();
        refuse(&match is_own {
            true => format!("the reference `{shown}` leads to nothing"),
            false => format!(
                "the reference `{shown}` leads outside the schema; references are never fetched"
            ),
        })
    }

    /// The target of `reference` and the document that contains it.
    fn resolve(&self, reference: &str, base: &'s Value) -> Option<(&'s Value, &'s Value)> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = match document {
            "" => base,
            id => self.index.documents.get(id).copied()?,
        };
        let fragment = percent_decoded(fragment)?;
        match fragment.as_str() {
            "" => Some((document, document)),
            pointer if pointer.starts_with('/') => {
                let target = document.pointer(pointer).or_else(|| self.root.pointer(pointer))?;
                Some((target, document))
            }
            anchor => Some((self.index.anchors.get(anchor).copied()?, document)),
        }
    }
}
