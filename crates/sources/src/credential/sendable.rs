//! A resolved credential: its value in the form in which it is sent, and the hosts it may be sent
//! to.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use toolcrib_core::{
    credential::{
        AccessToken, Audience, Credential, CredentialKind, CredentialProblem, Destination,
        ResolvedCredential, Secret,
    },
    egress::is_loopback,
    id::CredentialId,
};
use url::{Url, form_urlencoded};

/// A credential that can be sent now.
pub(crate) struct SendableCredential {
    credential: Credential,
    form: Form,
    /// Every secret of the credential, in every encoding that leaves this process.
    values: Vec<Secret>,
    token: Option<Arc<AccessToken>>,
}

enum Form {
    Header(HeaderName, HeaderValue),
    Query { parameter: String, value: Secret },
}

// === impl SendableCredential ===

impl SendableCredential {
    /// Creates the form to send. OAuth credentials require a token.
    pub(super) fn new(resolved: &ResolvedCredential) -> Result<Self, CredentialProblem> {
        let ResolvedCredential { credential, material, token } = resolved;
        let mut values = vec![material.value.clone()];
        values.extend(material.client_secret.clone());
        let plain = material.value.expose();
        let form = match (&credential.kind, token) {
            (CredentialKind::Header { name, prefix }, _) => {
                let name = HeaderName::from_bytes(name.as_bytes());
                let name = name.map_err(|_| CredentialProblem::Unreadable)?;
                Form::Header(name, sensitive(&format!("{prefix}{plain}"))?)
            }
            (CredentialKind::Query { parameter }, _) => {
                Form::Query { parameter: parameter.clone(), value: material.value.clone() }
            }
            (CredentialKind::Basic { username }, _) => {
                let pair = STANDARD.encode(format!("{username}:{plain}"));
                let basic = sensitive(&format!("Basic {pair}"))?;
                values.push(Secret::new(pair));
                Form::Header(header::AUTHORIZATION, basic)
            }
            (CredentialKind::ClientCredentials(_) | CredentialKind::RefreshToken(_), token) => {
                let token = token.as_ref().ok_or(CredentialProblem::Unreadable)?;
                values.push(token.value().clone());
                let bearer = format!("Bearer {}", token.value().expose());
                Form::Header(header::AUTHORIZATION, sensitive(&bearer)?)
            }
        };
        let encoded: Vec<_> = values.iter().flat_map(encodings).collect();
        values.extend(encoded);
        Ok(Self { credential: credential.clone(), form, values, token: token.clone() })
    }

    pub(crate) fn id(&self) -> &CredentialId {
        &self.credential.id
    }

    /// Whether the credential may be sent to `url`.
    pub(crate) fn may_go_to(&self, url: &Url) -> bool {
        may_go(&self.credential, url)
    }

    /// Attaches the credential to a request to `url`, replacing a header or parameter of the same
    /// name.
    pub(crate) fn attach(
        &self,
        url: &mut Url,
        headers: &mut HeaderMap,
    ) -> Result<(), CredentialProblem> {
        if !self.may_go_to(url) {
            return Err(CredentialProblem::OutOfAudience);
        }
        match &self.form {
            Form::Header(name, value) => {
                headers.insert(name, value.clone());
            }
            Form::Query { parameter, value } => {
                let mut query = without(url.query().unwrap_or_default(), parameter);
                if !query.is_empty() {
                    query.push('&');
                }
                query.extend(form_urlencoded::byte_serialize(parameter.as_bytes()));
                query.push('=');
                query.extend(form_urlencoded::byte_serialize(value.expose().as_bytes()));
                url.set_query(Some(&query));
            }
        }
        Ok(())
    }

    /// Removes the credential from a request to `url`, the target of a redirect. Fails when the URL
    /// still contains one of its values.
    pub(crate) fn strip(
        &self,
        url: &mut Url,
        headers: &mut HeaderMap,
    ) -> Result<(), CredentialProblem> {
        match &self.form {
            Form::Header(name, _) => {
                headers.remove(name);
            }
            Form::Query { parameter, .. } => {
                if let Some(query) = url.query() {
                    let query = without(query, parameter);
                    url.set_query(Some(&query).filter(|query| !query.is_empty()).map(|q| &**q));
                }
            }
        }
        // The upstream may have written the value into another part of the URL.
        let shown =
            |value: &Secret| value.expose().len() >= 4 && url.as_str().contains(value.expose());
        match self.values.iter().any(shown) {
            true => Err(CredentialProblem::OutOfAudience),
            false => Ok(()),
        }
    }

    /// Handles a rejection by the upstream: a rejected token is not sent again.
    pub(crate) fn refused(&self) {
        if let Some(token) = &self.token {
            token.reject();
        }
    }

