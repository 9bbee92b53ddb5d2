//! `/v1/connections`: the accounts that people connect to sources.
//!
//! Callers connect and disconnect their own accounts. Those with the scope `connections:manage`
//! also connect the account of the tenant, and see and disconnect those of its other principals.
//!
//! A browser begins here and comes back to [`crate::connect`]. It finishes here with the key or the
//! session of its person, and with the cookie of the beginning.

use std::collections::BTreeMap;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolcrib_core::{
    credential::{CredentialStoreError, Secret},
    id::{CredentialId, SourceId},
    source::{AccountError, AuthorizationResponse},
};
use toolcrib_gateway::{
    authn::manage::moment,
    connections::{
        Asked, Connection, ConnectionError, ConnectionPreview, ConnectionResponse, LIFETIME,
        MANAGE, Wanted, request_id,
    },
};
use utoipa::ToSchema;

use crate::{
    body,
    middleware::{NewCookie, Payload, Refusal, Segment, cookies_named},
    respond,
    state::AppState,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        values::Flag,
    },
};

/// The start of the name of the cookie of the browser that begins. The id of the request follows,
/// so that several tabs can finish. A principal has at most 8 requests at a time.
const COOKIE: &str = "toolcrib-connect";
/// The longest code of a service.
const MAX_CODE: usize = 8 << 10;

#[derive(Serialize, ToSchema)]
pub(super) struct Connections {
    /// By source.
    #[schema(value_type = Vec<ConnectionView>)]
    connections: Vec<Connection>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct Connected {
    #[schema(value_type = ConnectionView)]
    connection: Connection,
}

/// The account of a source, as a caller sees it.
#[derive(ToSchema)]
#[schema(as = Connection)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes what the gateway writes")]
pub(super) struct ConnectionView {
    source: String,
    /// The host of the service.
    host: String,
    /// `principal` or `tenant`: whose calls use the account.
    of: String,
    /// `active`, `needs_consent` or `absent`.
    state: String,
    /// The number of tools of the caller whose calls use it.
    tools: u32,
    /// The names of at most 100 of them.
    tool_names: Option<Vec<String>>,
    /// The id for a removal.
    id: Option<String>,
    /// The principal whose account it is.
    principal: Option<String>,
    /// The granted scopes.
    scopes: Option<Vec<String>>,
    /// The scopes that calls needed since, and that the next consent requests.
    missing_scopes: Option<Vec<String>>,
    /// The account, in words of the service.
    account: Option<String>,
    connected_at: Option<String>,
    changed_at: Option<String>,
    /// When a call last used it: up to about a minute late, if at another server.
    last_used_at: Option<String>,
}

/// The account that a link is wanted for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkBody {
    /// The source.
    source: String,
    /// Whether to connect the account of the tenant. Requires the scope `connections:manage`.
    #[serde(default)]
    tenant: bool,
}

/// A link at which the caller connects an account, once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link {
    link: String,
    expires_at: String,
}

/// The account to connect: that of a link, or that of a source. It has no `Debug`, because a link is
/// a secret.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WantedBody {
    link: Option<String>,
    source: Option<String>,
    tenant: Option<bool>,
}

/// The account to connect: that of a link, or that of a source.
#[derive(ToSchema)]
#[schema(as = WantedBody)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes what WantedBody reads")]
pub(super) enum WantedView {
    /// That of a link.
    Link(LinkSecret),
    /// That of a source.
    Source(LinkBody),
}

/// A link.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it only describes what WantedBody reads")]
pub(super) struct LinkSecret {
    /// Its secret.
    link: String,
}

/// The consent that a person is to give.
#[derive(ToSchema)]
#[schema(as = ConnectionPreview)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes what the gateway writes")]
pub(super) struct PreviewView {
    source: String,
    /// The host of the service.
    host: String,
    /// `principal` or `tenant`: whose calls will use the account.
    of: String,
    /// The hosts of the authorization server: its own, and those at which the person agrees and the
    /// tokens are issued, if they differ.
    servers: Vec<String>,
    /// The scopes of the request to the service.
    scopes: Vec<String>,
    /// What the operator says of these scopes, by scope.
    scope_texts: Option<BTreeMap<String, String>>,
    /// Those of them that the account has not yet.
    new_scopes: Option<Vec<String>>,
    /// The host of the authorization server where the accounts of the source are connected, if the
    /// service names another one now.
    earlier_server: Option<String>,
    /// Whether an earlier account is replaced.
    again: bool,
    /// The principal that consents.
    principal: String,
}

