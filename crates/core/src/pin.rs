//! Pins: the approved form of an upstream's tool, and the form that the upstream offers now.
//!
//! Invariant (I-51): a [`PinForm`] consists of everything that its upstream wrote of a tool and
//! that callers see or that decides the request of a call. These are name, title, description, both
//! schemas and annotations, as discovered, before hidden characters are removed, and the operation
//! of a connector. It has no other data, and lists of schemas whose order has no meaning are sorted
//! in it (`order.rs`), so meaningless changes cannot raise an alarm.

mod changes;
mod order;

use std::collections::HashMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    canonical::{self, Digest},
    clock::Timestamp,
    id::SourceId,
    offer::OfferKind,
    principal::PrincipalKey,
    source::DiscoveredOffer,
    store::StoreError,
};

pub use self::changes::{Change, changes};

/// The most earlier forms of a tool that stay approved; the oldest are dropped first.
pub const MAX_EARLIER: usize = 7;

/// One form of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinForm {
    /// SHA-256 of `document`.
    pub digest: Digest,
    /// The tool as canonical JSON (RFC 8785), with sorted lists where order has no meaning.
    pub document: String,
}

/// The forms of one tool of a source; it has at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The source.
    pub source: SourceId,
    /// The source's name for the tool.
    pub tool: String,
    /// The last approved form.
    pub approved: Option<ApprovedForm>,
    /// Forms that were approved before it and remain approved, the newest first.
    pub earlier: Vec<ApprovedForm>,
    /// The newest unapproved form.
    pub seen: Option<SeenForm>,
    /// How often an approved tool was found in an unapproved form.
    pub change_count: u32,
}

/// A form that was approved, with the time and the approver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedForm {
    /// The form.
    pub form: PinForm,
    /// When it was approved.
    pub at: Timestamp,
    /// The approving principal; `None` when the first form was trusted automatically.
    pub by: Option<PrincipalKey>,
}

/// A discovered form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenForm {
    /// The form.
    pub form: PinForm,
    /// When it was first discovered.
    pub at: Timestamp,
}

/// The digests of one tool's forms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PinDigests {
    /// The digest of the last approved form.
    pub approved: Option<Digest>,
    /// The digests of the earlier forms that remain approved, in ascending order.
    pub earlier: Vec<Digest>,
    /// The digest of the pending form.
    pub seen: Option<Digest>,
    /// How often an approved tool was found in an unapproved form.
    pub change_count: u32,
}

/// The digests of all pinned tools of a source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PinBook {
    /// The store's epoch at the time of reading; a book with a higher epoch is newer.
    pub epoch: u64,
    /// The digests by the source's names for the tools.
    pub tools: HashMap<String, PinDigests>,
}

/// A form to approve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinChoice {
    /// The source.
    pub source: SourceId,
    /// The source's name for the tool.
    pub tool: String,
    /// Digest of the pending form. To replace earlier forms, it may also be the digest of the last
    /// approved form, if others are approved too.
    pub digest: Digest,
    /// The effect on the forms that were approved before.
    pub earlier: EarlierForms,
}

/// The effect of an approval on the forms that were approved before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EarlierForms {
    /// Their approval is withdrawn.
    #[default]
    Replace,
    /// They remain approved, for a tool that alternates between forms.
    Keep,
}

/// The result of an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinApproval {
    /// All are approved; holds the digests approved before, in the same order.
    Approved(Vec<Option<Digest>>),
    /// No choice is approved: the form of the choice with this index cannot be approved any more.
    Stale(usize),
}

