#![doc = include_str!("../README.md")]
//!
//! Invariant: lists are accepted in both of their shapes, the bare array and `{"tools": […]}`.
//! Invariant: a host without a catalog gives `None`, never an error, and so does an unknown tool.
//! Invariant: the body of a response of another generation is not read.
//! Invariant: the key is sent only to the configured address. Redirects are not followed, and
//! responses are bounded.

mod client;
mod error;
mod generation;
mod read;
mod tools;

pub use client::Client;
pub use error::{Error, Refusal};
pub use generation::{Generation, InvalidVersion, Version, Versions};
pub use read::{AnnotatedTool, Annotations, annotated_tool, compact_tool, listed, tool};
pub use toolcrib_core::{
    compact::CompactToolDescriptor as CompactTool,
    credential::Secret,
    descriptor::{SourceKind, ToolDescriptor},
};
pub use tools::Tools;
