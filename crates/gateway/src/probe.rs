//! Tools for tests of a running server, called by the test routes.
//!
//! A probe is an ordinary [`Entry`] over an ordinary [`Source`] of this process. It is the only
//! tool of a snapshot for one request, so lists do not show it and other requests cannot reach it.
//! Its call passes the pipeline like any other.
//!
//! Invariant: a probe cannot be confused with a tool of a source. It cannot have the id of such a
//! tool, so its buckets are separate, and the ids of its runs start with [`RUN_PREFIX`].

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::DateTime;
use serde_json::Value;
use toolcrib_core::{
    call::{CallError, Operation, Outcome, Reply, UpstreamError, UpstreamErrorKind},
    catalog::{Entry, Permit},
    descriptor::{Auth, SafetyTier, SourceKind},
    event::SessionOutcome,
    id::{PrincipalId, RunId, SessionId, SourceId, TenantId, ToolId},
    limit::Rate,
    principal::{AuthMethod, Principal},
    scope::{Scope, ScopeSet},
    source::{Discovered, Source, SourceState, SourceStatus},
    store::StoreError,
};

use crate::{
    gateway::Gateway,
    ids::new_id,
    metrics::Surface,
    pipeline::{CallReport, CallRequest},
    tool_ref::ToolRef,
};

/// The start of the run ids of probes.
pub const RUN_PREFIX: &str = "probe-";

/// The starts of the ids of sources' tools.
const TAKEN: [&str; 4] = ["mcp:", "connector:", "openwop:", "x-host-"];

/// High enough for every test, over so long a period that a bucket emptied by [`Act::Exhaust`] does
/// not count as empty under it.
const GENEROUS: &str = "100000/h";
const TIGHT: &str = "1/m";

/// The behaviour of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It succeeds.
    Succeed,
    /// It reports a failure.
    Fail,
    /// It succeeds, and is called until its bucket is empty.
    Exhaust,
}

/// A tool outside of every catalog.
#[derive(Debug)]
pub struct Probe {
    entry: Arc<Entry>,
    source: Arc<ProbeSource>,
    act: Act,
}

/// Why a probe is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProbe {
    /// The name belongs to tools of sources.
    #[error(
        "names a tool of a source; choose another name for the probe, for example `web.search`"
    )]
    Taken,
    /// A bug in this program.
    #[error("cannot be made")]
    Impossible,
}

/// A session that a probe was called in.
#[derive(Debug)]
pub struct ProbedSession {
    /// The run that holds its events.
    pub run_id: RunId,
    /// The `sessionId` of those events.
    pub session_id: SessionId,
    /// The result of the tool, or the reason why there is none.
    pub result: Result<Outcome, CallError>,
}

#[derive(Debug)]
struct ProbeSource {
    id: SourceId,
    fails: bool,
}

// === impl Probe ===

impl Probe {
    /// Creates a probe `tool` that requires `scopes` and does `act`.
    ///
    /// # Errors
    /// [`InvalidProbe`].
    pub fn new(tool: ToolId, scopes: Vec<Scope>, act: Act) -> Result<Self, InvalidProbe> {
        if TAKEN.iter().any(|prefix| tool.as_str().starts_with(prefix)) {
            return Err(InvalidProbe::Taken);
        }
        let source = SourceId::parse("probe").map_err(|_| InvalidProbe::Impossible)?;
        let mut entry = Entry::new(SourceKind::HostExtension, &source, "probe", SafetyTier::Pure)
            .map_err(|_| InvalidProbe::Impossible)?;
        let rate = if act == Act::Exhaust { TIGHT } else { GENEROUS };
        entry.rate = Some(Rate::parse(rate).map_err(|_| InvalidProbe::Impossible)?);
        entry.timeout = Duration::from_secs(10);
        entry.tool.tool_id = tool.to_string();
        entry.tool.auth = Some(Auth { scopes: Some(scopes), credential_ref: None });
        entry.id = tool;
        let source = ProbeSource { id: source, fails: act == Act::Fail };
        Ok(Self { entry: Arc::new(entry), source: Arc::new(source), act })
    }
}

