//! The destinations that a source may reach.
//!
//! Requests go to public addresses. Explicit configuration is trusted beyond that: the configured
//! host, if its name cannot be owned by an outsider, and the entries of `allow`.
//!
//! Invariant: every address of a name is checked, and only checked addresses are connected to.

use std::net::IpAddr;

use toolcrib_core::egress::AllowList;
use url::{Host, Url};

use super::address::{self, Reach};

/// Suffixes that no public registry assigns: a configured name with one of them is in the
/// operator's network.
const PRIVATE_ENDS: &[&str] = &[
    "localhost",
    "local",
    "localdomain",
    "internal",
    "lan",
    "home.arpa",
    "svc",
    "cluster",
    "test",
];

/// The destinations allowed for one source.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    allow: AllowList,
    /// Hosts and ports of the configured addresses.
    named: Vec<(Host<String>, u16)>,
}

/// How a destination is trusted before its addresses are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Addresses must be public.
    Public,
    /// The operator configured it: addresses may be private.
    Private,
}

/// The destination must not be reached. The error contains no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the destination is not a public address; if this is intended, list its host or network in the \
     source's `allow`"
)]
pub(crate) struct GuardRefusal;

impl Guard {
    /// Creates a guard for a source with the configured `urls` and `allow`.
    pub(crate) fn new<'u>(allow: AllowList, urls: impl IntoIterator<Item = &'u Url>) -> Self {
        let place = |url: &Url| Some((url.host()?.to_owned(), url.port_or_known_default()?));
        let named = urls.into_iter().filter_map(place).collect();
        Self { allow, named }
    }

    /// Decides how far the addresses of `url` are trusted, before it is resolved. Fails when its
    /// host is an address or local name that must not be reached.
    pub(crate) fn judge(&self, url: &Url) -> Result<Trust, GuardRefusal> {
        let host = url.host().ok_or(GuardRefusal)?;
        let port = url.port_or_known_default().ok_or(GuardRefusal)?;
        let named = self.named.iter().any(|(named, at)| *named == host && *at == port);
        let address = match host {
            Host::Domain(name) => {
                let name = bare(name);
                let meant = self.allow.has_host(&name) || (named && is_private_name(&name));
                if is_local(&name) && !meant && !self.allow_loopback() {
                    return Err(GuardRefusal);
                }
                return Ok(trust_of(meant));
            }
            Host::Ipv4(v4) => IpAddr::V4(v4),
            Host::Ipv6(v6) => IpAddr::V6(v6),
        };
        self.check(trust_of(named), &[address]).map(|()| trust_of(named))
    }

    /// Fails unless all of `addresses` may be reached.
    pub(crate) fn check(&self, trust: Trust, addresses: &[IpAddr]) -> Result<(), GuardRefusal> {
        let may = |address: &IpAddr| {
            let listed = self.allow.has_address(*address)
                || self.allow.has_address(address::unwrapped(*address));
            listed
                || match address::reach(*address) {
                    Reach::Public => true,
                    Reach::Private => trust == Trust::Private,
                    Reach::Never => false,
                }
        };
        if addresses.iter().all(may) { Ok(()) } else { Err(GuardRefusal) }
    }

    pub(super) fn lists(&self, url: &Url) -> bool {
        let has = |address| {
            self.allow.has_address(address) || self.allow.has_address(address::unwrapped(address))
        };
        match url.host() {
            Some(Host::Domain(name)) => {
                let name = bare(name);
                self.allow.has_host(&name) || (is_local(&name) && self.allow_loopback())
            }
            Some(Host::Ipv4(v4)) => has(IpAddr::V4(v4)),
            Some(Host::Ipv6(v6)) => has(IpAddr::V6(v6)),
            None => false,
        }
    }

    fn allow_loopback(&self) -> bool {
        self.allow.has_address(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST))
            || self.allow.has_address(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST))
    }
}

fn trust_of(is_configured: bool) -> Trust {
    if is_configured { Trust::Private } else { Trust::Public }
}

