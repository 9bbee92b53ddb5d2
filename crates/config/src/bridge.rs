//! `[auth.bridge]`: the authorization server for MCP clients, over an identity provider that
//! registers no clients itself.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use toolcrib_core::{
    egress::{AllowList, is_loopback},
    source::SecretValue,
};
use toolcrib_oauth::{
    authorization::is_reserved,
    scopes::is_scope,
    server::redirect::{RedirectRules, is_private_scheme},
};

use url::Url;

use super::{
    ClaimPath, JwtConfig,
    places::member,
    resolver::Resolver,
    secret::Value,
    units::{self as kind, Kind as _},
};

/// The start of the ids of clients that registered themselves.
pub const REGISTERED_CLIENT: &str = "tcc_";

const MAX_ACCESS: Duration = Duration::from_secs(60 * 60);
const MIN_ACCESS: Duration = Duration::from_secs(60);
const MAX_REFRESH: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The minimum of a client's secret, in bytes.
const MIN_SECRET: usize = 32;

/// Sign-in of MCP clients with an identity provider that registers no clients
/// ([guide](../guides/sign-in.md)). Needs `[server] public_url` and `[store] seal_key`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bridge {
    /// The identity provider: the `issuer` of an `[[auth.jwt]]`, whose claims, tenant, scopes and
    /// roles apply.
    issuer: String,
    /// Id of the client that you registered there, with the redirect
    /// `<public_url>/oauth/callback`.
    client_id: String,
    /// Secret of this client.
    client_secret: Option<Value>,
    /// Scopes to request from the provider, in addition to `openid`. Without a refresh token of the
    /// provider, clients get none either.
    #[serde(default)]
    scopes: Vec<String>,
    /// Further parameters of the request to the provider, such as `access_type`.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    /// Claims that the ID token must have, with their values: `hd` or `tid` for a provider with
    /// several tenants.
    #[serde(default)]
    require: BTreeMap<String, String>,
    /// Hosts of clients that are known by the document at their id (CIMD), such as `claude.ai`.
    /// Another port than the default one is part of the host, except for loopback.
    #[serde(default)]
    client_documents: Vec<String>,
    /// Private networks, addresses and hosts for fetching these documents.
    #[serde(default)]
    allow: AllowList,
    /// Whether clients may register themselves (RFC 7591).
    #[serde(default)]
    registration: bool,
    /// Private schemes of addresses that clients may be sent back to, such as `cursor`.
    #[serde(default)]
    redirect_schemes: Vec<String>,
    /// Clients that you register here.
    #[serde(default)]
    #[schemars(with = "Vec<BridgeClient>")]
    client: Vec<Spanned<BridgeClient>>,
    /// Issuers of `[[auth.jwt]]` whose ID-JAG assertions clients with a secret may exchange.
    #[serde(default)]
    assertion_issuers: Vec<String>,
    /// Lifetime of access tokens, at most `1h`.
    #[serde(default = "one_hour", with = "kind::Duration")]
    access_lifetime: Duration,
    /// Time without a renewal after which a client needs the consent of the person again, at most `90d`.
    #[serde(default = "thirty_days", with = "kind::Age")]
    refresh_lifetime: Duration,
}

/// A client of the authorization server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BridgeClient {
    /// Its id.
    id: String,
    /// Its name for people.
    name: String,
    /// Its secret of at least 32 bytes.
    #[schemars(extend("x-default" = "the client has none"))]
    secret: Option<Value>,
    /// The addresses that it may be sent back to. The port of a loopback address may differ.
    #[serde(default)]
    redirect_uris: Vec<String>,
}

/// The authorization server for MCP clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Its own issuer: the address of this server, without a `/` at its end.
    pub own_issuer: String,
    /// The identity provider, one of [`Config::issuers`](crate::Config::issuers).
    pub provider: String,
    /// The id of this server as a client there.
    pub client_id: String,
    /// The secret of this client.
    pub client_secret: Option<SecretValue>,
    /// The scopes to request there, in addition to `openid`.
    pub scopes: Vec<String>,
    /// Further parameters of the request.
    pub parameters: Vec<(String, String)>,
    /// The required claims, with their values.
    pub require: Vec<(ClaimPath, String)>,
    /// The hosts of client documents, in lower case, some with a port.
    pub client_documents: Vec<String>,
    /// The additions to the public addresses at which documents may be fetched.
    pub allow: AllowList,
    /// Whether clients may register themselves.
    pub registration: bool,
    /// The registered private schemes of redirects.
    pub redirects: RedirectRules,
    /// The clients that the operator registered.
    pub clients: Vec<BridgeClientConfig>,
    /// The issuers of assertions, each one of [`Config::issuers`](crate::Config::issuers).
    pub assertion_issuers: Vec<String>,
    /// The lifetime of access tokens.
    pub access_lifetime: Duration,
    /// The lifetime of refresh tokens.
    pub refresh_lifetime: Duration,
}

