//! `GET /v1/tools` and `GET /v1/tools/{toolId}` (RFC 0078).
//!
//! The bytes of a list are serialised by the gateway (I-24). Unknown, hidden and foreign tools get
//! the same response (I-9).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, Uri, header};
use serde::Serialize;
use toolcrib_core::{
    catalog::{Body, Entry, ListFormat},
    compact::CompactToolDescriptor,
};
use toolcrib_gateway::{CatalogScope, ToolRef, config::ListBody};
use utoipa::{PartialSchema, ToSchema, openapi};

use super::{
    error::{self, ErrorEnvelope},
    values::{self, Kind, SearchLimit},
};
use crate::{
    middleware::{Caller, Segment},
    parameters::ToolsetName,
    respond::{self, PRIVATE},
    state::AppState,
};

/// Default number of tools that a search returns.
const FOUND: usize = 20;

/// The media type of the envelope in RFC 0078 §B.
const ENVELOPE_TYPE: &str = "application/vnd.openwop.tools+json";

static ARRAY: ListFormat = ListFormat { key: "openwop", open: "[", close: "]", item: descriptor };
static ENVELOPE: ListFormat =
    ListFormat { key: "openwop-envelope", open: "{\"tools\":[", close: "]}", item: descriptor };

/// The compact list is always an object (RFC 0112).
static COMPACT: ListFormat =
    ListFormat { key: "openwop-compact", open: "{\"tools\":[", close: "]}", item: compact };

fn descriptor(entry: &Entry, out: &mut Vec<u8>) {
    write(entry, &entry.tool, out);
}

fn compact(entry: &Entry, out: &mut Vec<u8>) {
    write(entry, &CompactToolDescriptor::of(&entry.tool), out);
}

fn write(entry: &Entry, json: &impl Serialize, out: &mut Vec<u8>) {
    if let Err(error) = serde_json::to_writer(out, json) {
        tracing::error!(tool = %entry.id, %error, "a descriptor could not be serialised");
    }
}

/// A tool descriptor (RFC 0078 §C). The schema is the published one.
pub(crate) struct Descriptor;

impl PartialSchema for Descriptor {
    fn schema() -> openapi::RefOr<openapi::Schema> {
        // A placeholder until the document is finished: `crate::openapi` inserts the published
        // schema.
        openapi::ObjectBuilder::new().build().into()
    }
}

impl ToSchema for Descriptor {
    fn name() -> std::borrow::Cow<'static, str> {
        "ToolDescriptor".into()
    }
}

/// A tool of the compact view (RFC 0112). The schema is the published one.
pub(crate) struct Compact;

impl PartialSchema for Compact {
    fn schema() -> openapi::RefOr<openapi::Schema> {
        // As with `Descriptor`.
        openapi::ObjectBuilder::new().build().into()
    }
}

impl ToSchema for Compact {
    fn name() -> std::borrow::Cow<'static, str> {
        "CompactToolDescriptor".into()
    }
}

