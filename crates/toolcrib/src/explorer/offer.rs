//! The offered tools in the form of the protocol. The tools of a gateway are serialised once; those
//! of an embedding program are serialised for each request.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use toolcrib_core::{
    arguments::{ArgumentCheck, Violation},
    catalog::{Body, Entry, ListFormat, Part, Parts},
    descriptor::{Approval, Egress, SafetyTier, SourceKind},
    schema::Schema,
    scope::Scope,
};
use toolcrib_gateway::{
    CatalogScope,
    provider::{Offer, Tool},
};
use utoipa::ToSchema;

use crate::respond;

static SUMMARIES: ListFormat = ListFormat {
    key: "explorer",
    open: "[",
    close: "]",
    item: |entry, out| respond::write(entry, &Summary::of_entry(entry), out),
};
static DETAILS: ListFormat = ListFormat {
    key: "explorer-detail",
    open: "[",
    close: "]",
    item: |entry, out| respond::write(entry, &Detail::of_entry(entry), out),
};

/// The start of the list: its parts in order, with the tools of the first one.
#[derive(Serialize, ToSchema)]
pub(super) struct Catalog<'a> {
    /// The number of tools.
    total: usize,
    parts: Vec<CatalogPart<'a>>,
}

/// Some tools of the catalog.
#[derive(Serialize, ToSchema)]
struct CatalogPart<'a> {
    /// Equal for equal tools, so that the page loads only parts that are new to it.
    tag: &'a str,
    /// The number of its tools.
    count: usize,
    /// The tools; only in the first part.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Summary<'static>>>)]
    tools: Option<&'a RawValue>,
}

/// Writes a [`Catalog`].
fn overview(parts: &[Part]) -> Vec<u8> {
    let first = parts.first().map(|part| &part.body.bytes);
    let tools: Option<Box<RawValue>> = first.and_then(|list| serde_json::from_slice(list).ok());
    let mut catalog = Catalog { total: 0, parts: Vec::with_capacity(parts.len()) };
    for part in parts {
        let tools = tools.as_deref().filter(|_| catalog.parts.is_empty());
        catalog.total += part.count;
        catalog.parts.push(CatalogPart { tag: part.tag(), count: part.count, tools });
    }
    bytes(&catalog)
}

/// The operations of the endpoints on an offer.
pub(super) trait OfferExt {
    /// The body of `GET tools`; `None` if that part of the catalog does not exist. Tools of an
    /// embedding program have no parts.
    fn list(&self, within: &CatalogScope) -> Option<Arc<Body>>;

    /// The same list in parts that the page keeps.
    fn parts(&self, within: &CatalogScope) -> Option<Arc<Parts>>;

    fn find(&self, name: &str) -> Option<OfferedTool>;
}

/// A tool of a gateway, or of an embedding program.
pub(super) enum OfferedTool {
    Entry(Arc<Entry>),
    Tool(Arc<dyn Tool>),
}

/// A tool in the list.
#[derive(Serialize, ToSchema)]
pub(super) struct Summary<'a> {
    name: &'a str,
    /// The title of the tool for people, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    description: &'a str,
    /// The upstream's annotations, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    annotations: Option<Value>,
    /// The operator's classification; absent for tools of an embedding program without a gateway.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    meta: Option<Meta<'a>>,
}

/// A tool with its schemas.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Detail<'a> {
    #[serde(flatten)]
    summary: Summary<'a>,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// JSON Schema of the structured result, if the tool has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Cow<'a, Schema>>,
}

#[derive(Serialize)]
struct Meta<'a> {
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
    /// The destination of its calls.
    #[serde(rename = "toolcrib/egress", skip_serializing_if = "Option::is_none")]
    egress: Option<Egress>,
    /// Whether the gateway holds a credential for it.
    #[serde(rename = "toolcrib/credential", skip_serializing_if = "Option::is_none")]
    credential: Option<bool>,
}

/// One violation of a tool's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValidationFailure {
    /// RFC 6901 pointer to the value; empty for the arguments as a whole. For a missing property,
    /// the pointer to where it should be.
    pub path: String,
    /// The message of the validator, which may quote the arguments.
    pub message: String,
    /// The violated keyword of the schema.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub keyword: String,
}

// === impl Offer ===

impl OfferExt for Offer {
    fn list(&self, within: &CatalogScope) -> Option<Arc<Body>> {
        match self {
            Self::View(view) => view.list_within(within, &SUMMARIES),
            Self::Tools(tools) => {
                let list: Vec<_> =
                    tools.iter().map(|tool| Summary::of_tool(tool.as_ref())).collect();
                Some(Arc::new(body(&list)))
            }
        }
    }

    fn parts(&self, within: &CatalogScope) -> Option<Arc<Parts>> {
        match self {
            Self::View(view) => view.parts_within(within, &SUMMARIES, overview),
            Self::Tools(tools) => {
                let written = |tool: &Arc<dyn Tool>| bytes(&Summary::of_tool(tool.as_ref())).into();
                let written: Vec<Arc<[u8]>> = tools.iter().map(written).collect();
                let names = tools.iter().map(|tool| tool.name());
                Some(Arc::new(Parts::of(names.zip(written), &SUMMARIES, overview)))
            }
        }
    }

