//! `/v1/keys`: the API keys of the caller's tenant, for callers with the scope `keys:manage`.
//!
//! A caller can grant only roles and scopes that it has (I-61). Changes take effect before the
//! response: a new key works, and a revoked one is invalid.

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use toolcrib_config::scopes::RouteScope::KeysManage;
use toolcrib_core::{id::KeyId, principal::Principal};
use toolcrib_gateway::authn::{
    KeyRequest, NewKey,
    manage::{self, KeyError, KeyInfo},
};
use utoipa::ToSchema;

use crate::{
    admin::sessions,
    body,
    middleware::{Payload, Refusal, Segment},
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        values::{
            self, KeyPrincipal, Label, Moment, Overlap, Parameter as _, RoleName, ScopeGrant,
        },
    },
};

/// How long both keys work by default after a rotation.
const OVERLAP: Duration = Duration::from_secs(60 * 60);

#[derive(Serialize, ToSchema)]
pub(super) struct Keys {
    /// Sorted by creation time.
    #[schema(value_type = Vec<Object>)]
    keys: Vec<KeyInfo>,
}

/// A new key.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeyWithText {
    /// The text of the key. It is shown only once.
    key: String,
    /// The description of the key.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    info: KeyInfo,
    /// When the replaced key expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_key_ends_at: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeyRevocation {
    id: String,
    revoked_at: String,
}

/// The properties of a new key. At least one role or scope is required.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KeyBody {
    /// A name for people.
    name: Label,
    /// The principal of the key. Defaults to the name, which must then be a valid principal.
    principal: Option<KeyPrincipal>,
    #[serde(default, deserialize_with = "values::grants")]
    #[schema(value_type = Option<Vec<RoleName>>, max_items = 100)]
    roles: Vec<RoleName>,
    #[serde(default, deserialize_with = "values::grants")]
    #[schema(value_type = Option<Vec<ScopeGrant>>, max_items = 100)]
    scopes: Vec<ScopeGrant>,
    /// When the key expires; must be in the future. By default it expires with the credential that
    /// creates it, and never if that does not expire.
    expires_at: Option<Moment>,
}

/// The options of a rotation.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rotation {
    /// The number of seconds for which both keys are valid. Defaults to one hour.
    #[schema(inline)]
    overlap_seconds: Option<Overlap>,
}

/// Lists the keys of the caller's tenant, without their texts.
#[utoipa::path(
    get,
    path = "/v1/keys",
    operation_id = "listKeys",
    responses(
        (status = 200, description = "The keys, including revoked and expired ones", body = Keys),
        (status = 403, description = "The scope `keys:manage` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    context.require(KeysManage)?;
    let keys = context.gateway.authenticator().keys_of(&context.caller).await;
    let keys = keys.map_err(|error| refused(&context, &error))?;
    Ok(respond::json(StatusCode::OK, &Keys { keys: keys.iter().map(KeyInfo::from).collect() }))
}

/// Creates a key in the caller's tenant. The caller must have the roles and scopes of the key. The
/// scope `keys:impersonate` is required if the principal already exists and is not the caller, or if
/// it is the caller and the roles differ from the caller's. The key expires no later than the
/// credential of the caller; for a token, `key_lifetime` of its issuer can allow more.
#[utoipa::path(
    post,
    path = "/v1/keys",
    operation_id = "createKey",
    request_body = KeyBody,
    responses(
        (status = 201, description = "The new key, with its text", body = KeyWithText),
        (status = 403, description = "The scope `keys:manage` or `keys:impersonate` is missing, or the key would have roles or scopes that the caller does not have", body = ErrorEnvelope),
    )
)]
pub(super) async fn create(context: Context, Payload(bytes): Payload) -> Result<Response, Failure> {
    context.require(KeysManage)?;
    let request = body::read::<KeyBody>(&bytes)?.into_request(&context.caller)?;
    let key = context.gateway.create_key(&context.caller, request).await;
    Ok(created(&key.map_err(|error| refused(&context, &error))?, None))
}

