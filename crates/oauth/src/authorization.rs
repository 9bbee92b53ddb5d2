//! The address to which a browser is sent for an authorization code, and the response that it
//! brings back (RFC 6749, sections 4.1.1 and 4.1.2; RFC 9207).

use toolcrib_core::credential::Secret;
use toolcrib_core::source::{AccountError, AuthorizationResponse};
use url::Url;

use crate::pkce;

/// Parameters that this crate sets itself, or that would replace those or change the way of the
/// response.
const RESERVED: &[&str] = &[
    "response_type",
    "response_mode",
    "client_id",
    "client_secret",
    "redirect_uri",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "request",
    "request_uri",
];
/// The codes of refusals: RFC 6749, section 4.1.2.1; RFC 8707, section 2; OpenID Connect Core,
/// section 3.1.2.6.
const REFUSALS: &[&str] = &[
    "access_denied",
    "invalid_request",
    "unauthorized_client",
    "unsupported_response_type",
    "invalid_scope",
    "invalid_target",
    "server_error",
    "temporarily_unavailable",
    "interaction_required",
    "login_required",
    "account_selection_required",
    "consent_required",
];

/// The parameters of an authorization request.
#[derive(Debug, Clone, Copy)]
pub struct AuthorizationRequest<'a> {
    /// The id of the client at the authorization server.
    pub client_id: &'a str,
    /// The address to which the server sends the browser back.
    pub redirect_uri: &'a str,
    /// The scopes, separated by blanks unless the server differs. Omitted if empty.
    pub scope: &'a str,
    /// The server repeats it in its response.
    pub state: &'a str,
    /// The ID token repeats it.
    pub nonce: Option<&'a str>,
    /// The [challenge](pkce::challenge) of the verifier.
    pub challenge: &'a str,
    /// The resource that the token is for (RFC 8707).
    pub resource: Option<&'a str>,
}

/// A parameter that must not be configured, or be part of the address of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this parameter of authorization requests is reserved")]
pub struct ReservedParameter;

/// Whether a further parameter must not have this name. Letter case is ignored, because some
/// servers ignore it.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name))
}

/// The code of an authorization response. `issuer` was recorded before the browser was sent away,
/// and is compared byte for byte. With `is_issuer_required`, a response without it fails.
///
/// # Errors
/// [`AccountError::Refused`] if the server refuses. [`AccountError::NotOurs`] if the response is of
/// another server or has not exactly one of code and error. No error has text of the response.
pub fn read_response<'a>(
    response: &'a AuthorizationResponse,
    issuer: &str,
    is_issuer_required: bool,
) -> Result<&'a Secret, AccountError> {
    // First of all: the error and the code of another server mean something else.
    match &response.issuer {
        Some(named) if named != issuer => return Err(AccountError::NotOurs),
        None if is_issuer_required => return Err(AccountError::NotOurs),
        Some(_) | None => {}
    }
    match (&response.code, &response.error) {
        (Some(code), None) if !code.expose().is_empty() => Ok(code),
        (None, Some(error)) => {
            let known = REFUSALS.iter().find(|known| *known == error);
            Err(AccountError::Refused(known.unwrap_or(&"for an unknown reason")))
        }
        _ => Err(AccountError::NotOurs),
    }
}

// === impl AuthorizationRequest ===

