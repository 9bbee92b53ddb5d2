//! Requests of a token endpoint and its answers (RFC 6749, sections 2.3, 4 to 6; RFC 8707).
//!
//! Invariant: `Display` and `Debug` of an error have at most a code of RFC 6749 from the answer: a
//! server can repeat a secret in any other text.

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value;
use toolcrib_core::{
    credential::{ClientAuth, Secret},
    json,
    key_set::{FormAnswer, TokenForm},
    text,
};
use url::form_urlencoded;

/// Longest text of a server that people see.
const MAX_TEXT: usize = 300;

/// Error codes that stay the same when the request is repeated.
const PERMANENT: &[&str] = &[
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
];

/// A request to a token endpoint (RFC 6749).
#[derive(Clone, Copy)]
pub struct TokenRequest<'a> {
    /// The client that requests the token.
    pub client: Client<'a>,
    /// What the token is exchanged for.
    pub grant: Grant<'a>,
    /// The scopes to request; empty for those of the grant.
    pub scopes: &'a [String],
    /// The resource that the token is for.
    pub resource: Option<&'a str>,
}

/// A registered client.
#[derive(Clone, Copy)]
pub struct Client<'a> {
    /// Its `client_id`.
    pub id: &'a str,
    /// Its secret, and how to send it; `None` for a public client, which sends its id only.
    pub secret: Option<(&'a Secret, ClientAuth)>,
}

/// What a token is exchanged for.
#[derive(Clone, Copy)]
pub enum Grant<'a> {
    /// The code that a browser brought back.
    Code {
        /// The code, valid for one exchange.
        code: &'a str,
        /// The verifier behind the challenge of the authorization request.
        verifier: &'a str,
        /// The address of the authorization request.
        redirect_uri: &'a str,
    },
    /// A refresh token.
    Refresh(&'a Secret),
    /// The credentials of the client.
    Client,
}

/// A successful answer.
#[derive(Debug)]
pub struct TokenAnswer {
    access_token: Option<Secret>,
    is_bearer: bool,
    /// How long the access token is valid, if the server says so.
    pub lifetime: Option<Duration>,
    /// The refresh token that replaces the present one.
    pub refresh_token: Option<Secret>,
    /// The ID token of OpenID Connect.
    pub id_token: Option<Secret>,
}

/// Why there is no token.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenError {
    /// The server refuses.
    Refused(TokenRefusal),
    /// The request cannot be sent, or the token cannot be used; the same the next time.
    Unusable(&'static str),
    /// The answer is not one of RFC 6749.
    Malformed(&'static str),
    /// There is no answer. The text is of this host.
    Unreachable(String),
}

/// A refusal. Its texts are of the server: only the person who signs in may see them.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenRefusal {
    /// The HTTP status.
    pub status: u16,
    /// The code, such as `invalid_client`.
    pub error: Option<String>,
    /// The server's explanation.
    pub description: Option<String>,
}

#[derive(Deserialize)]
struct Success {
    access_token: Option<String>,
    token_type: Option<String>,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
    id_token: Option<String>,
}

// === impl TokenRequest ===

impl TokenRequest<'_> {
    /// The form to send.
    pub fn form(&self) -> TokenForm {
        let mut form = form_urlencoded::Serializer::new(String::new());
        match self.grant {
            Grant::Code { code, verifier, redirect_uri } => {
                form.append_pair("grant_type", "authorization_code")
                    .append_pair("code", code)
                    .append_pair("code_verifier", verifier)
                    .append_pair("redirect_uri", redirect_uri);
            }
            Grant::Refresh(token) => {
                form.append_pair("grant_type", "refresh_token");
                form.append_pair("refresh_token", token.expose());
            }
            Grant::Client => {
                form.append_pair("grant_type", "client_credentials");
            }
        }
        if !self.scopes.is_empty() {
            form.append_pair("scope", &self.scopes.join(" "));
        }
        if let Some(resource) = self.resource {
            form.append_pair("resource", resource);
        }
        let authorization = match self.client.secret {
            Some((secret, ClientAuth::Basic)) => Some(basic(self.client.id, secret)),
            Some((secret, ClientAuth::Post)) => {
                form.append_pair("client_id", self.client.id);
                form.append_pair("client_secret", secret.expose());
                None
            }
            None => {
                form.append_pair("client_id", self.client.id);
                None
            }
        };
        TokenForm { body: Secret::new(form.finish()), authorization }
    }
}

