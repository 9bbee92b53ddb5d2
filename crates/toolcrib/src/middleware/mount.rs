//! A part of the path space and the rules that hold in it.

use axum::response::Response;
use toolcrib_gateway::{authn::Accepted, config::MountAuth, metrics::Surface};

use super::Refusal;

/// Paths that share a dialect and a rule on who may come in.
pub(crate) struct Mount {
    /// Counted as.
    pub(crate) surface: Surface,
    /// Which paths.
    pub(crate) paths: Paths,
    /// Recorded as the resource of a refusal without credentials.
    pub(crate) template: String,
    /// Who may come in.
    pub(crate) access: Access,
    /// Which `Host` and `Origin` are answered.
    pub(crate) hosts: Hosts,
    /// How a caller may say who it is.
    pub(crate) credentials: Credentials,
    /// The dialect's body for a refusal.
    pub(crate) refuse: fn(&Refusal) -> Response,
}

/// Which paths belong to a mount.
pub(crate) enum Paths {
    /// These, to the byte.
    Exactly(Vec<String>),
    /// This one and everything below it.
    Under(String),
    /// All.
    All,
}

/// Who may come in.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    /// Everyone; there is no [`Caller`](super::Caller).
    Open,
    /// Callers with a key, and others as configured.
    Keyed(MountAuth),
}

/// How a caller may say who it is.
#[derive(Clone, Copy)]
pub(crate) struct Credentials {
    /// Headers beside `Authorization` that may carry a key, in lower case.
    pub(crate) key_headers: &'static [&'static str],
    /// What credentials are worth that nobody knows.
    pub(crate) strangers: InvalidCredentialPolicy,
    /// Which credentials are taken beside keys and the tokens of issuers.
    pub(crate) accepted: Accepted,
}

impl Credentials {
    /// `Authorization: Bearer`, with a key that is valid.
    pub(crate) const BEARER: Self = Self {
        key_headers: &[],
        strangers: InvalidCredentialPolicy::Refused,
        accepted: Accepted::Usual,
    };
}

/// What becomes of a caller whose credentials are not valid, where callers without any are let in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvalidCredentialPolicy {
    /// It hears of it, rather than seeing less than it thinks it should.
    Refused,
    /// It is one without credentials, as Open Tool Calling wants it. A valid key still tells who it
    /// is.
    Anonymous,
}

/// Which `Host` and `Origin` are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Those of [`origin::check`](super::origin::check).
    Known,
    /// All: for probes, which come with addresses that nobody configured and learn nothing.
    Any,
}

impl Mount {
    /// A mount of `surface` on `paths`, recorded by the first of them.
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
            template,
            access,
            hosts: Hosts::Known,
            credentials: Credentials::BEARER,
            refuse,
        }
    }
}

impl Paths {
    /// Exactly `paths`.
    pub(crate) fn exactly<const N: usize>(paths: [&str; N]) -> Self {
        Self::Exactly(paths.map(str::to_owned).into())
    }

    pub(super) fn hold(&self, path: &str) -> bool {
        match self {
            Self::Exactly(paths) => paths.iter().any(|held| held == path),
            Self::Under(prefix) => path
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            Self::All => true,
        }
    }
}
