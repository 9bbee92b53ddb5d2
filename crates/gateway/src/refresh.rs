//! Keeping the catalog current, in the background.
//!
//! Invariant (I-25): no request waits for anything here, and no source for another. A discovery that
//! fails keeps what was known; what was known is also stored, so that a restart begins with it.

mod slots;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    catalog::Generation,
    clock::Clock,
    descriptor::SourceKind,
    id::{SourceId, TenantId},
    lint::{self, Finding},
    pin::PinStore,
    source::{
        Discovered, InvalidSource, Source, SourceFactory, SourceListener, SourceSpec, StderrLine,
    },
    store::CatalogStore,
    text,
};
use toolcrib_tasks::{Policy, TaskName};

pub(crate) use slots::{Located, Slots};
use slots::{Made, Slot};

use crate::{
    Gateway, SourceReport,
    assemble::classify,
    breaker::Breaker,
    config::{Config, SourceConfig},
    gateway::WeakGateway,
    metrics::Metrics,
    pins::{self, PinDesk, Settled},
    report::StderrRefusal,
    toolsets::Told,
};

/// Changes that come closer together than this are one change: servers announce while they start.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How often a command that waits for sources looks at them.
const LOOK: Duration = Duration::from_millis(20);
/// How long calls of a source that left the configuration may go on.
const DRAIN: Duration = Duration::from_secs(30);

/// Asks sources for their tools and builds snapshots.
pub(crate) struct Refresher {
    factory: Arc<dyn SourceFactory>,
    catalogs: Arc<dyn CatalogStore>,
    pins: Option<Arc<dyn PinStore>>,
    /// The pins' epoch when they were last looked through, and whether somebody is doing it.
    pins_epoch: AtomicU64,
    pinning: AtomicBool,
    /// Which entries of allow-lists have been told of, and whether somebody is doing it.
    told: Told,
    telling: AtomicBool,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    slots: Mutex<Slots>,
    requests: mpsc::UnboundedSender<SourceId>,
    generation: watch::Sender<Generation>,
}

/// What is stored of a source: its tools, and which upstream they are of.
#[derive(Serialize, Deserialize)]
struct LastGood<D> {
    upstream: String,
    discovered: D,
}

/// Requests to discover, for the one task that serves them.
type Requests = tokio::sync::Mutex<mpsc::UnboundedReceiver<SourceId>>;

/// Lowers a flag when the work that it stands for is over, however it ends.
struct Lowered<'a>(&'a AtomicBool);

impl Drop for Lowered<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Passes a source's news on to the refresher's task.
struct Listener(mpsc::UnboundedSender<SourceId>);

impl SourceListener for Listener {
    fn changed(&self, source: &SourceId) {
        // The receiver is gone only when the gateway is.
        if self.0.send(source.clone()).is_err() {
            tracing::debug!(%source, "a change came after the end");
        }
    }
}

impl Refresher {
    pub(crate) fn new(
        factory: Arc<dyn SourceFactory>,
        catalogs: Arc<dyn CatalogStore>,
        pins: Option<Arc<dyn PinStore>>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> (Self, mpsc::UnboundedReceiver<SourceId>) {
        // A source announces changes once a second at most, of 32 bytes, and whoever receives them
        // never waits.
        let (requests, receiver) = mpsc::unbounded_channel();
        let slots = Slots::new(Config::empty(std::path::Path::new("")).gate);
        let refresher = Self {
            factory,
            catalogs,
            pins,
            pins_epoch: AtomicU64::new(0),
            pinning: AtomicBool::new(false),
            told: Told::default(),
            telling: AtomicBool::new(false),
            clock,
            metrics,
            slots: Mutex::new(slots),
            requests,
            generation: watch::Sender::new(Generation(0)),
        };
        (refresher, receiver)
    }

    /// Serves requests to discover, each source in a task of its own.
    pub(crate) fn run(gateway: &Gateway, requests: mpsc::UnboundedReceiver<SourceId>) {
        let requests = Arc::new(tokio::sync::Mutex::new(requests));
        let ended = gateway.ended().clone();
        gateway.spawn_forever("refresh", move |weak| {
            Self::serve(weak, ended.clone(), Arc::clone(&requests))
        });
    }

    async fn serve(weak: WeakGateway, ended: CancellationToken, requests: Arc<Requests>) {
        let mut requests = requests.lock().await;
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            let request = tokio::select! {
                () = ended.cancelled() => return,
                request = requests.recv() => request,
                _ = tick.tick() => None,
            };
            // Held only while there is something to do (I-91).
            let Some(gateway) = weak.upgrade() else { return };
            let refresher = gateway.refresher();
            if let Some(source) = request {
                refresher.ask(&gateway, &source);
                continue;
            }
            let due = refresher.slots.lock().due(refresher.clock.now());
            due.iter().for_each(|source| refresher.ask(&gateway, source));
            gateway.record().flush_counted_refusals();
            refresher.watch_pins(&gateway);
            refresher.watch_toolsets(&gateway);
        }
    }

