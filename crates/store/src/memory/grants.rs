//! Grants, links, pending authorizations and clients in memory, unsealed.

use std::{collections::HashMap, sync::Mutex};

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    credential::{
        AccountGrant, ConnectLink, CredentialStoreError, GrantPlace, GrantSecrets, GrantStore,
        MAX_LINKS, MAX_PENDING_AUTHORIZATIONS, Owner, PendingAuthorization, RegisteredClient,
        Secret,
    },
    id::{CredentialId, PrincipalId, SourceId, TenantId},
    store::StoreError,
};

use super::shared::lock;

/// Grants, links, pending authorizations and clients in memory, unsealed.
#[derive(Debug, Default)]
pub(super) struct MemoryGrants {
    grants: Mutex<Vec<StoredGrant>>,
    pending: Mutex<Vec<(PendingAuthorization, Secret)>>,
    links: Mutex<Vec<ConnectLink>>,
    /// By issuer and address.
    clients: Mutex<HashMap<(String, String), RegisteredClient>>,
}

#[derive(Debug)]
struct StoredGrant {
    grant: AccountGrant,
    secrets: GrantSecrets,
    /// The holder, and the end.
    lease: Option<(String, Timestamp)>,
}

fn as_stored(grant: AccountGrant) -> AccountGrant {
    AccountGrant {
        created_at: grant.created_at.trunc_subsecs(3),
        changed_at: grant.changed_at.trunc_subsecs(3),
        expires_at: grant.expires_at.map(|at| at.trunc_subsecs(3)),
        ..grant
    }
}

/// The principal whose pending authorizations are counted together.
fn holder(pending: &PendingAuthorization) -> (&TenantId, &PrincipalId) {
    (&pending.place.owner.tenant, &pending.terms.principal)
}

/// The principal whose links are counted together.
fn user(link: &ConnectLink) -> (&TenantId, &PrincipalId) {
    (&link.place.owner.tenant, &link.principal)
}

fn conflict(what: &str) -> CredentialStoreError {
    StoreError::Conflict(what.to_owned()).into()
}

impl MemoryGrants {
    fn listed(&self, is_listed: impl Fn(&Owner) -> bool) -> Vec<AccountGrant> {
        let grants = lock(&self.grants);
        let grants = grants.iter().map(|it| &it.grant);
        grants.filter(|grant| is_listed(&grant.place.owner)).cloned().collect()
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
        if grants.iter().any(|it| it.grant.id == grant.id && !is_replaced(&it.grant)) {
            return Err(conflict("a grant with this id"));
        }
        grants.retain(|it| !is_replaced(&it.grant));
        grants.push(StoredGrant { grant: as_stored(grant), secrets, lease: None });
        grants.sort_by(|a, b| a.grant.place.cmp(&b.grant.place));
        Ok(())
    }

    async fn get(
        &self,
        place: &GrantPlace,
        now: Timestamp,
    ) -> Result<Option<(AccountGrant, GrantSecrets)>, CredentialStoreError> {
        let grants = lock(&self.grants);
        let found = grants.iter().find(|it| it.grant.place == *place && !it.grant.has_expired(now));
        Ok(found.map(|it| (it.grant.clone(), it.secrets.clone())))
    }

    async fn note_used(
        &self,
        used: Vec<(CredentialId, Timestamp)>,
    ) -> Result<(), CredentialStoreError> {
        let mut grants = lock(&self.grants);
        for (id, at) in used {
            let at = Some(at.trunc_subsecs(3));
            if let Some(found) = grants.iter_mut().find(|it| it.grant.id == id) {
                found.grant.last_used_at = found.grant.last_used_at.max(at);
            }
        }
        Ok(())
    }

    async fn list(&self, tenant: &TenantId) -> Result<Vec<AccountGrant>, CredentialStoreError> {
        Ok(self.listed(|owner| owner.tenant == *tenant))
    }

    async fn list_of(&self, owner: &Owner) -> Result<Vec<AccountGrant>, CredentialStoreError> {
        Ok(self.listed(|other| other == owner))
    }

    async fn issuer_of(
        &self,
        tenant: &TenantId,
        source: &SourceId,
    ) -> Result<Option<String>, CredentialStoreError> {
        let grants = lock(&self.grants);
        let grants = grants.iter().map(|it| &it.grant);
        let there = grants
            .filter(|it| it.place.owner.tenant == *tenant && it.place.source == *source)
            .min_by(|a, b| (a.created_at, a.id.as_str()).cmp(&(b.created_at, b.id.as_str())));
        Ok(there.map(|grant| grant.terms.issuer.clone()))
    }