/// The account to connect, and what the person has seen of the preview. It has no `Debug`, because a
/// link is a secret.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BeginBody {
    link: Option<String>,
    source: Option<String>,
    tenant: Option<bool>,
    shown: Option<Asked>,
}

/// The account to connect: that of `link`, or that of `source`.
#[derive(ToSchema)]
#[schema(as = BeginBody)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes what BeginBody reads")]
pub(super) enum BeginView {
    /// That of a link.
    Link(BeginLink),
    /// That of a source.
    Source(BeginSource),
}

/// A link, and what the person has seen.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it only describes what BeginBody reads")]
pub(super) struct BeginLink {
    /// Its secret.
    link: String,
    /// What the person has seen. If the service wants something else now, nothing begins.
    shown: Option<AskedView>,
}

/// A source, and what the person has seen.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it only describes what BeginBody reads")]
pub(super) struct BeginSource {
    /// The source.
    source: String,
    /// Whether to connect the account of the tenant. Requires the scope `connections:manage`.
    #[schema(required = false)]
    tenant: bool,
    /// What the person has seen. If the service wants something else now, nothing begins.
    shown: Option<AskedView>,
}

/// What a preview says of the service.
#[derive(ToSchema)]
#[schema(as = Asked)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it only describes what BeginBody reads")]
pub(super) struct AskedView {
    /// The hosts of the authorization server.
    servers: Vec<String>,
    /// The scopes.
    scopes: Vec<String>,
}

/// The address of the service for the browser.
#[derive(Serialize, ToSchema)]
pub(super) struct Begun {
    address: String,
}

/// What the browser brings back. It has no `Debug`, because it has secrets.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResponseBody {
    /// The source of the address to which the browser came back.
    source: String,
    /// The parameters of this address.
    state: String,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// An account that is disconnected.
#[derive(Serialize, ToSchema)]
pub(super) struct Disconnected {
    /// Whether the service confirmed that it ended the tokens. Otherwise they may work there until
    /// they expire, or until the person ends the access in the settings of the service.
    revoked: bool,
}

/// Lists the accounts of the caller, and those that its tools need but it has not connected.
#[utoipa::path(
    get,
    path = "/v1/connections",
    operation_id = "listConnections",
    tag = "Connections",
    params(("all" = inline(Option<Flag>), Query, description = "`true`: the accounts of all principals of the tenant; requires the scope `connections:manage`")),
    responses(
        (status = 200, description = "The accounts, without their tokens", body = Connections),
        (status = 403, description = "The scope `connections:manage` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    let all = context.parameter("all")?.is_some_and(|Flag(all)| all);
    let found = match all {
        true => {
            context.require(MANAGE)?;
            context.gateway.connections_of_tenant(&context.caller).await
        }
        false => context.gateway.connections_of(&context.caller).await,
    };
    let connections = found.map_err(|error| refused(&context, &error))?;
    Ok(respond::json(StatusCode::OK, &Connections { connections }))
}

/// Creates a link at which the caller connects an account in a browser, within ten minutes.
#[utoipa::path(
    post,
    path = "/v1/connections/link",
    operation_id = "linkConnection",
    tag = "Connections",
    request_body = LinkBody,
    responses(
        (status = 201, description = "The link", body = Link),
        (status = 403, description = "The scope `connections:manage` is missing", body = ErrorEnvelope),
        (status = 404, description = "No such source, or not visible to this caller", body = ErrorEnvelope),
        (status = 409, description = "The operator has not set up the address of this server", body = ErrorEnvelope),
    )
)]
pub(super) async fn link(context: Context, Payload(bytes): Payload) -> Result<Response, Failure> {
    let LinkBody { source, tenant } = body::read(&bytes)?;
    if tenant {
        context.require(MANAGE)?;
    }
    let source = SourceId::parse(source).map_err(|_| Failure::not_found())?;
    let made = context.gateway.link_connection(&context.caller, &source, tenant).await;
    let made = made.map_err(|error| refused(&context, &error))?;
    let link = made.link.expose().to_owned();
    let link = Link { link, expires_at: moment(made.expires_at) };
    Ok(respond::json(StatusCode::CREATED, &link))
}

