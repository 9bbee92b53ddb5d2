//! `GET /v1/explain`: why the caller may use a tool or not, and why its list is what it is.
//!
//! Invariant (I-85): the answer says no more than a call would. A tool that is another tenant's, or
//! hidden, or denied where denials look like unknown names, has the answer of a name that nobody has.

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use toolcrib_gateway::explain::Explanation;
use utoipa::{PartialSchema, ToSchema, openapi};

use super::error::{self, ErrorEnvelope};
use crate::{middleware::Caller, respond, state::AppState};

/// Longest name of a tool; longer ones are nobody's.
const MAX_NAME: usize = 512;

/// Who asked, what would happen, and the steps that lead there.
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

/// Why the caller may call a tool or not, step by step; without `tool`, why its lists are what they
/// are. Says what a call would say and nothing more, and calls nothing.
#[utoipa::path(
    get,
    path = "/v1/explain",
    operation_id = "explain",
    tag = "OpenWOP",
    params(("tool" = Option<String>, Query, description = "Tool id, wire name or OTC name")),
    responses(
        (status = 200, description = "What would happen, and why", body = Explained),
        (status = 400, description = "`tool` is no name of a tool", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
    )
)]
pub(super) async fn explain(
    State(state): State<AppState>,
    Caller(caller): Caller,
    RawQuery(query): RawQuery,
) -> Response {
    let tool = respond::query(query.as_deref(), "tool");
    if tool.as_ref().is_some_and(|tool| tool.is_empty() || tool.len() > MAX_NAME) {
        return error::bad_body("tool", "must be a name of 1 to 512 bytes");
    }
    let explained: Explanation = state.gateway.explain_to(&caller, tool.as_deref()).await;
    let mut response = respond::json(StatusCode::OK, &explained);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
