//! The description of an authorization server (RFC 8414, OpenID Connect Discovery).

use serde_json::{Map, Value};
use toolcrib_core::{credential::ClientAuth, egress::AllowList, json};
use url::{Host, Url};

use crate::{pkce, scopes};

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

/// The addresses of the description of an issuer that signs people in, in the order in which to try
/// them: the one of OpenID Connect, then those of RFC 8414, which differ for an issuer with a path.
pub fn locations(issuer: &str) -> Vec<String> {
    let inserted = inserted(issuer);
    distinct(std::iter::once(appended(issuer)).chain(inserted))
}

/// The addresses of the description of an issuer that a protected resource names, in the order of
/// MCP 2026-07-28: those of RFC 8414, then the one of OpenID Connect.
pub fn authorization_server_locations(issuer: &str) -> Vec<String> {
    distinct(inserted(issuer).into_iter().chain([appended(issuer)]))
}

fn appended(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

/// The addresses with the path of the issuer at their end.
fn inserted(issuer: &str) -> Vec<String> {
    let Ok(url) = Url::parse(issuer) else { return Vec::new() };
    let (origin, path) = (url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
    let location = |name| format!("{origin}/.well-known/{name}{path}");
    ["oauth-authorization-server", "openid-configuration"].map(location).into()
}

fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut locations = Vec::new();
    for location in all {
        if !locations.contains(&location) {
            locations.push(location);
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

    /// An address of the server, if it is [private enough](is_private_enough). It has no fragment
    /// (RFC 6749, section 3.1), and no user information, which could name another host to people.
    pub fn endpoint(&self, name: &str, allow: &AllowList) -> Option<Url> {
        let url = Url::parse(self.0.get(name)?.as_str()?).ok()?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        let is_plain = url.fragment().is_none() && !has_user;
        Some(url).filter(|url| is_plain && is_private_enough(url, allow))
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
        self.has_flag("authorization_response_iss_parameter_supported")
    }

    /// Whether it fetches the description of a client from its id
    /// (draft-ietf-oauth-client-id-metadata-document).
    pub fn fetches_client_documents(&self) -> bool {
        self.has_flag("client_id_metadata_document_supported")
    }

    /// Whether it says that it checks PKCE with the method S256.
    pub fn announces_s256(&self) -> bool {
        let name = "code_challenge_methods_supported";
        self.0.get(name).is_some_and(Value::is_array) && self.lists(name, pkce::METHOD)
    }

    /// The scopes that it lists, in the bounds of [`scopes`].
    pub fn scopes(&self) -> Vec<String> {
        scopes::read_array(self.0.get("scopes_supported"))
    }

    /// How a client authenticates that was registered without a method. A secret is sent in the
    /// header unless only the form is listed. A client without a secret has no other way than its
    /// id, even if the list omits this way.
    pub fn client_auth(&self, has_secret: bool) -> ClientAuth {
        match has_secret {
            true if self.takes("client_secret_basic") || !self.takes("client_secret_post") => {
                ClientAuth::Basic
            }
            true => ClientAuth::Post,
            false => ClientAuth::None,
        }
    }

    /// The method that a client registers with: without a secret, unless only secrets are listed.
    /// Then it is the form, if that is listed: servers of the Python MCP SDK refuse a client that
    /// names itself only in the header.
    pub fn registration_auth(&self) -> ClientAuth {
        match self.takes("none") {
            true => ClientAuth::None,
            false if self.takes("client_secret_post") => ClientAuth::Post,
            false => self.client_auth(self.takes("client_secret_basic")),
        }
    }

    fn takes(&self, method: &str) -> bool {
        self.lists("token_endpoint_auth_methods_supported", method)
    }

    fn has_flag(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
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
    fn an_authorization_server_of_a_resource_is_sought_by_rfc_8414_first() {
        assert_eq!(
            authorization_server_locations("https://id.example/"),
            [
                "https://id.example/.well-known/oauth-authorization-server",
                "https://id.example/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            authorization_server_locations("https://id.example/realms/a"),
            [
                "https://id.example/.well-known/oauth-authorization-server/realms/a",
                "https://id.example/.well-known/openid-configuration/realms/a",
                "https://id.example/realms/a/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn capabilities_are_announced() {
        let read = |members: &str| {
            let document = format!(r#"{{"issuer":"i"{members}}}"#);
            Metadata::read(document.as_bytes(), "i").unwrap()
        };
        for (methods, is_announced) in [
            ("", false),
            (r#","code_challenge_methods_supported":null"#, false),
            (r#","code_challenge_methods_supported":"S256""#, false),
            (r#","code_challenge_methods_supported":[]"#, false),
            (r#","code_challenge_methods_supported":["plain"]"#, false),
            (r#","code_challenge_methods_supported":["plain","S256"]"#, true),
        ] {
            assert_eq!(read(methods).announces_s256(), is_announced, "{methods}");
        }
        use ClientAuth::{Basic, None, Post};
        for (methods, with_secret, registered) in [
            ("null", Basic, None),
            (r#"["none"]"#, Basic, None),
            (r#"["client_secret_post","none"]"#, Post, None),
            (r#"["client_secret_post"]"#, Post, Post),
            (r#"["client_secret_post","client_secret_basic"]"#, Basic, Post),
            (r#"["client_secret_basic"]"#, Basic, Basic),
            (r#"["private_key_jwt"]"#, Basic, None),
            ("[]", Basic, None),
        ] {
            let metadata = read(&format!(r#","token_endpoint_auth_methods_supported":{methods}"#));
            assert_eq!(metadata.client_auth(true), with_secret, "{methods}");
            assert_eq!(metadata.client_auth(false), None, "{methods}");
            assert_eq!(metadata.registration_auth(), registered, "{methods}");
        }
        let other = read(
            r#","client_id_metadata_document_supported":true,"scopes_supported":["a",1,"b c"]"#,
        );
        assert!(other.fetches_client_documents() && !read("").fetches_client_documents());
        let text = read(r#","client_id_metadata_document_supported":"true""#);
        assert!(!text.fetches_client_documents());
        assert_eq!((other.scopes(), read("").scopes()), (vec!["a".to_owned()], vec![]));
    }

    #[test]
    fn a_description_is_of_its_issuer_and_names_private_endpoints() {
        let document = br#"{"issuer":"https://id.example","token_endpoint":"https://id.example/t",
            "jwks_uri":"http://id.example/k","authorization_endpoint":"https://id.example/a#f",
            "revocation_endpoint":"https://id.example@evil.example/r",
            "code_challenge_methods_supported":["plain"],"registration_endpoint":5}"#;
        let metadata = Metadata::read(document, "https://id.example").unwrap();
        let allow = AllowList::default();
        let endpoint = |name| metadata.endpoint(name, &allow).map(|url| url.to_string());
        assert_eq!(endpoint("token_endpoint").as_deref(), Some("https://id.example/t"));
        let refused = ["jwks_uri", "authorization_endpoint", "revocation_endpoint"];
        for refused in refused.into_iter().chain(["registration_endpoint", "absent"]) {
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
