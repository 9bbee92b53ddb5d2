//! Review of pins: an operator lists changed tools, reads their forms and approves them.
//!
//! Invariant (I-51): an approval names the digest of the reviewed form. A tool that has changed
//! since then stays unapproved.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_config::{PinMode, SourceConfig};
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    event::NewEvent,
    id::{PrincipalId, SourceId, TenantId, ToolId},
    names::{self, Names},
    pin::{ApprovedForm, EarlierForms, Pin, PinApproval, PinChoice, PinForm, PinStore},
    principal::PrincipalKey,
    store::StoreError,
};

use super::{approved, offer_id};
use crate::assembly::{classify, pinned::remedy};

/// The pins of the sources of a configuration.
pub struct PinReview<'a> {
    /// The sources of the configuration.
    pub sources: &'a [SourceConfig],
    /// Their pins.
    pub pins: &'a dyn PinStore,
    /// The tenant whose sources are included; `None` for all sources.
    pub tenant: Option<&'a TenantId>,
}

/// The pin of one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinReport {
    /// The tool.
    pub tool_id: ToolId,
    /// Its source.
    pub source_id: SourceId,
    /// Its name at its source.
    #[serde(skip)]
    pub upstream_name: String,
    /// Its wire name.
    pub name: String,
    /// The state of the pin.
    pub state: PinState,
    /// Whether it is left out because of this state.
    pub quarantined: bool,
    /// The form with the latest approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<PinMoment>,
    /// Forms with an earlier approval that remain approved, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<PinMoment>,
    /// The pending form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<PinMoment>,
    /// How often the tool was found in an unapproved form.
    #[serde(default)]
    pub change_count: u32,
}

/// A form to approve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinWish {
    /// The tool, by its id, wire name or OTC id.
    pub tool: String,
    /// The digest of its reviewed form.
    pub digest: Digest,
    /// What happens to the forms with an earlier approval.
    pub earlier: EarlierForms,
}

/// The state of a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinState {
    /// Last seen in an approved form.
    Approved,
    /// A different form is pending.
    Changed,
    /// The tool was never approved.
    New,
}

/// A form and its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinMoment {
    /// SHA-256 of the form.
    pub digest: String,
    /// The time of the approval, or of the first sight.
    pub at: Timestamp,
    /// The approver; `None` if the first form was trusted, or a principal of another tenant
    /// approved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<PrincipalId>,
    /// Whether a principal of another tenant approved it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_other_tenant: bool,
    /// The form itself: untrusted text of the upstream, unmodified. Lists are sorted if their order
    /// has no meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<Value>,
}

/// The approval of one form of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovedPin {
    /// The tool.
    pub tool_id: ToolId,
    /// The digest of the previously approved form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The digest of the approved form.
    pub approved: String,
}

/// Why the approval failed; every pin is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The caller may see no pin for the tool with this number in the request.
    #[error("tool {0} of the request has no form to approve")]
    Unknown(usize),
    /// The tool changed, or was approved, since the review.
    #[error("tool {0} of the request changed or was approved since the review; review it again")]
    Stale(usize),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PinReport {
    /// The remedy for a tool that changes repeatedly.
    pub fn remedy(&self) -> Option<String> {
        remedy(&self.tool_id, self.change_count, self.quarantined)
            .filter(|_| self.state == PinState::Changed)
    }
}

