//! `GET /v1/roles`: the roles, and the tools of the caller's tenant that each of them sees.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use toolcrib_config::scopes::RouteScope::RolesRead;
use toolcrib_gateway::{RoleReport, RoleTool};
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
pub(super) struct Roles {
    /// Sorted by name.
    roles: Vec<RoleView>,
}

/// A role, as far as it is visible to the caller's tenant.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RoleView {
    /// The name, the grants that match a tool of the tenant or a route, the scopes of routes, and the
    /// number of tools that it sees.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    report: RoleReport,
    /// Whether the caller can make keys with it.
    may_give: bool,
}

/// A role and its tools.
#[derive(Serialize, ToSchema)]
pub(super) struct RoleAndTools {
    /// The role.
    role: RoleView,
    /// The tools that it sees in the caller's tenant, sorted by id.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<RoleTool>,
}

/// Lists the roles that grant something in the caller's tenant, or that approvals of its tools require,
/// each with those of its scopes that grant something there, and with the number of tools that it sees.
#[utoipa::path(
    get,
    path = "/v1/roles",
    operation_id = "listRoles",
    responses(
        (status = 200, description = "The roles", body = Roles),
        (status = 403, description = "The scope `roles:read` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    context.require(RolesRead)?;
    let (gateway, tenant) = (context.gateway.clone(), context.caller.tenant.clone());
    // Compares every role with every tool.
    let roles = tokio::task::spawn_blocking(move || gateway.roles_in(&tenant)).await;
    let roles = roles.map_err(|_| Refusal::Internal)?;
    let roles = roles.into_iter().map(|report| RoleView::new(&context, report)).collect();
    Ok(respond::json(StatusCode::OK, &Roles { roles }))
}

/// Lists the tools of the caller's tenant that a role sees.
#[utoipa::path(
    get,
    path = "/v1/roles/{role}",
    operation_id = "getRole",
    params(("role" = String, Path, description = "The name of the role")),
    responses(
        (status = 200, description = "The role and its tools", body = RoleAndTools),
        (status = 403, description = "The scope `roles:read` is missing", body = ErrorEnvelope),
        (status = 404, description = "The role is unknown, or has no effect in the caller's tenant", body = ErrorEnvelope),
    )
)]
pub(super) async fn get(context: Context, role: Segment) -> Result<Response, Failure> {
    context.require(RolesRead)?;
    let (gateway, tenant) = (context.gateway.clone(), context.caller.tenant.clone());
    let name = role.as_str().to_owned();
    let view = tokio::task::spawn_blocking(move || gateway.role_in(&tenant, &name)).await;
    match view.map_err(|_| Refusal::Internal)? {
        Some((report, tools)) => {
            let role = RoleView::new(&context, report);
            Ok(respond::json(StatusCode::OK, &RoleAndTools { role, tools }))
        }
        None => Err(Failure::not_found()),
    }
}

impl RoleView {
    fn new(context: &Context, report: RoleReport) -> Self {
        let may_give = context.gateway.authenticator().may_give(&context.caller, &report.name);
        Self { report, may_give }
    }
}
