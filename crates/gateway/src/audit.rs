//! The record: events are appended, chained, signed, anchored, forwarded, exported and pruned.
//!
//! * [`Audit`] appends events and reads the event log.
//! * [`Keeper`] signs checkpoints, sends them to anchors, forwards events and applies retention.
//! * [`export`] writes events in the formats of other systems.

mod accept;
mod anchor;
mod append;
mod checkpoint;
mod context;
mod continuity;
pub mod export;
mod forward;
mod keeper;
mod readiness;
mod refusals;
mod space;

pub use self::{
    accept::{Acceptance, accept},
    append::Audit,
    keeper::{Keeper, Parts},
    readiness::Readiness,
};
pub(crate) use self::{
    append::{CALL, CallIdentity, READ, forbidden},
    context::DELIVERY_RETRY,
    refusals::MissedCall,
};