/// The tools that the caller may use, sorted by `toolId`.
///
/// A bare array, or `{"tools": […]}` for `Accept: application/vnd.openwop.tools+json` and where the
/// operator set `openwop.list_body = "envelope"`. With `q` they are sorted by how well they fit. With
/// `view=compact`, `{"tools": […]}` of compact
/// descriptors. If a parameter is repeated, the first value is used.
#[utoipa::path(
    get,
    path = "/v1/tools",
    operation_id = "listTools",
    tag = "OpenWOP",
    params(
        ("source" = inline(Option<Kind>), Query, description = "Only tools of this kind of source"),
        ("view" = Option<String>, Query,
            description = "`compact` for descriptors without combined schemas; anything else is the standard view"),
        ("toolset" = inline(Option<ToolsetName>), Query, description = "Only tools of this toolset"),
        ("q" = Option<String>, Query,
            description = "Only tools that have words of this text, the best first; without a word it says nothing"),
        ("limit" = inline(Option<SearchLimit>), Query, description = "With `q`: at most so many tools, 20 when absent"),
    ),
    responses(
        (status = 200, description = "The visible tools", content(
            (CatalogList = "application/json"),
            (ToolsEnvelope = "application/vnd.openwop.tools+json"),
        )),
        (status = 304, description = "Not modified"),
        (status = 400, description = "`source` or `limit` is none of its values, or there is no such toolset", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Caller(caller): Caller,
    // The request is taken whole: an extractor of headers would copy them, on a hot path.
    request: Request,
) -> Response {
    let headers = request.headers();
    let query = request.uri().query();
    let source = match values::read(query, "source") {
        Ok(source) => source.map(|Kind(kind)| kind),
        Err(bad) => return bad.into_response(),
    };
    let limit = match values::read(query, "limit") {
        Ok(limit) => limit.map_or(FOUND, |SearchLimit(limit)| limit),
        Err(bad) => return bad.into_response(),
    };
    let (format, content_type) = if wants_compact(request.uri()) {
        (&COMPACT, "application/json")
    } else if accepts_envelope(headers) {
        (&ENVELOPE, ENVELOPE_TYPE)
    } else {
        match state.config.openwop.list_body {
            ListBody::Array => (&ARRAY, "application/json"),
            ListBody::Envelope => (&ENVELOPE, "application/json"),
        }
    };
    let Some(view) = state.gateway.snapshot().view_within(&caller, &respond::within(request.uri()))
    else {
        return error::bad_request("toolset", respond::NO_TOOLSET);
    };
    let body = match respond::query(query, "q") {
        Some(words) if !words.trim().is_empty() => {
            Arc::new(written(&view.search(&words, source, limit), format))
        }
        Some(_) | None => view.body(format, source),
    };
    respond::tagged(headers, &body, content_type, PRIVATE)
}

/// Returns `entries` in `format`, in their order.
fn written(entries: &[Arc<Entry>], format: &ListFormat) -> Body {
    let tools: Vec<_> = entries.iter().map(|entry| entry.wire.get(entry, format)).collect();
    let mut bytes = format.open.as_bytes().to_vec();
    bytes.extend(tools.join(&b','));
    bytes.extend_from_slice(format.close.as_bytes());
    Body::once(bytes)
}

/// The other shape of the list.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used; the bytes are written by `ENVELOPE`")]
pub(crate) struct ToolsEnvelope {
    /// The visible tools.
    tools: Vec<Descriptor>,
}

/// The compact list.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used; the bytes are written by `COMPACT`")]
pub(crate) struct CompactTools {
    /// The visible tools.
    tools: Vec<Compact>,
}

/// Every form of the list: an array, or an object with descriptors or compact descriptors.
pub(crate) struct CatalogList;

impl PartialSchema for CatalogList {
    fn schema() -> openapi::RefOr<openapi::Schema> {
        let reference = |name| openapi::Ref::from_schema_name(name);
        let array = openapi::ArrayBuilder::new().items(reference("ToolDescriptor"));
        openapi::schema::AnyOfBuilder::new()
            .item(array)
            .item(reference("ToolsEnvelope"))
            .item(reference("CompactTools"))
            .into()
    }
}

impl ToSchema for CatalogList {
    fn name() -> std::borrow::Cow<'static, str> {
        "CatalogList".into()
    }

    fn schemas(schemas: &mut Vec<(String, openapi::RefOr<openapi::Schema>)>) {
        schemas.push(("CompactTools".to_owned(), CompactTools::schema()));
        schemas.push(("CompactToolDescriptor".to_owned(), Compact::schema()));
        schemas.push(("ToolDescriptor".to_owned(), Descriptor::schema()));
    }
}

/// Every form of one tool.
pub(crate) struct CatalogTool;

impl PartialSchema for CatalogTool {
    fn schema() -> openapi::RefOr<openapi::Schema> {
        openapi::schema::AnyOfBuilder::new()
            .item(openapi::Ref::from_schema_name("ToolDescriptor"))
            .item(openapi::Ref::from_schema_name("CompactToolDescriptor"))
            .into()
    }
}

impl ToSchema for CatalogTool {
    fn name() -> std::borrow::Cow<'static, str> {
        "CatalogTool".into()
    }
}

/// One tool that the caller may use.
#[utoipa::path(
    get,
    path = "/v1/tools/{toolId}",
    operation_id = "getTool",
    tag = "OpenWOP",
    params(
        ("toolId" = String, Path, description = "The tool's id, percent-encoded"),
        ("view" = Option<String>, Query,
            description = "`compact` for the compact descriptor; anything else is the standard view"),
    ),
    responses(
        (status = 200, description = "The tool, in the form of the view", body = CatalogTool),
        (status = 304, description = "Not modified"),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 404, description = "Unknown to this caller, for whatever reason", body = ErrorEnvelope),
    )
)]
pub(super) async fn by_id(
    State(state): State<AppState>,
    Caller(caller): Caller,
    id: Segment,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let (snapshot, scope) = (state.gateway.snapshot(), CatalogScope::default());
    match state.gateway.find(&snapshot, &caller, ToolRef::Id(id.as_str()), &scope) {
        Some(entry) => {
            let format = if wants_compact(&uri) { &COMPACT } else { &ARRAY };
            let body = Body::once(entry.wire.get(&entry, format).to_vec());
            respond::tagged(&headers, &body, "application/json", PRIVATE)
        }
        None => error::not_found(),
    }
}

/// Returns whether the request selects the compact view. Every other value means the standard view.
fn wants_compact(uri: &Uri) -> bool {
    respond::query(uri.query(), "view").is_some_and(|view| view == "compact")
}

/// Returns whether the request accepts the envelope's media type by name, with a weight above 0.
fn accepts_envelope(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|value| {
        value.to_str().is_ok_and(|text| {
            text.split(',').any(|range| {
                let mut parts = range.split(';').map(str::trim);
                parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(ENVELOPE_TYPE))
                    && !parts.any(|parameter| {
                        matches!(parameter, "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
                    })
            })
        })
    })
}
