//! Tests of the gateway through its real interfaces: events are read back from a log, sources are
//! values of this process.
#![cfg(test)]

mod accounts;
mod approvals;
mod authn;
mod background;
mod breaker;
mod connections;
mod credentials;
mod idempotency;
mod late_calls;
mod metrics;
mod named_tools;
mod own_lists;
mod pins;
mod pipeline;
mod probe;
mod quota;
mod refresh;
mod reload;
mod search;
mod session;
mod snapshot;
mod support;
mod workflow;
