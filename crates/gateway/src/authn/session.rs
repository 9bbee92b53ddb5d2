//! Browser sessions: a person stays signed in without a key in the browser.
//!
//! Invariant (I-112): a session represents the credential that created it. Each request has the
//! current rights of that credential, and fails after it expires or is revoked. A session never
//! creates another session.
//!
//! The secret has two halves: a cookie that scripts cannot read, and a text that the page sends in
//! a header and keeps in the storage of its origin. Browsers send cookies also to other ports of a
//! host and with requests of other sites, but never the header. The store has one digest over both
//! halves and the origin, so a session requires both halves at that origin.

use std::{sync::Arc, time::Duration};

use chrono::SecondsFormat;
use serde::{Deserialize, Serialize};
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    clock::Timestamp,
    credential::Secret,
    id::KeyId,
    principal::{AuthMethod, Principal},
    store::{KeyRecord, SessionCredential, StoreError},
};

use super::{
    AuthError, Authenticator, Inner, digest,
    table::{KeyEntry, Table},
};
use crate::ids;

/// Limit on the unexpired sessions of one principal, closed ones included. It bounds the rows that
/// a caller can create.
pub const MAX_SESSIONS: usize = 256;
/// The characters of 256 bits in base64url.
const SECRET_CHARACTERS: usize = 43;

/// A new session, the only place with its secrets.
#[derive(Debug)]
pub struct NewSession {
    /// The stored record.
    pub record: KeyRecord,
    /// The half for the cookie.
    pub cookie: Secret,
    /// The half for the page.
    pub page: Secret,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// A session as a request presents it. It has no `Debug`, because both halves are secrets.
#[derive(Clone, Copy)]
pub struct PresentedSession<'a> {
    /// The origin of the page.
    pub origin: &'a str,
    /// The half of the cookie.
    pub cookie: &'a str,
    /// The half of the page.
    pub page: &'a str,
}

/// The request for a session.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    /// The origin of the page, the only one at which the session is valid.
    pub origin: String,
    /// The browser, in a few fixed words.
    pub browser: String,
    /// Its longest lifetime.
    pub lifetime: Duration,
}

/// Why a session was not created or closed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The configuration allows no sessions.
    #[error("sessions are off on this server; see `explorer.session_lifetime`")]
    Off,
    /// The request has no key or token.
    #[error(
        "a session needs a key or a token in `Authorization`, and is not made from another session"
    )]
    NoCredential,
    /// The principal already has [`MAX_SESSIONS`].
    #[error("this principal has too many sessions; try again when some have expired")]
    TooMany,
    /// The session is unknown, or the caller may not close it.
    #[error("no active session with this id")]
    NoSuchSession,
    /// The link is unknown, used or expired.
    #[error("this link was used already, or it has expired")]
    NoSuchLink,
    /// The event of the session was not recorded.
    #[error("the sign-in could not be recorded and was refused")]
    Unrecorded,
    /// The system has no randomness.
    #[error("a session cannot be created right now; try again later")]
    Randomness,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A session for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its public id.
    pub id: String,
    /// The tenant of the principal.
    pub tenant: String,
    /// The signed-in principal.
    pub principal: String,
    /// The browser, in a few fixed words.
    pub browser: String,
    /// The key behind the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The issuer of the token behind the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// When the person signed in.
    pub created_at: String,
    /// When it expires at the latest.
    pub expires_at: Option<String>,
    /// When it was last used, up to about a minute late.
    pub last_used_at: Option<String>,
    /// Whether the request was sent in this session.
    #[serde(default)]
    pub current: bool,
}

// === impl SessionInfo ===

impl From<&KeyRecord> for SessionInfo {
    fn from(session: &KeyRecord) -> Self {
        let (key_id, issuer) = match &session.session {
            Some(SessionCredential::Key(key)) => (Some(key.to_string()), None),
            Some(SessionCredential::Token(token) | SessionCredential::Access(token)) => {
                (None, Some(token.issuer.clone()))
            }
            None => (None, None),
        };
        Self {
            id: session.id.to_string(),
            tenant: session.tenant.to_string(),
            principal: session.principal.to_string(),
            browser: session.name.clone(),
            key_id,
            issuer,
            created_at: moment(session.created_at),
            expires_at: session.expires_at.map(moment),
            last_used_at: session.last_used_at.map(moment),
            current: false,
        }
    }
}