/// Pins of the tools of all sources.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait PinStore: Send + Sync + 'static {
    /// The digests of the tools of `source`, read atomically.
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError>;

    /// The pins of the tools of `source`, by name.
    async fn pins(&self, source: &SourceId) -> Result<Vec<Pin>, StoreError>;

    /// The pin of one tool.
    async fn pin(&self, source: &SourceId, tool: &str) -> Result<Option<Pin>, StoreError>;

    /// Approves the first forms of tools without a pin. An existing pin is unchanged.
    async fn trust(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Stores unapproved forms, each replacing the pending form of its tool, and ignores approved
    /// forms. Returns the names of the tools whose pending form changed. Counts the change if the
    /// tool has an approved form.
    async fn note(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<Vec<String>, StoreError>;

    /// Deletes the pending forms of tools that are back in an approved form.
    async fn forget(&self, source: &SourceId, tools: Vec<String>) -> Result<(), StoreError>;

    /// Approves all of `choices`, or none of them. At most [`MAX_EARLIER`] earlier forms of a tool
    /// remain.
    async fn approve(
        &self,
        choices: Vec<PinChoice>,
        at: Timestamp,
        by: Option<PrincipalKey>,
    ) -> Result<PinApproval, StoreError>;
}

// === impl PinDigests ===

impl PinDigests {
    /// Whether the form with this digest is approved.
    pub fn approves(&self, digest: Digest) -> bool {
        self.approved == Some(digest) || self.earlier.contains(&digest)
    }

    /// Whether `choice`, a form of this tool, can be approved: the pending form, or the last
    /// approved one again, which then becomes the only one.
    pub fn can_approve(&self, choice: &PinChoice) -> bool {
        let is_only = choice.earlier == EarlierForms::Replace && !self.earlier.is_empty();
        self.seen == Some(choice.digest) || is_only && self.approved == Some(choice.digest)
    }
}

// === impl PinForm ===

impl PinForm {
    /// Creates the form of `tool`, an offer of any kind.
    pub fn of(tool: &DiscoveredOffer) -> Self {
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        let (name, title, description) =
            (Some(json!(tool.name)), text(&tool.title), text(&tool.description));
        let kind = tool.offer.kind();
        let kind = (kind != OfferKind::Tool).then(|| json!(kind.as_str()));
        // No size: it changes with the content, which no one approves.
        let media_type = tool.offer.media_type().map(|text| json!(text));
        let input = tool.input_schema.as_ref().map(order::sorted);
        let output = tool.output_schema.as_ref().map(order::sorted);
        let members = [
            ("kind", kind.as_ref()),
            ("mediaType", media_type.as_ref()),
            ("name", name.as_ref()),
            ("title", title.as_ref()),
            ("description", description.as_ref()),
            ("inputSchema", input.as_deref()),
            ("outputSchema", output.as_deref()),
            ("annotations", tool.annotations.as_ref()),
            ("operation", tool.operation.as_ref()),
        ];
        let members = members.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        let document = canonical::exact_members(members);
        let document = String::from_utf8_lossy(&document).into_owned();
        Self { digest: Digest::of(document.as_bytes()), document }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(change: impl FnOnce(&mut DiscoveredOffer)) -> Digest {
        let mut tool = DiscoveredOffer {
            name: "read".to_owned(),
            title: Some("Read".to_owned()),
            description: Some("Reads.".to_owned()),
            input_schema: Some(
                json!({ "type": "object", "properties": { "a": { "maximum": 1 } } }),
            ),
            annotations: Some(json!({ "readOnlyHint": true })),
            raw: json!({ "name": "read", "_meta": { "now": 1 } }),
            ..DiscoveredOffer::default()
        };
        change(&mut tool);
        PinForm::of(&tool).digest
    }

    // I-51
    #[test]
    fn whatever_callers_are_shown_or_send_changes_the_digest_and_nothing_else_does() {
        let as_it_was = tool(|_| {});
        type Change = fn(&mut DiscoveredOffer);
        let changes: [Change; 8] = [
            |offer| offer.name.push('\u{200b}'),
            |offer| offer.title = None,
            |offer| offer.description = Some("Reads.\u{e0041}".to_owned()),
            |offer| offer.input_schema = Some(json!({ "type": "object" })),
            |offer| offer.output_schema = Some(json!({})),
            |offer| offer.annotations = Some(json!({ "readOnlyHint": false })),
            |offer| offer.annotations = None,
            |offer| offer.operation = Some(json!({ "method": "DELETE" })),
        ];
        let mut seen = vec![as_it_was];
        for change in changes {
            let digest = tool(change);
            assert!(!seen.contains(&digest));
            seen.push(digest);
        }
        assert_eq!(tool(|offer| offer.raw = json!({ "_meta": { "now": 2 } })), as_it_was);
        let reordered = json!({ "properties": { "a": { "maximum": 1.0 } }, "type": "object" });
        assert_eq!(tool(|offer| offer.input_schema = Some(reordered)), as_it_was);
    }

    // I-51
    #[test]
    fn only_schemas_have_lists_without_an_order() {
        let with = |change: fn(&mut DiscoveredOffer, serde_json::Value), names: [&str; 2]| {
            tool(|offer| change(offer, json!({ "required": names, "default": names.join(",") })))
        };
        let is_same = |change: fn(&mut DiscoveredOffer, serde_json::Value)| {
            with(change, ["a", "b"]) == with(change, ["b", "a"])
        };
        assert!(is_same(|offer, schema| offer.input_schema = Some(schema)));
        assert!(is_same(|offer, schema| offer.output_schema = Some(schema)));
        assert!(!is_same(|offer, data| offer.annotations = Some(data)));
        assert!(!is_same(|offer, data| offer.operation = Some(data)));
        assert!(!is_same(|offer, text| offer.description = Some(text.to_string())));
    }

    #[test]
    fn each_digit_of_a_number_counts() {
        let with = |maximum: serde_json::Value| {
            tool(|offer| offer.input_schema = Some(json!({ "a/b": [{ "maximum": maximum }] })))
        };
        assert_eq!(with(json!(i64::MAX)), with(json!(i64::MAX)));
        assert_ne!(with(json!(i64::MAX)), with(json!(i64::MAX - 1)));
        assert_ne!(with(json!(i64::MAX)), with(json!(i64::MAX.to_string())));
    }
}
