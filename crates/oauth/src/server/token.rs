//! Requests of clients to the token endpoint (RFC 6749, sections 2.3, 4.1.3 and 6; RFC 7523) and to
//! the revocation endpoint (RFC 7009).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::time::Duration;
use toolcrib_core::credential::Secret;
use url::form_urlencoded;

use super::{
    error::{ErrorCode, Refused},
    parameters::Parameters,
};
use crate::pkce;

/// The grant type of assertions.
pub const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The lengths of a verifier (RFC 7636, section 4.1).
const VERIFIER: std::ops::RangeInclusive<usize> = 43..=128;

/// The client that sends a request, as it says.
#[derive(Debug)]
pub struct SentClient {
    /// Its id.
    pub id: String,
    /// Its secret, if it sent one.
    pub secret: Option<Secret>,
}

/// A request for a token.
#[derive(Debug)]
pub struct SentRequest {
    /// The client.
    pub client: SentClient,
    /// What it presents.
    pub grant: SentGrant,
    /// The resource that the token is for.
    pub resource: Option<String>,
}

/// What a client presents for a token.
#[derive(Debug)]
pub enum SentGrant {
    /// A code.
    Code {
        /// The code.
        code: Secret,
        /// The secret behind the challenge of the authorization request.
        verifier: Secret,
        /// The address of the authorization request, if it named one.
        redirect_uri: Option<String>,
    },
    /// A refresh token.
    Refresh(Secret),
    /// An assertion of a third party.
    Assertion(Secret),
}

/// A request to revoke a token.
#[derive(Debug)]
pub struct SentRevocation {
    /// The client.
    pub client: SentClient,
    /// The token, of whatever kind.
    pub token: Secret,
}

// === impl SentRequest ===

impl SentRequest {
    /// Reads a form, and the header `Authorization` if there is one.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn read(form: &str, authorization: Option<&str>) -> Result<Self, Refused> {
        let mut form = Parameters::read(form)?;
        let client = SentClient::read(&mut form, authorization)?;
        let grant = match form.get("grant_type") {
            Some("authorization_code") => SentGrant::Code {
                code: secret(&mut form, "code", "`code` is missing")?,
                verifier: secret(&mut form, "code_verifier", "`code_verifier` is missing")?,
                redirect_uri: form.take("redirect_uri"),
            },
            Some("refresh_token") => {
                let missing = "`refresh_token` is missing";
                SentGrant::Refresh(secret(&mut form, "refresh_token", missing)?)
            }
            Some(JWT_BEARER) => {
                SentGrant::Assertion(secret(&mut form, "assertion", "`assertion` is missing")?)
            }
            Some(_) => {
                let code = ErrorCode::UnsupportedGrantType;
                return Err(Refused { code, description: "this grant type is not supported" });
            }
            None => return Err(Refused::invalid("`grant_type` is missing")),
        };
        Ok(Self { client, grant, resource: form.take("resource") })
    }
}

// === impl SentRevocation ===

impl SentRevocation {
    /// Reads a form, and the header `Authorization` if there is one.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn read(form: &str, authorization: Option<&str>) -> Result<Self, Refused> {
        let mut form = Parameters::read(form)?;
        let client = SentClient::read(&mut form, authorization)?;
        Ok(Self { client, token: secret(&mut form, "token", "`token` is missing")? })
    }
}

// === impl SentClient ===

impl SentClient {
    fn read(form: &mut Parameters, authorization: Option<&str>) -> Result<Self, Refused> {
        let (named, sent) = (form.take("client_id"), form.take("client_secret"));
        let Some(header) = authorization else {
            let id = named.ok_or(Refused::client("`client_id` is missing"))?;
            return Ok(Self { id, secret: sent.map(Secret::new) });
        };
        let (id, secret) = basic(header).ok_or(Refused::client("only Basic is supported"))?;
        if sent.is_some() || named.is_some_and(|named| named != id) {
            return Err(Refused::invalid("the client authenticates in two ways"));
        }
        Ok(Self { id, secret: Some(secret).filter(|secret| !secret.expose().is_empty()) })
    }
}

