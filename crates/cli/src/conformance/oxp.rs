//! OXP 1.0, as its OpenAPI document and its SDK have it.

use serde_json::{Value, json};

use super::{
    Check, Protocol, Site, Suite, Verdict,
    calling::{self, access, call, calling_checks, errors, list},
    check, skip,
};

pub(super) const SUITE: Suite = Suite {
    protocol: Protocol::Oxp,
    path: "/oxp",
    served: |site| Box::pin(site.answers(site.get("/tools").by_first())),
    checks: &[calling_checks!("oxp", Should), OWN],
};

const OWN: &[Check] = &[
    check!(
        "oxp.list.parameters",
        Must,
        "ToolDefinition",
        "`input_schema` is the schema of the input itself",
        list::flat_parameters
    ),
    check!(
        "oxp.version.header",
        Should,
        "Versioning (header draft)",
        "every answer says its version in `OXP-Version`",
        header
    ),
    check!(
        "oxp.version.unsupported",
        Must,
        "Versioning (header draft)",
        "a host that says `OXP-Version` refuses a version that there is not as 400",
        unsupported
    ),
    check!(
        "oxp.version.flat-call",
        Should,
        "Call Tool (header draft)",
        "a host that says `OXP-Version` takes a call without the envelope, and answers without one",
        flat_call
    ),
];

async fn header(site: &Site) -> Verdict {
    for ask in [site.get("/health"), site.get("/tools").by_first(), site.get("/tools")] {
        let got = site.once(ask).await?;
        let said = got.header("oxp-version").unwrap_or_default();
        got.expect(
            said.starts_with("1.0"),
            "`OXP-Version: 1.0`",
            if said.is_empty() { "none" } else { said },
        )?;
    }
    Ok(())
}

async fn unsupported(site: &Site) -> Verdict {
    versioned(site).await?;
    let ask = site.get("/tools").by_first().header("oxp-version", "9.0");
    site.once(ask).await?.expect_status(&[400])
}

async fn flat_call(site: &Site) -> Verdict {
    versioned(site).await?;
    let request = calling::plain_request(site).await?;
    let ask = site.post("/tools/call").json(&request).header("oxp-version", "1.0");
    let got = site.once(ask.by_first()).await?;
    got.expect_status(&[200])?;
    let success = got.json()?.get("success").and_then(Value::as_bool);
    got.expect(success == Some(true), "`success` at the top", "none")?;
    got.expect(got.value().get("result").is_none(), "no `result`", "an envelope")?;
    let named = got.value().get("call_id").is_some_and(|it| it != &json!(""));
    got.expect(named, "a `call_id`", "none")
}

/// Skips when the host does not say its version in a header.
async fn versioned(site: &Site) -> Verdict {
    let got = site.once(site.get("/tools").by_first()).await?;
    match got.header("oxp-version") {
        Some(_) => Ok(()),
        None => skip("the host does not say `OXP-Version`"),
    }
}