/// A client that the operator registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeClientConfig {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its secret, if it has one.
    pub secret: Option<SecretValue>,
    /// The addresses that it may be sent back to.
    pub redirect_uris: Vec<String>,
}

// === impl BridgeConfig ===

impl BridgeConfig {
    /// Whether the client `id` may be used: a registered one while clients may register, one with a
    /// document while its host is listed, and one of the operator while it is.
    pub fn permits(&self, id: &str) -> bool {
        if id.starts_with(REGISTERED_CLIENT) {
            return self.registration;
        }
        match Url::parse(id) {
            Ok(url) => self.permits_document(&url),
            Err(_) => self.clients.iter().any(|client| client.id == id),
        }
    }

    /// Whether documents at `url` are those of a listed host.
    pub fn permits_document(&self, url: &Url) -> bool {
        self.client_documents.iter().any(|listed| is_of_host(listed, url))
    }
}

/// Whether documents at `url` are those of the `listed` host. Another port of a host can belong to
/// another program; on this machine, programs choose their ports.
fn is_of_host(listed: &str, url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) if listed != host || !is_loopback(url) => listed == format!("{host}:{port}"),
        _ => listed == host,
    }
}

fn one_hour() -> Duration {
    MAX_ACCESS
}

fn thirty_days() -> Duration {
    Duration::from_secs(30 * 24 * 60 * 60)
}

