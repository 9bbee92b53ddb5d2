//! `GET /v1/whoami`: the caller, and the routes that it may use.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use toolcrib_config::scopes::RouteScope;
use toolcrib_gateway::authn::manage::moment;
use utoipa::ToSchema;

use crate::{
    respond,
    v1::{error::Failure, request::Context},
};

/// A caller.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Whoami {
    principal: String,
    tenant: String,
    roles: Vec<String>,
    /// The scopes of its credentials and roles.
    scopes: Vec<String>,
    /// `key`, `token`, `client`, `anonymous` or `operator`. `client`: a program with an access token
    /// of this server.
    auth: &'static str,
    /// The id of that client.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    /// How that client got its access: `consent` if the person signed in and consented, `assertion` if
    /// it presented an assertion about the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_by: Option<&'static str>,
    /// The name of that client, which it chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_name: Option<String>,
    /// Who acts for the principal, as the claim `act` of its token says; the present actor first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actors: Vec<String>,
    /// The id of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<String>,
    /// The id of the browser session that the request was sent in.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// When the credentials expire; absent when they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// When keys that the caller creates expire at the latest; absent when they need not.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys_expire_by: Option<String>,
    /// The scopes of routes that the caller has, such as `audit:read`.
    may: Vec<&'static str>,
}

/// Returns the caller: its principal, tenant, roles and scopes, and the expiry of its credentials.
#[utoipa::path(
    get,
    path = "/v1/whoami",
    operation_id = "whoami",
    responses((status = 200, description = "The caller", body = Whoami))
)]
pub(super) async fn whoami(context: Context) -> Result<Response, Failure> {
    let caller = &context.caller;
    let authenticator = context.gateway.authenticator();
    let client = caller.auth.client();
    let client_name = match client {
        Some(client) => context.gateway.bridge().name_of(client).await,
        None => None,
    };
    let held = RouteScope::ALL.iter().filter(|scope| scope.is_held_by(caller));
    let whoami = Whoami {
        principal: caller.id.to_string(),
        tenant: caller.tenant.to_string(),
        roles: caller.roles.clone(),
        scopes: caller.scopes.iter().map(ToString::to_string).collect(),
        auth: caller.auth.word(),
        client_id: client.map(|client| client.id.clone()),
        client_by: client.map(|client| client.by.word()),
        client_name,
        actors: caller.auth.actors().iter().map(ToString::to_string).collect(),
        key_id: caller.auth.key().map(ToString::to_string),
        session_id: caller.session.as_ref().map(ToString::to_string),
        expires_at: authenticator.expiry(caller).map(moment),
        keys_expire_by: authenticator.key_limit(caller).ok().flatten().map(moment),
        may: held.map(|scope| scope.as_str()).collect(),
    };
    Ok(respond::json(StatusCode::OK, &whoami))
}
