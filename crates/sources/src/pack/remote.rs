//! Remote nodes: requests that the manifest declares, and tools of the MCP server at
//! `runtime.entry`.
//!
//! Invariant: each request passes the source's guard, whose decisions are recorded.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, value::RawValue};
use toolcrib_core::{
    call::{Invocation, Outcome, Reply, UpstreamError},
    catalog::Permit,
    id::SourceId,
    source::{HttpSpec, Source as _, SourceListener, SourceState, SourceStatus},
};

use super::{
    answer,
    context::PackContext,
    error::{PackCode, PackError},
    load::{Pack, PackNode},
    request::Request,
};
use crate::{
    context::SourceContext,
    credential::{self, SourceCredential},
    egress::{Answer, Egress, Endpoint},
    error::{unavailable, unread},
    mcp::{HttpTarget, Listing, McpSource, Target},
    text::{fit_for_callers, tidy_lines},
};

/// Longest error message to pass on, in bytes.
const MAX_MESSAGE: usize = 1024;
/// Bytes that a response may have in addition to its result.
const ENVELOPE: usize = 64 << 10;

/// The client of a remote pack.
pub(super) struct Remote {
    egress: Egress,
    /// The credential for declared requests.
    credential: Option<Arc<SourceCredential>>,
    /// `None` if all nodes are declared requests.
    mcp: Option<McpSource>,
}

/// Ignores changed tool lists: the tools are those of the manifest.
struct NoopListener;

impl SourceListener for NoopListener {
    fn changed(&self, _: &SourceId) {}
}

// === impl Remote ===

impl Remote {
    pub(super) fn start(
        pack: &Pack,
        egress: &Egress,
        context: &PackContext,
    ) -> Result<Self, PackError> {
        let wants_mcp = pack.nodes.iter().any(|node| node.request.is_none());
        let mcp = wants_mcp.then(|| connect(&pack.manifest.runtime.entry, egress, context));
        let credential = context.credential.clone();
        Ok(Self { egress: egress.clone(), credential, mcp: mcp.transpose()? })
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
    ) -> Result<Reply, UpstreamError> {
        match (&node.request, &self.mcp) {
            (Some(request), _) => self.send(request, call).await.map(Reply::Done),
            (None, Some(mcp)) => mcp.call(&node.remote_name, None, permit, call.clone()).await,
            (None, None) => Err(unavailable("this node has no runtime")),
        }
    }

    async fn send(&self, request: &Request, call: &Invocation) -> Result<Outcome, UpstreamError> {
        let outgoing = match request.fill(&call.arguments) {
            Ok(outgoing) => outgoing,
            Err(problem) => {
                return Ok(Outcome::text(&format!("not sent: {problem}"), true));
            }
        };
        let credential = self.credential.as_ref();
        let sent = SourceCredential::send(credential, &self.egress, outgoing, call).await;
        let (echoes, answer) = sent?;
        let outcome = async { read(request, answer?, call.max_result_bytes).await };
        credential::clean(&echoes, outcome.await)
    }
}

/// Starts the client of the MCP server at `entry`.
fn connect(entry: &str, egress: &Egress, context: &PackContext) -> Result<McpSource, PackError> {
    let spec = HttpSpec {
        url: entry.to_owned(),
        headers: BTreeMap::new(),
        allow: context.spec.allow.clone(),
    };
    let endpoint =
        Endpoint::new(&spec).map_err(|problem| PackCode::InvalidManifest.error(problem))?;
    let target = HttpTarget { egress: egress.clone(), endpoint, credential: None };
    let listener = Arc::new(NoopListener);
    let context = SourceContext { listener, ..context.source.clone() };
    Ok(McpSource::start(context, Target::Http(target), Listing::Manifest))
}

async fn read(request: &Request, answer: Answer, max: usize) -> Result<Outcome, UpstreamError> {
    let status = answer.status();
    let body = answer.collect(max.saturating_add(ENVELOPE)).await;
    let body = body.map_err(|error| unread(error, max))?;
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
