//! The interface to the tools of a program that embeds the gateway.
//!
//! * A [`TypedTool`] is an async function of the program with its own types: their schemas describe it.
//! * A [`Tool`] describes itself. [`ToolDefinition`] is a ready-made one of plain values.
//! * A [`ToolsProvider`] lists tools. It is called on every request and its answer is never cached: a list,
//!   a closure, an async closure, or a [`Gateway`], whose answer is a view with prepared bytes.
//! * A [`ToolCallHandler`] runs a call, and an [`Authenticator`] identifies its sender.
//! * [`NativeTools`] makes them one source of a gateway, behind its pipeline.

mod answer;
pub(crate) mod native;
mod typed;

use std::{collections::BTreeMap, fmt, future::Future, marker::PhantomData, sync::Arc};

use async_trait::async_trait;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolcrib_core::{
    catalog::{Body, Entry, ListFormat, Overview, Parts},
    principal::Principal,
};

use crate::{
    gateway::Gateway,
    snapshot::Snapshot,
    tool_ref::{CatalogScope, ToolRef},
};

pub use self::{
    answer::{HandlerError, ToolAnswer},
    native::NativeTools,
    typed::{NoArguments, TypedTool, TypedTools},
};

/// A tool as callers see it.
pub trait Tool: Send + Sync + 'static {
    /// The name of the tool.
    fn name(&self) -> &str;

    /// The description, for people and models.
    fn description(&self) -> &str {
        ""
    }

    /// JSON Schema of its arguments. Null and `{}` accept any arguments.
    fn input_schema(&self) -> Value {
        Value::Object(Map::new())
    }

    /// JSON Schema of its structured results; `None` for any results.
    fn output_schema(&self) -> Option<Value> {
        None
    }

    /// Its own claims; shown to callers and never used for decisions.
    fn annotations(&self) -> Option<Annotations> {
        None
    }
}

/// The hints of MCP. All of them are claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool is read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// May destroy data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Repeating a call has no further effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// Reaches systems outside of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl Annotations {
    /// Whether all claims are absent.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A [`Tool`] of plain values.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    name: String,
    description: String,
    input_schema: Value,
    output_schema: Option<Value>,
    annotations: Option<Annotations>,
}

/// Lists tools, on every request; the answer is not cached. A provider caches expensive answers
/// itself.
///
/// Vectors of tools, closures that return one, closures that return a future of one, and gateways
/// are providers. `Kind` distinguishes them and is always inferred.
#[async_trait]
pub trait ToolsProvider<Kind = Implementation>: Send + Sync + 'static {
    /// The current tools. `caller` is the principal that a gateway has identified; a provider
    /// without callers ignores it.
    async fn tools(&self, caller: Option<&Arc<Principal>>) -> Offer;

    /// The gateway behind the tools, if there is one. It identifies callers and runs calls.
    fn gateway(&self) -> Option<&Gateway> {
        None
    }
}

/// A provider that implements the trait itself.
#[derive(Debug)]
pub enum Implementation {}
/// A closure that returns the tools.
#[derive(Debug)]
pub enum Closure {}
/// A closure that returns a future of the tools.
#[derive(Debug)]
pub enum AsyncClosure {}

/// The answer of a provider.
pub enum Offer {
    /// These tools, in this order. If a name is repeated, the first tool is used.
    Tools(Vec<Arc<dyn Tool>>),
    /// The tools of a gateway that the caller may use.
    View(CallerView),
}

/// The tools of a gateway that one caller may use.
pub struct CallerView {
    gateway: Gateway,
    snapshot: Arc<Snapshot>,
    caller: Arc<Principal>,
}

/// A call as a [`ToolCallHandler`] gets it.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The tool's own name.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// The sender, if one was identified.
    pub identity: Option<Identity>,
    /// The request that carried the call. Absent if a gateway calls, because a call may come from
    /// any of its surfaces.
    pub head: Option<RequestHead>,
}

/// The head of a request, as seen from the place where the tools are mounted.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// The method.
    pub method: http::Method,
    /// The target, without the prefix of the mount.
    pub uri: http::Uri,
    /// The headers, credentials included.
    pub headers: HeaderMap,
}

/// Runs calls. Closures from [`ToolCall`] to a future of a result are handlers.
///
/// Dropping the future cancels the call. A panic, an error and a call that takes too long are
/// failed calls, never a broken connection.
#[async_trait]
pub trait ToolCallHandler: Send + Sync + 'static {
    /// Runs `call`. The message of an error is shown to the caller.
    async fn call(&self, call: ToolCall) -> Result<ToolAnswer, HandlerError>;
}

/// Identifies the sender of a request by its headers. Closures from headers to a future of an
/// identity are authenticators.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// Identifies the sender; `None` rejects the request.
    async fn authenticate(&self, headers: &HeaderMap) -> Option<Identity>;
}

/// The sender of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Stable name.
    pub id: String,
    /// The sort of caller, for example `human`.
    pub identity_type: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// Other known attributes.
    pub attrs: BTreeMap<String, Value>,
}

// === impl ToolDefinition ===

