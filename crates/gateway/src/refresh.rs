//! Keeping the catalog current, in the background.
//!
//! Invariant (I-25): no request waits for anything here. A discovery that fails keeps what was known;
//! what was known is also stored, so that a restart begins with it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use toolcrib_core::{
    catalog::{Catalog, Entry, Generation},
    clock::{Clock, Timestamp},
    id::SourceId,
    source::{Discovered, InvalidSource, Source, SourceFactory, SourceListener, SourceState},
    store::CatalogStore,
};

use crate::{
    Gateway, Snapshot, SourceReport,
    assemble::{Assembled, assemble},
    config::{Config, GateConfig, SourceConfig},
    metrics::Metrics,
};

/// Changes that come closer together than this are one change: servers announce while they start.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How often a command that waits for sources looks at them.
const LOOK: Duration = Duration::from_millis(20);

/// Asks sources for their tools and builds snapshots.
pub(crate) struct Refresher {
    factory: Arc<dyn SourceFactory>,
    catalogs: Arc<dyn CatalogStore>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    slots: Mutex<Slots>,
    requests: mpsc::UnboundedSender<SourceId>,
    generation: watch::Sender<Generation>,
}

/// What is known of every source.
pub(crate) struct Slots {
    gate: GateConfig,
    generation: Generation,
    slots: Vec<Slot>,
    collisions: Vec<String>,
}

struct Slot {
    config: Arc<SourceConfig>,
    source: Arc<dyn Source>,
    discovered: Option<Arc<Discovered>>,
    discovered_at: Option<Timestamp>,
    entries: Vec<Arc<Entry>>,
    problems: Vec<String>,
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

// === impl Refresher ===

impl Refresher {
    pub(crate) fn new(
        factory: Arc<dyn SourceFactory>,
        catalogs: Arc<dyn CatalogStore>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> (Self, mpsc::UnboundedReceiver<SourceId>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let slots = Slots {
            gate: Config::empty(std::path::Path::new("")).gate,
            generation: Generation(0),
            slots: Vec::new(),
            collisions: Vec::new(),
        };
        let refresher = Self {
            factory,
            catalogs,
            clock,
            metrics,
            slots: Mutex::new(slots),
            requests,
            generation: watch::Sender::new(Generation(0)),
        };
        (refresher, receiver)
    }

    /// Serves requests to discover, each source's in order, different sources' side by side.
    pub(crate) fn run(&self, gateway: Gateway, mut requests: mpsc::UnboundedReceiver<SourceId>) {
        tokio::spawn(async move {
            let mut waiting: HashSet<SourceId> = HashSet::new();
            let mut tick = tokio::time::interval(Duration::from_secs(1));
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                tokio::select! {
                    request = requests.recv() => match request {
                        Some(source) => { waiting.insert(source); }
                        None => return,
                    },
                    _ = tick.tick() => waiting.extend(gateway.refresher().due()),
                }
                tokio::time::sleep(DEBOUNCE).await;
                while let Ok(source) = requests.try_recv() {
                    waiting.insert(source);
                }
                let asked = waiting.drain().map(|id| {
                    let gateway = gateway.clone();
                    async move { gateway.refresher().discover(&gateway, &id).await }
                });
                futures_util::future::join_all(asked).await;
            }
        });
    }

    /// Takes over `config`; gives back the sources that are no longer in it.
    pub(crate) async fn apply(
        &self,
        config: &Config,
    ) -> Result<Vec<Arc<dyn Source>>, InvalidSource> {
        let mut fresh = Vec::new();
        for source in &config.sources {
            if !self.slots.lock().runs(source) {
                let listener = Arc::new(Listener(self.requests.clone()));
                let running = self.factory.build(&source.spec, listener)?;
                let known = self.last_good(&source.spec.id).await;
                fresh.push((source.spec.id.clone(), running, known));
            }
        }
        let mut slots = self.slots.lock();
        let mut old: HashMap<SourceId, Slot> = std::mem::take(&mut slots.slots)
            .into_iter()
            .map(|slot| (slot.config.spec.id.clone(), slot))
            .collect();
        slots.gate = config.gate.clone();
        let mut closing = Vec::new();
        for source in &config.sources {
            let id = &source.spec.id;
            let previous = old.remove(id);
            let slot = match fresh.iter().position(|(fresh, ..)| fresh == id) {
                Some(at) => {
                    closing.extend(previous.map(|slot| slot.source));
                    let (_, running, known) = fresh.swap_remove(at);
                    Slot::new(Arc::new(source.clone()), running, known)
                }
                None => match previous {
                    Some(slot) => Slot { config: Arc::new(source.clone()), ..slot },
                    None => continue,
                },
            };
            slots.slots.push(slot);
        }
        closing.extend(old.into_values().map(|slot| slot.source));
        slots.reassemble_all();
        Ok(closing)
    }

    /// Asks one source, and publishes what it says if that is news.
    async fn discover(&self, gateway: &Gateway, id: &SourceId) {
        let Some((source, timeout)) = self
            .slots
            .lock()
            .find(id)
            .map(|slot| (Arc::clone(&slot.source), slot.config.spec.limits.connect_timeout))
        else {
            return;
        };
        let news = match tokio::time::timeout(timeout, source.discover()).await {
            Ok(Ok(discovered)) => Some(discovered),
            Ok(Err(error)) => {
                tracing::warn!(source = %id, detail = %error.detail, "discovery failed; what was known is kept");
                None
            }
            Err(_elapsed) => {
                tracing::warn!(source = %id, ?timeout, "discovery took too long; what was known is kept");
                None
            }
        };
        match news {
            Some(discovered) => {
                self.metrics.discovered(id, Ok(discovered.tools.len()));
                self.accept(gateway, id, discovered).await;
            }
            None => self.metrics.discovered(id, Err(())),
        }
    }

