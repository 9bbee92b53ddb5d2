//! `WWW-Authenticate`: directs a refused client to the source of credentials.
//!
//! Invariant: a challenge is sent with a 401, and with a 403 whose body names the missing scopes.
//! It reveals nothing that the response does not contain already (I-9).

use http::{HeaderValue, Uri};
use toolcrib_core::scope::Scope;
use toolcrib_gateway::{authn::AuthError, config::ResourceConfig};

/// The path prefix that RFC 9728 reserves for resource metadata.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The challenges of this server.
pub(crate) struct Challenge {
    missing: HeaderValue,
    invalid: HeaderValue,
    /// The address of the resource metadata.
    metadata: Option<String>,
}

impl Challenge {
    /// Creates the challenges for the configured resource, if there is one.
    pub(crate) fn of(resource: Option<&ResourceConfig>) -> Self {
        let plain = HeaderValue::from_static("Bearer");
        let metadata = resource.and_then(|resource| metadata(&resource.resource));
        let with = |more: &str| {
            let metadata = metadata.as_ref()?;
            HeaderValue::try_from(format!("Bearer {more}resource_metadata=\"{metadata}\"")).ok()
        };
        Self {
            missing: with("").unwrap_or_else(|| plain.clone()),
            invalid: with("error=\"invalid_token\", ").unwrap_or(plain),
            metadata,
        }
    }

    /// Returns the challenge for a 401 because of `error`.
    pub(crate) fn credentials(&self, error: AuthError) -> HeaderValue {
        match error {
            AuthError::Invalid | AuthError::Ambiguous => self.invalid.clone(),
            AuthError::Missing | AuthError::Unavailable => self.missing.clone(),
        }
    }

    /// Returns the challenge for a 403 that requires `scopes`; `None` when no resource is
    /// configured.
    pub(crate) fn scopes(&self, scopes: &[Scope]) -> Option<HeaderValue> {
        let metadata = self.metadata.as_ref()?;
        let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        let scopes = scopes.join(" ");
        HeaderValue::try_from(format!(
            "Bearer error=\"insufficient_scope\", scope=\"{scopes}\", resource_metadata=\"{metadata}\""
        ))
        .ok()
    }
}

/// Returns the address of the metadata of `resource`: the well-known path, then the resource's own
/// path.
fn metadata(resource: &str) -> Option<String> {
    let uri = Uri::try_from(resource).ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let path = uri.path().trim_end_matches('/');
    Some(format!("{scheme}://{authority}{WELL_KNOWN}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(resource: &str) -> Challenge {
        Challenge::of(Some(&ResourceConfig {
            resource: resource.to_owned(),
            authorization_servers: vec!["https://id.example.com".to_owned()],
            scopes: Vec::new(),
        }))
    }

    #[test]
    fn the_description_stands_before_the_path_of_the_resource() {
        for (resource, expected) in [
            ("https://a.example/mcp", "https://a.example/.well-known/oauth-protected-resource/mcp"),
            ("https://a.example", "https://a.example/.well-known/oauth-protected-resource"),
            ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource"),
            (
                "http://127.0.0.1:8808/x/mcp",
                "http://127.0.0.1:8808/.well-known/oauth-protected-resource/x/mcp",
            ),
        ] {
            assert_eq!(metadata(resource).as_deref(), Some(expected));
        }
    }

    #[test]
    fn only_a_wrong_credential_is_called_wrong() {
        let with = challenge("https://a.example/mcp");
        let at = "resource_metadata=\"https://a.example/.well-known/oauth-protected-resource/mcp\"";
        assert_eq!(with.credentials(AuthError::Missing), format!("Bearer {at}").as_str());
        assert_eq!(
            with.credentials(AuthError::Invalid),
            format!("Bearer error=\"invalid_token\", {at}").as_str()
        );
        let scopes = [Scope::parse("a:b").unwrap(), Scope::parse("c").unwrap()];
        assert_eq!(
            with.scopes(&scopes).unwrap(),
            format!("Bearer error=\"insufficient_scope\", scope=\"a:b c\", {at}").as_str()
        );
        let without = Challenge::of(None);
        assert_eq!(without.credentials(AuthError::Invalid), "Bearer");
        assert_eq!(without.scopes(&scopes), None);
    }
}
