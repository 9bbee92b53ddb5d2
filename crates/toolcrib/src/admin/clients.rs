//! `/v1/clients`: the clients that act for the caller after a sign-in. Callers with the scope
//! `keys:manage` also see and end those that act for others of their tenant.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use toolcrib_core::id::CredentialId;
use toolcrib_gateway::bridge::{ClientGrant, EndError, MANAGE};
use utoipa::ToSchema;

use crate::{
    middleware::{Refusal, Segment},
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        values::Flag,
    },
};

#[derive(Serialize, ToSchema)]
pub(super) struct Clients {
    /// By id.
    #[schema(value_type = Vec<ClientView>)]
    clients: Vec<ClientGrant>,
}

/// A client that acts for a person.
#[derive(ToSchema)]
#[schema(as = Client)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes what the gateway writes")]
pub(super) struct ClientView {
    /// The id of the grant, for its end.
    id: String,
    /// The person.
    principal: String,
    client_id: String,
    /// The name, which the client chose.
    name: String,
    /// `host`, `operator` or `itself`: who vouches for the name.
    vouched_by: String,
    /// The host of the client's document, if it vouches.
    host: Option<String>,
    /// `consent`: the person consented, and signed in. `assertion`: the client presented an assertion
    /// about the person.
    by: String,
    /// When it got the access.
    created_at: String,
    /// Absent if the client was not used within the last day.
    last_used_at: Option<String>,
    /// When the access ends unless the client renews it.
    expires_at: String,
}

/// Lists the clients that act for the caller after a sign-in.
#[utoipa::path(
    get,
    path = "/v1/clients",
    operation_id = "listClients",
    params(("all" = inline(Option<Flag>), Query, description = "`true`: the clients of all principals of the tenant; requires the scope `keys:manage`")),
    responses(
        (status = 200, description = "The clients", body = Clients),
        (status = 403, description = "The scope `keys:manage` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    let all = context.parameter("all")?.is_some_and(|Flag(all)| all);
    let bridge = context.gateway.bridge();
    let found = match all {
        true => {
            context.require(MANAGE)?;
            bridge.grants_of_tenant(&context.caller).await
        }
        false => bridge.grants_of(&context.caller).await,
    };
    let clients = found.map_err(|error| refused(&error))?;
    Ok(respond::json(StatusCode::OK, &Clients { clients }))
}

/// Ends the access of a client. Its tokens are refused at once.
#[utoipa::path(
    delete,
    path = "/v1/clients/{id}",
    operation_id = "endClient",
    params(("id" = String, Path, description = "The id of the grant")),
    responses(
        (status = 200, description = "The access has ended", body = Object),
        (status = 404, description = "The caller has no such grant", body = ErrorEnvelope),
    )
)]
pub(super) async fn end(context: Context, id: Segment) -> Result<Response, Failure> {
    let id = CredentialId::parse(id.as_str()).map_err(|_| Failure::not_found())?;
    let ended = context.gateway.bridge().end_grant(&context.caller, &id).await;
    ended.map_err(|error| refused(&error))?;
    Ok(respond::json(StatusCode::OK, &json!({ "id": id })))
}

fn refused(error: &EndError) -> Failure {
    match error {
        EndError::NotFound => Failure::not_found(),
        EndError::Store(_) | EndError::Refused(_) => {
            tracing::error!(%error, "the clients of a person could not be read or ended");
            Refusal::Unavailable.into()
        }
    }
}
