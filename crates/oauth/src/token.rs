//! Requests of a token endpoint and its answers (RFC 6749, sections 2.3, 4 to 6; RFC 8707;
//! RFC 8693), and requests of a revocation endpoint (RFC 7009).

mod error;

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value;
use toolcrib_core::{
    credential::{ClientAuth, Secret},
    json,
    key_set::{FormAnswer, TokenForm},
};
use url::form_urlencoded;

use self::error::shown;
pub use self::error::{TokenError, TokenRefusal};
use crate::scopes;

/// The names of the token type that RFC 6750 defines. Slack names the kind of account instead.
const BEARER: &[&str] = &["bearer", "user", "bot"];

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
    /// A token of the caller (RFC 8693, section 2.1).
    Exchange {
        /// The token.
        subject_token: &'a Secret,
        /// Its type, such as `urn:ietf:params:oauth:token-type:access_token`.
        subject_token_type: &'a str,
        /// The service that the new token is for, by its name at the server.
        audience: Option<&'a str>,
    },
    /// A token of the caller, at Microsoft Entra (its on-behalf-of flow; RFC 7523, section 2.1).
    OnBehalfOf {
        /// The token.
        assertion: &'a Secret,
    },
}

/// The kinds of tokens that can be revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// An access token.
    Access,
    /// A refresh token; most servers revoke its access tokens too.
    Refresh,
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
    /// The granted scopes; `None` if the server does not list them, because they are the requested
    /// ones.
    pub scopes: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Success {
    access_token: Option<String>,
    token_type: Option<String>,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
    id_token: Option<String>,
    scope: Option<Value>,
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
            Grant::Exchange { subject_token, subject_token_type, audience } => {
                form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
                    .append_pair("subject_token", subject_token.expose())
                    .append_pair("subject_token_type", subject_token_type);
                if let Some(audience) = audience {
                    form.append_pair("audience", audience);
                }
            }
            Grant::OnBehalfOf { assertion } => {
                form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
                    .append_pair("assertion", assertion.expose())
                    .append_pair("requested_token_use", "on_behalf_of");
            }
        }
        if !self.scopes.is_empty() {
            form.append_pair("scope", &self.scopes.join(" "));
        }
        if let Some(resource) = self.resource {
            form.append_pair("resource", resource);
        }
        self.client.authenticate(form)
    }
}

// === impl Client ===

