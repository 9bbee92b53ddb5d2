//! Who is let in, and how others learn where credentials come from.

use serde_json::{Value, json};
use url::Url;

use super::wire::{self, Rpc, Wire};
use crate::conformance::{Ask, Check, Got, Site, Verdict, check, fail, shape, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "mcp.auth.required",
        Must,
        "basic/authorization §error-handling",
        "a server that wants credentials answers a request without any as 401, whatever its method",
        required
    ),
    check!(
        "mcp.auth.unknown-key",
        Must,
        "basic/authorization §token-handling",
        "credentials that nobody issued are 401",
        unknown_key
    ),
    check!(
        "mcp.auth.challenge",
        Must,
        "RFC 9110 §15.5.2, RFC 6750 §3",
        "a 401 carries `WWW-Authenticate: Bearer`",
        challenge
    ),
    check!(
        "mcp.auth.metadata",
        Must,
        "basic/authorization, RFC 9728 §2, §3",
        "the resource metadata that a 401 announces is public JSON with `resource` and at least one \
         of `authorization_servers`",
        metadata
    ),
];

/// A token that looks like one and is none.
const BOGUS: &str = "conformance_definitely_not_a_real_key_12345";
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

async fn required(site: &Site) -> Verdict {
    wanted(site).await?;
    for rpc in everything(site).await? {
        site.once(rpc.ask(site)).await?.expect_status(&[401])?;
    }
    Ok(())
}

async fn unknown_key(site: &Site) -> Verdict {
    wanted(site).await?;
    for rpc in everything(site).await? {
        let ask = rpc.ask(site).header("authorization", format!("Bearer {BOGUS}"));
        site.once(ask).await?.expect_status(&[401])?;
    }
    Ok(())
}

async fn challenge(site: &Site) -> Verdict {
    let got = wanted(site).await?;
    got.expect_status(&[401])?;
    let said = got.header("www-authenticate").unwrap_or_default();
    let is_bearer = said.split([' ', ',']).any(|word| word.eq_ignore_ascii_case("bearer"));
    let seen = if said.is_empty() { "none" } else { said };
    got.expect(is_bearer, "`WWW-Authenticate: Bearer`", seen)
}

async fn metadata(site: &Site) -> Verdict {
    let refused = wanted(site).await?;
    let said = refused.header("www-authenticate").unwrap_or_default();
    let url = announced(said).and_then(|url| Url::parse(url).ok());
    // A server that is looked at under another address than its own has it in the same place.
    let path = url.as_ref().map_or(WELL_KNOWN, Url::path);
    let got = site.once(Ask::get(path)).await?;
    let base = Url::parse(site.host().base()).ok();
    match url {
        Some(url) if base.is_some_and(|base| base.origin() == url.origin()) => {
            got.expect_status(&[200])?;
        }
        _ if got.status() == 200 => {}
        Some(_) => return skip("the metadata is on another host"),
        None => return skip("the server announces no resource metadata"),
    }
    let url = json!({ "type": "string", "pattern": "^https?://[^#]+$" });
    let shape = json!({
        "type": "object",
        "required": ["resource", "authorization_servers"],
        "properties": {
            "resource": url,
            "authorization_servers": { "type": "array", "minItems": 1, "items": url },
            "bearer_methods_supported": { "type": "array", "items": { "type": "string" } },
            "scopes_supported": { "type": "array", "items": { "type": "string" } },
        },
    });
    let kind = got.header("content-type").unwrap_or("none").to_owned();
    got.expect(got.says_json(), "JSON", format!("content type {kind}"))?;
    match shape::violation(&shape, got.json()?) {
        None => Ok(()),
        Some(what) => fail("resource metadata", what, &[&refused, &got]),
    }
}

/// The value of `resource_metadata` in a challenge.
fn announced(challenge: &str) -> Option<&str> {
    let (_, rest) = challenge.split_once("resource_metadata=")?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([',', ' ']).next(),
    }
}

/// How the server refuses a request without credentials; skips when it does not.
async fn wanted(site: &Site) -> Verdict<Got> {
    match refusal(site).await? {
        Some(got) => Ok(got),
        None => skip("the server wants no credentials"),
    }
}

/// How the server refuses a request without credentials, if it does.
pub(super) async fn refusal(site: &Site) -> Verdict<Option<Got>> {
    let rpc = beginning(&wire::any(site).await?);
    let got = site.once(rpc.ask(site)).await?;
    let is_refusal = matches!(got.status(), 401 | 403);
    Ok(is_refusal.then_some(got))
}

/// How requests begin in each era, what they are about, and a method that there is not.
async fn everything(site: &Site) -> Verdict<Vec<Rpc>> {
    let mut all = Vec::new();
    for wire in wire::wires(site).await? {
        all.push(beginning(&wire));
        all.push(wire.request("conformance/absent", Value::Null));
    }
    Ok(all)
}

/// What a client asks first.
fn beginning(wire: &Wire) -> Rpc {
    match wire {
        Wire::Stateless => wire::discover(),
        Wire::Handshake { version, .. } => wire::initialize(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_with_quotes_and_without() {
        let url = "https://a.example/x";
        let quoted = format!("Bearer realm=\"a\", resource_metadata=\"{url}\", scope=\"b\"");
        assert_eq!(announced(&quoted), Some(url));
        assert_eq!(announced(&format!("Bearer resource_metadata={url}, scope=b")), Some(url));
        assert_eq!(announced("Bearer"), None);
    }
}
