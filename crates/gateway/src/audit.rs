//! The record: events are appended, chained, signed, anchored, forwarded, exported and pruned.
//!
//! * [`Audit`] appends events and reads the event log.
//! * [`AuditTasks`] signs checkpoints, sends them to anchors, forwards events and applies retention.
//! * [`csv`] writes found events as a table; [`export`](crate::export) writes them in other formats.

mod accept;
mod anchor;
mod append;
mod checkpoint;
mod context;
mod continuity;
pub mod csv;
mod decision;
mod denials;
mod events;
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
mod writer;

pub use self::{
    accept::{Acceptance, accept},
    append::Audit,
    denials::Denials,
    follow::{FollowedRun, RunFollower},
    readiness::Readiness,
    tasks::{AuditTasks, Parts},
};
pub(crate) use self::{
    context::DELIVERY_RETRY,
    events::{CALL, READ, forbidden},
    lone_event::lone_event,
    recorded::{CallIdentity, RecordedEnd, StartedCall},
    refusals::MissedCall,
};
