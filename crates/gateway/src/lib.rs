//! One [`Gateway`] that lists and calls tools for every surface.
//!
//! * [`call`](mod@call) is the pipeline that every call passes: nine steps, readable top to bottom.
//! * [`approvals`] is the step that asks a human, and how humans answer.
//! * [`session`](mod@session) brackets the calls that belong together.
//! * [`probe`](mod@probe) has tools that exist for tests of a running server alone.
//! * [`list`](mod@list) is what a caller sees: bytes made once per kind of caller.
//! * [`toolsets`] are named parts of the catalog.
//! * [`config`] is the operator's file: what was typed, checked, and what it means.
//! * [`explain`] tells why a call would be let through or not; [`policy`] restricts calls further.
//! * [`keeper`] signs, anchors, forwards and prunes the record, and [`export`] is how it is written.
//! * [`authn`] tells who is calling.
//! * `workflow` runs workflows, whose steps pass the gate as their caller.
//! * [`provider`] is the seam to the tools of a program that embeds the gateway.
//!
//! The gateway holds its store and its sources behind the traits of `toolcrib_core`; it names
//! neither SQL, nor HTTP, nor processes.
#![warn(missing_docs)]

pub mod approvals;
pub mod assemble;
pub mod authn;
mod background;
mod breaker;
pub mod call;
pub mod clock;
pub mod config;
mod dispatch;
pub mod explain;
pub mod export;
mod files;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gateway;
pub mod idempotency;
pub mod keeper;
pub mod limits;
pub mod list;
pub mod metrics;
pub mod miss;
pub mod pins;
pub mod policy;
pub mod probe;
pub mod provider;
mod quota;
pub mod readiness;
mod record;
mod refresh;
mod report;
pub mod scopes;
pub mod session;
mod space;
pub mod toolsets;
mod workflow;

pub use background::{Check, CheckState};
pub use breaker::{BreakerReport, BreakerState};
pub use gateway::{Gateway, GatewayBuilder, Snapshot, Stores};
pub use quota::{MAX_UNSETTLED, QuotaReport};
pub use report::{SourceLoad, SourceReport, StderrRefusal};
pub use toolcrib_core as core;
pub use toolcrib_tasks as tasks;