/// Writes a name in lower case, without its trailing dot.
fn bare(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn is_local(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether `name` can exist only in the operator's own network.
fn is_private_name(name: &str) -> bool {
    let ends = |end: &str| {
        name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    !name.contains('.') || PRIVATE_ENDS.iter().any(|end| ends(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(url: Option<&str>, allow: &[&str]) -> Guard {
        let url = url.map(|url| Url::parse(url).unwrap());
        Guard::new(allow.iter().map(|a| a.parse().unwrap()).collect(), url.as_ref())
    }

    fn judged(guard: &Guard, url: &str) -> Result<Trust, GuardRefusal> {
        guard.judge(&Url::parse(url).unwrap())
    }

    #[test]
    fn addresses_in_every_spelling_are_judged_before_anything_is_sent() {
        let guard = guard(None, &[]);
        for host in [
            "127.0.0.1",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "017700000001",
            "127.0.0.1.",
            "0",
            "0.0.0.0",
            "10.0.0.1",
            "0xa9fea9fe",
            "2852039166",
            "169.254.169.254",
            "0251.0376.0251.0376",
            "[::]",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[64:ff9b:1::a00:1]",
            "[2002:7f00:1::]",
            "[2001:0:7f00:1::]",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
            "%6cocalhost",
            "１２７.0.0.1",
        ] {
            for scheme in ["http", "https"] {
                let url = format!("{scheme}://{host}:8080/x");
                assert_eq!(judged(&guard, &url), Err(GuardRefusal), "{url}");
            }
        }
        assert_eq!(judged(&guard, "http://1.1.1.1/"), Ok(Trust::Public));
        assert_eq!(judged(&guard, "http://api.example/"), Ok(Trust::Public));
    }

    #[test]
    fn the_configured_address_is_trusted_and_no_other() {
        let local = guard(Some("http://127.0.0.1:9000/mcp"), &[]);
        assert_eq!(judged(&local, "http://127.0.0.1:9000/other"), Ok(Trust::Private));
        assert_eq!(judged(&local, "http://0x7f.1:9000/"), Ok(Trust::Private), "the same address");
        for other in ["http://127.0.0.1:9001/", "http://127.0.0.2:9000/", "http://localhost:9000/"]
        {
            assert_eq!(judged(&local, other), Err(GuardRefusal), "{other}");
        }
        // A private name may have private addresses; any other name only when it is listed.
        for (url, trust) in [
            ("http://files:9000/", Trust::Private),
            ("http://a.svc.cluster.local/", Trust::Private),
            ("http://localhost:1/", Trust::Private),
            ("https://mcp.example.com/", Trust::Public),
            ("https://internal.example.com/", Trust::Public),
        ] {
            assert_eq!(judged(&guard(Some(url), &[]), url), Ok(trust), "{url}");
        }
        let link_local = "http://169.254.169.254/";
        assert_eq!(judged(&guard(Some(link_local), &[]), link_local), Err(GuardRefusal));
    }

    #[test]
    fn an_allow_list_opens_what_it_lists() {
        let ip = |text: &str| [text.parse::<IpAddr>().unwrap()];
        let listed = guard(None, &["10.1.0.0/16", "build.corp.example", "169.254.169.254"]);
        assert_eq!(judged(&listed, "http://10.1.2.3/"), Ok(Trust::Public));
        assert_eq!(judged(&listed, "http://[::ffff:10.1.2.3]/"), Ok(Trust::Public));
        assert_eq!(judged(&listed, "http://10.2.0.1/"), Err(GuardRefusal));
        assert_eq!(judged(&listed, "http://169.254.169.254/"), Ok(Trust::Public));
        let trust = judged(&listed, "http://build.corp.example/").unwrap();
        assert_eq!(trust, Trust::Private);
        assert_eq!(listed.check(trust, &ip("192.168.3.4")), Ok(()));
        assert_eq!(
            listed.check(trust, &ip("169.254.1.1")),
            Err(GuardRefusal),
            "a name opens no link"
        );
        assert_eq!(listed.check(Trust::Public, &ip("192.168.3.4")), Err(GuardRefusal));
        let both = ["1.1.1.1".parse().unwrap(), "10.9.9.9".parse().unwrap()];
        assert_eq!(
            listed.check(Trust::Public, &both),
            Err(GuardRefusal),
            "one bad address is enough"
        );
    }
}
