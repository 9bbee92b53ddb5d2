#![doc = include_str!("../README.md")]
//!
//! ## Where to start
//!
//! This crate performs no I/O, reads no clock, draws no randomness and needs no runtime. Time and
//! randomness arrive as arguments, and every outside system is a trait that another crate
//! implements. The decisions here can therefore be tested as tables and properties.
//!
//! Start with [`descriptor::ToolDescriptor`] (the description of a tool), [`catalog::Catalog`] (the
//! immutable snapshot that every request reads), [`catalog::Permit`] (the proof that a caller may
//! use a tool) and [`source::Source`] (a provider of tools).
#![warn(missing_docs)]

pub mod approval;
pub mod arguments;
pub mod authorize;
pub mod bridge;
pub mod budget;
pub mod call;
pub mod canonical;
pub mod catalog;
pub mod clock;
pub mod compact;
pub mod credential;
pub mod descriptor;
pub mod egress;
pub mod event;
pub mod hex;
mod http_spec;
pub mod id;
pub mod idempotency;
pub mod json;
pub mod key_set;
mod keys;
pub mod limit;
pub mod lint;
pub mod names;
pub mod number;
pub mod offer;
pub mod people;
pub mod pin;
mod pointer;
pub mod principal;
pub mod quota;
pub mod record;
pub mod redact;
mod saved;
pub mod schema;
pub mod scope;
pub mod share;
pub mod source;
pub mod store;
mod store_error;
pub mod suggest;
mod tenants;
pub mod text;
mod text_types;
pub mod trace;
