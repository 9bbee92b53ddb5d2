//! Sign-in of a person with an issuer (`[auth.jwt.sign_in]`): only the explorer of a gateway has
//! these routes, and they are public.
//!
//! The page makes state, nonce and verifier, and keeps them. The exchange of the code goes through
//! this server, so that the page's Content-Security-Policy needs no other origin. This server keeps
//! no state between the two requests.
//!
//! Invariant: an issuer sends the browser back only to [`CALLBACK`] of the page that sent the
//! request.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use toolcrib_core::{clock::Timestamp, json::parse_strict};
use toolcrib_gateway::{
    Gateway,
    authn::{
        session::SessionError,
        sign_in::{self as sign_ins, CodeExchange, SignInError, SignInRequest},
    },
};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    error::{Problem, problem},
    page::Page,
};
use crate::{
    middleware::{BodySender, Caller, Payload, Refusal, Site, session_caller},
    respond,
    route_set::Setup,
    session_start::{StartedSession, session_request, started},
    state::AppState,
};

/// The path of the page after a sign-in, below the prefix.
const CALLBACK: &str = "/signed-in";
/// The codes of some issuers have two kilobytes.
const MAX_BODY: usize = 16 << 10;
const MAX_CODE: usize = 8 << 10;
/// 32 random bytes, or a SHA-256, in base64url.
const SECRET_CHARACTERS: usize = 43;

struct SignIn {
    /// Absent where only the description is needed.
    gateway: Option<Gateway>,
    /// The path of the callback.
    callback: String,
    page: Page,
}

/// An issuer with which people can sign in.
#[derive(Debug, Serialize, ToSchema)]
struct SignInIssuer {
    /// The issuer, as in the claim `iss`.
    issuer: String,
    /// Its name for people.
    name: String,
}

/// The issuers with which people can sign in.
#[derive(Debug, Serialize, ToSchema)]
struct SignInIssuers {
    /// Empty if no issuer is configured.
    issuers: Vec<SignInIssuer>,
}

/// The start of a sign-in. Each secret has 43 characters of base64url.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignInStart {
    /// The issuer.
    issuer: String,
    /// Returned by the issuer.
    state: String,
    /// Returned in the ID token.
    nonce: String,
    /// The SHA-256 of the verifier.
    challenge: String,
    /// The address of the callback of the page.
    redirect_uri: String,
}

/// The address at which a sign-in starts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SignInAddress {
    /// The address.
    url: String,
    /// Whether the issuer's answer names the issuer (RFC 9207).
    names_issuer: bool,
}

/// The code of a sign-in. It has no `Debug`, because the code is a secret.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignInCode {
    /// The issuer.
    issuer: String,
    /// The code.
    code: String,
    /// The verifier of the request.
    verifier: String,
    /// The nonce of the request.
    nonce: String,
    /// The address of the request.
    redirect_uri: String,
}

/// A link that signs in once. It has no `Debug`, because it contains a secret.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SignInLink {
    /// The secret of the link.
    secret: String,
}

/// The token of a person. It has no `Debug`, because it is a secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SignInToken {
    /// The token, for `Authorization: Bearer`.
    token: String,
    /// When it expires.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// Builds the routes below the prefix of the explorer.
pub(super) fn routes(setup: &Setup<'_>) -> OpenApiRouter<AppState> {
    let config = &setup.config.explorer;
    let callback = format!("{}{CALLBACK}", config.prefix);
    let page = Page::new(config.clone(), true, setup.config.server.max_body_bytes);
    let state = Arc::new(SignIn { gateway: setup.gateway.cloned(), callback, page });
    let routes = OpenApiRouter::new()
        .routes(routes!(issuers))
        .routes(routes!(start))
        .routes(routes!(finish))
        .routes(routes!(signed_in))
        .with_state(state)
        .routes(routes!(link));
    match config.prefix.as_str() {
        "" => routes,
        prefix => OpenApiRouter::new().nest(prefix, routes),
    }
}

/// Returns the issuers with which people can sign in to the page.
#[utoipa::path(
    get,
    path = "/sign-in",
    operation_id = "explorerSignInIssuers",
    security(()),
    responses((status = 200, description = "The issuers", body = SignInIssuers))
)]
async fn issuers(State(sign_in): State<Arc<SignIn>>) -> Response {
    let issuers = sign_in
        .gateway
        .as_ref()
        .map(|gateway| gateway.authenticator().sign_in_issuers())
        .unwrap_or_default();
    let named =
        |issuer: sign_ins::SignInIssuer| SignInIssuer { issuer: issuer.issuer, name: issuer.name };
    let issuers = issuers.into_iter().map(named).collect();
    unstored(respond::json(StatusCode::OK, &SignInIssuers { issuers }))
}

