//! The ways to present a credential.

use serde::{Deserialize, Serialize};

/// How a credential is presented, without its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum CredentialKind {
    /// A request header: `<name>: <prefix><value>`.
    Header {
        /// Lower case.
        name: String,
        /// The text before the value, such as `Bearer ` with its space.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        prefix: String,
    },
    /// A query parameter.
    Query {
        /// Its name.
        parameter: String,
    },
    /// `Authorization: Basic`, with the value as password.
    Basic {
        /// The user.
        username: String,
    },
    /// An access token obtained with the value as client secret (RFC 6749, section 4.4).
    #[serde(rename = "oauth2-client-credentials")]
    ClientCredentials(OAuth2),
    /// An access token obtained with the value as refresh token (RFC 6749, section 6).
    #[serde(rename = "oauth2-refresh-token")]
    RefreshToken(OAuth2),
}

/// Where and how access tokens are obtained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OAuth2 {
    /// The token endpoint: `https`, or `http` to this machine.
    pub token_url: String,
    /// The client id.
    pub client_id: String,
    /// How the client authenticates.
    #[serde(default)]
    pub client_auth: ClientAuth,
    /// The scopes to request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The resource that the tokens are for (RFC 8707).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// How a client authenticates to a token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientAuth {
    /// `client_secret_basic`.
    #[default]
    Basic,
    /// `client_secret_post`.
    Post,
    /// `none`: the client has no secret, and sends its id only.
    None,
}

/// Why a kind is invalid. The text itself is never repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidKind(&'static str);

/// Headers that belong to the connection or to the protocol.
const RESERVED: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl CredentialKind {
    /// The name of the kind, as shown in lists.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Header { .. } => "header",
            Self::Query { .. } => "query",
            Self::Basic { .. } => "basic",
            Self::ClientCredentials(_) => "oauth2-client-credentials",
            Self::RefreshToken(_) => "oauth2-refresh-token",
        }
    }

    /// The token settings, if the kind uses tokens.
    pub fn oauth2(&self) -> Option<&OAuth2> {
        match self {
            Self::ClientCredentials(oauth2) | Self::RefreshToken(oauth2) => Some(oauth2),
            Self::Header { .. } | Self::Query { .. } | Self::Basic { .. } => None,
        }
    }

    /// Validates names and texts, which come from the operator. The token endpoint is checked where
    /// URLs are parsed.
    pub fn check(&self) -> Result<(), InvalidKind> {
        let visible = |text: &str| text.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
        match self {
            Self::Header { name, prefix } => {
                let token = |b: u8| {
                    b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&b)
                };
                match name.as_str() {
                    "" => Err(InvalidKind("the header needs a name")),
                    name if !name.bytes().all(token) => {
                        Err(InvalidKind("the header name contains invalid characters"))
                    }
                    name if RESERVED.contains(&name) || name.starts_with("mcp-") => {
                        Err(InvalidKind("this header is set by the protocol itself"))
                    }
                    _ if !visible(prefix) => Err(InvalidKind(
                        "the prefix contains characters that are invalid in a header",
                    )),
                    _ => Ok(()),
                }
            }
            Self::Query { parameter } if parameter.is_empty() => {
                Err(InvalidKind("the query parameter needs a name"))
            }
            Self::Query { .. } => Ok(()),
            Self::Basic { username } if username.contains(':') => {
                Err(InvalidKind("the user name contains `:`, which HTTP Basic does not allow"))
            }
            Self::Basic { username } if username.chars().any(char::is_control) => {
                Err(InvalidKind("the user name contains a control character"))
            }
            Self::Basic { .. } => Ok(()),
            Self::ClientCredentials(oauth2) | Self::RefreshToken(oauth2) => {
                if oauth2.client_id.is_empty() {
                    return Err(InvalidKind("the client needs an id"));
                }
                let scope = |scope: &String| {
                    !scope.is_empty() && scope.bytes().all(|b| b.is_ascii_graphic())
                };
                match oauth2.scopes.iter().all(scope) {
                    true => Ok(()),
                    false => Err(InvalidKind("a scope contains invalid characters")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_have_a_stable_form_and_unknown_members_are_refused() {
        let oauth2 = OAuth2 {
            token_url: "https://id.example/token".to_owned(),
            client_id: "c".to_owned(),
            client_auth: ClientAuth::Post,
            scopes: vec!["a".to_owned()],
            resource: None,
        };
        let header = |prefix: &str| CredentialKind::Header {
            name: "authorization".to_owned(),
            prefix: prefix.to_owned(),
        };
        for (kind, form) in [
            (header(""), json!({"type": "header", "name": "authorization"})),
            (
                header("Bearer "),
                json!({"type": "header", "name": "authorization", "prefix": "Bearer "}),
            ),
            (
                CredentialKind::Query { parameter: "key".to_owned() },
                json!({"type": "query", "parameter": "key"}),
            ),
            (
                CredentialKind::Basic { username: "u".to_owned() },
                json!({"type": "basic", "username": "u"}),
            ),
            (
                CredentialKind::ClientCredentials(oauth2.clone()),
                json!({"type": "oauth2-client-credentials", "tokenUrl": "https://id.example/token",
                    "clientId": "c", "clientAuth": "post", "scopes": ["a"]}),
            ),
            (
                CredentialKind::RefreshToken(OAuth2 { scopes: vec![], ..oauth2 }),
                json!({"type": "oauth2-refresh-token", "tokenUrl": "https://id.example/token",
                    "clientId": "c", "clientAuth": "post"}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&kind).unwrap(), form);
            assert_eq!(form["type"], kind.word());
            assert_eq!(serde_json::from_value::<CredentialKind>(form).unwrap(), kind);
            assert_eq!(kind.check(), Ok(()));
        }
        let odd = json!({"type": "query", "parameter": "key", "value": "x"});
        assert!(serde_json::from_value::<CredentialKind>(odd).is_err());
    }

    #[test]
    fn credentials_that_cannot_be_sent_are_refused() {
        let header = |name: &str, prefix: &str| CredentialKind::Header {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
        };
        for bad in [
            header("", ""),
            header("X-Key", ""),
            header("x key", ""),
            header("host", ""),
            header("mcp-session-id", ""),
            header("x-key", "a\r\nb"),
            CredentialKind::Query { parameter: String::new() },
            CredentialKind::Basic { username: "a:b".to_owned() },
            CredentialKind::Basic { username: "a\n".to_owned() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