/// The header of a client (RFC 6749, section 2.3.1): both parts are encoded as in a form.
fn basic(id: &str, secret: &Secret) -> Secret {
    let part =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let pair = format!("{}:{}", part(id), part(secret.expose()));
    Secret::new(format!("Basic {}", STANDARD.encode(pair)))
}

// === impl TokenAnswer ===

impl TokenAnswer {
    /// Reads the answer of a token endpoint.
    ///
    /// # Errors
    /// [`TokenError::Refused`] or [`TokenError::Malformed`].
    pub fn read(answer: &FormAnswer) -> Result<Self, TokenError> {
        let body = json::parse_strict(&answer.body).ok();
        if !(200..300).contains(&answer.status) {
            let said = |name: &str| {
                let text = body.as_ref()?.get(name)?.as_str()?;
                Some(shown(text))
            };
            return Err(TokenError::Refused(TokenRefusal {
                status: answer.status,
                error: said("error"),
                description: said("error_description"),
            }));
        }
        let success = body.and_then(|body| serde_json::from_value::<Success>(body).ok());
        let success = success.ok_or(TokenError::Malformed("without a valid token response"))?;
        let seconds = success.expires_in.and_then(|value| match value {
            Value::Number(number) => number.as_f64(),
            // Some servers write the number as a string.
            Value::String(text) => text.parse().ok(),
            _ => None,
        });
        let is_bearer = |kind: String| kind.eq_ignore_ascii_case("bearer");
        Ok(Self {
            access_token: success.access_token.map(Secret::new),
            is_bearer: success.token_type.is_none_or(is_bearer),
            lifetime: seconds.and_then(|value| Duration::try_from_secs_f64(value.max(0.0)).ok()),
            refresh_token: success.refresh_token.filter(|token| !token.is_empty()).map(Secret::new),
            id_token: success.id_token.map(Secret::new),
        })
    }

    /// The access token, if it can be sent as a bearer token.
    ///
    /// # Errors
    /// [`TokenError::Unusable`] or [`TokenError::Malformed`].
    pub fn bearer(&self) -> Result<&Secret, TokenError> {
        if !self.is_bearer {
            return Err(TokenError::Unusable("its tokens are not bearer tokens"));
        }
        let token = self.access_token.as_ref().filter(|token| {
            let token = token.expose();
            !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
        });
        token.ok_or(TokenError::Malformed("without a token that can be sent"))
    }
}

// === impl TokenError ===

impl TokenError {
    /// Whether the server will refuse the same request again.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Refused(refusal) => {
                refusal.known().is_some() || matches!(refusal.status, 401 | 403)
            }
            Self::Unusable(_) => true,
            Self::Malformed(_) | Self::Unreachable(_) => false,
        }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => match (refusal.known(), refusal.status) {
                (Some(code), _) => f.write_str(code),
                (None, 401 | 403) => f.write_str("refused"),
                (None, status) => write!(f, "the token endpoint answered with status {status}"),
            },
            Self::Unusable(problem) => f.write_str(problem),
            Self::Malformed(what) => write!(f, "the token endpoint answered {what}"),
            Self::Unreachable(problem) => write!(f, "the token endpoint: {problem}"),
        }
    }
}

impl fmt::Debug for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenError({self})")
    }
}

impl std::error::Error for TokenError {}

// === impl TokenRefusal ===

impl TokenRefusal {
    fn known(&self) -> Option<&'static str> {
        PERMANENT.iter().find(|known| self.error.as_deref() == Some(**known)).copied()
    }
}

