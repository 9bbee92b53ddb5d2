//! One request to a token endpoint and its answer (RFC 6749, sections 2.3, 4.4, 5 and 6).

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use toolcrib_core::credential::{ClientAuth, CredentialKind, Material, OAuth2, Secret};
use url::{Url, form_urlencoded};

use super::super::sendable::is_loopback;
use crate::egress::Outgoing;

/// A successful response of a token endpoint.
pub(super) struct TokenGrant {
    pub(super) access_token: Secret,
    pub(super) lifetime: Option<Duration>,
    pub(super) refresh_token: Option<Secret>,
}

/// Why no token was granted. From the response it contains at most an error code of RFC 6749.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenDenial {
    /// Permanent: the endpoint will reject the request again.
    #[error("{0}")]
    Permanent(&'static str),
    /// Temporary: a later request may succeed.
    #[error("{0}")]
    Temporary(String),
}

/// Error codes that stay the same when the request is repeated.
const PERMANENT: &[&str] = &[
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
];

/// Creates the request that exchanges `material` for an access token.
pub(super) fn request(kind: &CredentialKind, material: &Material) -> Result<Outgoing, TokenDenial> {
    let Some(oauth2) = kind.oauth2() else {
        return Err(TokenDenial::Permanent("it is not an OAuth credential"));
    };
    let mut request = Outgoing::new(Method::POST, endpoint(oauth2)?);
    let headers = &mut request.headers;
    let mut form = form_urlencoded::Serializer::new(String::new());
    let client_secret = match kind {
        CredentialKind::RefreshToken(_) => {
            form.append_pair("grant_type", "refresh_token");
            form.append_pair("refresh_token", material.value.expose());
            material.client_secret.as_ref()
        }
        _ => {
            form.append_pair("grant_type", "client_credentials");
            Some(&material.value)
        }
    };
    if !oauth2.scopes.is_empty() {
        form.append_pair("scope", &oauth2.scopes.join(" "));
    }
    match (oauth2.client_auth, client_secret) {
        (ClientAuth::Basic, Some(secret)) => {
            let part = |text: &str| -> String {
                form_urlencoded::byte_serialize(text.as_bytes()).collect()
            };
            let pair = format!("{}:{}", part(&oauth2.client_id), part(secret.expose()));
            let basic = format!("Basic {}", STANDARD.encode(pair));
            let mut value = HeaderValue::from_str(&basic).map_err(|_| {
                TokenDenial::Permanent("the client id or secret cannot be sent in a header")
            })?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        (ClientAuth::Post, Some(secret)) => {
            form.append_pair("client_id", &oauth2.client_id);
            form.append_pair("client_secret", secret.expose());
        }
        // A public client sends its id only.
        (_, None) => {
            form.append_pair("client_id", &oauth2.client_id);
        }
    }
    let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(header::CONTENT_TYPE, form_type);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    request.body = Some(form.finish().into());
    Ok(request)
}

/// Returns the token endpoint. It receives secrets, so it requires TLS or a loopback address.
fn endpoint(oauth2: &OAuth2) -> Result<Url, TokenDenial> {
    let unusable = TokenDenial::Permanent("its token endpoint is not an https URL");
    let Ok(url) = Url::parse(&oauth2.token_url) else { return Err(unusable) };
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        _ => Err(unusable),
    }
}

