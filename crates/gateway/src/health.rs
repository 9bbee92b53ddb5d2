//! The health checks of a gateway, for probes.

use std::{
    borrow::Cow,
    sync::{Arc, atomic::Ordering},
};

use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    catalog::Entry,
    scope::{Grant, Scope},
};
use toolcrib_tasks::TaskState;

use crate::gateway::Gateway;

/// One health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The part of the gateway.
    pub name: &'static str,
    /// Whether the part works.
    pub state: CheckState,
    /// The problem in a public text, without names of sources, tenants or tools.
    pub reason: Option<Cow<'static, str>>,
}

/// The states of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckState {
    /// It works.
    Ok,
    /// A part has failed, but callers are served.
    Degraded,
    /// Callers cannot be served.
    Failed,
}

// === impl Check ===

impl Check {
    /// Creates a passed check.
    pub fn ok(name: &'static str) -> Self {
        Self { name, state: CheckState::Ok, reason: None }
    }

    /// Creates a check of a part with a problem. `reason` is a public text.
    pub fn not(
        name: &'static str,
        state: CheckState,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name, state, reason: Some(reason.into()) }
    }
}

impl CheckState {
    /// Returns the state as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// The state of the parts that every call depends on. Sources are left out: an unavailable
    /// source affects only its own tools.
    pub fn health(&self) -> Vec<Check> {
        let keys = match self.authenticator().is_available() {
            true => Check::ok("keys"),
            false => Check::not("keys", CheckState::Failed, "keys cannot be read"),
        };
        let worst = self.tasks().reports().into_iter().map(|report| report.state).max();
        let tasks = match worst {
            None | Some(TaskState::Running) => Check::ok("tasks"),
            Some(TaskState::Recovering | TaskState::Restarting) => {
                Check::not("tasks", CheckState::Degraded, "a background task failed")
            }
            Some(TaskState::Ended) => {
                Check::not("tasks", CheckState::Failed, "a background task stopped")
            }
        };
        let disk = match self.audit().is_low_on_space() {
            false => Check::ok("disk"),
            true => Check::not("disk", CheckState::Degraded, "the store is low on disk space"),
        };
        let record = match self.audit().readiness().reason() {
            None => Check::ok("record"),
            Some(reason) => Check::not("record", CheckState::Failed, reason),
        };
        let drain = match self.inner.draining.load(Ordering::Relaxed) {
            false => Check::ok("drain"),
            true => Check::not("drain", CheckState::Failed, "the server is about to stop"),
        };
        vec![keys, tasks, disk, record, drain]
    }

    /// Reports the gateway as not ready from now on, so that a proxy sends requests to other servers.
    /// Requests are served as before.
    pub fn drain(&self) {
        self.inner.draining.store(true, Ordering::Relaxed);
    }

    /// Grants of roles that match no scope of a tool or a route, as `role "NAME": GRANT`. Complete
    /// once every source has listed its tools ([`Supply::settle`](crate::Supply::settle)).
    pub fn unmatched_grants(&self) -> Vec<String> {
        let snapshot = self.snapshot();
        let entries = snapshot.catalog.entries();
        let required = |entry: &Arc<Entry>| entry.tool.auth.clone()?.scopes;
        let mut scopes: Vec<Scope> = entries.iter().filter_map(required).flatten().collect();
        // Approvers need the scope of a rule, or that of the configuration.
        scopes.extend(entries.iter().filter_map(|entry| entry.consent.scope.clone()));
        scopes.push(self.config().approvals.respond_scope.clone());
        let routes = RouteScope::ALL.iter().map(|scope| Scope::parse(scope.as_str()));
        scopes.extend(routes.filter_map(Result::ok));
        let matches = |grant: &Grant| scopes.iter().any(|scope| grant.covers(scope));
        let of_role = |(name, grants): (String, Vec<Grant>)| {
            let unmatched = grants.into_iter().filter(|grant| !matches(grant));
            unmatched.map(|grant| format!("role \"{name}\": {grant}")).collect::<Vec<_>>()
        };
        self.authenticator().roles().into_iter().flat_map(of_role).collect()
    }
}
