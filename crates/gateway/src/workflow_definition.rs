//! Workflows as the operator wrote them: files that name tools to call, in an order that follows
//! from their dependencies.
//!
//! * `definition` is the file format, `files` finds and reads the files, and `plan` is one file
//!   after the checks that need no other file.
//! * `offer` decides for each snapshot which workflows can be offered: every tool of a step must be in
//!   that snapshot, and a workflow requires every scope that its steps require.

mod compat;
pub(crate) mod definition;
pub(crate) mod files;
pub(crate) mod offer;
pub(crate) mod plan;
pub(crate) mod template;
pub(crate) mod value;
