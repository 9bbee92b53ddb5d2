//! An account is disconnected: calls stop using it, and then its tokens are revoked at the service.

use std::{sync::Arc, time::Duration};

use toolcrib_core::{
    event::{AccountDisconnected, EventBody},
    id::CredentialId,
    principal::Principal,
};

use super::{ConnectionError, MANAGE, of};
use crate::{audit::lone_event, gateway::Gateway};

/// How long the response to a removal waits for the service.
const PATIENCE: Duration = Duration::from_secs(15);

impl Gateway {
    /// Disconnects the account with the grant `id`: that of `caller`, or with [`MANAGE`] any of its
    /// tenant. It must be possible even while the record is unavailable, so its event follows.
    /// Returns whether the service confirmed that it ended the tokens. It may not know how, or not
    /// answer in time; the account is gone here in any case.
    ///
    /// # Errors
    /// [`ConnectionError`]; in that case the account is unchanged.
    pub async fn disconnect(
        &self,
        caller: &Principal,
        id: &CredentialId,
    ) -> Result<bool, ConnectionError> {
        let connections = &self.inner.pipeline.connections;
        let grants = connections.grants.list(&caller.tenant).await?;
        let grant = grants.into_iter().find(|grant| {
            let is_own = grant.place.owner.principal.as_ref() == Some(&caller.id);
            grant.id == *id && (is_own || MANAGE.is_held_by(caller))
        });
        let grant = grant.ok_or(ConnectionError::NotFound)?;
        let now = connections.services.now();
        // Without its values, for example after a change of the seal key, nothing can be revoked.
        let values = connections.grants.get(&grant.place, now).await.ok().flatten();
        if !connections.grants.remove(&caller.tenant, id).await? {
            return Err(ConnectionError::NotFound);
        }
        connections.snapshots.load().own.disconnected(&grant.place);
        let holder = grant.place.owner.principal.clone();
        let body = EventBody::AccountDisconnected(AccountDisconnected {
            principal: caller.id.clone(),
            source_id: grant.place.source.clone(),
            of: of(&grant.place),
            holder: holder.filter(|holder| *holder != caller.id),
            credential_id: grant.id.clone(),
        });
        let event = lone_event(caller.tenant.clone(), body, now);
        connections.audit.append_with_retry(vec![event]).await;
        if grant.place.owner.principal.is_none() {
            self.supply().refresh(&grant.place.source);
        }
        let Some((grant, secrets)) = values.filter(|(current, _)| current.id == *id) else {
            return Ok(false);
        };
        let connector = Arc::clone(&connections.connector);
        // It completes even if the caller hangs up.
        let revoking = connections
            .services
            .background
            .spawn(async move { connector.revoke(&grant, &secrets).await });
        Ok(matches!(tokio::time::timeout(PATIENCE, revoking).await, Ok(Ok(true))))
    }
}
