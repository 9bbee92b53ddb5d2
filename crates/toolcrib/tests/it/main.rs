//! The surfaces over a real socket: real store, real keys, tools that are closures.
//!
//! Every test uses [`TestGateway`](toolcrib_testkit::gateway::TestGateway).
#![cfg(test)]

mod agreement;
mod authz_table;
mod bridge;
mod claims;
mod connections;
mod cors;
mod denied_calls;
mod embed;
mod errors;
mod exchange;
mod explain;
mod explorer;
mod explorer_library;
mod jwt;
mod keys;
mod linked_page;
mod no_oracle;
mod offers;
mod openwop;
mod openwop2;
mod ops;
mod otc;
mod pins;
mod policy;
mod refusals;
mod resource;
mod saved;
mod sign_in;
mod support;
mod tenants;
mod timing;
mod toolsets;