    fn find(&self, name: &str) -> Option<OfferedTool> {
        match self {
            Self::View(view) => view.find(name).map(OfferedTool::Entry),
            // A name that is not UTF-8 arrives as the empty name, which no tool has.
            Self::Tools(_) if name.is_empty() => None,
            Self::Tools(tools) => {
                let tool = tools.iter().find(|tool| tool.name() == name)?;
                Some(OfferedTool::Tool(Arc::clone(tool)))
            }
        }
    }
}

// === impl OfferedTool ===

impl OfferedTool {
    /// The body of `GET tools/{name}`.
    pub(super) fn detail(&self) -> Body {
        match self {
            Self::Entry(entry) => Body::once(entry.wire.get(entry, &DETAILS).to_vec()),
            Self::Tool(tool) => body(&Detail::of_tool(tool.as_ref())),
        }
    }

    /// Finds every violation of the tool's schema by `arguments`. Blocks the thread.
    pub(super) fn check(&self, arguments: &Value) -> Vec<ValidationFailure> {
        let violations = match self {
            Self::Entry(entry) => entry.arguments.check(arguments),
            Self::Tool(tool) => {
                let schema = Some(tool.input_schema()).filter(|schema| !schema.is_null());
                match ArgumentCheck::compile(schema.as_ref()) {
                    Ok(check) => check.check(arguments),
                    Err(problem) => {
                        let message = format!("Invalid schema: {problem}");
                        return vec![ValidationFailure::new(message, "schema")];
                    }
                }
            }
        };
        violations.err().unwrap_or_default().into_iter().map(ValidationFailure::from).collect()
    }
}

// === impl Summary ===

impl<'a> Summary<'a> {
    fn of_tool(tool: &'a dyn Tool) -> Self {
        let annotations = tool.annotations().filter(|annotations| !annotations.is_empty());
        Self {
            name: tool.name(),
            title: None,
            description: tool.description(),
            annotations: annotations.and_then(|declared| serde_json::to_value(declared).ok()),
            meta: None,
        }
    }

    fn of_entry(entry: &'a Entry) -> Self {
        let tool = &entry.tool;
        let scopes = tool.required_scopes();
        Self {
            name: &entry.names.wire,
            title: entry.title(),
            description: tool.description.as_deref().unwrap_or_default(),
            annotations: annotations(entry.annotations.as_ref()),
            meta: Some(Meta {
                tool_id: entry.id.as_str(),
                otc_id: entry.names.otc_id(),
                source: tool.source,
                source_id: entry.source.as_str(),
                tier: tool.safety_tier,
                approval: tool.approval.unwrap_or(Approval::Never),
                scopes: scopes.unwrap_or_default(),
                egress: tool.egress,
                credential: tool.auth.as_ref().and_then(|auth| auth.credential_ref),
            }),
        }
    }
}

/// The hints that the protocol defines and whose type is right; `None` if there are no such hints.
fn annotations(claimed: Option<&Value>) -> Option<Value> {
    let known = |(name, value): &(&String, &Value)| match name.as_str() {
        "readOnlyHint" | "destructiveHint" | "idempotentHint" | "openWorldHint" => {
            value.is_boolean()
        }
        "title" => value.is_string(),
        _ => false,
    };
    let claimed = claimed?.as_object()?.iter().filter(known);
    let kept: Map<_, _> = claimed.map(|(name, value)| (name.clone(), value.clone())).collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}

// === impl Detail ===

impl<'a> Detail<'a> {
    fn of_tool(tool: &'a dyn Tool) -> Self {
        let input_schema = match tool.input_schema() {
            Value::Null => Value::Object(Map::new()),
            schema => schema,
        };
        // As for a gateway's tools, a schema is an object.
        let output_schema = tool.output_schema().and_then(|schema| Schema::try_from(&schema).ok());
        Self {
            summary: Summary::of_tool(tool),
            input_schema,
            output_schema: output_schema.map(Cow::Owned),
        }
    }

    fn of_entry(entry: &'a Entry) -> Self {
        Self {
            summary: Summary::of_entry(entry),
            input_schema: entry
                .tool
                .input_schema
                .as_ref()
                .map_or_else(|| json!({}), Schema::to_value),
            output_schema: entry.tool.output_schema.as_ref().map(Cow::Borrowed),
        }
    }
}

// === impl ValidationFailure ===

impl ValidationFailure {
    /// Creates a failure of the arguments as a whole.
    pub(super) fn new(message: String, keyword: &str) -> Self {
        Self { path: String::new(), message, keyword: keyword.to_owned() }
    }
}

impl From<Violation> for ValidationFailure {
    fn from(violation: Violation) -> Self {
        Self { path: violation.pointer, message: violation.verbatim, keyword: violation.keyword }
    }
}

fn body(json: &impl Serialize) -> Body {
    Body::once(bytes(json))
}

fn bytes(json: &impl Serialize) -> Vec<u8> {
    let bytes = serde_json::to_vec(json)
        .inspect_err(|error| tracing::error!(%error, "tools could not be serialised"));
    bytes.unwrap_or_else(|_| b"null".to_vec())
}
