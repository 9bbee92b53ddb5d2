//! MCP over streamable HTTP: the stateless revision 2026-07-28, and the revisions with a handshake
//! (2025-03-26 to 2025-11-25).
//!
//! A server may support either or both. Checks that apply to both run in each that it supports;
//! checks of an unsupported one are skipped.

mod auth;
mod call;
mod common;
mod discover;
mod handshake;
mod headers;
mod http;
mod message;
mod rpc;
mod sessions;
mod tools;
mod wire;

use crate::{Protocol, Suite, Target};

pub(crate) const SUITE: Suite = Suite {
    protocol: Protocol::Mcp,
    path: "/mcp",
    is_served: |target| Box::pin(is_served(target)),
    checks: &[
        discover::CHECKS,
        headers::CHECKS,
        rpc::CHECKS,
        http::CHECKS,
        tools::CHECKS,
        call::CHECKS,
        auth::CHECKS,
        handshake::CHECKS,
        sessions::CHECKS,
    ],
};

async fn is_served(target: &Target) -> bool {
    for rpc in [wire::discover(), wire::initialize(common::HANDSHAKE[0])] {
        let Ok(response) = rpc.send(target).await else { continue };
        let is_locked = response.status() == 401 && response.header("www-authenticate").is_some();
        if is_locked || message::reply(&response).is_some() {
            return true;
        }
    }
    false
}