    /// Has one source asked soon.
    pub(crate) fn request(&self, id: &SourceId) {
        Listener(self.requests.clone()).changed(id);
    }

    /// Asks one source soon; again afterwards, if it has news meanwhile.
    fn ask(&self, gateway: &Gateway, id: &SourceId) {
        let mut slots = self.slots.lock();
        let Some(slot) = slots.find(id) else { return };
        slot.wanted = true;
        if std::mem::replace(&mut slot.asking, true) {
            return;
        }
        drop(slots);
        let (weak, ended, id) = (gateway.downgrade(), gateway.ended().clone(), id.clone());
        let name = TaskName::of("discovery", id.as_str());
        gateway.tasks().spawn(name, Policy::UntilDone, ended.clone(), move || {
            Self::ask_until_answered(weak.clone(), ended.clone(), id.clone())
        });
    }

    async fn ask_until_answered(weak: WeakGateway, ended: CancellationToken, id: SourceId) {
        // Also what a run wanted to know that panicked.
        let mut first = true;
        loop {
            tokio::select! {
                () = tokio::time::sleep(DEBOUNCE) => {}
                () = ended.cancelled() => return,
            }
            let Some(gateway) = weak.upgrade() else { return };
            let refresher = gateway.refresher();
            match refresher.slots.lock().find(&id) {
                Some(slot) if slot.wanted || first => slot.wanted = false,
                Some(slot) => {
                    slot.asking = false;
                    return;
                }
                None => return,
            }
            first = false;
            tokio::select! {
                () = refresher.discover(&gateway, &id) => {}
                () = ended.cancelled() => return,
            }
        }
    }

    /// Takes over `config`; gives back the sources that are no longer in it. Nothing is started
    /// unless every source can be.
    pub(crate) async fn apply(
        &self,
        gateway: &Gateway,
        config: &Config,
    ) -> Result<Vec<Arc<dyn Source>>, InvalidSource> {
        config.sources.iter().try_for_each(|source| self.factory.check(&source.spec))?;
        let mut fresh = Vec::new();
        for source in &config.sources {
            if !self.slots.lock().runs(source) {
                let listener = Arc::new(Listener(self.requests.clone()));
                let running = self.factory.build(&source.spec, listener)?;
                let known = self.last_good(&source.spec).await;
                fresh.push((source.spec.id.clone(), running, known.map(Arc::new)));
            }
        }
        let mut pinned = HashMap::new();
        for source in &config.sources {
            let id = &source.spec.id;
            let known = match fresh.iter().find(|(fresh, ..)| fresh == id) {
                Some((_, _, known)) => known.clone(),
                None => self.slots.lock().find(id).and_then(|slot| slot.discovered.clone()),
            };
            pinned.insert(id.clone(), self.settle_pins(gateway, source, known.as_ref()).await);
        }
        let mut slots = self.slots.lock();
        let mut old: HashMap<SourceId, Slot> = std::mem::take(&mut slots.slots)
            .into_iter()
            .map(|slot| (slot.config.spec.id.clone(), slot))
            .collect();
        slots.gate = config.gate.clone();
        slots.toolsets.clone_from(&config.toolsets);
        slots.policies = config.policies.clone();
        let mut closing = Vec::new();
        for source in &config.sources {
            let id = &source.spec.id;
            let previous = old.remove(id);
            let mut slot = match fresh.iter().position(|(fresh, ..)| fresh == id) {
                Some(at) => {
                    closing.extend(previous.map(|slot| slot.source));
                    let (_, running, known) = fresh.swap_remove(at);
                    // It may have become ready before it had a slot to be asked for.
                    self.requests.send(id.clone()).ok();
                    let (clock, metrics) = (Arc::clone(&self.clock), Arc::clone(&self.metrics));
                    let breaker = Breaker::new(id.clone(), source.breaker, clock, metrics);
                    Slot::new(Arc::new(source.clone()), running, breaker, known)
                }
                None => match previous {
                    Some(mut slot) => {
                        slot.configure(Arc::new(source.clone()));
                        slot
                    }
                    None => continue,
                },
            };
            if let Some(Settled { book, unfinished, .. }) = pinned.remove(id) {
                slot.pin(book, unfinished);
            }
            slots.slots.push(slot);
        }
        closing.extend(old.into_values().map(|slot| slot.source));
        slots.reassemble_all();
        Ok(closing)
    }

