//! Keeps the catalog current: discovers each source in the background.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use toolcrib_config::SourceConfig;
use toolcrib_core::{
    clock::ReadStart,
    id::SourceId,
    source::{Discovered, Source, SourceSpec},
    store::{Changes, StoreError},
    text,
};
use toolcrib_tasks::TaskName;

use super::{
    Supply,
    pins::{self, PinUpdate},
    slots::{Slot, SourceOffers},
};
use crate::assembly::{
    assemble::Assembler,
    listed::{NewForms, OfferList},
};

/// Changes at a shorter distance are one change: servers announce several while they start.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How often due sources, unread pins and toolsets are checked.
const INTERVAL: Duration = Duration::from_secs(1);

/// The stored state of a source: its tools and the identity of their upstream.
#[derive(Serialize, Deserialize)]
struct LastGoodState<L> {
    upstream: String,
    discovered: L,
}

/// Requests to discover, for the one task that serves them.
type Requests = tokio::sync::Mutex<mpsc::UnboundedReceiver<SourceId>>;

/// Lowers a flag on drop.
struct FlagGuard<'a>(&'a AtomicBool);

impl Drop for FlagGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Supply {
    /// Starts the tasks that follow the pins and serve `requests`, until the gateway stops.
    pub(crate) fn start(self: &Arc<Self>, requests: mpsc::UnboundedReceiver<SourceId>) {
        let supply = Arc::clone(self);
        self.services.follow("pins", move |began, changes| {
            let supply = Arc::clone(&supply);
            async move { supply.follow_pins(began, changes).await }
        });
        let (supply, requests) = (Arc::clone(self), Arc::new(Requests::new(requests)));
        self.services.background.until_done("refresh", move || {
            let (supply, requests) = (Arc::clone(&supply), Arc::clone(&requests));
            async move { supply.serve(&requests).await }
        });
    }

    async fn serve(self: &Arc<Self>, requests: &Requests) {
        let mut requests = requests.lock().await;
        let mut tick = tokio::time::interval(INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            let request = tokio::select! {
                () = self.services.background.ended().cancelled() => return,
                request = requests.recv() => request,
                _ = tick.tick() => None,
            };
            if let Some(source) = request {
                self.schedule(&source);
                continue;
            }
            let due = self.slots.lock().due(self.services.clock.now());
            due.iter().for_each(|source| self.schedule(source));
            self.audit.denials().flush_counted_refusals();
            self.watch_toolsets();
        }
    }

    /// Starts a discovery of one source soon. Requests during a discovery cause one more.
    pub(super) fn schedule(self: &Arc<Self>, id: &SourceId) {
        {
            let mut slots = self.slots.lock();
            let Some(slot) = slots.find(id) else { return };
            slot.is_requested = true;
            if std::mem::replace(&mut slot.is_discovering, true) {
                return;
            }
        }
        let (supply, id) = (Arc::clone(self), id.clone());
        let name = TaskName::of("discovery", id.as_str());
        self.services.background.until_done(name, move || {
            let (supply, id) = (Arc::clone(&supply), id.clone());
            async move {
                let ended = supply.services.background.ended();
                tokio::select! {
                    () = supply.discover_while_requested(&id) => {}
                    () = ended.cancelled() => {}
                }
            }
        });
    }

    async fn discover_while_requested(self: &Arc<Self>, id: &SourceId) {
        // The first round also serves the request of a run that panicked.
        let mut is_first = true;
        loop {
            tokio::time::sleep(DEBOUNCE).await;
            match self.slots.lock().find(id) {
                Some(slot) if slot.is_requested || is_first => slot.is_requested = false,
                Some(slot) => {
                    slot.is_discovering = false;
                    return;
                }
                None => return,
            }
            is_first = false;
            self.discover(id).await;
        }
    }

    /// Discovers the tools of one source, and publishes them if they differ.
    pub(crate) async fn discover(self: &Arc<Self>, id: &SourceId) {
        let Some((source, timeout)) = self
            .slots
            .lock()
            .find(id)
            .map(|slot| (Arc::clone(&slot.source), slot.config.spec.limits.connect_timeout))
        else {
            return;
        };
        let Some((config, has_led)) =
            self.slots.lock().find(id).map(|slot| (Arc::clone(&slot.config), slot.leads))
        else {
            return;
        };
        if !source.status().state.is_ready() {
            return match has_led {
                true => self.resign(&config).await,
                false => self.follow_if_common(&config, &source).await,
            };
        }
        match self.leads(&config).await {
            Ok(true) => {}
            Ok(false) => return self.follow(id, &source).await,
            Err(error) => {
                tracing::warn!(source = %id, %error, "the server that discovers this source is unknown");
                let now = self.services.clock.now();
                if let Some(slot) = self.slots.lock().find(id) {
                    slot.failed(now, "the store did not answer".to_owned());
                }
                return;
            }
        }
        let discovered = match tokio::time::timeout(timeout, source.discover()).await {
            Ok(Ok(discovered)) => Ok(discovered),
            Ok(Err(error)) => Err(error.detail),
            Err(_elapsed) => Err(format!("no complete answer within {}", text::duration(timeout))),
        };
        match discovered {
            Ok(discovered) => {
                self.services.metrics.discovered(id, Ok(discovered.offers.len()));
                self.accept(id, &source, discovered).await;
            }
            Err(reason) => {
                self.services.metrics.discovered(id, Err(()));
                tracing::warn!(source = %id, reason, "discovery failed; the last good catalog stays in effect");
                let now = self.services.clock.now();
                if let Some(slot) = self.slots.lock().find(id) {
                    slot.failed(now, reason);
                }
                self.resign(&config).await;
            }
        }
    }

