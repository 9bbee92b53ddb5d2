//! Pins: the approved forms of tools, as their upstreams describe them.
//!
//! Invariant (I-52): where pins are enforced, a tool whose form is not the approved one is in no
//! snapshot, so no surface lists it and every call of it is a call of an unknown tool. The same
//! holds when the pins cannot be read. No request reads pins: they are loaded with the tools of a
//! source.

mod review;

use std::sync::Arc;

use toolcrib_core::{
    canonical::Digest,
    catalog::Tenants,
    clock::Timestamp,
    event::{EventBody, NewEvent, ToolPinApproved, ToolPinDrifted},
    id::{TenantId, ToolId},
    names,
    pin::{PinBook, PinDigests, PinForm, PinStore},
    principal::PrincipalKey,
    store::StoreError,
};

pub use self::review::{ApprovedPin, PinError, PinMoment, PinReport, PinReview, PinState};
use super::{
    classify::{self, classify},
    listed::Listed,
};
use crate::{
    config::{PinFirst, PinMode, SourceConfig},
    ids::new_id,
};

/// The state of a tool compared with its pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has the approved form, or pins are off.
    Approved,
    /// It differs from the approved form.
    Changed,
    /// No form of it was approved.
    New,
    /// The pins could not be read.
    Unknown,
}

/// The tools of a source that differ from the stored pins.
#[derive(Default)]
struct Sorted {
    /// Without a pin.
    new: Vec<(String, PinForm)>,
    /// Other than approved.
    different: Vec<(String, PinForm)>,
    /// As approved, with something else noted of them.
    back: Vec<String>,
}

/// The pins of a source after its tools were compared with them.
#[derive(Default)]
pub(crate) struct PinUpdate {
    /// `None` when they could not be read, or pins are off.
    pub(crate) book: Option<Arc<PinBook>>,
    /// Whether a read or write failed, so that the comparison has to be repeated.
    pub(crate) unfinished: bool,
    /// The events to record.
    pub(crate) events: Vec<NewEvent>,
    /// The number of tools that differ.
    pub(crate) drifts: usize,
}

/// What `book` says of `tool` in the form of `digest`.
pub(crate) fn verdict(
    source: &SourceConfig,
    book: Option<&PinBook>,
    tool: &str,
    digest: Digest,
) -> Verdict {
    if source.pins.mode == PinMode::Off {
        return Verdict::Approved;
    }
    let Some(book) = book else { return Verdict::Unknown };
    match book.tools.get(tool).and_then(|pinned| pinned.approved) {
        Some(approved) if approved == digest => Verdict::Approved,
        Some(_) => Verdict::Changed,
        None => Verdict::New,
    }
}

/// Compares `listed` with the pins of `source`, and stores the differences.
pub(crate) async fn update(
    source: &SourceConfig,
    store: &dyn PinStore,
    listed: Option<&Arc<Listed>>,
    now: Timestamp,
) -> PinUpdate {
    if source.pins.mode == PinMode::Off {
        return PinUpdate::default();
    }
    let id = &source.spec.id;
    match try_update(source, store, listed, now).await {
        Ok((book, events, drifts)) => {
            PinUpdate { book: Some(Arc::new(book)), unfinished: false, events, drifts }
        }
        Err(error) => {
            tracing::error!(source = %id, %error, "the pins of a source could not be kept");
            // Stored pins are in force; a tool whose pin could not be read has none.
            let book = store.book(id).await.ok().map(Arc::new);
            PinUpdate { book, unfinished: true, ..PinUpdate::default() }
        }
    }
}

