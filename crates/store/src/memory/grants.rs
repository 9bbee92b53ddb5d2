//! Grants and pending authorizations in memory, unsealed.

use std::sync::Mutex;

use async_trait::async_trait;
use chrono::SubsecRound;
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

use super::shared::lock;

/// Grants and pending authorizations in memory, unsealed.
#[derive(Debug, Default)]
pub(super) struct MemoryGrants {
    grants: Mutex<Vec<(AccountGrant, GrantSecrets)>>,
    pending: Mutex<Vec<(PendingAuthorization, Secret)>>,
}

fn as_stored(grant: AccountGrant) -> AccountGrant {
    AccountGrant {
        created_at: grant.created_at.trunc_subsecs(3),
        changed_at: grant.changed_at.trunc_subsecs(3),
        expires_at: grant.expires_at.map(|at| at.trunc_subsecs(3)),
        ..grant
    }
}

#[async_trait]
impl GrantStore for MemoryGrants {
    async fn put(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<(), CredentialStoreError> {
        let mut grants = lock(&self.grants);
        let is_replaced = |other: &AccountGrant| {
            other.place == grant.place || other.has_expired(grant.created_at)
        };
        if grants.iter().any(|(other, _)| other.id == grant.id && !is_replaced(other)) {
            return Err(StoreError::Conflict("a grant with this id".to_owned()).into());
        }
        grants.retain(|(other, _)| !is_replaced(other));
        grants.push((as_stored(grant), secrets));
        grants.sort_by(|(a, _), (b, _)| a.place.cmp(&b.place));
        Ok(())
    }

    async fn get(
        &self,
        place: &GrantPlace,
        now: Timestamp,
    ) -> Result<Option<(AccountGrant, GrantSecrets)>, CredentialStoreError> {
        let grants = lock(&self.grants);
        let found =
            grants.iter().find(|(grant, _)| grant.place == *place && !grant.has_expired(now));
        Ok(found.cloned())
    }

    async fn list(
        &self,
        tenant: &TenantId,
        principal: Option<&PrincipalId>,
    ) -> Result<Vec<AccountGrant>, CredentialStoreError> {
        let is_listed = |grant: &&AccountGrant| {
            grant.place.tenant == *tenant
                && principal.is_none_or(|who| grant.place.principal == *who)
        };
        Ok(lock(&self.grants).iter().map(|(grant, _)| grant).filter(is_listed).cloned().collect())
    }

    async fn change(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<bool, CredentialStoreError> {
        let mut grants = lock(&self.grants);
        let identity =
            |other: &AccountGrant| (other.id.clone(), other.place.clone(), other.revision);
        let found = grants.iter_mut().find(|(other, _)| identity(other) == identity(&grant));
        let Some(found) = found else { return Ok(false) };
        let (created_at, revision) = (found.0.created_at, grant.revision + 1);
        *found = (as_stored(AccountGrant { created_at, revision, ..grant }), secrets);
        Ok(true)
    }

    async fn remove(
        &self,
        tenant: &TenantId,
        id: &CredentialId,
    ) -> Result<bool, CredentialStoreError> {
        let mut grants = lock(&self.grants);
        let before = grants.len();
        grants.retain(|(grant, _)| grant.place.tenant != *tenant || grant.id != *id);
        Ok(grants.len() < before)
    }

    async fn begin(
        &self,
        pending: PendingAuthorization,
        verifier: Secret,
    ) -> Result<bool, CredentialStoreError> {
        let mut all = lock(&self.pending);
        let who = |entry: &PendingAuthorization| {
            (entry.place.tenant.clone(), entry.place.principal.clone())
        };
        let own = who(&pending);
        all.retain(|(entry, _)| who(entry) != own || entry.expires_at > pending.created_at);
        if all.iter().filter(|(entry, _)| who(entry) == own).count() >= MAX_PENDING_AUTHORIZATIONS {
            return Ok(false);
        }
        if all.iter().any(|(entry, _)| entry.state == pending.state) {
            let what = "an authorization with this state".to_owned();
            return Err(StoreError::Conflict(what).into());
        }
        let (created_at, expires_at) = (pending.created_at, pending.expires_at);
        let (created_at, expires_at) = (created_at.trunc_subsecs(3), expires_at.trunc_subsecs(3));
        all.push((PendingAuthorization { created_at, expires_at, ..pending }, verifier));
        Ok(true)
    }

    async fn take(
        &self,
        state: &Digest,
        now: Timestamp,
    ) -> Result<Option<(PendingAuthorization, Secret)>, CredentialStoreError> {
        let mut all = lock(&self.pending);
        let found = all.iter().position(|(entry, _)| entry.state == *state);
        let taken = found.map(|at| all.swap_remove(at));
        Ok(taken.filter(|(entry, _)| entry.expires_at > now))
    }

    async fn sweep(&self, now: Timestamp) -> Result<u64, CredentialStoreError> {
        let (mut grants, mut pending) = (lock(&self.grants), lock(&self.pending));
        let before = grants.len() + pending.len();
        grants.retain(|(grant, _)| !grant.has_expired(now));
        pending.retain(|(entry, _)| entry.expires_at > now);
        Ok((before - grants.len() - pending.len()) as u64)
    }
}