impl Resolver<'_> {
    /// Resolves the authorization server at `public_url` over one of `issuers`.
    pub(super) fn bridge(
        &mut self,
        typed: Bridge,
        public_url: Option<&str>,
        issuers: &[JwtConfig],
    ) -> Option<BridgeConfig> {
        let before = self.problems.len();
        let key = |name: &str| format!("auth.bridge.{name}");
        if public_url.is_none() {
            let message = "needs `[server] public_url`: the address is the issuer of its tokens";
            self.complain_of_absence("server", "auth.bridge", message);
        }
        let named = std::iter::once(("issuer", &typed.issuer))
            .chain(typed.assertion_issuers.iter().map(|it| ("assertion_issuers", it)));
        for (name, issuer) in named {
            if !issuers.iter().any(|known| known.issuer == *issuer) {
                let message = "expected the `issuer` of an [[auth.jwt]], which says what its \
                               claims mean";
                self.complain_of_absence("auth.jwt", &key(name), message);
            }
        }
        if !is_short_text(&typed.client_id) {
            self.complain(&key("client_id"), "expected the id of a client");
        }
        let client_secret = typed.client_secret.as_ref();
        let client_secret = client_secret.and_then(|it| self.secret(&key("client_secret"), it));
        if let Some(bad) = typed.scopes.iter().find(|scope| !is_scope(scope)) {
            self.complain(&key("scopes"), format!("{bad:?} is not a scope"));
        }
        for name in typed.parameters.keys().filter(|name| is_reserved(name)) {
            self.complain(&key("parameters"), format!("`{name}` is set by the protocol itself"));
        }
        let mut require = Vec::new();
        for (claim, value) in typed.require {
            let path = ClaimPath::parse(&claim).ok_or("expected the place of a claim");
            let path = self.check(&member(&key("require"), &claim), path);
            require.extend(path.map(|path| (path, value)));
        }
        let documents = self.list(&key("client_documents"), &typed.client_documents, check_host);
        let schemes = self.list(&key("redirect_schemes"), &typed.redirect_schemes, |scheme| {
            let message = "expected a private scheme such as \"cursor\", in lower case";
            is_private_scheme(scheme).then(|| scheme.to_owned()).ok_or(message)
        });
        let redirects = RedirectRules { schemes: schemes.unwrap_or_default() };
        let clients = self.bridge_clients(typed.client, &redirects);
        if !(MIN_ACCESS..=MAX_ACCESS).contains(&typed.access_lifetime) {
            self.complain(&key("access_lifetime"), "expected 1 minute to 1 hour");
        }
        if !(MAX_ACCESS..=MAX_REFRESH).contains(&typed.refresh_lifetime) {
            self.complain(&key("refresh_lifetime"), "expected 1 hour to 90 days");
        }
        if self.problems.len() > before {
            return None;
        }
        Some(BridgeConfig {
            own_issuer: public_url?.to_owned(),
            provider: typed.issuer,
            client_id: typed.client_id,
            client_secret: client_secret.map(SecretValue),
            scopes: typed.scopes,
            parameters: typed.parameters.into_iter().collect(),
            require,
            client_documents: documents?,
            allow: typed.allow,
            registration: typed.registration,
            redirects,
            clients,
            assertion_issuers: typed.assertion_issuers,
            access_lifetime: typed.access_lifetime,
            refresh_lifetime: typed.refresh_lifetime,
        })
    }

    fn bridge_clients(
        &mut self,
        typed: Vec<Spanned<BridgeClient>>,
        redirects: &RedirectRules,
    ) -> Vec<BridgeClientConfig> {
        let mut clients: Vec<BridgeClientConfig> = Vec::new();
        for typed in typed {
            let key = self.element("auth.bridge.client", &typed.span());
            let typed = typed.into_inner();
            let at = |name: &str| format!("{key}.{name}");
            // An id of another form is that of a client of another kind.
            let is_id = is_short_text(&typed.id) && !typed.id.contains([':', '/']);
            if !is_id || typed.id.starts_with(REGISTERED_CLIENT) {
                let message = "expected 1 to 256 characters without `:` and `/`, and not `tcc_` \
                               at the start";
                self.complain(&at("id"), message);
            }
            if clients.iter().any(|other| other.id == typed.id) {
                self.complain(&at("id"), "another client has this id");
            }
            if !is_short_text(&typed.name) {
                self.complain(&at("name"), "expected 1 to 256 characters");
            }
            let secret = typed.secret.as_ref().and_then(|it| self.secret(&at("secret"), it));
            if secret.as_ref().is_some_and(|secret| secret.expose().len() < MIN_SECRET) {
                self.complain(&at("secret"), "is shorter than 32 bytes");
            }
            for uri in &typed.redirect_uris {
                self.check(&at("redirect_uris"), redirects.check(uri));
            }
            let (id, name, redirect_uris) = (typed.id, typed.name, typed.redirect_uris);
            let secret = secret.map(SecretValue);
            clients.push(BridgeClientConfig { id, name, secret, redirect_uris });
        }
        clients
    }
}

fn is_short_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= 256 && !text.chars().any(char::is_control)
}

/// A host as addresses write it, in lower case, with a port that is not the default one.
fn check_host(text: &str) -> Result<String, &'static str> {
    let host = text.to_ascii_lowercase();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.[:]".contains(&b);
    let written = |url: Url| match (url.host_str(), url.port()) {
        (Some(name), Some(port)) => format!("{name}:{port}") == host,
        (name, _) => name == Some(host.as_str()),
    };
    let is_host = Url::parse(&format!("https://{host}/")).is_ok_and(written);
    let message = "expected a host such as \"claude.ai\", or with another port \
                   \"clients.example:8443\"";
    (is_host && host.bytes().all(plain)).then_some(host).ok_or(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_port_of_a_host_does_not_vouch() {
        for (listed, url, expected) in [
            ("a.example", "https://a.example/c", true),
            ("a.example", "https://a.example:8443/c", false),
            ("a.example", "https://b.example/c", false),
            ("a.example:8443", "https://a.example:8443/c", true),
            ("a.example:8443", "https://a.example/c", false),
            ("a.example:8443", "https://a.example:8444/c", false),
            ("127.0.0.1", "http://127.0.0.1:9/c", true),
            ("127.0.0.1:9", "http://127.0.0.1:9/c", true),
            ("127.0.0.1:9", "http://127.0.0.1:10/c", false),
            ("[::1]", "http://[::1]:9/c", true),
            ("10.0.0.1", "https://10.0.0.1:9/c", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(is_of_host(listed, &url), expected, "{listed} {url}");
        }
    }
}
