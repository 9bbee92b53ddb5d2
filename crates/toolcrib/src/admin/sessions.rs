//! `/v1/sessions`: people who stay signed in to the page. Callers have their own sessions; those with
//! the scope `keys:manage` also see and end the others of their tenant.

use axum::{
    extract::{OriginalUri, State},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use toolcrib_core::id::KeyId;
use toolcrib_gateway::authn::{
    manage::moment,
    session::{SessionError, SessionInfo},
};
use utoipa::ToSchema;

use crate::{
    middleware::{Refusal, Segment, Site},
    respond,
    session_start::{StartedSession, session_request, started},
    state::AppState,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
    },
};

/// The id of the session that presents the request.
const CURRENT: &str = "current";

#[derive(Serialize, ToSchema)]
pub(super) struct Sessions {
    /// Sorted by creation time.
    #[schema(value_type = Vec<Object>)]
    sessions: Vec<SessionInfo>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionEnd {
    id: String,
    ended_at: String,
}

/// Lists the active sessions of the caller, and with the scope `keys:manage` those of its tenant.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    operation_id = "listSessions",
    responses((status = 200, description = "The sessions", body = Sessions))
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    let sessions = context.gateway.authenticator().sessions_of(&context.caller).await;
    let sessions = sessions.map_err(|error| refused(&error))?;
    let current = context.caller.session.as_ref();
    let sessions = sessions
        .iter()
        .map(|session| SessionInfo {
            current: current == Some(&session.id),
            ..SessionInfo::from(session)
        })
        .collect();
    Ok(respond::json(StatusCode::OK, &Sessions { sessions }))
}

/// Signs the page in for some hours: sets a cookie and returns the value of the header that the page
/// sends with it. Requires a key or a token in `Authorization`, and `Origin` with the address of this
/// server over https or on this machine. The session has the rights that the credential has at the time
/// of each request, and ends with it.
#[utoipa::path(
    post,
    path = "/v1/sessions",
    operation_id = "startSession",
    responses(
        (status = 201, description = "The session, with one half of its secret", body = StartedSession),
        (status = 403, description = "The credential or the page cannot have a session", body = ErrorEnvelope),
        (status = 429, description = "The principal has too many sessions", body = ErrorEnvelope),
    )
)]
pub(super) async fn start(
    context: Context,
    State(state): State<AppState>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let site = Site::of_page(&state.host.server, &uri, &headers).ok_or_else(no_site)?;
    let request = session_request(&state, &site, &headers);
    let session = context.gateway.start_session(&context.caller, &request).await;
    let session = session.map_err(|error| refused(&error))?;
    Ok(started(&session, &site))
}

/// Ends a session: the caller's own, or with the scope `keys:manage` one of its tenant. The id
/// `current` means the session of the request, whose cookie is removed.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{id}",
    operation_id = "endSession",
    params(("id" = String, Path, description = "The id of the session, or `current`")),
    responses(
        (status = 200, description = "The session is closed", body = SessionEnd),
        (status = 404, description = "The session is unknown to the caller, or closed", body = ErrorEnvelope),
    )
)]
pub(super) async fn end(
    context: Context,
    State(state): State<AppState>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    id: Segment,
) -> Result<Response, Failure> {
    let own = context.caller.session.as_ref();
    let id = match id.as_str() {
        CURRENT => own.cloned().ok_or_else(Failure::not_found)?,
        id => KeyId::parse(id).map_err(|_| Failure::not_found())?,
    };
    let ended = context.gateway.end_session(&context.caller, &id).await;
    let at = ended.map_err(|error| refused(&error))?;
    let end = SessionEnd { id: id.to_string(), ended_at: moment(at) };
    let mut response = respond::json(StatusCode::OK, &end);
    if own == Some(&id) {
        Site::forget(&state.host.server, &uri, &headers, response.headers_mut());
    }
    Ok(response)
}

fn no_site() -> Failure {
    let message = "only the page of this server can stay signed in, over https or on this machine: \
                   `Origin` must be its address";
    Failure::forbidden(message, None)
}

pub(super) fn refused(problem: &SessionError) -> Failure {
    match problem {
        SessionError::Off | SessionError::NoCredential | SessionError::NoSuchLink => {
            Failure::forbidden(problem, None)
        }
        SessionError::TooMany => {
            Failure::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", problem, None)
        }
        SessionError::NoSuchSession => Failure::not_found(),
        SessionError::Unrecorded | SessionError::Randomness | SessionError::Store(_) => {
            tracing::error!(error = %problem, "a session could not be started or closed");
            Refusal::Unavailable.into()
        }
    }
}
