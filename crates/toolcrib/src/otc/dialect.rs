//! Determines the dialect of a request within the family, and the dialect of the response.
//!
//! | | Open Tool Calling, at the root | OXP, under `/oxp` |
//! |---|---|---|
//! | list | `tools` | `items` |
//! | input schema | `input_schema.parameters` | `input_schema` |
//! | version | `$schema` | `$schema`, and the header `OXP-Version` |
//! | call | `{"request": …}`, `{"result": …}` | the same, or both without the envelope |
//!
//! A response has the shape of its mount. `$schema` names the version as the caller did: every name
//! under which version 1.0 was published belongs to one of three families.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use toolcrib_gateway::metrics::Surface;

pub(super) const OTC: Surface = Surface::new("otc", "Otc");
pub(super) const OXP: Surface = Surface::new("oxp", "Oxp");

/// One of the two mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `otc://1.0`, at the root.
    Otc,
    /// `urn:oxp:1.0`, under `/oxp`.
    Oxp,
}

/// The `$schema` of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    Otc,
    Oxp,
    /// The address of the document on the project's site.
    Site,
    /// Its address in the repository.
    Repository,
    /// Its address in the former repository.
    FirstRepository,
}

/// The names under which a version was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `otc://1.0`
    Otc,
    /// `urn:oxp:1.0`
    Oxp,
    /// The address of the OpenAPI document.
    Document,
}

/// The reason why a version is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnsupportedVersion {
    /// `$schema` is not a string.
    #[error("`$schema` must be a string, for example \"otc://1.0\"")]
    NotAString,
    /// `$schema` names another version or protocol.
    #[error(
        "`$schema` names no supported version; this server speaks otc://1.0, also as urn:oxp:1.0"
    )]
    Schema,
    /// `OXP-Version` names another version.
    #[error("`OXP-Version` names no supported version; this server speaks 1.0")]
    Header,
}

/// The header of OXP that names the version.
pub(super) const OXP_VERSION: HeaderName = HeaderName::from_static("oxp-version");
/// Its value in responses.
pub(super) const OXP_1_0: HeaderValue = HeaderValue::from_static("1.0");

// === impl Dialect ===

impl Dialect {
    /// The marker of responses to callers that name no version.
    pub(super) fn marker(self) -> Marker {
        match self {
            Self::Otc => Marker::Otc,
            Self::Oxp => Marker::Oxp,
        }
    }

    /// The surface for the metrics.
    pub(super) fn surface(self) -> Surface {
        match self {
            Self::Otc => OTC,
            Self::Oxp => OXP,
        }
    }

    /// Selects the marker of the response to `message`. A message without `$schema` means the
    /// newest version, and gets the marker of the mount.
    pub(super) fn answer_to(self, message: &Value) -> Result<Marker, UnsupportedVersion> {
        let text = match message.get("$schema") {
            None => return Ok(self.marker()),
            Some(Value::String(text)) => text,
            Some(_) => return Err(UnsupportedVersion::NotAString),
        };
        match version(text) {
            Some((family, 1, 0)) => Ok(match family {
                Family::Otc => Marker::Otc,
                Family::Oxp => Marker::Oxp,
                Family::Document => Marker::document(text),
            }),
            Some(_) | None => Err(UnsupportedVersion::Schema),
        }
    }
}

/// Rejects a request whose header names another version.
pub(super) fn check_header(headers: &HeaderMap) -> Result<(), UnsupportedVersion> {
    let known = |value: &HeaderValue| matches!(value.as_bytes().trim_ascii(), b"1.0" | b"1.0.0");
    match headers.get_all(OXP_VERSION).iter().all(known) {
        true => Ok(()),
        false => Err(UnsupportedVersion::Header),
    }
}

// === impl Marker ===

impl Marker {
    /// All markers, in the order of their definition.
    pub(super) const ALL: [Self; 5] =
        [Self::Otc, Self::Oxp, Self::Site, Self::Repository, Self::FirstRepository];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Otc => "otc://1.0",
            Self::Oxp => "urn:oxp:1.0",
            Self::Site => {
                "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
            }
            Self::Repository => {
                "https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json"
            }
            Self::FirstRepository => {
                "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
            }
        }
    }

    /// Finds the marker for a known address of the document; other addresses get the site's.
    fn document(text: &str) -> Self {
        let known = [Self::Repository, Self::FirstRepository];
        known.into_iter().find(|marker| marker.as_str() == text).unwrap_or(Self::Site)
    }
}

