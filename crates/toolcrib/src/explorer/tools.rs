//! `GET tools` and `GET tools/{name}` (F2).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use toolcrib_core::{
    catalog::{Entry, ListFormat},
    descriptor::{Approval, SafetyTier, SchemaObject, SourceKind},
    scope::Scope,
};
use utoipa::ToSchema;

use super::{
    Explorer,
    error::{self, Problem},
    offer::OfferExt as _,
};
use crate::{
    middleware::{Refusal, Segment},
    parameters::ToolsetName,
    respond::{self, PRIVATE},
};

pub(super) static SUMMARIES: ListFormat =
    ListFormat { key: "explorer", open: "[", close: "]", item: summary };
pub(super) static DETAILS: ListFormat =
    ListFormat { key: "explorer-detail", open: "[", close: "]", item: detail };

/// A tool in the list.
#[derive(Serialize, ToSchema)]
pub(super) struct Summary<'a> {
    name: &'a str,
    description: &'a str,
    /// The upstream's annotations; absent when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    annotations: Option<Map<String, Value>>,
    /// The operator's classification; absent for tools of an embedding program without a gateway.
    #[serde(rename = "_meta")]
    #[schema(value_type = Object)]
    meta: Meta<'a>,
}

/// A tool with its schemas.
#[derive(Serialize, ToSchema)]
pub(super) struct Detail<'a> {
    #[serde(flatten)]
    summary: Summary<'a>,
    /// JSON Schema of the arguments.
    #[serde(rename = "inputSchema")]
    #[schema(value_type = Object)]
    input_schema: &'a SchemaObject,
    /// JSON Schema of the structured result, where there is one.
    #[serde(rename = "outputSchema", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_schema: Option<&'a SchemaObject>,
}

#[derive(Serialize)]
pub(super) struct Meta<'a> {
    #[serde(rename = "toolcrib/toolId")]
    tool_id: &'a str,
    #[serde(rename = "toolcrib/otcId")]
    otc_id: String,
    #[serde(rename = "toolcrib/source")]
    source: SourceKind,
    #[serde(rename = "toolcrib/sourceId")]
    source_id: &'a str,
    #[serde(rename = "toolcrib/tier")]
    tier: SafetyTier,
    #[serde(rename = "toolcrib/approval")]
    approval: Approval,
    #[serde(rename = "toolcrib/scopes")]
    scopes: &'a [Scope],
}

impl<'a> Summary<'a> {
    fn of(entry: &'a Entry) -> Self {
        let tool = &entry.tool;
        let scopes = tool.auth.as_ref().and_then(|auth| auth.scopes.as_deref());
        Self {
            name: &entry.names.wire,
            description: tool.description.as_deref().unwrap_or_default(),
            annotations: annotations(entry.annotations.as_ref()),
            meta: Meta {
                tool_id: entry.id.as_str(),
                otc_id: entry.names.otc_id(),
                source: tool.source,
                source_id: entry.source.as_str(),
                tier: tool.safety_tier,
                approval: tool.approval.unwrap_or(Approval::Never),
                scopes: scopes.unwrap_or_default(),
            },
        }
    }
}

/// Returns the hints that the protocol defines and that have the right type; `None` if there are
/// none.
fn annotations(claimed: Option<&Value>) -> Option<Map<String, Value>> {
    let claimed = claimed?.as_object()?;
    let known = |(name, value): &(&String, &Value)| match name.as_str() {
        "readOnlyHint" | "destructiveHint" | "idempotentHint" | "openWorldHint" => {
            value.is_boolean()
        }
        "title" => value.is_string(),
        _ => false,
    };
    let kept: Map<_, _> =
        claimed.iter().filter(known).map(|(name, value)| (name.clone(), value.clone())).collect();
    (!kept.is_empty()).then_some(kept)
}

fn summary(entry: &Entry, out: &mut Vec<u8>) {
    write(entry, &Summary::of(entry), out);
}

fn detail(entry: &Entry, out: &mut Vec<u8>) {
    let none = SchemaObject::new();
    let detail = Detail {
        summary: Summary::of(entry),
        input_schema: entry.tool.input_schema.as_ref().unwrap_or(&none),
        output_schema: entry.tool.output_schema.as_ref(),
    };
    write(entry, &detail, out);
}

fn write(entry: &Entry, json: &impl Serialize, out: &mut Vec<u8>) {
    if let Err(error) = serde_json::to_writer(out, json) {
        tracing::error!(tool = %entry.id, %error, "a summary could not be serialised");
    }
}

/// The tools that the caller may use.
#[utoipa::path(
    get,
    path = "/tools",
    operation_id = "explorerTools",
    tag = "Explorer",
    params(("toolset" = inline(Option<ToolsetName>), Query, description = "Only tools of this toolset")),
    responses(
        (status = 200, description = "Summaries", body = Vec<Summary<'static>>),
        (status = 304, description = "Not modified"),
        (status = 400, description = "There is no such toolset", body = Problem),
        (status = 401, description = "No valid key", body = Problem),
    )
)]
pub(super) async fn list(
    State(explorer): State<Arc<Explorer>>,
    // The request is taken whole: an extractor of headers would copy them, on a hot path.
    request: Request,
) -> Result<Response, Refusal> {
    let (head, _) = request.into_parts();
    let visitor = explorer.reader(&head).await?;
    let offer = explorer.provider.tools(visitor.principal.as_ref()).await;
    Ok(match offer.list(&respond::within(&head.uri)) {
        Some(body) => respond::tagged(&head.headers, &body, "application/json", PRIVATE),
        None => error::problem(StatusCode::BAD_REQUEST, respond::NO_TOOLSET),
    })
}

/// One tool that the caller may use.
#[utoipa::path(
    get,
    path = "/tools/{name}",
    operation_id = "explorerTool",
    tag = "Explorer",
    params(("name" = String, Path, description = "The tool's name, percent-encoded")),
    responses(
        (status = 200, description = "The tool", body = Detail<'static>),
        (status = 304, description = "Not modified"),
        (status = 401, description = "No valid key", body = Problem),
        (status = 404, description = "Unknown to this caller, for whatever reason", body = Problem),
    )
)]
pub(super) async fn detail_of(
    State(explorer): State<Arc<Explorer>>,
    name: Segment,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, _) = request.into_parts();
    let visitor = explorer.reader(&head).await?;
    let offer = explorer.provider.tools(visitor.principal.as_ref()).await;
    Ok(match offer.find(name.as_str()) {
        Some(tool) => respond::tagged(&head.headers, &tool.detail(), "application/json", PRIVATE),
        None => error::no_such_tool(name.as_str()),
    })
}
