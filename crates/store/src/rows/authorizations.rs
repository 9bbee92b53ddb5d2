//! Links to connect accounts, and pending authorizations. Both expire within minutes, and are
//! deleted by the statement that reads them, so that one of several callers receives them.
//!
//! Insertions of one principal hold its lock, so that the limits are exact.

use chrono::SubsecRound;
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    credential::{
        ConnectLink, CredentialStoreError, MAX_LINKS, MAX_PENDING_AUTHORIZATIONS,
        PendingAuthorization, Secret,
    },
    id::{PrincipalId, TenantId},
    store::StoreError,
};

use super::{
    Columns, Database, FromRow, Reader, Statement,
    grant_columns::{encode, place},
    values,
};
use crate::{seal::SealKeys, seal_places};

const PENDING: &str = "id, state, tenant, owner, source, principal, terms, created_at, \
                       expires_at, sealed";
const LINK: &str = "hash, tenant, owner, source, principal, created_at, expires_at";

// === pending authorizations ===

/// Stores a pending authorization, unless its principal has the most.
pub(super) async fn begin(
    database: &impl Database,
    pending: PendingAuthorization,
    verifier: Secret,
) -> Result<bool, CredentialStoreError> {
    let (tenant, principal) = (pending.place.owner.tenant.clone(), pending.terms.principal.clone());
    let expired = "DELETE FROM pending_authorizations \
                   WHERE tenant = ?1 AND principal = ?2 AND expires_at <= ?3";
    let over_limit = "DELETE FROM pending_authorizations WHERE state = ?1 AND \
                      (SELECT count(*) FROM pending_authorizations \
                       WHERE tenant = ?2 AND principal = ?3) > ?4";
    let (state, most) = (pending.state.0, MAX_PENDING_AUTHORIZATIONS as u64);
    let statements = vec![
        Statement::new(expired, values![tenant.as_str(), principal.as_str(), pending.created_at]),
        insert_pending(&seal(&database.options().seal_keys, pending, &verifier)?)?,
        Statement::new(over_limit, values![state, tenant.as_str(), principal.as_str(), most]),
    ];
    let lock = lock_of("authorizations", &tenant, &principal);
    Ok(database.run_locked(lock, statements).await? == 0)
}

/// Removes a pending authorization, and opens its verifier unless it has expired at `now`.
pub(super) async fn take(
    database: &impl Database,
    state: &Digest,
    now: Timestamp,
) -> Result<Option<(PendingAuthorization, Secret)>, CredentialStoreError> {
    let sql = format!("DELETE FROM pending_authorizations WHERE state = ?1 RETURNING {PENDING}");
    let taken = database.take(Statement::new(sql, values![state.0])).await?;
    let Some(stored) = taken else { return Ok(None) };
    open(&database.options().seal_keys, stored, now)
}

fn insert_pending(stored: &StoredPending) -> Result<Statement, StoreError> {
    let StoredPending { pending, sealed } = stored;
    let [tenant, owner, source] = pending.place.parts();
    let params = values![
        pending.id.as_str(),
        pending.state.0,
        tenant,
        owner,
        source,
        pending.terms.principal.as_str(),
        encode(&pending.terms)?,
        pending.created_at,
        pending.expires_at,
        sealed.clone(),
    ];
    let insert = Statement::insert("pending_authorizations", PENDING, params);
    Ok(insert.or_conflict("an authorization with this state"))
}

/// A row of a pending authorization, with the verifier sealed.
struct StoredPending {
    pending: PendingAuthorization,
    sealed: Vec<u8>,
}

/// A pending authorization as it is stored: with times in milliseconds, and its verifier sealed.
fn seal(
    keys: &SealKeys,
    pending: PendingAuthorization,
    verifier: &Secret,
) -> Result<StoredPending, CredentialStoreError> {
    let pending = PendingAuthorization {
        created_at: pending.created_at.trunc_subsecs(3),
        expires_at: pending.expires_at.trunc_subsecs(3),
        ..pending
    };
    let place = seal_places::pending(&pending, &encode(&pending.terms)?);
    let sealed = keys.seal_secrets(&place, &[Some(verifier)])?;
    Ok(StoredPending { pending, sealed })
}