/// Creates a replacement for a key of the caller's tenant, with the same principal, roles and
/// scopes. Both keys are valid until the overlap ends. The new key expires no later than the
/// credential of the caller allows. Replacing a key of another principal requires the scope
/// `keys:impersonate`.
#[utoipa::path(
    post,
    path = "/v1/keys/{id}/rotate",
    operation_id = "rotateKey",
    params(("id" = String, Path, description = "The id of the key, as listed by `GET /v1/keys`")),
    request_body = Rotation,
    responses(
        (status = 201, description = "The new key, with its text", body = KeyWithText),
        (status = 403, description = "The scope `keys:manage` or `keys:impersonate` is missing, or the key has roles or scopes that the caller does not have", body = ErrorEnvelope),
        (status = 404, description = "The caller's tenant has no active key with this id", body = ErrorEnvelope),
        (status = 409, description = "The key was already replaced", body = ErrorEnvelope),
    )
)]
pub(super) async fn rotate(
    context: Context,
    id: Segment,
    Payload(bytes): Payload,
) -> Result<Response, Failure> {
    context.require(KeysManage)?;
    let id = KeyId::parse(id.as_str()).map_err(|_| Failure::not_found())?;
    let rotation: Rotation = match bytes.is_empty() {
        true => Rotation::default(),
        false => body::read(&bytes)?,
    };
    let overlap =
        rotation.overlap_seconds.map_or(OVERLAP, |seconds| Duration::from_secs(seconds.0));
    let rotated = context.gateway.rotate_key(&context.caller, &id, overlap).await;
    let (key, until) = rotated.map_err(|error| refused(&context, &error))?;
    Ok(created(&key, Some(manage::moment(until))))
}

/// Revokes a key of the caller's tenant, or ends a session of it. The key is invalid as soon as
/// this responds.
#[utoipa::path(
    delete,
    path = "/v1/keys/{id}",
    operation_id = "revokeKey",
    params(("id" = String, Path, description = "The id of the key, as listed by `GET /v1/keys`")),
    responses(
        (status = 200, description = "The key is revoked", body = KeyRevocation),
        (status = 403, description = "The scope `keys:manage` is missing", body = ErrorEnvelope),
        (status = 404, description = "The key is unknown in the caller's tenant, or already revoked", body = ErrorEnvelope),
    )
)]
pub(super) async fn revoke(context: Context, id: Segment) -> Result<Response, Failure> {
    context.require(KeysManage)?;
    let id = KeyId::parse(id.as_str()).map_err(|_| Failure::not_found())?;
    let revoked = context.gateway.revoke_key(&context.caller, &id).await;
    let at = match revoked {
        // It can be a session: the command line revokes both by their id.
        Err(KeyError::NoSuchKey) => {
            let ended = context.gateway.end_session(&context.caller, &id).await;
            ended.map_err(|error| sessions::refused(&error))?
        }
        revoked => revoked.map_err(|error| refused(&context, &error))?,
    };
    let revocation = KeyRevocation { id: id.to_string(), revoked_at: manage::moment(at) };
    Ok(respond::json(StatusCode::OK, &revocation))
}

fn created(key: &NewKey, old_key_ends_at: Option<String>) -> Response {
    let info = KeyInfo::from(&key.record);
    let key = key.text.expose().to_owned();
    respond::json(StatusCode::CREATED, &KeyWithText { key, info, old_key_ends_at })
}

fn refused(context: &Context, problem: &KeyError) -> Failure {
    match problem {
        KeyError::Forbidden(scope) => context.deny(scope).into(),
        KeyError::Wider => Failure::forbidden(problem, None),
        KeyError::Followed => Failure::conflict(problem, None),
        KeyError::NoSuchKey => Failure::not_found(),
        KeyError::NoSuchRole => {
            Failure::body("roles", "contains a role that is not in the configuration")
        }
        KeyError::Nothing | KeyError::KeptForTokens | KeyError::ManyHands => {
            Failure::body("", problem)
        }
        KeyError::Outlives(_) => Failure::body("expiresAt", problem),
        KeyError::BadTime => Failure::body("expiresAt", "must be in the future"),
        KeyError::Unrecorded | KeyError::Randomness | KeyError::Store(_) => {
            tracing::error!(error = %problem, "keys could not be read or changed");
            Refusal::Unavailable.into()
        }
    }
}

impl KeyBody {
    fn into_request(self, caller: &Principal) -> Result<KeyRequest, Failure> {
        let Label(name) = self.name;
        let principal = self.principal.or_else(|| KeyPrincipal::parse(&name));
        let Some(KeyPrincipal(principal)) = principal else {
            let problem = "is required when the name is not a valid principal";
            return Err(Failure::body("principal", problem));
        };
        Ok(KeyRequest {
            tenant: caller.tenant.clone(),
            principal,
            roles: self.roles.into_iter().map(|RoleName(role)| role).collect(),
            scopes: self.scopes.into_iter().map(|ScopeGrant(scope)| scope).collect(),
            expires_at: self.expires_at.map(|Moment(end)| end),
            name,
        })
    }
}