/// Reads the header of a client (RFC 6749, section 2.3.1): both parts are encoded as in a form.
fn basic(header: &str) -> Option<(String, Secret)> {
    let (scheme, encoded) = header.trim().split_once(' ')?;
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let pair = String::from_utf8(decoded).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let (id, secret) = pair.split_once(':')?;
    let part = |text: &str| -> Option<String> {
        let text = text.replace('&', "%26").replace('=', "%3D");
        Some(form_urlencoded::parse(text.as_bytes()).next().map(|(it, _)| it.into_owned()))?
    };
    Some((part(id)?, Secret::new(part(secret).unwrap_or_default())))
}

fn secret(form: &mut Parameters, name: &str, missing: &'static str) -> Result<Secret, Refused> {
    form.take(name).map(Secret::new).ok_or(Refused::invalid(missing))
}

/// Whether `verifier` is behind `challenge`.
pub fn is_verifier(verifier: &Secret, challenge: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let text = verifier.expose();
    VERIFIER.contains(&text.len())
        && text.bytes().all(legal)
        && pkce::challenge(verifier) == challenge
}

/// The answer with an access token, and a refresh token if there is one.
pub fn answer(access: &Secret, lifetime: Duration, refresh: Option<&Secret>) -> Value {
    let mut answer = json!({
        "access_token": access.expose(),
        "token_type": "Bearer",
        "expires_in": lifetime.as_secs(),
    });
    if let (Some(refresh), Value::Object(members)) = (refresh, &mut answer) {
        members.insert("refresh_token".to_owned(), json!(refresh.expose()));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(form: &str, header: Option<&str>) -> ErrorCode {
        SentRequest::read(form, header).unwrap_err().code
    }

    #[test]
    fn a_code_is_presented_with_its_verifier() {
        let form = "grant_type=authorization_code&code=c&code_verifier=v&client_id=a\
                    &redirect_uri=http%3A%2F%2F127.0.0.1&resource=r";
        let request = SentRequest::read(form, None).unwrap();
        assert_eq!((request.client.id.as_str(), request.resource.as_deref()), ("a", Some("r")));
        assert!(!format!("{request:?}").contains("\"c\""));
        let SentGrant::Code { redirect_uri, .. } = request.grant else { panic!("no code") };
        assert_eq!(redirect_uri.as_deref(), Some("http://127.0.0.1"));
        for (form, code) in [
            ("grant_type=authorization_code&code=c&client_id=a", ErrorCode::InvalidRequest),
            (
                "grant_type=authorization_code&code_verifier=c&client_id=a",
                ErrorCode::InvalidRequest,
            ),
            ("grant_type=refresh_token&client_id=a", ErrorCode::InvalidRequest),
            ("grant_type=password&client_id=a", ErrorCode::UnsupportedGrantType),
            ("client_id=a", ErrorCode::InvalidRequest),
            ("grant_type=refresh_token&refresh_token=r", ErrorCode::InvalidClient),
            ("client_id=a&client_id=b", ErrorCode::InvalidRequest),
        ] {
            assert_eq!(refused(form, None), code, "{form}");
        }
    }

    #[test]
    fn a_client_authenticates_in_one_way() {
        let header = format!("Basic {}", STANDARD.encode("a+b:s%3A1"));
        let form = "grant_type=refresh_token&refresh_token=r";
        let client = SentRequest::read(form, Some(&header)).unwrap().client;
        assert_eq!((client.id.as_str(), client.secret.unwrap().expose()), ("a b", "s:1"));
        let named = format!("{form}&client_id=a+b");
        assert!(SentRequest::read(&named, Some(&header)).is_ok());
        let other = format!("{form}&client_id=c");
        assert_eq!(refused(&other, Some(&header)), ErrorCode::InvalidRequest);
        let twice = format!("{form}&client_secret=s");
        assert_eq!(refused(&twice, Some(&header)), ErrorCode::InvalidRequest);
        for wrong in ["Bearer x", "Basic !", "Basic", ""] {
            assert_eq!(refused(form, Some(wrong)), ErrorCode::InvalidClient, "{wrong}");
        }
    }

    #[test]
    fn a_verifier_is_behind_its_challenge() {
        let secret = |text: &str| Secret::new(text.to_owned());
        let verifier = secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert!(is_verifier(&verifier, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"));
        assert!(!is_verifier(&verifier, "x") && !is_verifier(&secret(""), ""));
        let short = secret("short");
        assert!(!is_verifier(&short, &pkce::challenge(&short)), "it could be guessed");
    }
}
