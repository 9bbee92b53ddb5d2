//! Grants and pending authorizations. Their values are sealed before they reach the database.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
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
    failure::{Failure, within},
    handle::PostgresStore,
    row::{self, Param, bound, execute, first, one, parse, rows, stored_time, whole},
};
use crate::grants::{self, GRANT, PENDING, StoredGrant, StoredPending, encode};

/// Reseals the grants of older keys. Pending authorizations live for minutes, and are left.
pub(super) async fn reseal(store: &PostgresStore) -> Result<usize, CredentialStoreError> {
    let keys = &store.options().seal_keys;
    let found = within(async {
        let sql = format!("SELECT {GRANT} FROM account_grants ORDER BY id");
        let found = rows(&store.client().await?, &sql, &[]).await?;
        found.iter().map(grant).collect::<Result<Vec<_>, _>>()
    });
    let mut resealed = 0;
    for old in found.await? {
        let before = old.sealed.clone();
        let Some(StoredGrant { grant, sealed }) = grants::reseal(keys, old)? else { continue };
        let changed = within(async {
            // A grant changed meanwhile is sealed already.
            let sql = "UPDATE account_grants SET sealed = $3 WHERE id = $1 AND sealed = $2";
            let params: [Param<'_>; 3] = [&grant.id.as_str(), &before, &sealed];
            execute(&store.client().await?, sql, &params).await
        });
        resealed += usize::from(changed.await? > 0);
    }
    Ok(resealed)
}

#[async_trait]
impl GrantStore for PostgresStore {
    async fn put(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<(), CredentialStoreError> {
        let stored = grants::seal(&self.options().seal_keys, grant, &secrets)?;
        Ok(within(insert(self, &stored)).await?)
    }

    async fn get(
        &self,
        place: &GrantPlace,
        now: Timestamp,
    ) -> Result<Option<(AccountGrant, GrantSecrets)>, CredentialStoreError> {
        let found = within(async {
            let sql = format!(
                "SELECT {GRANT} FROM account_grants \
                 WHERE tenant = $1 AND principal = $2 AND source = $3 AND resource = $4"
            );
            let [tenant, principal, source, resource] = place.parts();
            let params: [Param<'_>; 4] = [&tenant, &principal, &source, &resource];
            let found = first(&self.client().await?, &sql, &params).await?;
            found.as_ref().map(grant).transpose()
        });
        let found = found.await?.filter(|stored| !stored.grant.has_expired(now));
        found.map(|stored| grants::open(&self.options().seal_keys, stored)).transpose()
    }

    async fn list(
        &self,
        tenant: &TenantId,
        principal: Option<&PrincipalId>,
    ) -> Result<Vec<AccountGrant>, CredentialStoreError> {
        let found = within(async {
            let sql = format!(
                "SELECT {GRANT} FROM account_grants \
                 WHERE tenant = $1 AND ($2::text IS NULL OR principal = $2) \
                 ORDER BY principal, source, resource"
            );
            let principal = principal.map(PrincipalId::as_str);
            let params: [Param<'_>; 2] = [&tenant.as_str(), &principal];
            let found = rows(&self.client().await?, &sql, &params).await?;
            found.iter().map(grant).collect::<Result<Vec<_>, _>>()
        });
        Ok(found.await?.into_iter().map(|stored| stored.grant).collect())
    }

    async fn change(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<bool, CredentialStoreError> {
        let seen = grant.revision;
        let next = AccountGrant { revision: seen.saturating_add(1), ..grant };
        let stored = grants::seal(&self.options().seal_keys, next, &secrets)?;
        let changed = within(async {
            let sql = "UPDATE account_grants SET terms = $7, changed_at = $8, expires_at = $9, \
                       revision = $10, sealed = $11 \
                       WHERE id = $1 AND tenant = $2 AND principal = $3 AND source = $4 \
                       AND resource = $5 AND revision = $6";
            let StoredGrant { grant, sealed } = &stored;
            let [tenant, principal, source, resource] = grant.place.parts();
            let terms = encode(&grant.terms).map_err(Failure::Store)?;
            let params: [Param<'_>; 11] = [
                &grant.id.as_str(),
                &tenant,
                &principal,
                &source,
                &resource,
                &bound(seen),
                &terms,
                &grant.changed_at,
                &grant.expires_at,
                &bound(grant.revision),
                sealed,
            ];
            execute(&self.client().await?, sql, &params).await
        });
        Ok(changed.await? > 0)
    }

    async fn remove(
        &self,
        tenant: &TenantId,
        id: &CredentialId,
    ) -> Result<bool, CredentialStoreError> {
        let removed = within(async {
            let sql = "DELETE FROM account_grants WHERE tenant = $1 AND id = $2";
            execute(&self.client().await?, sql, &[&tenant.as_str(), &id.as_str()]).await
        });
        Ok(removed.await? > 0)
    }

    async fn begin(
        &self,
        pending: PendingAuthorization,
        verifier: Secret,
    ) -> Result<bool, CredentialStoreError> {
        let stored = grants::seal_pending(&self.options().seal_keys, pending, &verifier)?;
        Ok(within(begin(self, &stored)).await?)
    }

    async fn take(
        &self,
        state: &Digest,
        now: Timestamp,
    ) -> Result<Option<(PendingAuthorization, Secret)>, CredentialStoreError> {
        let taken = within(async {
            let sql =
                format!("DELETE FROM pending_authorizations WHERE state = $1 RETURNING {PENDING}");
            let taken = first(&self.client().await?, &sql, &[&state.0.as_slice()]).await?;
            taken.as_ref().map(pending).transpose()
        });
        let Some(stored) = taken.await? else { return Ok(None) };
        grants::open_pending(&self.options().seal_keys, stored, now)
    }

    async fn sweep(&self, now: Timestamp) -> Result<u64, CredentialStoreError> {
        let swept = within(async {
            let (client, now) = (self.client().await?, stored_time(now));
            let grants = "DELETE FROM account_grants WHERE expires_at <= $1";
            let pending = "DELETE FROM pending_authorizations WHERE expires_at <= $1";
            let swept = execute(&client, grants, &[&now]).await?;
            Ok(swept + execute(&client, pending, &[&now]).await?)
        });
        Ok(swept.await?)
    }
}

async fn insert(store: &PostgresStore, stored: &StoredGrant) -> Result<(), Failure> {
    let StoredGrant { grant, sealed } = stored;
    let [tenant, principal, source, resource] = grant.place.parts();
    let terms = encode(&grant.terms).map_err(Failure::Store)?;
    let mut client = store.client().await?;
    let transaction = client.transaction().await?;
    lock(&transaction, &grant.place).await?;
    let expired = "DELETE FROM account_grants WHERE expires_at <= $1";
    execute(&transaction, expired, &[&grant.created_at]).await?;
    let sql = "DELETE FROM account_grants \
               WHERE tenant = $1 AND principal = $2 AND source = $3 AND resource = $4";
    execute(&transaction, sql, &[&tenant, &principal, &source, &resource]).await?;
    let sql = format!(
        "INSERT INTO account_grants ({GRANT}) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
    );
    let params: [Param<'_>; 11] = [
        &grant.id.as_str(),
        &tenant,
        &principal,
        &source,
        &resource,
        &terms,
        &grant.created_at,
        &grant.changed_at,
        &grant.expires_at,
        &bound(grant.revision),
        sealed,
    ];
    let inserted = execute(&transaction, &sql, &params).await;
    inserted.map_err(|failure| failure.conflict_over("a grant with this id"))?;
    transaction.commit().await?;
    Ok(())
}

async fn begin(store: &PostgresStore, stored: &StoredPending) -> Result<bool, Failure> {
    let StoredPending { pending, sealed } = stored;
    let [tenant, principal, source, resource] = pending.place.parts();
    let terms = encode(&pending.terms).map_err(Failure::Store)?;
    let mut client = store.client().await?;
    let transaction = client.transaction().await?;
    lock(&transaction, &pending.place).await?;
    let sql = "DELETE FROM pending_authorizations \
               WHERE tenant = $1 AND principal = $2 AND expires_at <= $3";
    execute(&transaction, sql, &[&tenant, &principal, &pending.created_at]).await?;
    let sql = "SELECT count(*) FROM pending_authorizations WHERE tenant = $1 AND principal = $2";
    let others = one(&transaction, sql, &[&tenant, &principal]).await?.try_get(0)?;
    if whole(others)? >= MAX_PENDING_AUTHORIZATIONS as u64 {
        return Ok(false);
    }
    let sql = format!(
        "INSERT INTO pending_authorizations ({PENDING}) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
    );
    let params: [Param<'_>; 10] = [
        &pending.state.0.as_slice(),
        &pending.id.as_str(),
        &tenant,
        &principal,
        &source,
        &resource,
        &terms,
        &pending.created_at,
        &pending.expires_at,
        sealed,
    ];
    let inserted = execute(&transaction, &sql, &params).await;
    inserted.map_err(|failure| failure.conflict_over("an authorization with this state"))?;
    transaction.commit().await?;
    Ok(true)
}

/// Insertions of one principal happen one after the other, so that limits are exact.
async fn lock(transaction: &impl GenericClient, place: &GrantPlace) -> Result<(), Failure> {
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended( \
               'toolcrib grants ' || $1::text || ' ' || $2::text, 0))";
    let (tenant, principal) = (place.tenant.as_str(), place.principal.as_str());
    one(transaction, sql, &[&tenant, &principal]).await.map(drop)
}

fn grant(row: &Row) -> Result<StoredGrant, Failure> {
    let id: String = row.try_get(0)?;
    // An id is not a secret; it identifies the account to connect again.
    let unreadable = || Failure::corrupt(format!("the grant with id {id}"));
    let grant = AccountGrant {
        place: place(row, 1, unreadable)?,
        terms: grants::decode(row.try_get(5)?).ok_or_else(unreadable)?,
        created_at: row.try_get(6)?,
        changed_at: row.try_get(7)?,
        expires_at: row.try_get(8)?,
        revision: whole(row.try_get(9)?)?,
        id: parse(id.clone(), unreadable)?,
    };
    Ok(StoredGrant { grant, sealed: row.try_get(10)? })
}

fn pending(row: &Row) -> Result<StoredPending, Failure> {
    let id: String = row.try_get(1)?;
    let unreadable = || Failure::corrupt(format!("the pending authorization with id {id}"));
    let pending = PendingAuthorization {
        state: row::digest(row, 0)?.ok_or_else(unreadable)?,
        place: place(row, 2, unreadable)?,
        terms: grants::decode(row.try_get(6)?).ok_or_else(unreadable)?,
        created_at: row.try_get(7)?,
        expires_at: row.try_get(8)?,
        id: parse(id.clone(), unreadable)?,
    };
    Ok(StoredPending { pending, sealed: row.try_get(9)? })
}

/// Reads the place in the four columns from `at` on.
fn place(
    row: &Row,
    at: usize,
    unreadable: impl Fn() -> Failure + Copy,
) -> Result<GrantPlace, Failure> {
    Ok(GrantPlace {
        tenant: parse(row.try_get(at)?, unreadable)?,
        principal: parse(row.try_get(at + 1)?, unreadable)?,
        source: parse(row.try_get(at + 2)?, unreadable)?,
        resource: row.try_get(at + 3)?,
    })
}