/// Returns the address at which a sign-in starts.
#[utoipa::path(
    post,
    path = "/sign-in/start",
    operation_id = "explorerSignInStart",
    security(()),
    request_body(content = SignInStart, content_type = "application/json"),
    responses(
        (status = 200, description = "The address", body = SignInAddress),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "Sign-in with this issuer is not configured", body = Problem),
        (status = 429, description = "Too many sign-ins; see Retry-After", body = Problem),
        (status = 502, description = "The issuer does not answer, or cannot be used", body = Problem),
    )
)]
async fn start(State(sign_in): State<Arc<SignIn>>, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let typed: SignInStart = match read(&head, body).await? {
        Ok(typed) => typed,
        Err(problem) => return Ok(invalid(problem)),
    };
    let secrets =
        [("state", &typed.state), ("nonce", &typed.nonce), ("challenge", &typed.challenge)];
    if let Err(problem) = check(&sign_in, &head, &typed.redirect_uri, &secrets) {
        return Ok(invalid(&problem));
    }
    let Some(gateway) = &sign_in.gateway else { return Ok(failed(&SignInError::NoIssuer)) };
    let request = SignInRequest {
        issuer: &typed.issuer,
        state: &typed.state,
        nonce: &typed.nonce,
        challenge: &typed.challenge,
        redirect_uri: &typed.redirect_uri,
    };
    Ok(match gateway.authenticator().begin_sign_in(request).await {
        Ok(begun) => {
            let address = SignInAddress { url: begun.url, names_issuer: begun.names_issuer };
            unstored(respond::json(StatusCode::OK, &address))
        }
        Err(error) => failed(&error),
    })
}

/// Exchanges the code of a sign-in for a token that this server accepts.
#[utoipa::path(
    post,
    path = "/sign-in/token",
    operation_id = "explorerSignInToken",
    security(()),
    request_body(content = SignInCode, content_type = "application/json"),
    responses(
        (status = 200, description = "The token", body = SignInToken),
        (status = 400, description = "The request is invalid, or the code has expired", body = Problem),
        (status = 403, description = "The issuer refused the sign-in, or this server does not accept the token", body = Problem),
        (status = 404, description = "Sign-in with this issuer is not configured", body = Problem),
        (status = 429, description = "Too many sign-ins; see Retry-After", body = Problem),
        (status = 502, description = "The issuer does not answer, or cannot be used", body = Problem),
    )
)]
async fn finish(State(sign_in): State<Arc<SignIn>>, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let typed: SignInCode = match read(&head, body).await? {
        Ok(typed) => typed,
        Err(problem) => return Ok(invalid(problem)),
    };
    let secrets = [("verifier", &typed.verifier), ("nonce", &typed.nonce)];
    if let Err(problem) = check(&sign_in, &head, &typed.redirect_uri, &secrets) {
        return Ok(invalid(&problem));
    }
    if typed.code.is_empty() || typed.code.len() > MAX_CODE {
        return Ok(invalid("`code` must have 1 to 8192 bytes"));
    }
    let Some(gateway) = &sign_in.gateway else { return Ok(failed(&SignInError::NoIssuer)) };
    let exchange = CodeExchange {
        issuer: &typed.issuer,
        code: &typed.code,
        verifier: &typed.verifier,
        nonce: &typed.nonce,
        redirect_uri: &typed.redirect_uri,
    };
    Ok(match gateway.authenticator().finish_sign_in(exchange).await {
        Ok(done) => {
            let token = SignInToken { token: done.token, expires_at: done.expires_at };
            unstored(respond::json(StatusCode::OK, &token))
        }
        Err(error) => failed(&error),
    })
}

