//! The pipeline of every call, from every surface.
//!
//! `call.rs` contains the ten steps in order; the other modules support the steps.

mod approval;
mod call;
mod connection;
mod credential;
mod dispatch;
pub mod idempotency;
mod idempotent_call;
mod interaction;
mod late;
mod recorded_run;
mod request;
pub mod session;
pub(crate) mod step_caller;
mod target;

use std::sync::Arc;

use toolcrib_core::credential::CredentialResolver;

use self::{idempotency::Idempotency, session::Interactions};
pub use self::{
    interaction::Interaction,
    request::{CallReport, CallRequest, FoundTool, RequestCharge},
};
use crate::{
    approvals::Approvals,
    audit::Audit,
    background::Services,
    connections::Connections,
    limits::{quota::Quotas, rate_limit::RateLimits},
    live_runs::LiveRuns,
};

/// Runs calls.
pub(crate) struct Pipeline {
    pub(crate) services: Services,
    pub(crate) audit: Arc<Audit>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) limits: Arc<RateLimits>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) credentials: Arc<dyn CredentialResolver>,
    pub(crate) connections: Connections,
    pub(crate) interactions: Arc<Interactions>,
    pub(crate) idempotency: Arc<Idempotency>,
    /// The workflow calls of this process.
    pub(crate) runs: Arc<LiveRuns>,
}