/// Parses a `$schema` into its family and version number.
fn version(text: &str) -> Option<(Family, u32, u32)> {
    let (family, version) = if let Some(version) = text.strip_prefix("otc://") {
        (Family::Otc, version)
    } else if let Some(version) = text.strip_prefix("urn:oxp:") {
        (Family::Oxp, version)
    } else {
        let path = text.strip_prefix("https://")?.strip_suffix("/openapi.json")?;
        let (before, version) = path.rsplit_once('/')?;
        (before.ends_with("/http").then_some(Family::Document)?, version)
    };
    let (major, minor) = version.split_once('.')?;
    Some((family, number(major)?, number(minor)?))
}

/// Parses a number of a version: digits, no sign, no leading zero.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    (plain && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn version_one_is_accepted_by_all_its_names_and_answered_in_kind() {
        for marker in Marker::ALL {
            let message = json!({ "$schema": marker.as_str() });
            assert_eq!(Dialect::Otc.answer_to(&message), Ok(marker));
            assert_eq!(Dialect::Oxp.answer_to(&message), Ok(marker));
        }
        let copy = json!({ "$schema": "https://mirror.example/http/1.0/openapi.json" });
        assert_eq!(Dialect::Otc.answer_to(&copy), Ok(Marker::Site));
        assert_eq!(Dialect::Otc.answer_to(&json!({})), Ok(Marker::Otc));
        assert_eq!(Dialect::Oxp.answer_to(&json!({ "tool_id": "a.b" })), Ok(Marker::Oxp));
    }

    #[test]
    fn families_and_numbers_are_told_apart() {
        assert_eq!(version("otc://1.0"), Some((Family::Otc, 1, 0)));
        assert_eq!(version("otc://12.34"), Some((Family::Otc, 12, 34)));
        assert_eq!(version("urn:oxp:2.1"), Some((Family::Oxp, 2, 1)));
        assert_eq!(version("https://x/http/2.0/openapi.json"), Some((Family::Document, 2, 0)));
        for none in [
            "",
            "otc://",
            "otc://1",
            "otc://1.",
            "otc://1.0.0",
            "otc://+1.0",
            "otc://01.0",
            "otc:1.0",
            "OTC://1.0",
            "urn:oxp:1",
            "urn:oxp:1.99999999999",
            "http://x/http/1.0/openapi.json",
            "https://x/http/1.0/openapi.yaml",
            "https://x/https/1.0/openapi.json",
            "https://http/openapi.json",
        ] {
            assert_eq!(version(none), None, "{none}");
        }
    }

    #[test]
    fn other_versions_are_refused() {
        for (bad, error) in [
            (json!("otc://9.9"), UnsupportedVersion::Schema),
            (json!("otc://1.1"), UnsupportedVersion::Schema),
            (json!("urn:oxp:2.0"), UnsupportedVersion::Schema),
            (json!("https://x/http/2.0/openapi.json"), UnsupportedVersion::Schema),
            (json!(1), UnsupportedVersion::NotAString),
            (json!(null), UnsupportedVersion::NotAString),
        ] {
            assert_eq!(Dialect::Otc.answer_to(&json!({ "$schema": bad })), Err(error), "{bad}");
        }
        let header = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(OXP_VERSION, HeaderValue::from_static(value));
            }
            check_header(&headers)
        };
        for good in [&[][..], &["1.0"], &["1.0.0"], &[" 1.0 "], &["1.0", "1.0.0"]] {
            assert_eq!(header(good), Ok(()), "{good:?}");
        }
        for bad in [&["9.0"][..], &["1"], &[""], &["1.0", "2.0"], &["1.0, 2.0"]] {
            assert_eq!(header(bad), Err(UnsupportedVersion::Header), "{bad:?}");
        }
    }
}
