//! An account is connected: the person sees the request, goes to the service, and comes back.

use std::sync::Arc;

use serde_json::Value;
use toolcrib_core::{
    canonical::Digest,
    credential::{
        AccountGrant, ConnectLink, CredentialStoreError, GrantPlace, GrantSecrets, GrantTerms,
        PendingAuthorization, Secret,
    },
    event::{AccountConnected, EventBody},
    id::SourceId,
    principal::Principal,
    source::{AccountError, ConnectRequest},
};
use toolcrib_oauth::{registration::ClientDescription, scopes};

use super::{
    Asked, BegunConnection, Connection, ConnectionError, ConnectionPreview, ConnectionResponse,
    Connections, Found, LIFETIME, MANAGE, Wanted, host, host_of, of, request_id, secret,
};
use crate::{
    audit::lone_event,
    clock::after,
    gateway::Gateway,
    ids::{self, new_id},
};

/// The action and the route of refused responses in the record.
const FINISH: &str = "connections:finish";
const FINISH_ROUTE: &str = "/v1/connections/finish";

impl Gateway {
    /// Describes the consent that `caller` is to give, as far as the service says it. A link stays
    /// usable.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub async fn preview_connection(
        &self,
        caller: &Principal,
        wanted: &Wanted,
    ) -> Result<ConnectionPreview, ConnectionError> {
        let connections = &self.inner.pipeline.connections;
        let found = connections.wanted(caller, wanted).await?;
        let (spec, _) = found.spec()?;
        let earlier = connections.earlier(&found.place).await?.map(|(grant, _)| grant);
        let prospect = {
            let _place = connections.waiting.try_acquire().map_err(|_| ConnectionError::TooMany)?;
            connections.connector.preview(spec, &found.place, earlier.as_ref()).await?
        };
        let granted = earlier.as_ref().map(|grant| &grant.terms.oauth2.scopes);
        let is_new = |scope: &&String| granted.is_some_and(|granted| !granted.contains(scope));
        let texts = spec.account.as_ref().map(|account| &account.scope_texts);
        let texts =
            texts.into_iter().flatten().filter(|(scope, _)| prospect.scopes.contains(scope));
        Ok(ConnectionPreview {
            scope_texts: texts.map(|(scope, text)| (scope.clone(), text.clone())).collect(),
            source: spec.id.clone(),
            host: host(spec),
            of: of(&found.place),
            new_scopes: prospect.scopes.iter().filter(is_new).cloned().collect(),
            earlier_server: prospect.earlier_issuer.as_deref().and_then(host_of),
            asked: Asked::of(prospect),
            again: earlier.is_some(),
            principal: caller.id.clone(),
        })
    }

    /// Begins the authorization at the service. A link is used up. With `shown`, the service must
    /// want exactly what the person has seen.
    ///
    /// # Errors
    /// [`ConnectionError`]; a link stays usable if the service failed, or wants something else.
    pub async fn begin_connection(
        &self,
        caller: &Principal,
        wanted: &Wanted,
        shown: Option<&Asked>,
    ) -> Result<BegunConnection, ConnectionError> {
        self.inner.pipeline.connections.begin(caller, wanted, shown).await
    }

    /// The description of this gateway as an OAuth client, if authorization servers can fetch it.
    pub fn client_document(&self) -> Option<Value> {
        let config = self.config();
        let public = Connections::public_url(&config)?;
        let own = client_document(public)?;
        let sources = config.sources.iter().filter(|source| source.spec.account.is_some());
        let uris: Vec<_> = sources.map(|source| redirect_uri(public, &source.spec.id)).collect();
        let client =
            ClientDescription { name: "toolcrib", uri: Some(public), redirect_uris: &uris };
        Some(client.document(&own))
    }

    /// Finishes an authorization. Afterwards calls use the account.
    ///
    /// # Errors
    /// [`ConnectionError`]; in that case an earlier account is unchanged.
    pub async fn finish_connection(
        &self,
        caller: &Principal,
        response: ConnectionResponse,
    ) -> Result<Connection, ConnectionError> {
        let connections = &self.inner.pipeline.connections;
        let (found, grant) = connections.finish(caller, response).await?;
        if grant.place.owner.principal.is_none() {
            // Its tools are discovered with this account.
            self.supply().refresh(&grant.place.source);
        }
        connections.described(caller, found.spec()?.0, &grant.place, Some(&grant))
    }
}

