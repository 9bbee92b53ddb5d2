//! What was approved of an upstream's tool, and what the upstream says of it now.
//!
//! Invariant (I-51): a [`PinForm`] is made of everything that callers are shown of a tool and that
//! its upstream wrote: name, title, description, both schemas and annotations, as discovered, before
//! anything is stripped from it. Nothing else is in it, so what nobody sees cannot raise an alarm.

use std::collections::HashMap;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::{
    canonical::{self, Digest},
    clock::Timestamp,
    id::{PrincipalId, SourceId},
    source::DiscoveredTool,
    store::StoreError,
};

/// One form of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinForm {
    /// SHA-256 of `document`.
    pub digest: Digest,
    /// The tool as JSON in its canonical form (RFC 8785).
    pub document: String,
}

/// What is known of one tool of a source. At least one of the forms is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Whose tool it is.
    pub source: SourceId,
    /// What the source calls it.
    pub tool: String,
    /// The form that may be shown and called.
    pub approved: Option<ApprovedForm>,
    /// The newest form that differs from it and that nobody approved.
    pub seen: Option<SeenForm>,
}

/// A form that was approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedForm {
    /// The form.
    pub form: PinForm,
    /// Since when.
    pub at: Timestamp,
    /// Who said so; nobody did when it was trusted because it was the first one.
    pub by: Option<PrincipalId>,
}

/// A form that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenForm {
    /// The form.
    pub form: PinForm,
    /// When it was seen first.
    pub at: Timestamp,
}

/// The digests of one tool's two forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pinned {
    /// Of the approved one.
    pub approved: Option<Digest>,
    /// Of the one that waits.
    pub seen: Option<Digest>,
}

/// The digests of all tools of a source that have a pin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PinBook {
    /// The store's epoch when they were read: of two books the one with the higher is newer.
    pub epoch: u64,
    /// By the names that the source uses.
    pub tools: HashMap<String, Pinned>,
}

/// A form to approve: the one that somebody has looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinChoice {
    /// The source.
    pub source: SourceId,
    /// What it calls the tool.
    pub tool: String,
    /// Digest of the form that waits.
    pub digest: Digest,
}

/// What came of an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinAnswer {
    /// All of them are approved; what was before, in their order.
    Approved(Vec<Option<Digest>>),
    /// None of them is: the form of the one with this number does not wait, or not any more.
    Stale(usize),
}

/// Pins of the tools of all sources.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait PinStore: Send + Sync + 'static {
    /// The digests of the tools of `source`, read at one moment.
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError>;

    /// Everything known of the tools of `source`, by name.
    async fn pins(&self, source: &SourceId) -> Result<Vec<Pin>, StoreError>;

    /// Everything known of one tool.
    async fn pin(&self, source: &SourceId, tool: &str) -> Result<Option<Pin>, StoreError>;

    /// Approves the first forms of tools that have no pin at all. A tool that has one keeps it.
    async fn trust(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Notes forms that nobody approved, each in place of what was noted of its tool; the names of
    /// the tools of which another form, or none, was noted before. The approved form of a tool is
    /// never noted.
    async fn note(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<Vec<String>, StoreError>;

    /// Forgets what was noted of approved tools, which are as they were approved again.
    async fn forget(&self, source: &SourceId, tools: Vec<String>) -> Result<(), StoreError>;

    /// Approves all of `choices`, or none.
    async fn approve(
        &self,
        choices: Vec<PinChoice>,
        at: Timestamp,
        by: Option<PrincipalId>,
    ) -> Result<PinAnswer, StoreError>;

    /// A number that rises whenever any process changes a pin. Cheap.
    async fn epoch(&self) -> Result<u64, StoreError>;
}

// === impl PinForm ===

impl PinForm {
    /// The form of `tool`. Every tool has one: an integer that has no exact canonical form counts
    /// with its digits.
    pub fn of(tool: &DiscoveredTool) -> Self {
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        let (name, title, description) =
            (Some(json!(tool.name)), text(&tool.title), text(&tool.description));
        let members = [
            ("name", &name),
            ("title", &title),
            ("description", &description),
            ("inputSchema", &tool.input_schema),
            ("outputSchema", &tool.output_schema),
            ("annotations", &tool.annotations),
        ];
        let members = members.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?)));
        // Without a copy of the schemas, which may be large and many.
        let document = canonical::canonical_members(members.clone())
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .unwrap_or_else(|| spelled(members));
        Self { digest: Digest::of(document.as_bytes()), document }
    }
}

/// The same of members some of whose integers a double cannot hold. Told apart from a tool that has
/// their digits as texts.
fn spelled<'a>(members: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let mut tool = members.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let mut integers = Vec::new();
    spell(&mut tool, &mut String::new(), &mut integers);
    let document = json!({ "tool": tool, "integers": integers });
    let bytes = canonical::canonical_bytes(&document).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| document.to_string())
}

/// Writes the integers in `value` that a double cannot hold as texts, and their places down.
fn spell(value: &mut Value, pointer: &mut String, spelled: &mut Vec<String>) {
    let length = pointer.len();
    match value {
        Value::Number(number) => {
            if canonical::canonical_bytes(&Value::Number(number.clone())).is_err() {
                *value = Value::String(number.to_string());
                spelled.push(pointer.clone());
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                pointer.push('/');
                pointer.push_str(&index.to_string());
                spell(item, pointer, spelled);
                pointer.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                spell(member, pointer, spelled);
                pointer.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(change: impl FnOnce(&mut DiscoveredTool)) -> Digest {
        let mut tool = DiscoveredTool {
            name: "read".to_owned(),
            title: Some("Read".to_owned()),
            description: Some("Reads.".to_owned()),
            input_schema: Some(
                json!({ "type": "object", "properties": { "a": { "maximum": 1 } } }),
            ),
            output_schema: None,
            annotations: Some(json!({ "readOnlyHint": true })),
            raw: json!({ "name": "read", "_meta": { "now": 1 } }),
        };
        change(&mut tool);
        PinForm::of(&tool).digest
    }

    // I-51
    #[test]
    fn whatever_callers_are_shown_changes_the_digest_and_nothing_else_does() {
        let as_it_was = tool(|_| {});
        type Change = fn(&mut DiscoveredTool);
        let changes: [Change; 7] = [
            |it| it.name.push('\u{200b}'),
            |it| it.title = None,
            |it| it.description = Some("Reads.\u{e0041}".to_owned()),
            |it| it.input_schema = Some(json!({ "type": "object" })),
            |it| it.output_schema = Some(json!({})),
            |it| it.annotations = Some(json!({ "readOnlyHint": false })),
            |it| it.annotations = None,
        ];
        let mut seen = vec![as_it_was];
        for change in changes {
            let digest = tool(change);
            assert!(!seen.contains(&digest));
            seen.push(digest);
        }
        assert_eq!(tool(|it| it.raw = json!({ "_meta": { "now": 2 } })), as_it_was);
        let reordered = json!({ "properties": { "a": { "maximum": 1.0 } }, "type": "object" });
        assert_eq!(tool(|it| it.input_schema = Some(reordered)), as_it_was);
    }

    #[test]
    fn an_integer_without_a_canonical_form_counts_with_its_digits() {
        let with = |maximum: Value| {
            tool(|it| it.input_schema = Some(json!({ "a/b": [{ "maximum": maximum }] })))
        };
        assert_eq!(with(json!(i64::MAX)), with(json!(i64::MAX)));
        assert_ne!(with(json!(i64::MAX)), with(json!(i64::MAX - 1)));
        assert_ne!(with(json!(i64::MAX)), with(json!(i64::MAX.to_string())));
    }
}
