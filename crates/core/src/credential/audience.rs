//! The hosts and origins that a credential may be sent to.
//!
//! Invariant: matching is pure and compares whole labels of canonical hosts. Only an exact match
//! counts.
//! Invariant: an origin admits its own scheme, host and port alone. Tokens of accounts have one.

use std::sync::Arc;

use serde::Deserialize;

use crate::text_types::checked_text;

/// Longest host name (RFC 1035).
const MAX_HOST: usize = 253;

/// An exact host with all its ports, `*.domain` for the hosts below a domain, without the domain
/// itself (RFC 0079), or an origin (`https://api.example.com:8443`) without a default port.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Audience(Arc<str>);

/// Where a request goes, in the form of a parsed URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination<'u> {
    /// In lower case.
    pub scheme: &'u str,
    /// Serialised as in the URL standard: lower case, punycoded, with IPv6 addresses in brackets.
    pub host: &'u str,
    /// The port of the URL, or else the default one of its scheme.
    pub port: u16,
}

/// Why a text is not an audience. The text itself is never repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an audience {0}")]
pub struct InvalidAudience(&'static str);

impl Audience {
    /// Parses `api.example.com`, `*.example.com`, an IP address (`10.0.0.7`, `[::1]`), or the
    /// origin of an exact host (`https://api.example.com:8443`). A default port is dropped.
    pub fn parse(text: &str) -> Result<Self, InvalidAudience> {
        let lower = text.to_ascii_lowercase();
        match lower.split_once("://") {
            Some((scheme, rest)) => Self::parse_origin(scheme, rest),
            None => Self::parse_host(lower),
        }
    }

    fn parse_origin(scheme: &str, rest: &str) -> Result<Self, InvalidAudience> {
        let default = default_port(scheme);
        let default = default.ok_or(InvalidAudience("with a scheme is `https://` or `http://`"))?;
        let (host, port) = split_port(rest);
        let port = match port {
            None => default,
            Some(port) => {
                let is_number = port.bytes().all(|b| b.is_ascii_digit());
                let parsed = port.parse::<u16>().ok().filter(|it| is_number && *it > 0);
                parsed.ok_or(InvalidAudience("has a port that is not in 1 to 65535"))?
            }
        };
        if host.starts_with('*') {
            return Err(InvalidAudience("with a scheme is one origin, without `*`"));
        }
        let Self(host) = Self::parse_host(host.to_owned())?;
        Ok(Self(match port == default {
            true => format!("{scheme}://{host}").into(),
            false => format!("{scheme}://{host}:{port}").into(),
        }))
    }

    fn parse_host(lower: String) -> Result<Self, InvalidAudience> {
        if let Some(address) = lower.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return match address.parse::<core::net::Ipv6Addr>() {
                Ok(address) => Ok(Self(format!("[{address}]").into())),
                Err(_) => Err(InvalidAudience("has brackets without an IPv6 address in them")),
            };
        }
        let (wild, host) = match lower.strip_prefix("*.") {
            Some(domain) => (true, domain),
            None => (false, lower.as_str()),
        };
        check_host(host)?;
        let numeric = host.rsplit('.').next().is_some_and(is_number);
        match (wild, numeric) {
            (true, true) => Err(InvalidAudience("cannot be the hosts below an IP address")),
            (true, false) if !host.contains('.') => {
                Err(InvalidAudience("with `*.` needs a domain of two labels, as `*.example.com`"))
            }
            // A URL's host is never equal to another spelling of an address.
            (false, true) if host.parse::<core::net::Ipv4Addr>().is_err() => {
                Err(InvalidAudience("ends in a number but is not an IPv4 address"))
            }
            _ => Ok(Self(lower.into())),
        }
    }

    /// Whether a request to this destination matches. Without an origin, any scheme and port do.
    pub fn admits(&self, to: Destination<'_>) -> bool {
        let host = to.host;
        if let Some((scheme, rest)) = self.0.split_once("://") {
            let (own, port) = split_port(rest);
            let port = port.map_or_else(|| default_port(scheme), |port| port.parse().ok());
            return (scheme, own, port) == (to.scheme, host, Some(to.port));
        }
        match self.0.strip_prefix('*') {
            // `.example.com`: requires a label before it, so the domain itself does not match.
            Some(below) => host
                .strip_suffix(below)
                .is_some_and(|label| !label.is_empty() && !label.starts_with('.')),
            None => *self.0 == *host,
        }
    }

    /// Its host for people, with the port of an origin that has another than the default one.
    pub fn authority(&self) -> &str {
        self.0.split_once("://").map_or(&self.0, |(_, rest)| rest)
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    }
}

/// The host and the port of the rest of an origin. The colons of an IPv6 address are in brackets.
fn split_port(rest: &str) -> (&str, Option<&str>) {
    match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (rest, None),
    }
}

fn check_host(host: &str) -> Result<(), InvalidAudience> {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    match host {
        "" => Err(InvalidAudience("is empty")),
        _ if host.contains("//") || host.contains('/') => {
            Err(InvalidAudience("must be a host or an origin, without a path"))
        }
        _ if host.contains(':') => Err(InvalidAudience(
            "must be a host without a port, or an origin such as \
                 `https://api.example.com:8443`; write IPv6 addresses in brackets",
        )),
        _ if host.contains('*') => {
            Err(InvalidAudience("may have one `*`, as its first label: `*.example.com`"))
        }
        _ if !host.is_ascii() => {
            Err(InvalidAudience("contains non-ASCII letters; write its punycode (`xn--…`)"))
        }
        _ if host.len() > MAX_HOST || !host.split('.').all(label) => {
            Err(InvalidAudience("is not a host name such as `api.example.com`"))
        }
        _ => Ok(()),
    }
}