/// Bounds a text of a server, and removes invisible characters.
fn shown(said: &str) -> String {
    let end = said.floor_char_boundary(MAX_TEXT);
    text::seen(said.get(..end).unwrap_or_default()).replace(['\n', '\r', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn answer(status: u16, body: &str) -> Result<TokenAnswer, TokenError> {
        TokenAnswer::read(&FormAnswer { status, body: body.into() })
    }

    #[test]
    fn a_client_authenticates_by_the_configured_method() {
        let scopes = ["a".to_owned(), "b".to_owned()];
        let sent = |secret, grant, scopes| {
            let client = Client { id: "client id", secret };
            let form = TokenRequest { client, grant, scopes, resource: None }.form();
            assert!(!format!("{form:?}").contains("r&1"));
            let header = form.authorization.map(|header| header.expose().to_owned());
            (form.body.expose().to_owned(), header)
        };
        let key = secret("s:1");
        let (body, header) = sent(Some((&key, ClientAuth::Basic)), Grant::Client, &scopes);
        assert_eq!(body, "grant_type=client_credentials&scope=a+b");
        assert_eq!(header, Some(format!("Basic {}", STANDARD.encode("client+id:s%3A1"))));
        let (key, token) = (secret("s"), secret("r&1"));
        let (body, header) = sent(Some((&key, ClientAuth::Post)), Grant::Refresh(&token), &[]);
        let expected =
            "grant_type=refresh_token&refresh_token=r%261&client_id=client+id&client_secret=s";
        assert_eq!((body.as_str(), header), (expected, None));
        let (body, header) = sent(None, Grant::Refresh(&token), &[]);
        assert!(body.ends_with("client_id=client+id"), "{body}");
        assert_eq!(header, None);
    }

    #[test]
    fn a_code_is_exchanged_with_its_verifier_and_resource() {
        let grant = Grant::Code { code: "c", verifier: "v", redirect_uri: "https://a.example/" };
        let client = Client { id: "id", secret: None };
        let resource = Some("https://api.example");
        let form = TokenRequest { client, grant, scopes: &[], resource }.form();
        assert_eq!(
            form.body.expose(),
            "grant_type=authorization_code&code=c&code_verifier=v\
             &redirect_uri=https%3A%2F%2Fa.example%2F&resource=https%3A%2F%2Fapi.example\
             &client_id=id"
        );
    }

    #[test]
    fn answers_are_understood() {
        let full = answer(
            200,
            r#"{"access_token":"a","token_type":"Bearer","expires_in":3600,"refresh_token":"r",
                "id_token":"i","x":1}"#,
        );
        let full = full.unwrap();
        assert_eq!(full.bearer().unwrap().expose(), "a");
        assert_eq!(full.lifetime, Some(Duration::from_secs(3600)));
        assert_eq!(full.refresh_token.as_ref().unwrap().expose(), "r");
        assert_eq!(full.id_token.as_ref().unwrap().expose(), "i");
        assert!(!format!("{full:?}").contains("\"a\""));
        for (body, lifetime) in [
            (r#"{"access_token":"a"}"#, None),
            (r#"{"access_token":"a","expires_in":"60"}"#, Some(60)),
            (r#"{"access_token":"a","expires_in":-5}"#, Some(0)),
            (r#"{"access_token":"a","expires_in":1e300}"#, None),
            (r#"{"access_token":"a","expires_in":null,"refresh_token":""}"#, None),
        ] {
            let granted = answer(200, body).unwrap();
            assert_eq!(granted.lifetime, lifetime.map(Duration::from_secs), "{body}");
            assert!(granted.refresh_token.is_none() && granted.bearer().is_ok());
        }
    }

    #[test]
    fn failures_are_permanent_or_not_and_repeat_nothing() {
        for (status, body, is_permanent) in [
            (200, r#"{"access_token":"canary","token_type":"mac"}"#, true),
            (200, r#"{"access_token":""}"#, false),
            (200, "{\"access_token\":\"canary\\n\"}", false),
            (200, r#"{"token_type":"bearer"}"#, false),
            (200, r#"{"access_token":"a","access_token":"canary"}"#, false),
            (200, "canary", false),
            (302, "", false),
            (400, r#"{"error":"invalid_grant","error_description":"canary"}"#, true),
            (401, "canary", true),
            (400, r#"{"error":"canary"}"#, false),
            (400, r#"{"error":"slow_down"}"#, false),
            (503, "canary", false),
        ] {
            let failed = answer(status, body).and_then(|response| response.bearer().cloned()).err();
            let failed = failed.expect(body);
            assert_eq!(failed.is_permanent(), is_permanent, "{body}: {failed}");
            assert!(!format!("{failed} {failed:?}").contains("canary"), "{failed}");
        }
    }

    #[test]
    fn a_refusal_has_bounded_texts_for_the_person_who_signs_in() {
        let long = "x".repeat(1000);
        let body = format!(r#"{{"error":"invalid_client","error_description":"a\nb{long}"}}"#);
        let Err(TokenError::Refused(refused)) = answer(400, &body) else { panic!() };
        assert_eq!(refused.error.as_deref(), Some("invalid_client"));
        let description = refused.description.unwrap();
        assert!(description.len() <= MAX_TEXT && !description.contains('\n'), "{description}");
        for body in ["", "<html>", "[]", "{}", r#"{"error":1}"#] {
            let Err(TokenError::Refused(refused)) = answer(400, body) else { panic!() };
            assert_eq!((refused.error, refused.description), (None, None), "{body}");
        }
    }
}
