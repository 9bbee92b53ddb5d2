//! Builds the catalog entries of the tools of one source, under its rules and pins.

pub(crate) mod assemble;
pub(crate) mod classify;
pub(crate) mod listed;
pub(crate) mod pinned;
mod schemas;
