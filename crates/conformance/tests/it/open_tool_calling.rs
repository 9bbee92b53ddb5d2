//! Open Tool Calling and OXP.

use toolcrib_conformance::{
    Protocol,
    broken::{BrokenHost, OpenToolCallingFault},
};

use crate::{assert_all_fail, assert_fails, assert_passes};

#[tokio::test]
async fn conforming_hosts_pass() {
    let otc = BrokenHost::otc(true, None).await;
    assert_passes(&otc, Protocol::Otc, &["otc.auth.ignored-when-off"]).await;
    let oxp = BrokenHost::oxp(true, None).await;
    assert_passes(&oxp, Protocol::Oxp, &["oxp.auth.ignored-when-off"]).await;
    let open = BrokenHost::otc(false, None).await;
    let locked = ["auth.required", "auth.unknown-key", "auth.unsigned-token", "auth.key-header"];
    assert_passes(&open, Protocol::Otc, &locked.map(|check| format!("otc.{check}"))).await;
}

#[tokio::test]
async fn every_check_of_open_tool_calling_fails_on_some_host() {
    // I-33. Only OXP has a version header.
    let faults =
        || OpenToolCallingFault::ALL.iter().filter(|it| !it.check().starts_with("version."));
    for fault in faults() {
        let host = BrokenHost::otc(true, Some(*fault)).await;
        assert_fails(&host, Protocol::Otc, fault.check()).await;
    }
    assert_all_fail(Protocol::Otc, faults().map(|fault| fault.check()));
}

#[tokio::test]
async fn every_check_of_oxp_fails_on_some_host() {
    // I-33
    for fault in OpenToolCallingFault::ALL {
        let host = BrokenHost::oxp(true, Some(*fault)).await;
        assert_fails(&host, Protocol::Oxp, fault.check()).await;
    }
    assert_all_fail(Protocol::Oxp, OpenToolCallingFault::ALL.iter().map(|fault| fault.check()));
}
