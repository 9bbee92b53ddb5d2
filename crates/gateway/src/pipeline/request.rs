//! A call as a surface received it, and the report of its result.

use std::{sync::Arc, time::Duration};

use toolcrib_core::{
    call::{CallError, CallInput, ConnectionRequired, Outcome, ProgressSink},
    catalog::Entry,
    id::{CallId, RunId},
    offer::OfferKind,
    principal::Principal,
};

use crate::{
    metrics::Surface,
    snapshot::{Miss, Snapshot},
    tool_ref::{CatalogScope, ToolRef},
};

/// What a request occupies while its call runs, such as memory. Dropping it releases that.
pub trait RequestCharge: Send + Sync {}

/// The result of the lookup of a call's tool, for a surface that needs it before the call. It
/// permits nothing: the call is authorized as any other.
pub struct FoundTool(pub(super) Result<Arc<Entry>, Miss>);

/// One call as a surface received it.
pub struct CallRequest<'a> {
    /// The snapshot that the request has loaded (I-23).
    pub snapshot: Arc<Snapshot>,
    /// The surface, for metrics and policies.
    pub surface: Surface,
    /// The kind of offer in which the name is looked up, and so the operation: a tool is called, a
    /// prompt rendered, a resource read.
    pub kind: OfferKind,
    /// The name of the offer as the caller sent it.
    pub tool: ToolRef<'a>,
    /// The part of the catalog in which the tool is looked up.
    pub scope: CatalogScope,
    /// The result of its lookup in that scope, if the surface has made it.
    pub found: Option<FoundTool>,
    /// The caller's input, as far as it can reach the tool.
    pub input: CallInput,
    /// The receiver of progress notifications, if the caller wants any.
    pub progress: Option<Arc<dyn ProgressSink>>,
    /// Dropped when the call finishes, possibly after the request.
    pub charge: Option<Arc<dyn RequestCharge>>,
}

/// The report of a completed call.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallReport {
    /// The run that contains its events.
    pub run_id: RunId,
    /// Its id in those events.
    pub call_id: CallId,
    /// The tool, if the caller may know that it exists.
    pub entry: Option<Arc<Entry>>,
    /// The result of the tool, or the reason why there is none.
    pub result: Result<Outcome, CallError>,
    /// How long the tool ran; `None` if it never started.
    pub duration: Option<Duration>,
}

impl FoundTool {
    /// Looks up `tool` as the call would, in the snapshot of the request.
    pub fn look_up(
        snapshot: &Arc<Snapshot>,
        principal: &Principal,
        tool: ToolRef<'_>,
        scope: &CatalogScope,
    ) -> Self {
        Self(snapshot.find(principal, tool, scope))
    }

    /// The tool; `None` for an unknown, a hidden and a foreign tool.
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        self.0.as_ref().ok()
    }
}

impl<'a> CallRequest<'a> {
    /// Creates a call of a tool in the whole catalog, without progress.
    pub fn new(
        snapshot: Arc<Snapshot>,
        surface: Surface,
        tool: ToolRef<'a>,
        input: impl Into<CallInput>,
    ) -> Self {
        Self {
            snapshot,
            surface,
            kind: OfferKind::Tool,
            tool,
            scope: CatalogScope::default(),
            found: None,
            input: input.into(),
            progress: None,
            charge: None,
        }
    }
}

impl CallReport {
    /// The report of a call that failed with `error` before its tool was known.
    pub(crate) fn failed(run_id: RunId, call_id: CallId, error: CallError) -> Self {
        Self { run_id, call_id, entry: None, result: Err(error), duration: None }
    }

    /// The same report without a link, if it has one: for storage.
    pub(super) fn without_link(&self) -> Option<Self> {
        let Err(CallError::ConnectionRequired(required)) = &self.result else { return None };
        let required = ConnectionRequired { link: None, ..(**required).clone() };
        Some(Self {
            run_id: self.run_id.clone(),
            call_id: self.call_id.clone(),
            entry: self.entry.clone(),
            result: Err(CallError::ConnectionRequired(Box::new(required))),
            duration: self.duration,
        })
    }
}
