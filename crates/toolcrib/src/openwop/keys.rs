//! `/v1/keys`: the API keys of the caller's tenant, for callers with the scope `keys:manage`.
//!
//! A caller can grant only roles and scopes that it has (I-61). Changes take effect before the
//! response: a new key works, and a revoked one is invalid.

use std::time::Duration;

use axum::{extract::State, response::Response};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use toolcrib_core::{id::KeyId, json, principal::Principal};
use toolcrib_gateway::authn::{
    KeyRequest, NewKey,
    manage::{self, KeyError, KeyInfo},
};
use toolcrib_gateway::scopes::RouteScope;
use utoipa::ToSchema;

use super::{
    error::{self, BadMember, ErrorEnvelope},
    values::{Granted, Holder, KeyName, Moment, RoleName, Text},
};
use crate::{
    middleware::{Caller, Payload, Refusal, Segment, require},
    respond,
    state::AppState,
};

/// How long both keys work by default after a rotation.
const OVERLAP: Duration = Duration::from_secs(60 * 60);
/// Maximum number of roles or scopes of one key.
const MAX_HELD: usize = 100;

#[derive(Serialize, ToSchema)]
pub(super) struct Keys {
    /// By creation.
    #[schema(value_type = Vec<Object>)]
    keys: Vec<KeyInfo>,
}

/// A new key.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Made {
    /// The text of the key, which is shown only once.
    key: String,
    /// The description of the key.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    info: KeyInfo,
    /// The expiry of the key that it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_key_ends_at: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Revoked {
    id: String,
    revoked_at: String,
}

