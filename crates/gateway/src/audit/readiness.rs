//! Whether the record can account for calls.

use std::sync::atomic::{AtomicBool, Ordering};

use chrono::SubsecRound as _;
use parking_lot::Mutex;
use toolcrib_core::{
    clock::Timestamp,
    event::{EventBody, EventLog, RecordResumed},
    id::TenantId,
};

use super::lone_event;

/// The current problem of the record.
#[derive(Debug, Default)]
pub struct Readiness {
    reason: Mutex<Option<String>>,
    /// Whether calls cannot be accounted for, so that they must not run.
    refuses_calls: AtomicBool,
    /// Whether the last event could not be stored.
    cannot_store: AtomicBool,
    outage: Mutex<Option<Outage>>,
}

/// Events that could not be stored, since the last event about this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outage {
    since: Timestamp,
    failed: u64,
}

// === impl Readiness ===

impl Readiness {
    /// Sets or clears the problem. It is public, so it names no tenant, no tool and no path.
    pub fn set(&self, reason: Option<String>) {
        *self.reason.lock() = reason;
    }

    /// The current problem of the record, if it has one.
    pub fn reason(&self) -> Option<String> {
        if self.cannot_store.load(Ordering::Acquire) && !self.refuses_calls() {
            return Some("events cannot be stored; calls are refused".to_owned());
        }
        self.reason.lock().clone()
    }

    pub(crate) fn set_refuses_calls(&self, refuses: bool) {
        self.refuses_calls.store(refuses, Ordering::Release);
    }

    pub(crate) fn refuses_calls(&self) -> bool {
        self.refuses_calls.load(Ordering::Acquire)
    }

    /// Notes that events could not be stored.
    pub(crate) fn failed(&self, now: Timestamp) {
        let mut outage = self.outage.lock();
        let outage = outage.get_or_insert(Outage { since: now.trunc_subsecs(3), failed: 0 });
        outage.failed = outage.failed.saturating_add(1);
        if !self.cannot_store.swap(true, Ordering::AcqRel) {
            tracing::error!("events cannot be stored: `/readyz` fails until one is stored");
        }
    }

    /// Notes that events were stored.
    pub(crate) fn stored(&self) {
        if self.cannot_store.load(Ordering::Relaxed)
            && self.cannot_store.swap(false, Ordering::AcqRel)
        {
            tracing::warn!("events are stored again");
        }
    }

    /// Records the end of an outage, which also detects that end without calls. Writes only after
    /// an event could not be stored.
    pub(super) async fn resume(&self, log: &dyn EventLog, now: Timestamp) {
        let outage = *self.outage.lock();
        // In a store that is gone, an event would be lost.
        let (Some(outage), false) = (outage, self.refuses_calls()) else { return };
        let Ok(tenant) = TenantId::parse(TenantId::OPERATOR) else { return };
        let body = RecordResumed { since: outage.since, failed: outage.failed };
        let event = lone_event(tenant, EventBody::RecordResumed(body), now);
        if let Err(error) = log.append(&[event]).await {
            tracing::debug!(%error, "events still cannot be stored");
            return;
        }
        let mut current = self.outage.lock();
        // Later failures require another event.
        if *current == Some(outage) {
            *current = None;
            self.stored();
        }
    }
}
