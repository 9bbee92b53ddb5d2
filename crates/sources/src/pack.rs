//! Node packs: OpenWOP packs of nodes, each of which is a tool.
//!
//! A pack is read into memory (`files`, `archive`), checked (`manifest`, `requirements`, `verify`),
//! and put together (`load`). What runs its nodes is WebAssembly (`wasm`), a tool of the
//! MCP server that the pack names or a request that the manifest declares (`remote`, `request`).
//! `source` is the running source, `library` what `toolcrib packs` works on.
//!
//! The manifest's `connector` block (RFC 0045) is read and checked in `manifest`; `actions` offers
//! what it lists in the place of the nodes.
//!
//! Invariant (I-43): code of a pack reaches nothing but its arguments and what `grants` names; a
//! module that asks for more is refused when it is loaded.

mod actions;
mod answer;
mod archive;
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

pub use self::{
    error::{PackCode, PackError},
    library::{BundledPack, InstalledPack, Library, PackReport, inspect},
};
pub(crate) use self::{
    load::check,
    source::{PackContext, PackSource},
};
