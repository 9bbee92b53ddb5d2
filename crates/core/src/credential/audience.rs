//! The hosts that a credential may be sent to.
//!
//! Invariant: matching is pure and compares whole labels of canonical hosts. Only an exact match
//! counts.

use std::sync::Arc;

use serde::Deserialize;

use crate::text_types::checked_text;

/// Longest host name (RFC 1035).
const MAX_HOST: usize = 253;

/// An exact host, or `*.domain` for the hosts below a domain, without the domain itself (RFC 0079).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Audience(Arc<str>);

/// Why a text is not an audience. The text itself is never repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an audience {0}")]
pub struct InvalidAudience(&'static str);

impl Audience {
    /// Parses `api.example.com`, `*.example.com` or an IP address (`10.0.0.7`, `[::1]`).
    pub fn parse(text: &str) -> Result<Self, InvalidAudience> {
        let lower = text.to_ascii_lowercase();
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

    /// Whether `host` matches. `host` must be serialised as in the URL standard: lower case,
    /// punycoded, with IPv6 addresses in brackets.
    pub fn admits(&self, host: &str) -> bool {
        match self.0.strip_prefix('*') {
            // `.example.com`: requires a label before it, so the domain itself does not match.
            Some(below) => host
                .strip_suffix(below)
                .is_some_and(|label| !label.is_empty() && !label.starts_with('.')),
            None => *self.0 == *host,
        }
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
            Err(InvalidAudience("must be a host without a scheme or path"))
        }
        _ if host.contains(':') => {
            Err(InvalidAudience("must be a host without a port; write IPv6 addresses in brackets"))
        }
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
            assert_eq!(parsed.admits(host), expected, "{audience} {host}");
        }
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
            "https://a.com",
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
            prop_assert_eq!(parsed.admits(&host), expected);
        }
    }
}