    /// Every value to look for in the upstream's output.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Secret, CredentialId)> {
        self.values.iter().map(|value| (value.clone(), self.credential.id.clone()))
    }

    /// Whether this is the form of `resolved`.
    pub(super) fn is_of(&self, resolved: &ResolvedCredential) -> bool {
        let is_same_token = match (&self.token, &resolved.token) {
            // The rejection of a token is noted in the token itself.
            (Some(sent), Some(token)) => Arc::ptr_eq(sent, token),
            (sent, token) => sent.is_none() && token.is_none(),
        };
        let (sent, credential) = (&self.credential, &resolved.credential);
        is_same_token && (&sent.id, sent.revision) == (&credential.id, credential.revision)
    }
}

impl std::fmt::Debug for SendableCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendableCredential").field("id", self.id()).finish_non_exhaustive()
    }
}

pub(super) fn may_go(credential: &Credential, url: &Url) -> bool {
    may_reach(&credential.audiences, url)
}

/// Whether values for `audiences` may be sent to `url`.
pub(super) fn may_reach(audiences: &[Audience], url: &Url) -> bool {
    let private = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url));
    let (scheme, host, port) = (url.scheme(), url.host_str(), url.port_or_known_default());
    let to = host.zip(port).map(|(host, port)| Destination { scheme, host, port });
    private && to.is_some_and(|to| audiences.iter().any(|it| it.admits(to)))
}

/// Removes the named parameter from `query`; all other bytes are unchanged.
fn without(query: &str, parameter: &str) -> String {
    let other = |pair: &&str| {
        let name = form_urlencoded::parse(pair.as_bytes()).next();
        name.is_none_or(|(name, _)| name != parameter)
    };
    query.split('&').filter(other).collect::<Vec<_>>().join("&")
}

