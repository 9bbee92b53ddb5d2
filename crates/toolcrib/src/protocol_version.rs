//! `OpenWOP-Version`: the generation of OpenWOP that a request names. Both generations need it, and
//! so does Open Tool Calling, which shares paths with the second one.

use axum::extract::Request;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use toolcrib_config::OpenWopV2;

use crate::respond::Caching;

/// The header of requests and responses.
pub(crate) const OPENWOP_VERSION: HeaderName = HeaderName::from_static("openwop-version");

/// The versions of responses.
pub(crate) const V1: HeaderValue = HeaderValue::from_static("1.0");
pub(crate) const V2: HeaderValue = HeaderValue::from_static("2.0");

/// `Vary` on paths where the header selects the dialect.
pub(crate) const VARY: &str = "OpenWOP-Version, Authorization, Accept, Accept-Encoding";

/// For answers on these paths that depend on the caller.
pub(crate) const PRIVATE: Caching = Caching { control: "private, no-cache", vary: VARY };

/// For public documents that depend on the version. Long enough to serve polling hosts from caches,
/// short enough for a new version to be noticed.
pub(crate) const PUBLIC: Caching =
    Caching { control: "public, max-age=300", vary: "OpenWOP-Version, Accept-Encoding" };

/// The version that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedVersion {
    None,
    /// A version, of which only the major number counts.
    Major(u32),
    /// A header that is repeated, empty or not a version.
    Malformed,
}

impl NamedVersion {
    /// Reads the version from `headers`.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(OPENWOP_VERSION).iter();
        let Some(value) = values.next() else { return Self::None };
        let sole = values.next().is_none().then_some(value);
        match sole.and_then(|value| major(value.to_str().ok()?.trim())) {
            Some(major) => Self::Major(major),
            None => Self::Malformed,
        }
    }
}

/// Parses `2` or `2.0`: decimal numbers without leading zeros.
fn major(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    number(minor)?;
    number(major)
}

fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    (plain && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
}

/// Whether `request` names a version, valid or not.
pub(crate) fn is_named(request: &Request) -> bool {
    request.headers().contains_key(OPENWOP_VERSION)
}

/// The versions that discovery lists.
pub(crate) fn listed(v2: OpenWopV2) -> &'static [&'static str] {
    match v2 {
        OpenWopV2::Header | OpenWopV2::Root => &["1.0", "2.0"],
        OpenWopV2::Off => &["1.0"],
    }
}

/// Adds the headers that both forms of `GET /tools` have, so that no cache mixes them up.
pub(crate) fn shared_path(headers: &mut HeaderMap) {
    headers.insert(header::VARY, HeaderValue::from_static(VARY));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_strictly() {
        let named = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(OPENWOP_VERSION, HeaderValue::from_static(value));
            }
            NamedVersion::of(&headers)
        };
        assert_eq!(named(&[]), NamedVersion::None);
        for (text, major) in [("2", 2), ("2.0", 2), (" 2.31 ", 2), ("1.0", 1), ("0.9", 0)] {
            assert_eq!(named(&[text]), NamedVersion::Major(major), "{text}");
        }
        for text in ["", " ", "two", "v2", "2.", ".0", "2.0.0", "02", "2.00", "-2", "+2", "2,2"] {
            assert_eq!(named(&[text]), NamedVersion::Malformed, "{text}");
        }
        assert_eq!(named(&["99999999999"]), NamedVersion::Malformed);
        assert_eq!(named(&["2", "2"]), NamedVersion::Malformed, "repeated");
    }
}
