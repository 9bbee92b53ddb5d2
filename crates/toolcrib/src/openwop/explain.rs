//! `GET /v1/explain`: why the caller may use a tool or not, and why its list has the tools it has.
//!
//! Invariant (I-85): the explanation reveals no more than a call would. A tool that belongs to
//! another tenant, is hidden, or is denied where denials look like unknown names, gets exactly the
//! response for an unknown tool.

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use toolcrib_core::id::{KeyId, PrincipalId};
use toolcrib_gateway::{
    authn::manage::UnknownHolder,
    explain::{Explanation, OTHERS},
};
use utoipa::{PartialSchema, ToSchema, openapi};

use super::{
    error::{self, ErrorEnvelope},
    values::{self, BadParameter, Id, ToolName, Who},
};
use crate::{
    middleware::{Caller, Refusal, require},
    respond,
    state::AppState,
};

/// The explanation: the principal, the expected outcome, and the steps that lead to it.
pub(crate) struct Explained;

impl PartialSchema for Explained {
    fn schema() -> openapi::RefOr<openapi::Schema> {
        let text = || openapi::ObjectBuilder::new().schema_type(openapi::Type::String);
        let one_of = |values: &[&str]| text().enum_values(Some(values.to_vec()));
        let step = openapi::ObjectBuilder::new()
            .property(
                "step",
                one_of(&[
                    "identity", "tool", "tenant", "pin", "scope", "policy", "rate", "quota",
                    "approval", "source",
                ]),
            )
            .property("result", one_of(&["pass", "depends", "ask", "stop"]))
            .property("message", text())
            .property("details", openapi::ObjectBuilder::new())
            .required("step")
            .required("result")
            .required("message");
        openapi::ObjectBuilder::new()
            .property("principal", text())
            .property("tenant", text())
            .property("grants", openapi::ArrayBuilder::new().items(text()))
            .property("tool", text())
            .property("tools", openapi::ObjectBuilder::new().schema_type(openapi::Type::Integer))
            .property(
                "outcome",
                one_of(&[
                    "allowed",
                    "depends",
                    "needs_approval",
                    "unavailable",
                    "denied",
                    "hidden",
                    "unknown",
                ]),
            )
            .property("steps", openapi::ArrayBuilder::new().items(step))
            .required("principal")
            .required("tenant")
            .required("grants")
            .required("outcome")
            .required("steps")
            .build()
            .into()
    }
}

impl ToSchema for Explained {
    fn name() -> std::borrow::Cow<'static, str> {
        "Explained".into()
    }
}

/// Explains step by step why a principal may call a tool or not; without `tool`, why its lists have
/// their tools. It reveals no more than a call would, and calls nothing. With `principal` it
/// explains for that principal of the caller's tenant, which requires the scope `explain:others`.
#[utoipa::path(
    get,
    path = "/v1/explain",
    operation_id = "explain",
    tag = "OpenWOP",
    params(
        ("tool" = inline(Option<ToolName>), Query, description = "Tool id, wire name or OTC name"),
        ("principal" = inline(Option<Who>), Query, description = "A principal of the caller's tenant that has an active key; the caller itself when absent"),
        ("keyId" = inline(Option<Id>), Query, description = "With `principal`: which of its keys it would come with; needed when they have different scopes or roles"),
    ),
    responses(
        (status = 200, description = "What would happen, and why", body = Explained),
        (status = 400, description = "A parameter has none of its values", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The scope `explain:others` is missing", body = ErrorEnvelope),
        (status = 404, description = "No active key of this principal in the caller's tenant", body = ErrorEnvelope),
        (status = 409, description = "The principal has keys with different scopes or roles, which `details.keyIds` lists: name one", body = ErrorEnvelope),
    )
)]
pub(super) async fn explain(
    State(state): State<AppState>,
    Caller(caller): Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let ExplainQuery { tool, who, key } = match ExplainQuery::read(query.as_deref()) {
        Ok(parsed) => parsed,
        Err(bad) => return Ok(bad.into_response()),
    };
    let explained: Explanation = match who {
        None => state.gateway.explain_to(&caller, tool.as_deref()).await,
        Some(who) => {
            require(&state.gateway, &caller, OTHERS, "/v1/explain")?;
            let holder = state.gateway.authenticator();
            match holder.holder_of(&caller.tenant, &who, key.as_ref()) {
                Ok(who) => state.gateway.explain_for(&who, tool.as_deref()).await,
                Err(unknown) => return Ok(not_explained(&unknown)),
            }
        }
    };
    let mut response = respond::json(StatusCode::OK, &explained);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The parameters of a request for an explanation.
struct ExplainQuery {
    tool: Option<String>,
    who: Option<PrincipalId>,
    key: Option<KeyId>,
}

impl ExplainQuery {
    fn read(query: Option<&str>) -> Result<Self, BadParameter> {
        Ok(Self {
            tool: values::read(query, "tool")?.map(|ToolName(name)| name),
            who: values::read(query, "principal")?.map(|Who(who)| who),
            key: values::read(query, "keyId")?.map(|Id(id)| id),
        })
    }
}

fn not_explained(unknown: &UnknownHolder) -> Response {
    let (status, code, details) = match unknown {
        UnknownHolder::NoKey => (StatusCode::NOT_FOUND, "not_found", None),
        UnknownHolder::Several(ids) => {
            let details = json!({ "parameter": "keyId", "keyIds": ids });
            (StatusCode::CONFLICT, "conflict", Some(details))
        }
    };
    error::error(status, code, unknown.to_string(), details)
}
