//! The errors of the client.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::{
    StatusCode,
    header::{HeaderMap, RETRY_AFTER},
};
use serde_json::Value;

use crate::generation::{Generation, Version, versions};

/// The code of a refused version.
const VERSION_UNSUPPORTED: &str = "protocol_version_unsupported";

/// The most versions in a message. Hosts have two or three; a longer list would fill a log.
const MAX_NAMED: usize = 8;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the host is invalid.
    #[error("the address must be http or https, without a password or a query")]
    Address,
    /// The key cannot be sent in a header.
    #[error("the API key contains invalid characters")]
    Key,
    /// The host cannot be reached.
    #[error("the host is unreachable")]
    Unreachable(#[source] reqwest::Error),
    /// The response is too large.
    #[error("the response is larger than 64 MiB")]
    TooLarge,
    /// The host refused the request.
    #[error("the host refused with status {}", .0.status)]
    Refused(Box<Refusal>),
    /// The host does not serve the generation of the client (status 406).
    #[error(
        "the host does not serve OpenWOP {requested} at `{}/tools`; it serves {}; select a \
         generation that it serves, or use `Client::negotiate`",
        requested.prefix(),
        joined(listed)
    )]
    VersionUnsupported {
        requested: Generation,
        /// The versions that the host serves, by its own statement; may be empty.
        listed: Vec<Version>,
    },
    /// The host ignored the requested version: the response is of another protocol or generation,
    /// and is not read.
    #[error(
        "the host ignored the request for OpenWOP {requested} at `{}/tools`: its response has {}; \
         check the address, or use `Client::negotiate`",
        requested.prefix(),
        answered_with(*answered)
    )]
    VersionIgnored {
        requested: Generation,
        /// The version in `OpenWOP-Version` of the response; `None` if it is missing, repeated or
        /// malformed.
        answered: Option<Version>,
    },
    /// The host and this client speak no common generation.
    #[error(
        "the host and this client have no common version: `/.well-known/openwop` lists {}, and this \
         client speaks v1 and v2; use another version of the client",
        joined(listed)
    )]
    NoSharedVersion {
        /// The versions that the host serves.
        listed: Vec<Version>,
    },
    /// The host has no discovery document.
    #[error(
        "the host has no discovery document at `/.well-known/openwop`; check the address, or select \
         a generation with `Client::with_generation`"
    )]
    NoDiscovery,
    /// The discovery document is not JSON, or names no versions.
    #[error(
        "the document at `/.well-known/openwop` names no versions of OpenWOP; check the address, or \
         select a generation with `Client::with_generation`"
    )]
    NotDiscovery,
    /// The generation of the client lacks this feature. The request was not sent.
    #[error("OpenWOP {generation} has no {feature}; select the other generation")]
    NotInGeneration {
        /// The generation of the client.
        generation: Generation,
        /// The feature, in the plural.
        feature: &'static str,
    },
    /// The response is not JSON.
    #[error("the response is not JSON")]
    NotJson,
    /// The response contains no list of tools.
    #[error("the response is neither an array of tools nor an object with one")]
    NotAList,
    /// A tool violates RFC 0078, or RFC 0204 for v2.
    #[error("the tool `{tool_id}` is not a descriptor: {reason}")]
    NotADescriptor {
        /// The id of the tool, if it has one.
        tool_id: String,
        reason: String,
    },
}

/// The error envelope of a host that refused a request.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable code, `error` in the envelope; empty if absent.
    pub code: String,
    /// The message for people; empty if absent.
    pub message: String,
    /// The details, or `null`.
    pub details: Value,
    /// The time until a retry can help, if the host says so: in v1 `retryAfterMs` of the details or
    /// else the header `Retry-After`, in v2 the header alone.
    pub retry_after: Option<Duration>,
}

// === impl Error ===

impl Error {
    /// Creates the error for a response of `generation` other than a success or "not found".
    pub(crate) fn refused(
        generation: Generation,
        status: StatusCode,
        headers: &HeaderMap,
        body: &Value,
    ) -> Self {
        let refusal = Refusal::new(generation, status, headers, body);
        if status == StatusCode::NOT_ACCEPTABLE && refusal.code == VERSION_UNSUPPORTED {
            let listed = refusal.details.get("protocolVersions").map(versions).unwrap_or_default();
            return Self::VersionUnsupported { requested: generation, listed };
        }
        Self::Refused(Box::new(refusal))
    }
}

