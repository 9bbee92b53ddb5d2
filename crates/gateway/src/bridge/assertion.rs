//! Assertions of an identity provider in place of a sign-in (ID-JAG,
//! draft-ietf-oauth-identity-assertion-authz-grant). A client gets no refresh token: it presents the
//! next assertion.

use std::time::Duration;

use serde_json::Value;
use toolcrib_config::{BridgeConfig, Config};
use toolcrib_core::{
    bridge::{BridgeItem, BridgeKind},
    canonical::Digest,
    credential::{CredentialStoreError, Secret},
    id::CredentialId,
    principal::ClientWay,
    store::StoreError,
};
use toolcrib_oauth::server::{
    error::{ErrorCode, Refused},
    token::SentRequest,
};

use super::{Bridge, Resource, grant::StoredGrant, secret, sign_in::NewGrant, unavailable};
use crate::{authn::provider::ProvenAssertion, clock::after, ids::new_id};

/// The longest remaining life of an assertion, which is remembered for as long.
const MAX_LIFE: Duration = Duration::from_secs(60 * 60);
/// The most remembered assertions.
const MAX_ASSERTIONS: u64 = 100_000;

const INVALID: Refused = Refused::grant("the assertion is invalid, expired, or was used already");

impl Bridge {
    pub(super) async fn of_assertion(
        &self,
        config: &Config,
        bridge: &BridgeConfig,
        request: &SentRequest,
        text: &Secret,
        has_secret: bool,
    ) -> Result<Value, Refused> {
        if bridge.assertion_issuers.is_empty() {
            let description = "this server accepts no assertions";
            return Err(Refused { code: ErrorCode::UnsupportedGrantType, description });
        }
        // Otherwise everybody who finds an assertion could use it.
        if !has_secret {
            let description = "only clients with a secret may exchange assertions";
            return Err(Refused { code: ErrorCode::UnauthorizedClient, description });
        }
        let proven = self.authenticator.assertion(bridge, text).await.ok_or(INVALID)?;
        let ProvenAssertion { person, client, resource, id, expires_at } = proven;
        let now = self.services.now();
        if client != request.client.id || expires_at > after(now, MAX_LIFE) {
            return Err(INVALID);
        }
        let resource = Resource::read(config, resource.as_deref())?;
        self.use_once(&id, expires_at - now).await?;
        let preset = bridge.clients.iter().find(|known| known.id == client);
        let name = preset.map_or_else(|| client.clone(), |known| known.name.clone());
        let mut stored = StoredGrant {
            client,
            name,
            by: ClientWay::Assertion,
            path: resource.path,
            token: person.token,
            // No client gets the code or the refresh token of this grant.
            current: Digest::of(secret()?.expose().as_bytes()),
            request: None,
            previous: None,
            family: secret()?.expose().to_owned(),
            provider: None,
            busy_until: None,
            access: Vec::new(),
        };
        super::exchange::check_resource(config, request, &stored)?;
        let grant: CredentialId = new_id();
        let item = BridgeItem {
            kind: BridgeKind::Grant,
            id: grant.clone(),
            owner: Some(person.person.clone()),
            created_at: now,
            expires_at: after(now, bridge.access_lifetime),
            revision: 1,
        };
        let access = self.new_access(bridge, &item, &mut stored, now)?;
        let lifetime = bridge.access_lifetime;
        let new = NewGrant { person: person.person, stored, lifetime };
        self.store_grant(grant, new).await?;
        self.issue(bridge, &access, None).await
    }

    /// Remembers an assertion for the rest of its life.
    async fn use_once(&self, id: &Digest, left: chrono::TimeDelta) -> Result<(), Refused> {
        let now = self.services.now();
        let item = BridgeItem {
            kind: BridgeKind::Assertion,
            id: CredentialId::parse(id.to_string()).map_err(|_| INVALID)?,
            owner: None,
            created_at: now,
            expires_at: after(now, left.to_std().map_err(|_| INVALID)?),
            revision: 1,
        };
        match self.store.add(item, Secret::new(String::new()), MAX_ASSERTIONS).await {
            Ok(true) => Ok(()),
            Err(CredentialStoreError::Store(StoreError::Conflict(_))) => Err(INVALID),
            Ok(false) => {
                let description = "too many assertions; try again later";
                Err(Refused { code: ErrorCode::TemporarilyUnavailable, description })
            }
            Err(error) => Err(unavailable(&error)),
        }
    }
}
