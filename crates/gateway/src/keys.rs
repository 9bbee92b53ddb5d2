//! Changes of API keys with their events: a new key is recorded before it works.
//!
//! A server creates keys one at a time, so that two conflicting keys, such as two successors of one
//! key, are not both recorded.

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
    audit::lone_event,
    authn::{
        KeyRequest, NewKey,
        manage::{DraftedKey, KeyError},
    },
};

impl Gateway {
    /// Creates the key `request` for `caller`. Afterwards the key works.
    ///
    /// # Errors
    /// [`KeyError`]; in that case no key was created.
    pub async fn create_key(
        &self,
        caller: &Principal,
        request: KeyRequest,
    ) -> Result<NewKey, KeyError> {
        let _one = self.inner.making_credentials.lock().await;
        let drafted = self.authenticator().draft_key(caller, request).await?;
        self.make(caller, drafted).await
    }

    /// Creates the successor of the key `id`; the old key expires after `overlap`. Returns the new
    /// key and that time.
    ///
    /// # Errors
    /// [`KeyError`]; in that case the keys are unchanged.
    pub async fn rotate_key(
        &self,
        caller: &Principal,
        id: &KeyId,
        overlap: Duration,
    ) -> Result<(NewKey, Timestamp), KeyError> {
        let _one = self.inner.making_credentials.lock().await;
        let (drafted, end) = self.authenticator().draft_successor(caller, id, overlap).await?;
        Ok((self.make(caller, drafted).await?, end))
    }

    /// Revokes the key `id`, with immediate effect. A leaked key must be revocable even while the
    /// record is unavailable, so its event follows, and is retried until it is stored.
    ///
    /// # Errors
    /// [`KeyError`]; in that case the key is unchanged.
    pub async fn revoke_key(&self, caller: &Principal, id: &KeyId) -> Result<Timestamp, KeyError> {
        let key = self.authenticator().revocable_key(caller, id).await?;
        let at = self.authenticator().store_revocation(id).await?;
        let event = key_event(caller, KeyAction::Revoked, &key, at);
        self.audit().append_with_retry(vec![event]).await;
        Ok(at)
    }

    /// Records and stores a key.
    async fn make(&self, caller: &Principal, drafted: DraftedKey) -> Result<NewKey, KeyError> {
        let record = &drafted.key.record;
        let event = key_event(caller, KeyAction::Created, record, self.clock().now());
        self.audit().append_or_refuse(event).await.map_err(|_| KeyError::Unrecorded)?;
        self.authenticator().store_key(&drafted).await?;
        Ok(drafted.key)
    }
}

/// Creates the event of an action of `principal` on `key`, in the record of the key's tenant.
pub fn key_event(
    principal: &Principal,
    action: KeyAction,
    key: &KeyRecord,
    now: Timestamp,
) -> NewEvent {
    let body = EventBody::KeyChanged(KeyChanged::new(principal.id.clone(), action, key));
    lone_event(key.tenant.clone(), body, now)
}
