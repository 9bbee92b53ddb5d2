//! Validates `Host` and `Origin`, so that a web page cannot reach this server through its visitor's
//! browser. A foreign `Host` is a sign of DNS rebinding, a foreign `Origin` of a cross-site
//! request.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header, uri::Authority};
use toolcrib_config::ServerConfig;

use super::Refusal;

/// Refuses a request for another host, or from a foreign page.
pub(crate) fn check(server: &ServerConfig, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let host = host(uri, headers).filter(|host| ours(server, host)).ok_or(Refusal::Host)?;
    check_origin(server, &host, headers)
}

/// Refuses a request that a foreign page sent, whatever the name of this server.
pub(crate) fn check_page(
    server: &ServerConfig,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    if !headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    check_origin(server, &host(uri, headers).ok_or(Refusal::Host)?, headers)
}

fn check_origin(
    server: &ServerConfig,
    host: &Authority,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => Ok(()),
        (Some(origin), None) => {
            let origin = origin.to_str().map_err(|_| Refusal::Origin)?;
            if trusted(server, host, origin) { Ok(()) } else { Err(Refusal::Origin) }
        }
        (Some(_), Some(_)) => Err(Refusal::Origin),
    }
}

/// The host to which the request is addressed. HTTP/2 and absolute request targets name it in the
/// target; a `Host` header must then have the same value.
pub(super) fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut values = headers.get_all(header::HOST).iter();
    let named = match (values.next(), values.next()) {
        (None, _) => None,
        (Some(value), None) => Some(Authority::try_from(value.as_bytes()).ok()?),
        (Some(_), Some(_)) => return None,
    };
    match (uri.authority().cloned(), named) {
        (Some(target), Some(named)) => (target == named).then_some(target),
        (target, named) => target.or(named),
    }
    .filter(|host| !host.as_str().contains('@'))
}

/// Whether `host` is a name of this server.
fn ours(server: &ServerConfig, host: &Authority) -> bool {
    loopback(host.host())
        || address(host.host()) == Some(server.listen.ip())
        || server.allowed_hosts.iter().any(|allowed| names(allowed, host))
}

/// Whether `allowed` (`host` or `host:port`) matches `host`; without a port it matches every port.
fn names(allowed: &str, host: &Authority) -> bool {
    match Authority::try_from(allowed) {
        Ok(allowed) => {
            allowed.host().eq_ignore_ascii_case(host.host())
                && allowed.port_u16().is_none_or(|port| host.port_u16() == Some(port))
        }
        Err(_) => false,
    }
}

/// Returns whether a page of `origin` may send requests to `host`. Allowed are pages of `host`,
/// pages under another loopback name with the same port, and origins that the operator lists.
fn trusted(server: &ServerConfig, host: &Authority, origin: &str) -> bool {
    if listed(server, origin) {
        return true;
    }
    let Ok(uri) = Uri::try_from(origin) else { return false };
    let (Some(scheme), Some(page)) = (uri.scheme_str(), uri.authority()) else { return false };
    let default_port = match scheme {
        // If this server terminates TLS, it has no unencrypted pages.
        "http" if server.tls.is_none() => 80,
        "https" => 443,
        _ => return false,
    };
    let port = page.port_u16().unwrap_or(default_port);
    // Behind a proxy that terminates TLS the scheme is unknown here, so both default ports match.
    let same_port = match host.port_u16() {
        Some(ours) => ours == port,
        None => port == 443 || (port == 80 && server.tls.is_none()),
    };
    let same_name = page.host().eq_ignore_ascii_case(host.host());
    same_port && (same_name || (loopback(page.host()) && loopback(host.host())))
}

pub(super) fn listed(server: &ServerConfig, origin: &str) -> bool {
    server.allowed_origins.iter().any(|allowed| allowed.trim_end_matches('/') == origin)
}

pub(super) fn loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || address(host).is_some_and(|ip| ip.is_loopback())
}

fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use http::HeaderValue;
    use toolcrib_config::{Config, TlsConfig};

    use super::*;

    fn checked(host: &[&'static str], origin: &[&'static str]) -> Result<(), Refusal> {
        checked_with(None, host, origin)
    }

    fn checked_with(
        tls: Option<TlsConfig>,
        host: &[&'static str],
        origin: &[&'static str],
    ) -> Result<(), Refusal> {
        let mut server = Config::empty(Path::new("/")).server;
        server.listen = ([10, 0, 0, 7], 8808).into();
        server.tls = tls;
        server.allowed_hosts = vec!["crib.example".to_owned(), "pinned.example:8443".to_owned()];
        server.allowed_origins = vec!["https://app.example".to_owned()];
        let mut headers = HeaderMap::new();
        for value in host {
            headers.append(header::HOST, HeaderValue::from_static(value));
        }
        for value in origin {
            headers.append(header::ORIGIN, HeaderValue::from_static(value));
        }
        check(&server, &Uri::from_static("/tools"), &headers)
    }

    #[test]
    fn only_our_names_are_answered() {
        for ours in [
            "localhost",
            "LOCALHOST:9",
            "127.0.0.1:8808",
            "127.8.8.8",
            "[::1]:8808",
            "10.0.0.7:8808",
            "crib.example",
            "Crib.Example:1",
            "pinned.example:8443",
        ] {
            assert_eq!(checked(&[ours], &[]), Ok(()), "{ours}");
        }
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.8",
            "pinned.example",
            "localhost@evil.example",
            "2130706433",
            "a b",
            "",
        ] {
            assert_eq!(checked(&[foreign], &[]), Err(Refusal::Host), "{foreign}");
        }
        assert_eq!(checked(&[], &[]), Err(Refusal::Host));
        assert_eq!(checked(&["localhost", "localhost"], &[]), Err(Refusal::Host));
    }

    #[test]
    fn only_our_pages_may_send() {
        let local = |origin: &'static str| checked(&["127.0.0.1:8808"], &[origin]);
        for ours in [
            "http://127.0.0.1:8808",
            "http://localhost:8808",
            "http://[::1]:8808",
            "https://app.example",
        ] {
            assert_eq!(local(ours), Ok(()), "{ours}");
        }
        for foreign in [
            "http://localhost:3000",
            "http://evil.example",
            "http://evil.example:8808",
            "null",
            "file://",
            "https://app.example.evil",
            "https://app.example:444",
        ] {
            assert_eq!(local(foreign), Err(Refusal::Origin), "{foreign}");
        }
        assert_eq!(checked(&["crib.example"], &["https://crib.example"]), Ok(()));
        assert_eq!(checked(&["crib.example"], &["http://localhost"]), Err(Refusal::Origin));
        let twice = ["http://localhost:8808", "http://localhost:8808"];
        assert_eq!(checked(&["localhost:8808"], &twice), Err(Refusal::Origin));
    }

    #[test]
    fn with_tls_only_encrypted_pages_are_ours() {
        let sent = |host, origin| {
            let (cert, key) = ("cert.pem".into(), "key.pem".into());
            let tls = TlsConfig { cert, key, client_ca: None, hsts: None };
            checked_with(Some(tls), &[host], &[origin])
        };
        for (host, origin) in [
            ("127.0.0.1:8808", "https://127.0.0.1:8808"),
            ("127.0.0.1:8808", "https://localhost:8808"),
            ("crib.example", "https://crib.example"),
            ("crib.example:443", "https://crib.example"),
            ("crib.example:8808", "https://app.example"),
        ] {
            assert_eq!(sent(host, origin), Ok(()), "{origin}");
        }
        for (host, origin) in [
            ("127.0.0.1:8808", "http://127.0.0.1:8808"),
            ("crib.example", "http://crib.example"),
            ("crib.example", "https://crib.example:80"),
            ("crib.example:443", "http://crib.example:443"),
        ] {
            assert_eq!(sent(host, origin), Err(Refusal::Origin), "{origin}");
        }
    }
}
