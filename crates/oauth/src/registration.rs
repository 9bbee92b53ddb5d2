//! How this client becomes known to an authorization server: by a document that the server fetches
//! (draft-ietf-oauth-client-id-metadata-document), or by registration (RFC 7591).
//!
//! Invariant: no error of this module has text of a server.

use serde_json::{Value, json};
use toolcrib_core::{
    clock::Timestamp,
    credential::{ClientAuth, PresetClient, Secret},
    egress::AllowList,
    json,
    key_set::FormAnswer,
};
use url::Url;

use crate::metadata::Metadata;

/// The most bytes of a client id and of a client secret.
const MAX_VALUE: usize = 4 << 10;
/// The codes of RFC 7591, section 3.2.2, and RFC 6750, section 3.1.
const CODES: &[&str] = &[
    "invalid_redirect_uri",
    "invalid_client_metadata",
    "invalid_software_statement",
    "unapproved_software_statement",
    "invalid_request",
    "invalid_token",
    "insufficient_scope",
];

/// This client: a program on a server, which uses codes and refresh tokens.
#[derive(Debug, Clone, Copy)]
pub struct ClientDescription<'a> {
    /// Its name for people.
    pub name: &'a str,
    /// The address of its page for people.
    pub uri: Option<&'a str>,
    /// The addresses to which servers send browsers back.
    pub redirect_uris: &'a [String],
}

/// A registered client.
#[derive(Debug, Clone)]
pub struct Registration {
    /// The id that the server gave it.
    pub client_id: String,
    /// How it authenticates.
    pub auth: ClientAuth,
    /// Its secret, unless it authenticates with its id alone.
    pub secret: Option<Secret>,
    /// When the secret expires.
    pub expires_at: Option<Timestamp>,
}

/// Why there is no registered client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The server refuses.
    #[error("the authorization server refused to register a client: {}", reason(*status, *code))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The code, if a standard has it.
        code: Option<&'static str>,
    },
    /// The answer is not one of RFC 7591.
    #[error("the authorization server registered a client {0}")]
    Malformed(&'static str),
}

/// The ways to a client id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The client that the operator registered.
    Preset,
    /// The address of the client's document is its id.
    Document,
    /// Registration at this endpoint.
    Register(Url),
}

/// The authorization server offers no way to a client id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the authorization server does not register clients on its own; register a client there by \
     hand, and set `client_id`"
)]
pub struct NoWay;

/// Chooses a way in the order of MCP 2026-07-28. `client_document` is the address of the client's
/// document, which servers can fetch only over https.
///
/// # Errors
/// [`NoWay`].
pub fn choose(
    preset: Option<&PresetClient>,
    metadata: &Metadata,
    client_document: Option<&str>,
    allow: &AllowList,
) -> Result<Way, NoWay> {
    if preset.is_some() {
        return Ok(Way::Preset);
    }
    let has_document = client_document.is_some_and(|url| url.starts_with("https://"));
    if has_document && metadata.fetches_client_documents() {
        return Ok(Way::Document);
    }
    metadata.endpoint("registration_endpoint", allow).map(Way::Register).ok_or(NoWay)
}

/// The name of a method in metadata.
fn method(auth: ClientAuth) -> &'static str {
    match auth {
        ClientAuth::Basic => "client_secret_basic",
        ClientAuth::Post => "client_secret_post",
        ClientAuth::None => "none",
    }
}

fn reason(status: u16, code: Option<&str>) -> String {
    code.map_or_else(|| format!("status {status}"), str::to_owned)
}

// === impl ClientDescription ===

