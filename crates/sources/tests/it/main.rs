//! Tests of MCP sources with real child processes and sockets, and of node packs. MCP peers are a
//! hand-written faulty one and one made with the official SDK. All tests use the public factory.
#![cfg(test)]

mod accounts;
mod answers;
mod bounds;
mod cancel;
mod changes;
mod credentials;
mod discover;
mod eras;
mod http;
mod input;
mod logs;
mod packs;
mod process;
mod progress;
mod results;
mod rig;