/// Opens the verifier of a pending authorization, unless it has expired at `now`.
fn open(
    keys: &SealKeys,
    stored: StoredPending,
    now: Timestamp,
) -> Result<Option<(PendingAuthorization, Secret)>, CredentialStoreError> {
    let StoredPending { pending, sealed } = stored;
    if pending.expires_at <= now {
        return Ok(None);
    }
    let place = seal_places::pending(&pending, &encode(&pending.terms)?);
    let [verifier] = keys.open_secrets(&pending.id, &place, &sealed)?;
    let verifier = verifier.ok_or(CredentialStoreError::NotGenuine(pending.id.clone()))?;
    Ok(Some((pending, verifier)))
}

impl FromRow for StoredPending {
    /// The column of the principal only serves the limit. The terms, which are sealed, decide.
    fn from_row<R: Columns>(row: &R) -> Result<Self, R::Failure> {
        let row = Reader::with_id(row, "the pending authorization");
        let pending = PendingAuthorization {
            id: row.id(0)?,
            state: row.digest(1)?,
            place: place(&row, 2)?,
            terms: row.json(6)?,
            created_at: row.time(7)?,
            expires_at: row.time(8)?,
        };
        Ok(Self { pending, sealed: row.bytes(9)? })
    }
}

// === links ===

/// Stores a link, and removes the expired and then the oldest ones of its principal.
pub(super) async fn add_link(
    database: &impl Database,
    link: &ConnectLink,
) -> Result<(), CredentialStoreError> {
    let [tenant, owner, source] = link.place.parts();
    let principal = link.principal.as_str();
    let expired = "DELETE FROM connect_links \
                   WHERE tenant = ?1 AND principal = ?2 AND expires_at <= ?3";
    // The new link stays, also if the clock of another server is ahead.
    let over_limit = "DELETE FROM connect_links WHERE tenant = ?1 AND principal = ?2 \
                      AND hash NOT IN (SELECT hash FROM connect_links \
                       WHERE tenant = ?1 AND principal = ?2 \
                       ORDER BY hash = ?3 DESC, created_at DESC, hash LIMIT ?4)";
    let hash = link.hash.0;
    let params = values![hash, tenant, owner, source, principal, link.created_at, link.expires_at];
    let statements = vec![
        Statement::new(expired, values![tenant, principal, link.created_at]),
        Statement::insert("connect_links", LINK, params).or_conflict("a link with this secret"),
        Statement::new(over_limit, values![tenant, principal, hash, MAX_LINKS as u64]),
    ];
    let lock = lock_of("links", &link.place.owner.tenant, &link.principal);
    database.run_locked(lock, statements).await?;
    Ok(())
}

/// The link with this hash, unless it has expired at `now`.
pub(super) async fn link(
    database: &impl Database,
    hash: &Digest,
    now: Timestamp,
) -> Result<Option<ConnectLink>, CredentialStoreError> {
    let sql = format!("SELECT {LINK} FROM connect_links WHERE hash = ?1");
    let found = database.rows(Statement::new(sql, values![hash.0])).await?.pop();
    Ok(found.filter(|link: &ConnectLink| link.expires_at > now))
}

/// Removes a link, and returns it unless it has expired at `now`.
pub(super) async fn take_link(
    database: &impl Database,
    hash: &Digest,
    now: Timestamp,
) -> Result<Option<ConnectLink>, CredentialStoreError> {
    let sql = format!("DELETE FROM connect_links WHERE hash = ?1 RETURNING {LINK}");
    let taken = database.take(Statement::new(sql, values![hash.0])).await?;
    Ok(taken.filter(|link: &ConnectLink| link.expires_at > now))
}

impl FromRow for ConnectLink {
    fn from_row<R: Columns>(row: &R) -> Result<Self, R::Failure> {
        let row = Reader::new(row, "a link to connect an account");
        Ok(Self {
            hash: row.digest(0)?,
            place: place(&row, 1)?,
            principal: row.id(4)?,
            created_at: row.time(5)?,
            expires_at: row.time(6)?,
        })
    }
}

/// The lock for the insertions of one principal.
fn lock_of(what: &str, tenant: &TenantId, principal: &PrincipalId) -> String {
    format!("toolcrib {what} {tenant} {principal}")
}
