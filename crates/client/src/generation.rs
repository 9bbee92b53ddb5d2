//! The generations of OpenWOP, and the versions that hosts list.

use std::{fmt, str::FromStr};

use reqwest::header::{HeaderMap, HeaderName};
use serde_json::Value;

/// The header of requests and responses of v2.
pub(crate) const OPENWOP_VERSION: HeaderName = HeaderName::from_static("openwop-version");

/// A generation of OpenWOP, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Generation {
    /// RFC 0078 and RFC 0112: paths under `/v1`.
    #[default]
    V1,
    /// RFC 0204: paths without a version, and the header `OpenWOP-Version`.
    V2,
}

/// A version of the protocol, such as 2.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The number before the point, which alone selects a generation.
    pub major: u32,
    /// The number after the point.
    pub minor: u32,
}

/// The text is not a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a version has two numbers, for example 2.0")]
pub struct InvalidVersion;

/// The versions of a host, from its discovery document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// All of them (`protocolVersions`), in the order of the host; never empty. Invalid members are
    /// omitted. A host without this list serves only its `protocolVersion`.
    pub listed: Vec<Version>,
    /// The version for requests that do not name one (`preferredVersion`), if the host lists it.
    pub preferred: Option<Version>,
}

// === impl Generation ===

impl Generation {
    /// All generations that this client speaks.
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];

    /// Returns the generation of `version`; `None` for versions that this client does not speak.
    pub fn of(version: Version) -> Option<Self> {
        Self::ALL.into_iter().find(|generation| generation.major() == version.major)
    }

    /// The start of its paths.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::V1 => "/v1",
            Self::V2 => "",
        }
    }

    /// The version that requests must name; `None` if the path names it.
    pub(crate) fn header(self) -> Option<&'static str> {
        match self {
            Self::V1 => None,
            Self::V2 => Some("2.0"),
        }
    }

    fn major(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.major())
    }
}

// === impl Version ===

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    /// Parses `major.minor`: decimal numbers without leading zeros.
    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let (major, minor) = text.split_once('.').ok_or(InvalidVersion)?;
        Ok(Self { major: number(major)?, minor: number(minor)? })
    }
}

fn number(text: &str) -> Result<u32, InvalidVersion> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain || (text.len() > 1 && text.starts_with('0')) {
        return Err(InvalidVersion);
    }
    text.parse().map_err(|_| InvalidVersion)
}

/// The version that a response follows; `None` if its header is missing, repeated or malformed.
pub(crate) fn answered(headers: &HeaderMap) -> Option<Version> {
    let mut values = headers.get_all(OPENWOP_VERSION).iter();
    let sole = values.next().filter(|_| values.next().is_none())?;
    sole.to_str().ok()?.trim().parse().ok()
}

/// Reads the versions in the array `list`. Invalid members are omitted, so errors never repeat
/// other text of a host.
pub(crate) fn versions(list: &Value) -> Vec<Version> {
    list.as_array().into_iter().flatten().filter_map(version).collect()
}

fn version(value: &Value) -> Option<Version> {
    value.as_str()?.parse().ok()
}

// === impl Versions ===

impl Versions {
    /// Reads the versions from a discovery document; `None` if it lists no version.
    pub(crate) fn of(document: &Value) -> Option<Self> {
        let listed = match document.get("protocolVersions") {
            Some(list) => versions(list),
            // The first hosts had only this member.
            None => document.get("protocolVersion").and_then(version).into_iter().collect(),
        };
        let preferred = document.get("preferredVersion").and_then(version);
        (!listed.is_empty()).then_some(Self { listed, preferred })
    }

    /// The newest generation that both the host and this client speak.
    pub fn newest_shared(&self) -> Option<Generation> {
        self.listed.iter().filter_map(|version| Generation::of(*version)).max()
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_read_strictly() {
        for (text, major, minor) in [("1.0", 1, 0), ("2.31", 2, 31), ("0.9", 0, 9)] {
            assert_eq!(text.parse(), Ok(Version { major, minor }));
            assert_eq!(Version { major, minor }.to_string(), text);
        }
        for text in ["", "2", "2.", ".0", "v2.0", "2.0.0", "02.0", "2.00", "+2.0", "2.99999999999"]
        {
            assert_eq!(text.parse::<Version>(), Err(InvalidVersion), "{text}");
        }
    }

    #[test]
    fn only_a_sole_version_of_a_response_counts() {
        let answered = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(OPENWOP_VERSION, HeaderValue::from_static(value));
            }
            answered(&headers)
        };
        assert_eq!(answered(&["2.0"]), Some(Version { major: 2, minor: 0 }));
        assert_eq!(answered(&[" 1.7 "]), Some(Version { major: 1, minor: 7 }));
        for values in [&[][..], &["2.0", "2.0"], &["2"], &["two"], &["2.0, 2.0"]] {
            assert_eq!(answered(values), None, "{values:?}");
        }
    }

    #[test]
    fn the_newest_shared_generation_is_selected() {
        let newest =
            |document: Value| Versions::of(&document).map(|versions| versions.newest_shared());
        for (listed, generation) in [
            (json!(["1.0"]), Some(Generation::V1)),
            (json!(["1.0", "2.0"]), Some(Generation::V2)),
            (json!(["2.4", "1.0", "3.0"]), Some(Generation::V2)),
            (json!(["3.0", "0.9"]), None),
        ] {
            let document = json!({ "protocolVersions": listed, "preferredVersion": "1.0" });
            assert_eq!(newest(document), Some(generation), "{listed}");
        }
        assert_eq!(newest(json!({ "protocolVersion": "1.0" })), Some(Some(Generation::V1)));
        // An empty or malformed list is not completed from another member.
        for list in [json!([]), json!("1.0"), json!([2, "two", null])] {
            let document = json!({ "protocolVersions": list, "protocolVersion": "1.0" });
            assert_eq!(newest(document), None, "{list}");
        }
        assert_eq!(newest(json!([])), None);
    }
}
