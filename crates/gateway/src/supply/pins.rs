//! Pins: the approved forms of tools, as their upstreams describe them.
//!
//! Invariant (I-52): where pins are enforced, a tool without an approved form is in no snapshot.
//! Surfaces do not list it, and its calls are calls of an unknown tool. This also holds if the pins
//! cannot be read. Requests never read pins: they are loaded with the tools of a source.

mod review;

use std::{collections::BTreeMap, sync::Arc};

use toolcrib_config::{PinFirst, PinMode, SourceConfig};
use toolcrib_core::{
    canonical::Digest,
    catalog::Tenants,
    clock::Timestamp,
    event::{EventBody, NewEvent, ToolPinApproved, ToolPinDrifted},
    id::{TenantId, ToolId},
    names,
    offer::OfferKind,
    pin::{EarlierForms, Pin, PinBook, PinChoice, PinDigests, PinForm, PinStore, changes},
    principal::PrincipalKey,
    store::StoreError,
    text::visible_line,
};

pub use self::review::{ApprovedPin, PinError, PinMoment, PinReport, PinReview, PinState, PinWish};
use crate::{
    assembly::{
        classify::{self, classify},
        listed::{NewForms, OfferList},
        pinned::SourcePins,
    },
    audit::lone_event,
};

/// The tools of a source that differ from the stored pins.
#[derive(Default)]
struct PinComparison {
    /// Tools without a pin.
    new: Vec<(String, PinForm)>,
    /// Tools that differ from their approved forms.
    different: Vec<(String, PinForm)>,
    /// Tools that returned to an approved form while another form was pending.
    back: Vec<String>,
}

/// The pins of a source after its tools were compared with them.
#[derive(Default)]
pub(crate) struct PinUpdate {
    /// `None` if they could not be read, or pins are off.
    pub(crate) pins: Option<Arc<SourcePins>>,
    /// Whether a read or write failed, so that the comparison must be repeated.
    pub(crate) unfinished: bool,
    /// The events to record.
    pub(crate) events: Vec<NewEvent>,
    /// The number of tools that differ.
    pub(crate) drifts: usize,
}

/// The most changed tools of a source whose problems name the place of the change.
const MAX_PLACES: usize = 20;
/// Longest place to show, in characters.
const MAX_PLACE: usize = 120;
/// Compares `listed` with the pins of `source`, and stores the differences. `forms` has the
/// available forms of its tools.
pub(crate) async fn update(
    source: &SourceConfig,
    store: &dyn PinStore,
    listed: Option<&Arc<OfferList>>,
    forms: NewForms,
    now: Timestamp,
) -> PinUpdate {
    if source.pins.mode == PinMode::Off {
        return PinUpdate::default();
    }
    let id = &source.spec.id;
    match try_update(source, store, listed, forms, now).await {
        Ok((book, events, drifts)) => {
            let places = places(source, store, &book).await;
            let pins = Some(Arc::new(SourcePins { book, places }));
            PinUpdate { pins, unfinished: false, events, drifts }
        }
        Err(error) => {
            tracing::error!(source = %id, %error, "the pins of a source could not be stored");
            // The stored pins apply; a tool without a readable pin counts as unverified.
            let book = store.book(id).await.ok();
            let pins = book.map(|book| SourcePins { book, places: BTreeMap::new() });
            PinUpdate { pins: pins.map(Arc::new), unfinished: true, ..PinUpdate::default() }
        }
    }
}

/// The differences of the pending forms in `book`. They are for people, so an unreadable form is
/// left out.
async fn places(
    source: &SourceConfig,
    store: &dyn PinStore,
    book: &PinBook,
) -> BTreeMap<String, String> {
    let has_changed = |pinned: &PinDigests| pinned.approved.is_some() && pinned.seen.is_some();
    let changed = book.tools.iter().filter(|(_, pinned)| has_changed(pinned));
    let mut changed: Vec<&String> = changed.map(|(tool, _)| tool).collect();
    changed.sort_unstable();
    let mut places = BTreeMap::new();
    for tool in changed.into_iter().take(MAX_PLACES) {
        if let Ok(Some(pin)) = store.pin(&source.spec.id, tool).await
            && let Some(place) = place(&pin)
        {
            places.insert(tool.clone(), place);
        }
    }
    places
}

/// Describes the place where the pending form first differs, and the number of other places.
fn place(pin: &Pin) -> Option<String> {
    let parsed = |form: &PinForm| serde_json::from_str(&form.document).ok();
    let old = parsed(&pin.approved.as_ref()?.form)?;
    let changes = changes(Some(&old), Some(&parsed(&pin.seen.as_ref()?.form)?));
    let (first, others) = changes.split_first()?;
    let first = visible_line(first.pointer.trim_start_matches('/'));
    let mut place: String = first.chars().take(MAX_PLACE).collect();
    if place.len() < first.len() {
        place.push('…');
    }
    Some(match others.len() {
        0 => format!("{place} has changed"),
        1 => format!("{place} and 1 other place have changed"),
        more => format!("{place} and {more} other places have changed"),
    })
}

