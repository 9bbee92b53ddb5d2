//! The storage traits for state that survives a restart, other than the event log.

use async_trait::async_trait;
use serde::Serialize;

use crate::{
    clock::Timestamp,
    id::{CallId, KeyId, PrincipalId, RunId, SourceId, TenantId, ToolId},
    scope::Grant,
};

/// Why the store failed. `Display` is for the operator.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Disk full, locked, gone, shut down.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The stored data is malformed.
    #[error("the store holds something unreadable: {0}")]
    Corrupt(String),
    /// It was written by a newer version.
    #[error(
        "the store was written by a newer version (schema {found}, this program knows {known})"
    )]
    TooNew {
        /// Version found.
        found: u32,
        /// Newest version known.
        known: u32,
    },
    /// The item to insert exists already.
    #[error("already exists: {0}")]
    Conflict(String),
}

/// The file system of a store or file.
pub trait FreeSpace: Send + Sync + 'static {
    /// Returns the bytes that this process may still use. Blocks for as long as the file system
    /// takes.
    fn free_space(&self) -> Result<u64, StoreError>;
}

/// One API key, without the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its identifier.
    pub id: KeyId,
    /// Name for people.
    pub name: String,
    /// Tenant of the principal.
    pub tenant: TenantId,
    /// The bearer's principal.
    pub principal: PrincipalId,
    /// SHA-256 of the whole key text.
    pub digest: [u8; 32],
    /// Names of roles in the configuration; an unknown role gives no scope.
    pub roles: Vec<String>,
    /// Scopes held in addition to those of the roles.
    pub scopes: Vec<Grant>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, as recorded: up to about a minute late.
    pub last_used_at: Option<Timestamp>,
    /// The key that it was created to replace.
    pub replaces: Option<KeyId>,
    /// Principals of its tenant that have handled its text, or that of a key it was created with.
    /// Empty when the operator created it.
    pub makers: Vec<PrincipalId>,
}

/// The result of [`KeyStore::rotate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum KeyRotation {
    /// The new key is stored.
    Rotated,
    /// No key with this id is active: it is unknown, revoked, or expired when the new key is made.
    /// Nothing changed.
    NoActiveKey,
    /// Another unrevoked key replaces this one already, whether or not this one is still active.
    /// Nothing changed.
    AlreadyReplaced,
}

/// API keys.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// Stores a new key. Fails with [`StoreError::Conflict`] when the id or the digest exists.
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError>;

    /// Stores a new key if its principal is new; otherwise returns `false` and stores nothing. A
    /// principal is new when this store has no key of that name in the key's tenant, revoked and
    /// expired ones included, and no stored calls of it. The check and the insertion are one step.
    /// Fails with [`StoreError::Conflict`] like [`insert`](Self::insert).
    async fn insert_for_new_principal(&self, key: KeyRecord) -> Result<bool, StoreError>;

    /// Returns all keys, revoked and expired ones included, by creation time.
    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError>;

    /// Revokes a key; returns `false` when no unrevoked key has that id.
    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError>;

    /// Stores `new`, which replaces the key `old`, and lets `old` expire at `until` or earlier:
    /// both or neither. The checks of [`KeyRotation`] and the change are one step, across processes
    /// too: of parallel rotations of one key exactly one succeeds. Fails with
    /// [`StoreError::Conflict`] like [`insert`](Self::insert).
    async fn rotate(
        &self,
        old: &KeyId,
        new: KeyRecord,
        until: Timestamp,
    ) -> Result<KeyRotation, StoreError>;

    /// Records when keys were last used. Ignores unknown keys and earlier times, and does not
    /// change the epoch.
    async fn note_used(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError>;

    /// Returns a number that changes whenever any process inserts, rotates or revokes a key. Cheap.
    async fn epoch(&self) -> Result<u64, StoreError>;
}

/// The last valid catalog of each source, so that a restart does not wait for upstreams.
#[async_trait]
pub trait CatalogStore: Send + Sync + 'static {
    /// Replaces the stored catalog of `source` with `catalog` (JSON text).
    async fn save(
        &self,
        source: &SourceId,
        catalog: String,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns the catalog that was last stored for `source`, and when.
    async fn load(&self, source: &SourceId) -> Result<Option<(String, Timestamp)>, StoreError>;
}

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
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// The state of a workflow run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Steps remain.
    Running,
    /// It ended with a result.
    Completed,
    /// It ended with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// Returns the state as it appears on the wire.
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
    /// The most to return; 0 means the store's own cap (1 000).
    pub limit: usize,
}

/// Runs of workflows. All stored data of a run except its [`RunRecord`] is deleted when it ends.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait RunStore: Send + Sync + 'static {
    /// Returns whether stored data is sealed against readers of the storage.
    fn seals(&self) -> bool;

    /// Stores the beginning of a run, with its inputs when the run is durable.
    async fn begin(&self, run: RunRecord, inputs: Option<String>) -> Result<(), StoreError>;

    /// Stores the result of the call `step` in the run of call `call`, replacing an earlier one.
    async fn keep(
        &self,
        tenant: &TenantId,
        call: &CallId,
        step: &CallId,
        result: String,
    ) -> Result<(), StoreError>;

    /// Stores the end of a run and deletes its stored data; returns `false` when it had ended
    /// already.
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

    /// Returns the runs that this process took over from crashed ones, each once.
    async fn adopted(&self) -> Result<Vec<KeptRun>, StoreError>;

    /// Requests the cancellation of the workflows in `run`, and returns how many there are.
    async fn request_cancellation(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<usize, StoreError>;

    /// Returns the running workflow calls of this process whose cancellation was requested.
    async fn requested_cancellations(&self) -> Result<Vec<CallId>, StoreError>;
}
