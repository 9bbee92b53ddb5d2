//! Sessions of clients that every server over one store can continue, even after a restart.
//!
//! A session's id contains the declaration of its client, and a tag (HMAC-SHA-256 under the key of
//! the store) of that and of its place:
//!
//! ```text
//! id = base64url(opened (8, milliseconds) ‖ random (16) ‖ content) "." tag (64 hex digits)
//! ```
//!
//! Invariants:
//! - an id is only valid for the principal and the part of the catalog that it was issued for. It
//!   authenticates no caller: every request has its own credentials;
//! - a closed session is never continued.

use std::{
    str,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::Engine as _;
use chrono::{DateTime, Utc};
use tokio::sync::Semaphore;
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    principal::{Principal, PrincipalKey},
    store::{Changes, ClientSession, ClientSessionStore, StoreError},
};

use crate::{background::Services, tool_ref::CatalogScope};

/// Maximum number of stored closed sessions, of about a hundred bytes each.
const MAX_ENDED: usize = 100_000;
/// How long other servers can read a cancellation.
const CANCELLATION: Duration = Duration::from_secs(60);
/// The most cancellations in flight to the store. More are dropped: clients cannot rely on them.
const MAX_CANCELLATIONS: usize = 64;
const SWEEP: Duration = Duration::from_secs(60);
const RANDOM: usize = 16;
/// Maximum length of an id.
const MAX_ID: usize = 256;
const BASE64: base64::engine::GeneralPurpose = base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Sessions of clients that every server over one store can continue.
pub struct ClientSessions {
    services: Services,
    store: Arc<dyn ClientSessionStore>,
    /// Permits for cancellations.
    cancellations: Arc<Semaphore>,
    listener: OnceLock<Weak<dyn SessionListener>>,
}

/// An issued or opened session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedSession {
    /// Its id in visible ASCII.
    pub id: Box<str>,
    /// Its identity.
    pub session: ClientSession,
    /// The declaration of its client.
    pub content: String,
}

/// Receives the changes of sessions at any server. The calls must not block.
pub trait SessionListener: Send + Sync {
    /// The session was closed. `session` is the hash of its id.
    fn ended(&self, session: &Digest);

    /// The client of that session cancels `request`, the JSON text of its id.
    fn cancelled(&self, session: &Digest, request: &str);
}

impl ClientSessions {
    pub(crate) fn new(services: Services) -> Self {
        Self {
            store: services.storage.client_sessions(),
            services,
            cancellations: Arc::new(Semaphore::new(MAX_CANCELLATIONS)),
            listener: OnceLock::new(),
        }
    }

    /// Sets the listener. Only the first one counts.
    pub fn listen(&self, listener: Weak<dyn SessionListener>) {
        self.listener.set(listener).ok();
    }

    /// Issues an id for a session of `principal` in a part of the catalog. `content` comes back from
    /// [`open`](Self::open).
    ///
    /// # Errors
    /// Fails when the store cannot be read, or without randomness.
    pub async fn issue(
        &self,
        principal: &Principal,
        scope: &CatalogScope,
        content: &str,
    ) -> Result<IssuedSession, StoreError> {
        let opened = self.services.now().timestamp_millis();
        let mut random = [0_u8; RANDOM];
        getrandom::fill(&mut random)
            .map_err(|error| StoreError::Unavailable(format!("no randomness: {error}")))?;
        let mut bytes = opened.to_be_bytes().to_vec();
        bytes.extend_from_slice(&random);
        bytes.extend_from_slice(content.as_bytes());
        let tag = self.tag(principal, scope, &bytes).await?;
        let id = format!("{}.{tag}", BASE64.encode(&bytes));
        let moment = DateTime::<Utc>::from_timestamp_millis(opened).unwrap_or_default();
        let session = ClientSession { id: Digest::of(id.as_bytes()), opened: moment };
        Ok(IssuedSession { id: id.into(), session, content: content.to_owned() })
    }

