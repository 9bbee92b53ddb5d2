//! `WWW-Authenticate`: how a caller that is refused learns where to get credentials.
//!
//! Invariant: a challenge stands on 401, and on a 403 whose body names the scopes as well; so it
//! tells nobody what the answer beside it does not tell (I-9).

use http::{HeaderValue, Uri};
use toolcrib_core::scope::Scope;
use toolcrib_gateway::{authn::AuthError, config::ResourceConfig};

/// Where RFC 9728 puts the description of a resource.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The challenges of this server.
pub(crate) struct Challenge {
    missing: HeaderValue,
    invalid: HeaderValue,
    /// The address of the resource's description.
    metadata: Option<String>,
}

impl Challenge {
    /// For the resource of the configuration, if it has one.
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

    /// For a 401 because of `error`.
    pub(crate) fn credentials(&self, error: AuthError) -> HeaderValue {
        match error {
            AuthError::Invalid => self.invalid.clone(),
            AuthError::Missing | AuthError::Unavailable => self.missing.clone(),
        }
    }

    /// For a 403 because `scopes` are needed; `None` when there is nowhere to get them.
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

/// Where clients look for the description of `resource`: the well-known path comes before its own.
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
