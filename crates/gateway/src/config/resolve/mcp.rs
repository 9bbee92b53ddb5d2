//! `[mcp]` and `[auth.resource]`.

use std::num::NonZeroUsize;

use toml::Spanned;
use url::{Host, Url};

use super::{Resolver, file, parse_duration};
use crate::config::{McpConfig, ResourceConfig};

impl Resolver<'_> {
    pub(super) fn mcp(&mut self, config: &mut McpConfig, typed: &file::Mcp) {
        if let Some(sessions) = typed.sessions {
            config.sessions = sessions;
        }
        if let Some(idle) =
            self.read("mcp.session_idle", typed.session_idle.as_ref(), parse_duration)
        {
            config.session_idle = idle;
        }
        if let Some(size) = self.count("mcp.page_size", typed.page_size.as_ref()) {
            config.page_size = size;
        }
        if let Some(max) = self.count("mcp.max_sessions", typed.max_sessions.as_ref()) {
            config.max_sessions = max.get();
        }
        let max = typed.max_sessions_per_principal.as_ref();
        if let Some(max) = self.count("mcp.max_sessions_per_principal", max) {
            config.max_sessions_per_principal = max.get();
        }
        let max = typed.max_listeners_per_principal.as_ref();
        if let Some(max) = self.count("mcp.max_listeners_per_principal", max) {
            config.max_listeners_per_principal = max.get();
        }
    }

    fn count(&mut self, key: &str, typed: Option<&Spanned<usize>>) -> Option<NonZeroUsize> {
        let typed = typed?;
        let count = NonZeroUsize::new(*typed.get_ref());
        if count.is_none() {
            self.complain(typed.span().start, key, "must be at least 1");
        }
        count
    }

    pub(super) fn resource(&mut self, typed: file::Resource) -> Option<ResourceConfig> {
        let key = "auth.resource.resource";
        let resource = self.read(key, Some(&typed.resource), check_public)?;
        let key = "auth.resource.authorization_servers";
        if typed.authorization_servers.get_ref().is_empty() {
            let message = "expected at least one issuer such as \"https://id.example.com\"";
            self.complain(typed.authorization_servers.span().start, key, message);
        }
        let authorization_servers = self.scopes(key, &typed.authorization_servers, check_public)?;
        let scopes = self.scopes("auth.resource.scopes", &typed.scopes, check_scope)?;
        Some(ResourceConfig { resource, authorization_servers, scopes })
    }
}

/// Validates an address for clients: it must be encrypted, or loopback.
fn check_public(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str = "expected an https address without user information, query or fragment \
                            (http only for loopback)";
    let url = Url::parse(text).map_err(|_| EXPECTED)?;
    let loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    let plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    match url.scheme() {
        // The text goes into a quoted string of a header.
        _ if !plain
            || text.contains(['"', '\\'])
            || !text.bytes().all(|b| b.is_ascii_graphic()) =>
        {
            Err(EXPECTED)
        }
        "https" => Ok(text.to_owned()),
        "http" if loopback => Ok(text.to_owned()),
        _ => Err(EXPECTED),
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