    async fn change(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<bool, CredentialStoreError> {
        let mut grants = lock(&self.grants);
        let identity =
            |other: &AccountGrant| (other.id.clone(), other.place.clone(), other.revision);
        let found = grants.iter_mut().find(|it| identity(&it.grant) == identity(&grant));
        let Some(found) = found else { return Ok(false) };
        let (created_at, revision) = (found.grant.created_at, grant.revision + 1);
        let last_used_at = found.grant.last_used_at;
        found.grant = as_stored(AccountGrant { created_at, last_used_at, revision, ..grant });
        found.secrets = secrets;
        Ok(true)
    }

    async fn remove(
        &self,
        tenant: &TenantId,
        id: &CredentialId,
    ) -> Result<bool, CredentialStoreError> {
        let mut grants = lock(&self.grants);
        let before = grants.len();
        grants.retain(|it| it.grant.place.owner.tenant != *tenant || it.grant.id != *id);
        Ok(grants.len() < before)
    }

    async fn begin(
        &self,
        pending: PendingAuthorization,
        verifier: Secret,
    ) -> Result<bool, CredentialStoreError> {
        let mut all = lock(&self.pending);
        all.retain(|(entry, _)| {
            holder(entry) != holder(&pending) || entry.expires_at > pending.created_at
        });
        let own = all.iter().filter(|(entry, _)| holder(entry) == holder(&pending));
        if own.count() >= MAX_PENDING_AUTHORIZATIONS {
            return Ok(false);
        }
        if all.iter().any(|(entry, _)| entry.state == pending.state) {
            return Err(conflict("an authorization with this state"));
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

    async fn lease(
        &self,
        id: &CredentialId,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, CredentialStoreError> {
        let mut grants = lock(&self.grants);
        let found = grants.iter_mut().find(|it| it.grant.id == *id);
        let Some(found) = found else { return Ok(false) };
        let now = now.trunc_subsecs(3);
        if found.lease.as_ref().is_some_and(|(other, end)| other != holder && *end > now) {
            return Ok(false);
        }
        found.lease = Some((holder.to_owned(), until.trunc_subsecs(3)));
        Ok(true)
    }

    async fn end_lease(&self, id: &CredentialId, holder: &str) -> Result<(), CredentialStoreError> {
        let mut grants = lock(&self.grants);
        if let Some(found) = grants.iter_mut().find(|it| it.grant.id == *id) {
            found.lease.take_if(|(other, _)| other == holder);
        }
        Ok(())
    }

    async fn add_link(&self, link: ConnectLink) -> Result<(), CredentialStoreError> {
        let mut links = lock(&self.links);
        links.retain(|other| user(other) != user(&link) || other.expires_at > link.created_at);
        if links.iter().any(|other| other.hash == link.hash) {
            return Err(conflict("a link with this secret"));
        }
        let mut own: Vec<_> = links.iter().filter(|other| user(other) == user(&link)).collect();
        own.sort_by_key(|other| other.created_at);
        let excess = (own.len() + 1).saturating_sub(MAX_LINKS);
        let removed: Vec<Digest> = own.iter().take(excess).map(|other| other.hash).collect();
        links.retain(|other| !removed.contains(&other.hash));
        let (created_at, expires_at) = (link.created_at, link.expires_at);
        let (created_at, expires_at) = (created_at.trunc_subsecs(3), expires_at.trunc_subsecs(3));
        links.push(ConnectLink { created_at, expires_at, ..link });
        Ok(())
    }

    async fn link(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<ConnectLink>, CredentialStoreError> {
        let links = lock(&self.links);
        Ok(links.iter().find(|link| link.hash == *hash && link.expires_at > now).cloned())
    }

    async fn take_link(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<ConnectLink>, CredentialStoreError> {
        let mut links = lock(&self.links);
        let found = links.iter().position(|link| link.hash == *hash);
        let taken = found.map(|at| links.swap_remove(at));
        Ok(taken.filter(|link| link.expires_at > now))
    }

    async fn put_client(&self, client: RegisteredClient) -> Result<(), CredentialStoreError> {
        let mut clients = lock(&self.clients);
        let key = (client.issuer.clone(), client.redirect_uri.clone());
        if clients.iter().any(|(other, it)| it.id == client.id && *other != key) {
            return Err(conflict("a client with this id"));
        }
        let created_at = client.created_at.trunc_subsecs(3);
        let expires_at = client.expires_at.map(|at| at.trunc_subsecs(3));
        clients.insert(key, RegisteredClient { created_at, expires_at, ..client });
        Ok(())
    }

    async fn client(
        &self,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<Option<RegisteredClient>, CredentialStoreError> {
        let key = (issuer.to_owned(), redirect_uri.to_owned());
        Ok(lock(&self.clients).get(&key).cloned())
    }

    async fn remove_client(
        &self,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<bool, CredentialStoreError> {
        let key = (issuer.to_owned(), redirect_uri.to_owned());
        Ok(lock(&self.clients).remove(&key).is_some())
    }

    async fn sweep(&self, now: Timestamp) -> Result<u64, CredentialStoreError> {
        let mut swept = 0;
        let (mut grants, mut pending) = (lock(&self.grants), lock(&self.pending));
        let mut links = lock(&self.links);
        swept += grants.extract_if(.., |it| it.grant.has_expired(now)).count();
        swept += pending.extract_if(.., |(entry, _)| entry.expires_at <= now).count();
        swept += links.extract_if(.., |link| link.expires_at <= now).count();
        Ok(swept as u64)
    }
}
