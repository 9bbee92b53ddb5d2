//! The description of an authorization server (RFC 8414, OpenID Connect Discovery).

use serde_json::{Map, Value};
use toolcrib_core::{egress::AllowList, json};
use url::{Host, Url};

/// The description of one server.
#[derive(Debug, Clone)]
pub struct Metadata(Map<String, Value>);

/// Why a document is not the description of an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetadata {
    /// It is not a JSON object, or has a member twice.
    #[error("the discovery document is not JSON")]
    NotJson,
    /// It names another issuer.
    #[error("the discovery document is of another issuer")]
    OtherIssuer,
}

/// The addresses of the description of `issuer`, in the order in which to try them: the one of
/// OpenID Connect, then those of RFC 8414, which differ for an issuer with a path.
pub fn locations(issuer: &str) -> Vec<String> {
    let appended = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let mut locations = vec![appended];
    if let Ok(url) = Url::parse(issuer) {
        let (origin, path) = (url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
        for name in ["oauth-authorization-server", "openid-configuration"] {
            let inserted = format!("{origin}/.well-known/{name}{path}");
            if !locations.contains(&inserted) {
                locations.push(inserted);
            }
        }
    }
    locations
}

/// Whether documents at `url` can be trusted, and secrets sent to it: over TLS, to this machine, or
/// to a host that the operator allows.
pub fn is_private_enough(url: &Url, allow: &AllowList) -> bool {
    let here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || allow.has_host(name),
        Some(Host::Ipv4(ip)) => ip.is_loopback() || allow.has_address(ip.into()),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || allow.has_address(ip.into()),
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && here)
}

// === impl Metadata ===

impl Metadata {
    /// Reads the description of exactly `issuer`: a server must not describe another one.
    ///
    /// # Errors
    /// [`InvalidMetadata`].
    pub fn read(document: &[u8], issuer: &str) -> Result<Self, InvalidMetadata> {
        match json::parse_strict(document) {
            Ok(Value::Object(document)) => match document.get("issuer").and_then(Value::as_str) {
                Some(named) if named == issuer => Ok(Self(document)),
                _ => Err(InvalidMetadata::OtherIssuer),
            },
            Ok(_) | Err(_) => Err(InvalidMetadata::NotJson),
        }
    }

    /// Whether it has an address of this name, of whatever kind.
    pub fn names(&self, endpoint: &str) -> bool {
        self.0.get(endpoint).is_some_and(Value::is_string)
    }

    /// An address of the server, if it is [private enough](is_private_enough).
    pub fn endpoint(&self, name: &str, allow: &AllowList) -> Option<Url> {
        let url = Url::parse(self.0.get(name)?.as_str()?).ok()?;
        Some(url).filter(|url| url.fragment().is_none() && is_private_enough(url, allow))
    }

    /// Whether the list `name` has `value`; an absent list leaves it open.
    pub fn lists(&self, name: &str, value: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Array(values)) => values.iter().any(|listed| listed == value),
            _ => true,
        }
    }

    /// Whether the responses of the authorization endpoint name the issuer (RFC 9207).
    pub fn names_issuer(&self) -> bool {
        let named = self.0.get("authorization_response_iss_parameter_supported");
        named == Some(&Value::Bool(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_with_a_path_has_three_locations() {
        assert_eq!(
            locations("https://id.example/"),
            [
                "https://id.example/.well-known/openid-configuration",
                "https://id.example/.well-known/oauth-authorization-server",
            ]
        );
        assert_eq!(
            locations("https://id.example:8443/realms/a"),
            [
                "https://id.example:8443/realms/a/.well-known/openid-configuration",
                "https://id.example:8443/.well-known/oauth-authorization-server/realms/a",
                "https://id.example:8443/.well-known/openid-configuration/realms/a",
            ]
        );
    }

    #[test]
    fn a_description_is_of_its_issuer_and_names_private_endpoints() {
        let document = br#"{"issuer":"https://id.example","token_endpoint":"https://id.example/t",
            "jwks_uri":"http://id.example/k","authorization_endpoint":"https://id.example/a#f",
            "code_challenge_methods_supported":["plain"],"registration_endpoint":5}"#;
        let metadata = Metadata::read(document, "https://id.example").unwrap();
        let allow = AllowList::default();
        let endpoint = |name| metadata.endpoint(name, &allow).map(|url| url.to_string());
        assert_eq!(endpoint("token_endpoint").as_deref(), Some("https://id.example/t"));
        for refused in ["jwks_uri", "authorization_endpoint", "registration_endpoint", "absent"] {
            assert_eq!(endpoint(refused), None, "{refused}");
        }
        assert!(metadata.names("jwks_uri") && !metadata.names("absent"));
        assert!(!metadata.lists("code_challenge_methods_supported", "S256"));
        assert!(
            metadata.lists("response_types_supported", "code"),
            "an absent list leaves it open"
        );
        assert!(!metadata.names_issuer());
        for (document, issuer, problem) in [
            (&document[..], "https://id.example/", InvalidMetadata::OtherIssuer),
            (b"{}", "https://id.example", InvalidMetadata::OtherIssuer),
            (b"[]", "https://id.example", InvalidMetadata::NotJson),
            (br#"{"issuer":"a","issuer":"a"}"#, "a", InvalidMetadata::NotJson),
        ] {
            assert_eq!(Metadata::read(document, issuer).unwrap_err(), problem);
        }
    }
}
