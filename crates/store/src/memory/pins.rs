//! Pins in memory.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    clock::Timestamp,
    id::SourceId,
    pin::{
        ApprovedForm, EarlierForms, MAX_EARLIER, Pin, PinApproval, PinBook, PinChoice, PinDigests,
        PinForm, PinStore, SeenForm,
    },
    principal::PrincipalKey,
    store::StoreError,
};

use super::shared::{ChangeCounter, lock};

#[derive(Debug, Default)]
pub(super) struct MemoryPins {
    pins: Mutex<Pins>,
    changes: Arc<ChangeCounter>,
}

type Pins = BTreeMap<(SourceId, String), Pin>;

impl MemoryPins {
    pub(super) fn new(pins: Vec<Pin>, changes: &Arc<ChangeCounter>) -> Self {
        let pins = pins.into_iter().map(|pin| ((pin.source.clone(), pin.tool.clone()), pin));
        Self { pins: Mutex::new(pins.collect()), changes: Arc::clone(changes) }
    }

    /// Counts a change. The caller holds the lock of the pins, so that a book has its own number.
    fn changed(&self, changed: bool) {
        if changed {
            self.changes.count(|changes| &mut changes.pins);
        }
    }
}

fn digests(pin: &Pin) -> PinDigests {
    let mut earlier: Vec<_> = pin.earlier.iter().map(|entry| entry.form.digest).collect();
    earlier.sort_unstable();
    PinDigests {
        approved: pin.approved.as_ref().map(|entry| entry.form.digest),
        earlier,
        seen: pin.seen.as_ref().map(|entry| entry.form.digest),
        change_count: pin.change_count,
    }
}

fn of<'a>(pins: &'a Pins, source: &'a SourceId) -> impl Iterator<Item = &'a Pin> {
    pins.values().filter(move |pin| pin.source == *source)
}

#[async_trait]
impl PinStore for MemoryPins {
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError> {
        let held = lock(&self.pins);
        let tools = of(&held, source).map(|pin| (pin.tool.clone(), digests(pin)));
        Ok(PinBook { epoch: self.changes.now().pins, tools: tools.collect() })
    }

    async fn pins(&self, source: &SourceId) -> Result<Vec<Pin>, StoreError> {
        Ok(of(&lock(&self.pins), source).cloned().collect())
    }

    async fn pin(&self, source: &SourceId, tool: &str) -> Result<Option<Pin>, StoreError> {
        Ok(lock(&self.pins).get(&(source.clone(), tool.to_owned())).cloned())
    }

    async fn trust(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut held = lock(&self.pins);
        let before = held.len();
        for (tool, form) in forms {
            held.entry((source.clone(), tool.clone())).or_insert_with(|| Pin {
                source: source.clone(),
                tool,
                approved: Some(ApprovedForm { form, at: at.trunc_subsecs(3), by: None }),
                earlier: Vec::new(),
                seen: None,
                change_count: 0,
            });
        }
        let added = held.len() > before;
        self.changed(added);
        Ok(())
    }

    async fn note(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<Vec<String>, StoreError> {
        let mut held = lock(&self.pins);
        let mut news = Vec::new();
        for (tool, form) in forms {
            let key = (source.clone(), tool.clone());
            let pin = held.entry(key).or_insert_with(|| Pin {
                source: source.clone(),
                tool: tool.clone(),
                approved: None,
                earlier: Vec::new(),
                seen: None,
                change_count: 0,
            });
            let known = digests(pin);
            if !known.approves(form.digest) && known.seen != Some(form.digest) {
                pin.change_count += u32::from(pin.approved.is_some());
                pin.seen = Some(SeenForm { form, at: at.trunc_subsecs(3) });
                news.push(tool);
            }
        }
        self.changed(!news.is_empty());
        Ok(news)
    }

    async fn forget(&self, source: &SourceId, tools: Vec<String>) -> Result<(), StoreError> {
        let mut held = lock(&self.pins);
        let mut forgotten = false;
        for tool in tools {
            if let Some(pin) = held.get_mut(&(source.clone(), tool))
                && pin.approved.is_some()
            {
                forgotten |= pin.seen.take().is_some();
            }
        }
        self.changed(forgotten);
        Ok(())
    }

    async fn approve(
        &self,
        choices: Vec<PinChoice>,
        at: Timestamp,
        by: Option<PrincipalKey>,
    ) -> Result<PinApproval, StoreError> {
        let mut held = lock(&self.pins);
        let key = |choice: &PinChoice| (choice.source.clone(), choice.tool.clone());
        let mut before = Vec::new();
        for (index, choice) in choices.iter().enumerate() {
            let known = held.get(&key(choice)).map(digests).unwrap_or_default();
            if !known.can_approve(choice) {
                return Ok(PinApproval::Stale(index));
            }
            before.push(known.approved);
        }
        for choice in &choices {
            let Some(pin) = held.get_mut(&key(choice)) else { continue };
            let is_pending = digests(pin).seen == Some(choice.digest);
            let seen = if is_pending { pin.seen.take() } else { None };
            let replaced = match seen {
                Some(SeenForm { form, .. }) => {
                    let (at, by) = (at.trunc_subsecs(3), by.clone());
                    pin.approved.replace(ApprovedForm { form, at, by })
                }
                None => None,
            };
            match choice.earlier {
                EarlierForms::Replace => pin.earlier.clear(),
                EarlierForms::Keep => {
                    pin.earlier.extend(replaced);
                    pin.earlier.sort_by_key(|entry| (Reverse(entry.at), entry.form.digest));
                    pin.earlier.truncate(MAX_EARLIER);
                }
            }
        }
        self.changed(!choices.is_empty());
        Ok(PinApproval::Approved(before))
    }
}