// === impl Gateway ===

impl Gateway {
    /// Calls `probe` as `principal`, a name that `caller` chose. The name gives no rights: any
    /// principal except the caller has no scopes, and belongs to the caller's tenant.
    pub async fn probe(
        &self,
        caller: &Principal,
        principal: PrincipalId,
        probe: &Probe,
        arguments: Value,
    ) -> CallReport {
        let simulated = match principal == caller.id {
            true => caller.clone(),
            false => Principal {
                id: principal,
                tenant: caller.tenant.clone(),
                scopes: ScopeSet::default(),
                roles: Vec::new(),
                makers: Vec::new(),
                session: None,
                auth: AuthMethod::Anonymous,
            },
        };
        let call = async || {
            let request = self.probe_request(probe, arguments.clone());
            self.inner.pipeline.call_in(probe_run(), None, &simulated, request, None).await
        };
        let mut called = call().await;
        if probe.act == Act::Exhaust {
            // The bucket holds one token, so the second call finds it empty, unless a minute passed
            // in between.
            for _ in 0..2 {
                match &called.result {
                    Ok(_) | Err(CallError::InvalidArguments(_)) => called = call().await,
                    Err(_) => break,
                }
            }
        }
        called
    }

    /// Calls `probe` once in an interaction of `caller`, and closes it.
    ///
    /// # Errors
    /// [`CallError::NotAccountable`] if there are too many interactions.
    pub async fn probe_session(
        &self,
        caller: &Principal,
        probe: &Probe,
    ) -> Result<ProbedSession, CallError> {
        let interaction = self
            .inner
            .pipeline
            .interaction(probe_run(), caller)
            .map_err(|_| CallError::NotAccountable("recorded"))?;
        let arguments = Value::Object(serde_json::Map::new());
        let request = self.probe_request(probe, arguments);
        let called = interaction.call(caller, request).await;
        let session_id = interaction.session_id();
        interaction.close(SessionOutcome::Completed).await;
        Ok(ProbedSession { run_id: called.run_id, session_id, result: called.result })
    }

    /// Refills every rate-limit bucket of `tenant`, and those of its refusals.
    ///
    /// # Errors
    /// [`StoreError`] if the limiter is unavailable.
    pub async fn reset_limits(&self, tenant: &TenantId) -> Result<(), StoreError> {
        self.audit().denials().reset_refusals(tenant);
        self.inner.pipeline.limits.reset(tenant).await
    }

    /// A call in a snapshot with `probe` as its only tool.
    fn probe_request<'a>(&self, probe: &'a Probe, arguments: Value) -> CallRequest<'a> {
        let source = Arc::clone(&probe.source) as Arc<dyn Source>;
        let snapshot = self.snapshot().with_only(Arc::clone(&probe.entry), source);
        let tool = ToolRef::Id(probe.entry.id.as_str());
        CallRequest::new(Arc::new(snapshot), Surface::new("openwop", "OpenWop"), tool, arguments)
    }
}

/// A new run id with the prefix of probes.
fn probe_run() -> RunId {
    let plain: RunId = new_id();
    RunId::parse(format!("{RUN_PREFIX}{plain}")).unwrap_or(plain)
}

// === impl ProbeSource ===

#[async_trait]
impl Source for ProbeSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn kind(&self) -> SourceKind {
        SourceKind::HostExtension
    }

    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        Err(UpstreamError::new(UpstreamErrorKind::Refused, "probes are not listed"))
    }

    async fn serve(&self, _: &Permit, _: Operation) -> Result<Reply, UpstreamError> {
        Ok(match self.fails {
            true => Outcome::text("this probe is configured to fail", true).into(),
            false => Outcome::text("this probe ran", false).into(),
        })
    }

    fn status(&self) -> SourceStatus {
        SourceStatus {
            state: SourceState::Ready,
            detail: None,
            since: DateTime::UNIX_EPOCH,
            restarts: 0,
        }
    }

    async fn close(&self) {}
}