impl PinReview<'_> {
    fn sources(&self) -> impl Iterator<Item = &SourceConfig> {
        self.sources.iter().filter(|source| {
            source.pins.mode != PinMode::Off
                && self.tenant.is_none_or(|tenant| source.tenants.admits(tenant))
        })
    }

    /// Whether the caller may see the tool `name` of `source`.
    fn shows(&self, source: &SourceConfig, name: &str) -> bool {
        self.tenant.is_none_or(|tenant| classify::tenants(source, name).admits(tenant))
    }

    /// Every pin, source by source, without documents.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn list(&self) -> Result<Vec<PinReport>, StoreError> {
        let mut reports = Vec::new();
        for source in self.sources() {
            let pins = self.pins.pins(&source.spec.id).await?;
            reports.extend(
                pins.iter()
                    .filter(|pin| self.shows(source, &pin.tool))
                    .filter_map(|pin| self.report(source, pin, false)),
            );
        }
        Ok(reports)
    }

    /// The pin of the tool with this id, wire name or OTC id, with its documents.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn show(&self, tool: &str) -> Result<Option<PinReport>, StoreError> {
        let Some((source, name)) = self.find(tool).await? else { return Ok(None) };
        let pin = self.pins.pin(&source.spec.id, &name).await?;
        Ok(pin.and_then(|pin| self.report(source, &pin, true)))
    }

    /// The source of a tool, by its id, wire name or OTC id, and its name there.
    async fn find(&self, tool: &str) -> Result<Option<(&SourceConfig, String)>, StoreError> {
        // Pins have no versions.
        let otc = tool.split_once('@').map_or(tool, |(bare, _)| bare);
        for source in self.sources() {
            let book = self.pins.book(&source.spec.id).await?;
            let named = |name: &&String| {
                let id = offer_id(source, name).is_some_and(|id| id.as_str() == tool);
                let names = names_of(source, name);
                (id || names.wire == tool || names.otc == otc) && self.shows(source, name)
            };
            if let Some(name) = book.tools.keys().find(named) {
                return Ok(Some((source, name.clone())));
            }
        }
        Ok(None)
    }

    /// Approves the forms with these digests atomically. Returns the events to record.
    ///
    /// # Errors
    /// [`PinError`]; in that case every pin is unchanged.
    pub async fn approve(
        &self,
        wanted: &[PinWish],
        by: Option<&PrincipalKey>,
        now: Timestamp,
    ) -> Result<(Vec<ApprovedPin>, Vec<NewEvent>), PinError> {
        let mut choices = Vec::new();
        let mut found = Vec::new();
        for (index, PinWish { tool, digest, earlier }) in wanted.iter().enumerate() {
            let named = self.find(tool).await?;
            let Some((source, name)) = named else { return Err(PinError::Unknown(index)) };
            let Some(id) = offer_id(source, &name) else { return Err(PinError::Unknown(index)) };
            found.push((source, id));
            let (source, digest, earlier) = (source.spec.id.clone(), *digest, *earlier);
            choices.push(PinChoice { source, tool: name, digest, earlier });
        }
        let before = match self.pins.approve(choices.clone(), now, by.cloned()).await? {
            PinApproval::Approved(before) => before,
            PinApproval::Stale(index) => return Err(PinError::Stale(index)),
        };
        let (mut pins, mut events) = (Vec::new(), Vec::new());
        for (((source, tool_id), choice), before) in found.into_iter().zip(choices).zip(before) {
            events.extend(approved(source, &choice, tool_id.clone(), before, by, now));
            let before = before.map(|digest| digest.to_string());
            pins.push(ApprovedPin { tool_id, before, approved: choice.digest.to_string() });
        }
        Ok((pins, events))
    }

    fn report(&self, source: &SourceConfig, pin: &Pin, documents: bool) -> Option<PinReport> {
        let moment = |form: &PinForm, at: Timestamp| PinMoment {
            digest: form.digest.to_string(),
            at,
            by: None,
            by_other_tenant: false,
            document: documents.then(|| serde_json::from_str(&form.document).unwrap_or_default()),
        };
        let approved = |ApprovedForm { form, at, by }: &ApprovedForm| {
            let shown = by.as_ref().and_then(|by| self.shown(by));
            let by_other_tenant = by.is_some() && shown.is_none();
            PinMoment { by: shown, by_other_tenant, ..moment(form, *at) }
        };
        let state = match (&pin.approved, &pin.seen) {
            (Some(_), None) => PinState::Approved,
            (Some(_), Some(_)) => PinState::Changed,
            (None, _) => PinState::New,
        };
        Some(PinReport {
            tool_id: offer_id(source, &pin.tool)?,
            source_id: source.spec.id.clone(),
            upstream_name: pin.tool.clone(),
            name: names_of(source, &pin.tool).wire,
            state,
            quarantined: state != PinState::Approved && source.pins.mode == PinMode::Enforce,
            approved: pin.approved.as_ref().map(approved),
            earlier: pin.earlier.iter().map(approved).collect(),
            change_count: pin.change_count,
            seen: pin.seen.as_ref().map(|seen| moment(&seen.form, seen.at)),
        })
    }

    /// An approver as the reviewer may see it.
    fn shown(&self, by: &PrincipalKey) -> Option<PrincipalId> {
        match self.tenant {
            Some(tenant) => by.in_record_of(tenant),
            None => by.in_record_of(&TenantId::parse(TenantId::OPERATOR).ok()?),
        }
    }
}

fn names_of(source: &SourceConfig, name: &str) -> Names {
    names::names(&source.spec.id, name, None).styled(source.names, name)
}
