//! The flat, closed error envelope `{error, message, details?}` and its codes.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use toolcrib_core::store::StoreError;
use toolcrib_gateway::{answer_time, authn::AuthError};
use utoipa::ToSchema;

use crate::{body::InvalidBody, middleware::Refusal, parameters::InvalidQuery, respond};

/// An error.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorEnvelope {
    /// A stable code for programs.
    error: &'static str,
    /// The problem in words. Never repeats the request.
    message: String,
    /// Details for programs; the code determines their members.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<Value>,
}

/// The response to a failed request. Boxed, because it is large and rare.
pub(crate) struct Failure(Box<Response>);

impl Failure {
    pub(crate) fn new(
        status: StatusCode,
        error: &'static str,
        message: impl ToString,
        details: Option<Value>,
    ) -> Self {
        let body = ErrorEnvelope { error, message: message.to_string(), details };
        Self(Box::new(respond::json(status, &body)))
    }

    /// The failure for everything that does not exist for the caller. It is always the same, byte
    /// by byte, and its time reveals no information.
    pub(crate) fn not_found() -> Self {
        answer_time::note_stored();
        Self::no_route()
    }

    /// The failure for a path without a route.
    pub(crate) fn no_route() -> Self {
        let message = "not found, or not visible to this caller";
        Self::new(StatusCode::NOT_FOUND, "not_found", message, None)
    }

    /// Rejects a request with an invalid parameter or body.
    pub(crate) fn invalid(message: impl ToString, details: Option<Value>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "validation_error", message, details)
    }

    /// Rejects the parameter `name` because of `problem`.
    pub(crate) fn parameter(name: &str, problem: &str) -> Self {
        Self::invalid(problem, Some(json!({ "parameter": name })))
    }

    /// Rejects a body because of a `problem` at `member`; an empty `member` means the body itself.
    pub(crate) fn body(member: &str, problem: impl ToString) -> Self {
        InvalidBody::new(member, problem).into()
    }

    pub(crate) fn forbidden(message: impl ToString, details: Option<Value>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message, details)
    }

    /// Refuses a request that may be repeated after `left`.
    pub(crate) fn too_soon(message: impl ToString, left: Duration) -> Self {
        let Self(response) =
            Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message, None);
        Self(Box::new(respond::with_retry_after(*response, Some(left))))
    }

    pub(crate) fn conflict(message: impl ToString, details: Option<Value>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message, details)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        *self.0
    }
}

impl From<Refusal> for Failure {
    /// The guard formats the refusal.
    fn from(refusal: Refusal) -> Self {
        Self(Box::new(refusal.into_response()))
    }
}

impl From<InvalidBody> for Failure {
    fn from(invalid: InvalidBody) -> Self {
        let details = (!invalid.member.is_empty()).then(|| json!({ "parameter": invalid.member }));
        Self::invalid(invalid.message(), details)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store could not be read or changed");
        Refusal::Unavailable.into()
    }
}

/// Rejects a query.
pub(crate) fn invalid_query(problem: InvalidQuery<'_>) -> Response {
    let failure = match problem {
        InvalidQuery::Ambiguous(name) => {
            let message = format!("the parameter `{name}` must be given once, as UTF-8");
            Failure::parameter(&name, &message)
        }
        InvalidQuery::Unknown(names) => {
            let message = match names {
                [] => "unknown query parameter: this route has no parameters".to_owned(),
                names => {
                    format!("unknown query parameter: this route has `{}`", names.join("`, `"))
                }
            };
            Failure::invalid(message, Some(json!({ "legal": names })))
        }
    };
    failure.into_response()
}

/// Formats a refusal for this dialect.
pub(crate) fn refuse(refusal: &Refusal) -> Response {
    let (code, details) = match refusal {
        Refusal::Unauthenticated(
            AuthError::Missing | AuthError::Invalid | AuthError::Ambiguous,
        ) => ("unauthenticated", None),
        Refusal::Unauthenticated(AuthError::Unavailable)
        | Refusal::Unavailable
        | Refusal::Crowded => ("internal_error", Some(json!({ "retriable": true }))),
        Refusal::Host | Refusal::Origin => ("forbidden", None),
        Refusal::MissingScope(scope) => ("forbidden", Some(json!({ "scopeRequired": scope }))),
        Refusal::NoRoute => return Failure::no_route().into_response(),
        Refusal::Method | Refusal::BrokenBody => ("validation_error", None),
        Refusal::TooLarge { limit } => {
            ("validation_error", Some(json!({ "maxRequestBodyBytes": limit })))
        }
        Refusal::Internal => ("internal_error", None),
    };
    Failure::new(refusal.status(), code, refusal, details).into_response()
}
