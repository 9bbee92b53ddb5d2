//! The address to which a browser is sent for an authorization code (RFC 6749, section 4.1.1).

use url::Url;

use crate::pkce;

/// The parameters of an authorization request.
#[derive(Debug, Clone, Copy)]
pub struct AuthorizationRequest<'a> {
    /// The id of the client at the authorization server.
    pub client_id: &'a str,
    /// The address to which the server sends the browser back.
    pub redirect_uri: &'a str,
    /// The scopes, separated by blanks.
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

impl AuthorizationRequest<'_> {
    /// The address at the authorization endpoint `url`.
    pub fn address(&self, mut url: Url) -> Url {
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", self.client_id)
            .append_pair("redirect_uri", self.redirect_uri)
            .append_pair("scope", self.scope)
            .append_pair("state", self.state);
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

    #[test]
    fn an_address_keeps_the_query_of_the_endpoint() {
        let request = AuthorizationRequest {
            client_id: "c",
            redirect_uri: "https://crib.example/back",
            scope: "a b",
            state: "s",
            nonce: None,
            challenge: "x",
            resource: Some("https://api.example/"),
        };
        let url = Url::parse("https://id.example/authorize?tenant=1").unwrap();
        assert_eq!(
            request.address(url.clone()).as_str(),
            "https://id.example/authorize?tenant=1&response_type=code&client_id=c\
             &redirect_uri=https%3A%2F%2Fcrib.example%2Fback&scope=a+b&state=s\
             &code_challenge=x&code_challenge_method=S256&resource=https%3A%2F%2Fapi.example%2F"
        );
        let with = AuthorizationRequest { nonce: Some("n"), resource: None, ..request };
        let with = with.address(url);
        assert!(with.as_str().contains("&nonce=n&code_challenge=x"), "{with}");
        assert!(!with.as_str().contains("resource"), "{with}");
    }
}
