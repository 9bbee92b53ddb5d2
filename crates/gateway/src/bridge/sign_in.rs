//! The second part of a sign-in: the browser comes back from the provider, and brings a code to the
//! client.

use std::time::Duration;

use toolcrib_config::BridgeConfig;
use toolcrib_core::{
    bridge::{BridgeItem, BridgeKind},
    canonical::Digest,
    credential::Secret,
    event::{ClientEnd, ClientSignedIn, EventBody},
    id::CredentialId,
    principal::{ClientWay, PrincipalKey},
    source::AuthorizationResponse,
};
use toolcrib_oauth::server::{
    error::{ErrorCode, Refused},
    redirect,
};

use super::{
    Bridge, CODE, MAX_GRANTS, NewItem, Unredirected,
    authorize::{PendingSignIn, no_provider, sign_in_id},
    client::KnownClient,
    decoded,
    grant::{StoredGrant, code_text},
    secret, settings, unavailable,
};
use crate::{audit::lone_event, authn::provider::ProvenPerson, ids};

/// The route of the response in the record.
const CALLBACK: &str = "/oauth/callback";
/// The most grants of one person; the oldest one makes room.
const MAX_OWN_GRANTS: usize = 64;

/// What a browser brings back from the provider.
pub struct BroughtBack {
    /// The state.
    pub state: Secret,
    /// The values of the cookies of this browser. Other ports of the host can add some.
    pub cookies: Vec<Secret>,
    /// The rest.
    pub response: AuthorizationResponse,
}

/// The end of a sign-in in the browser.
pub struct SentBack {
    /// The address of the client to which the browser goes.
    pub address: String,
    /// The cookie of the request, which has ended.
    pub cookie: Secret,
}

/// A grant that is about to be stored.
pub(super) struct NewGrant {
    pub(super) person: PrincipalKey,
    pub(super) stored: StoredGrant,
    pub(super) lifetime: Duration,
}

impl Bridge {
    /// Finishes a sign-in.
    ///
    /// # Errors
    /// [`Unredirected`] if the response belongs to no sign-in of this browser.
    pub async fn finish(&self, brought: BroughtBack) -> Result<SentBack, Unredirected> {
        let BroughtBack { state, cookies, response } = brought;
        let other = |reason| {
            self.audit.denials().stranger(CALLBACK, reason);
            Unredirected(Refused::invalid("this response belongs to no sign-in of this browser"))
        };
        let config = self.services.config();
        let bridge = settings(&config)?;
        let now = self.services.now();
        let taken = self.store.take(BridgeKind::SignIn, &sign_in_id(&state)?, now).await;
        let taken = taken.map_err(|error| unavailable(&error))?;
        let pending = taken.and_then(|(_, it)| decoded::<PendingSignIn>(&it));
        let pending = pending.ok_or_else(|| other("unknown_state"))?;
        let is_own = |cookie: &Secret| Digest::of(cookie.expose().as_bytes()) == pending.browser;
        let cookie = cookies.into_iter().find(is_own).ok_or_else(|| other("other_browser"))?;
        // The client could have lost its address meanwhile.
        let client = self.client(bridge, &pending.client).await?;
        let target = pending.request.redirect.clone();
        let mut known = client.description.redirect_uris.iter();
        if !known.any(|known| redirect::matches(known, &target.uri)) {
            return Err(other("other_redirect"));
        }
        let code = self.grant(bridge, client, pending, &response).await;
        let address = match code {
            Ok(code) => target.with_code(code.expose(), &bridge.own_issuer),
            Err(refused) => {
                if refused.code == ErrorCode::AccessDenied {
                    self.audit.denials().stranger(CALLBACK, "not_signed_in");
                }
                target.with_refusal(refused, &bridge.own_issuer)
            }
        };
        Ok(SentBack { address, cookie })
    }

    /// Makes a grant for the person that the provider identifies, and returns its code.
    async fn grant(
        &self,
        bridge: &BridgeConfig,
        client: KnownClient,
        pending: PendingSignIn,
        response: &AuthorizationResponse,
    ) -> Result<Secret, Refused> {
        let verifier = Secret::new(pending.verifier);
        let signed_in =
            self.authenticator.provider_sign_in(bridge, response, &pending.nonce, &verifier);
        let signed_in = signed_in.await.map_err(|error| no_provider(&error))?;
        let ProvenPerson { person, token } = signed_in.person;
        let id: CredentialId = ids::new_id();
        let code = code_text(&id, &secret()?);
        let stored = StoredGrant {
            name: client.description.name.clone().unwrap_or_else(|| client.id.clone()),
            client: client.id.clone(),
            by: ClientWay::Consent,
            path: pending.path,
            token,
            current: Digest::of(code.expose().as_bytes()),
            request: Some(pending.request),
            previous: None,
            family: secret()?.expose().to_owned(),
            provider: signed_in.refresh_token.map(|token| token.expose().to_owned()),
            busy_until: None,
            access: Vec::new(),
        };
        let new = NewGrant { person, stored, lifetime: CODE };
        self.store_grant(id, new).await?;
        self.keep_client(&client.id, bridge.refresh_lifetime).await;
        Ok(code)
    }

    /// Records a grant, and stores it.
    pub(super) async fn store_grant(&self, id: CredentialId, new: NewGrant) -> Result<(), Refused> {
        let NewGrant { person, stored, lifetime } = new;
        self.make_room(&person, &stored.client).await?;
        let body = EventBody::ClientSignedIn(ClientSignedIn {
            principal: person.principal.clone(),
            client_id: stored.client.clone(),
            grant_id: id.clone(),
            by: stored.by,
        });
        let event = lone_event(person.tenant.clone(), body, self.services.now());
        let unrecorded = Refused {
            code: ErrorCode::ServerError,
            description: "the sign-in could not be recorded and was refused",
        };
        self.audit.append_or_refuse(event).await.map_err(|_| unrecorded)?;
        let (kind, owner) = (BridgeKind::Grant, Some(person));
        let new = NewItem { kind, id, owner, lifetime, most: MAX_GRANTS };
        match self.add(new, &stored).await? {
            true => Ok(()),
            false => Err(Refused {
                code: ErrorCode::TemporarilyUnavailable,
                description: "this server has too many grants",
            }),
        }
    }

    /// Ends the oldest grants of a person who has the most: those of `client` first, so that a busy
    /// client does not end the others.
    async fn make_room(&self, person: &PrincipalKey, client: &str) -> Result<(), Refused> {
        let own = self.store.grants(&person.tenant, Some(&person.principal)).await;
        let own = own.map_err(|error| unavailable(&error))?.into_iter();
        let mut own: Vec<(BridgeItem, StoredGrant)> =
            own.filter_map(|(item, value)| Some((item, decoded(&value)?))).collect();
        own.sort_by_key(|(item, stored)| (stored.client != client, item.created_at));
        let excess = own.len().saturating_sub(MAX_OWN_GRANTS - 1);
        for (item, stored) in own.into_iter().take(excess) {
            self.end(&item, &stored, ClientEnd::Replaced, None).await?;
        }
        Ok(())
    }

    /// The grant `id`, unless it has expired.
    pub(super) async fn stored_grant(
        &self,
        id: &CredentialId,
    ) -> Result<Option<(BridgeItem, StoredGrant)>, Refused> {
        let found = self.store.get(BridgeKind::Grant, id, self.services.now()).await;
        let found = found.map_err(|error| unavailable(&error))?;
        Ok(found.and_then(|(item, value)| Some((item, decoded(&value)?))))
    }
}
