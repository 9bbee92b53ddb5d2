//! Which refusal comes first (F3, F7).

use serde_json::json;

use super::{ABSENT, disabled, is_guarded, is_refused, not_found, path, running, unknown_call};
use crate::conformance::{Check, Site, Verdict, check, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "explorer.order.disabled-before-unknown",
        Must,
        "F3, precondition checks",
        "a host that does not run tools says so of tools that there are not",
        disabled_before_unknown
    ),
    check!(
        "explorer.order.disabled-before-auth",
        Must,
        "F3, precondition checks; F4 FR-3",
        "it says so before it asks for credentials",
        disabled_before_auth
    ),
    check!(
        "explorer.order.unknown-before-auth",
        Must,
        "F3, precondition checks; F4 FR-3",
        "a call of a tool that there is not is 404 before credentials are asked for",
        unknown_before_auth
    ),
    check!(
        "explorer.order.unknown-before-body",
        Must,
        "F3 and F7, precondition checks",
        "a tool that there is not is 404 whatever the body",
        unknown_before_body
    ),
];

async fn disabled_before_unknown(site: &Site) -> Verdict {
    disabled(site).await?;
    unknown_call(site).await?.expect_status(&[403])
}

async fn disabled_before_auth(site: &Site) -> Verdict {
    disabled(site).await?;
    not_guarded(site).await?;
    let ask = site.post(&path(ABSENT, "/call")).json(&json!({}));
    let got = site.once(ask).await?;
    // What comes before "unknown" is looked at by the check above.
    got.expect(got.status() != 401, "status 403", "status 401")
}

async fn unknown_before_auth(site: &Site) -> Verdict {
    running(site).await?;
    not_guarded(site).await?;
    // Without a lock there is no order.
    super::auth::locked(site).await?;
    let ask = site.post(&path(ABSENT, "/call")).json(&json!({}));
    not_found(&site.once(ask).await?, ABSENT)
}

async fn unknown_before_body(site: &Site) -> Verdict {
    for (rest, runs) in [("/validate", true), ("/call", super::runs(site).await?)] {
        if !runs {
            continue;
        }
        let ask = site.post(&path(ABSENT, rest)).header("content-type", "application/json");
        let got = site.once(ask.body("not json").by_first()).await?;
        if is_refused(&got) && !site.host().has_key() {
            return skip("the host wants a key: --key");
        }
        not_found(&got, ABSENT)?;
    }
    Ok(())
}

/// Skips where what stands around the explorer asks for credentials before it is reached.
async fn not_guarded(site: &Site) -> Verdict {
    match is_guarded(site).await? {
        true => skip("the host keeps everything from strangers, and refuses them first"),
        false => Ok(()),
    }
}
