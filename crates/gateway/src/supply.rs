//! The supply of tools: sources, their tools, the pins of the tools, and the published snapshots.
//!
//! Invariant (I-25): no request waits for anything here, and no source for another. After a failed
//! discovery the last good catalog stays in effect. It is also stored, so that a restart starts
//! with it.

mod configure;
mod leader;
pub mod pins;
mod preview;
mod proposals;
mod refresh;
mod slots;
mod toolsets;

use std::{
    cell::OnceCell,
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use toolcrib_config::{Config, GateConfig, SourceConfig};
use toolcrib_core::{
    authorize::Authorizer,
    catalog::Generation,
    descriptor::SourceKind,
    id::{SourceId, TenantId, ToolId},
    lint::{self, Finding},
    pin::PinStore,
    principal::{Principal, PrincipalKey},
    source::{Source, SourceFactory, SourceListener, StderrLine},
    store::{CatalogStore, StoreError},
};

use self::{
    pins::{ApprovedPin, PinError, PinReport, PinReview, PinWish},
    slots::Slots,
    toolsets::ReportedReferences,
};
pub(crate) use self::{
    preview::holder as role_holder, proposals::own_scope_rules, slots::ToolLocation,
};
pub use self::{
    preview::{
        Preview, PreviewError, PreviewedSource, PreviewedTool, RoleChange, ToolChange, UnknownTools,
    },
    proposals::{RuleProposal, Statement},
};
use crate::{
    assembly::classify::classify,
    audit::Audit,
    background::Services,
    own_lists::OwnLists,
    snapshot::{Snapshot, Snapshots},
    source_report::{RefreshRefusal, SourceReport, StderrRefusal},
};

/// How often a command that waits for sources checks their state.
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);
/// The shortest time between two discoveries of a source that callers request: a discovery can be a
/// hundred requests to its upstream.
const REFRESH_PAUSE: Duration = Duration::from_secs(10);

/// The sources of a gateway and their tools. Publishes snapshots.
pub struct Supply {
    services: Services,
    audit: Arc<Audit>,
    snapshots: Arc<Snapshots>,
    authorizer: Arc<dyn Authorizer>,
    own_lists: Arc<OwnLists>,
    factory: Arc<dyn SourceFactory>,
    catalogs: Arc<dyn CatalogStore>,
    pins: Arc<dyn PinStore>,
    /// The sources of the embedding program.
    natives: Vec<SourceConfig>,
    /// The number of changes of pins at the last comparison.
    pin_changes: AtomicU64,
    /// The number of changes of stored catalogs at the last check.
    catalog_changes: AtomicU64,
    /// The entries of allow-lists that have been reported, and whether a report is in progress.
    reported: ReportedReferences,
    reporting: AtomicBool,
    slots: Mutex<Slots>,
    /// Held while sources are connected for a preview.
    previewing: Arc<tokio::sync::Semaphore>,
    /// Counts requests for a snapshot.
    wanted: AtomicU64,
    requests: mpsc::UnboundedSender<SourceId>,
}

/// The parts to build a [`Supply`] from.
pub(crate) struct SupplyParts {
    pub(crate) services: Services,
    pub(crate) audit: Arc<Audit>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) own_lists: Arc<OwnLists>,
    pub(crate) factory: Arc<dyn SourceFactory>,
    pub(crate) natives: Vec<SourceConfig>,
    pub(crate) gate: GateConfig,
}

/// Passes the notifications of a source on to the refresh task.
struct Listener(mpsc::UnboundedSender<SourceId>);

impl SourceListener for Listener {
    fn changed(&self, source: &SourceId) {
        // The receiver lives as long as the gateway.
        if self.0.send(source.clone()).is_err() {
            tracing::debug!(%source, "a change of a source came after the gateway stopped");
        }
    }
}

