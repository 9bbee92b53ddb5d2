//! Sources that several servers with one store have in common. One of them discovers each source
//! and compares its pins; the others load the catalog that it stored.
//!
//! Invariant: a server that does not lead a source writes neither its pins nor its catalog. So a
//! changed tool is judged once, and all servers offer the same tools.

use std::sync::Arc;

use toolcrib_config::SourceConfig;
use toolcrib_core::{canonical::Digest, id::SourceId, source::Source, store::StoreError};

use super::Supply;

/// The state of a source until the leading server has stored its tools.
const WAITS: &str = "waits for the server that discovers this source";

// === impl Supply ===

impl Supply {
    /// Whether this server discovers `source` itself: it is alone, leads the source, or the source
    /// is local to this server.
    pub(super) async fn leads(&self, source: &SourceConfig) -> Result<bool, StoreError> {
        match self.has_leader(source) {
            true => self.services.storage.leads(&duty(source)).await,
            false => Ok(true),
        }
    }

    /// Whether one of several servers discovers `source` for all.
    fn has_leader(&self, source: &SourceConfig) -> bool {
        self.services.storage.is_shared() && source.spec.upstream.is_common()
    }

    /// Leaves the discovery of `source` to another server, which may reach its upstream.
    pub(super) async fn resign(&self, source: &SourceConfig) {
        if self.has_leader(source)
            && let Err(error) = self.services.storage.resign(&duty(source)).await
        {
            tracing::debug!(source = %source.spec.id, %error, "the discovery was not left to another server");
        }
    }

    /// Calls [`follow`](Self::follow) if another server can discover the source. Its upstream is
    /// unreachable from here.
    pub(super) async fn follow_if_common(
        self: &Arc<Self>,
        config: &SourceConfig,
        source: &Arc<dyn Source>,
    ) {
        if self.has_leader(config) {
            self.follow(&config.spec.id, source).await;
        }
    }

    /// Loads the catalogs that other servers have stored since.
    pub(super) fn follow_catalogs(self: &Arc<Self>) {
        let followed: Vec<_> = {
            let slots = self.slots.lock();
            let followed =
                slots.slots.iter().filter(|slot| !slot.leads && self.has_leader(&slot.config));
            followed.map(|slot| slot.config.spec.id.clone()).collect()
        };
        for id in followed {
            self.schedule(&id);
        }
    }

    /// Loads the stored catalog of `id`, with the pins that its leader has decided.
    pub(super) async fn follow(self: &Arc<Self>, id: &SourceId, source: &Arc<dyn Source>) {
        let now = self.services.clock.now();
        let (before, config) = match self.slots.lock().find(id) {
            Some(slot) if Arc::ptr_eq(&slot.source, source) => {
                slot.leads = false;
                (slot.listed.clone(), Arc::clone(&slot.config))
            }
            Some(_) | None => return,
        };
        // A source compares each call with the last list that it knows (I-104), and a connector
        // finds the operation of a call there.
        if source.status().state.is_ready()
            && let Err(error) = source.discover().await
        {
            tracing::warn!(source = %id, reason = error.detail, "the tools could not be listed here");
        }
        let Some(listed) = self.last_good(&config.spec).await.map(Arc::new) else {
            if let Some(slot) = self.slots.lock().find(id) {
                slot.failed(now, WAITS.to_owned());
            }
            return;
        };
        if before.is_none_or(|before| !before.is_same(&listed)) {
            let tools = listed.offers.len();
            if self.pin_and_publish(&config, listed, None).await {
                tracing::info!(source = %id, tools, "catalog taken over from another server");
            }
        }
        if let Some(slot) = self.slots.lock().find(id) {
            slot.succeeded(now);
        }
    }
}

/// The work of discovering `source`. If servers have different upstreams under one id, as during an
/// upgrade, their work differs.
fn duty(source: &SourceConfig) -> String {
    let upstream = Digest::of(source.spec.upstream.identity().as_bytes());
    format!("discovery {} {upstream}", source.spec.id)
}
