//! The pipeline that every call passes, by whatever surface it came.
//!
//! `call.rs` contains the nine steps in order; the other modules are what the steps use.

pub(crate) mod arguments_hash;
pub(crate) mod breaker;
mod call;
mod dispatch;
pub mod idempotency;
mod idempotent_call;
pub(crate) mod input;
mod interaction;
pub mod miss;
pub(crate) mod quota;
pub mod rate_limit;
pub(crate) mod reauthorize;
mod request;
pub mod session;
pub(crate) mod shared_limiter;
mod target;

use std::sync::Arc;

use self::{
    idempotency::Idempotency, quota::Quotas, rate_limit::RateLimits, session::Interactions,
};
pub use self::{
    interaction::Interaction,
    request::{CallReport, CallRequest},
};
use crate::{approvals::Approvals, audit::Audit, background::Services, workflow::live::LiveRuns};

/// Runs calls.
pub(crate) struct Pipeline {
    pub(crate) services: Services,
    pub(crate) audit: Arc<Audit>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) limits: Arc<RateLimits>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) interactions: Arc<Interactions>,
    pub(crate) idempotency: Arc<Idempotency>,
    /// The workflow calls of this process.
    pub(crate) runs: Arc<LiveRuns>,
}
