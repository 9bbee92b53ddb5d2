//! The description of the server (RFC 8414; RFC 9207; draft-ietf-oauth-client-id-metadata-document).

use serde_json::{Value, json};

use super::token::JWT_BEARER;
use crate::pkce;

/// What a server offers.
#[derive(Debug, Clone, Copy)]
pub struct ServerOffer<'a> {
    /// Its issuer, without a `/` at its end.
    pub issuer: &'a str,
    /// Whether clients may register themselves.
    pub registers: bool,
    /// Whether it fetches documents of clients.
    pub documents: bool,
    /// Whether clients can have a secret.
    pub secrets: bool,
    /// Whether it accepts assertions of other issuers.
    pub assertions: bool,
}

impl ServerOffer<'_> {
    /// The document.
    pub fn document(&self) -> Value {
        let Self { issuer, registers, documents, secrets, assertions } = *self;
        let mut auth = vec!["none"];
        if secrets {
            auth.extend(["client_secret_basic", "client_secret_post"]);
        }
        let mut grants = vec!["authorization_code", "refresh_token"];
        if assertions {
            grants.push(JWT_BEARER);
        }
        let mut document = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/oauth/authorize"),
            "token_endpoint": format!("{issuer}/oauth/token"),
            "revocation_endpoint": format!("{issuer}/oauth/revoke"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": grants,
            "token_endpoint_auth_methods_supported": auth,
            "revocation_endpoint_auth_methods_supported": auth,
            "code_challenge_methods_supported": [pkce::METHOD],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": documents,
        });
        if let Value::Object(members) = &mut document {
            if registers {
                let endpoint = json!(format!("{issuer}/oauth/register"));
                members.insert("registration_endpoint".to_owned(), endpoint);
            }
            if assertions {
                let profiles = json!(["urn:ietf:params:oauth:grant-profile:id-jag"]);
                members.insert("authorization_grant_profiles_supported".to_owned(), profiles);
            }
        }
        document
    }
}
