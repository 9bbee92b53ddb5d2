//! Pins in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    clock::Timestamp,
    id::{PrincipalId, SourceId},
    pin::{
        ApprovedForm, Pin, PinApproval, PinBook, PinChoice, PinDigests, PinForm, PinStore, SeenForm,
    },
    store::StoreError,
};

use super::lock;

/// Pins in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryPins(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    pins: BTreeMap<(SourceId, String), Pin>,
    epoch: u64,
}

impl MemoryPins {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a copy of the pins of `sources` in `store`, for reading without changing the
    /// original.
    ///
    /// # Errors
    /// Fails with [`StoreError`] when `store` cannot be read.
    pub async fn copy_of<'a>(
        store: &dyn PinStore,
        sources: impl IntoIterator<Item = &'a SourceId>,
    ) -> Result<Self, StoreError> {
        let mut held = State::default();
        for source in sources {
            let pins = store.pins(source).await?;
            held.pins.extend(pins.into_iter().map(|pin| ((source.clone(), pin.tool.clone()), pin)));
        }
        Ok(Self(Arc::new(Mutex::new(held))))
    }
}

#[async_trait]
impl PinStore for MemoryPins {
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError> {
        let held = lock(&self.0);
        let tools = held.of(source).map(|pin| {
            let pinned = PinDigests {
                approved: pin.approved.as_ref().map(|it| it.form.digest),
                seen: pin.seen.as_ref().map(|it| it.form.digest),
            };
            (pin.tool.clone(), pinned)
        });
        Ok(PinBook { epoch: held.epoch, tools: tools.collect() })
    }

    async fn pins(&self, source: &SourceId) -> Result<Vec<Pin>, StoreError> {
        Ok(lock(&self.0).of(source).cloned().collect())
    }

    async fn pin(&self, source: &SourceId, tool: &str) -> Result<Option<Pin>, StoreError> {
        Ok(lock(&self.0).pins.get(&(source.clone(), tool.to_owned())).cloned())
    }

    async fn trust(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut held = lock(&self.0);
        let before = held.pins.len();
        for (tool, form) in forms {
            held.pins.entry((source.clone(), tool.clone())).or_insert_with(|| Pin {
                source: source.clone(),
                tool,
                approved: Some(ApprovedForm { form, at: at.trunc_subsecs(3), by: None }),
                seen: None,
            });
        }
        let added = held.pins.len() > before;
        held.changed(added);
        Ok(())
    }

    async fn note(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<Vec<String>, StoreError> {
        let mut held = lock(&self.0);
        let mut news = Vec::new();
        for (tool, form) in forms {
            let key = (source.clone(), tool.clone());
            let pin = held.pins.entry(key).or_insert_with(|| Pin {
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
        held.changed(!news.is_empty());
        Ok(news)
    }

    async fn forget(&self, source: &SourceId, tools: Vec<String>) -> Result<(), StoreError> {
        let mut held = lock(&self.0);
        let mut forgotten = false;
        for tool in tools {
            if let Some(pin) = held.pins.get_mut(&(source.clone(), tool))
                && pin.approved.is_some()
            {
                forgotten |= pin.seen.take().is_some();
            }
        }
        held.changed(forgotten);
        Ok(())
    }

    async fn approve(
        &self,
        choices: Vec<PinChoice>,
        at: Timestamp,
        by: Option<PrincipalId>,
    ) -> Result<PinApproval, StoreError> {
        let mut held = lock(&self.0);
        let key = |choice: &PinChoice| (choice.source.clone(), choice.tool.clone());
        let mut before = Vec::new();
        for (index, choice) in choices.iter().enumerate() {
            let pin = held.pins.get(&key(choice));
            let waits = |pin: &&Pin| {
                pin.seen.as_ref().is_some_and(|seen| seen.form.digest == choice.digest)
            };
            let Some(pin) = pin.filter(waits) else { return Ok(PinApproval::Stale(index)) };
            before.push(pin.approved.as_ref().map(|it| it.form.digest));
        }
        for choice in &choices {
            if let Some(pin) = held.pins.get_mut(&key(choice))
                && let Some(SeenForm { form, .. }) = pin.seen.take()
            {
                let (at, by) = (at.trunc_subsecs(3), by.clone());
                pin.approved = Some(ApprovedForm { form, at, by });
            }
        }
        held.changed(!choices.is_empty());
        Ok(PinApproval::Approved(before))
    }

    async fn epoch(&self) -> Result<u64, StoreError> {
        Ok(lock(&self.0).epoch)
    }
}

// === impl State ===

impl State {
    fn of(&self, source: &SourceId) -> impl Iterator<Item = &Pin> {
        self.pins.values().filter(move |pin| pin.source == *source)
    }

    fn changed(&mut self, changed: bool) {
        self.epoch += u64::from(changed);
    }
}
