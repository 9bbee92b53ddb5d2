//! Authorization requests of clients and their responses (RFC 6749, section 4.1; RFC 7636; RFC 8707;
//! RFC 9207).

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    error::{ErrorCode, Refused},
    parameters::Parameters,
    redirect,
};
use crate::pkce;

/// The most bytes of a client's state.
const MAX_STATE: usize = 4 << 10;
/// The characters of a SHA-256 in base64url.
const CHALLENGE_CHARACTERS: usize = 43;

/// A request before its client is known: nothing of it may be followed.
pub struct UncheckedRequest(Parameters);

/// A request whose client permits its redirect, so that refusals can be sent to the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redirect {
    /// The address of the client.
    pub uri: String,
    /// The client's text, which its response repeats.
    pub state: Option<String>,
}

/// A complete request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeRequest {
    /// Where its response goes.
    pub redirect: Redirect,
    /// Whether the request named the address, which the token request then repeats.
    pub names_redirect: bool,
    /// The SHA-256 of the client's verifier.
    pub challenge: String,
    /// The resource that the token is for, as the client wrote it.
    pub resource: Option<String>,
}

// === impl UncheckedRequest ===

impl UncheckedRequest {
    /// Reads the query of a request.
    ///
    /// # Errors
    /// [`Refused`], which the person sees: the client is unknown.
    pub fn read(query: &str) -> Result<Self, Refused> {
        Parameters::read(query).map(Self)
    }

    /// The id of the client.
    ///
    /// # Errors
    /// [`Refused`], which the person sees.
    pub fn client_id(&self) -> Result<&str, Refused> {
        self.0.get("client_id").ok_or(Refused::invalid("`client_id` is missing"))
    }

    /// The address of the response, where the client has `registered` ones. It may be left out if
    /// there is exactly one.
    ///
    /// # Errors
    /// [`Refused`], which the person sees: nothing may be sent to an unregistered address.
    pub fn redirect(&self, registered: &[String]) -> Result<Redirect, Refused> {
        let uri = match (self.0.get("redirect_uri"), registered) {
            (Some(sent), _) => {
                let is_known = registered.iter().any(|known| redirect::matches(known, sent));
                is_known.then_some(sent)
            }
            (None, [only]) => Some(only.as_str()),
            (None, _) => None,
        };
        let refused = "`redirect_uri` is not an address of this client";
        let uri = uri.ok_or(Refused::invalid(refused))?.to_owned();
        let state = self.0.get("state").filter(|state| state.len() <= MAX_STATE);
        Ok(Redirect { uri, state: state.map(str::to_owned) })
    }

    /// Checks the rest of the request.
    ///
    /// # Errors
    /// [`Refused`], for the client.
    pub fn code_request(&self, redirect: Redirect) -> Result<CodeRequest, Refused> {
        let refused = |code, description| Err(Refused { code, description });
        let get = |name| self.0.get(name);
        if get("request").is_some() {
            return refused(ErrorCode::RequestNotSupported, "`request` is not supported");
        }
        if get("request_uri").is_some() {
            return refused(ErrorCode::RequestUriNotSupported, "`request_uri` is not supported");
        }
        match get("response_type") {
            Some("code") => {}
            Some(_) => return refused(ErrorCode::UnsupportedResponseType, "only `code` exists"),
            None => return Err(Refused::invalid("`response_type` is missing")),
        }
        if get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(Refused::invalid("only the response mode `query` exists"));
        }
        if get("state").is_some() && redirect.state.is_none() {
            return Err(Refused::invalid("`state` is too long"));
        }
        // Without a method the challenge would be the verifier itself.
        if get("code_challenge_method") != Some(pkce::METHOD) {
            return Err(Refused::invalid("PKCE is required, with `code_challenge_method=S256`"));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let challenge = get("code_challenge");
        let challenge =
            challenge.filter(|text| text.len() == CHALLENGE_CHARACTERS && text.bytes().all(plain));
        let challenge = challenge.ok_or(Refused::invalid("`code_challenge` is no SHA-256"))?;
        Ok(CodeRequest {
            redirect,
            names_redirect: get("redirect_uri").is_some(),
            challenge: challenge.to_owned(),
            resource: get("resource").map(str::to_owned),
        })
    }
}

