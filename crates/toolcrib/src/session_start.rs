//! The start of a browser session, for the routes of all dialects that sign in.

use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use toolcrib_gateway::authn::{
    manage::moment,
    session::{NewSession, SessionRequest},
};
use utoipa::ToSchema;

use crate::{
    middleware::{Site, browser},
    respond,
    state::AppState,
};

/// A new session. The other half of its secret is in the cookie.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartedSession {
    id: String,
    /// The value of the header `Toolcrib-Session`. It is shown only once.
    secret: String,
    /// When the session expires at the latest.
    expires_at: String,
}

/// Builds the request for a session of the page at `site`.
pub(crate) fn session_request(
    state: &AppState,
    site: &Site,
    headers: &HeaderMap,
) -> SessionRequest {
    SessionRequest {
        origin: site.origin().to_owned(),
        browser: browser(headers),
        lifetime: state.gateway.config().explorer.session_lifetime,
    }
}

/// Builds the response to the signed-in page.
pub(crate) fn started(session: &NewSession, site: &Site) -> Response {
    let body = StartedSession {
        id: session.record.id.to_string(),
        secret: session.page.expose().to_owned(),
        expires_at: moment(session.expires_at),
    };
    let lifetime = session.expires_at - session.record.created_at;
    let seconds = u64::try_from(lifetime.num_seconds()).unwrap_or_default();
    let mut response = respond::json(StatusCode::CREATED, &body);
    site.keep(response.headers_mut(), session.cookie.expose(), seconds);
    response
}
