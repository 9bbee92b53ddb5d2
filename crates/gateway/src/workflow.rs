//! Workflows: files that name tools to call, in an order that follows from what needs what.
//!
//! * `definition` is what was typed, `files` finds and reads it, `plan` is what it means, checked as
//!   far as one file can be checked alone.
//! * `offer` decides, for each snapshot anew, which workflows can be offered: every tool of a step
//!   must be in that snapshot, and a workflow asks for all that its steps ask for.
//! * `source` is a [`Source`](toolcrib_core::source::Source) like any other; `run` calls the steps,
//!   through the gate, as the caller.
//! * `live` knows the runs of this process, `resume` goes on with those of a dead one.
//!
//! Invariant (I-7): who may call a workflow may call each of its steps, in the same snapshot.
//! Invariant: no step is called in any other way than a caller could call it.

mod compat;
mod definition;
mod drive;
mod failure;
mod files;
mod live;
mod offer;
mod plan;
mod resume;
mod run;
mod source;
mod template;
mod value;

pub(crate) use self::{
    live::{LiveRuns, StepContext},
    offer::{Flow, Flows, flows, offer},
    resume::follow,
    source::{Home, SnapshotWorkflows, WorkflowSource},
};