impl Supply {
    /// Creates a supply without sources. Also returns the requests to discover, for
    /// [`start`](Self::start).
    pub(crate) fn new(parts: SupplyParts) -> (Arc<Self>, mpsc::UnboundedReceiver<SourceId>) {
        // A source announces at most one change a second, of 32 bytes, and the receiver never
        // waits.
        let (requests, receiver) = mpsc::unbounded_channel();
        let supply = Self {
            catalogs: parts.services.storage.catalogs(),
            pins: parts.services.storage.pins(),
            services: parts.services,
            audit: parts.audit,
            snapshots: parts.snapshots,
            authorizer: parts.authorizer,
            own_lists: parts.own_lists,
            factory: parts.factory,
            natives: parts.natives,
            pin_changes: AtomicU64::new(0),
            catalog_changes: AtomicU64::new(0),
            reported: ReportedReferences::default(),
            reporting: AtomicBool::new(false),
            slots: Mutex::new(Slots::new(parts.gate)),
            previewing: Arc::new(tokio::sync::Semaphore::new(1)),
            wanted: AtomicU64::new(0),
            requests,
        };
        (Arc::new(supply), receiver)
    }

    /// Requests a discovery of `source`; the result is published if it differs.
    pub fn refresh(&self, source: &SourceId) {
        Listener(self.requests.clone()).changed(source);
    }

    /// Requests a discovery of the source `id` of `tenant`, at most one every ten seconds.
    ///
    /// # Errors
    /// [`RefreshRefusal`].
    pub fn refresh_now(&self, tenant: &TenantId, id: &str) -> Result<(), RefreshRefusal> {
        let source = {
            let now = self.services.clock.now();
            let mut slots = self.slots.lock();
            slots.request_refresh(tenant, id, now, REFRESH_PAUSE)?
        };
        self.refresh(&source);
        Ok(())
    }

    /// Waits until every source has listed its tools or has failed to, at most for `limit`. For
    /// commands that finish; a server never waits.
    pub async fn settle(&self, limit: Duration) {
        self.wait_until(limit, Slots::are_settled).await;
    }

    /// Waits until the parts that are not offered are counted for every connected upstream, at most
    /// for `limit`.
    pub async fn settle_counts(&self, limit: Duration) {
        self.wait_until(limit, Slots::are_counted).await;
    }

    async fn wait_until(&self, limit: Duration, is_reached: fn(&Slots) -> bool) {
        let reached = async {
            // The state of a source has no signal, so it is polled.
            while !is_reached(&self.slots.lock()) {
                tokio::time::sleep(SETTLE_INTERVAL).await;
            }
        };
        if tokio::time::timeout(limit, reached).await.is_err() {
            tracing::debug!("some sources did not answer in time");
        }
    }

    /// Notifies of published snapshots, and of changed lists of accounts; after a change, lists may
    /// differ.
    pub fn changes(&self) -> watch::Receiver<Generation> {
        self.snapshots.changes()
    }

    /// The state of every source, in the order of the configuration.
    pub fn reports(&self) -> Vec<SourceReport> {
        self.slots.lock().reports(None, &self.services.metrics)
    }

    /// The state of the sources that exist for `tenant`. If rules hide tools of a source from the
    /// tenant, their number and problems are left out.
    pub fn reports_for(&self, tenant: &TenantId) -> Vec<SourceReport> {
        self.slots.lock().reports(Some(tenant), &self.services.metrics)
    }

    /// The last lines that children of the source `id` wrote to stderr. They may contain arguments
    /// of calls, so they are for the operator (no `tenant`), or for a tenant that is alone on the
    /// source.
    ///
    /// # Errors
    /// [`StderrRefusal`].
    pub fn stderr(
        &self,
        tenant: Option<&TenantId>,
        id: &str,
    ) -> Result<Vec<StderrLine>, StderrRefusal> {
        self.slots.lock().stderr(tenant, id)
    }

