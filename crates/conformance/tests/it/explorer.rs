//! The embedded explorer.

use toolcrib_conformance::{
    Protocol,
    broken::{BrokenHost, ExplorerFault as F, ExplorerSetup as S},
};

use crate::{assert_all_fail, assert_fails, assert_passes};

/// Checks that need a host that does not run tools.
const DISABLED_CHECKS: [&str; 5] = [
    "explorer.list.when-disabled",
    "explorer.call.disabled",
    "explorer.validate.when-disabled",
    "explorer.order.disabled-before-unknown",
    "explorer.order.disabled-before-auth",
];

#[tokio::test]
async fn conforming_hosts_pass() {
    let usual = BrokenHost::explorer(S::Usual, None).await;
    assert_passes(&usual, Protocol::Explorer, &DISABLED_CHECKS).await;

    let guarded = BrokenHost::explorer(S::Guarded, None).await;
    // The protection in front of the explorer rejects requests first.
    let [list, call, validate, unknown, auth] = DISABLED_CHECKS;
    let (junk, before) = ("explorer.auth.invalid-ignored", "explorer.order.unknown-before-auth");
    let skipped = [list, call, validate, junk, unknown, auth, before];
    assert_passes(&guarded, Protocol::Explorer, &skipped).await;

    let free = BrokenHost::explorer(S::Free, None).await;
    let locks = ["explorer.auth.required", "explorer.auth.unknown-key", "explorer.auth.body"];
    let skipped = [&[list, call, validate][..], &locks, &[unknown, auth, before]].concat();
    assert_passes(&free, Protocol::Explorer, &skipped).await;

    let disabled = BrokenHost::explorer(S::Disabled, None).await;
    let calls = ["success", "content", "trace", "not-json", "tool-failure", "failure-text"];
    let mut skipped: Vec<String> =
        calls.iter().map(|name| format!("explorer.call.{name}")).collect();
    skipped.push("explorer.call.unknown".to_owned());
    skipped.extend(locks.iter().chain(&[before]).map(|id| (*id).to_owned()));
    assert_passes(&disabled, Protocol::Explorer, &skipped).await;
}

#[tokio::test]
async fn every_check_fails_on_some_host() {
    // I-33
    for fault in F::ALL {
        let setups: &[S] = match fault {
            F::FlagLies => &[S::Usual, S::Disabled],
            F::DisabledHidesTools
            | F::OtherWords
            | F::DisabledInPageOnly
            | F::DisabledValidation
            | F::UnknownBeforeDisabled
            | F::AuthBeforeDisabled => &[S::Disabled],
            F::DetailOpen => &[S::Guarded],
            _ => &[S::Usual],
        };
        for setup in setups {
            let host = BrokenHost::explorer(*setup, Some(*fault)).await;
            assert_fails(&host, Protocol::Explorer, fault.check()).await;
        }
    }
    assert_all_fail(Protocol::Explorer, F::ALL.iter().map(|fault| fault.check()));
}
