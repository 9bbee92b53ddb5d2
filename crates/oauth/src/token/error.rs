//! Why a token endpoint issues no token.
//!
//! Invariant: `Display` and `Debug` of an error have at most a code of RFC 6749 from the answer: a
//! server can repeat a secret in any other text.

use std::fmt;

use toolcrib_core::text;

/// Longest text of a server that people see.
pub(super) const MAX_TEXT: usize = 300;

/// Error codes that stay the same when the request is repeated.
const PERMANENT: &[&str] = &[
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "invalid_target",
];
/// Codes of GitHub, Slack and Microsoft Entra ID, and the standard ones with their meaning.
const OTHER_CODES: &[(&str, &str)] = &[
    ("bad_refresh_token", "invalid_grant"),
    ("bad_verification_code", "invalid_grant"),
    ("invalid_refresh_token", "invalid_grant"),
    ("invalid_code", "invalid_grant"),
    ("interaction_required", "invalid_grant"),
    ("incorrect_client_credentials", "invalid_client"),
    ("bad_client_secret", "invalid_client"),
    ("invalid_client_id", "invalid_client"),
];

/// Why there is no token.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenError {
    /// The server refuses.
    Refused(TokenRefusal),
    /// The request cannot be sent, or the token cannot be used; the same the next time.
    Unusable(&'static str),
    /// The answer is not one of RFC 6749.
    Malformed(&'static str),
    /// There is no answer. The text is of this host.
    Unreachable(String),
}

/// A refusal. Its texts are of the server: only the person who signs in may see them.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenRefusal {
    /// The HTTP status.
    pub status: u16,
    /// The code, such as `invalid_client`.
    pub error: Option<String>,
    /// The server's explanation.
    pub description: Option<String>,
}

// === impl TokenError ===

impl TokenError {
    /// Whether the server will refuse the same request again.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Refused(refusal) => self.code().is_some() || matches!(refusal.status, 401 | 403),
            Self::Unusable(_) => true,
            Self::Malformed(_) | Self::Unreachable(_) => false,
        }
    }

    /// The standard code of a permanent refusal: with `invalid_grant`, the person has to consent
    /// again; with `invalid_client`, the client is unknown.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::Refused(refusal) => refusal.known(),
            Self::Unusable(_) | Self::Malformed(_) | Self::Unreachable(_) => None,
        }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => match (refusal.known(), refusal.status) {
                (Some(code), _) => f.write_str(code),
                (None, 401 | 403) => f.write_str("refused"),
                (None, status) => write!(f, "the token endpoint answered with status {status}"),
            },
            Self::Unusable(problem) => f.write_str(problem),
            Self::Malformed(what) => write!(f, "the token endpoint answered {what}"),
            Self::Unreachable(problem) => write!(f, "the token endpoint: {problem}"),
        }
    }
}

impl fmt::Debug for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenError({self})")
    }
}

impl std::error::Error for TokenError {}

// === impl TokenRefusal ===

impl TokenRefusal {
    /// `None` for the statuses of a server in trouble, whatever the code.
    fn known(&self) -> Option<&'static str> {
        if self.status == 429 || self.status >= 500 {
            return None;
        }
        let error = self.error.as_deref()?;
        let same = OTHER_CODES.iter().find(|(other, _)| *other == error);
        let code = same.map_or(error, |(_, standard)| standard);
        PERMANENT.iter().find(|known| **known == code).copied()
    }
}

/// Bounds a text of a server, and removes invisible characters.
pub(super) fn shown(said: &str) -> String {
    let end = said.floor_char_boundary(MAX_TEXT);
    text::seen(said.get(..end).unwrap_or_default()).replace(['\n', '\r', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_some_servers_have_a_standard_meaning() {
        for (status, error, code) in [
            (400, "invalid_grant", Some("invalid_grant")),
            (200, "bad_verification_code", Some("invalid_grant")),
            (200, "invalid_refresh_token", Some("invalid_grant")),
            (400, "interaction_required", Some("invalid_grant")),
            (401, "invalid_client", Some("invalid_client")),
            (200, "incorrect_client_credentials", Some("invalid_client")),
            (200, "canary", None),
            (500, "invalid_grant", None),
            (429, "bad_refresh_token", None),
        ] {
            let error = Some(error.to_owned());
            let failed = TokenError::Refused(TokenRefusal { status, error, description: None });
            assert_eq!((failed.code(), failed.is_permanent()), (code, code.is_some()));
            assert!(!format!("{failed} {failed:?}").contains("canary"), "{failed}");
        }
        assert_eq!(TokenError::Unusable("x").code(), None);
    }
}
