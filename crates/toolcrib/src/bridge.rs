//! `/oauth`: this server as the authorization server of MCP clients (`[auth.bridge]`). Its routes are
//! public: a browser and a client prove themselves by the protocol.
//!
//! Invariant: an answer with a secret is never cached, and no page of another site can frame or send
//! the form.

mod cookie;
mod forms;
mod page;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde_json::{Value, json};
use toolcrib_core::{credential::Secret, source::AuthorizationResponse};
use toolcrib_gateway::bridge::{
    Bridge, BroughtBack, Consent, ErrorCode, Refused, StartedAuthorization, Unredirected,
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    middleware::{Access, BodySender, Mount, Paths, Payload},
    ops::SURFACE,
    respond,
    route_set::RouteSet,
    state::AppState,
    v1::error::{ErrorEnvelope, Failure, refuse},
};

/// The longest query of a request, and the longest body.
const MAX_QUERY: usize = 16 << 10;
const MAX_BODY: usize = 32 << 10;
/// Where clients look for the description.
const METADATA: &str = "/.well-known/oauth-authorization-server";

pub(crate) const ROUTES: RouteSet = RouteSet {
    tags: &[("Sign-in of clients", "The authorization server of MCP clients")],
    surfaces: &[],
    error: "ErrorEnvelope",
    mounts: |_| {
        let open = |paths| Mount::new(SURFACE, paths, Access::Open, refuse);
        vec![open(Paths::exactly([METADATA])), open(Paths::Under("/oauth".to_owned()))]
    },
    separate: false,
    routes: |_| {
        OpenApiRouter::from(Router::new())
            .routes(routes!(metadata))
            .routes(routes!(authorize))
            .routes(routes!(consent))
            .routes(routes!(callback))
            .routes(routes!(token))
            .routes(routes!(revoke))
            .routes(routes!(register))
    },
    description: || json!({}),
};

/// Returns the metadata of the authorization server (RFC 8414).
#[utoipa::path(
    get,
    path = "/.well-known/oauth-authorization-server",
    operation_id = "authorizationServer",
    security(()),
    responses(
        (status = 200, description = "The metadata", body = Object),
        (status = 404, description = "`[auth.bridge]` is not configured", body = ErrorEnvelope),
    )
)]
async fn metadata(State(state): State<AppState>) -> Result<Response, Failure> {
    let document = state.gateway.bridge().metadata().ok_or_else(Failure::no_route)?;
    Ok(respond::json(StatusCode::OK, &document))
}

/// Shows the person in the browser the question whether a client may act for them (RFC 6749, section 4.1.1).
#[utoipa::path(
    get,
    path = "/oauth/authorize",
    operation_id = "authorizeClient",
    security(()),
    responses(
        (status = 200, description = "The question", body = String, content_type = "text/html"),
        (status = 303, description = "The address of the client, with a refusal"),
        (status = 400, description = "The client or its address is unknown", body = String, content_type = "text/html"),
        (status = 404, description = "`[auth.bridge]` is not configured", body = ErrorEnvelope),
    )
)]
async fn authorize(
    State(state): State<AppState>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let bridge = bridge(&state)?;
    let query = query(&uri)?;
    let started = match bridge.authorize(query).await {
        Ok(started) => started,
        Err(refused) => return Ok(page::refused(refused)),
    };
    Ok(match started {
        StartedAuthorization::Go(address) => to(&address),
        StartedAuthorization::Ask(preview) => {
            let cookie = match Bridge::new_cookie() {
                Ok(cookie) => cookie,
                Err(refused) => return Ok(page::refused(Unredirected(refused))),
            };
            let proof = Bridge::consent_proof(&cookie, query);
            let mut response = page::question(&preview, query, &proof);
            let earlier = cookie::sent(&state, &headers);
            cookie::set(&state, response.headers_mut(), &cookie, &earlier);
            response
        }
    })
}