async fn try_update(
    source: &SourceConfig,
    store: &dyn PinStore,
    listed: Option<&Arc<Listed>>,
    now: Timestamp,
) -> Result<(PinBook, Vec<NewEvent>, usize), StoreError> {
    let id = &source.spec.id;
    let book = store.book(id).await?;
    let Some(listed) = listed else { return Ok((book, Vec::new(), 0)) };
    let (config, tools) = (source.clone(), Arc::clone(listed));
    // Writing out the forms of thousands of tools takes its time.
    let sorted = tokio::task::spawn_blocking(move || {
        let sorted = sort(&config, &tools, &book);
        (book, sorted)
    });
    let (book, Sorted { new, different, back }) = sorted
        .await
        .map_err(|error| StoreError::Unavailable(format!("the comparison panicked: {error}")))?;
    if new.is_empty() && different.is_empty() && back.is_empty() {
        return Ok((book, Vec::new(), 0));
    }
    let mut noted = different;
    match source.pins.first {
        PinFirst::Trust => store.trust(id, new, now).await?,
        PinFirst::Approve => noted.extend(new),
    }
    let digests: Vec<(String, Digest)> =
        noted.iter().map(|(tool, form)| (tool.clone(), form.digest)).collect();
    let news = store.note(id, noted, now).await?;
    store.forget(id, back).await?;
    let mut events = Vec::new();
    for (tool, seen) in digests.into_iter().filter(|(tool, _)| news.contains(tool)) {
        let before = book.tools.get(&tool).copied().unwrap_or_default();
        tracing::warn!(source = %id, tool = ?tool, "a tool is not as it was approved");
        events.extend(drifted(source, &tool, before, seen, now));
    }
    Ok((store.book(id).await?, events, news.len()))
}

fn sort(source: &SourceConfig, listed: &Listed, book: &PinBook) -> Sorted {
    let mut sorted = Sorted::default();
    for tool in &listed.tools {
        if classify(source, &tool.name).hide == Some(true) || tool_id(source, &tool.name).is_none()
        {
            continue;
        }
        let form = || tool.discovered().map(|it| (tool.name.clone(), PinForm::of(&it)));
        match book.tools.get(&tool.name) {
            None => sorted.new.extend(form()),
            Some(PinDigests { approved, seen }) if *approved == Some(tool.digest) => {
                if seen.is_some() {
                    sorted.back.push(tool.name.clone());
                }
            }
            Some(PinDigests { seen, .. }) if *seen == Some(tool.digest) => {}
            Some(_) => sorted.different.extend(form()),
        }
    }
    sorted
}

pub(crate) fn tool_id(source: &SourceConfig, tool: &str) -> Option<ToolId> {
    names::tool_id(source.kind, &source.spec.id, tool).ok()
}

/// The event in the log of each tenant that has the tool.
fn events(source: &SourceConfig, tool: &str, body: &EventBody, now: Timestamp) -> Vec<NewEvent> {
    let tenants = match classify::tenants(source, tool) {
        // Tools of every tenant are recorded for the operator.
        Tenants::All | Tenants::Except(_) => {
            TenantId::parse(TenantId::OPERATOR).into_iter().collect()
        }
        Tenants::Only(tenants) => tenants,
    };
    let event = |tenant: TenantId| NewEvent {
        event_id: new_id(),
        tenant,
        run_id: new_id(),
        body: body.clone(),
        timestamp: now,
        causation_id: None,
    };
    tenants.into_iter().map(event).collect()
}

fn drifted(
    source: &SourceConfig,
    tool: &str,
    before: PinDigests,
    seen: Digest,
    now: Timestamp,
) -> Vec<NewEvent> {
    let Some(tool_id) = tool_id(source, tool) else { return Vec::new() };
    let body = EventBody::ToolPinDrifted(ToolPinDrifted {
        source_id: source.spec.id.clone(),
        tool_id,
        approved: before.approved.map(|digest| digest.to_string()),
        seen: seen.to_string(),
        quarantined: source.pins.mode == PinMode::Enforce,
    });
    events(source, tool, &body, now)
}

fn approved(
    source: &SourceConfig,
    tool: &str,
    tool_id: ToolId,
    before: Option<Digest>,
    digest: Digest,
    by: Option<&PrincipalKey>,
    now: Timestamp,
) -> Vec<NewEvent> {
    let body = EventBody::ToolPinApproved(ToolPinApproved {
        source_id: source.spec.id.clone(),
        tool_id,
        before: before.map(|digest| digest.to_string()),
        approved: digest.to_string(),
        principal: None,
    });
    let mut events = events(source, tool, &body, now);
    for NewEvent { tenant, body, .. } in &mut events {
        if let EventBody::ToolPinApproved(approved) = body {
            approved.principal = by.and_then(|by| by.in_record_of(tenant));
        }
    }
    events
}
