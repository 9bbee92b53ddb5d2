//! Lists of accounts.

use toolcrib_core::{
    credential::{AccountGrant, AccountOf, GrantPlace, GrantState, Owner},
    principal::Principal,
    source::SourceSpec,
};

use super::{Connection, ConnectionError, ConnectionState, Connections, MANAGE, host, of};
use crate::{authn::manage::moment, gateway::Gateway};

impl Gateway {
    /// The accounts of `caller`, and those that its tools need but it has not connected. With
    /// [`MANAGE`] also those of the tenant.
    ///
    /// # Errors
    /// [`ConnectionError::Store`].
    pub async fn connections_of(
        &self,
        caller: &Principal,
    ) -> Result<Vec<Connection>, ConnectionError> {
        self.inner.pipeline.connections.of_caller(caller).await
    }

    /// The accounts of all principals in the tenant of `caller`.
    ///
    /// # Errors
    /// [`ConnectionError::Forbidden`] without [`MANAGE`].
    pub async fn connections_of_tenant(
        &self,
        caller: &Principal,
    ) -> Result<Vec<Connection>, ConnectionError> {
        if !MANAGE.is_held_by(caller) {
            return Err(ConnectionError::Forbidden);
        }
        let connections = &self.inner.pipeline.connections;
        let grants = connections.grants.list(&caller.tenant).await?;
        Ok(grants.iter().map(|grant| connections.of_grant(caller, grant)).collect())
    }
}

impl Connections {
    async fn of_caller(&self, caller: &Principal) -> Result<Vec<Connection>, ConnectionError> {
        let own = Owner::principal(caller.tenant.clone(), caller.id.clone());
        let mut grants = self.grants.list_of(&own).await?;
        grants.extend(self.grants.list_of(&Owner::tenant(caller.tenant.clone())).await?);
        let config = self.services.config();
        let is_manager = MANAGE.is_held_by(caller);
        let mut listed = Vec::new();
        let mut places = Vec::new();
        for source in &config.sources {
            let Some(account) = &source.spec.account else { continue };
            if account.tenant != caller.tenant || !self.is_visible(caller, &source.spec.id) {
                continue;
            }
            let mut owners = vec![account.owner(&caller.tenant, &caller.id)];
            if is_manager && account.of == AccountOf::Principal {
                owners.push(account.tenant_owner());
            }
            for owner in owners {
                let place = GrantPlace { owner, source: source.spec.id.clone() };
                let grant = grants.iter().find(|grant| grant.place == place);
                listed.push(self.described(caller, &source.spec, &place, grant)?);
                places.push(place);
            }
        }
        // Those of removed sources can still be disconnected.
        let rest = grants.iter().filter(|grant| {
            let is_removable =
                grant.place.owner == own || (is_manager && grant.place.owner.principal.is_none());
            is_removable && !places.contains(&grant.place)
        });
        listed.extend(rest.map(|grant| self.of_grant(caller, grant)));
        Ok(listed)
    }

    /// Describes a grant whose source may be gone.
    fn of_grant(&self, caller: &Principal, grant: &AccountGrant) -> Connection {
        let config = self.services.config();
        let source = config.sources.iter().find(|known| known.spec.id == grant.place.source);
        let host = match source {
            Some(source) => host(&source.spec),
            None => {
                let first = grant.terms.audiences.first().map(|it| it.authority().to_owned());
                first.unwrap_or_else(|| grant.place.source.to_string())
            }
        };
        self.shown(caller, host, &grant.place, Some(grant))
    }

    pub(super) fn described(
        &self,
        caller: &Principal,
        spec: &SourceSpec,
        place: &GrantPlace,
        grant: Option<&AccountGrant>,
    ) -> Result<Connection, ConnectionError> {
        let mut connection = self.shown(caller, host(spec), place, grant);
        let account = spec.account.as_ref().ok_or(ConnectionError::NotFound)?;
        if account.of == connection.of {
            (connection.tools, connection.tool_names) = self.tools_of(caller, &spec.id);
        }
        Ok(connection)
    }

    fn shown(
        &self,
        caller: &Principal,
        host: String,
        place: &GrantPlace,
        grant: Option<&AccountGrant>,
    ) -> Connection {
        let state = match grant {
            None => ConnectionState::Absent,
            Some(grant) if grant.has_expired(self.services.now()) => ConnectionState::NeedsConsent,
            Some(grant) => match grant.terms.state {
                GrantState::Active => ConnectionState::Active,
                GrantState::NeedsConsent => ConnectionState::NeedsConsent,
            },
        };
        // Other callers of a shared account see only whether it works.
        let is_own = place.owner.principal.as_ref() == Some(&caller.id);
        let shown = grant.filter(|_| is_own || MANAGE.is_held_by(caller));
        let terms = shown.map(|grant| &grant.terms);
        Connection {
            source: place.source.clone(),
            host,
            of: of(place),
            state,
            tools: 0,
            tool_names: Vec::new(),
            id: shown.map(|grant| grant.id.clone()),
            principal: place.owner.principal.clone(),
            scopes: terms.map(|terms| terms.oauth2.scopes.clone()).unwrap_or_default(),
            missing_scopes: terms.map(|terms| terms.missing_scopes.clone()).unwrap_or_default(),
            account: terms.and_then(|terms| terms.account.clone()),
            connected_at: shown.map(|grant| moment(grant.created_at)),
            changed_at: shown.map(|grant| moment(grant.changed_at)),
            last_used_at: shown.and_then(|grant| self.uses.last(grant)).map(moment),
        }
    }
}