/// Takes the answer of the person, and leads the browser to the identity provider.
#[utoipa::path(
    post,
    path = "/oauth/consent",
    operation_id = "consentToClient",
    security(()),
    request_body(content = forms::ConsentForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 303, description = "The address of the identity provider, or of the client with a refusal"),
        (status = 400, description = "The form is of another browser or request", body = String, content_type = "text/html"),
        (status = 404, description = "`[auth.bridge]` is not configured", body = ErrorEnvelope),
    )
)]
async fn consent(State(state): State<AppState>, request: Request) -> Result<Response, Failure> {
    let bridge = bridge(&state)?;
    let (headers, form) = form(request).await?;
    let field = |name| respond::query(Some(&form), name).unwrap_or_default();
    let (query, proof) = (field("query"), field("proof"));
    let cookies = cookie::sent(&state, &headers);
    let agrees = field("answer") == "allow";
    let answer = Consent { query: &query, cookies: &cookies, proof: &proof, agrees };
    let ended = answer.browser().filter(|_| !agrees);
    Ok(match bridge.consent(answer).await {
        Ok(address) => {
            let mut response = to(&address);
            if let Some(cookie) = ended {
                cookie::remove(&state, response.headers_mut(), cookie);
            }
            response
        }
        Err(refused) => page::refused(refused),
    })
}

/// Takes the browser back from the identity provider, and leads it to the client.
#[utoipa::path(
    get,
    path = "/oauth/callback",
    operation_id = "clientSignedIn",
    security(()),
    responses(
        (status = 303, description = "The address of the client, with a code or a refusal"),
        (status = 400, description = "The response belongs to no sign-in of this browser", body = String, content_type = "text/html"),
        (status = 404, description = "`[auth.bridge]` is not configured", body = ErrorEnvelope),
    )
)]
async fn callback(
    State(state): State<AppState>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let bridge = bridge(&state)?;
    let query = query(&uri)?;
    // Of two codes, another reader could see the other one.
    if respond::ambiguous_parameter(query).is_some() {
        return Err(Failure::invalid("a parameter of the response is repeated", None));
    }
    let field = |name| respond::query(Some(query), name).filter(|value| !value.is_empty());
    let brought = BroughtBack {
        state: Secret::new(field("state").unwrap_or_default()),
        cookies: cookie::sent(&state, &headers),
        response: AuthorizationResponse {
            code: field("code").map(Secret::new),
            issuer: field("iss"),
            error: field("error"),
        },
    };
    Ok(match bridge.finish(brought).await {
        Ok(back) => {
            let mut response = to(&back.address);
            cookie::remove(&state, response.headers_mut(), &back.cookie);
            response
        }
        Err(refused) => page::refused(refused),
    })
}

/// Exchanges a code, a refresh token or an assertion for an access token (RFC 6749, RFC 7523).
#[utoipa::path(
    post,
    path = "/oauth/token",
    operation_id = "clientToken",
    security(()),
    request_body(content = forms::TokenForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The token", body = Object),
        (status = 400, description = "The request is refused (RFC 6749, section 5.2)", body = Object),
        (status = 401, description = "The client is unknown or did not authenticate", body = Object),
        (status = 404, description = "`[auth.bridge]` is not configured", body = ErrorEnvelope),
    )
)]
async fn token(State(state): State<AppState>, request: Request) -> Result<Response, Failure> {
    let bridge = bridge(&state)?;
    let (headers, form) = form(request).await?;
    let answer = match authorization(&headers) {
        Ok(authorization) => bridge.token(&form, authorization).await,
        Err(refused) => Err(refused),
    };
    Ok(answered(StatusCode::OK, answer))
}

