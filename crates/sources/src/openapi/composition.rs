//! The schemas that describe one value together.

use std::collections::{BTreeMap, HashSet};

use super::document::{Document, Node, OperationProblem};

/// Most schemas that one value and its parts are composed of.
const MAX_SCHEMAS: usize = 10_000;
/// The same for work at each schema of a document, which would be quadratic.
const MAX_REPEATED: usize = 500;
/// Keywords whose schemas describe the same value as the schema around them.
const COMPOSED: &[&str] = &["allOf", "anyOf", "oneOf"];

/// Finds the schemas that others are composed of, up to a limit.
pub(super) struct Composition<'d> {
    pub(super) document: &'d Document,
    limit: usize,
    left: usize,
}

/// The properties of an object, each with all its schemas.
#[derive(Default)]
pub(super) struct Properties<'d> {
    pub(super) named: BTreeMap<&'d str, Vec<Node<'d>>>,
    /// The schemas of properties that match a pattern.
    pub(super) matching: Vec<Node<'d>>,
    /// The schemas of properties with any other name. Those that only permit them are not included.
    pub(super) others: Vec<Node<'d>>,
}

// === impl Composition ===

impl<'d> Composition<'d> {
    pub(super) fn new(document: &'d Document) -> Self {
        Self::limited(document, MAX_SCHEMAS)
    }

    /// Creates a composition for work at each schema of a document.
    pub(super) fn repeated(document: &'d Document) -> Self {
        Self::limited(document, MAX_REPEATED)
    }

    fn limited(document: &'d Document, limit: usize) -> Self {
        Self { document, limit, left: limit }
    }

    /// Finds `schema` and all schemas that describe the same value: the targets of references, and
    /// the members of combinations.
    pub(super) fn of(&mut self, schema: Node<'d>) -> Result<Vec<Node<'d>>, OperationProblem> {
        let mut waiting = vec![schema];
        let (mut seen, mut schemas) = (HashSet::new(), Vec::new());
        while let Some(schema) = waiting.pop() {
            if !seen.insert(schema) {
                continue;
            }
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                let limit = self.limit;
                OperationProblem::new(format!(
                    "its arguments are composed of more than {limit} schemas"
                ))
            })?;
            let reference = schema.text("$ref");
            let target = reference.map(|reference| self.document.at(schema.file, reference));
            let target = target.transpose()?;
            let mut parts: Vec<_> = target.into_iter().collect();
            if target.is_none() || !self.document.is_old(schema.file) {
                schemas.push(schema);
                let words = COMPOSED.iter().filter_map(|word| schema.get(word));
                parts.extend(words.flat_map(Node::items));
            }
            // The last one is read next, so the order is that of the document.
            waiting.extend(parts.into_iter().rev());
        }
        Ok(schemas)
    }

    /// Finds all schemas of a value and, if it is a list, of its items.
    pub(super) fn with_items(
        &mut self,
        schemas: &[Node<'d>],
    ) -> Result<Vec<Node<'d>>, OperationProblem> {
        let (mut all, mut items) = (Vec::new(), Vec::new());
        for schema in schemas {
            let parts = self.of(*schema)?;
            items.extend(parts.iter().filter_map(|part| part.get("items")));
            all.extend(parts);
        }
        for schema in items {
            all.extend(self.of(schema)?);
        }
        Ok(all)
    }

    /// Finds the properties of an object that all of `schemas` describe.
    pub(super) fn properties(
        &mut self,
        schemas: &[Node<'d>],
    ) -> Result<Properties<'d>, OperationProblem> {
        let mut properties = Properties::default();
        for schema in schemas {
            for schema in self.of(*schema)? {
                let map = |word| schema.get(word).map(|map| self.document.follow(map)).transpose();
                for (name, property) in map("properties")?.into_iter().flat_map(Node::members) {
                    properties.named.entry(name).or_default().push(property);
                }
                let matching = map("patternProperties")?.into_iter().flat_map(Node::members);
                properties.matching.extend(matching.map(|(_, schema)| schema));
                let others = ["additionalProperties", "unevaluatedProperties"].into_iter();
                let others = others.filter_map(|word| schema.get(word));
                properties.others.extend(others.filter(|other| other.members().next().is_some()));
            }
        }
        Ok(properties)
    }
}
