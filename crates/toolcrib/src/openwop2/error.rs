//! The closed error envelope `{error, message, details?}`, with registered codes only. A code
//! determines its status (errors.md).

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use toolcrib_config::OpenWopV2;
use toolcrib_core::store::StoreError;
use toolcrib_gateway::{answer_time, authn::AuthError};
use utoipa::ToSchema;

use crate::{
    body::InvalidBody,
    middleware::Refusal,
    protocol_version::{OPENWOP_VERSION, V1, V2, listed},
    respond,
};

/// A registered code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Code {
    ValidationError,
    Unauthenticated,
    Forbidden,
    NotFound,
    IdTenantMismatch,
    ProtocolVersionUnsupported,
    RunTerminal,
    PayloadTooLarge,
    UnsupportedStreamMode,
    RateLimited,
    InternalError,
    ServiceUnavailable,
}

/// An error.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorEnvelopeV2 {
    /// A registered code.
    error: Code,
    /// The problem in words. Never repeats the request.
    message: String,
    /// Details for programs; the code determines their members.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    details: Option<Value>,
}

/// The response to a failed request. Boxed, because it is large and rare.
pub(super) struct Failure(Box<Response>);

impl Code {
    fn status(self) -> StatusCode {
        match self {
            Self::ValidationError | Self::UnsupportedStreamMode => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::IdTenantMismatch => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::ProtocolVersionUnsupported => StatusCode::NOT_ACCEPTABLE,
            Self::RunTerminal => StatusCode::CONFLICT,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::ServiceUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Failure {
    pub(super) fn new(code: Code, message: impl ToString, details: Option<Value>) -> Self {
        let body = ErrorEnvelopeV2 { error: code, message: message.to_string(), details };
        Self(Box::new(respond::json(code.status(), &body)))
    }

    /// The failure for a path or a method without a route.
    pub(super) fn no_route() -> Self {
        Self::new(Code::NotFound, "not found, or not visible to this caller", None)
    }

    /// The failure for everything that does not exist for the caller. It is always the same, byte
    /// by byte, and its time reveals no information.
    pub(super) fn not_found() -> Self {
        answer_time::note_stored();
        Self::no_route()
    }

    /// Rejects a request with an invalid parameter, header or body.
    pub(super) fn invalid(message: impl ToString, details: Option<Value>) -> Self {
        Self::new(Code::ValidationError, message, details)
    }

    /// Rejects the parameter `name` because of `problem`.
    pub(super) fn parameter(name: &str, problem: &str) -> Self {
        let message = format!("the parameter `{name}` {problem}");
        Self::invalid(message, Some(json!({ "parameter": name })))
    }

    /// The response to a request for an unlisted version.
    pub(super) fn unsupported_version(v2: OpenWopV2) -> Response {
        let message = "this server does not serve the version in `OpenWOP-Version`";
        let details = json!({ "protocolVersions": listed(v2) });
        let mut response =
            Self::new(Code::ProtocolVersionUnsupported, message, Some(details)).into_response();
        let version = match v2 {
            OpenWopV2::Header | OpenWopV2::Root => V2,
            OpenWopV2::Off => V1,
        };
        response.headers_mut().insert(OPENWOP_VERSION, version);
        response
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        *self.0
    }
}

impl From<Response> for Failure {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

impl From<InvalidBody> for Failure {
    fn from(invalid: InvalidBody) -> Self {
        let details = (!invalid.member.is_empty()).then(|| json!({ "parameter": invalid.member }));
        Self::invalid(invalid.message(), details)
    }
}

impl From<Refusal> for Failure {
    /// The guard formats the refusal.
    fn from(refusal: Refusal) -> Self {
        Self(Box::new(refusal.into_response()))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store could not be read or changed");
        Refusal::Unavailable.into()
    }
}

/// Formats a refusal for this dialect. A wrong method is like a wrong path: no code is registered
/// for status 405.
pub(super) fn refuse(refusal: &Refusal) -> Response {
    let (code, details) = match refusal {
        Refusal::Unauthenticated(
            AuthError::Missing | AuthError::Invalid | AuthError::Ambiguous,
        ) => (Code::Unauthenticated, None),
        Refusal::Unauthenticated(AuthError::Unavailable)
        | Refusal::Unavailable
        | Refusal::Crowded => (Code::ServiceUnavailable, None),
        Refusal::Host | Refusal::Origin => (Code::Forbidden, None),
        Refusal::MissingScope(scope) => (Code::Forbidden, Some(json!({ "scopeRequired": scope }))),
        Refusal::NoRoute | Refusal::Method => return Failure::no_route().into_response(),
        Refusal::BrokenBody => (Code::ValidationError, None),
        Refusal::TooLarge { limit } => {
            (Code::PayloadTooLarge, Some(json!({ "maxRequestBodyBytes": limit })))
        }
        Refusal::Internal => (Code::InternalError, None),
    };
    Failure::new(code, refusal, details).into_response()
}