    /// Findings about the descriptions that upstreams give of their tools, quarantined ones
    /// included. `kind` selects one kind of source.
    pub fn findings(&self, kind: Option<SourceKind>) -> Vec<Finding> {
        let offers: Vec<_> = {
            let slots = self.slots.lock();
            let wanted = slots.slots.iter().filter(|slot| {
                !slot.config.kind.traits().is_in_gateway
                    && kind.is_none_or(|kind| slot.config.kind == kind)
            });
            wanted
                .filter_map(|slot| Some((Arc::clone(&slot.config), slot.listed.clone()?)))
                .collect()
        };
        let mut findings = Vec::new();
        for (config, listed) in offers {
            for tool in listed.discovered() {
                if let Some(id) = pins::offer_id(&config, &tool.key())
                    && classify(&config, &tool.name).hide != Some(true)
                {
                    findings.extend(lint::upstream(id.as_str(), &tool));
                }
            }
        }
        findings
    }

    /// The pins of the tools that exist for `tenant`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn pins(&self, tenant: &TenantId) -> Result<Vec<PinReport>, StoreError> {
        self.review(&self.services.config(), tenant).list().await
    }

    /// The pin of one tool that exists for `tenant`, by id or wire name, with its documents.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn pin(
        &self,
        tenant: &TenantId,
        tool: &str,
    ) -> Result<Option<PinReport>, StoreError> {
        self.review(&self.services.config(), tenant).show(tool).await
    }

    /// Approves the forms of tools with these digests for `principal`, atomically. Afterwards the
    /// tools are offered.
    ///
    /// # Errors
    /// [`PinError`]; in that case every pin is unchanged.
    pub async fn approve_pins(
        self: &Arc<Self>,
        principal: &Principal,
        wanted: &[PinWish],
    ) -> Result<Vec<ApprovedPin>, PinError> {
        let config = self.services.config();
        let review = self.review(&config, &principal.tenant);
        let now = self.services.now();
        let by = PrincipalKey::of(principal);
        let (approved, events) = review.approve(wanted, Some(&by), now).await?;
        self.audit.append_with_retry(events).await;
        self.reload_pins().await;
        Ok(approved)
    }

    fn review<'a>(&'a self, config: &'a Config, tenant: &'a TenantId) -> PinReview<'a> {
        PinReview { sources: &config.sources, pins: &*self.pins, tenant: Some(tenant) }
    }

    /// Entries of allow-lists that match no tool, as `toolset "NAME": ENTRY`. Complete once every
    /// source has listed its tools ([`settle`](Self::settle)).
    pub fn unresolved_references(&self) -> Vec<String> {
        let line = |(toolset, reference)| format!("toolset \"{toolset}\": {reference}");
        toolsets::unresolved(&self.snapshots.load()).into_iter().map(line).collect()
    }

    /// Finds a tool that no snapshot offers.
    pub(crate) fn locate(&self, name: &str) -> ToolLocation {
        self.slots.lock().locate(name)
    }

    /// For each source: whether it is connected and its tools could be listed.
    pub(crate) fn connections(&self) -> Vec<(SourceId, bool)> {
        self.slots.lock().slots.iter().map(|slot| slot.connection()).collect()
    }

    /// Builds a snapshot of the current tools and publishes it. Sources that change together share
    /// one.
    pub(crate) fn publish(&self) {
        let request = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        // Locked while building, to keep publications in order.
        let mut slots = self.slots.lock();
        if slots.served >= request {
            return;
        }
        slots.served = self.wanted.load(Ordering::Acquire);
        let mut snapshot: Snapshot = slots.build(&self.authorizer);
        snapshot.own = self.own_lists.over(&snapshot.sources);
        self.services.metrics.generation(snapshot.catalog.generation().0);
        self.services.metrics.quarantined(slots.quarantined());
        let ids: OnceCell<HashSet<&ToolId>> = OnceCell::new();
        let entries = snapshot.catalog.entries();
        self.services.metrics.retain_tools(|id| {
            ids.get_or_init(|| entries.iter().map(|entry| &entry.id).collect()).contains(id)
        });
        self.snapshots.publish(snapshot);
    }

    /// Closes every source.
    pub(crate) async fn close(&self) {
        let sources: Vec<Arc<dyn Source>> =
            self.slots.lock().slots.iter().map(|slot| Arc::clone(&slot.source)).collect();
        futures_util::future::join_all(sources.iter().map(|source| source.close())).await;
    }
}
