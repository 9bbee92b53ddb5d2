//! Who is let in: 401 comes before everything else under `/v1`.

use super::{ABSENT, TOOLS, flat};
use crate::conformance::{Ask, Check, Got, Site, Verdict, check, fail, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "openwop.auth.required",
        Must,
        "RFC 0078 §B, auth",
        "without a key the catalog, and each tool in it, is 401 with the code `unauthenticated`",
        required
    ),
    check!(
        "openwop.auth.before-routing",
        Must,
        "auth",
        "without a key everything under `/v1` is 401, whether it exists or not",
        before_routing
    ),
    check!(
        "openwop.auth.unknown-key",
        Must,
        "auth",
        "a key that nobody issued is 401, never 403",
        unknown_key
    ),
    check!(
        "openwop.auth.malformed",
        Must,
        "auth",
        "credentials that make no sense are 401: another scheme, no token, no scheme",
        malformed
    ),
    check!(
        "openwop.auth.challenge",
        Should,
        "RFC 0200, RFC 9110 §11.6.1",
        "a 401 carries `WWW-Authenticate: Bearer`",
        challenge
    ),
    check!(
        "openwop.auth.scheme-case",
        Should,
        "RFC 9110 §11.1",
        "the name of the scheme is accepted in any case",
        scheme_case
    ),
];

/// A token that looks like one and is none.
const BOGUS: &str = "hk_definitely_not_a_real_key_12345";

async fn required(site: &Site) -> Verdict {
    for path in [TOOLS, "/v1/tools?view=compact", ABSENT] {
        let got = refused(site, site.get(path)).await?;
        let code = got.value().get("error").and_then(|it| it.as_str()).unwrap_or_default();
        got.expect(code == "unauthenticated", "`error` is `unauthenticated`", format!("`{code}`"))?;
    }
    Ok(())
}

async fn before_routing(site: &Site) -> Verdict {
    let runs = site.post("/v1/runs").json(&serde_json::json!({}));
    for ask in [
        site.get("/v1/conformance-nothing-is-here"),
        site.get("/v1/runs/conformance-absent"),
        runs.clone(),
        runs.header("authorization", format!("Bearer {BOGUS}")),
    ] {
        refused(site, ask).await?;
    }
    Ok(())
}

async fn unknown_key(site: &Site) -> Verdict {
    let ask = site.get(TOOLS).header("authorization", format!("Bearer {BOGUS}"));
    refused(site, ask).await.map(drop)
}

async fn malformed(site: &Site) -> Verdict {
    for value in ["Basic dXNlcjpwYXNz", "Bearer", "Bearer  ", BOGUS] {
        refused(site, site.get(TOOLS).header("authorization", value)).await?;
    }
    Ok(())
}

async fn challenge(site: &Site) -> Verdict {
    let got = refused(site, site.get(TOOLS)).await?;
    let said = got.header("www-authenticate").unwrap_or_default();
    let is_bearer = said.split([' ', ',']).any(|word| word.eq_ignore_ascii_case("bearer"));
    let seen = if said.is_empty() { "none" } else { said };
    got.expect(is_bearer, "`WWW-Authenticate: Bearer`", seen)
}

async fn scheme_case(site: &Site) -> Verdict {
    let Some(key) = site.host().key_text() else { return skip("needs a key: --key") };
    let ask = site.get(TOOLS).header("authorization", format!("bearer {key}"));
    let got = site.send(ask).await?;
    match got.status() {
        401 | 403 => fail("`bearer` is as good as `Bearer`", "it is refused", &[&got]),
        _ => Ok(()),
    }
}

/// The answer to `ask`, which has to be a flat 401.
async fn refused(site: &Site, ask: Ask) -> Verdict<Got> {
    let got = site.once(ask).await?;
    got.expect_status(&[401])?;
    flat(&got)?;
    Ok(got)
}
