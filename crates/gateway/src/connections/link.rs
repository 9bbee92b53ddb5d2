//! Links at which the caller of a refused call connects its account.
//!
//! The secret of a link is in the fragment of its address, which no server and no `Referer` gets.

use toolcrib_core::{
    call::CallError,
    credential::{ConnectLink, GrantPlace, Secret},
    id::SourceId,
    principal::Principal,
};

use super::{ConnectionError, Connections, LIFETIME, MANAGE, NewLink, may_have_own, secret};
use crate::{clock::after, gateway::Gateway};

impl Gateway {
    /// Creates a link at which `caller` connects its account of `source`, or that of its tenant.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub async fn link_connection(
        &self,
        caller: &Principal,
        source: &SourceId,
        of_tenant: bool,
    ) -> Result<NewLink, ConnectionError> {
        let connections = &self.inner.pipeline.connections;
        let found = connections.find(caller, source, of_tenant)?;
        connections.new_link(caller, found.place).await
    }
}

impl Connections {
    /// Adds a link to `error` if its caller can connect the account. The error must be recorded
    /// before, without the link.
    pub(crate) async fn with_link(&self, caller: &Principal, error: CallError) -> CallError {
        let CallError::ConnectionRequired(mut required) = error else { return error };
        let owner = self.at(&required.source_id, |it| it.owner(&caller.tenant, &caller.id));
        let link = match owner {
            Ok((found, account)) if self.may_connect(caller, &found.place) => {
                debug_assert_eq!(account.tenant, caller.tenant, "a source has one tenant");
                self.new_link(caller, found.place).await
            }
            Ok(_) => return CallError::ConnectionRequired(required),
            Err(error) => Err(error),
        };
        match link {
            Ok(link) => {
                required.link = Some(link.link);
                required.expires_at = link.expires_at;
            }
            Err(ConnectionError::NoPublicUrl) => {}
            Err(error) => tracing::warn!(%error, "a link to connect an account was not made"),
        }
        CallError::ConnectionRequired(required)
    }

    /// Whether `caller` may connect the account at `place`.
    fn may_connect(&self, caller: &Principal, place: &GrantPlace) -> bool {
        let is_of_tenant = place.owner.tenant == caller.tenant;
        is_of_tenant
            && match &place.owner.principal {
                Some(principal) => *principal == caller.id && may_have_own(caller),
                None => MANAGE.is_held_by(caller),
            }
    }

    async fn new_link(
        &self,
        caller: &Principal,
        place: GrantPlace,
    ) -> Result<NewLink, ConnectionError> {
        let config = self.services.config();
        let public = Self::public_url(&config).ok_or(ConnectionError::NoPublicUrl)?;
        let (secret, now) = (secret()?, self.services.now());
        let link = ConnectLink {
            hash: ConnectLink::hash(&secret),
            place,
            principal: caller.id.clone(),
            created_at: now,
            expires_at: after(now, LIFETIME),
        };
        let expires_at = link.expires_at;
        self.grants.add_link(link).await?;
        let page = &config.explorer.prefix;
        let link = Secret::new(format!("{public}{page}#/connect/{}", secret.expose()));
        Ok(NewLink { link, expires_at })
    }

    /// The stored link with `secret`, if `caller` may use it.
    pub(super) async fn link_of(
        &self,
        caller: &Principal,
        secret: &Secret,
    ) -> Result<ConnectLink, ConnectionError> {
        let found = self.grants.link(&ConnectLink::hash(secret), self.services.now()).await?;
        let own = found
            .filter(|link| link.principal == caller.id && self.may_connect(caller, &link.place));
        own.ok_or(ConnectionError::NotFound)
    }
}
