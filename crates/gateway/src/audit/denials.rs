//! The queue of denials: recorded without making their callers wait, and counted when they are many.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use toolcrib_core::{
    event::NewEvent,
    id::{PrincipalId, TenantId},
    principal::Principal,
};

use super::{
    decision::UNKNOWN,
    events::CALL,
    recorded::CallIdentity,
    refusals::{MissedCall, Refusal, RefusalSubject, Refusals, Row},
    space::Space,
    writer::Writer,
};
use crate::{answer_time, background::BackgroundTasks, snapshot::Miss};

/// Records denials without delaying their callers.
pub struct Denials {
    shared: Arc<Shared>,
    queue: mpsc::Sender<DenialQueueItem>,
    space: Arc<Space>,
}

/// The state that the queue shares with the task behind it.
struct Shared {
    writer: Arc<Writer>,
    refusals: Refusals,
}

enum DenialQueueItem {
    /// Records one refusal.
    Refused(Box<Refusal>),
    /// Records the counts of repeated refusals.
    Repeated(Vec<Row>),
    /// Reports that everything before it was stored or has failed.
    Settle(oneshot::Sender<()>),
}

/// Refusals that may wait for the writer, of about 1 KiB each; further ones are counted.
const MAX_QUEUED: usize = 1024;
/// Duration of a batch of denials, whatever its content. A reader of events waits for the batch
/// after a denial, and its size must not be visible in the waiting time.
const BATCH_TIME: Duration = Duration::from_millis(25);

impl Denials {
    pub(super) fn new(
        writer: Arc<Writer>,
        space: Arc<Space>,
        background: &BackgroundTasks,
    ) -> Self {
        let (queue, queued) = mpsc::channel(MAX_QUEUED);
        let shared = Arc::new(Shared { writer, refusals: Refusals::default() });
        let (queued, writes) = (Arc::new(Queue::new(queued)), Arc::clone(&shared));
        background
            .until_done("denials", move || write_denials(Arc::clone(&queued), Arc::clone(&writes)));
        Self { shared, queue, space }
    }

    /// Whether a call refused with `code` gets separate events. If not, it has been counted.
    pub(crate) fn admits(&self, call: &CallIdentity, code: &str) -> bool {
        if self.admits_of(&call.tenant, &call.principal) {
            return true;
        }
        let subject = RefusalSubject::of(call.entry.id.as_str(), code);
        self.count(Refusal {
            tenant: call.tenant.clone(),
            principal: call.principal.clone(),
            action: CALL.into(),
            subject,
            at: self.shared.writer.clock().now(),
        });
        false
    }

    /// Records a denial without making its caller wait. The cost is the same for every tool and
    /// reason.
    fn deny_to(&self, principal: &Principal, action: &str, subject: RefusalSubject) {
        let refusal = Refusal {
            tenant: principal.tenant.clone(),
            principal: principal.id.clone(),
            action: action.into(),
            subject,
            at: self.shared.writer.clock().now(),
        };
        match self.admits_of(&refusal.tenant, &refusal.principal) {
            true => self.enqueue(refusal),
            false => self.count(refusal),
        }
    }

    /// Whether a refusal of `principal` gets separate events; never while space is low.
    fn admits_of(&self, tenant: &TenantId, principal: &PrincipalId) -> bool {
        let now = self.shared.writer.clock().monotonic_nanos();
        !self.space.is_low() && self.shared.refusals.admit(tenant, principal, now)
    }

    /// Records a denial of an action other than a tool call.
    pub fn denied(&self, principal: &Principal, action: &str, resource: &str, reason: &str) {
        self.deny_to(principal, action, RefusalSubject::of(resource, reason));
    }

    /// Records the denial of a request to `route`, a template; the principal does not have `scope`.
    pub fn denied_without(&self, principal: &Principal, scope: &str, route: &str) {
        let subject = RefusalSubject::Known {
            resource: route.into(),
            reason: "scope".into(),
            missing: Some(scope.into()),
        };
        self.deny_to(principal, scope, subject);
    }

    /// Records that a name matched no tool that the caller may use.
    pub(crate) fn missed(
        &self,
        principal: &Principal,
        action: &str,
        miss: Miss,
        call: Option<MissedCall>,
    ) {
        answer_time::note();
        self.deny_to(principal, action, RefusalSubject::Miss(Box::new((miss, call))));
    }

    /// Records a request for an unknown name. The name is the caller's text, so it is left out.
    pub(crate) fn unknown(&self, principal: &Principal, action: &str) {
        answer_time::note();
        self.denied(principal, action, UNKNOWN, UNKNOWN);
    }

