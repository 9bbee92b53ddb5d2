//! End-to-end tests of the program, with the real binary, files, sockets and child processes.
#![cfg(test)]

mod support;

mod approvals;
mod bodies;
mod breaker;
mod chain;
mod completions;
mod config;
mod conformance;
mod connector;
mod credentials;
mod demo;
mod explain;
mod generate;
mod hash;
mod help;
mod host_extension;
mod idempotency;
mod import;
mod input;
mod keys;
mod kills;
mod lifecycle;
mod listener;
mod local;
mod lock;
mod packs;
mod pages;
mod pins;
mod progress;
mod quota;
mod record;
mod reload;
mod remote;
mod secrets;
mod sources;
mod space;
mod stdio;
mod tables;
mod test_routes;
mod toolsets;
mod upstream;
mod watch;
mod witness;
mod workflow;
