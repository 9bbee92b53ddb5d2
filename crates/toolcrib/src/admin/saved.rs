//! `/v1/saved`: views of the record and calls that people save for others of their tenant.
//!
//! A caller without the right to use a tool gets the responses of a tool without saved calls.

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolcrib_config::scopes::RouteScope::AuditRead;
use toolcrib_core::{id::SavedId, json::parse_strict, store::SavedKind};
use toolcrib_gateway::{
    authn::manage::moment,
    saved::{NewSaved, SavedError, SavedQuery, VisibleItem},
};
use utoipa::ToSchema;

use crate::{
    body,
    middleware::{Payload, Segment},
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        values::{KindOfSaved, Label, ToolName, ViewQuery},
    },
};

/// A saved view or call.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedInfo {
    id: String,
    /// `view` or `call`.
    kind: &'static str,
    /// A name for people.
    name: String,
    /// The query of a view. Absent if it was sealed with a key that the server does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// The id of the tool of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The arguments of a call. In its texts, `{{name}}` is a variable: the person who runs the call
    /// enters its value. Absent if they were sealed with a key that the server does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    arguments: Option<Value>,
    /// The principal that saved it.
    saved_by: String,
    /// When it was saved last.
    saved_at: String,
    /// Whether the caller may remove it.
    can_remove: bool,
}

#[derive(Serialize, ToSchema)]
pub(super) struct SavedList {
    /// By tool and name.
    saved: Vec<SavedInfo>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct SavedRemoval {
    id: String,
}

/// A view or a call to save.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedBody {
    #[schema(value_type = String, pattern = "^(view|call)$")]
    kind: SavedKind,
    /// A name for people, without a secret. It replaces what the caller saved before under this name for the
    /// same tool. Spaces at the end are dropped, and several become one.
    name: Label,
    /// With the kind `view`: the query of the address of the record, without a secret.
    query: Option<ViewQuery>,
    /// With the kind `call`: the id or the wire name of a tool that the caller may use.
    tool: Option<ToolName>,
    /// With the kind `call`: the arguments, of at most 8192 bytes, without secrets.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Map<String, Value>>,
}

/// Lists the saved views of the tenant, or the saved calls of a tool that the caller may use, or those that
/// the caller saved.
#[utoipa::path(
    get,
    path = "/v1/saved",
    operation_id = "listSaved",
    params(
        ("kind" = inline(Option<KindOfSaved>), Query, description = "`call` by default; `view` requires the scope `audit:read`"),
        ("tool" = inline(Option<ToolName>), Query, description = "The tool of the calls (tool id or wire name). Without it, the calls that the caller saved are listed, also those of tools that it may not use any more"),
    ),
    responses(
        (status = 200, description = "The saved items", body = SavedList),
        (status = 403, description = "The scope `audit:read` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    let kind = context.parameter("kind")?.map_or(SavedKind::Call, |KindOfSaved(kind)| kind);
    require(&context, kind)?;
    let tool = context.parameter("tool")?.map(|ToolName(name)| name);
    let query = match (kind, &tool) {
        (SavedKind::View, None) => SavedQuery::Views,
        // A view has no tool.
        (SavedKind::View, Some(_)) => {
            return Ok(respond::json(StatusCode::OK, &SavedList { saved: Vec::new() }));
        }
        (SavedKind::Call, Some(tool)) => SavedQuery::CallsOf(tool),
        (SavedKind::Call, None) => SavedQuery::OwnCalls,
    };
    let found = context.gateway.saved(&context.caller, query).await;
    let saved = found.map_err(refused)?.into_iter().map(SavedInfo::from).collect();
    Ok(respond::json(StatusCode::OK, &SavedList { saved }))
}

/// Saves a view or a call for the callers of the tenant. The scope `audit:read` is required for a view,
/// and the right to use the tool for a call. Arguments whose names or texts look like secrets are
/// rejected. The change is recorded as `saved.changed`, without name and content.
#[utoipa::path(
    post,
    path = "/v1/saved",
    operation_id = "saveForTenant",
    request_body = SavedBody,
    responses(
        (status = 200, description = "It replaced the one with this name", body = SavedInfo),
        (status = 201, description = "It is saved", body = SavedInfo),
        (status = 403, description = "The scope `audit:read` is missing", body = ErrorEnvelope),
        (status = 404, description = "The tool is not found, or not visible to this caller", body = ErrorEnvelope),
        (status = 409, description = "Another principal saved this name, or there are too many of the tool, the tenant or the caller", body = ErrorEnvelope),
    )
)]
pub(super) async fn save(context: Context, Payload(bytes): Payload) -> Result<Response, Failure> {
    let SavedBody { kind, name: Label(name), query, tool, arguments } = body::read(&bytes)?;
    require(&context, kind)?;
    let excess = |member: &str| Failure::body(member, format!("does not belong to a {kind}"));
    let missing = |member: &str| Failure::body(member, format!("is required for a {kind}"));
    let what = match kind {
        SavedKind::View => {
            if tool.is_some() {
                return Err(excess("tool"));
            }
            if arguments.is_some() {
                return Err(excess("arguments"));
            }
            let ViewQuery(query) = query.ok_or_else(|| missing("query"))?;
            NewSaved::View(query)
        }
        SavedKind::Call => {
            if query.is_some() {
                return Err(excess("query"));
            }
            let ToolName(tool) = tool.ok_or_else(|| missing("tool"))?;
            let arguments = arguments.ok_or_else(|| missing("arguments"))?;
            NewSaved::Call { tool, arguments }
        }
    };
    let saved = context.gateway.save(&context.caller, name, what).await;
    let (item, is_new) = saved.map_err(refused)?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(respond::json(status, &SavedInfo::from(item)))
}