    async fn accept(&self, gateway: &Gateway, id: &SourceId, discovered: Discovered) {
        let now = self.clock.now();
        let discovered = Arc::new(discovered);
        let changed = match self.slots.lock().find(id) {
            Some(slot) => slot.discovered.as_deref() != Some(&*discovered),
            None => return,
        };
        if changed {
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
            slot.discovered_at = Some(now);
        }
        if !changed {
            return;
        }
        tracing::info!(source = %id, tools = discovered.tools.len(), "catalog refreshed");
        match serde_json::to_string(&*discovered) {
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
        let (config, gate) = {
            let mut slots = self.slots.lock();
            let gate = slots.gate.clone();
            match slots.find(id) {
                Some(slot) => (Arc::clone(&slot.config), gate),
                None => return,
            }
        };
        let assembled = assemble(&config, &gate, &discovered);
        let mut slots = self.slots.lock();
        let reloaded = slots.gate != gate;
        let gate = slots.gate.clone();
        let Some(slot) = slots.find(id) else { return };
        slot.discovered = Some(discovered);
        if reloaded || !Arc::ptr_eq(&slot.config, &config) {
            // The configuration changed meanwhile: its rules are the ones that count.
            slot.reassemble(&gate);
        } else {
            slot.put(assembled);
        }
    }

    async fn last_good(&self, id: &SourceId) -> Option<Discovered> {
        match self.catalogs.load(id).await {
            Ok(Some((json, _))) => serde_json::from_str(&json)
                .inspect_err(|error| tracing::warn!(source = %id, %error, "the stored catalog is unreadable"))
                .ok(),
            Ok(None) => None,
            Err(error) => {
                tracing::warn!(source = %id, %error, "the stored catalog could not be read");
                None
            }
        }
    }

    /// Sources that were not asked for longer than their configuration wants.
    fn due(&self) -> Vec<SourceId> {
        let now = self.clock.now();
        let slots = self.slots.lock();
        let overdue = |slot: &&Slot| {
            slot.discovered_at
                .is_some_and(|at| (now - at).to_std().is_ok_and(|age| age >= slot.config.refresh))
        };
        slots.slots.iter().filter(overdue).map(|slot| slot.config.spec.id.clone()).collect()
    }

    /// Waits until every source has told its tools, or has shown that it will not soon.
    pub(crate) async fn settle(&self, patience: Duration) {
        let answered = |report: SourceReport| match report.status.state {
            SourceState::Ready => report.discovered_at.is_some(),
            SourceState::Starting => report.status.detail.is_some(),
            SourceState::Degraded | SourceState::Stopped => true,
        };
        let all_answered = async {
            // A source's state has no signal of its own, so it is looked at.
            while !self.reports().into_iter().all(answered) {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(patience, all_answered).await.is_err() {
            tracing::debug!("some sources did not answer in time");
        }
    }

    pub(crate) fn reports(&self) -> Vec<SourceReport> {
        let slots = self.slots.lock();
        let report = |slot: &Slot| {
            let of_source =
                |text: &&String| slot.entries.iter().any(|entry| text.contains(entry.id.as_str()));
            let collisions = slots.collisions.iter().filter(of_source).cloned();
            SourceReport {
                id: slot.config.spec.id.clone(),
                kind: slot.config.kind,
                tenants: slot.config.tenants.clone(),
                status: slot.source.status(),
                tools: slot.entries.len(),
                discovered_at: slot.discovered_at,
                problems: slot.problems.iter().cloned().chain(collisions).collect(),
            }
        };
        slots.slots.iter().map(report).collect()
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

    pub(crate) fn stop(&self) -> Vec<Arc<dyn Source>> {
        self.slots.lock().slots.iter().map(|slot| Arc::clone(&slot.source)).collect()
    }
}

// === impl Slots ===

impl Slots {
    /// A snapshot of what is known, one generation later.
    pub(crate) fn build(&mut self) -> Snapshot {
        self.generation = Generation(self.generation.0 + 1);
        let entries =
            self.slots.iter().flat_map(|slot| slot.entries.iter().map(Arc::clone)).collect();
        let (catalog, collisions) = Catalog::build(self.generation, entries);
        for collision in &collisions {
            tracing::error!(%collision, "tools are left out");
        }
        self.collisions = collisions.iter().map(ToString::to_string).collect();
        let sources = self
            .slots
            .iter()
            .map(|slot| (slot.config.spec.id.clone(), Arc::clone(&slot.source)))
            .collect();
        Snapshot { catalog, sources, gate: self.gate.clone() }
    }

    fn find(&mut self, id: &SourceId) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.config.spec.id == *id)
    }

    fn runs(&self, source: &SourceConfig) -> bool {
        self.slots.iter().any(|slot| slot.config.spec == source.spec)
    }

    fn reassemble_all(&mut self) {
        let Self { gate, slots, .. } = self;
        slots.iter_mut().for_each(|slot| slot.reassemble(gate));
    }
}

impl Slot {
    fn new(config: Arc<SourceConfig>, source: Arc<dyn Source>, known: Option<Discovered>) -> Self {
        Self {
            config,
            source,
            discovered: known.map(Arc::new),
            discovered_at: None,
            entries: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn reassemble(&mut self, gate: &GateConfig) {
        if let Some(discovered) = &self.discovered {
            let assembled = assemble(&self.config, gate, discovered);
            self.put(assembled);
        }
    }

    fn put(&mut self, Assembled { entries, problems }: Assembled) {
        for problem in &problems {
            tracing::warn!(source = %self.config.spec.id, problem, "a source has a problem");
        }
        self.entries = entries;
        self.problems = problems;
    }
}