/// The keys of the caller's tenant, without their texts.
#[utoipa::path(
    get,
    path = "/v1/keys",
    operation_id = "listKeys",
    tag = "OpenWOP",
    responses(
        (status = 200, description = "The keys, revoked and expired ones included", body = Keys),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The scope `keys:manage` is missing", body = ErrorEnvelope),
        (status = 503, description = "The keys cannot be read right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Caller(caller): Caller,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::KeysManage, "/v1/keys")?;
    match state.gateway.authenticator().keys_of(&caller).await {
        Ok(keys) => {
            let keys = keys.iter().map(KeyInfo::from).collect();
            Ok(respond::json(StatusCode::OK, &Keys { keys }))
        }
        Err(error) => refused(&state, &caller, "/v1/keys", &error),
    }
}

/// Creates a key in the caller's tenant. The caller must have its roles and scopes. The principal is
/// the name when absent. A principal that exists already and is not the caller's own, or the caller's
/// own with other roles, needs the scope `keys:impersonate`.
#[utoipa::path(
    post,
    path = "/v1/keys",
    operation_id = "createKey",
    tag = "OpenWOP",
    request_body = KeyBody,
    responses(
        (status = 201, description = "The key, with its text", body = Made),
        (status = 400, description = "The body has none of its forms", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 413, description = "The body is longer than `server.max_body`", body = ErrorEnvelope),
        (status = 403, description = "The scope `keys:manage` or `keys:impersonate` is missing, or the key would have roles or scopes that the caller does not have", body = ErrorEnvelope),
        (status = 503, description = "No key can be made right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn create(
    State(state): State<AppState>,
    Caller(caller): Caller,
    Payload(body): Payload,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::KeysManage, "/v1/keys")?;
    let request = match KeyBody::read(&body).and_then(|body| body.into_request(&caller)) {
        Ok(request) => request,
        Err(problem) => return Ok(problem.into_response()),
    };
    match state.gateway.authenticator().create_key(&caller, request).await {
        Ok(key) => Ok(made(&key, None)),
        Err(error) => refused(&state, &caller, "/v1/keys", &error),
    }
}

/// Creates a replacement for a key of the caller's tenant, with the same principal, roles and
/// scopes. Both are valid until the overlap ends, an hour when absent. A key of another principal
/// requires the scope `keys:impersonate`.
#[utoipa::path(
    post,
    path = "/v1/keys/{id}/rotate",
    operation_id = "rotateKey",
    tag = "OpenWOP",
    params(("id" = String, Path, description = "The key, as `GET /v1/keys` shows it")),
    request_body = Rotation,
    responses(
        (status = 201, description = "The new key, with its text", body = Made),
        (status = 400, description = "The body has none of its forms", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 413, description = "The body is longer than `server.max_body`", body = ErrorEnvelope),
        (status = 403, description = "The scope `keys:manage` or `keys:impersonate` is missing, or the key has roles or scopes that the caller does not have", body = ErrorEnvelope),
        (status = 404, description = "No key of the caller's tenant that works", body = ErrorEnvelope),
        (status = 409, description = "Another key follows this one already", body = ErrorEnvelope),
        (status = 503, description = "No key can be made right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn rotate(
    State(state): State<AppState>,
    Caller(caller): Caller,
    id: Segment,
    Payload(body): Payload,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::KeysManage, "/v1/keys/{id}/rotate")?;
    let Ok(id) = KeyId::parse(id.as_str()) else { return Ok(error::not_found()) };
    let overlap = match Rotation::read(&body) {
        Ok(rotation) => rotation.overlap_seconds.map_or(OVERLAP, Duration::from_secs),
        Err(problem) => return Ok(problem.into_response()),
    };
    match state.gateway.authenticator().rotate_key(&caller, &id, overlap).await {
        Ok((key, until)) => Ok(made(&key, Some(manage::moment(until)))),
        Err(error) => refused(&state, &caller, "/v1/keys/{id}/rotate", &error),
    }
}

/// Revokes a key of the caller's tenant. It is invalid when this responds.
#[utoipa::path(
    delete,
    path = "/v1/keys/{id}",
    operation_id = "revokeKey",
    tag = "OpenWOP",
    params(("id" = String, Path, description = "The key, as `GET /v1/keys` shows it")),
    responses(
        (status = 200, description = "It is revoked", body = Revoked),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The scope `keys:manage` is missing", body = ErrorEnvelope),
        (status = 404, description = "No key of the caller's tenant that is not revoked", body = ErrorEnvelope),
        (status = 503, description = "The keys cannot be changed right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn revoke(
    State(state): State<AppState>,
    Caller(caller): Caller,
    id: Segment,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::KeysManage, "/v1/keys/{id}")?;
    let Ok(id) = KeyId::parse(id.as_str()) else { return Ok(error::not_found()) };
    match state.gateway.authenticator().revoke_key(&caller, &id).await {
        Ok(at) => {
            let revoked = Revoked { id: id.to_string(), revoked_at: manage::moment(at) };
            Ok(respond::json(StatusCode::OK, &revoked))
        }
        Err(error) => refused(&state, &caller, "/v1/keys/{id}", &error),
    }
}

fn made(key: &NewKey, old_key_ends_at: Option<String>) -> Response {
    let info = KeyInfo::from(&key.record);
    let key = key.text.expose().to_owned();
    respond::json(StatusCode::CREATED, &Made { key, info, old_key_ends_at })
}

fn refused(
    state: &AppState,
    caller: &Principal,
    route: &str,
    problem: &KeyError,
) -> Result<Response, Refusal> {
    let bad = |member, words| Ok(error::bad_body(member, words));
    match problem {
        KeyError::Forbidden(scope) => {
            state.gateway.audit().denied(caller, scope, route, "scope");
            Err(Refusal::MissingScope(scope))
        }
        KeyError::Wider => {
            Ok(error::error(StatusCode::FORBIDDEN, "forbidden", problem.to_string(), None))
        }
        KeyError::Followed => {
            Ok(error::error(StatusCode::CONFLICT, "conflict", problem.to_string(), None))
        }
        KeyError::NoSuchKey => Ok(error::not_found()),
        KeyError::NoSuchRole => bad("roles", "names a role that the configuration does not have"),
        KeyError::Nothing | KeyError::KeptForTokens => bad("", &problem.to_string()),
        KeyError::ManyHands => bad("", &problem.to_string()),
        KeyError::BadTime => bad("expiresAt", "must be in the future"),
        KeyError::Randomness | KeyError::Store(_) => {
            tracing::error!(error = %problem, "keys could not be read or changed");
            Err(Refusal::Unavailable)
        }
    }
}

/// Parses an object with no members other than `known`; an empty body is an empty object.
fn members(body: &[u8], known: &[&str]) -> Result<Map<String, Value>, BadMember> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    match json::parse_strict(body) {
        Ok(Value::Object(members)) if members.keys().all(|key| known.contains(&key.as_str())) => {
            Ok(members)
        }
        Ok(_) => {
            let problem = format!("the body must be a JSON object with {}", known.join(", "));
            Err(BadMember::new("", problem))
        }
        Err(problem) => Err(BadMember::new("", format!("the body is not JSON: {problem}"))),
    }
}

