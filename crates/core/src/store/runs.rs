//! The storage trait for runs of workflows.

use async_trait::async_trait;
use serde::Serialize;

use crate::{
    clock::Timestamp,
    id::{CallId, KeyId, PrincipalId, RunId, TenantId, ToolId},
    store_error::StoreError,
};

/// One run of a workflow, without its data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The tenant.
    #[serde(skip)]
    pub tenant: TenantId,
    /// The run that holds its events.
    pub run_id: RunId,
    /// The call of the workflow.
    pub call_id: CallId,
    /// The workflow.
    pub tool_id: ToolId,
    /// Hash of its definition.
    #[serde(skip)]
    pub digest: String,
    /// The caller.
    pub principal: PrincipalId,
    /// The caller's key; `None` when the caller used no API key.
    #[serde(skip)]
    pub key: Option<KeyId>,
    /// The workflow call that this run is a step of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
    /// The state.
    pub state: RunState,
    /// The error code of a failed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Whether it survives the process.
    pub durable: bool,
    /// When it started.
    pub started_at: Timestamp,
    /// When it finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// The state of a workflow run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Steps remain.
    Running,
    /// It finished with a result.
    Completed,
    /// It finished with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// The state as it appears on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A run of a crashed process, with the data to resume it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRun {
    /// The run.
    pub record: RunRecord,
    /// The stored inputs.
    pub inputs: String,
    /// The stored results of its calls, by call id.
    pub results: Vec<(CallId, String)>,
    /// Whether its cancellation was requested.
    pub cancelled: bool,
}

/// Which runs to list; the newest come first.
#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    /// Only this tenant's.
    pub tenant: Option<TenantId>,
    /// Only this principal's.
    pub principal: Option<PrincipalId>,
    /// Only of this run.
    pub run: Option<RunId>,
    /// Only in this state.
    pub state: Option<RunState>,
    /// Only the newest workflow of each run, without workflows that are steps of others.
    pub one_per_run: bool,
    /// Only runs older than this one: its start, and its call to order equal times.
    pub before: Option<(Timestamp, CallId)>,
    /// The most to return; 0 means the store's own cap (1 000).
    pub limit: usize,
}

/// Runs of workflows. When a run finishes, all its stored data except its [`RunRecord`] is deleted.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait RunStore: Send + Sync + 'static {
    /// Whether stored data is sealed against readers of the storage.
    fn seals(&self) -> bool;

    /// Stores the start of a run, with its inputs if the run is durable.
    async fn begin(&self, run: RunRecord, inputs: Option<String>) -> Result<(), StoreError>;

    /// Stores the result of the call `step` in the run of call `call`, replacing an earlier one.
    async fn keep(
        &self,
        tenant: &TenantId,
        call: &CallId,
        step: &CallId,
        result: String,
    ) -> Result<(), StoreError>;

    /// Stores the final state of a run and deletes its stored data; returns `false` if it had
    /// finished already.
    async fn end(
        &self,
        tenant: &TenantId,
        call: &CallId,
        state: RunState,
        code: Option<&str>,
        at: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Returns the runs that `query` selects, newest first.
    async fn list(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError>;

    /// Returns the runs that this process took over from crashed ones, each only once.
    async fn adopted(&self) -> Result<Vec<KeptRun>, StoreError>;

    /// Requests the cancellation of the workflows in `run`, and returns their number.
    async fn request_cancellation(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<usize, StoreError>;

    /// Returns the running workflow calls of this process whose cancellation was requested.
    async fn requested_cancellations(&self) -> Result<Vec<CallId>, StoreError>;
}