impl ClientDescription<'_> {
    /// The document at `url`, whose address is the id of the client.
    pub fn document(&self, url: &str) -> Value {
        self.members(ClientAuth::None, Some(("client_id", json!(url))))
    }

    /// The body of a registration, for a client that authenticates by `auth` (see
    /// [`Metadata::registration_auth`]).
    pub fn registration(&self, auth: ClientAuth) -> Value {
        self.members(auth, None)
    }

    fn members(&self, auth: ClientAuth, id: Option<(&'static str, Value)>) -> Value {
        let members = [
            ("client_name", json!(self.name)),
            ("redirect_uris", json!(self.redirect_uris)),
            ("grant_types", json!(["authorization_code", "refresh_token"])),
            ("response_types", json!(["code"])),
            ("token_endpoint_auth_method", json!(method(auth))),
            // OpenID Connect's word for a client whose redirect addresses belong to a server.
            ("application_type", json!("web")),
        ];
        let uri = self.uri.map(|uri| ("client_uri", json!(uri)));
        let members = id.into_iter().chain(members).chain(uri);
        Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

// === impl Registration ===

impl Registration {
    /// Reads the answer of a registration endpoint to a client that wanted to authenticate by
    /// `auth`. The server may choose another method.
    ///
    /// # Errors
    /// [`RegistrationError`].
    pub fn read(answer: &FormAnswer, auth: ClientAuth) -> Result<Self, RegistrationError> {
        let body = json::parse_strict(&answer.body).ok();
        let text = |name: &str| body.as_ref()?.get(name)?.as_str();
        if !(200..300).contains(&answer.status) {
            let code = CODES.iter().find(|code| text("error") == Some(code)).copied();
            return Err(RegistrationError::Refused { status: answer.status, code });
        }
        let client_id = text("client_id").filter(|id| is_value(id));
        let client_id = client_id.ok_or(RegistrationError::Malformed("without a valid id"))?;
        let secret = text("client_secret").filter(|secret| !secret.is_empty());
        if secret.is_some_and(|secret| !is_value(secret)) {
            return Err(RegistrationError::Malformed("with an invalid secret"));
        }
        let auth = match (text("token_endpoint_auth_method"), secret) {
            (Some("none"), _) | (None, None) => ClientAuth::None,
            (Some("client_secret_basic"), Some(_)) => ClientAuth::Basic,
            (Some("client_secret_post"), Some(_)) => ClientAuth::Post,
            (None, Some(_)) if auth == ClientAuth::Post => ClientAuth::Post,
            // The default of RFC 7591.
            (None, Some(_)) => ClientAuth::Basic,
            (Some("client_secret_basic" | "client_secret_post"), None) => {
                return Err(RegistrationError::Malformed("without the secret that it requires"));
            }
            (Some(_), _) => {
                return Err(RegistrationError::Malformed("with an unknown authentication method"));
            }
        };
        let secret = secret.filter(|_| auth != ClientAuth::None);
        let expires = body.as_ref().and_then(|body| body.get("client_secret_expires_at"));
        // 0 means never.
        let expires = expires.and_then(Value::as_i64).filter(|seconds| *seconds > 0);
        let time = |seconds| Timestamp::from_timestamp(seconds, 0).unwrap_or(Timestamp::MAX_UTC);
        Ok(Self {
            client_id: client_id.to_owned(),
            auth,
            secret: secret.map(|secret| Secret::new(secret.to_owned())),
            expires_at: expires.filter(|_| secret.is_some()).map(time),
        })
    }
}

/// The characters of RFC 6749, appendix A: printable ASCII.
fn is_value(text: &str) -> bool {
    let is_visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    (1..=MAX_VALUE).contains(&text.len()) && text.bytes().all(is_visible)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an answer with these members to a client that wanted `client_secret_post`.
    fn read(status: u16, members: &str) -> Result<Registration, RegistrationError> {
        let body = format!("{{{members}}}").into_bytes();
        Registration::read(&FormAnswer { status, body }, ClientAuth::Post)
    }

    #[test]
    fn a_client_describes_itself() {
        let redirect_uris = ["https://crib.example/connect/a/callback".to_owned()];
        let client = ClientDescription { name: "Crib", uri: None, redirect_uris: &redirect_uris };
        let url = "https://crib.example/connect/client.json";
        let mut expected = json!({
            "client_id": url,
            "client_name": "Crib",
            "redirect_uris": ["https://crib.example/connect/a/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "web",
        });
        assert_eq!(client.document(url), expected);
        expected.as_object_mut().unwrap().remove("client_id");
        assert_eq!(client.registration(ClientAuth::None), expected);
        expected["token_endpoint_auth_method"] = json!("client_secret_basic");
        expected["client_uri"] = json!("https://crib.example/");
        let client = ClientDescription { uri: Some("https://crib.example/"), ..client };
        assert_eq!(client.registration(ClientAuth::Basic), expected);
    }

    #[test]
    fn a_preset_client_comes_before_a_document_and_a_registration() {
        let preset = PresetClient { id: "c".to_owned(), secret: None, auth: ClientAuth::None };
        let choose = |preset, members: &str, document| {
            let metadata = format!(r#"{{"issuer":"i"{members}}}"#);
            let metadata = Metadata::read(metadata.as_bytes(), "i").unwrap();
            choose(preset, &metadata, document, &AllowList::default())
        };
        let documents = r#","client_id_metadata_document_supported":true"#;
        let registers = r#","registration_endpoint":"https://id.example/r""#;
        let both = format!("{documents}{registers}");
        let register = Way::Register(Url::parse("https://id.example/r").unwrap());
        let (https, http) = (Some("https://crib.example/c.json"), Some("http://crib.example/c"));
        assert_eq!(choose(Some(&preset), &both, https), Ok(Way::Preset));
        assert_eq!(choose(None, &both, https), Ok(Way::Document));
        assert_eq!(choose(None, &both, http), Ok(register.clone()));
        assert_eq!(choose(None, &both, None), Ok(register.clone()));
        assert_eq!(choose(None, registers, https), Ok(register));
        assert_eq!(choose(None, documents, None), Err(NoWay));
        assert_eq!(choose(None, "", https), Err(NoWay));
        let unsafe_endpoint = registers.replace("https", "http");
        assert_eq!(choose(None, &unsafe_endpoint, https), Err(NoWay));
        assert!(NoWay.to_string().contains("`client_id`"));
    }

    #[test]
    fn answers_of_registration_are_understood() {
        use ClientAuth::{Basic, None as Id, Post};
        let secret = r#","client_secret":"s""#.to_owned();
        let method = |name| format!(r#"{secret},"token_endpoint_auth_method":"{name}""#);
        for (members, auth, has_secret) in [
            (String::new(), Id, false),
            (r#","client_secret":"","client_secret_expires_at":9"#.to_owned(), Id, false),
            (secret.clone(), Post, true),
            (method("none"), Id, false),
            (method("client_secret_post"), Post, true),
            (method("client_secret_basic"), Basic, true),
        ] {
            let client = read(201, &format!(r#""client_id":"id 1"{members}"#)).unwrap();
            assert_eq!((client.client_id.as_str(), client.auth), ("id 1", auth), "{members}");
            assert_eq!((client.secret.is_some(), client.expires_at), (has_secret, None));
        }
        let body = br#"{"client_id":"c","client_secret":"s"}"#.into();
        let answer = FormAnswer { status: 200, body };
        assert_eq!(Registration::read(&answer, Id).unwrap().auth, Basic);
        for (expires, time) in [
            ("1900000000", Timestamp::from_timestamp(1_900_000_000, 0)),
            ("9000000000000000000", Some(Timestamp::MAX_UTC)),
            ("0", None),
            ("-5", None),
            ("null", None),
        ] {
            let members = r#""client_id":"c","client_secret":"s","client_secret_expires_at":"#;
            let client = read(201, &format!("{members}{expires}"));
            assert_eq!(client.unwrap().expires_at, time, "{expires}");
        }
    }

    #[test]
    fn unusable_answers_of_registration_repeat_nothing() {
        let long = "x".repeat(MAX_VALUE + 1);
        for (status, members, code) in [
            (400, r#""error":"invalid_redirect_uri""#, Some("invalid_redirect_uri")),
            (400, r#""error":"canary","error_description":"canary""#, None),
            (302, r#""client_id":"c""#, None),
            (500, "canary", None),
        ] {
            let failed = read(status, members).unwrap_err();
            assert_eq!(failed, RegistrationError::Refused { status, code });
            assert!(!format!("{failed} {failed:?}").contains("canary"), "{failed}");
        }
        for members in [
            "",
            "canary",
            r#""client_id":"""#,
            r#""client_id":5"#,
            r#""client_id":"c","client_id":"canary""#,
            r#""client_id":"canary\n""#,
            r#""client_id":"café canary""#,
            &format!(r#""client_id":"{long}""#),
            &format!(r#""client_id":"c","client_secret":"{long}""#),
            r#""client_id":"c","client_secret":"canary\r""#,
            r#""client_id":"c","token_endpoint_auth_method":"client_secret_basic""#,
            r#""client_id":"c","client_secret":"s","token_endpoint_auth_method":"canary""#,
        ] {
            let failed = read(201, members).unwrap_err();
            assert!(matches!(failed, RegistrationError::Malformed(_)), "{members}");
            assert!(!format!("{failed} {failed:?}").contains("canary"), "{failed}");
        }
    }
}
