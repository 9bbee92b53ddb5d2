//! OpenWOP v2.

use toolcrib_conformance::{
    Protocol,
    broken::{BrokenHost, Openwop2Fault},
};

use crate::{assert_all_fail, assert_fails, assert_passes};

/// The conforming host does not advertise `mcp` and has no rate limit.
const SKIPPED: [&str; 2] = ["openwop2.discovery.mcp", "openwop2.errors.rate-limit"];

#[tokio::test]
async fn a_conforming_host_passes() {
    assert_passes(&BrokenHost::openwop2(None).await, Protocol::Openwop2, &SKIPPED).await;
}

#[tokio::test]
async fn every_check_fails_on_some_host() {
    // I-33
    for fault in Openwop2Fault::ALL {
        let host = BrokenHost::openwop2(Some(*fault)).await;
        assert_fails(&host, Protocol::Openwop2, fault.check()).await;
    }
    assert_all_fail(Protocol::Openwop2, Openwop2Fault::ALL.iter().map(|fault| fault.check()));
}
