//! toolcrib between real upstream servers and real clients, as published on npm and PyPI.
//!
//! `cargo xtask test` installs them and says where they are. Without it, each test is
//! skipped with a message; under `CI=true` that is a failure.
#![cfg(test)]

mod accounts;
mod bridge;
mod conformance;
mod description;
mod embedded_ui;
mod guides;
mod issuer;
mod openwop;
mod published_api;
#[path = "../it/support/recorder.rs"]
mod recorder;
mod rig;
mod sandbox;
mod stderr;
mod suites;
mod surfaces;
mod third_party;
mod tool_calling;
