//! Authentication.

use serde_json::json;

use super::common::{Dialect, requires_credentials};
use crate::{CheckResult, Target, skip, skip_unless};

/// `{"alg":"none","typ":"JWT"}`, `{"sub":"conformance","exp":9999999999}`, and no signature.
const UNSIGNED: &str = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.\
                        eyJzdWIiOiJjb25mb3JtYW5jZSIsImV4cCI6OTk5OTk5OTk5OX0.";

pub(crate) async fn health(target: &Target) -> CheckResult {
    for request in [target.get("/health"), target.get("/health").with_unknown_key()] {
        target.send_once(request).await?.expect_status(&[200])?;
    }
    Ok(())
}

pub(crate) async fn required(target: &Target) -> CheckResult {
    skip_if_open(target).await?;
    target.send_once(target.get("/tools")).await?.expect_status(&[401])?;
    let body = json!({ "request": { "tool_id": "Conformance.Absent" } });
    target.send_once(target.post("/tools/call").json(&body)).await?.expect_status(&[401])
}

pub(crate) async fn unknown_key(target: &Target) -> CheckResult {
    skip_if_open(target).await?;
    target.send_once(target.get("/tools").with_unknown_key()).await?.expect_status(&[401])
}

pub(crate) async fn unsigned(target: &Target) -> CheckResult {
    skip_if_open(target).await?;
    let request = target.get("/tools").header("authorization", format!("Bearer {UNSIGNED}"));
    target.send_once(request).await?.expect_status(&[401])
}

pub(crate) async fn key_header(target: &Target) -> CheckResult {
    skip_if_open(target).await?;
    let Some(key) = target.host().key_text() else { return skip("needs a key: --key") };
    for name in [Dialect::of(target).key_header, "x-api-key"] {
        target.send(target.get("/tools").header(name, key)).await?.expect_status(&[200])?;
    }
    Ok(())
}

pub(crate) async fn ignored(target: &Target) -> CheckResult {
    skip_unless(!requires_credentials(target).await?, "the host requires credentials")?;
    target.send_once(target.get("/tools").with_unknown_key()).await?.expect_status(&[200])
}

async fn skip_if_open(target: &Target) -> CheckResult {
    skip_unless(requires_credentials(target).await?, "the host requires no credentials")
}