/// Joins versions for a message.
fn joined(listed: &[Version]) -> String {
    if listed.is_empty() {
        return "no version that it names".to_owned();
    }
    let mut names: Vec<String> = listed.iter().take(MAX_NAMED).map(Version::to_string).collect();
    if listed.len() > MAX_NAMED {
        names.push("…".to_owned());
    }
    names.join(", ")
}

fn answered_with(version: Option<Version>) -> String {
    match version {
        Some(version) => format!("`OpenWOP-Version: {version}`"),
        None => "no valid `OpenWOP-Version`".to_owned(),
    }
}

// === impl Refusal ===

impl Refusal {
    fn new(generation: Generation, status: StatusCode, headers: &HeaderMap, body: &Value) -> Self {
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let details = body.get("details").cloned().unwrap_or(Value::Null);
        let millis = match generation {
            Generation::V1 => details.get("retryAfterMs").and_then(Value::as_u64),
            // Forbidden there (errors.md).
            Generation::V2 => None,
        };
        let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        Self {
            status: status.as_u16(),
            code: text("error").to_owned(),
            message: text("message").to_owned(),
            details,
            retry_after: millis.map(Duration::from_millis).or_else(|| wait(header?, Utc::now())),
        }
    }
}

/// Parses `Retry-After`: a number of seconds or a date (RFC 9110, section 10.2.3).
fn wait(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    // A date in the past permits a retry at once.
    Some((date.to_utc() - now).to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        let now = DateTime::parse_from_rfc3339("2026-01-02T03:04:05Z").unwrap().to_utc();
        let seconds = |text| wait(text, now).map(|wait| wait.as_secs());
        assert_eq!((seconds("7"), seconds(" 0 ")), (Some(7), Some(0)));
        assert_eq!(seconds("Fri, 02 Jan 2026 03:05:00 GMT"), Some(55));
        assert_eq!(seconds("Fri, 02 Jan 2026 03:04:00 GMT"), Some(0));
        for text in ["", "-1", "1.5", "soon", "99999999999999999999"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn messages_say_what_to_do() {
        let listed = vec![Version { major: 1, minor: 0 }, Version { major: 3, minor: 1 }];
        let many = vec![Version { major: 7, minor: 0 }; 9];
        let requested = Generation::V2;
        for (error, text) in [
            (
                Error::VersionUnsupported { requested, listed: listed.clone() },
                "the host does not serve OpenWOP v2 at `/tools`; it serves 1.0, 3.1; select a \
                 generation that it serves, or use `Client::negotiate`",
            ),
            (
                Error::VersionUnsupported { requested, listed: Vec::new() },
                "the host does not serve OpenWOP v2 at `/tools`; it serves no version that it names; \
                 select a generation that it serves, or use `Client::negotiate`",
            ),
            (
                Error::VersionIgnored { requested, answered: None },
                "the host ignored the request for OpenWOP v2 at `/tools`: its response has no valid \
                 `OpenWOP-Version`; check the address, or use `Client::negotiate`",
            ),
            (
                Error::VersionIgnored { requested, answered: Some(listed[0]) },
                "the host ignored the request for OpenWOP v2 at `/tools`: its response has \
                 `OpenWOP-Version: 1.0`; check the address, or use `Client::negotiate`",
            ),
            (
                Error::NoSharedVersion { listed: many },
                "the host and this client have no common version: `/.well-known/openwop` lists 7.0, \
                 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, …, and this client speaks v1 and v2; use another \
                 version of the client",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn other_refusals_with_status_406_are_no_statement_about_versions() {
        let refused = |body| {
            let status = StatusCode::NOT_ACCEPTABLE;
            Error::refused(Generation::V2, status, &HeaderMap::new(), &body)
        };
        assert!(matches!(refused(json!({ "error": "other" })), Error::Refused(_)));
        // Only versions are repeated.
        let list = json!({ "protocolVersions": ["1.0", "<b>", 7] });
        let error = refused(json!({ "error": VERSION_UNSUPPORTED, "details": list }));
        let Error::VersionUnsupported { listed, .. } = error else { panic!("{error}") };
        assert_eq!(listed, [Version { major: 1, minor: 0 }]);
    }
}