// === impl Redirect ===

impl Redirect {
    /// The address with a code of the server `issuer`.
    pub fn with_code(&self, code: &str, issuer: &str) -> String {
        self.with(&[("code", code)], issuer)
    }

    /// The address with a refusal of the server `issuer`.
    pub fn with_refusal(&self, refused: Refused, issuer: &str) -> String {
        let Refused { code, description } = refused;
        self.with(&[("error", code.as_str()), ("error_description", description)], issuer)
    }

    fn with(&self, members: &[(&str, &str)], issuer: &str) -> String {
        let state = self.state.as_deref().map(|state| ("state", state));
        let all = members.iter().copied().chain(state).chain([("iss", issuer)]);
        match Url::parse(&self.uri) {
            Ok(mut url) => {
                url.query_pairs_mut().extend_pairs(all);
                url.into()
            }
            // It was parsed when it was registered.
            Err(_) => self.uri.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    fn request(change: &[(&str, &str)]) -> Result<CodeRequest, Refused> {
        let mut pairs = vec![
            ("response_type", "code"),
            ("client_id", "c"),
            ("redirect_uri", "http://127.0.0.1:7/cb?x=1"),
            ("state", "s &"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("resource", "https://crib.example/mcp"),
            ("scope", "openid everything"),
        ];
        for (name, value) in change {
            pairs.retain(|(other, _)| other != name);
            pairs.push((name, value));
        }
        let query: String =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let request = UncheckedRequest::read(&query)?;
        assert_eq!(request.client_id()?, "c");
        let redirect = request.redirect(&["http://127.0.0.1/cb?x=1".to_owned()])?;
        request.code_request(redirect)
    }

    #[test]
    fn a_request_has_a_known_redirect_and_s256() {
        let good = request(&[]).unwrap();
        assert_eq!(good.redirect.uri, "http://127.0.0.1:7/cb?x=1");
        assert_eq!(good.resource.as_deref(), Some("https://crib.example/mcp"));
        assert!(good.names_redirect);
        let only = request(&[("redirect_uri", "")]).unwrap();
        assert_eq!(only.redirect.uri, "http://127.0.0.1/cb?x=1");
        assert!(!only.names_redirect);
        for (name, value, code) in [
            ("redirect_uri", "http://127.0.0.1:7/other", ErrorCode::InvalidRequest),
            ("response_type", "token", ErrorCode::UnsupportedResponseType),
            ("response_type", "", ErrorCode::InvalidRequest),
            ("response_mode", "form_post", ErrorCode::InvalidRequest),
            ("code_challenge_method", "plain", ErrorCode::InvalidRequest),
            ("code_challenge_method", "", ErrorCode::InvalidRequest),
            ("code_challenge", "short", ErrorCode::InvalidRequest),
            ("code_challenge", "", ErrorCode::InvalidRequest),
            ("request", "x", ErrorCode::RequestNotSupported),
            ("request_uri", "x", ErrorCode::RequestUriNotSupported),
        ] {
            assert_eq!(request(&[(name, value)]).unwrap_err().code, code, "{name}={value}");
        }
        assert!(request(&[("state", &"x".repeat(MAX_STATE + 1))]).is_err());
        assert!(UncheckedRequest::read("client_id=a&client_id=b").is_err());
        let open = UncheckedRequest::read("client_id=a").unwrap();
        assert!(
            open.redirect(&["https://a.example".to_owned(), "https://b.example".to_owned()])
                .is_err()
        );
    }

    #[test]
    fn a_response_names_the_issuer_and_repeats_the_state() {
        let redirect = request(&[]).unwrap().redirect;
        assert_eq!(
            redirect.with_code("tcd_1", "https://crib.example"),
            "http://127.0.0.1:7/cb?x=1&code=tcd_1&state=s+%26&iss=https%3A%2F%2Fcrib.example"
        );
        let refused = Refused { code: ErrorCode::AccessDenied, description: "no" };
        let url = Redirect { state: None, ..redirect }.with_refusal(refused, "i");
        assert!(url.ends_with("?x=1&error=access_denied&error_description=no&iss=i"), "{url}");
    }
}