    /// Asks one source, and publishes what it says if that is news.
    pub(crate) async fn discover(&self, gateway: &Gateway, id: &SourceId) {
        let Some((source, timeout)) = self
            .slots
            .lock()
            .find(id)
            .map(|slot| (Arc::clone(&slot.source), slot.config.spec.limits.connect_timeout))
        else {
            return;
        };
        if !source.status().state.is_ready() {
            return;
        }
        let told = match tokio::time::timeout(timeout, source.discover()).await {
            Ok(Ok(discovered)) => Ok(discovered),
            Ok(Err(error)) => Err(error.detail),
            Err(_elapsed) => Err(format!("no complete answer within {}", text::duration(timeout))),
        };
        match told {
            Ok(discovered) => {
                self.metrics.discovered(id, Ok(discovered.tools.len()));
                self.accept(gateway, id, &source, discovered).await;
            }
            Err(why) => {
                self.metrics.discovered(id, Err(()));
                tracing::warn!(source = %id, why, "discovery failed; what was known is kept");
                let now = self.clock.now();
                if let Some(slot) = self.slots.lock().find(id) {
                    slot.failed(now, why);
                }
            }
        }
    }

    async fn accept(
        &self,
        gateway: &Gateway,
        id: &SourceId,
        source: &Arc<dyn Source>,
        discovered: Discovered,
    ) {
        let now = self.clock.now();
        let discovered = Arc::new(discovered);
        let (changed, config) = match self.slots.lock().find(id) {
            // A reload may have put another source in its place.
            Some(slot) if Arc::ptr_eq(&slot.source, source) => {
                (slot.discovered.as_deref() != Some(&*discovered), Arc::clone(&slot.config))
            }
            Some(_) | None => return,
        };
        let upstream = config.spec.upstream_identity();
        if changed {
            // Before anything of it is shown (I-52).
            let Settled { book, unfinished, .. } =
                self.settle_pins(gateway, &config, Some(&discovered)).await;
            if let Some(slot) = self.slots.lock().find(id) {
                slot.pin(book, unfinished);
            }
            // Compiling schemas and building a snapshot of a large catalog takes seconds of CPU.
            let (gateway, id, news) = (gateway.clone(), id.clone(), Arc::clone(&discovered));
            let taken = tokio::task::spawn_blocking(move || {
                gateway.refresher().take_over(&id, news);
                gateway.publish();
            });
            if let Err(error) = taken.await {
                tracing::error!(%error, "a catalog could not be built; the old one is kept");
                return;
            }
        }
        // Only now: whoever sees that a source was asked also sees what it said.
        if let Some(slot) = self.slots.lock().find(id) {
            slot.succeeded(now);
        }
        if !changed {
            return;
        }
        tracing::info!(source = %id, tools = discovered.tools.len(), "catalog refreshed");
        match serde_json::to_string(&LastGood { upstream, discovered: &*discovered }) {
            Ok(json) => {
                if let Err(error) = self.catalogs.save(id, json, now).await {
                    tracing::warn!(source = %id, %error, "the last good catalog could not be stored");
                }
            }
            Err(error) => {
                tracing::error!(source = %id, %error, "a catalog could not be serialised")
            }
        }
    }

