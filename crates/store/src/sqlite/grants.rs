//! Grants and pending authorizations on SQLite. Their values are sealed before they reach the
//! writer.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    credential::{
        AccountGrant, CredentialStoreError, GrantPlace, GrantSecrets, GrantStore,
        MAX_PENDING_AUTHORIZATIONS, PendingAuthorization, Secret,
    },
    id::{CredentialId, PrincipalId, TenantId},
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{all, bound, execute, first, parse, time_text, whole},
};
use crate::{
    grants::{self, GRANT, PENDING, StoredGrant, StoredPending, encode},
    rows::Columns as _,
};

/// Reseals the grants of older keys. Pending authorizations live for minutes, and are left.
pub(super) async fn reseal(store: &SqliteStore) -> Result<usize, CredentialStoreError> {
    let keys = &store.options().seal_keys;
    let sql = format!("SELECT {GRANT} FROM account_grants ORDER BY id");
    let rows = store.on_reader(move |connection| all(connection, &sql, [], grant)).await?;
    let mut resealed = 0;
    for old in rows {
        let before = old.sealed.clone();
        let Some(StoredGrant { grant, sealed }) = grants::reseal(keys, old)? else { continue };
        // A grant changed meanwhile is sealed already.
        let changed = store.on_writer(move |connection| {
            let sql = "UPDATE account_grants SET sealed = ?3 WHERE id = ?1 AND sealed = ?2";
            execute(connection, sql, params![grant.id.as_str(), before, sealed])
        });
        resealed += changed.await?;
    }
    Ok(resealed)
}

