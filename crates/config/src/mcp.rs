//! `[mcp]` and `[auth.resource]`.

use std::{num::NonZeroUsize, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib_core::egress::is_loopback;
use url::Url;

use super::{
    resolver::{Resolver, is_plain},
    server::MountAuth,
    units::{self as kind, Kind as _},
};

/// MCP under `/mcp`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct McpConfig {
    /// `optional`: callers without a key are `[anonymous]`.
    pub auth: MountAuth,
    /// Whether requests must have the headers that the specification requires. Otherwise `Accept`
    /// may leave out one of the two types, and `MCP-Protocol-Version` may name another supported
    /// revision than the body; only the body counts.
    pub strict_headers: bool,
    /// Tools on one page of a list.
    pub page_size: NonZeroUsize,
    /// Whether schemas in lists have `$ref` replaced by its target, for clients that drop `$defs`
    /// ([guide](../guides/toolsets.md#clients-that-drop-definitions)).
    pub inline_refs: bool,
    /// Whether a handshake over HTTP opens a session.
    pub sessions: bool,
    /// Time without a request after which a session leaves memory and its tool sessions are closed.
    /// Its next request continues it.
    #[serde(with = "kind::Duration")]
    pub session_idle: Duration,
    /// Age at which a session outside memory expires: its client gets status 404.
    #[serde(with = "kind::Age")]
    pub session_lifetime: Duration,
    /// Number of sessions in memory; when it is reached, an idle session of the tenant with too
    /// many is evicted.
    pub max_sessions: NonZeroUsize,
    /// Number of sessions in memory for one principal.
    pub max_sessions_per_principal: NonZeroUsize,
    /// Open `subscriptions/listen` of one principal.
    pub max_listeners_per_principal: NonZeroUsize,
}

/// Information for OAuth clients (RFC 9728,
/// [guide](../guides/oidc.md#help-oauth-clients-find-the-issuer)).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceConfig {
    /// Address of `/mcp` as clients see it.
    pub resource: String,
    /// Addresses of the authorization servers. With `[auth.bridge]`, this server is the first.
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    /// Scopes that clients should request. The scopes of tools are never published.
    #[serde(default)]
    pub scopes: Vec<String>,
}

impl Default for McpConfig {
    fn default() -> Self {
        let count = |number: usize| NonZeroUsize::MIN.saturating_add(number - 1);
        Self {
            auth: MountAuth::Required,
            page_size: count(1_000),
            strict_headers: false,
            inline_refs: false,
            sessions: true,
            session_idle: Duration::from_secs(30 * 60),
            session_lifetime: Duration::from_secs(30 * 24 * 60 * 60),
            max_sessions: count(10_000),
            max_sessions_per_principal: count(256),
            max_listeners_per_principal: count(64),
        }
    }
}

impl Resolver<'_> {
    /// Resolves the information for OAuth clients. With TLS, its address must be https. A server with
    /// the issuer `own` is a resource without any settings.
    pub(super) fn resource(
        &mut self,
        typed: Option<ResourceConfig>,
        own: Option<&str>,
        has_tls: bool,
    ) -> Option<ResourceConfig> {
        let key = "auth.resource.authorization_servers";
        let of_bridge = |own| ResourceConfig {
            resource: format!("{own}/mcp"),
            authorization_servers: Vec::new(),
            scopes: Vec::new(),
        };
        let mut typed = typed.or_else(|| own.map(of_bridge))?;
        if let Some(own) = own {
            typed.authorization_servers.retain(|server| server != own);
            typed.authorization_servers.insert(0, own.to_owned());
            let rest = typed.resource.strip_prefix(own);
            if !rest.is_some_and(|rest| matches!(rest.trim_end_matches('/'), "" | "/mcp")) {
                let message = "expected `[server] public_url` or its `/mcp`, because tokens of \
                               `[auth.bridge]` are for it";
                self.complain("auth.resource.resource", message);
            }
        }
        if typed.authorization_servers.is_empty() {
            let message = "expected at least one issuer such as \"https://id.example.com\"";
            self.complain(key, message);
        }
        let resource = self.check("auth.resource.resource", check_public(&typed.resource));
        if has_tls && resource.as_ref().is_some_and(|url| !is_https(url)) {
            let message = "expected an https address, because `server.tls` is set";
            self.complain("auth.resource.resource", message);
        }
        let authorization_servers = self.list(key, &typed.authorization_servers, check_public);
        let scopes = self.list("auth.resource.scopes", &typed.scopes, check_scope);
        Some(ResourceConfig {
            resource: resource?,
            authorization_servers: authorization_servers?,
            scopes: scopes?,
        })
    }
}

fn is_https(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| url.scheme() == "https")
}

/// Validates an address for clients: it must be encrypted, or loopback.
fn check_public(text: &str) -> Result<String, &'static str> {
    let is_public = |url: &Url| match url.scheme() {
        "https" => is_plain(url),
        "http" => is_plain(url) && is_loopback(url),
        _ => false,
    };
    // The text goes into a quoted string of a header.
    let is_quotable = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
    match Url::parse(text).is_ok_and(|url| is_public(&url)) && text.bytes().all(is_quotable) {
        true => Ok(text.to_owned()),
        false => Err("expected an https address without user information, query or fragment \
                      (http only for loopback)"),
    }
}

/// Validates a `scope-token` of RFC 6749, section 3.3.
fn check_scope(text: &str) -> Result<String, &'static str> {
    let legal = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
    match !text.is_empty() && text.bytes().all(legal) {
        true => Ok(text.to_owned()),
        false => Err("a scope is visible ASCII without blanks, `\"` and `\\`"),
    }
}