/// Removes a saved view or call. Only its principal and callers with the scope `keys:manage` may do so.
#[utoipa::path(
    delete,
    path = "/v1/saved/{id}",
    operation_id = "removeSaved",
    params(("id" = String, Path, description = "The id, as listed by `GET /v1/saved`")),
    responses(
        (status = 200, description = "It is removed", body = SavedRemoval),
        (status = 404, description = "The item does not exist, or is not visible to this caller", body = ErrorEnvelope),
        (status = 409, description = "Another principal saved it", body = ErrorEnvelope),
    )
)]
pub(super) async fn remove(context: Context, id: Segment) -> Result<Response, Failure> {
    let id = SavedId::parse(id.as_str()).map_err(|_| Failure::not_found())?;
    context.gateway.remove_saved(&context.caller, &id).await.map_err(refused)?;
    Ok(respond::json(StatusCode::OK, &SavedRemoval { id: id.to_string() }))
}

/// Requires the scope of a kind. Calls are filtered by their tools instead.
fn require(context: &Context, kind: SavedKind) -> Result<(), Failure> {
    match kind {
        SavedKind::View => Ok(context.require(AuditRead)?),
        SavedKind::Call => Ok(()),
    }
}

fn refused(problem: SavedError) -> Failure {
    match problem {
        SavedError::Unknown => Failure::not_found(),
        SavedError::NameTaken => Failure::conflict(problem, Some(json!({ "parameter": "name" }))),
        SavedError::NotYours | SavedError::PlaceFull | SavedError::PrincipalFull => {
            Failure::conflict(problem, None)
        }
        SavedError::TooLarge => Failure::body("arguments", problem),
        SavedError::Secret { member, ref place } => {
            let details = json!({ "parameter": member, "pointer": place });
            Failure::invalid(format!("`{member}` {problem}"), Some(details))
        }
        SavedError::Store(error) => error.into(),
    }
}

impl From<VisibleItem> for SavedInfo {
    fn from(VisibleItem { item, can_remove }: VisibleItem) -> Self {
        let (query, arguments) = match item.kind {
            SavedKind::View => (item.content, None),
            // Numbers keep their text.
            SavedKind::Call => {
                (None, item.content.and_then(|text| parse_strict(text.as_bytes()).ok()))
            }
        };
        Self {
            id: item.id.to_string(),
            kind: item.kind.as_str(),
            name: item.name,
            query,
            tool: item.tool.map(|tool| tool.to_string()),
            arguments,
            saved_by: item.principal.to_string(),
            saved_at: moment(item.saved_at),
            can_remove,
        }
    }
}