    /// Opens an id that any server over this store has issued for `principal` and that part of the
    /// catalog; `None` if the id is invalid, or if the session is closed or too old.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub async fn open(
        &self,
        principal: &Principal,
        scope: &CatalogScope,
        id: &str,
    ) -> Result<Option<IssuedSession>, StoreError> {
        let Some((bytes, tag)) = parse(id) else { return Ok(None) };
        let Some((opened, content)) = content(&bytes) else { return Ok(None) };
        let until = opened.checked_add_signed(self.lifetime());
        if until.is_none_or(|until| until <= self.services.now())
            || self.tag(principal, scope, &bytes).await? != tag
        {
            return Ok(None);
        }
        let session = ClientSession { id: Digest::of(id.as_bytes()), opened };
        let has_ended = self.store.has_ended(session).await?;
        Ok((!has_ended).then(|| IssuedSession { id: id.into(), session, content }))
    }

    /// Closes `session` for every server.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    pub async fn end(&self, session: ClientSession) -> Result<(), StoreError> {
        let until = session.opened.checked_add_signed(self.lifetime());
        self.store.end(session, until.unwrap_or(Timestamp::MAX_UTC)).await
    }

    /// Cancels `request`, the JSON text of an id, at the other servers. It does not run here.
    pub fn cancel(&self, session: ClientSession, request: &str) {
        if !self.services.storage.is_shared() {
            return;
        }
        let Ok(permit) = Arc::clone(&self.cancellations).try_acquire_owned() else { return };
        let (store, request) = (Arc::clone(&self.store), request.to_owned());
        let until = self.services.now() + CANCELLATION;
        self.services.background.spawn(async move {
            let _permit = permit;
            if let Err(error) = store.cancel(session, request, until).await {
                tracing::warn!(%error, "a cancellation could not be sent to the other servers");
            }
        });
    }

    /// Reports changes of sessions, and removes expired notices, until the gateway stops.
    pub(crate) fn start(self: &Arc<Self>) {
        let sessions = Arc::clone(self);
        self.services.background.every("client sessions/sweep", SWEEP, move || {
            let sessions = Arc::clone(&sessions);
            async move {
                if let Err(error) = sessions.store.sweep(sessions.services.now(), MAX_ENDED).await {
                    tracing::warn!(%error, "closed sessions of clients could not be removed");
                }
            }
        });
        let sessions = Arc::clone(self);
        // The number of the last reported notice; `u64::MAX` before the first read.
        let seen = Arc::new(AtomicU64::new(u64::MAX));
        self.services.follow("client sessions", move |_, changes| {
            let (sessions, seen) = (Arc::clone(&sessions), Arc::clone(&seen));
            async move {
                if let Err(error) = sessions.report(changes, &seen).await {
                    tracing::warn!(%error, "the closed sessions of clients cannot be read");
                }
            }
        });
    }

    async fn report(
        &self,
        changes: Result<Changes, StoreError>,
        seen: &AtomicU64,
    ) -> Result<(), StoreError> {
        let last = changes?.sessions;
        let mut after = seen.load(Ordering::Relaxed);
        if after == u64::MAX {
            // All sessions of this server are younger.
            after = last;
        }
        while after < last {
            let notices = self.store.notices(after).await?;
            if let Some(listener) = self.listener.get().and_then(Weak::upgrade) {
                for notice in &notices {
                    match &notice.cancels {
                        None => listener.ended(&notice.session),
                        Some(request) => listener.cancelled(&notice.session, request),
                    }
                }
            }
            after = notices.last().map_or(last, |notice| notice.number);
        }
        seen.store(after, Ordering::Relaxed);
        Ok(())
    }

    fn lifetime(&self) -> chrono::TimeDelta {
        let lifetime = self.services.config().mcp.session_lifetime;
        chrono::TimeDelta::from_std(lifetime).unwrap_or(chrono::TimeDelta::MAX)
    }

    async fn tag(
        &self,
        principal: &Principal,
        scope: &CatalogScope,
        bytes: &[u8],
    ) -> Result<String, StoreError> {
        let owner = PrincipalKey::of(principal);
        let parts = [
            "client session 1".as_bytes(),
            owner.tenant.as_str().as_bytes(),
            owner.principal.as_str().as_bytes(),
            scope.name().unwrap_or_default().as_bytes(),
            bytes,
        ];
        let parts = parts.map(<[u8]>::to_vec).to_vec();
        Ok(self.services.storage.approvals().fingerprint(parts).await?.0)
    }
}

/// The bytes and the tag of an id.
fn parse(id: &str) -> Option<(Vec<u8>, &str)> {
    let (bytes, tag) = id.split_once('.').filter(|_| id.len() <= MAX_ID)?;
    Some((BASE64.decode(bytes).ok()?, tag))
}

/// The time of the opening, and the declaration of the client.
fn content(bytes: &[u8]) -> Option<(Timestamp, String)> {
    let (opened, rest) = bytes.split_first_chunk()?;
    let opened = DateTime::<Utc>::from_timestamp_millis(i64::from_be_bytes(*opened))?;
    Some((opened, str::from_utf8(rest.get(RANDOM..)?).ok()?.to_owned()))
}
