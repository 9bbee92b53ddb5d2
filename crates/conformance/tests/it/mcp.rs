//! MCP.

use toolcrib_conformance::{
    Protocol,
    broken::{BrokenHost, McpEras, McpFault},
};

use crate::{assert_all_fail, assert_fails, assert_passes};

/// The checks that need a revision with a handshake.
const HANDSHAKE_CHECKS: [&str; 14] = [
    "mcp.initialize.shape",
    "mcp.initialize.version",
    "mcp.initialize.unknown-version",
    "mcp.handshake.ping",
    "mcp.handshake.version-header",
    "mcp.handshake.no-version-header",
    "mcp.handshake.get-stream",
    "mcp.session.id",
    "mcp.session.unique",
    "mcp.session.missing",
    "mcp.session.unknown",
    "mcp.session.delete",
    "mcp.session.not-a-credential",
    "mcp.session.foreign",
];

/// The checks that need the stateless revision.
const STATELESS_CHECKS: [&str; 27] = [
    "mcp.discover.answered",
    "mcp.discover.shape",
    "mcp.discover.own-version",
    "mcp.discover.server-info",
    "mcp.discover.caching",
    "mcp.version.unsupported",
    "mcp.version.supported",
    "mcp.headers.version-mismatch",
    "mcp.headers.version-missing",
    "mcp.headers.method-mismatch",
    "mcp.headers.method-missing",
    "mcp.headers.name-mismatch",
    "mcp.headers.name-missing",
    "mcp.headers.name-encoded",
    "mcp.headers.session-ignored",
    "mcp.meta.version",
    "mcp.meta.capabilities",
    "mcp.meta.client-info",
    "mcp.rpc.result-type",
    "mcp.rpc.server-info",
    "mcp.rpc.unknown-method-status",
    "mcp.rpc.removed-methods",
    "mcp.http.post-only",
    "mcp.tools.param-headers",
    "mcp.tools.caching",
    "mcp.call.capability",
    "mcp.subscriptions.acknowledged",
];

#[tokio::test]
async fn conforming_hosts_pass() {
    let both = BrokenHost::mcp(McpEras::Both, None).await;
    assert_passes(&both, Protocol::Mcp, &["mcp.http.post-only"]).await;
    let stateless = BrokenHost::mcp(McpEras::Stateless, None).await;
    assert_passes(&stateless, Protocol::Mcp, &HANDSHAKE_CHECKS).await;
    let handshake = BrokenHost::mcp(McpEras::Handshake, None).await;
    assert_passes(&handshake, Protocol::Mcp, &STATELESS_CHECKS).await;
}

#[tokio::test]
async fn every_check_fails_on_some_host() {
    // I-33
    for fault in McpFault::ALL {
        let host = BrokenHost::mcp(McpEras::Both, Some(*fault)).await;
        assert_fails(&host, Protocol::Mcp, fault.check()).await;
    }
    let stateless = BrokenHost::mcp(McpEras::Stateless, Some(McpFault::GetIsJson)).await;
    assert_fails(&stateless, Protocol::Mcp, "http.post-only").await;
    let all = McpFault::ALL.iter().map(|fault| fault.check());
    assert_all_fail(Protocol::Mcp, all.chain(["http.post-only"]));
}
