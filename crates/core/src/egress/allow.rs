//! The operator's additions to the public addresses that a source may reach: `allow = [..]`.
//!
//! Invariant: a name opens private addresses only. Link-local addresses (where clouds serve their
//! metadata) and addresses that belong to no host need a network entry.

use std::{net::IpAddr, str::FromStr};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;

/// The list of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(with = "Vec<String>", inline)]
pub struct AllowList(Vec<Allow>);

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Allow {
    /// `10.1.0.0/16`, or one address.
    Net(IpNet),
    /// `build.internal`.
    Host(String),
    /// `*.corp.example`: every name below, without the name itself.
    Below(String),
}

/// Why a text is not an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a network such as \"10.1.0.0/16\", an address, or a host such as \"build.internal\" or \"*.corp.example\""
)]
pub struct InvalidAllow;

impl AllowList {
    /// Whether `address` is in a listed network.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.0.iter().any(|allow| matches!(allow, Allow::Net(net) if net.contains(&address)))
    }

    /// Whether the name `host` (lower case, no trailing dot) is listed.
    pub fn has_host(&self, host: &str) -> bool {
        self.0.iter().any(|allow| match allow {
            Allow::Host(listed) => listed == host,
            Allow::Below(parent) => {
                host.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            Allow::Net(_) => false,
        })
    }
}

impl FromIterator<Allow> for AllowList {
    fn from_iter<I: IntoIterator<Item = Allow>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl TryFrom<String> for Allow {
    type Error = InvalidAllow;

    fn try_from(text: String) -> Result<Self, InvalidAllow> {
        text.parse()
    }
}

impl FromStr for Allow {
    type Err = InvalidAllow;

    fn from_str(text: &str) -> Result<Self, InvalidAllow> {
        if let Ok(net) = text.parse::<IpNet>() {
            return Ok(Self::Net(net.trunc()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Net(IpNet::from(address)));
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let name = name.to_ascii_lowercase();
        if !is_name(&name) {
            return Err(InvalidAllow);
        }
        Ok(if below { Self::Below(name) } else { Self::Host(name) })
    }
}

/// Whether `text` is a host name in its wire form. With a number as last label, it would be parsed
/// as an address.
fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
    text.len() <= 253 && text.split('.').all(label) && !numeric
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> AllowList {
        entries.iter().map(|entry| entry.parse::<Allow>().unwrap()).collect()
    }

    #[test]
    fn networks_addresses_and_names_are_distinguished() {
        let list =
            list(&["10.1.2.3/16", "fd00::/8", "192.168.0.9", "Build.Internal", "*.corp.example"]);
        for inside in ["10.1.255.255", "fd12::1", "192.168.0.9"] {
            assert!(list.has_address(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["10.2.0.0", "fe80::1", "192.168.0.8", "::ffff:10.1.0.1"] {
            assert!(!list.has_address(outside.parse().unwrap()), "{outside}");
        }
        for listed in ["build.internal", "a.corp.example", "a.b.corp.example"] {
            assert!(list.has_host(listed), "{listed}");
        }
        for other in ["corp.example", "xcorp.example", "build.internal.evil", "internal"] {
            assert!(!list.has_host(other), "{other}");
        }
    }

    #[test]
    fn other_entries_are_refused() {
        for text in [
            "",
            "*",
            "*.",
            "10.0.0.0/33",
            "10.0.0",
            "0x7f.1",
            "2130706433",
            "0x7f000001",
            "a..b",
            "http://host/",
            "host:80",
            "-a",
            "a b",
            "host/8",
            "b\u{fc}ro.example",
        ] {
            assert_eq!(text.parse::<Allow>(), Err(InvalidAllow), "{text}");
        }
    }
}