#[derive(Deserialize)]
struct Success {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

/// Parses the response of a token endpoint.
pub(super) fn read(status: StatusCode, body: &[u8]) -> Result<TokenGrant, TokenDenial> {
    let odd = |what: &str| TokenDenial::Temporary(format!("the token endpoint answered {what}"));
    if !status.is_success() {
        let failure: Value = serde_json::from_slice(body).unwrap_or_default();
        let code = failure.get("error").and_then(Value::as_str);
        let known = PERMANENT.iter().find(|known| code == Some(**known));
        return Err(match known {
            Some(code) => TokenDenial::Permanent(code),
            None if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                TokenDenial::Permanent("refused")
            }
            None => odd(&format!("with status {}", status.as_u16())),
        });
    }
    let Ok(success) = serde_json::from_slice::<Success>(body) else {
        return Err(odd("without a valid token response"));
    };
    if !success.token_type.is_none_or(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(TokenDenial::Permanent("its tokens are not bearer tokens"));
    }
    let sendable = |token: &str| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    if !sendable(&success.access_token) {
        return Err(odd("a token that cannot be sent"));
    }
    let seconds = success.expires_in.and_then(|value| match value {
        Value::Number(number) => number.as_f64(),
        // Some servers write the number as a string.
        Value::String(text) => text.parse().ok(),
        _ => None,
    });
    let lifetime = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
    let refresh_token = success.refresh_token.filter(|token| !token.is_empty()).map(Secret::new);
    Ok(TokenGrant { access_token: Secret::new(success.access_token), lifetime, refresh_token })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oauth2(client_auth: ClientAuth, scopes: &[&str]) -> OAuth2 {
        OAuth2 {
            token_url: "https://id.example/token".to_owned(),
            client_id: "client id".to_owned(),
            client_auth,
            scopes: scopes.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    fn material(value: &str, client: Option<&str>) -> Material {
        let secret = |text: &str| Secret::new(text.to_owned());
        Material { value: secret(value), client_secret: client.map(secret) }
    }

    fn text(request: &Outgoing) -> &str {
        std::str::from_utf8(request.body.as_ref().unwrap()).unwrap()
    }

    #[test]
    fn a_client_authenticates_by_the_configured_method() {
        let basic = oauth2(ClientAuth::Basic, &["a", "b"]);
        let kind = CredentialKind::ClientCredentials(basic.clone());
        let sent = request(&kind, &material("s:1", None)).unwrap();
        assert_eq!(text(&sent), "grant_type=client_credentials&scope=a+b");
        let pair = STANDARD.encode("client+id:s%3A1");
        assert_eq!(sent.headers[header::AUTHORIZATION], format!("Basic {pair}"));
        assert!(sent.headers[header::AUTHORIZATION].is_sensitive());

        let post = oauth2(ClientAuth::Post, &[]);
        let kind = CredentialKind::RefreshToken(post.clone());
        let sent = request(&kind, &material("r&1", Some("s"))).unwrap();
        let expected =
            "grant_type=refresh_token&refresh_token=r%261&client_id=client+id&client_secret=s";
        assert_eq!(text(&sent), expected);
        assert!(!sent.headers.contains_key(header::AUTHORIZATION));

        let kind = CredentialKind::RefreshToken(basic.clone());
        let sent = request(&kind, &material("r", None)).unwrap();
        assert!(text(&sent).ends_with("client_id=client+id"), "{}", text(&sent));
        assert!(!sent.headers.contains_key(header::AUTHORIZATION));
    }

    #[test]
    fn answers_are_understood_and_not_repeated() {
        let ok = |body: &str| read(StatusCode::OK, body.as_bytes());
        let full = ok(
            r#"{"access_token":"a","token_type":"Bearer","expires_in":3600,"refresh_token":"r","x":1}"#,
        );
        let full = full.ok().unwrap();
        assert_eq!(full.access_token.expose(), "a");
        assert_eq!(full.lifetime, Some(Duration::from_secs(3600)));
        assert_eq!(full.refresh_token.unwrap().expose(), "r");
        for (body, lifetime) in [
            (r#"{"access_token":"a"}"#, None),
            (r#"{"access_token":"a","expires_in":"60"}"#, Some(60)),
            (r#"{"access_token":"a","expires_in":-5}"#, Some(0)),
            (r#"{"access_token":"a","expires_in":1e300}"#, None),
            (r#"{"access_token":"a","expires_in":null,"refresh_token":""}"#, None),
        ] {
            let granted = ok(body).ok().unwrap();
            assert_eq!(granted.lifetime, lifetime.map(Duration::from_secs), "{body}");
            assert!(granted.refresh_token.is_none());
        }
        for (status, body, is_final) in [
            (200, r#"{"access_token":"canary","token_type":"mac"}"#, true),
            (200, r#"{"access_token":""}"#, false),
            (200, "{\"access_token\":\"canary\\n\"}", false),
            (200, "canary", false),
            (302, "", false),
            (400, r#"{"error":"invalid_grant","error_description":"canary"}"#, true),
            (401, "canary", true),
            (400, r#"{"error":"canary"}"#, false),
            (400, r#"{"error":"slow_down"}"#, false),
            (503, "canary", false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let denied = read(status, body.as_bytes()).err().expect(body);
            assert_eq!(matches!(denied, TokenDenial::Permanent(_)), is_final, "{body}: {denied}");
            assert!(!denied.to_string().contains("canary"), "{denied}");
        }
    }
}
