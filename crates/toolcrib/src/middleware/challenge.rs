//! `WWW-Authenticate`: directs a refused client to the source of credentials.
//!
//! Invariant: a challenge is sent with a 401, and with a 403 whose body names the missing scopes.
//! It reveals only facts that the response already contains (I-9).

use axum::response::Response;
use http::{HeaderValue, StatusCode, Uri, header};
use toolcrib_config::{ResourceConfig, is_toolset_name};
use toolcrib_core::scope::Scope;
use toolcrib_gateway::authn::AuthError;

/// The path prefix that RFC 9728 reserves for resource metadata.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The path of the MCP endpoint; that of a toolset is `/mcp/NAME`.
pub(crate) const MCP: &str = "/mcp";

/// The challenges of this server.
pub(crate) struct Challenge {
    resource: Option<Resource>,
}

/// A described resource.
struct Resource {
    /// The addresses of the metadata of the resource, and of the endpoint below which toolsets are.
    metadata: String,
    mcp: String,
    /// The parameter with the scopes that clients should request; empty without them.
    scopes: String,
}

/// The scopes that a response names as missing, as an extension of the response.
#[derive(Clone)]
pub(crate) struct MissingScopes(pub(crate) Vec<Scope>);

impl Challenge {
    /// Creates the challenges for the configured resource, if there is one.
    pub(crate) fn of(config: Option<&ResourceConfig>) -> Self {
        let resource = config.and_then(|config| {
            let scopes = match config.scopes.as_slice() {
                [] => String::new(),
                scopes => format!("scope=\"{}\", ", scopes.join(" ")),
            };
            let mcp = metadata(&mcp_of(&config.resource))?;
            Some(Resource { metadata: metadata(&config.resource)?, mcp, scopes })
        });
        Self { resource }
    }

    /// The challenge for a 401 because of `error`, at the endpoint of `toolset` or elsewhere.
    pub(crate) fn credentials(&self, error: AuthError, toolset: Option<&str>) -> HeaderValue {
        let error = match error {
            AuthError::Invalid | AuthError::Ambiguous => "error=\"invalid_token\", ",
            AuthError::Missing | AuthError::Unavailable => "",
        };
        let value = self
            .resource
            .as_ref()
            .and_then(|resource| resource.challenge(error, &resource.scopes, toolset));
        value.unwrap_or(HeaderValue::from_static("Bearer"))
    }

    /// Makes a response that names missing scopes a 403 with a challenge, if a resource is configured.
    pub(crate) fn require(
        &self,
        missing: &MissingScopes,
        toolset: Option<&str>,
        to: &mut Response,
    ) {
        let scopes: Vec<String> = missing.0.iter().map(ToString::to_string).collect();
        let scopes = format!("scope=\"{}\", ", scopes.join(" "));
        let error = "error=\"insufficient_scope\", ";
        let value =
            self.resource.as_ref().and_then(|resource| resource.challenge(error, &scopes, toolset));
        if let Some(value) = value {
            *to.status_mut() = StatusCode::FORBIDDEN;
            to.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
    }
}

impl Resource {
    fn challenge(&self, error: &str, scopes: &str, toolset: Option<&str>) -> Option<HeaderValue> {
        let metadata = match toolset {
            Some(toolset) => format!("{}/{toolset}", self.mcp),
            None => self.metadata.clone(),
        };
        HeaderValue::try_from(format!("Bearer {error}{scopes}resource_metadata=\"{metadata}\""))
            .ok()
    }
}

/// The name of the toolset whose endpoint `path` is, if it can be one.
pub(crate) fn toolset(path: &str) -> Option<&str> {
    let name = path.strip_prefix(MCP)?.strip_prefix('/')?;
    let name = name.strip_suffix('/').unwrap_or(name);
    is_toolset_name(name).then_some(name)
}

/// The address of the metadata of `resource`: the well-known path, then the path of the resource.
fn metadata(resource: &str) -> Option<String> {
    let uri = Uri::try_from(resource).ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let path = uri.path().trim_end_matches('/');
    Some(format!("{scheme}://{authority}{WELL_KNOWN}{path}"))
}

/// The address of the MCP endpoint of a resource: this endpoint, or the whole server.
pub(crate) fn mcp_of(resource: &str) -> String {
    let resource = resource.trim_end_matches('/');
    match resource.ends_with(MCP) {
        true => resource.to_owned(),
        false => format!("{resource}{MCP}"),
    }
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
        assert_eq!(with.credentials(AuthError::Missing, None), format!("Bearer {at}").as_str());
        assert_eq!(
            with.credentials(AuthError::Invalid, None),
            format!("Bearer error=\"invalid_token\", {at}").as_str()
        );
        let missing = MissingScopes(vec![Scope::parse("a:b").unwrap(), Scope::parse("c").unwrap()]);
        let mut response = Response::default();
        with.require(&missing, None, &mut response);
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        assert_eq!(
            response.headers().get(header::WWW_AUTHENTICATE).unwrap(),
            format!("Bearer error=\"insufficient_scope\", scope=\"a:b c\", {at}").as_str()
        );
        let without = Challenge::of(None);
        assert_eq!(without.credentials(AuthError::Invalid, Some("a")), "Bearer");
        let mut response = Response::default();
        without.require(&missing, None, &mut response);
        assert_eq!((response.status(), response.headers().len()), (StatusCode::OK, 0));
    }

    #[test]
    fn only_the_name_of_a_toolset_enters_a_challenge() {
        for (path, name) in [
            ("/mcp/files", Some("files")),
            ("/mcp/files/", Some("files")),
            ("/mcp", None),
            ("/mcp/", None),
            ("/mcp/a/b", None),
            ("/mcp/%22", None),
            ("/mcp/Files", None),
            ("/mcpx/files", None),
            ("/v1/tools", None),
        ] {
            assert_eq!(toolset(path), name, "{path}");
        }
    }
}
