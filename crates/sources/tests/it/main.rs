//! MCP sources against real children, real sockets, and two kinds of peers: the hand-written faulty
//! one and one made with the official SDK; and node packs. Everything goes through the public factory.
#![cfg(test)]

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