impl ToolDefinition {
    /// Creates a tool called `name` that accepts any arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            input_schema: Value::Object(Map::new()),
            output_schema: None,
            annotations: None,
        }
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// JSON Schema of its arguments.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = schema;
        self
    }

    /// JSON Schema of its structured results.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Sets the claims.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = Some(annotations);
        self
    }

    /// Wraps the tool for a provider.
    pub fn shared(self) -> Arc<dyn Tool> {
        Arc::new(self)
    }
}

impl Tool for ToolDefinition {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn input_schema(&self) -> Value {
        self.input_schema.clone()
    }

    fn output_schema(&self) -> Option<Value> {
        self.output_schema.clone()
    }

    fn annotations(&self) -> Option<Annotations> {
        self.annotations.clone()
    }
}

// === impl ToolsProvider ===

#[async_trait]
impl ToolsProvider for Vec<Arc<dyn Tool>> {
    async fn tools(&self, _caller: Option<&Arc<Principal>>) -> Offer {
        Offer::Tools(self.clone())
    }
}

#[async_trait]
impl<F> ToolsProvider<Closure> for F
where
    F: Fn() -> Vec<Arc<dyn Tool>> + Send + Sync + 'static,
{
    async fn tools(&self, _caller: Option<&Arc<Principal>>) -> Offer {
        Offer::Tools(self())
    }
}

#[async_trait]
impl<F, R> ToolsProvider<AsyncClosure> for F
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = Vec<Arc<dyn Tool>>> + Send,
{
    async fn tools(&self, _caller: Option<&Arc<Principal>>) -> Offer {
        Offer::Tools(self().await)
    }
}

/// The view of the caller, or that of `[anonymous]`; without either, no tools.
#[async_trait]
impl ToolsProvider for Gateway {
    async fn tools(&self, caller: Option<&Arc<Principal>>) -> Offer {
        match caller.map(Arc::clone).or_else(|| self.authenticator().anonymous()) {
            Some(caller) => {
                let snapshot = self.snapshot();
                Offer::View(CallerView { gateway: self.clone(), snapshot, caller })
            }
            None => Offer::Tools(Vec::new()),
        }
    }

    fn gateway(&self) -> Option<&Gateway> {
        Some(self)
    }
}

#[async_trait]
impl ToolsProvider for Arc<dyn ToolsProvider> {
    async fn tools(&self, caller: Option<&Arc<Principal>>) -> Offer {
        self.as_ref().tools(caller).await
    }

    fn gateway(&self) -> Option<&Gateway> {
        self.as_ref().gateway()
    }
}

/// Erases the type of `provider`.
pub fn shared<P, Kind>(provider: P) -> Arc<dyn ToolsProvider>
where
    P: ToolsProvider<Kind>,
    Kind: 'static,
{
    Arc::new(SharedProvider(provider, PhantomData))
}

struct SharedProvider<P, Kind>(P, PhantomData<fn() -> Kind>);

#[async_trait]
impl<P: ToolsProvider<Kind>, Kind: 'static> ToolsProvider for SharedProvider<P, Kind> {
    async fn tools(&self, caller: Option<&Arc<Principal>>) -> Offer {
        self.0.tools(caller).await
    }

    fn gateway(&self) -> Option<&Gateway> {
        self.0.gateway()
    }
}

// === impl CallerView ===

impl CallerView {
    /// Returns the snapshot of the request (I-23).
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The list in `format`, from prepared bytes.
    pub fn list(&self, format: &ListFormat) -> Arc<Body> {
        self.snapshot.view(&self.caller).body(format, None)
    }

    /// As [`list`](Self::list), for a part of the catalog; `None` if the part does not exist.
    pub fn list_within(&self, within: &CatalogScope, format: &ListFormat) -> Option<Arc<Body>> {
        self.snapshot.list(&self.caller, within, format, None)
    }

    /// The list in `format`, in parts that a client can store; `None` if the part of the catalog
    /// does not exist.
    pub fn parts_within(
        &self,
        within: &CatalogScope,
        format: &ListFormat,
        overview: Overview,
    ) -> Option<Arc<Parts>> {
        let view = self.snapshot.view_within(&self.caller, within)?;
        Some(view.parts(format, overview))
    }

    /// The tool with that wire name, if the caller may use it; a refusal is recorded.
    pub fn find(&self, name: &str) -> Option<Arc<Entry>> {
        let scope = CatalogScope::default();
        self.gateway.find(&self.snapshot, &self.caller, ToolRef::Wire(name), &scope)
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tools(tools) => {
                f.debug_list().entries(tools.iter().map(|tool| tool.name())).finish()
            }
            Self::View(view) => {
                f.debug_struct("View").field("caller", &view.caller.id).finish_non_exhaustive()
            }
        }
    }
}

// === impl ToolCallHandler, Authenticator ===

#[async_trait]
impl<F, R, A, E> ToolCallHandler for F
where
    F: Fn(ToolCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<A, E>> + Send,
    A: Into<ToolAnswer>,
    E: fmt::Display,
{
    async fn call(&self, call: ToolCall) -> Result<ToolAnswer, HandlerError> {
        self(call).await.map(Into::into).map_err(HandlerError::new)
    }
}

#[async_trait]
impl<F, R> Authenticator for F
where
    F: Fn(HeaderMap) -> R + Send + Sync + 'static,
    R: Future<Output = Option<Identity>> + Send,
{
    async fn authenticate(&self, headers: &HeaderMap) -> Option<Identity> {
        self(headers.clone()).await
    }
}
