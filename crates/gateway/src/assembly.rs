//! The entries of the catalog that the tools of one source become, under its rules and pins.

pub(crate) mod assemble;
pub(crate) mod classify;
pub(crate) mod listed;
pub(crate) mod pinned;
mod schemas;