// === impl PresentedSession ===

impl<'a> PresentedSession<'a> {
    /// Returns the session with both halves; `None` if one of them cannot be valid.
    pub fn new(origin: &'a str, cookie: &'a str, page: &'a str) -> Option<Self> {
        (is_secret(cookie) && is_secret(page)).then_some(Self { origin, cookie, page })
    }

    fn digest(&self) -> [u8; 32] {
        digest(&format!("session\n{}\n{}\n{}", self.origin, self.cookie, self.page))
    }
}

// === impl Authenticator ===

impl Authenticator {
    /// Returns the principal of a session. Waits for the store if it has not confirmed the keys
    /// recently.
    pub async fn identify_session(
        &self,
        presented: PresentedSession<'_>,
    ) -> Result<Arc<Principal>, AuthError> {
        let digest = presented.digest();
        let find = |table: &Table| table.by_digest(&digest);
        match self.inner.session_holder(find) {
            Err(AuthError::Unavailable) => {
                self.inner.confirmation.wait().await;
                self.inner.session_holder(find)
            }
            verdict => verdict,
        }
    }

    /// Creates a session for `caller` without storing it.
    pub(crate) fn new_session(
        &self,
        caller: &Principal,
        request: &SessionRequest,
    ) -> Result<NewSession, SessionError> {
        if request.lifetime.is_zero() {
            return Err(SessionError::Off);
        }
        let credential = match &caller.auth {
            _ if caller.session.is_some() => return Err(SessionError::NoCredential),
            AuthMethod::ApiKey(key) => SessionCredential::Key(key.clone()),
            AuthMethod::Jwt(token) if token.client.is_none() => {
                SessionCredential::Token(Arc::new(token.without_presented()))
            }
            // A client is not the person in a browser.
            AuthMethod::Jwt(_) | AuthMethod::Anonymous | AuthMethod::Operator => {
                return Err(SessionError::NoCredential);
            }
        };
        let now = self.inner.clock.now();
        let is_own = |known: &Arc<KeyEntry>| {
            let holder = &known.principal;
            known.is_session() && holder.id == caller.id && holder.tenant == caller.tenant
        };
        let open = self.inner.table.load().all().into_iter().filter(is_own);
        if open.filter(|known| known.expires_at.is_some_and(|end| now < end)).count()
            >= MAX_SESSIONS
        {
            return Err(SessionError::TooMany);
        }
        let lifetime = chrono::Duration::from_std(request.lifetime).ok();
        let end = lifetime.and_then(|lifetime| now.checked_add_signed(lifetime));
        let end = end.into_iter().chain(self.expiry(caller)).min().ok_or(SessionError::Off)?;
        let (cookie, page) = (secret()?, secret()?);
        let presented = PresentedSession { origin: &request.origin, cookie: &cookie, page: &page };
        let record = KeyRecord {
            id: ids::new_id(),
            name: request.browser.clone(),
            tenant: caller.tenant.clone(),
            principal: caller.id.clone(),
            digest: presented.digest(),
            roles: Vec::new(),
            scopes: Vec::new(),
            created_at: now,
            expires_at: Some(end),
            revoked_at: None,
            last_used_at: None,
            replaces: None,
            makers: Vec::new(),
            session: Some(credential),
        };
        let (cookie, page) = (Secret::new(cookie), Secret::new(page));
        Ok(NewSession { record, cookie, page, expires_at: end })
    }

    /// Stores a session. Afterwards it works.
    pub(crate) async fn store_session(&self, session: &NewSession) -> Result<(), StoreError> {
        self.inner.keys.insert(session.record.clone()).await?;
        self.refresh().await;
        Ok(())
    }

