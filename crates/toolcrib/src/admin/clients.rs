//! `/v1/clients`: the clients that act for the caller, and with the scope `keys:manage` those that act
//! for others of its tenant.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use toolcrib_core::id::CredentialId;
use toolcrib_gateway::bridge::{ClientGrant, EndError};
use utoipa::ToSchema;

use crate::{
    middleware::{Refusal, Segment},
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
    },
};

#[derive(Serialize, ToSchema)]
pub(super) struct Clients {
    /// By id.
    #[schema(value_type = Vec<Object>)]
    clients: Vec<ClientGrant>,
}

/// Lists the clients that act for the caller after a sign-in, and with the scope `keys:manage` those
/// that act for others of its tenant.
#[utoipa::path(
    get,
    path = "/v1/clients",
    operation_id = "listClients",
    responses((status = 200, description = "The clients", body = Clients))
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    let clients = context.gateway.bridge().grants_of(&context.caller).await;
    let clients = clients.map_err(|error| refused(&error))?;
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
