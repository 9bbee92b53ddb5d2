//! MCP over streamable HTTP: the stateless revision 2026-07-28, and the revisions that begin with a
//! handshake (2025-03-26 to 2025-11-25).
//!
//! A server may speak either or both. What can be looked at in both is looked at in each that it
//! speaks; checks of one that it does not speak are skipped.

mod access;
mod call;
mod discover;
mod handshake;
mod headers;
mod http;
mod message;
mod rpc;
mod sessions;
mod tools;
mod wire;

use super::{Protocol, Site, Suite};

pub(super) const SUITE: Suite = Suite {
    protocol: Protocol::Mcp,
    path: "/mcp",
    served: |site| Box::pin(is_served(site)),
    checks: &[
        discover::CHECKS,
        headers::CHECKS,
        rpc::CHECKS,
        http::CHECKS,
        tools::CHECKS,
        call::CHECKS,
        access::CHECKS,
        handshake::CHECKS,
        sessions::CHECKS,
    ],
};

/// The stateless revision.
const STATELESS: &str = "2026-07-28";
/// The revisions with a handshake, newest first.
const HANDSHAKE: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// A revision that there never was.
const NO_VERSION: &str = "1900-01-01";
/// A tool that no server has.
const ABSENT: &str = "conformance-absent-5f1d0c93";

async fn is_served(site: &Site) -> bool {
    for ask in [wire::discover().ask(site), wire::initialize(HANDSHAKE[0]).ask(site)] {
        let Ok(got) = site.once(ask.by_first()).await else { continue };
        let is_locked = got.status() == 401 && got.header("www-authenticate").is_some();
        if is_locked || message::of(&got).is_some() {
            return true;
        }
    }
    false
}