impl Connections {
    async fn wanted(&self, caller: &Principal, wanted: &Wanted) -> Result<Found, ConnectionError> {
        match wanted {
            Wanted::Source { source, of_tenant } => self.find(caller, source, *of_tenant),
            Wanted::Link(secret) => {
                let place = self.link_of(caller, secret).await?.place;
                Ok(Found { place: place.clone(), ..self.at(&place.source, |_| place.owner)?.0 })
            }
        }
    }

    /// The grant at `place`; `None` also if it was damaged, because it is replaced then. One that
    /// another key opens is kept: the operator can restore the key.
    async fn earlier(
        &self,
        place: &GrantPlace,
    ) -> Result<Option<(AccountGrant, GrantSecrets)>, ConnectionError> {
        match self.grants.get(place, self.services.now()).await {
            Ok(found) => Ok(found),
            Err(CredentialStoreError::NotGenuine(_)) => Ok(None),
            Err(CredentialStoreError::OtherKey(_)) => Err(ConnectionError::OtherKey),
            Err(error) => Err(error.into()),
        }
    }

    async fn begin(
        &self,
        caller: &Principal,
        wanted: &Wanted,
        shown: Option<&Asked>,
    ) -> Result<BegunConnection, ConnectionError> {
        let found = self.wanted(caller, wanted).await?;
        let (spec, _) = found.spec()?;
        let public = Self::public_url(&found.config).ok_or(ConnectionError::NoPublicUrl)?;
        let redirect_uri = redirect_uri(public, &spec.id);
        let client_document = client_document(public);
        let earlier = self.earlier(&found.place).await?.map(|(grant, _)| grant);
        let (cookie, state, now) = (secret()?, secret()?, self.services.now());
        let begun = {
            let _place = self.waiting.try_acquire().map_err(|_| ConnectionError::TooMany)?;
            let request = ConnectRequest {
                spec,
                place: found.place.clone(),
                principal: caller.id.clone(),
                browser: Digest::of(cookie.expose().as_bytes()),
                redirect_uri: &redirect_uri,
                client_document: client_document.as_deref(),
                earlier: earlier.as_ref(),
                id: new_id(),
                state: &state,
                random: ids::random().map_err(|_| ConnectionError::Unrecorded)?,
                expires_at: after(now, LIFETIME),
            };
            self.connector.begin(request).await?
        };
        // A page opens this address, so it must not be a script.
        if !begun.address.starts_with("https://") && !begun.address.starts_with("http://") {
            let message = "the service has no address for browsers".to_owned();
            return Err(AccountError::Unsupported(message).into());
        }
        if shown.is_some_and(|shown| *shown != Asked::of(begun.prospect())) {
            return Err(ConnectionError::Changed);
        }
        if !self.grants.begin(begun.pending, begun.verifier).await? {
            return Err(ConnectionError::TooMany);
        }
        if let Wanted::Link(secret) = wanted {
            let link = ConnectLink::hash(secret);
            if self.grants.take_link(&link, self.services.now()).await?.is_none() {
                // Another request was faster. No one gets the state of this one.
                self.grants.take(&PendingAuthorization::hash(&state), now).await?;
                return Err(ConnectionError::NotFound);
            }
        }
        Ok(BegunConnection { address: begun.address, id: request_id(&state), cookie })
    }

