//! Grants and pending authorizations. Values are sealed before they reach the database and opened
//! after they left it.

use async_trait::async_trait;
use serde::Serialize;
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    credential::{
        AccountGrant, CredentialStoreError, GrantPlace, GrantSecrets, GrantStore,
        MAX_PENDING_AUTHORIZATIONS, PendingAuthorization, Secret,
    },
    id::{CredentialId, PrincipalId, TenantId},
    store::StoreError,
};

use super::{Columns, Database, FromRow, Reader, Statement, values};
use crate::{seal::SealKeys, seal_places};

const GRANT: &str = "id, tenant, principal, source, resource, terms, created_at, changed_at, \
                     expires_at, revision, sealed";
const PENDING: &str = "id, state, tenant, principal, source, resource, terms, created_at, \
                       expires_at, sealed";

/// The grants and pending authorizations of a database.
pub(crate) struct Grants<D>(pub(crate) D);

/// Reseals the grants of older keys. Pending authorizations live for minutes, and are left.
pub(crate) async fn reseal(database: &impl Database) -> Result<usize, CredentialStoreError> {
    let keys = &database.options().seal_keys;
    let all = Statement::new(format!("SELECT {GRANT} FROM account_grants ORDER BY id"), Vec::new());
    let mut resealed = 0;
    for old in database.rows::<StoredGrant>(all).await? {
        if keys.is_current(&old.sealed) {
            continue;
        }
        let before = old.sealed.clone();
        let (grant, secrets) = open(keys, old)?;
        let StoredGrant { grant, sealed } = seal(keys, grant, &secrets)?;
        // A grant changed meanwhile is sealed already.
        let sql = "UPDATE account_grants SET sealed = ?3 WHERE id = ?1 AND sealed = ?2";
        let params = values![grant.id.as_str(), before, sealed];
        resealed += database.run(Statement::new(sql, params)).await?;
    }
    Ok(resealed)
}

