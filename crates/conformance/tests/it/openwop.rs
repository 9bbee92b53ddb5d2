//! OpenWOP.

use toolcrib_conformance::{
    Protocol,
    broken::{BrokenHost, OpenwopFault},
};

use crate::{assert_all_fail, assert_fails, assert_passes};

/// The conforming host has no rate limit and advertises the compact view.
const SKIPPED: [&str; 2] = ["openwop.errors.rate-limit", "openwop.compact.unadvertised"];

#[tokio::test]
async fn a_conforming_host_passes() {
    assert_passes(&BrokenHost::openwop(None).await, Protocol::Openwop, &SKIPPED).await;
}

#[tokio::test]
async fn every_check_fails_on_some_host() {
    // I-33
    for fault in OpenwopFault::ALL {
        let host = BrokenHost::openwop(Some(*fault)).await;
        assert_fails(&host, Protocol::Openwop, fault.check()).await;
    }
    assert_all_fail(Protocol::Openwop, OpenwopFault::ALL.iter().map(|fault| fault.check()));
}
