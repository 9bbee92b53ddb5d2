//! Pins over a store that fails, and over two processes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use toolcrib_core::{
    clock::Timestamp,
    id::SourceId,
    pin::{EarlierForms, Pin, PinApproval, PinBook, PinChoice, PinForm, PinStore},
    principal::PrincipalKey,
    source::{Discovered, DiscoveredOffer, SourceFactory},
    store::StoreError,
};
use toolcrib_gateway::{Gateway, GatewayBuilder, pins::PinWish};
use toolcrib_store::{MemoryCatalogs, MemoryStorage};

use crate::support::{Factory, Log, eventually, offer, one_source, parse, principal, storage};

/// Pins that fail on demand.
struct Flaky {
    pins: Arc<dyn PinStore>,
    broken: AtomicBool,
}

impl Flaky {
    fn check(&self) -> Result<&dyn PinStore, StoreError> {
        match self.broken.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("told so".to_owned())),
            false => Ok(&*self.pins),
        }
    }
}

#[async_trait]
impl PinStore for Flaky {
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError> {
        self.check()?.book(source).await
    }
    async fn pins(&self, source: &SourceId) -> Result<Vec<Pin>, StoreError> {
        self.check()?.pins(source).await
    }
    async fn pin(&self, source: &SourceId, tool: &str) -> Result<Option<Pin>, StoreError> {
        self.check()?.pin(source, tool).await
    }
    async fn trust(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.check()?.trust(source, forms, at).await
    }
    async fn note(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<Vec<String>, StoreError> {
        self.check()?.note(source, forms, at).await
    }
    async fn forget(&self, source: &SourceId, tools: Vec<String>) -> Result<(), StoreError> {
        self.check()?.forget(source, tools).await
    }
    async fn approve(
        &self,
        choices: Vec<PinChoice>,
        at: Timestamp,
        by: Option<PrincipalKey>,
    ) -> Result<PinApproval, StoreError> {
        self.check()?.approve(choices, at, by).await
    }
}

struct Kept {
    log: Log,
    storage: MemoryStorage,
    pins: Arc<Flaky>,
}

impl Kept {
    fn new() -> Self {
        let log = Log::default();
        let mut storage = storage(&log, &MemoryCatalogs::default());
        let (pins, broken) = (Arc::clone(&storage.pins), AtomicBool::new(false));
        let pins = Arc::new(Flaky { pins, broken });
        storage.pins = Arc::clone(&pins) as Arc<dyn PinStore>;
        Self { log, storage, pins }
    }

    /// Starts a process on the shared store, whose source offers `discovered`.
    async fn start(&self, discovered: Discovered) -> (Gateway, Arc<Factory>) {
        let factory = Arc::new(Factory::default());
        *factory.offers.lock() = Some(Ok(discovered));
        let storage = Arc::new(self.storage.clone());
        let sources = Arc::clone(&factory) as Arc<dyn SourceFactory>;
        let builder = GatewayBuilder::new(parse(&one_source("")), storage, sources);
        let gateway = builder.start().await.unwrap();
        gateway.supply().settle(std::time::Duration::from_secs(10)).await;
        (gateway, factory)
    }

    fn drifts(&self) -> usize {
        self.log.recorded().iter().filter(|event| event.starts_with("drifted")).count()
    }
}

fn described(text: &str) -> Discovered {
    let Discovered { offers: tools, .. } = offer(&["echo"]);
    let description = Some(text.to_owned());
    let tools = tools
        .into_iter()
        .map(|tool| DiscoveredOffer { description: description.clone(), ..tool.into_offer() });
    Discovered { offers: tools.map(Into::into).collect(), ..Discovered::default() }
}

fn listed(gateway: &Gateway) -> usize {
    gateway.snapshot().view(&principal("t", &["*"])).entries().len()
}

/// I-52
#[tokio::test]
async fn nothing_is_offered_while_the_pins_cannot_be_read() {
    let kept = Kept::new();
    let (gateway, _) = kept.start(described("a")).await;
    assert_eq!(listed(&gateway), 1);
    gateway.close().await;

    kept.pins.broken.store(true, Ordering::SeqCst);
    let (gateway, _) = kept.start(described("a")).await;
    assert_eq!(listed(&gateway), 0, "it was approved, but nobody knows");
    let report = &gateway.supply().reports()[0];
    assert_eq!(report.quarantined, 1);
    assert!(report.problems[0].contains("pins cannot be read"), "{:?}", report.problems);
    kept.pins.broken.store(false, Ordering::SeqCst);
    eventually("it is offered again", || listed(&gateway) == 1).await;

    // Approvals that were read stay valid: they cannot be revoked.
    kept.pins.broken.store(true, Ordering::SeqCst);
    assert_eq!(listed(&gateway), 1);
}

/// I-52: a changed tool is quarantined even while the change cannot be stored.
#[tokio::test]
async fn a_change_counts_although_it_cannot_be_noted_and_is_told_once() {
    let kept = Kept::new();
    let (gateway, factory) = kept.start(described("a")).await;
    let source = Arc::clone(&factory.built.lock()[0]);
    kept.pins.broken.store(true, Ordering::SeqCst);
    *source.offers.lock() = Ok(described("b"));
    gateway.supply().refresh(&"s".parse().unwrap());
    eventually("it is gone", || listed(&gateway) == 0).await;
    assert_eq!(kept.drifts(), 0, "the note comes first");
    kept.pins.broken.store(false, Ordering::SeqCst);
    eventually("it is told", || kept.drifts() == 1).await;

    // Another process sees the same change, and reports nothing.
    let (other, _) = kept.start(described("b")).await;
    assert_eq!((listed(&other), kept.drifts()), (0, 1));
    // An approval in one process takes effect in the other.
    let pins = other.supply().pins(&"t".parse().unwrap()).await.unwrap();
    let digest = &pins[0].seen.as_ref().unwrap().digest;
    let digest = toolcrib_core::canonical::Digest::parse(digest).unwrap();
    let tool = pins[0].tool_id.to_string();
    let wanted = [PinWish { tool, digest, earlier: EarlierForms::Replace }];
    other.supply().approve_pins(&principal("t", &["*"]), &wanted).await.unwrap();
    assert_eq!(listed(&other), 1, "at once");
    eventually("the first one follows", || listed(&gateway) == 1).await;
}