/// Revokes a token (RFC 7009). Unknown tokens count as revoked.
#[utoipa::path(
    post,
    path = "/oauth/revoke",
    operation_id = "revokeClientToken",
    security(()),
    request_body(content = forms::RevocationForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The token is not valid any more"),
        (status = 400, description = "The request is refused", body = Object),
        (status = 401, description = "The client did not authenticate", body = Object),
        (status = 404, description = "`[auth.bridge]` is not configured", body = ErrorEnvelope),
    )
)]
async fn revoke(State(state): State<AppState>, request: Request) -> Result<Response, Failure> {
    let bridge = bridge(&state)?;
    let (headers, form) = form(request).await?;
    let answer = match authorization(&headers) {
        Ok(authorization) => bridge.revoke(&form, authorization).await,
        Err(refused) => Err(refused),
    };
    Ok(answered(StatusCode::OK, answer.map(|()| json!({}))))
}

/// Registers a client (RFC 7591).
#[utoipa::path(
    post,
    path = "/oauth/register",
    operation_id = "registerClient",
    security(()),
    request_body(content = Object, content_type = "application/json"),
    responses(
        (status = 201, description = "The registered client", body = Object),
        (status = 400, description = "The description is refused, or clients cannot register", body = Object),
        (status = 404, description = "`[auth.bridge]` is not configured", body = ErrorEnvelope),
        (status = 503, description = "Too many clients register", body = Object),
    )
)]
async fn register(State(state): State<AppState>, request: Request) -> Result<Response, Failure> {
    let bridge = bridge(&state)?;
    let (head, body) = request.into_parts();
    let Payload(body) = Payload::read_of(&head, body, MAX_BODY, &BodySender::Unproven).await?;
    Ok(answered(StatusCode::CREATED, bridge.register(&body).await))
}

/// The authorization server, if it is configured.
fn bridge(state: &AppState) -> Result<&Bridge, Failure> {
    match state.gateway.config().bridge.is_some() {
        true => Ok(state.gateway.bridge()),
        false => Err(Failure::no_route()),
    }
}

fn query(uri: &Uri) -> Result<&str, Failure> {
    let query = uri.query().unwrap_or_default();
    match query.len() <= MAX_QUERY {
        true => Ok(query),
        false => Err(Failure::invalid("the query is too long", None)),
    }
}

/// Reads a form. No other type is read: a page of another site can send some of them without a
/// question of the browser.
async fn form(request: Request<Body>) -> Result<(HeaderMap, String), Failure> {
    let (head, body) = request.into_parts();
    let Payload(body) = Payload::read_of(&head, body, MAX_BODY, &BodySender::Unproven).await?;
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    let text = String::from_utf8(body.to_vec()).ok();
    match text.filter(|_| kind == Some("application/x-www-form-urlencoded")) {
        Some(text) => Ok((head.headers, text)),
        None => Err(Failure::invalid("the body must be a form", None)),
    }
}

/// The header `Authorization`, if there is one.
fn authorization(headers: &HeaderMap) -> Result<Option<&str>, Refused> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            value.to_str().map(Some).map_err(|_| Refused::client("the header is no text"))
        }
        (Some(_), Some(_)) => Err(Refused::invalid("the client authenticates in two ways")),
    }
}

/// Leads the browser to `address`, which contains secrets.
fn to(address: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let Ok(mut location) = HeaderValue::try_from(address) else {
        return page::refused(Unredirected(Refused::invalid("the address cannot be sent")));
    };
    location.set_sensitive(true);
    response.headers_mut().insert(header::LOCATION, location);
    response
}

/// An answer for a client.
fn answered(status: StatusCode, answer: Result<Value, Refused>) -> Response {
    match answer {
        Ok(answer) => respond::json(status, &answer),
        Err(Refused { code, description }) => {
            let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::BAD_REQUEST);
            let body = json!({ "error": code.as_str(), "error_description": description });
            let mut response = respond::json(status, &body);
            if code == ErrorCode::InvalidClient {
                let basic = HeaderValue::from_static("Basic realm=\"toolcrib\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
            }
            response
        }
    }
}