impl Client<'_> {
    /// The request to revoke `token`, for the revocation endpoint (RFC 7009, section 2.1).
    pub fn revocation(&self, token: &Secret, kind: TokenKind) -> TokenForm {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let hint = match kind {
            TokenKind::Access => "access_token",
            TokenKind::Refresh => "refresh_token",
        };
        form.append_pair("token", token.expose()).append_pair("token_type_hint", hint);
        self.authenticate(form)
    }

    fn authenticate(&self, mut form: form_urlencoded::Serializer<'_, String>) -> TokenForm {
        let authorization = match self.secret {
            Some((secret, ClientAuth::Basic)) => Some(basic(self.id, secret)),
            Some((secret, ClientAuth::Post)) => {
                form.append_pair("client_id", self.id);
                form.append_pair("client_secret", secret.expose());
                None
            }
            Some((_, ClientAuth::None)) | None => {
                form.append_pair("client_id", self.id);
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
    /// Reads the answer of a token endpoint. A refusal can have the status of a success: GitHub and
    /// Slack answer so.
    ///
    /// # Errors
    /// [`TokenError::Refused`] or [`TokenError::Malformed`].
    pub fn read(answer: &FormAnswer) -> Result<Self, TokenError> {
        let body = json::parse_strict(&answer.body).ok();
        let said = |name: &str| {
            let text = body.as_ref()?.get(name)?.as_str()?;
            Some(shown(text))
        };
        let error = said("error");
        let is_refused = error.as_ref().is_some_and(|error| !error.is_empty());
        if is_refused || !(200..300).contains(&answer.status) {
            let description = said("error_description");
            let refusal = TokenRefusal { status: answer.status, error, description };
            return Err(TokenError::Refused(refusal));
        }
        let success = body.and_then(|body| serde_json::from_value::<Success>(body).ok());
        let success = success.ok_or(TokenError::Malformed("without a valid token response"))?;
        let seconds = success.expires_in.and_then(|value| match value {
            Value::Number(number) => number.as_f64(),
            // Some servers write the number as a string.
            Value::String(text) => text.parse().ok(),
            _ => None,
        });
        let scopes = success.scope.as_ref().and_then(Value::as_str);
        // An empty list has no meaning in RFC 6749; GitHub sends it for tokens of its apps.
        let scopes = scopes.filter(|text| !text.trim().is_empty()).map(scopes::read);
        let is_bearer = |kind: String| BEARER.iter().any(|name| kind.eq_ignore_ascii_case(name));
        Ok(Self {
            access_token: success.access_token.map(Secret::new),
            is_bearer: success.token_type.is_none_or(is_bearer),
            lifetime: seconds.and_then(|value| Duration::try_from_secs_f64(value.max(0.0)).ok()),
            refresh_token: success.refresh_token.filter(|token| !token.is_empty()).map(Secret::new),
            id_token: success.id_token.map(Secret::new),
            scopes,
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

#[cfg(test)]
mod tests {
    use super::{error::MAX_TEXT, *};

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
    fn a_token_of_the_caller_is_exchanged() {
        let (token, key) = (secret("t.&"), secret("s"));
        let client = Client { id: "id", secret: Some((&key, ClientAuth::Post)) };
        let sent = |grant, scopes| {
            let form = TokenRequest { client, grant, scopes, resource: None }.form();
            form.body.expose().to_owned()
        };
        let subject_token_type = "urn:ietf:params:oauth:token-type:access_token";
        let exchange =
            |audience| Grant::Exchange { subject_token: &token, subject_token_type, audience };
        let expected = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange\
             &subject_token=t.%26\
             &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token\
             &audience=api+1&client_id=id&client_secret=s";
        assert_eq!(sent(exchange(Some("api 1")), &[]), expected);
        assert_eq!(sent(exchange(None), &[]), expected.replace("&audience=api+1", ""));
        assert_eq!(
            sent(Grant::OnBehalfOf { assertion: &token }, &["a/.default".to_owned()]),
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=t.%26\
             &requested_token_use=on_behalf_of&scope=a%2F.default&client_id=id&client_secret=s"
        );
    }

    #[test]
    fn a_token_is_revoked_by_its_client() {
        let (token, key) = (secret("t&"), secret("s"));
        let public = Client { id: "id", secret: None };
        let form = public.revocation(&token, TokenKind::Refresh);
        assert_eq!(form.body.expose(), "token=t%26&token_type_hint=refresh_token&client_id=id");
        let private = Client { id: "id", secret: Some((&key, ClientAuth::Basic)) };
        let form = private.revocation(&token, TokenKind::Access);
        assert_eq!(form.body.expose(), "token=t%26&token_type_hint=access_token");
        assert_eq!(form.authorization.unwrap().expose(), basic("id", &key).expose());
    }

    #[test]
    fn granted_scopes_are_listed_or_the_requested_ones() {
        for (scope, scopes) in [
            (r#""a b""#, Some(&["a", "b"][..])),
            (r#""repo,gist""#, Some(&["repo", "gist"])),
            (r#""""#, None),
            (r#"" ""#, None),
            ("null", None),
            (r#"["a"]"#, None),
        ] {
            let granted = answer(200, &format!(r#"{{"access_token":"t","scope":{scope}}}"#));
            assert_eq!(
                granted.unwrap().scopes.as_deref(),
                scopes
                    .map(|list| { list.iter().map(|&scope| scope.to_owned()).collect::<Vec<_>>() })
                    .as_deref()
            );
        }
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
            (r#"{"access_token":"a","error":null}"#, None),
            (r#"{"ok":true,"access_token":"a","token_type":"user"}"#, None),
            (r#"{"access_token":"a","error":""}"#, None),
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
            (200, r#"{"error":"bad_refresh_token","error_description":"canary"}"#, true),
            (200, r#"{"ok":false,"error":"canary","access_token":"canary"}"#, false),
            (500, r#"{"error":"invalid_grant"}"#, false),
            (429, r#"{"error":"invalid_grant"}"#, false),
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