    /// Makes entries of what a source offers, without holding anybody up.
    fn take_over(&self, id: &SourceId, discovered: Arc<Discovered>) {
        let (config, gate, pins) = {
            let mut slots = self.slots.lock();
            let gate = slots.gate.clone();
            match slots.find(id) {
                Some(slot) => (Arc::clone(&slot.config), gate, slot.pins.clone()),
                None => return,
            }
        };
        let made = Made::of(&config, &gate, &discovered, pins.as_deref());
        let mut slots = self.slots.lock();
        let reloaded = slots.gate != gate;
        let gate = slots.gate.clone();
        let Some(slot) = slots.find(id) else { return };
        slot.discovered = Some(discovered);
        if reloaded || !Arc::ptr_eq(&slot.config, &config) || slot.pins != pins {
            // The configuration or a pin changed meanwhile: what holds now counts.
            slot.reassemble(&gate);
        } else {
            slot.put(made);
        }
    }

    /// Compares tools with their pins, and tells what is new.
    async fn settle_pins(
        &self,
        gateway: &Gateway,
        source: &SourceConfig,
        known: Option<&Arc<Discovered>>,
    ) -> Settled {
        let now = self.clock.now();
        let mut settled = pins::settle(source, self.pins.as_ref(), known, now).await;
        let events = std::mem::take(&mut settled.events);
        if !events.is_empty() {
            self.metrics.drifted(&source.spec.id, settled.drifts);
            gateway.record().append_with_retry(events).await;
        }
        settled
    }

