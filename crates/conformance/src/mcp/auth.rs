//! Authentication, and the metadata about authorization servers.

use serde_json::{Value, json};
use url::Url;

use super::{
    common::UNKNOWN_METHOD,
    wire::{self, Rpc, Wire},
};
use crate::{
    Check, CheckResult, Target, checks,
    http::{Request, Response},
    skip, skip_unless,
};

pub(super) const CHECKS: &[Check] = checks! {
    "mcp.auth.required", Must, "basic/authorization §error-handling", required:
        "a server that requires credentials returns 401 for every method without them";
    "mcp.auth.unknown-key", Must, "basic/authorization §token-handling", unknown_key:
        "unknown credentials return 401";
    "mcp.auth.challenge", Must, "RFC 9110 §15.5.2, RFC 6750 §3", challenge:
        "a 401 has the header `WWW-Authenticate: Bearer`";
    "mcp.auth.metadata", Must, "basic/authorization, RFC 9728 §2, §3", metadata:
        "the resource metadata that a 401 announces is public JSON with `resource` and at least one \
         of `authorization_servers`";
    "mcp.auth.resource", Must, "RFC 9728 §3.3", resource:
        "`resource` of the metadata is the address that was requested, or one above it";
    "mcp.auth.scope", Should, "basic/authorization §scope-selection", scope:
        "a 401 has `scope` if the metadata names scopes";
};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

async fn required(target: &Target) -> CheckResult {
    require_locked(target).await?;
    for rpc in first_requests(target).await? {
        target.send_once(rpc.request(target)).await?.expect_status(&[401])?;
    }
    Ok(())
}

async fn unknown_key(target: &Target) -> CheckResult {
    require_locked(target).await?;
    for rpc in first_requests(target).await? {
        let request = rpc.request(target).with_unknown_key();
        target.send_once(request).await?.expect_status(&[401])?;
    }
    Ok(())
}

async fn challenge(target: &Target) -> CheckResult {
    let response = require_locked(target).await?;
    response.expect_status(&[401])?;
    response.expect_bearer_challenge()
}

async fn metadata(target: &Target) -> CheckResult {
    let response = metadata_of(target).await?;
    let url = json!({ "type": "string", "pattern": "^https?://[^#]+$" });
    let schema = json!({
        "type": "object",
        "required": ["resource", "authorization_servers"],
        "properties": {
            "resource": url,
            "authorization_servers": { "type": "array", "minItems": 1, "items": url },
            "bearer_methods_supported": { "type": "array", "items": { "type": "string" } },
            "scopes_supported": { "type": "array", "items": { "type": "string" } },
        },
    });
    response.expect_json_type()?;
    response.expect_valid(response.json()?, &schema, "valid resource metadata")
}

async fn resource(target: &Target) -> CheckResult {
    let response = metadata_of(target).await?;
    let said = response.json()?.get("resource").and_then(Value::as_str).unwrap_or_default();
    let said = Url::parse(said).map(|url| url.path().trim_end_matches('/').to_owned());
    let path = target.path().trim_end_matches('/');
    // A server under test may have another host than its own.
    let is_above = |above: &str| {
        path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_right = said.as_deref().is_ok_and(is_above);
    response.expect(is_right, "a `resource` with the path of the endpoint", format!("{said:?}"))
}

async fn scope(target: &Target) -> CheckResult {
    let response = metadata_of(target).await?;
    let scopes = response.json()?.get("scopes_supported").and_then(Value::as_array);
    skip_unless(scopes.is_some_and(|list| !list.is_empty()), "the metadata names no scopes")?;
    let rejection = require_locked(target).await?;
    let challenge = rejection.header_text("www-authenticate");
    let has_scope = challenge.contains("scope=");
    rejection.expect(has_scope, "a challenge with `scope`", format!("`{challenge}`"))
}

/// Fetches the metadata that a 401 announces; skips the check if there is none.
async fn metadata_of(target: &Target) -> CheckResult<Response> {
    let rejection = require_locked(target).await?;
    let url = metadata_url(rejection.header_text("www-authenticate"));
    let url = url.and_then(|url| Url::parse(url).ok());
    // A server under test may have another address than its own; the path is the same.
    let path = url.as_ref().map_or(WELL_KNOWN, Url::path);
    let response = target.send_once(Request::new(reqwest::Method::GET, path)).await?;
    let base = Url::parse(target.host().base()).ok();
    match url {
        Some(url) if base.is_some_and(|base| base.origin() == url.origin()) => {
            response.expect_status(&[200])?;
        }
        _ if response.status() == 200 => {}
        Some(_) => return skip("the metadata is on another host"),
        None => return skip("the server announces no resource metadata"),
    }
    Ok(response)
}

/// Extracts `resource_metadata` from a challenge.
fn metadata_url(challenge: &str) -> Option<&str> {
    let (_, rest) = challenge.split_once("resource_metadata=")?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([',', ' ']).next(),
    }
}

/// Sends a request without credentials; skips the check unless the server rejects it.
async fn require_locked(target: &Target) -> CheckResult<Response> {
    match rejection(target).await? {
        Some(response) => Ok(response),
        None => skip("the server requires no credentials"),
    }
}

/// Sends a request without credentials; `None` unless the server rejects it.
pub(super) async fn rejection(target: &Target) -> CheckResult<Option<Response>> {
    let rpc = first_request(&wire::any(target).await?);
    let response = target.send_once(rpc.request(target)).await?;
    Ok(response.is_unauthorized().then_some(response))
}

/// Creates the first request of each era, and a request with an unknown method.
async fn first_requests(target: &Target) -> CheckResult<Vec<Rpc>> {
    let wires = wire::wires(target).await?;
    let both = |wire: &Wire| [first_request(wire), wire.request(UNKNOWN_METHOD, Value::Null)];
    Ok(wires.iter().flat_map(both).collect())
}

/// Creates the request with which a client starts.
fn first_request(wire: &Wire) -> Rpc {
    match wire {
        Wire::Stateless => wire::discover(),
        Wire::Handshake { version, .. } => wire::initialize(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_url_may_be_quoted() {
        let url = "https://a.example/x";
        let quoted = format!("Bearer realm=\"a\", resource_metadata=\"{url}\", scope=\"b\"");
        assert_eq!(metadata_url(&quoted), Some(url));
        assert_eq!(metadata_url(&format!("Bearer resource_metadata={url}, scope=b")), Some(url));
        assert_eq!(metadata_url("Bearer"), None);
    }
}
