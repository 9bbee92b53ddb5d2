//! Refusals of an authorization server (RFC 6749, sections 4.1.2.1 and 5.2; RFC 7591; RFC 8707).

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}: {description}", code.as_str())]
pub struct Refused {
    /// The code.
    pub code: ErrorCode,
    /// The reason for the developer of the client, in ASCII without `"` and `\`.
    pub description: &'static str,
}

/// The codes of the standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the standards name and explain them")]
pub enum ErrorCode {
    InvalidRequest,
    InvalidClient,
    InvalidGrant,
    InvalidTarget,
    InvalidRedirectUri,
    InvalidClientMetadata,
    UnauthorizedClient,
    UnsupportedGrantType,
    UnsupportedResponseType,
    UnsupportedTokenType,
    AccessDenied,
    RequestNotSupported,
    RequestUriNotSupported,
    ServerError,
    TemporarilyUnavailable,
}

// === impl Refused ===

impl Refused {
    /// A request that does not follow the protocol.
    pub const fn invalid(description: &'static str) -> Self {
        Self { code: ErrorCode::InvalidRequest, description }
    }

    /// A code, a token or an assertion that is not accepted.
    pub const fn grant(description: &'static str) -> Self {
        Self { code: ErrorCode::InvalidGrant, description }
    }

    /// An unknown client, or one without its secret.
    pub const fn client(description: &'static str) -> Self {
        Self { code: ErrorCode::InvalidClient, description }
    }
}

// === impl ErrorCode ===

impl ErrorCode {
    /// The code on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::InvalidTarget => "invalid_target",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::UnsupportedTokenType => "unsupported_token_type",
            Self::AccessDenied => "access_denied",
            Self::RequestNotSupported => "request_not_supported",
            Self::RequestUriNotSupported => "request_uri_not_supported",
            Self::ServerError => "server_error",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
        }
    }

    /// The HTTP status of an answer with it.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidClient => 401,
            Self::ServerError => 500,
            Self::TemporarilyUnavailable => 503,
            _ => 400,
        }
    }
}