#[async_trait]
impl<D: Database> GrantStore for Grants<D> {
    async fn put(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<(), CredentialStoreError> {
        let place = grant.place.clone();
        let expired = "DELETE FROM account_grants WHERE expires_at <= ?1";
        let [tenant, principal, source, resource] = place.parts();
        let replaced = "DELETE FROM account_grants \
                        WHERE tenant = ?1 AND principal = ?2 AND source = ?3 AND resource = ?4";
        let statements = vec![
            Statement::new(expired, values![grant.created_at]),
            Statement::new(replaced, values![tenant, principal, source, resource]),
            insert(&seal(&self.0.options().seal_keys, grant, &secrets)?)?,
        ];
        self.0.run_locked(lock_of(&place), statements).await?;
        Ok(())
    }

    async fn get(
        &self,
        place: &GrantPlace,
        now: Timestamp,
    ) -> Result<Option<(AccountGrant, GrantSecrets)>, CredentialStoreError> {
        let [tenant, principal, source, resource] = place.parts();
        let sql = format!(
            "SELECT {GRANT} FROM account_grants \
             WHERE tenant = ?1 AND principal = ?2 AND source = ?3 AND resource = ?4"
        );
        let query = Statement::new(sql, values![tenant, principal, source, resource]);
        let found = self.0.rows::<StoredGrant>(query).await?.pop();
        let found = found.filter(|stored| !stored.grant.has_expired(now));
        found.map(|stored| open(&self.0.options().seal_keys, stored)).transpose()
    }

    async fn list(
        &self,
        tenant: &TenantId,
        principal: Option<&PrincipalId>,
    ) -> Result<Vec<AccountGrant>, CredentialStoreError> {
        let sql = format!("SELECT {GRANT} FROM account_grants WHERE tenant = ?1");
        let query = Statement::new(sql, values![tenant.as_str()])
            .and("principal = ?", principal.map(PrincipalId::as_str))
            .then(" ORDER BY principal, source, resource");
        let rows = self.0.rows::<StoredGrant>(query).await?;
        Ok(rows.into_iter().map(|stored| stored.grant).collect())
    }

    async fn change(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<bool, CredentialStoreError> {
        let seen = grant.revision;
        let next = AccountGrant { revision: seen.saturating_add(1), ..grant };
        let StoredGrant { grant, sealed } = seal(&self.0.options().seal_keys, next, &secrets)?;
        let sql = "UPDATE account_grants SET terms = ?7, changed_at = ?8, expires_at = ?9, \
                   revision = ?10, sealed = ?11 \
                   WHERE id = ?1 AND tenant = ?2 AND principal = ?3 AND source = ?4 \
                   AND resource = ?5 AND revision = ?6";
        let [tenant, principal, source, resource] = grant.place.parts();
        let params = values![
            grant.id.as_str(),
            tenant,
            principal,
            source,
            resource,
            seen,
            encode(&grant.terms)?,
            grant.changed_at,
            grant.expires_at,
            grant.revision,
            sealed,
        ];
        Ok(self.0.run(Statement::new(sql, params)).await? > 0)
    }

    async fn remove(
        &self,
        tenant: &TenantId,
        id: &CredentialId,
    ) -> Result<bool, CredentialStoreError> {
        let sql = "DELETE FROM account_grants WHERE tenant = ?1 AND id = ?2";
        Ok(self.0.run(Statement::new(sql, values![tenant.as_str(), id.as_str()])).await? > 0)
    }

    async fn begin(
        &self,
        pending: PendingAuthorization,
        verifier: Secret,
    ) -> Result<bool, CredentialStoreError> {
        let place = pending.place.clone();
        let [tenant, principal, ..] = place.parts();
        let expired = "DELETE FROM pending_authorizations \
                       WHERE tenant = ?1 AND principal = ?2 AND expires_at <= ?3";
        let over_limit = "DELETE FROM pending_authorizations WHERE state = ?1 AND \
                          (SELECT count(*) FROM pending_authorizations \
                           WHERE tenant = ?2 AND principal = ?3) > ?4";
        let (state, most) = (pending.state.0, MAX_PENDING_AUTHORIZATIONS as u64);
        let statements = vec![
            Statement::new(expired, values![tenant, principal, pending.created_at]),
            insert_pending(&seal_pending(&self.0.options().seal_keys, pending, &verifier)?)?,
            Statement::new(over_limit, values![state, tenant, principal, most]),
        ];
        Ok(self.0.run_locked(lock_of(&place), statements).await? == 0)
    }

    async fn take(
        &self,
        state: &Digest,
        now: Timestamp,
    ) -> Result<Option<(PendingAuthorization, Secret)>, CredentialStoreError> {
        let sql =
            format!("DELETE FROM pending_authorizations WHERE state = ?1 RETURNING {PENDING}");
        let taken = self.0.take(Statement::new(sql, values![state.0])).await?;
        let Some(stored) = taken else { return Ok(None) };
        open_pending(&self.0.options().seal_keys, stored, now)
    }

    async fn sweep(&self, now: Timestamp) -> Result<u64, CredentialStoreError> {
        let mut swept = 0;
        for sql in [
            "DELETE FROM account_grants WHERE expires_at <= ?1",
            "DELETE FROM pending_authorizations WHERE expires_at <= ?1",
        ] {
            swept += self.0.run(Statement::new(sql, values![now])).await?;
        }
        Ok(u64::try_from(swept).unwrap_or(u64::MAX))
    }
}

/// The lock for the insertions of one principal, which makes limits exact.
fn lock_of(place: &GrantPlace) -> String {
    format!("toolcrib grants {} {}", place.tenant, place.principal)
}

fn insert(stored: &StoredGrant) -> Result<Statement, StoreError> {
    let StoredGrant { grant, sealed } = stored;
    let [tenant, principal, source, resource] = grant.place.parts();
    let params = values![
        grant.id.as_str(),
        tenant,
        principal,
        source,
        resource,
        encode(&grant.terms)?,
        grant.created_at,
        grant.changed_at,
        grant.expires_at,
        grant.revision,
        sealed.clone(),
    ];
    Ok(Statement::insert("account_grants", GRANT, params).or_conflict("a grant with this id"))
}

fn insert_pending(stored: &StoredPending) -> Result<Statement, StoreError> {
    let StoredPending { pending, sealed } = stored;
    let [tenant, principal, source, resource] = pending.place.parts();
    let params = values![
        pending.id.as_str(),
        pending.state.0,
        tenant,
        principal,
        source,
        resource,
        encode(&pending.terms)?,
        pending.created_at,
        pending.expires_at,
        sealed.clone(),
    ];
    let insert = Statement::insert("pending_authorizations", PENDING, params);
    Ok(insert.or_conflict("an authorization with this state"))
}

/// A row of a grant: all fields, with the values sealed.
struct StoredGrant {
    grant: AccountGrant,
    sealed: Vec<u8>,
}

/// A row of a pending authorization, with the verifier sealed.
struct StoredPending {
    pending: PendingAuthorization,
    sealed: Vec<u8>,
}

/// The column with the terms.
fn encode(terms: &impl Serialize) -> Result<String, StoreError> {
    let unwritable = |_| StoreError::Unavailable("the terms have no JSON form".to_owned());
    serde_json::to_string(terms).map_err(unwritable)
}

/// A grant as it is stored: with times in milliseconds, and its values sealed.
fn seal(
    keys: &SealKeys,
    grant: AccountGrant,
    secrets: &GrantSecrets,
) -> Result<StoredGrant, CredentialStoreError> {
    let grant = AccountGrant {
        created_at: in_millis(grant.created_at),
        changed_at: in_millis(grant.changed_at),
        expires_at: grant.expires_at.map(in_millis),
        ..grant
    };
    let GrantSecrets { access_token, refresh_token, client_secret } = secrets;
    let parts = [access_token, refresh_token, client_secret].map(Option::as_ref);
    let sealed = keys.seal_secrets(&seal_places::grant(&grant, &encode(&grant.terms)?), &parts)?;
    Ok(StoredGrant { grant, sealed })
}

/// Opens the values of a grant.
fn open(
    keys: &SealKeys,
    stored: StoredGrant,
) -> Result<(AccountGrant, GrantSecrets), CredentialStoreError> {
    let StoredGrant { grant, sealed } = stored;
    let place = seal_places::grant(&grant, &encode(&grant.terms)?);
    let parts = keys.open_secrets(&grant.id, &place, &sealed)?;
    let [access_token, refresh_token, client_secret] = parts;
    Ok((grant, GrantSecrets { access_token, refresh_token, client_secret }))
}

/// A pending authorization as it is stored.
fn seal_pending(
    keys: &SealKeys,
    pending: PendingAuthorization,
    verifier: &Secret,
) -> Result<StoredPending, CredentialStoreError> {
    let pending = PendingAuthorization {
        created_at: in_millis(pending.created_at),
        expires_at: in_millis(pending.expires_at),
        ..pending
    };
    let place = seal_places::pending(&pending, &encode(&pending.terms)?);
    let sealed = keys.seal_secrets(&place, &[Some(verifier)])?;
    Ok(StoredPending { pending, sealed })
}

/// Opens the verifier of a pending authorization, unless it has expired at `now`.
fn open_pending(
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

fn in_millis(at: Timestamp) -> Timestamp {
    chrono::SubsecRound::trunc_subsecs(at, 3)
}

impl FromRow for StoredGrant {
    fn from_row<R: Columns>(row: &R) -> Result<Self, R::Failure> {
        let row = Reader::with_id(row, "the grant");
        let grant = AccountGrant {
            id: row.id(0)?,
            place: place(&row, 1)?,
            terms: row.json(5)?,
            created_at: row.time(6)?,
            changed_at: row.time(7)?,
            expires_at: row.maybe_time(8)?,
            revision: row.whole(9)?,
        };
        Ok(Self { grant, sealed: row.bytes(10)? })
    }
}

impl FromRow for StoredPending {
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

/// Reads the place in the four columns from `at` on.
fn place<R: Columns>(row: &Reader<'_, R>, at: usize) -> Result<GrantPlace, R::Failure> {
    Ok(GrantPlace {
        tenant: row.id(at)?,
        principal: row.id(at + 1)?,
        source: row.id(at + 2)?,
        resource: row.text(at + 3)?,
    })
}