#[async_trait]
impl GrantStore for SqliteStore {
    async fn put(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<(), CredentialStoreError> {
        let stored = grants::seal(&self.options().seal_keys, grant, &secrets)?;
        Ok(self.on_writer(move |connection| insert(connection, &stored)).await?)
    }

    async fn get(
        &self,
        place: &GrantPlace,
        now: Timestamp,
    ) -> Result<Option<(AccountGrant, GrantSecrets)>, CredentialStoreError> {
        let place = place.clone();
        let found = self.on_reader(move |connection| {
            let sql = format!(
                "SELECT {GRANT} FROM account_grants \
                 WHERE tenant = ?1 AND principal = ?2 AND source = ?3 AND resource = ?4"
            );
            first(connection, &sql, place.parts(), grant)
        });
        let found = found.await?.filter(|stored| !stored.grant.has_expired(now));
        found.map(|stored| grants::open(&self.options().seal_keys, stored)).transpose()
    }

    async fn list(
        &self,
        tenant: &TenantId,
        principal: Option<&PrincipalId>,
    ) -> Result<Vec<AccountGrant>, CredentialStoreError> {
        let (tenant, principal) = (tenant.clone(), principal.cloned());
        let rows = self.on_reader(move |connection| {
            let sql = format!(
                "SELECT {GRANT} FROM account_grants \
                 WHERE tenant = ?1 AND (?2 IS NULL OR principal = ?2) \
                 ORDER BY principal, source, resource"
            );
            let principal = principal.as_ref().map(PrincipalId::as_str);
            all(connection, &sql, params![tenant.as_str(), principal], grant)
        });
        Ok(rows.await?.into_iter().map(|stored| stored.grant).collect())
    }

    async fn change(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<bool, CredentialStoreError> {
        let seen = grant.revision;
        let next = AccountGrant { revision: seen.saturating_add(1), ..grant };
        let stored = grants::seal(&self.options().seal_keys, next, &secrets)?;
        let changed = self.on_writer(move |connection| {
            let sql = "UPDATE account_grants SET terms = ?7, changed_at = ?8, expires_at = ?9, \
                       revision = ?10, sealed = ?11 \
                       WHERE id = ?1 AND tenant = ?2 AND principal = ?3 AND source = ?4 \
                       AND resource = ?5 AND revision = ?6";
            let StoredGrant { grant, sealed } = &stored;
            let [tenant, principal, source, resource] = grant.place.parts();
            let params = params![
                grant.id.as_str(),
                tenant,
                principal,
                source,
                resource,
                bound(seen),
                encode(&grant.terms)?,
                time_text(grant.changed_at),
                grant.expires_at.map(time_text),
                bound(grant.revision),
                sealed,
            ];
            execute(connection, sql, params)
        });
        Ok(changed.await? > 0)
    }

    async fn remove(
        &self,
        tenant: &TenantId,
        id: &CredentialId,
    ) -> Result<bool, CredentialStoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        let removed = self.on_writer(move |connection| {
            let sql = "DELETE FROM account_grants WHERE tenant = ?1 AND id = ?2";
            execute(connection, sql, [tenant.as_str(), id.as_str()])
        });
        Ok(removed.await? > 0)
    }

    async fn begin(
        &self,
        pending: PendingAuthorization,
        verifier: Secret,
    ) -> Result<bool, CredentialStoreError> {
        let stored = grants::seal_pending(&self.options().seal_keys, pending, &verifier)?;
        Ok(self.on_writer(move |connection| begin(connection, &stored)).await?)
    }

    async fn take(
        &self,
        state: &Digest,
        now: Timestamp,
    ) -> Result<Option<(PendingAuthorization, Secret)>, CredentialStoreError> {
        let state = *state;
        let taken = self.on_writer(move |connection| {
            let sql =
                format!("DELETE FROM pending_authorizations WHERE state = ?1 RETURNING {PENDING}");
            first(connection, &sql, params![state.0], pending)
        });
        let Some(stored) = taken.await? else { return Ok(None) };
        grants::open_pending(&self.options().seal_keys, stored, now)
    }

    async fn sweep(&self, now: Timestamp) -> Result<u64, CredentialStoreError> {
        let now = time_text(now);
        let swept = self.on_writer(move |connection| {
            let grants = "DELETE FROM account_grants WHERE expires_at <= ?1";
            let pending = "DELETE FROM pending_authorizations WHERE expires_at <= ?1";
            Ok(execute(connection, grants, [&now])? + execute(connection, pending, [&now])?)
        });
        Ok(u64::try_from(swept.await?).unwrap_or(u64::MAX))
    }
}

fn insert(connection: &Connection, stored: &StoredGrant) -> Result<(), Failure> {
    let StoredGrant { grant, sealed } = stored;
    let place = grant.place.parts();
    let created = time_text(grant.created_at);
    execute(connection, "DELETE FROM account_grants WHERE expires_at <= ?1", [&created])?;
    let sql = "DELETE FROM account_grants \
               WHERE tenant = ?1 AND principal = ?2 AND source = ?3 AND resource = ?4";
    execute(connection, sql, place)?;
    let sql = format!(
        "INSERT INTO account_grants ({GRANT}) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
    );
    let [tenant, principal, source, resource] = place;
    let params = params![
        grant.id.as_str(),
        tenant,
        principal,
        source,
        resource,
        encode(&grant.terms)?,
        created,
        time_text(grant.changed_at),
        grant.expires_at.map(time_text),
        bound(grant.revision),
        sealed,
    ];
    let inserted = execute(connection, &sql, params);
    inserted.map_err(|failure| failure.conflict_over("a grant with this id"))?;
    Ok(())
}

fn begin(connection: &Connection, stored: &StoredPending) -> Result<bool, Failure> {
    let StoredPending { pending, sealed } = stored;
    let [tenant, principal, source, resource] = pending.place.parts();
    let created = time_text(pending.created_at);
    let sql = "DELETE FROM pending_authorizations \
               WHERE tenant = ?1 AND principal = ?2 AND expires_at <= ?3";
    execute(connection, sql, [tenant, principal, &created])?;
    let sql = "SELECT count(*) FROM pending_authorizations WHERE tenant = ?1 AND principal = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let others = statement.query_row([tenant, principal], |row| row.get(0))?;
    if whole(others)? >= MAX_PENDING_AUTHORIZATIONS as u64 {
        return Ok(false);
    }
    let sql = format!(
        "INSERT INTO pending_authorizations ({PENDING}) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
    );
    let params = params![
        pending.state.0,
        pending.id.as_str(),
        tenant,
        principal,
        source,
        resource,
        encode(&pending.terms)?,
        created,
        time_text(pending.expires_at),
        sealed,
    ];
    let inserted = execute(connection, &sql, params);
    inserted.map_err(|failure| failure.conflict_over("an authorization with this state"))?;
    Ok(true)
}

fn grant(row: &Row<'_>) -> Result<StoredGrant, Failure> {
    let id: String = row.get(0)?;
    // An id is not a secret; it identifies the account to connect again.
    let unreadable = || Failure::corrupt(format!("the grant with id {id}"));
    let grant = AccountGrant {
        place: place(row, 1, unreadable)?,
        terms: grants::decode(&row.get::<_, String>(5)?).ok_or_else(unreadable)?,
        created_at: row.time(6, unreadable)?.ok_or_else(unreadable)?,
        changed_at: row.time(7, unreadable)?.ok_or_else(unreadable)?,
        expires_at: row.time(8, unreadable)?,
        revision: whole(row.get(9)?)?,
        id: parse(id.clone(), unreadable)?,
    };
    Ok(StoredGrant { grant, sealed: row.get(10)? })
}

fn pending(row: &Row<'_>) -> Result<StoredPending, Failure> {
    let id: String = row.get(1)?;
    let unreadable = || Failure::corrupt(format!("the pending authorization with id {id}"));
    let pending = PendingAuthorization {
        state: Digest(row.get(0)?),
        place: place(row, 2, unreadable)?,
        terms: grants::decode(&row.get::<_, String>(6)?).ok_or_else(unreadable)?,
        created_at: row.time(7, unreadable)?.ok_or_else(unreadable)?,
        expires_at: row.time(8, unreadable)?.ok_or_else(unreadable)?,
        id: parse(id.clone(), unreadable)?,
    };
    Ok(StoredPending { pending, sealed: row.get(9)? })
}

/// Reads the place in the four columns from `at` on.
fn place(
    row: &Row<'_>,
    at: usize,
    unreadable: impl Fn() -> Failure + Copy,
) -> Result<GrantPlace, Failure> {
    Ok(GrantPlace {
        tenant: parse(row.get(at)?, unreadable)?,
        principal: parse(row.get(at + 1)?, unreadable)?,
        source: parse(row.get(at + 2)?, unreadable)?,
        resource: row.get(at + 3)?,
    })
}
