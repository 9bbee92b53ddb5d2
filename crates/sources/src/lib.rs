//! The only crate of toolcrib that reaches outward: MCP servers over stdio and streamable HTTP,
//! services that an OpenAPI document describes, node packs, and commands of this machine.
//!
//! [`Factory`] turns descriptions into running sources. Inside, `egress` is the only module that
//! names an HTTP client and `process` the only one that starts a program; `mcp` speaks the protocol
//! over both, in both of its eras (the handshake versions up to 2025-11-25, and 2026-07-28), and
//! `openapi` calls the operations of a document. `credential` finds the credentials of calls, and
//! `account` connects the accounts of people.
//!
//! Invariant: no input of an upstream is trusted to be small, ordered, prompt or well formed.
//! Invariant: JSON stays raw until it has been checked, so that no data of an upstream is lost.
#![warn(missing_docs)]

mod account;
mod calls;
mod context;
mod credential;
mod deliver;
mod egress;
mod error;
mod exec;
mod factory;
mod forms;
#[cfg(fuzzing)]
pub mod fuzzing;
mod key_set;
mod mcp;
mod openapi;
mod pack;
mod problems;
mod process;
mod refusal;
mod status;
mod text;
mod unusable;

/// The kind of the task that supervises a source; its instance is the source's id.
pub const SUPERVISOR: &str = "source";

pub use deliver::Deliveries;
pub use egress::{Resolver, SystemResolver};
pub use factory::Factory;
pub use key_set::KeySets;
pub use pack::{BundledPack, InstalledPack, Library, PackCode, PackError, PackReport, inspect};
pub use process::{
    file_limit::raise_file_limit,
    helper::printed_by,
    launch::Launcher,
    own::{OwnProgram, OwnRun, OwnServer},
    run_child,
    support::SandboxSupport,
};
