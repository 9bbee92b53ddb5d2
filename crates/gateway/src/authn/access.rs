//! Access tokens of clients: opaque texts in the table of keys, each with the facts of the ID token
//! after which it was issued.
//!
//! Invariant: an access token is valid only at its own path, while the settings permit its client,
//! and has at most the rights that a token of its issuer would have now (I-100).

use std::{collections::HashMap, sync::Arc};

use toolcrib_core::{
    clock::Timestamp,
    credential::Secret,
    id::{CredentialId, KeyId, TenantId},
    principal::{ActingClient, AuthMethod, Principal, PrincipalKey, Token},
    store::{KeyRecord, SessionCredential, StoreError},
};

use super::{AuthError, Authenticator, Inner, digest};
use crate::ids;

/// The start of every access token, so that scanners can find leaked ones.
const PREFIX: &str = "tca_";

/// A new access token, the only place with its text.
pub(crate) struct NewAccess {
    pub(crate) record: KeyRecord,
    pub(crate) text: Secret,
    pub(crate) client: ActingClient,
}

impl Inner {
    /// The holder of a key as it is, or that of an access token for `path` with its current rights.
    pub(super) fn with_rights(
        &self,
        holder: Arc<Principal>,
        path: Option<&str>,
    ) -> Result<Arc<Principal>, AuthError> {
        let AuthMethod::Jwt(token) = &holder.auth else { return Ok(holder) };
        let client = token.client.as_ref().ok_or(AuthError::Invalid)?;
        if !path.is_some_and(|path| client.reaches(path)) {
            return Err(AuthError::Invalid);
        }
        let policy = self.policy.load();
        if !policy.bridge.as_ref().is_some_and(|bridge| bridge.permits(&client.id)) {
            return Err(AuthError::Invalid);
        }
        policy.tokens.renew(&holder, token, &policy.roles, self.clock.now())
    }
}

impl Authenticator {
    /// Creates an access token of `owner` for `client` without storing it. `token` says what it is
    /// worth and until when.
    pub(crate) fn new_access(
        &self,
        owner: PrincipalKey,
        name: String,
        token: Token,
        client: ActingClient,
    ) -> Result<NewAccess, getrandom::Error> {
        let text = format!("{PREFIX}{}", ids::secret()?);
        let token = Token { client: Some(client.clone()), ..token };
        let record = KeyRecord {
            id: client.key.clone(),
            name,
            tenant: owner.tenant,
            principal: owner.principal,
            digest: digest(&text),
            roles: Vec::new(),
            scopes: Vec::new(),
            created_at: self.inner.clock.now(),
            expires_at: Some(token.expires_at),
            revoked_at: None,
            last_used_at: None,
            replaces: None,
            makers: Vec::new(),
            session: Some(SessionCredential::Access(Arc::new(token))),
        };
        Ok(NewAccess { record, text: Secret::new(text), client })
    }

    /// Stores an access token. Afterwards it works.
    pub(crate) async fn store_access(&self, access: &NewAccess) -> Result<(), StoreError> {
        self.inner.keys.insert(access.record.clone()).await?;
        self.refresh().await;
        Ok(())
    }

    /// Revokes access tokens, with immediate effect in this process.
    pub(crate) async fn revoke_access(&self, keys: &[KeyId]) -> Result<(), StoreError> {
        for key in keys {
            self.inner.keys.revoke(key, self.inner.clock.now()).await?;
        }
        self.refresh().await;
        Ok(())
    }

    /// When the access tokens of each grant of `tenant` were last used. Grants without a use are
    /// missing, and those whose tokens expired long ago.
    pub(crate) async fn access_uses(
        &self,
        tenant: &TenantId,
    ) -> Result<HashMap<CredentialId, Timestamp>, StoreError> {
        let mut uses = HashMap::new();
        for key in self.inner.keys.list().await? {
            let Some(SessionCredential::Access(token)) = &key.session else { continue };
            let Some(client) = token.client.as_ref().filter(|_| key.tenant == *tenant) else {
                continue;
            };
            let Some(used) = key.last_used_at.max(self.inner.last_use(&key.id)) else { continue };
            let last = uses.entry(client.grant.clone()).or_insert(used);
            *last = used.max(*last);
        }
        Ok(uses)
    }

    /// The client of an access token, valid or not.
    pub(crate) fn client_of(&self, text: &Secret) -> Option<ActingClient> {
        let known = self.inner.table.load().by_digest(&digest(text.expose()))?;
        known.principal.auth.client().filter(|_| !known.is_session()).cloned()
    }
}