    /// Records a request to `route` (a template) without valid credentials.
    pub fn unauthenticated(&self, route: &str) {
        self.stranger(route, "unauthenticated");
    }

    /// Records a refused request to `route` (a template) of an unknown sender. Such requests belong
    /// to no tenant: one event for each second and route, and a count of the others.
    pub(crate) fn stranger(&self, route: &str, reason: &str) {
        let (Ok(tenant), Ok(principal)) =
            (TenantId::parse(TenantId::OPERATOR), PrincipalId::parse("anonymous"))
        else {
            return;
        };
        let subject = RefusalSubject::of(route, reason);
        let at = self.shared.writer.clock().now();
        let refusal = Refusal { tenant, principal, action: "http:request".into(), subject, at };
        let now = self.shared.writer.clock().monotonic_nanos();
        match !self.space.is_low() && self.shared.refusals.admit_stranger(route, now) {
            true => self.enqueue(refusal),
            false => self.count(refusal),
        }
    }

    fn enqueue(&self, refusal: Refusal) {
        let item = DenialQueueItem::Refused(Box::new(refusal));
        if let Err(error) = self.queue.try_send(item)
            && let DenialQueueItem::Refused(refusal) = error.into_inner()
        {
            self.count(*refusal);
        }
    }

    fn count(&self, refusal: Refusal) {
        self.shared.writer.metrics.refusal_counted();
        if self.space.is_low() {
            self.shared.writer.metrics.unrecorded();
        }
        self.shared.refusals.count(refusal, 1, self.shared.writer.clock().monotonic_nanos());
    }

    /// Records the counts of refusals after their counting window. While space is low they wait.
    pub(crate) fn flush_counted_refusals(&self) {
        if self.space.is_low() {
            return;
        }
        let Ok(place) = self.queue.try_reserve() else { return };
        let rows = self.shared.refusals.take(self.shared.writer.clock().monotonic_nanos(), false);
        if !rows.is_empty() {
            place.send(DenialQueueItem::Repeated(rows));
        }
    }

    /// Refills the buckets of `tenant`, so that its next refusals get separate events.
    pub(crate) fn reset_refusals(&self, tenant: &TenantId) {
        self.shared.refusals.reset(tenant);
    }

    /// Waits until the queued denials have been stored or have failed, so that a denied caller that
    /// then reads events finds its denial.
    pub(crate) async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        if self.queue.send(DenialQueueItem::Settle(done)).await.is_ok() && settled.await.is_err() {
            tracing::error!("the queue of denials stopped early");
        }
    }

    /// Stores everything queued or counted, at shutdown.
    pub(crate) async fn flush(&self) {
        let rows = self.shared.refusals.take(self.shared.writer.clock().monotonic_nanos(), true);
        // The queue closes with the record, so it takes them.
        self.queue.send(DenialQueueItem::Repeated(rows)).await.ok();
        self.settle().await;
    }
}

impl Shared {
    /// Records `refused` and `rows`. Refusals that cannot be stored are counted and retried later.
    async fn write(&self, refused: Vec<Refusal>, rows: Vec<Row>) {
        let mut events: Vec<NewEvent> =
            refused.iter().flat_map(|refusal| self.writer.events.of_refusal(refusal)).collect();
        events.extend(self.writer.events.of_rows(&rows));
        let Err(error) = self.writer.append(&events).await else { return };
        tracing::error!(%error, "denials could not be recorded one by one; they are counted");
        let now = self.writer.clock().monotonic_nanos();
        for refusal in refused {
            self.writer.metrics.unrecorded();
            self.refusals.count(refusal, 1, now);
        }
        for Row { first, count, .. } in rows {
            self.refusals.count(first, count, now);
        }
    }
}

/// The pending denials. A single task writes them.
type Queue = tokio::sync::Mutex<mpsc::Receiver<DenialQueueItem>>;

async fn write_denials(queued: Arc<Queue>, shared: Arc<Shared>) {
    let mut queued = queued.lock().await;
    let mut batch = Vec::new();
    while queued.recv_many(&mut batch, MAX_QUEUED).await > 0 {
        let end = Instant::now() + BATCH_TIME;
        let (mut refused, mut rows, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        for item in batch.drain(..) {
            match item {
                DenialQueueItem::Refused(refusal) => refused.push(*refusal),
                DenialQueueItem::Repeated(counted) => rows.extend(counted),
                DenialQueueItem::Settle(done) => waiting.push(done),
            }
        }
        if !refused.is_empty() || !rows.is_empty() {
            shared.write(refused, rows).await;
            tokio::time::sleep_until(end).await;
        }
        for done in waiting {
            // A reader that has left needs no reply.
            done.send(()).ok();
        }
    }
}
