//! `GET /v1/explain`: why the caller may use a tool or not, and why its list has the tools it has.
//!
//! Invariant (I-85): the explanation reveals no more than a call would. A tool that belongs to
//! another tenant, is hidden, or is denied where denials look like unknown names, gets exactly the
//! response for an unknown tool.

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use toolcrib_gateway::{authn::manage::EffectiveScopesError, explain::OTHERS};

use crate::{
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        values::{KeyName, PrincipalName, ToolName},
    },
};

/// Explains step by step why a principal may call a tool or not; without `tool`, why its lists
/// contain their tools. The explanation reveals no more than a call would, and calls no tool. With
/// `principal` it is about that principal of the caller's tenant, and requires the scope
/// `explain:others`.
#[utoipa::path(
    get,
    path = "/v1/explain",
    operation_id = "explain",
    params(
        ("tool" = inline(Option<ToolName>), Query, description = "Tool id, wire name or OTC name"),
        ("principal" = inline(Option<PrincipalName>), Query, description = "A principal of the caller's tenant with an active key; the caller by default"),
        ("keyId" = inline(Option<KeyName>), Query, description = "With `principal`: the key to explain for. Required when the keys of the principal have different scopes or roles"),
    ),
    responses(
        (status = 200, description = "The expected outcome and its reasons", body = ref("#/components/schemas/Explanation")),
        (status = 403, description = "The scope `explain:others` is missing", body = ErrorEnvelope),
        (status = 404, description = "The principal has no active key in the caller's tenant", body = ErrorEnvelope),
        (status = 409, description = "The keys of the principal have different scopes or roles; choose one of `details.keyIds`", body = ErrorEnvelope),
    )
)]
pub(super) async fn explain(context: Context) -> Result<Response, Failure> {
    let (gateway, caller) = (&context.gateway, &context.caller);
    let tool = context.parameter("tool")?.map(|ToolName(name)| name);
    let principal = context.parameter("principal")?.map(|PrincipalName(id)| id);
    let key = context.parameter("keyId")?.map(|KeyName(id)| id);
    let explanation = match principal {
        None => gateway.explain_to(caller, tool.as_deref()).await,
        Some(principal) => {
            context.require(OTHERS)?;
            let keys = gateway.authenticator();
            let holder = keys.holder_of(&caller.tenant, &principal, key.as_ref())?;
            gateway.explain_for(&holder, tool.as_deref()).await
        }
    };
    let mut response = respond::json(StatusCode::OK, &explanation);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

impl From<EffectiveScopesError> for Failure {
    fn from(unknown: EffectiveScopesError) -> Self {
        match &unknown {
            EffectiveScopesError::NoKey => {
                Self::new(StatusCode::NOT_FOUND, "not_found", unknown, None)
            }
            EffectiveScopesError::Several(ids) => {
                let details = json!({ "parameter": "keyId", "keyIds": ids });
                Self::conflict(unknown, Some(details))
            }
        }
    }
}
