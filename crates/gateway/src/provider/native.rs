//! Tools of the embedding program as one source of a gateway, with the same surfaces, gate and
//! record as all others.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use toolcrib_config::{Classification, SourceConfig, ToolRule};
use toolcrib_core::{
    call::{Operation, Outcome, Reply, UpstreamError, UpstreamErrorKind},
    catalog::{Permit, Tenants},
    clock::{Clock, Timestamp},
    descriptor::{SafetyTier, SourceKind},
    id::{InvalidId, SourceId, TenantId},
    principal::{AuthMethod, Principal},
    scope::{InvalidScope, Scope},
    source::{
        Discovered, DiscoveredOffer, InvalidSource, Source, SourceFactory, SourceListener,
        SourceSpec, SourceState, SourceStatus, UpstreamSpec,
    },
};

use crate::{
    provider::{
        Identity, Offer, Tool, ToolCall, ToolCallHandler, ToolsProvider, TypedTools, shared,
    },
    workflow::{Workflows, source::WorkflowSource},
};

/// Tools of the embedding program, as a source.
///
/// Its tools have ids `x-host-<source>-<name>`. The defaults are those of every source: scope
/// `tools:<source>`, tier `write`, no approval.
pub struct NativeTools {
    config: SourceConfig,
    provider: Arc<dyn ToolsProvider>,
    handler: Arc<dyn ToolCallHandler>,
}

/// The source factory of a gateway: it builds native tools and workflows itself, and everything
/// else with `others`.
pub(crate) struct NativeSourceFactory {
    pub(crate) tools: Vec<NativeTools>,
    pub(crate) others: Arc<dyn SourceFactory>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) workflows: Arc<Workflows>,
}

struct NativeSource {
    id: SourceId,
    provider: Arc<dyn ToolsProvider>,
    handler: Arc<dyn ToolCallHandler>,
    since: Timestamp,
}

// === impl NativeTools ===

impl NativeTools {
    /// Creates the source `id` of the tools of `provider`, run by `handler`. The provider is called
    /// at the start, every five minutes, and after [`Supply::refresh`](crate::Supply::refresh); in
    /// between, the gateway offers a snapshot.
    ///
    /// # Errors
    /// Fails if `id` is not a valid source id.
    pub fn new<P, Kind>(
        id: &str,
        provider: P,
        handler: impl ToolCallHandler,
    ) -> Result<Self, InvalidId>
    where
        P: ToolsProvider<Kind>,
        Kind: 'static,
    {
        let config = SourceConfig::native(SourceId::parse(id)?);
        Ok(Self { config, provider: shared(provider), handler: Arc::new(handler) })
    }

    /// Creates the source `id` of the functions `tools`.
    ///
    /// # Errors
    /// Fails if `id` is not a valid source id.
    pub fn typed(id: &str, tools: impl Into<TypedTools>) -> Result<Self, InvalidId> {
        let tools = tools.into();
        Self::new(id, tools.clone(), tools)
    }

    /// Sets the scopes that every tool requires; an empty list requires no scope. Later rules
    /// override them.
    ///
    /// # Errors
    /// Fails if a scope is invalid.
    pub fn scopes<'a>(
        self,
        scopes: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidScope> {
        let scopes = scopes.into_iter().map(Scope::parse).collect::<Result<_, _>>()?;
        Ok(self.every(Classification { scopes: Some(scopes), ..Classification::default() }))
    }

    /// Sets the safety tier of every tool. Later rules override it.
    #[must_use]
    pub fn tier(self, tier: SafetyTier) -> Self {
        self.every(Classification { safety_tier: Some(tier), ..Classification::default() })
    }

    /// Adds a rule for the tools whose name matches the glob `pattern`. It overrides earlier rules.
    ///
    /// # Errors
    /// Fails if `pattern` is not a valid glob.
    pub fn rule(self, pattern: &str, set: Classification) -> Result<Self, globset::Error> {
        let rule = ToolRule::new(pattern, set)?;
        Ok(self.push(rule))
    }

    /// Limits the tools to these tenants.
    ///
    /// # Errors
    /// Fails if a tenant id is invalid.
    pub fn tenants<'a>(
        mut self,
        tenants: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidId> {
        let tenants = tenants.into_iter().map(TenantId::parse).collect::<Result<_, _>>()?;
        self.config.tenants = Tenants::Only(tenants);
        Ok(self)
    }

    pub(crate) fn config(&self) -> &SourceConfig {
        &self.config
    }