    async fn finish(
        &self,
        caller: &Principal,
        brought: ConnectionResponse,
    ) -> Result<(Found, AccountGrant), ConnectionError> {
        let ConnectionResponse { source, state, cookies, response } = brought;
        let state = PendingAuthorization::hash(&state);
        let taken = match self.grants.take(&state, self.services.now()).await {
            // The seal key was changed meanwhile.
            Err(CredentialStoreError::OtherKey(_) | CredentialStoreError::NotGenuine(_)) => None,
            taken => taken?,
        };
        let (pending, verifier) = taken.ok_or_else(|| self.not_ours(caller, "unknown_state"))?;
        if let Some(reason) = mismatch(&pending, caller, &source, &cookies) {
            return Err(self.not_ours(caller, reason));
        }
        let found = self.at(&source, |_| pending.place.owner.clone());
        let (found, _) = found.map_err(|_| self.not_ours(caller, "other_source"))?;
        let (terms, secrets) = {
            let _place = self.waiting.try_acquire().map_err(|_| ConnectionError::TooMany)?;
            let (spec, _) = found.spec()?;
            match self.connector.finish(spec, &pending, &verifier, &response).await {
                Ok(finished) => finished,
                Err(AccountError::NotOurs) => {
                    return Err(self.not_ours(caller, "other_response"));
                }
                Err(error) => {
                    if matches!(error, AccountError::Refused("access_denied" | "invalid_scope")) {
                        self.withhold(&pending).await;
                    }
                    return Err(error.into());
                }
            }
        };
        let now = self.services.now();
        let grant = AccountGrant {
            id: pending.id,
            place: pending.place,
            terms: GrantTerms { makers: caller.makers.clone(), ..terms },
            created_at: now,
            changed_at: now,
            expires_at: None,
            last_used_at: None,
            revision: 1,
        };
        let earlier = self.earlier(&grant.place).await.ok().flatten();
        let stored = match self.record(caller, &grant).await {
            Ok(()) => self.grants.put(grant.clone(), secrets.clone()).await.map_err(Into::into),
            Err(error) => Err(error),
        };
        if let Err(error) = stored {
            // The earlier account must not end with the new tokens.
            if earlier.is_none_or(|(earlier, _)| earlier.terms.is_apart_from(&grant.terms)) {
                self.connector.revoke(&grant, &secrets).await;
            }
            return Err(error);
        }
        if let Some((earlier, secrets)) = earlier
            && earlier.terms.is_apart_from(&grant.terms)
        {
            let connector = Arc::clone(&self.connector);
            self.services.background.spawn(async move {
                connector.revoke(&earlier, &secrets).await;
            });
        }
        self.snapshots.load().own.connected(&grant.place);
        // There may be no listener.
        self.news.send(grant.place.clone()).ok();
        Ok((found, grant))
    }

    /// Notes in the earlier grant that a consent did not give the scopes that calls needed, so that
    /// the next consent does without them.
    async fn withhold(&self, pending: &PendingAuthorization) {
        let Ok(Some((mut grant, secrets))) = self.earlier(&pending.place).await else { return };
        let requested = &pending.terms.oauth2.scopes;
        let terms = &mut grant.terms;
        let (withheld, missing): (Vec<_>, Vec<_>) =
            terms.missing_scopes.drain(..).partition(|scope| requested.contains(scope));
        if withheld.is_empty() {
            return;
        }
        terms.missing_scopes = missing;
        terms.withheld_scopes = scopes::union(&terms.withheld_scopes, &withheld, &[]);
        // A change meanwhile is that of a renewal or of a call; the next consent requests them again then.
        if let Err(error) = self.grants.change(grant, secrets).await {
            tracing::warn!(%error, "refused scopes could not be noted; they are requested again");
        }
    }

    /// Records that a response is refused. The caller does not get the reason.
    fn not_ours(&self, caller: &Principal, reason: &'static str) -> ConnectionError {
        self.audit.denials().denied(caller, FINISH, FINISH_ROUTE, reason);
        ConnectionError::NotOurs
    }

    async fn record(
        &self,
        caller: &Principal,
        grant: &AccountGrant,
    ) -> Result<(), ConnectionError> {
        let body = EventBody::AccountConnected(AccountConnected {
            principal: caller.id.clone(),
            source_id: grant.place.source.clone(),
            of: of(&grant.place),
            credential_id: grant.id.clone(),
        });
        let event = lone_event(caller.tenant.clone(), body, grant.created_at);
        self.audit.append_or_refuse(event).await.map_err(|_| ConnectionError::Unrecorded)
    }
}

/// Why `caller` in the browser with `cookies` does not finish `pending`, in a word for the record.
fn mismatch(
    pending: &PendingAuthorization,
    caller: &Principal,
    source: &SourceId,
    cookies: &[Secret],
) -> Option<&'static str> {
    let (place, terms) = (&pending.place, &pending.terms);
    if terms.principal != caller.id || place.owner.tenant != caller.tenant {
        return Some("other_principal");
    }
    if place.owner.principal.is_none() && !MANAGE.is_held_by(caller) {
        return Some("lost_scope");
    }
    if place.source != *source {
        return Some("other_source");
    }
    let is_browser = |cookie: &Secret| Digest::of(cookie.expose().as_bytes()) == terms.browser;
    (!cookies.iter().any(is_browser)).then_some("other_browser")
}

/// The address to which the service sends the browser back.
fn redirect_uri(public: &str, source: &SourceId) -> String {
    format!("{public}/connect/{source}/callback")
}

/// The address of the description of this gateway as a client, which needs https.
fn client_document(public: &str) -> Option<String> {
    public.starts_with("https://").then(|| format!("{public}/connect/client.json"))
}
