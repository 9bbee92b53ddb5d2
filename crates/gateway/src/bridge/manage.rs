//! The list of grants, and their end: by the client, by the person, by an administrator, or because
//! of a misuse.

use serde::{Deserialize, Serialize};
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    bridge::{BridgeItem, BridgeKind},
    clock::Timestamp,
    credential::CredentialStoreError,
    event::{ClientEnd, ClientSignedOut, EventBody},
    id::{CredentialId, KeyId, PrincipalId, TenantId},
    principal::{ActingClient, ClientWay, Principal},
};
use toolcrib_oauth::server::{error::Refused, token::SentRevocation};

use super::{
    Bridge,
    client::{ClientOrigin, authenticate, origin},
    decoded,
    grant::{Presented, RefreshState, StoredGrant},
    settings, unavailable,
};
use crate::{audit::lone_event, authn::manage::moment};

/// The scope for the grants of other people of the tenant, as for their keys.
pub const MANAGE: RouteScope = RouteScope::KeysManage;

/// A client that acts for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientGrant {
    /// The id of the grant.
    pub id: CredentialId,
    /// The person.
    pub principal: PrincipalId,
    /// The id of the client.
    pub client_id: String,
    /// The name of the client, which the client chose.
    pub name: String,
    /// Who vouches for the name.
    pub vouched_by: ClientOrigin,
    /// The host of the client's document, if that host vouches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How the client got the grant.
    pub by: ClientWay,
    /// When it got the grant.
    pub created_at: String,
    /// When the client was last used, up to about a minute late. Absent if that was more than a day
    /// ago, because expired access tokens are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
    /// When the grant expires unless the client renews it.
    pub expires_at: String,
}

/// Why a grant was not ended.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// The caller has no such grant, and may not end those of others.
    #[error("not found, or not visible to this caller")]
    NotFound,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] CredentialStoreError),
    /// The server failed otherwise.
    #[error("the grant was not ended: {0}")]
    Refused(#[from] Refused),
}

impl Bridge {
    /// Revokes the token in the form of a request (RFC 7009). A refresh token ends its grant, an
    /// access token only itself. Tokens that are unknown, or of another client, are ignored.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn revoke(&self, form: &str, authorization: Option<&str>) -> Result<(), Refused> {
        let config = self.services.config();
        let bridge = settings(&config)?;
        let SentRevocation { client, token } = SentRevocation::read(form, authorization)?;
        authenticate(bridge, &client)?;
        if let Some(presented) = Presented::refresh(&token) {
            let now = self.services.now();
            if let Some((item, stored)) = self.stored_grant(&presented.id).await?
                && stored.client == client.id
                && stored.state_of(&presented, now) != RefreshState::Unknown
            {
                self.end(&item, &stored, ClientEnd::Revoked, None).await?;
            }
        } else if let Some(access) = self.authenticator.client_of(&token)
            && access.id == client.id
        {
            let revoked = self.authenticator.revoke_access(&[access.key]).await;
            revoked.map_err(|error| unavailable(&error.into()))?;
        }
        Ok(())
    }

    /// The clients that act for `caller`, by the id of the grant.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub async fn grants_of(&self, caller: &Principal) -> Result<Vec<ClientGrant>, EndError> {
        self.listed(&caller.tenant, Some(&caller.id)).await
    }

    /// The clients that act for anybody of the tenant of `caller`.
    ///
    /// # Errors
    /// [`EndError::NotFound`] without [`MANAGE`]; [`EndError::Store`].
    pub async fn grants_of_tenant(&self, caller: &Principal) -> Result<Vec<ClientGrant>, EndError> {
        match MANAGE.is_held_by(caller) {
            true => self.listed(&caller.tenant, None).await,
            false => Err(EndError::NotFound),
        }
    }

    /// The name of a client with an access token; `None` if its grant has ended or cannot be read.
    pub async fn name_of(&self, client: &ActingClient) -> Option<String> {
        let found = self.stored_grant(&client.grant).await.ok()?;
        found.map(|(_, stored)| stored.name)
    }

    async fn listed(
        &self,
        tenant: &TenantId,
        principal: Option<&PrincipalId>,
    ) -> Result<Vec<ClientGrant>, EndError> {
        let now = self.services.now();
        let mut grants = self.store.grants(tenant, principal).await?;
        grants.retain(|(item, _)| item.expires_at > now);
        if grants.is_empty() {
            return Ok(Vec::new());
        }
        let uses = self.authenticator.access_uses(tenant).await;
        let uses = uses.map_err(CredentialStoreError::from)?;
        let shown = |(item, value): (BridgeItem, _)| {
            let stored: StoredGrant = decoded(&value)?;
            let (vouched_by, host) = origin(&stored.client);
            Some(ClientGrant {
                last_used_at: uses.get(&item.id).copied().map(moment),
                id: item.id,
                principal: item.owner?.principal,
                client_id: stored.client,
                name: stored.name,
                vouched_by,
                host,
                by: stored.by,
                created_at: moment(item.created_at),
                expires_at: moment(item.expires_at),
            })
        };
        Ok(grants.into_iter().filter_map(shown).collect())
    }

    /// Ends a grant of `caller`, or of its tenant if it may manage keys.
    ///
    /// # Errors
    /// [`EndError`].
    pub async fn end_grant(&self, caller: &Principal, id: &CredentialId) -> Result<(), EndError> {
        let found = self.stored_grant(id).await?;
        let may_end = |(item, _): &(BridgeItem, _)| {
            item.owner.as_ref().is_some_and(|owner| {
                owner.tenant == caller.tenant
                    && (owner.principal == caller.id || MANAGE.is_held_by(caller))
            })
        };
        let (item, stored) = found.filter(may_end).ok_or(EndError::NotFound)?;
        Ok(self.end(&item, &stored, ClientEnd::Revoked, Some(caller)).await?)
    }

    /// Ends a grant with its access tokens. They end immediately in this process, and in others as
    /// keys do (I-110).
    pub(super) async fn end(
        &self,
        item: &BridgeItem,
        stored: &StoredGrant,
        cause: ClientEnd,
        by: Option<&Principal>,
    ) -> Result<(), Refused> {
        let now = self.services.now();
        self.revoke_all(&stored.access).await?;
        let taken = self.store.take(BridgeKind::Grant, &item.id, now).await;
        let taken = taken.map_err(|error| unavailable(&error))?;
        // It may have got an access token since it was read. One that is stored only now is revoked
        // by the server that stores it (`Bridge::issue`).
        if let Some(last) = taken.as_ref().and_then(|(_, it)| decoded::<StoredGrant>(it)) {
            self.revoke_all(&last.access).await?;
        }
        let (Some(owner), true) = (&item.owner, taken.is_some()) else { return Ok(()) };
        let by = by.filter(|by| by.id != owner.principal).map(|by| by.id.clone());
        let body = EventBody::ClientSignedOut(ClientSignedOut {
            principal: owner.principal.clone(),
            client_id: stored.client.clone(),
            grant_id: item.id.clone(),
            cause,
            by,
        });
        self.audit.append_with_retry(vec![lone_event(owner.tenant.clone(), body, now)]).await;
        Ok(())
    }

    async fn revoke_all(&self, access: &[(KeyId, Timestamp)]) -> Result<(), Refused> {
        let keys: Vec<KeyId> = access.iter().map(|(key, _)| key.clone()).collect();
        let revoked = self.authenticator.revoke_access(&keys).await;
        revoked.map_err(|error| unavailable(&error.into()))
    }
}