/// Reads the text at `member`.
fn text<T: Text>(
    members: &Map<String, Value>,
    member: &'static str,
) -> Result<Option<T>, BadMember> {
    let Some(value) = members.get(member).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let text = value.as_str().and_then(T::read);
    text.map(Some).ok_or_else(|| BadMember::new(member, T::PROBLEM))
}

/// Reads the array of texts at `member`.
fn texts<T: Text>(
    members: &Map<String, Value>,
    member: &'static str,
) -> Result<Option<Vec<T>>, BadMember> {
    let Some(value) = members.get(member).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let texts = value.as_array().filter(|texts| texts.len() <= MAX_HELD);
    let texts = texts.and_then(|texts| texts.iter().map(|it| T::read(it.as_str()?)).collect());
    texts.map(Some).ok_or_else(|| BadMember::new(member, T::PROBLEM))
}

/// The properties of a new key. At least one role or scope is required.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KeyBody {
    /// For people.
    name: KeyName,
    /// The principal of the key; its name when absent, if that is a legal principal.
    principal: Option<Holder>,
    #[schema(max_items = 100)]
    roles: Option<Vec<RoleName>>,
    #[schema(max_items = 100)]
    scopes: Option<Vec<Granted>>,
    /// When it stops working, in the future; never when absent.
    expires_at: Option<Moment>,
}

impl KeyBody {
    fn read(body: &[u8]) -> Result<Self, BadMember> {
        let members = members(body, &["name", "principal", "roles", "scopes", "expiresAt"])?;
        Ok(Self {
            name: text(&members, "name")?
                .ok_or_else(|| BadMember::new("name", KeyName::PROBLEM))?,
            principal: text(&members, "principal")?,
            roles: texts(&members, "roles")?,
            scopes: texts(&members, "scopes")?,
            expires_at: text(&members, "expiresAt")?,
        })
    }

    fn into_request(self, caller: &Principal) -> Result<KeyRequest, BadMember> {
        let KeyName(name) = self.name;
        let Some(Holder(principal)) = self.principal.or_else(|| Holder::read(&name)) else {
            return Err(BadMember::new("principal", "is needed when the name cannot be one"));
        };
        Ok(KeyRequest {
            tenant: caller.tenant.clone(),
            principal,
            roles: self.roles.into_iter().flatten().map(|RoleName(role)| role).collect(),
            scopes: self.scopes.into_iter().flatten().map(|Granted(scope)| scope).collect(),
            expires_at: self.expires_at.map(|Moment(end)| end),
            name,
        })
    }
}

/// How a key is rotated.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rotation {
    /// How long both keys work; an hour when absent.
    #[schema(maximum = 2_592_000)]
    overlap_seconds: Option<u64>,
}

impl Rotation {
    fn read(body: &[u8]) -> Result<Self, BadMember> {
        let problem = || BadMember::new("overlapSeconds", "must be whole seconds, at most 30 days");
        let overlap_seconds = match members(body, &["overlapSeconds"])?.get("overlapSeconds") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_u64().ok_or_else(problem)?),
        };
        match overlap_seconds.is_some_and(|it| Duration::from_secs(it) > manage::MAX_OVERLAP) {
            true => Err(problem()),
            false => Ok(Self { overlap_seconds }),
        }
    }
}