/// Whether the URL standard parses a host with this last label as an IPv4 address.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x");
    label.bytes().all(|b| b.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

checked_text!(Audience, InvalidAudience);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // I-36
    #[test]
    fn an_audience_is_exactly_what_it_names() {
        for (audience, host, expected) in [
            ("api.example.com", "api.example.com", true),
            ("API.Example.COM", "api.example.com", true),
            ("api.example.com", "example.com", false),
            ("api.example.com", "x.api.example.com", false),
            ("api.example.com", "api.example.com.evil.net", false),
            ("api.example.com", "evil-api.example.com", false),
            ("api.example.com", "api.example.com.", false),
            ("api.example.com", "", false),
            ("*.example.com", "api.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("*.example.com", "..example.com", false),
            ("*.example.com", "evilexample.com", false),
            ("*.example.com", "api.example.com.evil.net", false),
            ("*.example.com", "*.example.com", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.11", false),
            ("127.0.0.1", "x.127.0.0.1", false),
            ("[::1]", "[::1]", true),
            ("[0:0::0:1]", "[::1]", true),
            ("[::1]", "::1", false),
            ("localhost", "localhost", true),
            ("localhost", "x.localhost", false),
            ("xn--bcher-kva.example", "xn--bcher-kva.example", true),
        ] {
            let parsed =
                Audience::parse(audience).unwrap_or_else(|error| panic!("{audience}: {error}"));
            for (scheme, port) in [("https", 443), ("https", 8443), ("http", 80)] {
                let to = Destination { scheme, host, port };
                assert_eq!(parsed.admits(to), expected, "{audience} {host}");
            }
        }
    }

    // I-36
    #[test]
    fn an_origin_admits_its_scheme_host_and_port_alone() {
        for (audience, canonical, own) in [
            ("https://API.example", "https://api.example", ("https", "api.example", 443)),
            ("https://a.example:443", "https://a.example", ("https", "a.example", 443)),
            ("https://a.example:8443", "https://a.example:8443", ("https", "a.example", 8443)),
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000", ("http", "127.0.0.1", 9000)),
            ("http://localhost:80", "http://localhost", ("http", "localhost", 80)),
            ("https://[0:0::0:1]:8443", "https://[::1]:8443", ("https", "[::1]", 8443)),
            ("https://[::1]", "https://[::1]", ("https", "[::1]", 443)),
        ] {
            let parsed =
                Audience::parse(audience).unwrap_or_else(|error| panic!("{audience}: {error}"));
            let (scheme, host, port) = own;
            assert_eq!(parsed.as_str(), canonical);
            assert!(canonical.ends_with(parsed.authority()) && parsed.authority().contains(host));
            let to = Destination { scheme, host, port };
            assert!(parsed.admits(to), "{audience}");
            let other = if scheme == "http" { "https" } else { "http" };
            for wrong in [
                Destination { scheme: other, ..to },
                Destination { host: "other.example", ..to },
                Destination { host: "x.a.example", ..to },
                Destination { port: port + 1, ..to },
                Destination { port: 444, ..to },
            ] {
                assert!(!parsed.admits(wrong), "{audience} {wrong:?}");
            }
        }
        let shown = |text| Audience::parse(text).unwrap().authority().to_owned();
        assert_eq!(shown("https://a.example"), "a.example");
        assert_eq!(shown("*.a.example"), "*.a.example");
    }

    #[test]
    fn an_audience_that_never_matches_or_matches_too_much_is_refused() {
        for bad in [
            "",
            "*",
            "*.",
            "*.com",
            "*.*.example.com",
            "a.*.com",
            "*example.com",
            "https://a.com/",
            "https://a.com/x",
            "https://a.com:8443/",
            "https://a.com:0",
            "https://a.com:",
            "https://a.com:65536",
            "https://a.com:x",
            "https://a.com:+443",
            "https://*.a.com",
            "https://user@a.com",
            "https://a.com?x",
            "https://",
            "https://::1",
            "https://127.1",
            "ftp://a.com",
            "https://https://a.com",
            "a.com/",
            "a.com:443",
            "::1",
            "[::1",
            "[x]",
            "a..com",
            ".com",
            "a.com.",
            "-a.com",
            "a b",
            "bücher.example",
            "127.1",
            "0x7f.0.0.1",
            "1.2.3.256",
            "*.0.0.1",
            "user@a.com",
            "127.0.0.0x1",
            "2130706433",
        ] {
            assert!(Audience::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Audience::parse(&format!("{}.com", "a".repeat(64))).is_err());
        assert!(Audience::parse(&"a.".repeat(200)).is_err());
    }

    proptest! {
        #[test]
        fn a_host_that_is_admitted_is_the_audience_or_below_it(
            audience in r"(\*\.)?[a-c]{1,2}\.[a-c]{1,2}", host in r"[a-c.]{1,9}",
        ) {
            let parsed = Audience::parse(&audience).unwrap();
            let labels: Vec<&str> = host.split('.').collect();
            let named: Vec<&str> = audience.trim_start_matches("*.").split('.').collect();
            let below = labels.ends_with(&named) && labels.len() > named.len();
            let expected = if audience.starts_with('*') {
                below && !host.starts_with('.')
            } else {
                labels == named
            };
            let to = Destination { scheme: "https", host: &host, port: 443 };
            prop_assert_eq!(parsed.admits(to), expected);
        }
    }
}