    fn every(self, set: Classification) -> Self {
        match ToolRule::new("*", set) {
            Ok(rule) => self.push(rule),
            // The escaped pattern is always a glob. Otherwise the cautious defaults would apply.
            Err(_) => self,
        }
    }

    fn push(mut self, rule: ToolRule) -> Self {
        self.config.rules.push(rule);
        self
    }
}

// === impl NativeSourceFactory ===

impl NativeSourceFactory {
    fn find(&self, spec: &SourceSpec) -> Option<&NativeTools> {
        self.tools.iter().find(|tools| tools.config.spec == *spec)
    }
}

impl SourceFactory for NativeSourceFactory {
    fn build(
        &self,
        spec: &SourceSpec,
        listener: Arc<dyn SourceListener>,
    ) -> Result<Arc<dyn Source>, InvalidSource> {
        if let UpstreamSpec::Workflow(workflows) = &spec.upstream {
            let (runner, since) = (Arc::clone(&self.workflows), self.clock.now());
            let source = WorkflowSource::new(spec.id.clone(), workflows.clone(), runner, since);
            return Ok(Arc::new(source));
        }
        let Some(tools) = self.find(spec) else { return self.others.build(spec, listener) };
        Ok(Arc::new(NativeSource {
            id: spec.id.clone(),
            provider: Arc::clone(&tools.provider),
            handler: Arc::clone(&tools.handler),
            since: self.clock.now(),
        }))
    }

    fn check(&self, spec: &SourceSpec) -> Result<(), InvalidSource> {
        match self.find(spec) {
            _ if matches!(spec.upstream, UpstreamSpec::Workflow(_)) => Ok(()),
            Some(_) => Ok(()),
            None => self.others.check(spec),
        }
    }
}

// === impl NativeSource ===

#[async_trait]
impl Source for NativeSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn kind(&self) -> SourceKind {
        SourceKind::HostExtension
    }

    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        let offered = AssertUnwindSafe(self.provider.tools(None)).catch_unwind().await;
        let protocol = |why| Err(UpstreamError::new(UpstreamErrorKind::Protocol, why));
        match offered {
            Err(_panic) => protocol("the provider of the tools panicked"),
            Ok(Offer::Tools(tools)) => Ok(Discovered {
                offers: tools.iter().map(|tool| discovered(tool.as_ref()).into()).collect(),
                ..Discovered::default()
            }),
            Ok(Offer::View(_)) => protocol("the tools of another gateway cannot be native tools"),
        }
    }

    async fn serve(&self, permit: &Permit, operation: Operation) -> Result<Reply, UpstreamError> {
        let call = operation.into_tool_call()?;
        let call = ToolCall {
            name: permit.entry().upstream_name.clone(),
            arguments: call.arguments,
            identity: Some(identity(permit.principal())),
            head: None,
        };
        Ok(match self.handler.call(call).await {
            Ok(answer) => Reply::Done(answer.into()),
            Err(error) => Outcome::text(&error.to_string(), true).into(),
        })
    }

    fn status(&self) -> SourceStatus {
        SourceStatus { state: SourceState::Ready, detail: None, since: self.since, restarts: 0 }
    }

    async fn close(&self) {}
}

fn discovered(tool: &dyn Tool) -> DiscoveredOffer {
    let (schema, output_schema) = (tool.input_schema(), tool.output_schema());
    let annotations = tool.annotations().filter(|annotations| !annotations.is_empty());
    let annotations = annotations.and_then(|annotations| serde_json::to_value(annotations).ok());
    let description = tool.description();
    DiscoveredOffer {
        name: tool.name().to_owned(),
        description: (!description.is_empty()).then(|| description.to_owned()),
        raw: json!({
            "name": tool.name(),
            "description": description,
            "inputSchema": schema,
            "outputSchema": output_schema,
            "annotations": annotations,
        }),
        input_schema: Some(schema).filter(|schema| !schema.is_null()),
        output_schema,
        annotations,
        ..DiscoveredOffer::default()
    }
}

fn identity(principal: &Principal) -> Identity {
    let kind = match &principal.auth {
        AuthMethod::ApiKey(_) => "api-key",
        AuthMethod::Jwt(_) => "jwt",
        AuthMethod::Anonymous => "anonymous",
        AuthMethod::Operator => "operator",
    };
    let tenant = Value::String(principal.tenant.to_string());
    Identity {
        id: principal.id.to_string(),
        identity_type: kind.to_owned(),
        roles: Vec::new(),
        attrs: BTreeMap::from([("tenant".to_owned(), tenant)]),
    }
}
