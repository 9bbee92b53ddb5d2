//! MCP over a real socket and over byte streams: raw messages against the rules of each revision,
//! and an independent client of both eras.
#![cfg(test)]

mod calls;
mod cancel;
mod client;
mod connections;
mod hostile;
mod input;
mod legacy;
mod list;
mod modern;
mod news;
mod pages;
mod progress;
mod revoked;
mod sessions;
mod stdio;
mod support;
mod toolsets;
