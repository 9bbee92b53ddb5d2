//! The record: events are appended, chained, signed, anchored, forwarded, exported and pruned.
//!
//! * [`Audit`] appends events and reads the event log.
//! * [`AuditTasks`] signs checkpoints, sends them to anchors, forwards events and applies retention.
//! * [`export`] writes events in the formats of other systems.

mod accept;
mod anchor;
mod append;
mod checkpoint;
mod context;
mod continuity;
mod decision;
pub mod export;
mod follow;
mod forward;
mod lone_event;
mod readiness;
mod recorded;
mod refusals;
pub mod search;
mod space;
mod tasks;
mod witnesses;

pub use self::{
    accept::{Acceptance, accept},
    append::Audit,
    follow::{FollowedRun, RunFollower},
    readiness::Readiness,
    tasks::{AuditTasks, Parts},
};
pub(crate) use self::{
    append::{CALL, READ, forbidden},
    context::DELIVERY_RETRY,
    lone_event::lone_event,
    recorded::{CallIdentity, RecordedEnd},
    refusals::MissedCall,
};
