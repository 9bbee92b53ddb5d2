//! Who is let in.

use serde_json::json;

use super::wants_credentials;
use crate::conformance::{Site, Verdict, skip};

/// A token that looks like one and is none.
const BOGUS: &str = "definitely_not_a_real_key_12345";
/// `{"alg":"none","typ":"JWT"}`, `{"sub":"conformance","exp":9999999999}`, and no signature.
const UNSIGNED: &str = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.\
                        eyJzdWIiOiJjb25mb3JtYW5jZSIsImV4cCI6OTk5OTk5OTk5OX0.";

pub(in crate::conformance) async fn health(site: &Site) -> Verdict {
    site.once(site.get("/health")).await?.expect_status(&[200])?;
    let junk = site.get("/health").header("authorization", format!("Bearer {BOGUS}"));
    site.once(junk).await?.expect_status(&[200])
}

pub(in crate::conformance) async fn required(site: &Site) -> Verdict {
    wanted(site).await?;
    site.once(site.get("/tools")).await?.expect_status(&[401])?;
    let body = json!({ "request": { "tool_id": "Conformance.Absent" } });
    site.once(site.post("/tools/call").json(&body)).await?.expect_status(&[401])
}

pub(in crate::conformance) async fn unknown_key(site: &Site) -> Verdict {
    wanted(site).await?;
    let ask = site.get("/tools").header("authorization", format!("Bearer {BOGUS}"));
    site.once(ask).await?.expect_status(&[401])
}

pub(in crate::conformance) async fn unsigned(site: &Site) -> Verdict {
    wanted(site).await?;
    let ask = site.get("/tools").header("authorization", format!("Bearer {UNSIGNED}"));
    site.once(ask).await?.expect_status(&[401])
}

pub(in crate::conformance) async fn key_header(site: &Site) -> Verdict {
    wanted(site).await?;
    let Some(key) = site.host().key_text() else { return skip("needs a key: --key") };
    for name in [super::Dialect::of(site).key_header, "x-api-key"] {
        let got = site.send(site.get("/tools").header(name, key)).await?;
        got.expect_status(&[200])?;
    }
    Ok(())
}

pub(in crate::conformance) async fn ignored(site: &Site) -> Verdict {
    if wants_credentials(site).await? {
        return skip("the host wants credentials");
    }
    let ask = site.get("/tools").header("authorization", format!("Bearer {BOGUS}"));
    site.once(ask).await?.expect_status(&[200])
}

async fn wanted(site: &Site) -> Verdict {
    match wants_credentials(site).await? {
        true => Ok(()),
        false => skip("the host wants no credentials"),
    }
}
