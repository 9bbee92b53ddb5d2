//! The offered tools in the form of the protocol. The tools of a gateway are serialised once; those
//! of an embedding program are serialised for each request.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use toolcrib_core::{
    arguments::ArgumentCheck,
    catalog::{Body, Entry},
};
use toolcrib_gateway::{
    CatalogScope,
    provider::{Annotations, Offer, Tool},
};

use super::{
    tools::{DETAILS, SUMMARIES},
    validate::ValidationFailure,
};

/// The operations of the endpoints on an offer.
pub(super) trait OfferExt {
    /// Returns the body of `GET tools`; `None` when that part of the catalog does not exist. Tools
    /// of an embedding program have no parts.
    fn list(&self, within: &CatalogScope) -> Option<Arc<Body>>;

    /// Returns the tool called `name`.
    fn find(&self, name: &str) -> Option<Found>;
}

pub(super) enum Found {
    Entry(Arc<Entry>),
    Tool(Arc<dyn Tool>),
}

#[derive(Serialize)]
struct Summary<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations>,
}

#[derive(Serialize)]
struct Detail<'a> {
    #[serde(flatten)]
    summary: Summary<'a>,
    #[serde(rename = "inputSchema")]
    input_schema: Value,
}

impl OfferExt for Offer {
    fn list(&self, within: &CatalogScope) -> Option<Arc<Body>> {
        match self {
            Self::View(view) => view.list_within(within, &SUMMARIES),
            Self::Tools(tools) => {
                let list: Vec<_> = tools.iter().map(|tool| Summary::of(tool.as_ref())).collect();
                Some(Arc::new(body(&list)))
            }
        }
    }

    fn find(&self, name: &str) -> Option<Found> {
        match self {
            Self::View(view) => view.find(name).map(Found::Entry),
            // A name that is not UTF-8 arrives as the empty name, which no tool has.
            Self::Tools(_) if name.is_empty() => None,
            Self::Tools(tools) => {
                let tool = tools.iter().find(|tool| tool.name() == name)?;
                Some(Found::Tool(Arc::clone(tool)))
            }
        }
    }
}

impl Found {
    /// Returns the body of `GET tools/{name}`.
    pub(super) fn detail(&self) -> Body {
        match self {
            Self::Entry(entry) => Body::once(entry.wire.get(entry, &DETAILS).to_vec()),
            Self::Tool(tool) => body(&Detail {
                summary: Summary::of(tool.as_ref()),
                input_schema: match tool.input_schema() {
                    Value::Null => Value::Object(serde_json::Map::new()),
                    schema => schema,
                },
            }),
        }
    }

    /// Returns every violation of the tool's schema by `arguments`. Blocks the thread.
    pub(super) fn check(&self, arguments: &Value) -> Vec<ValidationFailure> {
        let violations = match self {
            Self::Entry(entry) => entry.arguments.check(arguments),
            Self::Tool(tool) => {
                let schema = Some(tool.input_schema()).filter(|schema| !schema.is_null());
                match ArgumentCheck::compile(schema.as_ref()) {
                    Ok(check) => check.check(arguments),
                    Err(problem) => return vec![ValidationFailure::of_schema(&problem)],
                }
            }
        };
        violations.err().unwrap_or_default().into_iter().map(ValidationFailure::from).collect()
    }
}

impl<'a> Summary<'a> {
    fn of(tool: &'a dyn Tool) -> Self {
        Self {
            name: tool.name(),
            description: tool.description(),
            annotations: tool.annotations().filter(|annotations| !annotations.is_empty()),
        }
    }
}

fn body(json: &impl Serialize) -> Body {
    match serde_json::to_vec(json) {
        Ok(bytes) => Body::once(bytes),
        Err(error) => {
            tracing::error!(%error, "tools could not be serialised");
            Body::once("null")
        }
    }
}
