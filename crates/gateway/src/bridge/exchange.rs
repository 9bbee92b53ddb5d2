//! The token endpoint: codes and refresh tokens become access tokens.

use std::time::Duration;

use serde_json::Value;
use toolcrib_config::{BridgeConfig, Config};
use toolcrib_core::{
    bridge::BridgeItem,
    clock::Timestamp,
    credential::Secret,
    event::ClientEnd,
    principal::{ActingClient, Token},
};
use toolcrib_oauth::server::{
    error::{ErrorCode, Refused},
    token::{SentGrant, SentRequest, answer, is_verifier},
};

use super::{
    Bridge, Resource,
    client::authenticate,
    encoded,
    grant::{Presented, RefreshState, StoredGrant},
    secret, settings, unavailable,
};
use crate::{
    authn::{access::NewAccess, provider::RenewalError},
    clock::after,
    ids::new_id,
};

/// How long one server may wait for the provider, and how often others look for the result.
const BUSY: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);
/// How often a request looks, before its client has to try again.
const MAX_POLLS: u32 = 120;

const USED: Refused = Refused::grant("the code or token is invalid, expired, or was used already");

impl Bridge {
    /// Answers the form of a token request, with its header `Authorization` if there is one.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn token(&self, form: &str, authorization: Option<&str>) -> Result<Value, Refused> {
        let config = self.services.config();
        let bridge = settings(&config)?;
        let request = SentRequest::read(form, authorization)?;
        // One that was removed meanwhile could not prove itself any more.
        if !bridge.permits(&request.client.id) {
            return Err(Refused::client("the client is unknown, or is not permitted any more"));
        }
        let has_secret = authenticate(bridge, &request.client)?;
        match &request.grant {
            SentGrant::Code { code, verifier, redirect_uri } => {
                let shown = (verifier, redirect_uri.as_deref());
                self.of_code(&config, bridge, &request, code, shown).await
            }
            SentGrant::Refresh(token) => self.of_refresh(&config, bridge, &request, token).await,
            SentGrant::Assertion(assertion) => {
                self.of_assertion(&config, bridge, &request, assertion, has_secret).await
            }
        }
    }

    async fn of_code(
        &self,
        config: &Config,
        bridge: &BridgeConfig,
        request: &SentRequest,
        code: &Secret,
        (verifier, redirect_uri): (&Secret, Option<&str>),
    ) -> Result<Value, Refused> {
        let presented = Presented::code(code).ok_or(USED)?;
        let (mut item, stored) = self.stored_grant(&presented.id).await?.ok_or(USED)?;
        if stored.is_spent(&presented) {
            // The faster one may have stolen it (RFC 6749, section 4.1.2).
            self.end(&item, &stored, ClientEnd::Reused, None).await?;
            return Err(USED);
        }
        let asked = stored.request.as_ref().filter(|_| stored.current == presented.hash());
        let asked = asked.ok_or(USED)?;
        let is_same_redirect = match redirect_uri {
            Some(uri) => uri == asked.redirect.uri,
            None => !asked.names_redirect,
        };
        // Another client learns no more than from an unknown code.
        if stored.client != request.client.id {
            return Err(USED);
        }
        if !is_same_redirect {
            return Err(Refused::grant("`redirect_uri` is not that of the authorization request"));
        }
        if !is_verifier(verifier, &asked.challenge) {
            return Err(Refused::grant("`code_verifier` is not behind the challenge"));
        }
        check_resource(config, request, &stored)?;
        let now = self.services.now();
        let next = secret()?;
        let mut exchanged = stored.exchanged(&item.id, next.expose(), now);
        let refresh = exchanged.provider.is_some();
        let refresh = refresh.then(|| exchanged.refresh_text(&item.id, next.expose()));
        let access = self.new_access(bridge, &item, &mut exchanged, now)?;
        let lifetime = match refresh {
            Some(_) => bridge.refresh_lifetime,
            None => bridge.access_lifetime,
        };
        item.expires_at = after(now, lifetime);
        if !self.change(item, &exchanged).await? {
            return Err(USED);
        }
        self.issue(bridge, &access, refresh.as_ref()).await
    }

    async fn of_refresh(
        &self,
        config: &Config,
        bridge: &BridgeConfig,
        request: &SentRequest,
        token: &Secret,
    ) -> Result<Value, Refused> {
        let presented = Presented::refresh(token).ok_or(USED)?;
        for _ in 0..MAX_POLLS {
            let (mut item, mut stored) = self.stored_grant(&presented.id).await?.ok_or(USED)?;
            let now = self.services.now();
            let state = stored.state_of(&presented, now);
            // A stranger with another client's token ends nothing.
            if state == RefreshState::Unknown || stored.client != request.client.id {
                return Err(USED);
            }
            check_resource(config, request, &stored)?;
            match state {
                RefreshState::Unknown => return Err(USED),
                RefreshState::Reused => {
                    self.end(&item, &stored, ClientEnd::Reused, None).await?;
                    return Err(USED);
                }
                RefreshState::Again(secret) => {
                    let refresh = stored.refresh_text(&item.id, &secret);
                    let access = self.new_access(bridge, &item, &mut stored, now)?;
                    if self.change(item, &stored).await? {
                        return self.issue(bridge, &access, Some(&refresh)).await;
                    }
                }
                RefreshState::Current if stored.busy_until.is_some_and(|until| now < until) => {
                    tokio::time::sleep(POLL).await;
                }
                RefreshState::Current => {
                    stored.busy_until = Some(after(now, BUSY));
                    if self.change(item.clone(), &stored).await? {
                        item.revision = item.revision.saturating_add(1);
                        // A client that hangs up must not lose the provider's new token.
                        let (this, bridge, token) = (self.clone(), bridge.clone(), token.clone());
                        let renewal = async move {
                            let presented = Presented::refresh(&token).ok_or(USED)?;
                            this.renew(&bridge, item, stored, &presented).await
                        };
                        let renewed = self.services.background.complete(renewal).await;
                        return renewed.map_err(|_| super::broken("a renewal has failed"))?;
                    }
                }
            }
        }
        let description = "another request renews this token; try again";
        Err(Refused { code: ErrorCode::TemporarilyUnavailable, description })
    }

    /// Checks the person at the provider, and replaces the refresh token. This server alone does it
    /// for this grant.
    async fn renew(
        &self,
        bridge: &BridgeConfig,
        mut item: BridgeItem,
        mut stored: StoredGrant,
        presented: &Presented<'_>,
    ) -> Result<Value, Refused> {
        let owner = item.owner.clone().ok_or(USED)?;
        let refresh_token = Secret::new(stored.provider.clone().ok_or(USED)?);
        let renewal = self.authenticator.provider_renewal(bridge, &owner, &refresh_token).await;
        let renewal = match renewal {
            Ok(renewal) => renewal,
            Err(RenewalError::Refused) => {
                self.end(&item, &stored, ClientEnd::Refused, None).await?;
                return Err(Refused::grant("the identity provider does not renew this sign-in"));
            }
            Err(RenewalError::Unavailable) => {
                stored.busy_until = None;
                self.change(item, &stored).await?;
                let description = "the identity provider cannot be reached now";
                return Err(Refused { code: ErrorCode::TemporarilyUnavailable, description });
            }
        };
        let mut outdated = Vec::new();
        if let Some(person) = renewal.person {
            let (new, old) = (&person.token, &stored.token);
            if (&new.roles, &new.scopes) != (&old.roles, &old.scopes) {
                // The earlier access tokens have the earlier rights.
                outdated.extend(stored.access.drain(..).map(|(key, _)| key));
            }
            stored.token = person.token;
        }
        if let Some(token) = renewal.refresh_token {
            stored.provider = Some(token.expose().to_owned());
        }
        let now = self.services.now();
        let (mut next, successor) = stored.rotated(presented, &secret()?, now);
        let refresh = next.refresh_text(&item.id, &successor);
        let access = self.new_access(bridge, &item, &mut next, now)?;
        item.expires_at = after(now, bridge.refresh_lifetime);
        if !self.change(item, &next).await? {
            // It was ended meanwhile.
            return Err(USED);
        }
        let revoked = self.authenticator.revoke_access(&outdated).await;
        revoked.map_err(|error| unavailable(&error.into()))?;
        self.issue(bridge, &access, Some(&refresh)).await
    }

    /// Creates an access token of a grant, which is noted in the grant but works only after
    /// [`issue`](Self::issue).
    pub(super) fn new_access(
        &self,
        bridge: &BridgeConfig,
        item: &BridgeItem,
        stored: &mut StoredGrant,
        now: Timestamp,
    ) -> Result<NewAccess, Refused> {
        let owner = item.owner.clone().ok_or(USED)?;
        let until = after(now, bridge.access_lifetime);
        let token = Token { expires_at: until, ..stored.token.clone() };
        let client = ActingClient {
            id: stored.client.clone(),
            key: new_id(),
            grant: item.id.clone(),
            by: stored.by,
            path: stored.path.clone(),
        };
        if !stored.note_access(client.key.clone(), until, now) {
            let description = "this client has too many access tokens; use one of them";
            return Err(Refused { code: ErrorCode::TemporarilyUnavailable, description });
        }
        let access = self.authenticator.new_access(owner, stored.name.clone(), token, client);
        access.map_err(|_| super::broken("the system has no randomness"))
    }

    /// Makes an access token work, and builds the answer. If the grant has ended meanwhile, the token
    /// ends too.
    pub(super) async fn issue(
        &self,
        bridge: &BridgeConfig,
        access: &NewAccess,
        refresh: Option<&Secret>,
    ) -> Result<Value, Refused> {
        let stored = self.authenticator.store_access(access).await;
        stored.map_err(|error| unavailable(&error.into()))?;
        let client = &access.client;
        if self.stored_grant(&client.grant).await?.is_none() {
            let revoked = self.authenticator.revoke_access(std::slice::from_ref(&client.key)).await;
            revoked.map_err(|error| unavailable(&error.into()))?;
            return Err(USED);
        }
        Ok(answer(&access.text, bridge.access_lifetime, refresh))
    }

    /// Stores a changed grant; `false` if it was changed or removed meanwhile.
    async fn change(&self, item: BridgeItem, stored: &StoredGrant) -> Result<bool, Refused> {
        let changed = self.store.change(item, encoded(stored)?).await;
        changed.map_err(|error| unavailable(&error))
    }
}

/// A client may name the resource again, but no other one.
pub(super) fn check_resource(
    config: &Config,
    request: &SentRequest,
    stored: &StoredGrant,
) -> Result<(), Refused> {
    let Some(named) = &request.resource else { return Ok(()) };
    match Resource::read(config, Some(named))?.path == stored.path {
        true => Ok(()),
        false => {
            let description = "the code or token is for another resource";
            Err(Refused { code: ErrorCode::InvalidTarget, description })
        }
    }
}