/// Signs the page in with the secret of a link, which works once. The new session replaces that of
/// the request.
#[utoipa::path(
    post,
    path = "/sign-in/link",
    operation_id = "explorerSignInLink",
    security(()),
    request_body(content = SignInLink, content_type = "application/json"),
    responses(
        (status = 201, description = "The session, with one half of its secret", body = StartedSession),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 403, description = "The link was used or has expired, or the page cannot have a session", body = Problem),
    )
)]
async fn link(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let typed: SignInLink = match read(&head, body).await? {
        Ok(typed) => typed,
        Err(problem) => return Ok(invalid(problem)),
    };
    let Some(site) = Site::of_page(&state.host.server, &head.uri, &head.headers) else {
        let message =
            "only the page of this server can use the link, over https or on this machine";
        return Ok(problem(StatusCode::FORBIDDEN, message, None));
    };
    let request = session_request(&state, &site, &head.headers);
    Ok(match state.gateway.start_session_of_link(&typed.secret, &request).await {
        Ok(session) => {
            end_replaced(&state, &head).await;
            unstored(started(&session, &site))
        }
        Err(SessionError::Unrecorded | SessionError::Randomness | SessionError::Store(_)) => {
            return Err(Refusal::Unavailable);
        }
        Err(error) => {
            let details = json!({ "code": "link_refused" });
            problem(StatusCode::FORBIDDEN, error.to_string(), Some(details))
        }
    })
}

/// Closes the session of a request.
async fn end_replaced(state: &AppState, head: &Parts) {
    let Some(Caller(caller)) = session_caller(&state.gateway, &head.uri, &head.headers).await
    else {
        return;
    };
    let Some(id) = &caller.session else { return };
    if let Err(error) = state.gateway.end_session(&caller, id).await {
        tracing::warn!(%error, session = %id, "a replaced session could not be closed; it is valid until it expires");
    }
}

/// Returns the page after a sign-in. The page removes the code from its address at once.
#[utoipa::path(
    get,
    path = "/signed-in",
    operation_id = "explorerSignedIn",
    security(()),
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
async fn signed_in(State(sign_in): State<Arc<SignIn>>, headers: HeaderMap) -> Response {
    unstored(sign_in.page.answer(&sign_in.page.config.prefix, &headers))
}

async fn read<T: DeserializeOwned>(
    head: &Parts,
    body: axum::body::Body,
) -> Result<Result<T, &'static str>, Refusal> {
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.and_then(|kind| kind.split(';').next()).map(str::trim) != Some("application/json") {
        return Ok(Err("the Content-Type must be application/json"));
    }
    let Payload(body) = Payload::read_of(head, body, MAX_BODY, &BodySender::Unproven).await?;
    let typed = parse_strict(&body).ok().and_then(|value| serde_json::from_value(value).ok());
    Ok(typed.ok_or("the body must be a JSON object with exactly the members of this route"))
}

/// Checks the form of `secrets`, and that `redirect_uri` is the callback of the page that sent the
/// request.
fn check(
    sign_in: &SignIn,
    head: &Parts,
    redirect_uri: &str,
    secrets: &[(&str, &String)],
) -> Result<(), String> {
    for (name, text) in secrets {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if text.len() != SECRET_CHARACTERS || !text.bytes().all(plain) {
            return Err(format!("`{name}` must be 43 characters of base64url"));
        }
    }
    // The guard has compared `Origin` with the names of this server.
    let origin = head.headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let expected = origin.map(|origin| format!("{origin}{}", sign_in.callback));
    match expected.as_deref() == Some(redirect_uri) {
        true => Ok(()),
        false => Err(format!(
            "`redirectUri` must be the `Origin` of the request, followed by {}",
            sign_in.callback
        )),
    }
}

fn invalid(message: &str) -> Response {
    problem(StatusCode::BAD_REQUEST, message, Some(json!({ "code": "invalid_request" })))
}

fn failed(error: &SignInError) -> Response {
    let status = match error {
        SignInError::NoIssuer => StatusCode::NOT_FOUND,
        SignInError::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
        SignInError::Unreachable | SignInError::Unsuitable(_) => StatusCode::BAD_GATEWAY,
        SignInError::CodeExpired | SignInError::Unproven => StatusCode::BAD_REQUEST,
        SignInError::Refused { .. }
        | SignInError::OpaqueToken
        | SignInError::Audience
        | SignInError::Rejected => StatusCode::FORBIDDEN,
    };
    let (said, description) = match error {
        SignInError::Refused { error, description } => (Some(error), description.as_ref()),
        _ => (None, None),
    };
    let mut details = json!({ "code": error.code() });
    for (name, text) in [("providerError", said), ("providerDescription", description)] {
        if let (Some(text), Value::Object(details)) = (text, &mut details) {
            details.insert(name.to_owned(), json!(text));
        }
    }
    let wait = match error {
        SignInError::Busy { retry_after } => Some(*retry_after),
        _ => None,
    };
    let response = problem(status, error.to_string(), Some(details));
    unstored(respond::with_retry_after(response, wait))
}

fn unstored(mut response: Response) -> Response {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
    response
}
