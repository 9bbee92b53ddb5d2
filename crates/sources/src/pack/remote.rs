//! Remote nodes: requests that the manifest declares, and tools of the MCP server at
//! `runtime.entry`.
//!
//! Invariant: each request passes the source's guard, whose decisions are recorded.

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderValue, header};
use serde_json::{Value, value::RawValue};
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::Clock,
    id::SourceId,
    source::{
        HttpSpec, Source as _, SourceLimits, SourceListener, SourceState, SourceStatus,
        pack::PackSpec,
    },
};
use toolcrib_tasks::Tasks;

use super::{
    answer,
    error::{PackCode, PackError},
    load::{Pack, PackNode},
    request::Request,
};
use crate::{
    credential::{Asks, SourceCredential},
    egress::{Answer, Egress, Endpoint, Outgoing},
    mcp::{McpSource, Target},
    text::{fit_for_callers, tidy_lines},
};

/// Largest number of redirects of a request; each target is checked like the first address.
const HOPS: usize = 5;
/// Longest error message that is passed on, in bytes.
const MAX_MESSAGE: usize = 1024;
/// Bytes that a response may have in addition to its result.
const ENVELOPE: usize = 64 << 10;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The environment of remote nodes.
pub(super) struct RemoteContext<'a> {
    pub(super) id: &'a SourceId,
    pub(super) spec: &'a PackSpec,
    pub(super) egress: &'a Egress,
    pub(super) limits: &'a SourceLimits,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) runtime: &'a tokio::runtime::Handle,
    pub(super) credential: Option<&'a Arc<SourceCredential>>,
    pub(super) tasks: &'a Tasks,
}

/// The client of a remote pack.
pub(super) struct Remote {
    egress: Egress,
    /// The credential for declared requests.
    credential: Option<Arc<SourceCredential>>,
    /// `None` when no node is a tool of the server.
    mcp: Option<McpSource>,
}

/// Ignores changed tool lists: the tools are those of the manifest.
struct Unheard;

impl SourceListener for Unheard {
    fn changed(&self, _: &SourceId) {}
}

// === impl Remote ===

impl Remote {
    pub(super) fn start(pack: &Pack, around: &RemoteContext<'_>) -> Result<Self, PackError> {
        let wants_mcp = pack.nodes.iter().any(|node| node.request.is_none());
        let mcp = wants_mcp.then(|| Self::connect(&pack.manifest.runtime.entry, around));
        let credential = around.credential.cloned();
        Ok(Self { egress: around.egress.clone(), credential, mcp: mcp.transpose()? })
    }

    fn connect(entry: &str, around: &RemoteContext<'_>) -> Result<McpSource, PackError> {
        let spec = HttpSpec {
            url: entry.to_owned(),
            headers: BTreeMap::new(),
            allow: around.spec.allow.clone(),
        };
        let endpoint =
            Endpoint::new(&spec).map_err(|problem| PackCode::InvalidManifest.error(problem))?;
        Ok(McpSource::start(
            around.id.clone(),
            Target::Http { egress: around.egress.clone(), endpoint, credential: None },
            around.limits.clone(),
            Arc::new(Unheard),
            Arc::clone(around.clock),
            around.runtime,
            around.tasks,
        ))
    }

    /// Returns the status of the server unless it is ready.
    pub(super) fn trouble(&self) -> Option<SourceStatus> {
        let status = self.mcp.as_ref()?.status();
        (status.state != SourceState::Ready).then_some(status)
    }

    pub(super) async fn close(&self) {
        if let Some(mcp) = &self.mcp {
            mcp.close().await;
        }
    }

    pub(super) async fn call(
        &self,
        node: &PackNode,
        permit: &Permit,
        call: &Invocation,
    ) -> Result<Outcome, UpstreamError> {
        match (&node.request, &self.mcp) {
            (Some(request), _) => self.send(request, permit, call).await,
            (None, Some(mcp)) => mcp.call_as(&node.remote_name, permit, call.clone()).await,
            (None, None) => {
                let detail = "this node has no runtime";
                Err(UpstreamError::new(UpstreamErrorKind::Unavailable, detail))
            }
        }
    }

    async fn send(
        &self,
        request: &Request,
        permit: &Permit,
        call: &Invocation,
    ) -> Result<Outcome, UpstreamError> {
        let filled = match request.fill(&call.arguments) {
            Ok(filled) => filled,
            Err(problem) => {
                return Ok(Outcome::text(&format!("{problem}; nothing was sent"), true));
            }
        };
        let mut outgoing = Outgoing::new(filled.method, filled.url);
        outgoing.hops = HOPS;
        outgoing.headers.insert(header::ACCEPT, JSON);
        if let Some(body) = filled.body {
            outgoing.headers.insert(header::CONTENT_TYPE, JSON);
            outgoing.body = Some(body.into());
        }
        let Some(credential) = &self.credential else {
            return self.exchange(request, outgoing, call).await;
        };
        let echoes =
            credential.authorize(Asks::Caller(permit), &mut outgoing, &call.egress).await?;
        match self.exchange(request, outgoing, call).await {
            Ok(outcome) => Ok(echoes.outcome(outcome)),
            Err(error) => Err(echoes.error(error)),
        }
    }

    async fn exchange(
        &self,
        request: &Request,
        outgoing: Outgoing,
        call: &Invocation,
    ) -> Result<Outcome, UpstreamError> {
        let answered = self.egress.send(outgoing, &call.egress).await?;
        read(request, answered, call.max_result_bytes).await
    }
}

async fn read(request: &Request, answer: Answer, max: usize) -> Result<Outcome, UpstreamError> {
    let status = answer.status();
    let body = answer.collect(max.saturating_add(ENVELOPE)).await?;
    if !status.is_success() {
        let text = fit_for_callers(&tidy_lines(&String::from_utf8_lossy(&body), MAX_MESSAGE));
        let colon = if text.is_empty() { "" } else { ": " };
        return Ok(Outcome::text(
            &format!("the server answered {}{colon}{text}", status.as_u16()),
            true,
        ));
    }
    let unusable =
        |problem: &str| Ok(Outcome::text(&format!("the server's answer {problem}"), true));
    if body.is_empty() && request.takes_all() {
        return answer::completed(RawValue::NULL, max);
    }
    let Ok(whole) = serde_json::from_slice::<&RawValue>(&body) else {
        return unusable("is not JSON");
    };
    if request.takes_all() {
        return answer::completed(whole, max);
    }
    let document: Value = serde_json::from_str(whole.get()).unwrap_or_default();
    match request.result(&document).map(serde_json::value::to_raw_value) {
        Some(Ok(result)) => answer::completed(&result, max),
        Some(Err(_)) | None => unusable("has no value at the result pointer of the pack"),
    }
}
