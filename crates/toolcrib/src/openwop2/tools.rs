//! `GET /tools` and `GET /tools/{toolId}` (RFC 0204).
//!
//! The bytes of a list are serialised by the gateway (I-24). Unknown, hidden and foreign tools get
//! the same response (I-9).

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, Uri};
use serde::Serialize;
use toolcrib_core::{
    catalog::{Body, Entry, ListFormat},
    descriptor::ToolDescriptor,
};
use toolcrib_gateway::{CatalogScope, ToolRef};

use super::{
    annotations::ToolHints,
    compact::compact,
    error::{ErrorEnvelopeV2, Failure},
};
use crate::{
    middleware::{Caller, Refusal, Segment},
    protocol_version::PRIVATE,
    respond,
    state::AppState,
};

static LIST: ListFormat = ListFormat { key: "openwop2", open: "[", close: "]", item: descriptor };

static COMPACT: ListFormat = ListFormat {
    key: "openwop2-compact",
    open: "{\"tools\":[",
    close: "]}",
    item: |entry, out| respond::write(entry, &compact(&entry.tool), out),
};

/// A descriptor of v1 with the hints.
#[derive(Serialize)]
struct AnnotatedDescriptor<'a> {
    #[serde(flatten)]
    tool: &'a ToolDescriptor,
    annotations: ToolHints,
}

fn descriptor(entry: &Entry, out: &mut Vec<u8>) {
    let tool = &entry.tool;
    respond::write(entry, &AnnotatedDescriptor { tool, annotations: ToolHints::of(tool) }, out);
}

/// Lists the tools that the caller may use, sorted by `toolId`.
///
/// A body is ignored, and so are other parameters.
#[utoipa::path(
    get,
    path = "/tools",
    operation_id = "listTools",
    params(("view" = Option<String>, Query,
        description = "`compact` for `{\"tools\": […]}` with compact descriptors; every other value means the standard view")),
    responses((status = 200, description = "The visible tools", body = ref("#/components/schemas/ToolListV2")))
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Caller(caller): Caller,
    // The request is taken whole: an extractor of headers would copy them, on a hot path.
    request: Request,
) -> Result<Response, Refusal> {
    let view = state.gateway.snapshot().view_within(&caller, &CatalogScope::default());
    let body = view.ok_or(Refusal::Internal)?.body(format(request.uri()), None);
    Ok(respond::tagged(request.headers(), &body, "application/json", PRIVATE))
}

/// Returns one tool that the caller may use.
#[utoipa::path(
    get,
    path = "/tools/{toolId}",
    operation_id = "getTool",
    params(
        ("toolId" = String, Path, description = "The tool id, percent-encoded"),
        ("view" = Option<String>, Query,
            description = "`compact` for the compact descriptor; every other value means the standard view"),
    ),
    responses(
        (status = 200, description = "The tool in the requested view", body = ref("#/components/schemas/ToolV2")),
        (status = 404, description = "Not found, or not visible to this caller", body = ErrorEnvelopeV2),
    )
)]
pub(super) async fn by_id(
    State(state): State<AppState>,
    Caller(caller): Caller,
    id: Segment,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (snapshot, scope) = (state.gateway.snapshot(), CatalogScope::default());
    let entry = state.gateway.find(&snapshot, &caller, ToolRef::Id(id.as_str()), &scope);
    let entry = entry.ok_or_else(Failure::not_found)?;
    let body = Body::once(entry.wire.get(&entry, format(&uri)).to_vec());
    Ok(respond::tagged(&headers, &body, "application/json", PRIVATE))
}

/// Selects the format by the parameter `view`.
fn format(uri: &Uri) -> &'static ListFormat {
    match respond::query(uri.query(), "view").as_deref() {
        Some("compact") => &COMPACT,
        Some(_) | None => &LIST,
    }
}