/// Describes the consent that a person is to give, as far as the service says it. The link stays
/// usable.
#[utoipa::path(
    post,
    path = "/v1/connections/preview",
    operation_id = "previewConnection",
    tag = "Connections",
    request_body = WantedView,
    responses(
        (status = 200, description = "The consent", body = PreviewView),
        (status = 403, description = "The scope `connections:manage` is missing", body = ErrorEnvelope),
        (status = 404, description = "The link is unknown, used, expired or of another principal, or the source is not visible", body = ErrorEnvelope),
        (status = 409, description = "The operator has not set up accounts, or the present account is sealed with another key", body = ErrorEnvelope),
        (status = 429, description = "Too many accounts are being connected", body = ErrorEnvelope),
        (status = 502, description = "The service does not answer, or cannot be used", body = ErrorEnvelope),
    )
)]
pub(super) async fn preview(
    context: Context,
    Payload(bytes): Payload,
) -> Result<Response, Failure> {
    let wanted = wanted(&context, body::read(&bytes)?)?;
    let preview = context.gateway.preview_connection(&context.caller, &wanted).await;
    let preview: ConnectionPreview = preview.map_err(|error| refused(&context, &error))?;
    Ok(respond::json(StatusCode::OK, &preview))
}

/// Begins to connect an account: returns the address of the service, and sets the cookie of the
/// browser. A link is used up.
#[utoipa::path(
    post,
    path = "/v1/connections/begin",
    operation_id = "beginConnection",
    tag = "Connections",
    request_body = BeginView,
    responses(
        (status = 200, description = "The address for the browser", body = Begun),
        (status = 403, description = "The scope `connections:manage` is missing", body = ErrorEnvelope),
        (status = 404, description = "The link is unknown, used, expired or of another principal, or the source is not visible", body = ErrorEnvelope),
        (status = 409, description = "The operator has not set up accounts, the present account is sealed with another key, or the service wants something else than the page has shown", body = ErrorEnvelope),
        (status = 429, description = "Too many accounts are being connected", body = ErrorEnvelope),
        (status = 502, description = "The service does not answer, or cannot be used", body = ErrorEnvelope),
    )
)]
pub(super) async fn begin(
    context: Context,
    State(state): State<AppState>,
    Payload(bytes): Payload,
) -> Result<Response, Failure> {
    let BeginBody { link, source, tenant, shown } = body::read(&bytes)?;
    let wanted = wanted(&context, WantedBody { link, source, tenant })?;
    let begun = context.gateway.begin_connection(&context.caller, &wanted, shown.as_ref()).await;
    let begun = begun.map_err(|error| refused(&context, &error))?;
    let mut response = respond::json(StatusCode::OK, &Begun { address: begun.address });
    let (name, value) = (cookie_name(&begun.id), begun.cookie.expose());
    set_cookie(&state, response.headers_mut(), &name, value, LIFETIME.as_secs());
    Ok(response)
}

/// Finishes to connect an account, in the browser and for the principal that began.
#[utoipa::path(
    post,
    path = "/v1/connections/finish",
    operation_id = "finishConnection",
    tag = "Connections",
    request_body = ResponseBody,
    responses(
        (status = 200, description = "The account, which calls use from now on", body = Connected),
        (status = 403, description = "The response belongs to no request of this caller and browser, or the person or the service refused", body = ErrorEnvelope),
        (status = 429, description = "Too many accounts are being connected", body = ErrorEnvelope),
        (status = 502, description = "The service does not answer, or cannot be used", body = ErrorEnvelope),
    )
)]
pub(super) async fn finish(
    context: Context,
    State(state): State<AppState>,
    headers: HeaderMap,
    Payload(bytes): Payload,
) -> Result<Response, Failure> {
    let brought: ResponseBody = body::read(&bytes)?;
    let not_ours = |_| refused(&context, &ConnectionError::NotOurs);
    let source = SourceId::parse(brought.source).map_err(not_ours)?;
    let code = brought.code.filter(|code| code.len() <= MAX_CODE);
    let own_state = Secret::new(brought.state);
    let name = cookie_name(&request_id(&own_state));
    let brought = ConnectionResponse {
        source,
        state: own_state,
        cookies: cookies_named(&name, &headers)
            .into_iter()
            .map(|value| Secret::new(value.to_owned()))
            .collect(),
        response: AuthorizationResponse {
            code: code.map(Secret::new),
            issuer: brought.iss,
            error: brought.error,
        },
    };
    let mut response = match context.gateway.finish_connection(&context.caller, brought).await {
        Ok(connection) => respond::json(StatusCode::OK, &Connected { connection }),
        Err(error) => refused(&context, &error).into_response(),
    };
    // The state was used up in any case.
    set_cookie(&state, response.headers_mut(), &name, "", 0);
    Ok(response)
}