impl AuthorizationRequest<'_> {
    /// The address with `parameters` added, which the operator configured.
    ///
    /// # Errors
    /// [`ReservedParameter`], also for parameters in the query of `url`: of two with one name, a
    /// server could use the other one.
    pub fn address_with(
        &self,
        url: Url,
        parameters: &[(String, String)],
    ) -> Result<Url, ReservedParameter> {
        let is_replaced = url.query_pairs().any(|(name, _)| is_reserved(&name))
            || parameters.iter().any(|(name, _)| is_reserved(name));
        if is_replaced {
            return Err(ReservedParameter);
        }
        let mut address = self.address(url);
        if !parameters.is_empty() {
            address.query_pairs_mut().extend_pairs(parameters);
        }
        Ok(address)
    }

    /// The address at the authorization endpoint `url`.
    pub fn address(&self, mut url: Url) -> Url {
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", self.client_id)
            .append_pair("redirect_uri", self.redirect_uri);
        if !self.scope.is_empty() {
            query.append_pair("scope", self.scope);
        }
        query.append_pair("state", self.state);
        if let Some(nonce) = self.nonce {
            query.append_pair("nonce", nonce);
        }
        query
            .append_pair("code_challenge", self.challenge)
            .append_pair("code_challenge_method", pkce::METHOD);
        if let Some(resource) = self.resource {
            query.append_pair("resource", resource);
        }
        drop(query);
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: AuthorizationRequest<'_> = AuthorizationRequest {
        client_id: "c",
        redirect_uri: "https://crib.example/back",
        scope: "a b",
        state: "s",
        nonce: None,
        challenge: "x",
        resource: Some("https://api.example/"),
    };

    fn endpoint() -> Url {
        Url::parse("https://id.example/authorize?tenant=1").unwrap()
    }

    #[test]
    fn an_address_keeps_the_query_of_the_endpoint() {
        assert_eq!(
            REQUEST.address(endpoint()).as_str(),
            "https://id.example/authorize?tenant=1&response_type=code&client_id=c\
             &redirect_uri=https%3A%2F%2Fcrib.example%2Fback&scope=a+b&state=s\
             &code_challenge=x&code_challenge_method=S256&resource=https%3A%2F%2Fapi.example%2F"
        );
        let with = AuthorizationRequest { nonce: Some("n"), resource: None, ..REQUEST };
        let with = with.address(endpoint());
        assert!(with.as_str().contains("&nonce=n&code_challenge=x"), "{with}");
        assert!(!with.as_str().contains("resource"), "{with}");
        let without = AuthorizationRequest { scope: "", ..REQUEST }.address(endpoint());
        assert!(!without.as_str().contains("scope"), "{without}");
        let commas = AuthorizationRequest { scope: "a,b", ..REQUEST }.address(endpoint());
        assert!(commas.as_str().contains("&scope=a%2Cb&"), "{commas}");
    }

    #[test]
    fn further_parameters_replace_none_of_the_request() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let address = REQUEST.address(endpoint());
        assert_eq!(REQUEST.address_with(endpoint(), &[]), Ok(address.clone()));
        let further = [pair("access_type", "offline"), pair("prompt", "consent&state=t")];
        assert_eq!(
            REQUEST.address_with(endpoint(), &further).unwrap().as_str(),
            format!("{address}&access_type=offline&prompt=consent%26state%3Dt")
        );
        let whole = AuthorizationRequest { nonce: Some("n"), ..REQUEST };
        let plain = Url::parse("https://id.example/authorize").unwrap();
        let address = whole.address(plain.clone());
        for (own, _) in address.query_pairs() {
            assert!(is_reserved(&own), "{own}");
        }
        for name in ["state", "STATE", "Redirect_URI", "response_mode", "request", "request_uri"] {
            let refused = Err(ReservedParameter);
            assert_eq!(REQUEST.address_with(endpoint(), &[pair(name, "x")]), refused, "{name}");
            let mut url = plain.clone();
            url.query_pairs_mut().append_pair(name, "x");
            assert_eq!(REQUEST.address_with(url, &[]), refused, "{name}");
        }
        let encoded = Url::parse("https://id.example/authorize?%73tate=x").unwrap();
        assert_eq!(REQUEST.address_with(encoded, &[]), Err(ReservedParameter));
    }

    #[test]
    fn a_response_is_of_the_recorded_issuer_and_has_one_code_or_error() {
        const ISSUER: &str = "https://id.example";
        let read = |issuer: Option<&str>, code: Option<&str>, error: Option<&str>, required| {
            let response = AuthorizationResponse {
                code: code.map(|code| Secret::new(code.to_owned())),
                issuer: issuer.map(str::to_owned),
                error: error.map(str::to_owned),
            };
            read_response(&response, ISSUER, required).map(|code| code.expose().to_owned())
        };
        let (ours, code) = (Some(ISSUER), Some("c"));
        assert_eq!(read(ours, code, None, true), Ok("c".to_owned()));
        assert_eq!(read(ours, code, None, false), Ok("c".to_owned()));
        assert_eq!(read(None, code, None, false), Ok("c".to_owned()));
        for required in [true, false] {
            for other in
                ["", "https://id.example/", "HTTPS://id.example", "https://id.example:443", "x"]
            {
                for error in [None, Some("access_denied")] {
                    let code = code.filter(|_| error.is_none());
                    let refused = read(Some(other), code, error, required);
                    assert_eq!(refused, Err(AccountError::NotOurs), "{other}");
                }
            }
            for (code, error) in [(None, None), (Some(""), None), (code, Some("access_denied"))] {
                assert_eq!(read(ours, code, error, required), Err(AccountError::NotOurs));
            }
        }
        assert_eq!(read(None, code, None, true), Err(AccountError::NotOurs));
        assert_eq!(read(None, None, Some("access_denied"), true), Err(AccountError::NotOurs));
        let refused = |word| Err(AccountError::Refused(word));
        assert_eq!(read(ours, None, Some("access_denied"), true), refused("access_denied"));
        let unknown = read(ours, None, Some("canary"), true);
        assert_eq!(unknown, refused("for an unknown reason"));
        assert!(!format!("{unknown:?}").contains("canary"));
    }
}
