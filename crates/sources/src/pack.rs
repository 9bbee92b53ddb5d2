//! Node packs: OpenWOP packs of nodes, each of which becomes a tool.
//!
//! A pack is read into memory (`files`, `archive`), checked (`manifest`, `requirements`, `verify`),
//! and assembled (`load`). Its nodes are WebAssembly code (`wasm`), tools of the MCP server that
//! the pack names, or requests that the manifest declares (`remote`, `request`); `engine` selects
//! one of these. `source` is the running source; `library` manages installed packs for `toolcrib
//! packs`.
//!
//! The manifest's `connector` block (RFC 0045) is read and checked in `manifest`; `actions` then
//! offers its actions in place of the nodes.
//!
//! Invariant (I-43): code of a pack has access only to its arguments and to the capabilities in
//! `grants`. A module that imports more is rejected when it is loaded.

mod actions;
mod answer;
mod archive;
mod context;
mod engine;
mod error;
mod files;
mod library;
mod load;
mod manifest;
mod remote;
mod request;
mod requirements;
mod source;
mod verify;
#[cfg(feature = "wasm")]
mod wasm;

pub(crate) use self::{context::PackContext, library::check, source::PackSource};
pub use self::{
    error::{PackCode, PackError},
    library::{BundledPack, InstalledPack, Library, PackReport, inspect},
};