async fn try_update(
    source: &SourceConfig,
    store: &dyn PinStore,
    listed: Option<&Arc<OfferList>>,
    forms: NewForms,
    now: Timestamp,
) -> Result<(PinBook, Vec<NewEvent>, usize), StoreError> {
    let id = &source.spec.id;
    let book = store.book(id).await?;
    let Some(listed) = listed else { return Ok((book, Vec::new(), 0)) };
    let (config, tools) = (source.clone(), Arc::clone(listed));
    // Serializing the forms of thousands of tools takes time.
    let sorted = tokio::task::spawn_blocking(move || {
        let sorted = sort(&config, &tools, forms, &book);
        (book, sorted)
    });
    let (book, PinComparison { new, different, back }) = sorted
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
        let before = book.tools.get(&tool).and_then(|pinned| pinned.approved);
        tracing::warn!(source = %id, tool = ?tool, "a tool differs from its approved form");
        events.extend(drifted(source, &tool, before, seen, now));
    }
    Ok((store.book(id).await?, events, news.len()))
}

fn sort(
    source: &SourceConfig,
    listed: &OfferList,
    mut forms: NewForms,
    book: &PinBook,
) -> PinComparison {
    let mut sorted = PinComparison::default();
    for tool in &listed.offers {
        let key = tool.key();
        if classify(source, &tool.name).hide == Some(true) || offer_id(source, &key).is_none() {
            continue;
        }
        let mut form = || {
            // A list may contain a name twice.
            let form = forms.remove(&*key).filter(|form| form.digest == tool.digest);
            let form = form.or_else(|| tool.discovered().map(|offer| PinForm::of(&offer)))?;
            Some((key.clone().into_owned(), form))
        };
        match book.tools.get(&*key) {
            None => sorted.new.extend(form()),
            Some(pinned) if pinned.approves(tool.digest) => {
                if pinned.seen.is_some() {
                    sorted.back.push(key.into_owned());
                }
            }
            Some(PinDigests { seen, .. }) if *seen == Some(tool.digest) => {}
            Some(_) => sorted.different.extend(form()),
        }
    }
    sorted
}

/// The id of the offer of `source` with this key.
pub(crate) fn offer_id(source: &SourceConfig, key: &str) -> Option<ToolId> {
    let (kind, name) = OfferKind::of_key(key);
    names::offer_id(kind, source.kind, &source.spec.id, name).ok()
}

/// The event in the log of each tenant with this tool.
fn events(source: &SourceConfig, tool: &str, body: &EventBody, now: Timestamp) -> Vec<NewEvent> {
    let tenants = match classify::tenants(source, OfferKind::of_key(tool).1) {
        // Tools of every tenant are recorded for the operator.
        Tenants::All | Tenants::Except(_) => {
            TenantId::parse(TenantId::OPERATOR).into_iter().collect()
        }
        Tenants::Only(tenants) => tenants,
    };
    tenants.into_iter().map(|tenant| lone_event(tenant, body.clone(), now)).collect()
}

fn drifted(
    source: &SourceConfig,
    tool: &str,
    before: Option<Digest>,
    seen: Digest,
    now: Timestamp,
) -> Vec<NewEvent> {
    let Some(tool_id) = offer_id(source, tool) else { return Vec::new() };
    let body = EventBody::ToolPinDrifted(ToolPinDrifted {
        source_id: source.spec.id.clone(),
        tool_id,
        approved: before.map(|digest| digest.to_string()),
        seen: seen.to_string(),
        quarantined: source.pins.mode == PinMode::Enforce,
    });
    events(source, tool, &body, now)
}

fn approved(
    source: &SourceConfig,
    choice: &PinChoice,
    tool_id: ToolId,
    before: Option<Digest>,
    by: Option<&PrincipalKey>,
    now: Timestamp,
) -> Vec<NewEvent> {
    let body = EventBody::ToolPinApproved(ToolPinApproved {
        source_id: source.spec.id.clone(),
        tool_id,
        before: before.map(|digest| digest.to_string()),
        approved: choice.digest.to_string(),
        keeps_earlier: choice.earlier == EarlierForms::Keep,
        principal: None,
    });
    let mut events = events(source, &choice.tool, &body, now);
    for NewEvent { tenant, body, .. } in &mut events {
        if let EventBody::ToolPinApproved(approved) = body {
            approved.principal = by.and_then(|by| by.in_record_of(tenant));
        }
    }
    events
}
