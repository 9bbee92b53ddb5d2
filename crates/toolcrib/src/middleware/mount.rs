//! A part of the path space and its rules.

use axum::{extract::Request, response::Response};
use http::HeaderMap;
use toolcrib_config::MountAuth;
use toolcrib_gateway::{authn::AcceptedCredentials, metrics::Surface};

use super::Refusal;

/// Paths that share a dialect and an access rule.
pub(crate) struct Mount {
    /// The surface that its requests count for.
    pub(crate) surface: Surface,
    pub(crate) paths: Paths,
    /// Whether a request for one of its paths belongs to it; all do, except where two dialects share
    /// a path.
    pub(crate) claims: fn(&Request) -> bool,
    /// The index of the router with its routes.
    pub(crate) router: usize,
    /// Answers headers that select an unsupported version of its protocol. Runs before credentials
    /// are checked.
    pub(crate) negotiate: fn(&HeaderMap) -> Option<Response>,
    /// Adds the headers of every response, whatever its status.
    pub(crate) headers: fn(&mut HeaderMap),
    /// The resource that the record names for a refusal without credentials.
    pub(crate) template: String,
    pub(crate) access: Access,
    /// Which `Host` and `Origin` values are accepted.
    pub(crate) hosts: Hosts,
    /// Which credentials are accepted.
    pub(crate) credentials: Credentials,
    /// Formats a refusal in the dialect.
    pub(crate) refuse: fn(&Refusal) -> Response,
}

/// Which paths belong to a mount.
pub(crate) enum Paths {
    /// Exactly these paths, compared byte by byte.
    Exactly(Vec<String>),
    /// This path and everything below it.
    Under(String),
    All,
}

/// An access rule.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    /// Everyone; there is no [`Caller`](super::Caller).
    Open,
    /// Callers with a key, and others if the configuration allows it.
    Keyed(MountAuth),
}

/// Which credentials are accepted.
#[derive(Clone, Copy)]
pub(crate) struct Credentials {
    /// Headers that may carry a key in addition to `Authorization`, in lower case.
    pub(crate) key_headers: &'static [&'static str],
    /// The rule for invalid credentials.
    pub(crate) invalid: InvalidCredentialPolicy,
    /// Which credentials are accepted in addition to keys and the tokens of issuers.
    pub(crate) accepted: AcceptedCredentials,
    /// Whether people who are signed in to the page may enter.
    pub(crate) sessions: SessionPolicy,
}

/// Whether browser sessions are a credential.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionPolicy {
    /// Sessions are accepted, because the page sends requests to the mount.
    Accepted,
    Ignored,
}

impl Credentials {
    /// Only valid keys in `Authorization: Bearer`.
    pub(crate) const BEARER: Self = Self {
        key_headers: &[],
        invalid: InvalidCredentialPolicy::Refused,
        accepted: AcceptedCredentials::Usual,
        sessions: SessionPolicy::Ignored,
    };
    /// The same, and the sessions of the page.
    pub(crate) const PAGE: Self = Self { sessions: SessionPolicy::Accepted, ..Self::BEARER };
}

/// The rule for a caller with invalid credentials, where callers without any may enter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvalidCredentialPolicy {
    /// It is refused, so that it does not silently see less than it should.
    Refused,
    /// It counts as a caller without credentials, as Open Tool Calling requires. A valid key still
    /// identifies it.
    Anonymous,
}

/// Which `Host` and `Origin` values are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Those of [`origin::check`](super::origin::check).
    Known,
    /// Every `Host`, and the same origins: for scrapers, which use unconfigured addresses.
    AnyHost,
    /// All: for probes, which use unconfigured addresses and reveal no data.
    Any,
}

impl Mount {
    /// Creates a mount of `surface` on `paths`, recorded by the first of them.
    pub(crate) fn new(
        surface: Surface,
        paths: Paths,
        access: Access,
        refuse: fn(&Refusal) -> Response,
    ) -> Self {
        let template = match &paths {
            Paths::Exactly(paths) => paths.first().cloned().unwrap_or_default(),
            Paths::Under(path) => format!("{path}/*"),
            Paths::All => "/*".to_owned(),
        };
        Self {
            surface,
            paths,
            claims: |_| true,
            router: 0,
            negotiate: |_| None,
            headers: |_| {},
            template,
            access,
            hosts: Hosts::Known,
            credentials: Credentials::BEARER,
            refuse,
        }
    }
}

impl Paths {
    pub(crate) fn exactly<const N: usize>(paths: [&str; N]) -> Self {
        Self::Exactly(paths.map(str::to_owned).into())
    }

    pub(crate) fn hold(&self, path: &str) -> bool {
        match self {
            Self::Exactly(paths) => paths.iter().any(|held| held == path),
            Self::Under(prefix) => path
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            Self::All => true,
        }
    }
}