/// Disconnects an account of the caller, or with the scope `connections:manage` one of its tenant.
/// Calls stop using it before its tokens are revoked at the service, which can fail.
#[utoipa::path(
    delete,
    path = "/v1/connections/{id}",
    operation_id = "removeConnection",
    tag = "Connections",
    params(("id" = String, Path, description = "The id of the account, as listed by `GET /v1/connections`")),
    responses(
        (status = 200, description = "The account is disconnected", body = Disconnected),
        (status = 404, description = "No such account, or not visible to this caller", body = ErrorEnvelope),
    )
)]
pub(super) async fn remove(context: Context, id: Segment) -> Result<Response, Failure> {
    let id = CredentialId::parse(id.as_str()).map_err(|_| Failure::not_found())?;
    let removed = context.gateway.disconnect(&context.caller, &id).await;
    let revoked = removed.map_err(|error| refused(&context, &error))?;
    Ok(respond::json(StatusCode::OK, &Disconnected { revoked }))
}

fn wanted(context: &Context, body: WantedBody) -> Result<Wanted, Failure> {
    match body {
        WantedBody { link: Some(link), source: None, tenant: None } => {
            Ok(Wanted::Link(Secret::new(link)))
        }
        WantedBody { link: None, source: Some(source), tenant } => {
            let of_tenant = tenant == Some(true);
            if of_tenant {
                context.require(MANAGE)?;
            }
            let source = SourceId::parse(source).map_err(|_| Failure::not_found())?;
            Ok(Wanted::Source { source, of_tenant })
        }
        _ => Err(Failure::body("", "the body must have either `link`, or `source`")),
    }
}

fn cookie_name(request: &str) -> String {
    format!("{COOKIE}-{request}")
}

/// Sets a cookie for `seconds`; 0 removes it.
fn set_cookie(state: &AppState, headers: &mut HeaderMap, name: &str, value: &str, seconds: u64) {
    let config = state.gateway.config();
    let public = config.server.public_url.as_deref();
    let cookie = NewCookie {
        name,
        value,
        path: "/v1/connections/finish",
        seconds,
        same_site: "Lax",
        is_secure: public.is_some_and(|url| url.starts_with("https://")),
    };
    cookie.append(headers);
}

fn refused(context: &Context, problem: &ConnectionError) -> Failure {
    match problem {
        ConnectionError::NotFound => Failure::not_found(),
        ConnectionError::Forbidden => context.deny(MANAGE.as_str()).into(),
        ConnectionError::Anonymous => Failure::forbidden(problem, None),
        ConnectionError::OfTenant => Failure::parameter("tenant", &problem.to_string()),
        ConnectionError::NoPublicUrl | ConnectionError::Store(CredentialStoreError::NoKey) => {
            Failure::conflict(problem, Some(json!({ "reason": "not_set_up" })))
        }
        ConnectionError::Changed => {
            Failure::conflict(problem, Some(json!({ "reason": "changed" })))
        }
        ConnectionError::OtherKey => {
            Failure::conflict(problem, Some(json!({ "reason": "other_key" })))
        }
        ConnectionError::TooMany => {
            Failure::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", problem, None)
        }
        ConnectionError::NotOurs | ConnectionError::Account(AccountError::NotOurs) => {
            let message = ConnectionError::NotOurs;
            Failure::new(StatusCode::FORBIDDEN, "not_this_browser", message, None)
        }
        ConnectionError::Account(AccountError::Refused(_)) => {
            Failure::new(StatusCode::FORBIDDEN, "upstream_refused", problem, None)
        }
        ConnectionError::Account(AccountError::Unsupported(_) | AccountError::Unavailable(_)) => {
            Failure::new(StatusCode::BAD_GATEWAY, "upstream_unavailable", problem, None)
        }
        ConnectionError::Unrecorded | ConnectionError::Store(_) => {
            tracing::error!(error = %problem, "an account could not be connected or read");
            Refusal::Unavailable.into()
        }
    }
}
