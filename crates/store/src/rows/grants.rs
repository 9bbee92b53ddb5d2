//! Grants. Values are sealed before they reach the database and opened after they left it.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    canonical::Digest,
    clock::{ReadStart, Timestamp},
    credential::{
        AccountGrant, ConnectLink, CredentialStoreError, GrantPlace, GrantSecrets, GrantStore,
        Owner, PendingAuthorization, RegisteredClient, Secret,
    },
    id::{CredentialId, PrincipalId, SourceId, TenantId},
    store::StoreError,
};

use super::{
    Columns, Database, FromRow, Reader, Statement, authorizations,
    grant_columns::{encode, place},
    oauth_clients, values,
};
use crate::{known_grants::Changed, seal::SealKeys, seal_places};

const GRANT: &str = "id, tenant, principal, source, terms, created_at, changed_at, expires_at, \
                     last_used_at, revision, sealed";

/// The grants of a database, and what people need to connect accounts.
pub(crate) struct Grants<D>(pub(crate) D);

/// Reseals the grants and clients of older keys. Pending authorizations live for minutes, and are
/// left.
pub(crate) async fn reseal(database: &impl Database) -> Result<usize, CredentialStoreError> {
    let keys = &database.options().seal_keys;
    let all = Statement::new(format!("SELECT {GRANT} FROM account_grants ORDER BY id"), Vec::new());
    let mut resealed = oauth_clients::reseal(database).await?;
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

impl<D: Database> Grants<D> {
    /// The grants of a tenant, or of one `principal` in it; the tenant's own has an empty one.
    async fn listed(
        &self,
        tenant: &TenantId,
        principal: Option<&str>,
    ) -> Result<Vec<AccountGrant>, CredentialStoreError> {
        let sql = format!("SELECT {GRANT} FROM account_grants WHERE tenant = ?1");
        let query = Statement::new(sql, values![tenant.as_str()])
            .and("principal = ?", principal)
            .then(" ORDER BY principal, source");
        let rows = self.0.rows::<StoredGrant>(query).await?;
        Ok(rows.into_iter().map(|stored| stored.grant).collect())
    }
}

#[async_trait]
impl<D: Database> GrantStore for Grants<D> {
    async fn put(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<(), CredentialStoreError> {
        let place = grant.place.clone();
        let _change = self.0.known_grants().change(Changed::At(&place));
        let expired = "DELETE FROM account_grants WHERE expires_at <= ?1";
        let [tenant, principal, source] = place.parts();
        let replaced = "DELETE FROM account_grants \
                        WHERE tenant = ?1 AND principal = ?2 AND source = ?3";
        let statements = vec![
            Statement::new(expired, values![grant.created_at]),
            Statement::new(replaced, values![tenant, principal, source]),
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
        let [tenant, principal, source] = place.parts();
        let sql = format!(
            "SELECT {GRANT} FROM account_grants \
             WHERE tenant = ?1 AND principal = ?2 AND source = ?3"
        );
        let query = Statement::new(sql, values![tenant, principal, source]);
        let found = self.0.rows::<StoredGrant>(query).await?.pop();
        let found = found.filter(|stored| !stored.grant.has_expired(now));
        found.map(|stored| open(&self.0.options().seal_keys, stored)).transpose()
    }

    async fn recent(
        &self,
        place: &GrantPlace,
        now: ReadStart,
    ) -> Result<Option<Arc<(AccountGrant, GrantSecrets)>>, CredentialStoreError> {
        let known = self.0.known_grants();
        let read = match known.find(place, now) {
            Ok(grant) => return Ok(Some(grant).filter(|grant| !grant.0.has_expired(now.time()))),
            Err(read) => read,
        };
        let found = self.get(place, now.time()).await?.map(Arc::new);
        found.iter().for_each(|grant| known.keep(&read, grant));
        Ok(found)
    }

    async fn note_used(
        &self,
        mut used: Vec<(CredentialId, Timestamp)>,
    ) -> Result<(), CredentialStoreError> {
        // In one order, so that two processes do not wait for one another.
        used.sort_unstable_by(|a, b| (a.0.as_str(), a.1).cmp(&(b.0.as_str(), b.1)));
        let sql = "UPDATE account_grants SET last_used_at = ?2 \
                   WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";
        let notes = used.iter().map(|(id, at)| Statement::new(sql, values![id.as_str(), *at]));
        self.0.run_locked("toolcrib uses of grants".to_owned(), notes.collect()).await?;
        Ok(())
    }

    async fn list(&self, tenant: &TenantId) -> Result<Vec<AccountGrant>, CredentialStoreError> {
        self.listed(tenant, None).await
    }

    async fn list_of(&self, owner: &Owner) -> Result<Vec<AccountGrant>, CredentialStoreError> {
        let principal = owner.principal.as_ref().map_or("", PrincipalId::as_str);
        self.listed(&owner.tenant, Some(principal)).await
    }

    async fn issuer_of(
        &self,
        tenant: &TenantId,
        source: &SourceId,
    ) -> Result<Option<String>, CredentialStoreError> {
        let sql = format!(
            "SELECT {GRANT} FROM account_grants WHERE tenant = ?1 AND source = ?2 \
             ORDER BY created_at, id LIMIT 1"
        );
        let query = Statement::new(sql, values![tenant.as_str(), source.as_str()]);
        let first = self.0.rows::<StoredGrant>(query).await?.pop();
        Ok(first.map(|stored| stored.grant.terms.issuer))
    }

    async fn change(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<bool, CredentialStoreError> {
        let place = grant.place.clone();
        let _change = self.0.known_grants().change(Changed::At(&place));
        let seen = grant.revision;
        let next = AccountGrant { revision: seen.saturating_add(1), ..grant };
        let StoredGrant { grant, sealed } = seal(&self.0.options().seal_keys, next, &secrets)?;
        let sql = "UPDATE account_grants SET terms = ?6, changed_at = ?7, expires_at = ?8, \
                   revision = ?9, sealed = ?10 \
                   WHERE id = ?1 AND tenant = ?2 AND principal = ?3 AND source = ?4 \
                   AND revision = ?5";
        let [tenant, principal, source] = grant.place.parts();
        let params = values![
            grant.id.as_str(),
            tenant,
            principal,
            source,
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
        let _change = self.0.known_grants().change(Changed::Id(id));
        let sql = "DELETE FROM account_grants WHERE tenant = ?1 AND id = ?2";
        Ok(self.0.run(Statement::new(sql, values![tenant.as_str(), id.as_str()])).await? > 0)
    }

    async fn begin(
        &self,
        pending: PendingAuthorization,
        verifier: Secret,
    ) -> Result<bool, CredentialStoreError> {
        authorizations::begin(&self.0, pending, verifier).await
    }

    async fn take(
        &self,
        state: &Digest,
        now: Timestamp,
    ) -> Result<Option<(PendingAuthorization, Secret)>, CredentialStoreError> {
        authorizations::take(&self.0, state, now).await
    }

    async fn lease(
        &self,
        id: &CredentialId,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, CredentialStoreError> {
        // One statement decides, so that one of several holders is permitted.
        let sql = "UPDATE account_grants SET lease_holder = ?2, leased_until = ?4 WHERE id = ?1 \
                   AND (lease_holder IS NULL OR lease_holder = ?2 OR leased_until <= ?3)";
        let params = values![id.as_str(), holder, now, until];
        Ok(self.0.run(Statement::new(sql, params)).await? > 0)
    }

    async fn end_lease(&self, id: &CredentialId, holder: &str) -> Result<(), CredentialStoreError> {
        let sql = "UPDATE account_grants SET lease_holder = NULL, leased_until = NULL \
                   WHERE id = ?1 AND lease_holder = ?2";
        self.0.run(Statement::new(sql, values![id.as_str(), holder])).await?;
        Ok(())
    }

    async fn add_link(&self, link: ConnectLink) -> Result<(), CredentialStoreError> {
        authorizations::add_link(&self.0, &link).await
    }

    async fn link(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<ConnectLink>, CredentialStoreError> {
        authorizations::link(&self.0, hash, now).await
    }

    async fn take_link(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<ConnectLink>, CredentialStoreError> {
        authorizations::take_link(&self.0, hash, now).await
    }

    async fn put_client(&self, client: RegisteredClient) -> Result<(), CredentialStoreError> {
        oauth_clients::put(&self.0, client).await
    }

    async fn client(
        &self,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<Option<RegisteredClient>, CredentialStoreError> {
        oauth_clients::get(&self.0, issuer, redirect_uri).await
    }

    async fn remove_client(
        &self,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<bool, CredentialStoreError> {
        oauth_clients::remove(&self.0, issuer, redirect_uri).await
    }

    async fn sweep(&self, now: Timestamp) -> Result<u64, CredentialStoreError> {
        let mut swept = 0;
        for sql in [
            "DELETE FROM account_grants WHERE expires_at <= ?1",
            "DELETE FROM pending_authorizations WHERE expires_at <= ?1",
            "DELETE FROM connect_links WHERE expires_at <= ?1",
        ] {
            swept += self.0.run(Statement::new(sql, values![now])).await?;
        }
        Ok(u64::try_from(swept).unwrap_or(u64::MAX))
    }
}

/// The lock for the insertions of one owner, so that one of two grants for a place replaces the
/// other.
fn lock_of(place: &GrantPlace) -> String {
    let [tenant, principal, _source] = place.parts();
    format!("toolcrib grants {tenant} {principal}")
}

fn insert(stored: &StoredGrant) -> Result<Statement, StoreError> {
    let StoredGrant { grant, sealed } = stored;
    let [tenant, principal, source] = grant.place.parts();
    let params = values![
        grant.id.as_str(),
        tenant,
        principal,
        source,
        encode(&grant.terms)?,
        grant.created_at,
        grant.changed_at,
        grant.expires_at,
        grant.last_used_at,
        grant.revision,
        sealed.clone(),
    ];
    Ok(Statement::insert("account_grants", GRANT, params).or_conflict("a grant with this id"))
}

/// A row of a grant: all fields, with the values sealed.
struct StoredGrant {
    grant: AccountGrant,
    sealed: Vec<u8>,
}

/// A grant as it is stored: with times in milliseconds, and its values sealed.
fn seal(
    keys: &SealKeys,
    grant: AccountGrant,
    secrets: &GrantSecrets,
) -> Result<StoredGrant, CredentialStoreError> {
    let grant = AccountGrant {
        created_at: grant.created_at.trunc_subsecs(3),
        changed_at: grant.changed_at.trunc_subsecs(3),
        expires_at: grant.expires_at.map(|at| at.trunc_subsecs(3)),
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

impl FromRow for StoredGrant {
    fn from_row<R: Columns>(row: &R) -> Result<Self, R::Failure> {
        let row = Reader::with_id(row, "the grant");
        let grant = AccountGrant {
            id: row.id(0)?,
            place: place(&row, 1)?,
            terms: row.json(4)?,
            created_at: row.time(5)?,
            changed_at: row.time(6)?,
            expires_at: row.maybe_time(7)?,
            last_used_at: row.maybe_time(8)?,
            revision: row.whole(9)?,
        };
        Ok(Self { grant, sealed: row.bytes(10)? })
    }
}