    async fn accept(
        self: &Arc<Self>,
        id: &SourceId,
        source: &Arc<dyn Source>,
        discovered: Discovered,
    ) {
        let now = self.services.clock.now();
        let (before, config) = match self.slots.lock().find(id) {
            // A reload may have replaced the source.
            Some(slot) if Arc::ptr_eq(&slot.source, source) => {
                slot.leads = true;
                (slot.listed.clone(), Arc::clone(&slot.config))
            }
            Some(_) | None => return,
        };
        // Serializing thousands of tools takes time.
        let listed = tokio::task::spawn_blocking(move || {
            let (listed, forms) = OfferList::new(discovered, before.as_deref());
            let is_new = before.is_none_or(|before| !before.is_same(&listed));
            (Arc::new(listed), forms, is_new)
        });
        let (listed, forms, is_new) = match listed.await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::error!(%error, "a tool list could not be read; the old one stays in effect");
                return;
            }
        };
        if is_new {
            if !self.pin_and_publish(&config, Arc::clone(&listed), Some(forms)).await {
                return;
            }
            tracing::info!(source = %id, tools = listed.offers.len(), "catalog refreshed");
        }
        // Set last: a source that counts as discovered is already published.
        let is_unstored = self.slots.lock().find(id).is_some_and(|slot| {
            slot.succeeded(now);
            slot.is_unstored
        });
        if is_new || is_unstored {
            let is_unstored = !self.store_last_good(&config.spec, &listed).await;
            if let Some(slot) = self.slots.lock().find(id) {
                slot.is_unstored = is_unstored;
            }
        }
    }

    /// Compares the tools of `source` with their pins, unless another server does, and publishes
    /// them. For the comparison, `forms` has the forms of new tools. Returns `false` on failure,
    /// which keeps the old tools.
    pub(super) async fn pin_and_publish(
        self: &Arc<Self>,
        source: &SourceConfig,
        listed: Arc<OfferList>,
        forms: Option<NewForms>,
    ) -> bool {
        let id = &source.spec.id;
        // Pins come first: a form is compared before it is shown (I-52).
        let compared = forms.is_some().then_some(&listed);
        let forms = forms.unwrap_or_default();
        let PinUpdate { pins, unfinished, .. } = self.update_pins(source, compared, forms).await;
        if let Some(slot) = self.slots.lock().find(id) {
            slot.pin(pins, unfinished);
        }
        // Compiling schemas and building a snapshot of a large catalog takes seconds of CPU.
        let (supply, id) = (Arc::clone(self), id.clone());
        let built = tokio::task::spawn_blocking(move || {
            supply.take_over(&id, listed);
            supply.publish();
        });
        if let Err(error) = &built.await {
            tracing::error!(%error, "a catalog could not be built; the old one stays in effect");
            return false;
        }
        true
    }

    /// Builds the entries of a source. Schemas are compiled outside of the lock.
    fn take_over(&self, id: &SourceId, listed: Arc<OfferList>) {
        let (config, gate, validators, pins, made) = {
            let mut slots = self.slots.lock();
            let (gate, validators) = (slots.gate.clone(), Arc::clone(&slots.validators));
            let Some(slot) = slots.find(id) else { return };
            let (pins, made) = (slot.pins.clone(), Arc::clone(&slot.made));
            (Arc::clone(&slot.config), gate, validators, pins, made)
        };
        let assembler = Assembler::new(&config, &gate, &validators);
        let offered = SourceOffers::new(&assembler, &listed, pins.as_deref(), &made);
        let mut slots = self.slots.lock();
        let is_reloaded = slots.gate != gate;
        let gate = slots.gate.clone();
        let Some(slot) = slots.find(id) else { return };
        slot.listed = Some(listed);
        if is_reloaded || !Arc::ptr_eq(&slot.config, &config) || slot.pins != pins {
            // The configuration or a pin has changed meanwhile: the current one applies.
            slot.reassemble(&gate, &validators);
        } else {
            slot.put(offered);
        }
    }

    /// Compares tools with their pins, and records the differences.
    pub(super) async fn update_pins(
        &self,
        source: &SourceConfig,
        known: Option<&Arc<OfferList>>,
        forms: NewForms,
    ) -> PinUpdate {
        let now = self.services.clock.now();
        let mut update = pins::update(source, &*self.pins, known, forms, now).await;
        let events = std::mem::take(&mut update.events);
        if !events.is_empty() {
            self.services.metrics.drifted(&source.spec.id, update.drifts);
            self.audit.append_with_retry(events).await;
        }
        update
    }

    /// Reads the pins again after a change by any process, and while they are unreadable. Also
    /// loads the catalogs of other servers.
    async fn follow_pins(self: &Arc<Self>, began: ReadStart, changes: Result<Changes, StoreError>) {
        let is_unfinished = || self.slots.lock().slots.iter().any(|slot| slot.pins_unfinished);
        match changes {
            Ok(Changes { pins, catalogs, .. }) => {
                if self.catalog_changes.swap(catalogs, Ordering::AcqRel) != catalogs {
                    self.follow_catalogs();
                }
                let before = self.pin_changes.swap(pins, Ordering::AcqRel);
                if pins != before || is_unfinished() {
                    self.reload_pins().await;
                }
                // A tool with an unreadable pin is in no snapshot.
                self.snapshots.pins.confirm(began);
            }
            Err(error) => {
                self.snapshots.pins.fail();
                tracing::warn!(%error, "the pins could not be read");
            }
        }
        if is_unfinished() {
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Starts a check of the allow-lists of toolsets, after every source has listed its tools.
    fn watch_toolsets(self: &Arc<Self>) {
        let is_due = {
            let slots = self.slots.lock();
            !slots.toolsets.is_empty() && slots.are_settled()
        };
        if !is_due || self.reporting.swap(true, Ordering::AcqRel) {
            return;
        }
        let supply = Arc::clone(self);
        self.services.background.tasks().once("toolsets", async move {
            let _lowered = FlagGuard(&supply.reporting);
            supply.reported.report(&supply.snapshots.load(), &supply.audit).await;
        });
    }

    /// Reads the pins of all sources again, and publishes if that changes the tools on offer.
    pub(crate) async fn reload_pins(self: &Arc<Self>) {
        let sources: Vec<_> = {
            let slots = self.slots.lock();
            // Repeats only unfinished comparisons.
            let unfinished = |slot: &Slot| {
                let known = slot.listed.clone().filter(|_| slot.pins_unfinished);
                (Arc::clone(&slot.config), known)
            };
            slots.slots.iter().map(unfinished).collect()
        };
        let mut changed = Vec::new();
        for (config, known) in sources {
            let id = &config.spec.id;
            let PinUpdate { pins, unfinished, .. } =
                self.update_pins(&config, known.as_ref(), NewForms::new()).await;
            if let Some(slot) = self.slots.lock().find(id)
                && slot.pin(pins, unfinished)
            {
                changed.push(id.clone());
            }
        }
        if changed.is_empty() {
            return;
        }
        let supply = Arc::clone(self);
        let published = tokio::task::spawn_blocking(move || {
            supply.slots.lock().reassemble(&changed);
            supply.publish();
        });
        if let Err(error) = published.await {
            tracing::error!(%error, "a catalog could not be built; the old one stays in effect");
        }
    }

    /// The last good catalog of `spec`, unless it belongs to another upstream under the same id.
    pub(super) async fn last_good(&self, spec: &SourceSpec) -> Option<OfferList> {
        let id = &spec.id;
        let json = match self.catalogs.load(id).await {
            Ok(Some((json, _))) => json,
            Ok(None) => return None,
            Err(error) => {
                tracing::warn!(source = %id, %error, "the stored catalog could not be read");
                return None;
            }
        };
        match serde_json::from_str::<LastGoodState<OfferList>>(&json) {
            Ok(last) => (last.upstream == spec.upstream.identity()).then_some(last.discovered),
            Err(error) => {
                tracing::warn!(source = %id, %error, "the stored catalog is unreadable");
                None
            }
        }
    }

    /// Stores the catalog. Returns whether that succeeded.
    async fn store_last_good(&self, spec: &SourceSpec, listed: &OfferList) -> bool {
        let (id, upstream) = (&spec.id, spec.upstream.identity());
        let json = match serde_json::to_string(&LastGoodState { upstream, discovered: listed }) {
            Ok(json) => json,
            Err(error) => {
                tracing::error!(source = %id, %error, "a catalog could not be serialised");
                return true;
            }
        };
        let saved = self.catalogs.save(id, json, self.services.clock.now()).await;
        if let Err(error) = &saved {
            tracing::warn!(source = %id, %error, "the last good catalog could not be stored");
        }
        saved.is_ok()
    }
}
