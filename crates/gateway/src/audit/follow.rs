//! Follows the events of a run, for streams.

use std::{collections::HashSet, sync::Arc, time::Duration};

use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    event::{EventBody, EventQuery, RunEvent},
    id::RunId,
    principal::Principal,
};

use super::append::Audit;
use crate::{
    authn::Authenticator,
    listeners::{ListenerPermit, TooManyListeners},
};

/// How often the record is read for new events. They may come from other processes.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long a run must be idle before it counts as finished. Between two steps, a run may be idle
/// for a moment.
const GRACE: Duration = Duration::from_secs(1);

/// A run to follow.
#[derive(Debug, Clone)]
pub struct FollowedRun {
    /// The run, in the tenant of the principal that follows it.
    pub id: RunId,
    /// The scope that shows the run to the principal; `None` if the run is its own. The principal sees
    /// events only as long as it holds the scope.
    pub scope: Option<RouteScope>,
    /// Whether the run has finished. Undecided approvals do not keep such a run open.
    pub has_ended: bool,
}

/// Receives the events of one run, in order.
pub struct RunFollower {
    audit: Arc<Audit>,
    authenticator: Authenticator,
    principal: Arc<Principal>,
    run: FollowedRun,
    /// The position of the last event read, in the log of the tenant.
    after: Option<u64>,
    /// The ids of the open calls and approvals. Sessions do not count: they may be open for as long
    /// as the client that makes the calls.
    open: HashSet<String>,
    _permit: ListenerPermit,
}

impl Audit {
    /// Follows `run` in the tenant of `principal`, from its first event on. The caller checks that
    /// the principal may see the run.
    ///
    /// # Errors
    /// [`TooManyListeners`].
    pub fn follow(
        self: &Arc<Self>,
        authenticator: &Authenticator,
        principal: &Arc<Principal>,
        run: FollowedRun,
    ) -> Result<RunFollower, TooManyListeners> {
        let _permit = self.streams.add(principal)?;
        Ok(RunFollower {
            audit: Arc::clone(self),
            authenticator: authenticator.clone(),
            principal: Arc::clone(principal),
            run,
            after: None,
            open: HashSet::new(),
            _permit,
        })
    }
}

impl RunFollower {
    /// Returns whether the principal may still see the run: its credentials are valid, and it holds
    /// the scope that shows the run.
    pub async fn renew(&mut self) -> bool {
        let Ok(principal) = self.authenticator.renew(&self.principal).await else { return false };
        self.principal = principal;
        self.run.scope.is_none_or(|scope| scope.is_held_by(&self.principal))
    }

    /// Waits for the next events, at least one. Returns `None` if every call and approval of the
    /// run is closed, the principal lost its access to the run, or the gateway closes.
    pub async fn next(&mut self) -> Option<Vec<RunEvent>> {
        let mut idle = Duration::ZERO;
        loop {
            if !self.renew().await {
                return None;
            }
            let query = EventQuery {
                tenant: Some(self.principal.tenant.clone()),
                run: Some(self.run.id.clone()),
                after: self.after,
                ..EventQuery::default()
            };
            // After an error, the events are read the next time.
            if let Ok(events) = self.audit.read_stored(query).await
                && let Some(last) = events.last()
            {
                self.after = Some(last.position);
                let events: Vec<_> = events.into_iter().map(|logged| logged.event).collect();
                events.iter().for_each(|event| self.count(&event.body));
                return Some(events);
            }
            if self.open.is_empty() && idle >= GRACE {
                return None;
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => idle += INTERVAL,
                () = self.audit.ended() => return None,
            }
        }
    }

    /// Updates the open calls and approvals by `event`.
    fn count(&mut self, event: &EventBody) {
        match event {
            EventBody::ToolCalled(called) => self.open(&called.call_id),
            EventBody::ToolReturned(returned) => self.close(&returned.call_id),
            EventBody::InterruptRequested(_) if self.run.has_ended => {}
            EventBody::InterruptRequested(requested) => self.open(&requested.key),
            EventBody::ApprovalGranted(granted) => {
                let missing = granted
                    .quorum_progress
                    .is_some_and(|progress| progress.granted < progress.required);
                if !missing {
                    self.close(&granted.gate_id);
                }
            }
            EventBody::ApprovalRejected(rejected) => self.close(&rejected.gate_id),
            EventBody::ApprovalOverridden(overridden) => self.close(&overridden.gate_id),
            // No other type opens or closes anything.
            _ => {}
        }
    }

    fn open(&mut self, id: &impl ToString) {
        self.open.insert(id.to_string());
    }

    fn close(&mut self, id: &impl ToString) {
        self.open.remove(&id.to_string());
    }
}
