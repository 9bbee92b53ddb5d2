#![doc = include_str!("../README.md")]
//!
//! ## Modules
//!
//! One [`Gateway`] lists and calls tools for every surface.
//!
//! * `pipeline` has the ten steps that every call passes, in `pipeline/call.rs`.
//! * `supply` keeps the catalog current and publishes a [`Snapshot`] after each change; `assembly` makes
//!   the entries of one source.
//! * [`approvals`] is the step that requires a human decision, and the responses of approvers.
//! * [`connections`] are the accounts that people connect to sources; `own_lists` are the tools that
//!   these accounts have.
//! * [`audit`] appends events, and signs, anchors, forwards and prunes the record; [`export`] writes
//!   it in other formats.
//! * `workflow_definition` reads workflows and offers them; `workflow` runs them, whose steps pass the
//!   pipeline as calls of their caller.
//! * [`trace`](mod@trace) has the spans of requests and calls.
//! * [`authn`] identifies callers, `policy` restricts calls further, and [`explain`] gives the reasons
//!   for a decision.
//! * [`provider`] is the interface to the tools of a program that embeds the gateway.
//! * [`probe`](mod@probe) has tools that exist only for tests of a running server.
//!
//! The gateway holds its storage and its sources behind the traits of `toolcrib_core`; it uses
//! neither SQL, nor HTTP, nor processes.
#![warn(missing_docs)]

pub mod answer_time;
pub mod approvals;
mod arguments_hash;
mod assembly;
pub mod audit;
pub mod authn;
mod background;
mod breaker;
pub mod bridge;
mod builder;
pub mod client_sessions;
pub mod clock;
pub mod connections;
mod editing;
pub mod explain;
pub mod export;

mod freshness;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gateway;
mod health;
mod ids;
mod input_forms;
mod keys;
mod limits;
pub mod listeners;
mod live_runs;
mod measure;
pub mod metrics;

mod named_tools;
mod own_lists;
mod pipeline;
mod policy;
pub mod probe;
pub mod provider;
mod reauthorize;
mod reload;
mod role_view;
pub mod saved;
mod sign_ins;
mod snapshot;
mod source_report;
mod supply;
mod tool_ref;
pub mod trace;
mod workflow;
mod workflow_definition;

pub use arguments_hash::ArgumentsHash;
pub use builder::GatewayBuilder;
pub use editing::{EditRefusal, Proposal, WriteReport, edit_event};
pub use gateway::Gateway;
pub use health::{Check, CheckState};
pub use keys::key_event;
pub use limits::{
    quota::{QuotaReport, Quotas},
    rate_limit::{self, MemoryLimiter},
};
pub use measure::{
    ApprovalsDiagnosis, BuildDiagnosis, CatalogDiagnosis, ConfigurationDiagnosis, Diagnosis,
    RecordDiagnosis, SourcesDiagnosis, StoreDiagnosis,
};
pub use named_tools::RoleReach;
pub use pipeline::{
    CallReport, CallRequest, FoundTool, Interaction, RequestCharge, idempotency, session,
};
pub use reload::{ReloadError, ReloadPlan};
pub use role_view::{RoleReport, RoleTool};
pub use snapshot::{Miss, Snapshot, ToolsetReport};
pub use source_report::{
    BreakerReport, BreakerState, CallCounts, RefreshRefusal, SourceError, SourceLatency,
    SourceLoad, SourceReport, StderrRefusal,
};
pub use supply::{
    Preview, PreviewError, PreviewedSource, PreviewedTool, RoleChange, RuleProposal, Statement,
    Supply, ToolChange, UnknownTools, pins,
};
pub use tool_ref::{CatalogScope, ToolRef};
pub use toolcrib_config as config;
pub use toolcrib_core as core;
pub use toolcrib_tasks as tasks;
pub use workflow::Workflows;
