//! `GET /v1/tools` and `GET /v1/tools/{toolId}` (RFC 0078).
//!
//! The bytes of a list are serialised by the gateway (I-24). Unknown, hidden and foreign tools get
//! the same response (I-9).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, Uri};
use toolcrib_config::ListBody;
use toolcrib_core::{
    catalog::{Body, Entry, ListFormat},
    compact::CompactToolDescriptor,
};
use toolcrib_gateway::{CatalogScope, ToolRef};

use crate::{
    middleware::{Caller, Segment},
    parameters::ToolsetName,
    respond::{self, PRIVATE},
    state::AppState,
    v1::{
        error::{ErrorEnvelope, Failure},
        list::{ARRAY, descriptor},
        request::parameter,
        values::{Kind, SearchLimit},
    },
};

/// Default number of tools in a search result.
const FOUND: usize = 20;

/// The media type of the envelope in RFC 0078 §B.
const ENVELOPE_TYPE: &str = "application/vnd.openwop.tools+json";

static ENVELOPE: ListFormat =
    ListFormat { key: "openwop-envelope", open: "{\"tools\":[", close: "]}", item: descriptor };

/// The compact list is always an object (RFC 0112).
static COMPACT: ListFormat =
    ListFormat { key: "openwop-compact", open: "{\"tools\":[", close: "]}", item: compact };

fn compact(entry: &Entry, out: &mut Vec<u8>) {
    respond::write(entry, &CompactToolDescriptor::of(&entry.tool), out);
}

/// Lists the tools that the caller may use, sorted by `toolId`.
///
/// Returns a bare array, or `{"tools": […]}` for `Accept: application/vnd.openwop.tools+json` and if
/// the operator set `openwop.list_body = "envelope"`. With `q` the tools are sorted by relevance. With
/// `view=compact`, returns `{"tools": […]}` with compact descriptors. If a parameter is repeated, the
/// first value is used.
#[utoipa::path(
    get,
    path = "/v1/tools",
    operation_id = "listTools",
    params(
        ("source" = inline(Option<Kind>), Query, description = "Only tools of this kind of source"),
        ("view" = Option<String>, Query,
            description = "`compact` for descriptors without combined schemas; every other value means the standard view"),
        ("toolset" = inline(Option<ToolsetName>), Query, description = "Only tools of this toolset"),
        ("q" = Option<String>, Query,
            description = "Only tools that match words of this text, the best match first; ignored if it has no word"),
        ("limit" = inline(Option<SearchLimit>), Query, description = "With `q`: the maximum number of tools; 20 by default"),
    ),
    responses(
        (status = 200, description = "The visible tools", content(
            (ref("#/components/schemas/CatalogList") = "application/json"),
            (ref("#/components/schemas/ToolsEnvelope") = "application/vnd.openwop.tools+json"),
        )),
        (status = 304, description = "Not modified"),
    )
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Caller(caller): Caller,
    // The request is taken whole: an extractor of headers would copy them, on a hot path.
    request: Request,
) -> Result<Response, Failure> {
    let headers = request.headers();
    let query = request.uri().query();
    let source = parameter(query, "source")?.map(|Kind(kind)| kind);
    let limit = parameter(query, "limit")?.map_or(FOUND, SearchLimit::size);
    let (format, content_type) = if wants_compact(request.uri()) {
        (&COMPACT, "application/json")
    } else if respond::accepted(headers).any(|kind| kind == ENVELOPE_TYPE) {
        (&ENVELOPE, ENVELOPE_TYPE)
    } else {
        match state.config.openwop.list_body {
            ListBody::Array => (&ARRAY, "application/json"),
            ListBody::Envelope => (&ENVELOPE, "application/json"),
        }
    };
    let view = state.gateway.snapshot().view_within(&caller, &respond::within(request.uri()));
    let view = view.ok_or_else(|| Failure::parameter("toolset", respond::NO_TOOLSET))?;
    let body = match respond::query(query, "q") {
        Some(words) if !words.trim().is_empty() => {
            Arc::new(written(&view.search(&words, source, limit), format))
        }
        Some(_) | None => view.body(format, source),
    };
    Ok(respond::tagged(headers, &body, content_type, PRIVATE))
}

/// Writes `entries` in `format`, in their order.
fn written(entries: &[Arc<Entry>], format: &ListFormat) -> Body {
    let tools: Vec<_> = entries.iter().map(|entry| entry.wire.get(entry, format)).collect();
    let mut bytes = format.open.as_bytes().to_vec();
    bytes.extend(tools.join(&b','));
    bytes.extend_from_slice(format.close.as_bytes());
    Body::once(bytes)
}

/// Returns one tool that the caller may use.
#[utoipa::path(
    get,
    path = "/v1/tools/{toolId}",
    operation_id = "getTool",
    params(
        ("toolId" = String, Path, description = "The tool id, percent-encoded"),
        ("view" = Option<String>, Query,
            description = "`compact` for the compact descriptor; every other value means the standard view"),
    ),
    responses(
        (status = 200, description = "The tool in the requested view", body = ref("#/components/schemas/CatalogTool")),
        (status = 304, description = "Not modified"),
        (status = 404, description = "Not found, or not visible to this caller", body = ErrorEnvelope),
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
    let format = if wants_compact(&uri) { &COMPACT } else { &ARRAY };
    let body = Body::once(entry.wire.get(&entry, format).to_vec());
    Ok(respond::tagged(&headers, &body, "application/json", PRIVATE))
}

/// Whether the request selects the compact view. Any other value selects the standard view.
fn wants_compact(uri: &Uri) -> bool {
    respond::query(uri.query(), "view").is_some_and(|view| view == "compact")
}