/// Creates a header value that is hidden from logs.
fn sensitive(text: &str) -> Result<HeaderValue, CredentialProblem> {
    let mut value = HeaderValue::from_str(text).map_err(|_| CredentialProblem::Unreadable)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the encodings in which a value can appear in a URL or form that an upstream sends back.
fn encodings(value: &Secret) -> Vec<Secret> {
    let plain = value.expose();
    let mut forms = vec![
        form_urlencoded::byte_serialize(plain.as_bytes()).collect::<String>(),
        utf8_percent_encode(plain, NON_ALPHANUMERIC).to_string(),
    ];
    forms.dedup();
    forms.into_iter().filter(|form| form != plain).map(Secret::new).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use toolcrib_core::{
        credential::{Material, Owner},
        id::TenantId,
    };

    use toolcrib_core::redact::Echoes;

    use super::*;

    pub(crate) fn sendable(
        kind: CredentialKind,
        audiences: &[&str],
        value: &str,
    ) -> SendableCredential {
        let at = chrono_free_moment();
        let credential = Credential {
            id: "cred-1".parse().unwrap(),
            name: "n".parse().unwrap(),
            owner: Owner::tenant(TenantId::parse("t").unwrap()),
            kind,
            audiences: audiences.iter().map(|audience| audience.parse().unwrap()).collect(),
            created_at: at,
            rotated_at: at,
            expires_at: None,
            revision: 1,
        };
        let material = Material { value: Secret::new(value.to_owned()), client_secret: None };
        SendableCredential::new(&ResolvedCredential { credential, material, token: None }).unwrap()
    }

    fn chrono_free_moment() -> toolcrib_core::clock::Timestamp {
        std::time::SystemTime::UNIX_EPOCH.into()
    }

    fn bearer() -> CredentialKind {
        CredentialKind::Header { name: "authorization".to_owned(), prefix: "Bearer ".to_owned() }
    }

    fn query() -> CredentialKind {
        CredentialKind::Query { parameter: "key".to_owned() }
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    // I-36
    #[test]
    fn a_credential_goes_to_its_audiences_over_tls_or_within_this_machine() {
        let credential = sendable(
            bearer(),
            &["api.example", "*.below.example", "127.0.0.1", "[::1]", "localhost", "10.0.0.7"],
            "value-canary",
        );
        for (to, expected) in [
            ("https://api.example/x?y", true),
            ("https://API.example:8443/", true),
            ("https://a.below.example/", true),
            ("http://127.0.0.1:9/", true),
            ("http://127.1:9/", true),
            ("http://[::1]:9/", true),
            ("http://localhost:9/", true),
            ("https://10.0.0.7/", true),
            ("http://10.0.0.7/", false),
            ("http://api.example/", false),
            ("http://a.below.example/", false),
            ("https://below.example/", false),
            ("https://api.example.evil/", false),
            ("https://evil.example/", false),
            ("http://127.0.0.2/", false),
            ("https://api.example./", false),
        ] {
            let (mut to_url, mut headers) = (url(to), HeaderMap::new());
            let attached = credential.attach(&mut to_url, &mut headers);
            assert_eq!(attached.is_ok(), expected, "{to}");
            assert_eq!(headers.contains_key(header::AUTHORIZATION), expected, "{to}");
        }
    }

    // I-36
    #[test]
    fn a_credential_of_an_origin_goes_to_no_other_port() {
        let audiences = ["https://api.example:8443", "https://b.example", "http://127.0.0.1:9"];
        let credential = sendable(bearer(), &audiences, "value-canary");
        for (to, expected) in [
            ("https://api.example:8443/x", true),
            ("https://api.example/", false),
            ("https://api.example:8444/", false),
            ("https://b.example/", true),
            ("https://b.example:443/", true),
            ("https://b.example:8443/", false),
            ("http://b.example:443/", false),
            ("http://127.0.0.1:9/", true),
            ("http://127.1:9/", true),
            ("http://127.0.0.1:10/", false),
            ("https://127.0.0.1:9/", false),
        ] {
            assert_eq!(credential.may_go_to(&url(to)), expected, "{to}");
        }
    }

    #[test]
    fn each_kind_has_its_place_and_takes_it() {
        let (mut to, mut headers) = (url("https://a.example/?q=a%20b&KEY=2"), HeaderMap::new());
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("of the caller"));
        sendable(bearer(), &["a.example"], "v").attach(&mut to, &mut headers).unwrap();
        assert_eq!(headers[header::AUTHORIZATION], "Bearer v");
        assert!(headers[header::AUTHORIZATION].is_sensitive());

        let basic = CredentialKind::Basic { username: "ann".to_owned() };
        sendable(basic, &["a.example"], "pä:ss").attach(&mut to, &mut headers).unwrap();
        assert_eq!(headers[header::AUTHORIZATION], "Basic YW5uOnDDpDpzcw==");
        assert_eq!(to.as_str(), "https://a.example/?q=a%20b&KEY=2");

        let key = sendable(query(), &["a.example"], "a&b c");
        for (before, after) in [
            ("https://a.example/?q=a%20b&KEY=2", "https://a.example/?q=a%20b&KEY=2&key=a%26b+c"),
            ("https://a.example/", "https://a.example/?key=a%26b+c"),
            ("https://a.example/?k%65y=mine&x=1&key=2", "https://a.example/?x=1&key=a%26b+c"),
        ] {
            let mut to = url(before);
            key.attach(&mut to, &mut headers).unwrap();
            assert_eq!(to.as_str(), after);
        }
        let odd = CredentialKind::Header { name: "x-key".to_owned(), prefix: String::new() };
        let material = Material { value: Secret::new("a\r\nb".to_owned()), client_secret: None };
        let credential =
            Credential { kind: odd, ..sendable(query(), &["a.example"], "v").credential };
        let resolved = ResolvedCredential { credential, material, token: None };
        let refused = SendableCredential::new(&resolved).unwrap_err();
        assert_eq!(refused, CredentialProblem::Unreadable);
    }

    #[test]
    fn a_redirect_to_elsewhere_takes_nothing_along() {
        let key = sendable(query(), &["a.example"], "value/canary");
        for (to, stripped) in [
            ("https://b.example/?key=value%2Fcanary&x=1", Some("https://b.example/?x=1")),
            ("https://b.example/?key=value%2Fcanary", Some("https://b.example/")),
            ("https://b.example/?token=value%2Fcanary", None),
            ("https://b.example/value/canary", None),
            ("https://b.example/x", Some("https://b.example/x")),
        ] {
            let (mut to, mut headers) = (url(to), HeaderMap::new());
            let result = key.strip(&mut to, &mut headers);
            assert_eq!(result.ok().map(|()| to.to_string()).as_deref(), stripped, "{to}");
        }
        let header = sendable(bearer(), &["a.example"], "value-canary");
        let (mut to, mut headers) = (url("https://b.example/"), HeaderMap::new());
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer value-canary"));
        header.strip(&mut to, &mut headers).unwrap();
        assert!(headers.is_empty());
    }

    #[test]
    fn echoes_are_found_in_every_encoding_that_was_sent() {
        let basic = CredentialKind::Basic { username: "ann".to_owned() };
        let credential = sendable(basic, &["a.example"], "p/assword canary");
        let echoes = Echoes::new(credential.values());
        for text in [
            "p/assword canary",
            "p%2Fassword+canary",
            "p%2Fassword%20canary",
            "Basic YW5uOnAvYXNzd29yZCBjYW5hcnk=",
        ] {
            assert!(echoes.text(text).contains("[REDACTED:cred-1]"), "{text}");
        }
        assert!(!format!("{credential:?}").contains("canary"));
    }
}