    /// Where pins are looked at; none without a store of them.
    pub(crate) fn desk<'a>(
        &'a self,
        config: &'a Config,
        tenant: &'a TenantId,
    ) -> Option<PinDesk<'a>> {
        let pins = self.pins.as_deref()?;
        Some(PinDesk { sources: &config.sources, pins, tenant: Some(tenant) })
    }

    /// Looks whether another process has changed a pin, without holding anybody up.
    fn watch_pins(&self, gateway: &Gateway) {
        if self.pins.is_none() || self.pinning.swap(true, Ordering::AcqRel) {
            return;
        }
        let tasks = gateway.tasks();
        let gateway = gateway.clone();
        tasks.once("pins", async move {
            let refresher = gateway.refresher();
            let _done = Lowered(&refresher.pinning);
            if let Some(pins) = &refresher.pins {
                let unfinished =
                    refresher.slots.lock().slots.iter().any(|slot| slot.pins_unfinished);
                match pins.epoch().await {
                    Ok(epoch) => {
                        let before = refresher.pins_epoch.swap(epoch, Ordering::AcqRel);
                        if epoch != before || unfinished {
                            refresher.repin(&gateway).await;
                        }
                    }
                    Err(error) => tracing::warn!(%error, "the pins could not be looked at"),
                }
            }
        });
    }

    /// Looks whether allow-lists of toolsets reach tools, once every source has told its own, without
    /// holding anybody up.
    fn watch_toolsets(&self, gateway: &Gateway) {
        let worth = {
            let slots = self.slots.lock();
            !slots.toolsets.is_empty() && slots.are_settled()
        };
        if !worth || self.telling.swap(true, Ordering::AcqRel) {
            return;
        }
        let tasks = gateway.tasks();
        let gateway = gateway.clone();
        tasks.once("toolsets", async move {
            let refresher = gateway.refresher();
            let _done = Lowered(&refresher.telling);
            gateway.tell_unresolved(&refresher.told).await;
        });
    }

    /// Reads the pins of all sources again, and publishes if that changes what is offered.
    pub(crate) async fn repin(&self, gateway: &Gateway) {
        let sources: Vec<_> = {
            let slots = self.slots.lock();
            // What is known is compared where that was not finished; all others were compared.
            let of = |slot: &Slot| {
                let again = slot.discovered.clone().filter(|_| slot.pins_unfinished);
                (Arc::clone(&slot.config), again)
            };
            slots.slots.iter().map(of).collect()
        };
        let mut news = Vec::new();
        for (config, known) in sources {
            let id = &config.spec.id;
            let Settled { book, unfinished, .. } =
                self.settle_pins(gateway, &config, known.as_ref()).await;
            if let Some(slot) = self.slots.lock().find(id)
                && slot.pin(book, unfinished)
            {
                news.push(id.clone());
            }
        }
        if news.is_empty() {
            return;
        }
        let gateway = gateway.clone();
        let published = tokio::task::spawn_blocking(move || {
            {
                let mut slots = gateway.refresher().slots.lock();
                let gate = slots.gate.clone();
                for id in &news {
                    if let Some(slot) = slots.find(id) {
                        slot.reassemble(&gate);
                    }
                }
            }
            gateway.publish();
        });
        if let Err(error) = published.await {
            tracing::error!(%error, "a catalog could not be built; the old one is kept");
        }
    }

    /// What the upstream of `spec` offered last. What another upstream offered under the same id is
    /// not shown as this one's.
    async fn last_good(&self, spec: &SourceSpec) -> Option<Discovered> {
        let id = &spec.id;
        let json = match self.catalogs.load(id).await {
            Ok(Some((json, _))) => json,
            Ok(None) => return None,
            Err(error) => {
                tracing::warn!(source = %id, %error, "the stored catalog could not be read");
                return None;
            }
        };
        match serde_json::from_str::<LastGood<Discovered>>(&json) {
            Ok(last) => (last.upstream == spec.upstream_identity()).then_some(last.discovered),
            Err(error) => {
                tracing::warn!(source = %id, %error, "the stored catalog is unreadable");
                None
            }
        }
    }

    /// Closes a source that left the configuration, once its calls have ended or [`DRAIN`] is over.
    pub(crate) async fn retire(source: &Arc<dyn Source>) {
        let idle = async {
            // Snapshots and calls hold the source; when only we do, nothing runs there any more.
            while Arc::strong_count(source) > 1 {
                tokio::time::sleep(DEBOUNCE).await;
            }
        };
        if tokio::time::timeout(DRAIN, idle).await.is_err() {
            tracing::warn!(source = %source.id(), "calls of a removed source did not end in time");
        }
        source.close().await;
    }

    /// Waits until every source has told its tools, or has shown that it will not soon.
    pub(crate) async fn settle(&self, patience: Duration) {
        let settled = async {
            // A source's state has no signal of its own, so it is looked at.
            while !self.slots.lock().are_settled() {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(patience, settled).await.is_err() {
            tracing::debug!("some sources did not answer in time");
        }
    }

    /// What is to be said about what upstreams write of their tools.
    pub(crate) fn findings(&self, kind: Option<SourceKind>) -> Vec<Finding> {
        let offers: Vec<_> = {
            let slots = self.slots.lock();
            let wanted = slots.slots.iter().filter(|slot| {
                slot.config.kind != SourceKind::Workflow
                    && kind.is_none_or(|kind| slot.config.kind == kind)
            });
            wanted
                .filter_map(|slot| Some((Arc::clone(&slot.config), slot.discovered.clone()?)))
                .collect()
        };
        let mut found = Vec::new();
        for (config, discovered) in offers {
            for tool in &discovered.tools {
                if let Some(id) = pins::tool_id(&config, &tool.name)
                    && classify(&config, &tool.name).hide != Some(true)
                {
                    found.extend(lint::upstream(id.as_str(), tool));
                }
            }
        }
        found
    }

    pub(crate) fn reports(&self, tenant: Option<&TenantId>) -> Vec<SourceReport> {
        self.slots.lock().reports(tenant, &self.metrics)
    }

    pub(crate) fn stderr(
        &self,
        tenant: Option<&TenantId>,
        id: &str,
    ) -> Result<Vec<StderrLine>, StderrRefusal> {
        self.slots.lock().stderr(tenant, id)
    }

    /// Where a tool is that no snapshot offers.
    pub(crate) fn locate(&self, name: &str) -> Located {
        self.slots.lock().locate(name)
    }

    pub(crate) fn slots(&self) -> &Mutex<Slots> {
        &self.slots
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Generation> {
        self.generation.subscribe()
    }

    pub(crate) fn announce(&self, generation: Generation) {
        self.generation.send_replace(generation);
    }

    /// Every source that runs.
    pub(crate) fn sources(&self) -> Vec<Arc<dyn Source>> {
        self.slots.lock().slots.iter().map(|slot| Arc::clone(&slot.source)).collect()
    }
}