    /// Returns the active sessions of `caller`, and of its whole tenant if it may manage keys.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub async fn sessions_of(&self, caller: &Principal) -> Result<Vec<KeyRecord>, SessionError> {
        let mut keys = self.inner.keys.list().await?;
        let now = self.inner.clock.now();
        keys.retain(|key| {
            may_end(caller, key)
                && key.revoked_at.is_none()
                && key.expires_at.is_none_or(|end| now < end)
        });
        for key in &mut keys {
            key.last_used_at = key.last_used_at.max(self.inner.last_use(&key.id));
        }
        Ok(keys)
    }

    /// Closes the session `id`, with immediate effect, and returns it.
    pub(crate) async fn end_session(
        &self,
        caller: &Principal,
        id: &KeyId,
    ) -> Result<(KeyRecord, Timestamp), SessionError> {
        let sessions = self.sessions_of(caller).await?;
        let session = sessions.into_iter().find(|session| session.id == *id);
        let session = session.ok_or(SessionError::NoSuchSession)?;
        let now = self.inner.clock.now();
        if !self.inner.keys.revoke(id, now).await? {
            return Err(SessionError::NoSuchSession);
        }
        self.refresh().await;
        Ok((session, now))
    }

    /// Creates a link that signs in once with the key of `text`, within `lifetime`, and returns its
    /// secret. Only the digest stays in memory. If there are too many links, the oldest is dropped.
    ///
    /// # Errors
    /// Fails if the key is invalid, or the system has no randomness.
    pub fn new_sign_in_link(&self, text: &str, lifetime: Duration) -> Result<Secret, SessionError> {
        let holder = self.authenticate(text).map_err(|_| SessionError::NoCredential)?;
        let key = holder.auth.key().ok_or(SessionError::NoCredential)?.clone();
        let secret = secret()?;
        let lifetime = chrono::Duration::from_std(lifetime).ok();
        let end = lifetime.and_then(|lifetime| self.inner.clock.now().checked_add_signed(lifetime));
        let expires_at = end.ok_or(SessionError::Off)?;
        self.inner.links.add(digest(&secret), key, expires_at);
        Ok(Secret::new(secret))
    }

    /// Uses up the link with `secret`, and returns its principal.
    pub(crate) fn use_sign_in_link(&self, secret: &str) -> Result<Arc<Principal>, SessionError> {
        let key = self.inner.links.take(digest(secret), self.inner.clock.now());
        let key = key.ok_or(SessionError::NoSuchLink)?;
        self.inner.holder(|table| table.by_id(&key)).map_err(|_| SessionError::NoSuchLink)
    }
}

impl Inner {
    /// The principal of the session that `find` selects, with the current rights of its credential.
    pub(super) fn session_holder(
        &self,
        find: impl FnOnce(&Table) -> Option<Arc<KeyEntry>>,
    ) -> Result<Arc<Principal>, AuthError> {
        let session = self.holder(|table| find(table).filter(|known| known.is_session()))?;
        let credential = match &session.auth {
            AuthMethod::ApiKey(key) => {
                self.holder(|table| table.by_id(key).filter(|known| known.is_key()))?
            }
            AuthMethod::Jwt(token) => {
                let policy = self.policy.load();
                policy.tokens.renew(&session, token, &policy.roles, self.clock.now())?
            }
            AuthMethod::Anonymous | AuthMethod::Operator => return Err(AuthError::Invalid),
        };
        if credential.id != session.id || credential.tenant != session.tenant {
            return Err(AuthError::Invalid);
        }
        Ok(Arc::new(Principal { session: session.session.clone(), ..(*credential).clone() }))
    }
}

/// Whether `caller` may see and close the session `key`.
fn may_end(caller: &Principal, key: &KeyRecord) -> bool {
    key.is_session()
        && key.tenant == caller.tenant
        && (key.principal == caller.id || RouteScope::KeysManage.is_held_by(caller))
}

fn moment(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn secret() -> Result<String, SessionError> {
    ids::secret().map_err(|_| SessionError::Randomness)
}

fn is_secret(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    text.len() == SECRET_CHARACTERS && text.bytes().all(plain)
}
