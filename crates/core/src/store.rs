//! Seams to what must survive a restart, beside the event log.

use async_trait::async_trait;
use serde::Serialize;

use crate::{
    clock::Timestamp,
    id::{CallId, KeyId, PrincipalId, RunId, SourceId, TenantId, ToolId},
    scope::Grant,
};

/// Why the store did not do what was asked. `Display` is for the operator.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Disk full, locked, gone, shut down.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// What was read is not what was written.
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
    /// The thing to insert is there already.
    #[error("already exists: {0}")]
    Conflict(String),
}

/// The file system that something is stored on.
pub trait FreeSpace: Send + Sync + 'static {
    /// Bytes that this process may still use. Blocks for as long as the file system takes.
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
    /// Who the bearer is.
    pub principal: PrincipalId,
    /// SHA-256 of the whole key text.
    pub digest: [u8; 32],
    /// Names of roles in the configuration; an unknown role gives no scope.
    pub roles: Vec<String>,
    /// Scopes held beside those of the roles.
    pub scopes: Vec<Grant>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When somebody came with it last, as far as that has been written down: a minute or so late.
    pub last_used_at: Option<Timestamp>,
    /// The key that it was made to follow.
    pub replaces: Option<KeyId>,
    /// Principals of its tenant in whose hands its text, or that of a key it was made with, has been;
    /// none when the operator made it.
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
    /// Another key that is not revoked replaces this one already, whether or not this one is still
    /// active. Nothing changed.
    AlreadyReplaced,
}

/// API keys.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// Stores a new key. [`StoreError::Conflict`] when the id or the digest exists.
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError>;

    /// Stores a new key if its principal is new, and returns `false` without storing it otherwise.
    /// A principal is new when this store has nothing of that name in the tenant of the key: no key,
    /// revoked and expired ones included, and nothing that it remembers of calls. The check and the
    /// insertion are one step. [`StoreError::Conflict`] as with [`insert`](Self::insert).
    async fn insert_for_new_principal(&self, key: KeyRecord) -> Result<bool, StoreError>;

    /// All keys, revoked and expired ones included, by creation time.
    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError>;

    /// Revokes a key; `false` when there is none of that id that is not revoked already.
    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError>;

    /// Stores `new`, which replaces the key `old`, and lets `old` end at `until` unless it ends
    /// earlier: both or neither. The checks of [`KeyRotation`] and the change are one step, also for
    /// several processes: of parallel rotations of one key exactly one succeeds.
    /// [`StoreError::Conflict`] as with [`insert`](Self::insert).
    async fn rotate(
        &self,
        old: &KeyId,
        new: KeyRecord,
        until: Timestamp,
    ) -> Result<KeyRotation, StoreError>;

    /// Notes when keys were used last. What is unknown, or was used later already, stays as it is,
    /// and the epoch with it.
    async fn note_used(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError>;

    /// A number that changes whenever any process inserts, rotates or revokes a key. Cheap.
    async fn epoch(&self) -> Result<u64, StoreError>;
}

/// The last good catalog of each source, so that a restart does not wait for upstreams.
#[async_trait]
pub trait CatalogStore: Send + Sync + 'static {
    /// Replaces what is stored for `source` with `catalog` (JSON text).
    async fn save(
        &self,
        source: &SourceId,
        catalog: String,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// What was stored last for `source`, and when.
    async fn load(&self, source: &SourceId) -> Result<Option<(String, Timestamp)>, StoreError>;
}

/// One run of a workflow, without what went through it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Whose it is.
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
    /// Who called it.
    pub principal: PrincipalId,
    /// With which key; none when it was none.
    #[serde(skip)]
    pub key: Option<KeyId>,
    /// The workflow's call that this is a step of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
    /// How it is doing.
    pub state: RunState,
    /// Why it failed.
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

/// How a run of a workflow is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Steps are to come.
    Running,
    /// It gave a result.
    Completed,
    /// It did not.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// The state as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A run whose process died, with what it needs to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRun {
    /// What it is.
    pub record: RunRecord,
    /// What was kept when it began.
    pub inputs: String,
    /// What was kept of its calls, by call id.
    pub results: Vec<(CallId, String)>,
    /// Whether somebody has asked for its end.
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
    /// At most this many; 0 means the store's own cap (1 000).
    pub limit: usize,
}

/// Runs of workflows. What is kept of a run beyond its [`RunRecord`] is gone when it ends.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait RunStore: Send + Sync + 'static {
    /// Whether what is kept is unreadable for whoever reads the storage.
    fn seals(&self) -> bool;

    /// Stores the beginning of a run, with its inputs when it is to survive the process.
    async fn begin(&self, run: RunRecord, inputs: Option<String>) -> Result<(), StoreError>;

    /// Keeps what came of the call `step` of the run of call `call`, replacing what was kept of it.
    async fn keep(
        &self,
        tenant: &TenantId,
        call: &CallId,
        step: &CallId,
        result: String,
    ) -> Result<(), StoreError>;

    /// Stores the end of a run and forgets what was kept of it; `false` when it was over already.
    async fn end(
        &self,
        tenant: &TenantId,
        call: &CallId,
        state: RunState,
        code: Option<&str>,
        at: Timestamp,
    ) -> Result<bool, StoreError>;

    /// The runs that `query` selects, the newest first.
    async fn list(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError>;

    /// The runs that this process took over from dead ones; each is told once.
    async fn adopted(&self) -> Result<Vec<KeptRun>, StoreError>;

    /// Asks for the end of what runs in `run`; how many workflows that are.
    async fn request_cancellation(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<usize, StoreError>;

    /// The calls of workflows of this process that run and whose end has been asked for.
    async fn asked(&self) -> Result<Vec<CallId>, StoreError>;
}
