//! Pins: what an upstream says of its tools is shown only as somebody approved it.
//!
//! Invariant (I-52): where pins are enforced, a tool whose form is not the approved one is in no
//! snapshot, so no surface lists it and every call of it is a call of an unknown tool. That holds
//! too when the pins cannot be read.
//! Invariant: no request reads pins. They come with a source's tools, and are kept beside them.

mod desk;

use std::sync::Arc;

use toolcrib_core::{
    canonical::Digest,
    catalog::Tenants,
    clock::Timestamp,
    event::{EventBody, NewEvent, ToolPinApproved, ToolPinDrifted},
    id::{PrincipalId, TenantId, ToolId},
    names,
    pin::{PinBook, PinForm, PinStore, Pinned},
    source::Discovered,
    store::StoreError,
};

pub use self::desk::{ApprovedPin, PinDesk, PinError, PinMoment, PinReport, PinState};
use crate::{
    assemble::{self, classify},
    config::{PinFirst, PinMode, SourceConfig},
    record::new_id,
};

/// What a pin says of a tool as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is as it was approved, or nobody wants to know.
    Approved,
    /// It is not as it was approved.
    Changed,
    /// Nobody has approved any form of it.
    New,
    /// The pins could not be read.
    Unknown,
}

/// What is to be written down about the tools of a source.
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
pub(crate) struct Settled {
    /// None where they could not be read, or nobody wants them.
    pub(crate) book: Option<Arc<PinBook>>,
    /// Something could not be read or written: to be done again.
    pub(crate) unfinished: bool,
    /// What is to be told in the record.
    pub(crate) events: Vec<NewEvent>,
    /// How many tools that is.
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

/// Compares `discovered` with the pins of `source`, and writes down what is new.
pub(crate) async fn settle(
    source: &SourceConfig,
    store: Option<&Arc<dyn PinStore>>,
    discovered: Option<&Arc<Discovered>>,
    now: Timestamp,
) -> Settled {
    if source.pins.mode == PinMode::Off {
        return Settled::default();
    }
    let id = &source.spec.id;
    let Some(store) = store else { return Settled::default() };
    match try_settle(source, &**store, discovered, now).await {
        Ok((book, events, drifts)) => {
            Settled { book: Some(Arc::new(book)), unfinished: false, events, drifts }
        }
        Err(error) => {
            tracing::error!(source = %id, %error, "the pins of a source could not be kept");
            // What is written counts; of a tool that could not be, nothing is known.
            let book = store.book(id).await.ok().map(Arc::new);
            Settled { book, unfinished: true, ..Settled::default() }
        }
    }
}

async fn try_settle(
    source: &SourceConfig,
    store: &dyn PinStore,
    discovered: Option<&Arc<Discovered>>,
    now: Timestamp,
) -> Result<(PinBook, Vec<NewEvent>, usize), StoreError> {
    let id = &source.spec.id;
    let book = store.book(id).await?;
    let Some(discovered) = discovered else { return Ok((book, Vec::new(), 0)) };
    let (config, tools) = (source.clone(), Arc::clone(discovered));
    // Hashing thousands of schemas takes its time.
    let sorted = tokio::task::spawn_blocking(move || {
        let sorted = sort(&config, &tools, &book);
        (book, sorted)
    });
    let (book, Sorted { new, different, back }) = sorted
        .await
        .map_err(|error| StoreError::Unavailable(format!("the comparison broke off: {error}")))?;
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

fn sort(source: &SourceConfig, discovered: &Discovered, book: &PinBook) -> Sorted {
    let mut sorted = Sorted::default();
    for tool in &discovered.tools {
        if classify(source, &tool.name).hide == Some(true) || tool_id(source, &tool.name).is_none()
        {
            continue;
        }
        let form = PinForm::of(tool);
        match book.tools.get(&tool.name) {
            None => sorted.new.push((tool.name.clone(), form)),
            Some(Pinned { approved, seen }) if *approved == Some(form.digest) => {
                if seen.is_some() {
                    sorted.back.push(tool.name.clone());
                }
            }
            Some(Pinned { seen, .. }) if *seen == Some(form.digest) => {}
            Some(_) => sorted.different.push((tool.name.clone(), form)),
        }
    }
    sorted
}

pub(crate) fn tool_id(source: &SourceConfig, tool: &str) -> Option<ToolId> {
    names::tool_id(source.kind, &source.spec.id, tool).ok()
}

/// The event in the record of everybody who has the tool.
fn events(source: &SourceConfig, tool: &str, body: &EventBody, now: Timestamp) -> Vec<NewEvent> {
    let tenants = match assemble::tenants(source, tool) {
        // What belongs to every tenant is told to none of them.
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
    before: Pinned,
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
    by: Option<&PrincipalId>,
    now: Timestamp,
) -> Vec<NewEvent> {
    let body = EventBody::ToolPinApproved(ToolPinApproved {
        source_id: source.spec.id.clone(),
        tool_id,
        before: before.map(|digest| digest.to_string()),
        approved: digest.to_string(),
        principal: by.cloned(),
    });
    events(source, tool, &body, now)
}
