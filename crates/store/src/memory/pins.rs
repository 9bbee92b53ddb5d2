//! Pins in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    clock::Timestamp,
    id::SourceId,
    pin::{
        ApprovedForm, Pin, PinApproval, PinBook, PinChoice, PinDigests, PinForm, PinStore, SeenForm,
    },
    principal::PrincipalKey,
    store::StoreError,
};

use super::shared::{ChangeCounter, lock};

/// Pins in memory.
#[derive(Debug, Default)]
pub(super) struct MemoryPins {
    pins: Mutex<Pins>,
    changes: Arc<ChangeCounter>,
}

type Pins = BTreeMap<(SourceId, String), Pin>;

impl MemoryPins {
    pub(super) fn new(changes: &Arc<ChangeCounter>) -> Self {
        Self { pins: Mutex::default(), changes: Arc::clone(changes) }
    }

    /// Counts a change. The caller holds the lock of the pins, so that a book has its own number.
    fn changed(&self, changed: bool) {
        if changed {
            self.changes.count(|changes| &mut changes.pins);
        }
    }
}

/// Returns the pins of the tools of `source`.
fn of<'a>(pins: &'a Pins, source: &'a SourceId) -> impl Iterator<Item = &'a Pin> {
    pins.values().filter(move |pin| pin.source == *source)
}

#[async_trait]
impl PinStore for MemoryPins {
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError> {
        let held = lock(&self.pins);
        let tools = of(&held, source).map(|pin| {
            let pinned = PinDigests {
                approved: pin.approved.as_ref().map(|it| it.form.digest),
                seen: pin.seen.as_ref().map(|it| it.form.digest),
            };
            (pin.tool.clone(), pinned)
        });
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
                seen: None,
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
                seen: None,
            });
            let approved = pin.approved.as_ref().is_some_and(|it| it.form.digest == form.digest);
            let noted = pin.seen.as_ref().is_some_and(|it| it.form.digest == form.digest);
            if !approved && !noted {
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
            let pin = held.get(&key(choice));
            let waits = |pin: &&Pin| {
                pin.seen.as_ref().is_some_and(|seen| seen.form.digest == choice.digest)
            };
            let Some(pin) = pin.filter(waits) else { return Ok(PinApproval::Stale(index)) };
            before.push(pin.approved.as_ref().map(|it| it.form.digest));
        }
        for choice in &choices {
            if let Some(pin) = held.get_mut(&key(choice))
                && let Some(SeenForm { form, .. }) = pin.seen.take()
            {
                let (at, by) = (at.trunc_subsecs(3), by.clone());
                pin.approved = Some(ApprovedForm { form, at, by });
            }
        }
        self.changed(!choices.is_empty());
        Ok(PinApproval::Approved(before))
    }
}
