//! Changes of API keys with their events: a new key is recorded before it works.
//!
//! A server makes keys one at a time. Two that exclude each other, such as two successors of one key, are
//! therefore not both recorded.

use std::time::Duration;

use toolcrib_core::{
    clock::Timestamp,
    event::{EventBody, KeyAction, KeyChanged, NewEvent},
    id::KeyId,
    principal::Principal,
    store::KeyRecord,
};

use crate::{
    Gateway,
    authn::{KeyRequest, NewKey, manage::KeyError},
    ids::new_id,
};

impl Gateway {
    /// Makes the key `request` for `caller`; it works when this returns.
    ///
    /// # Errors
    /// [`KeyError`]: no key was made.
    pub async fn create_key(
        &self,
        caller: &Principal,
        request: KeyRequest,
    ) -> Result<NewKey, KeyError> {
        let _one = self.inner.making_keys.lock().await;
        let drafted = self.authenticator().draft_key(caller, request).await?;
        self.record_key(caller, KeyAction::Created, &drafted.key.record).await?;
        self.authenticator().store_key(&drafted).await?;
        Ok(drafted.key)
    }

    /// Makes the key that follows the key `id`, which ends after `overlap`. Returns that end, too.
    ///
    /// # Errors
    /// [`KeyError`]: nothing changed.
    pub async fn rotate_key(
        &self,
        caller: &Principal,
        id: &KeyId,
        overlap: Duration,
    ) -> Result<(NewKey, Timestamp), KeyError> {
        let _one = self.inner.making_keys.lock().await;
        let (drafted, end) = self.authenticator().draft_successor(caller, id, overlap).await?;
        self.record_key(caller, KeyAction::Created, &drafted.key.record).await?;
        self.authenticator().store_key(&drafted).await?;
        Ok((drafted.key, end))
    }

    /// Revokes the key `id`, which works no more when this returns. A key that leaked has to end even
    /// while nothing can be recorded, so the event is repeated until it is stored.
    ///
    /// # Errors
    /// [`KeyError`]: nothing changed.
    pub async fn revoke_key(&self, caller: &Principal, id: &KeyId) -> Result<Timestamp, KeyError> {
        let key = self.authenticator().revocable_key(caller, id).await?;
        let at = self.authenticator().store_revocation(id).await?;
        let event = key_event(caller, KeyAction::Revoked, &key, at);
        self.audit().append_with_retry(vec![event]).await;
        Ok(at)
    }

    async fn record_key(
        &self,
        caller: &Principal,
        action: KeyAction,
        key: &KeyRecord,
    ) -> Result<(), KeyError> {
        let event = key_event(caller, action, key, self.clock().now());
        self.audit().append_or_refuse(event).await.map_err(|_| KeyError::Unrecorded)
    }
}

/// Returns the event of an action of `principal` on `key`, in the record of the key's tenant.
pub fn key_event(
    principal: &Principal,
    action: KeyAction,
    key: &KeyRecord,
    now: Timestamp,
) -> NewEvent {
    NewEvent {
        event_id: new_id(),
        tenant: key.tenant.clone(),
        run_id: new_id(),
        body: EventBody::KeyChanged(KeyChanged::new(principal.id.clone(), action, key)),
        timestamp: now,
        causation_id: None,
    }
}
