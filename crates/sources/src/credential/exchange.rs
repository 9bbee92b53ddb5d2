//! Access tokens that are exchanged for the token of a caller (RFC 8693, or on behalf of the caller
//! at Microsoft Entra ID).
//!
//! Invariant (I-120): the token of a caller goes to the configured token endpoint alone. The cache
//! has only a digest of it. The new token is sent only for calls that present the same token.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use toolcrib_core::{
    canonical::Digest,
    credential::{
        AccessToken, AccountSpec, Audience, ClientAuth, Credential, CredentialKind,
        CredentialProblem, Material, OAuth2, PresetClient, RefusalCause, ResolvedCredential,
        ResourceParameter, Secret, TokenExchange,
    },
    id::{CredentialId, CredentialName},
};
use toolcrib_oauth::token::{Client, Grant, TokenAnswer, TokenError, TokenRequest};

use super::{
    grant::AccountQuery,
    refusal::Refusal,
    sendable,
    token::{PAUSE_DENIED, PAUSE_SILENT, nanos, usable},
};
use crate::account::Hub;

/// The type of the callers' tokens (RFC 8693, section 3).
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// A token that is rejected so soon after it replaced a rejected one cannot be helped by another
/// exchange. This is also the pause until the next one.
const AT_ONCE: Duration = Duration::from_secs(60);
/// Largest number of cached tokens.
const MAX_SLOTS: usize = 4_096;

/// The exchanged tokens.
pub(super) struct Exchanges {
    hub: Arc<Hub>,
    slots: Mutex<HashMap<Digest, Arc<Slot>>>,
}

/// One exchange.
pub(super) struct Exchange<'a> {
    query: &'a AccountQuery,
    exchange: &'a TokenExchange,
    client: &'a PresetClient,
    token_url: &'a str,
    presented: &'a Secret,
}

/// The exchanged token of one caller's token.
#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    /// Held during an exchange.
    turn: tokio::sync::Mutex<()>,
}

/// Times are in nanoseconds of the clock.
#[derive(Default)]
struct State {
    /// The result of the last exchange; `None` before the first.
    result: Option<ExchangeResult>,
    /// When the result ends.
    until: u64,
    /// When a rejected token was last replaced.
    replaced_at: Option<u64>,
}

type ExchangeResult = Result<Arc<AccessToken>, RefusalCause>;

// === impl State ===

impl State {
    /// The result of the last exchange, unless it has ended at `now` or the token was rejected.
    fn known(&self, now: u64) -> Option<ExchangeResult> {
        let result = self.result.as_ref().filter(|_| now < self.until)?;
        let is_rejected = result.as_ref().is_ok_and(|token| token.is_rejected());
        (!is_rejected).then(|| result.clone())
    }

    fn is_rejected(&self) -> bool {
        matches!(&self.result, Some(Ok(token)) if token.is_rejected())
    }
}

// === impl Exchange ===

impl<'a> Exchange<'a> {
    /// The exchange of `presented` for a token of the service of `query`. `None` if the source
    /// exchanges no tokens, or the caller has none: it uses its connected account then.
    pub(super) fn of(query: &'a AccountQuery, presented: Option<&'a Secret>) -> Option<Self> {
        let AccountSpec { exchange, client, endpoints, .. } = &*query.account;
        Some(Self {
            query,
            exchange: exchange.as_ref()?,
            client: client.as_ref()?,
            token_url: &endpoints.as_ref()?.token,
            presented: presented?,
        })
    }

    /// Identifies the caller, its token, and everything that the exchanged token depends on.
    fn key(&self) -> Digest {
        let Self { query, exchange, client, token_url, presented } = self;
        let AccountSpec { scopes, resource, .. } = &*query.account;
        let [tenant, principal, source] = query.place.parts();
        let settings = format!("{exchange:?} {scopes:?} {resource:?}");
        let parts: [&str; 7] =
            [tenant, principal, source, presented.expose(), &client.id, token_url, &settings];
        let digests: Vec<[u8; 32]> = parts.iter().map(|it| Digest::of(it.as_bytes()).0).collect();
        Digest::of(&digests.concat())
    }

    /// A configured resource. That of the service is for the consent of people.
    fn resource(&self) -> Option<&str> {
        match &self.query.account.resource {
            ResourceParameter::Given(resource) => Some(resource),
            ResourceParameter::OfServer | ResourceParameter::Omitted => None,
        }
    }
}

/// The id of an exchanged token in events, and of its session at the service.
fn id_of(key: Digest) -> Option<CredentialId> {
    key.to_string().get(..32)?.parse().ok()
}

// === impl Exchanges ===

impl Exchanges {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, slots: Mutex::default() }
    }

    /// The id of the token that [`prepare`](Self::prepare) would find, without a request.
    pub(super) fn find(&self, exchange: &Exchange<'_>) -> Result<CredentialId, Refusal> {
        self.audience(exchange)?;
        let key = exchange.key();
        let id = id_of(key).ok_or_else(unreadable)?;
        let now = self.hub.clock.monotonic_nanos();
        let slot = self.slots.lock().get(&key).cloned();
        let known = slot.and_then(|slot| slot.state.lock().known(now));
        match known {
            Some(Err(cause)) => Err(Refusal(cause, Some(id))),
            Some(Ok(_)) | None => Ok(id),
        }
    }

    /// The token for a call, which is requested unless one is cached.
    pub(super) async fn prepare(
        &self,
        exchange: &Exchange<'_>,
    ) -> Result<ResolvedCredential, Refusal> {
        let audience = self.audience(exchange)?;
        let key = exchange.key();
        let id = id_of(key).ok_or_else(unreadable)?;
        let slot = self.slot(key);
        let known = || slot.state.lock().known(self.hub.clock.monotonic_nanos());
        let token = match known() {
            Some(known) => known,
            None => {
                let _turn = slot.turn.lock().await;
                match known() {
                    Some(known) => known,
                    None => self.request(exchange, &slot, &id).await,
                }
            }
        };
        let token = token.map_err(|cause| Refusal(cause, Some(id.clone())))?;
        self.resolved(exchange, id, audience, token)
    }

    /// The origin of the service, which alone gets the token.
    fn audience(&self, exchange: &Exchange<'_>) -> Result<Audience, Refusal> {
        let AccountQuery { place, url, .. } = exchange.query;
        let audience = self.hub.reach(&place.source).audience();
        let audience = audience.filter(|it| sendable::may_reach(std::slice::from_ref(it), url));
        audience.ok_or_else(|| Refusal::of(CredentialProblem::OutOfAudience, None))
    }

    /// Exchanges the token, and caches the result.
    async fn request(
        &self,
        exchange: &Exchange<'_>,
        slot: &Slot,
        id: &CredentialId,
    ) -> ExchangeResult {
        let source = &exchange.query.place.source;
        let now = self.hub.clock.monotonic_nanos();
        let (is_rejected, replaced_at) = {
            let state = slot.state.lock();
            (state.is_rejected(), state.replaced_at)
        };
        let was_replaced = replaced_at.is_some_and(|at| now.saturating_sub(at) < nanos(AT_ONCE));
        let (result, lasts) = if is_rejected && was_replaced {
            tracing::warn!(%source, credential = %id, "the service rejects exchanged tokens");
            (Err(RefusalCause::Credential(CredentialProblem::NotExchanged)), AT_ONCE)
        } else {
            match self.exchanged(exchange).await {
                Ok((token, lasts)) => {
                    tracing::debug!(%source, credential = %id, "a token was exchanged");
                    (Ok(Arc::new(AccessToken::new(token))), lasts)
                }
                Err(error) => {
                    // The words of the server could repeat the token that it got.
                    let code = error.code().unwrap_or("no usable answer");
                    tracing::warn!(%source, credential = %id, code, "a token was not exchanged");
                    let problem = CredentialProblem::NotExchanged;
                    match error.is_permanent() {
                        true => (Err(RefusalCause::Credential(problem)), PAUSE_DENIED),
                        false => {
                            let problem = format!("the caller's token was not exchanged: {code}");
                            (Err(RefusalCause::Unavailable(problem)), PAUSE_SILENT)
                        }
                    }
                }
            }
        };
        let now = self.hub.clock.monotonic_nanos();
        *slot.state.lock() = State {
            result: Some(result.clone()),
            until: now.saturating_add(nanos(lasts)),
            replaced_at: if is_rejected { Some(now) } else { replaced_at },
        };
        result
    }

    /// The new token, and how long it is sent.
    async fn exchanged(&self, exchange: &Exchange<'_>) -> Result<(Secret, Duration), TokenError> {
        let Exchange { query, client, presented, .. } = exchange;
        let grant = match exchange.exchange {
            TokenExchange::Standard { audience } => Grant::Exchange {
                subject_token: presented,
                subject_token_type: ACCESS_TOKEN,
                audience: audience.as_deref(),
            },
            TokenExchange::OnBehalfOf => Grant::OnBehalfOf { assertion: presented },
        };
        let secret = client.secret.as_ref().map(|secret| (&secret.0, client.auth));
        let form = TokenRequest {
            client: Client { id: &client.id, secret },
            grant,
            scopes: &query.account.scopes,
            resource: exchange.resource(),
        }
        .form();
        let reach = self.hub.reach(&query.place.source);
        let answer = reach.post_form(&self.hub.network, exchange.token_url, &form).await;
        let granted = TokenAnswer::read(&answer.map_err(TokenError::Unreachable)?)?;
        let token = granted.bearer()?;
        // The service would get the caller's own token.
        if token.expose() == presented.expose() {
            return Err(TokenError::Unusable("the exchanged token is the one that was sent"));
        }
        Ok((token.clone(), usable(granted.lifetime)))
    }

    /// The token in the form of a credential.
    fn resolved(
        &self,
        exchange: &Exchange<'_>,
        id: CredentialId,
        audience: Audience,
        token: Arc<AccessToken>,
    ) -> Result<ResolvedCredential, Refusal> {
        let Exchange { query, client, token_url, presented, .. } = exchange;
        let name = CredentialName::parse(query.place.source.as_str());
        let name = name.or_else(|_| CredentialName::parse("account")).map_err(|_| unreadable())?;
        let now = self.hub.clock.now();
        let oauth2 = OAuth2 {
            token_url: (*token_url).to_owned(),
            client_id: client.id.clone(),
            client_auth: ClientAuth::None,
            scopes: query.account.scopes.clone(),
            resource: exchange.resource().map(str::to_owned),
        };
        let credential = Credential {
            id,
            name,
            owner: query.place.owner.clone(),
            // Sent as a bearer token, and not renewed like the token of a connected account.
            kind: CredentialKind::ClientCredentials(oauth2),
            audiences: vec![audience],
            created_at: now,
            rotated_at: now,
            expires_at: None,
            revision: 0,
        };
        // The caller's token goes along, for one more exchange and to remove its echoes.
        let material = Material { value: (*presented).clone(), client_secret: None };
        Ok(ResolvedCredential { credential, material, token: Some(token) })
    }

    fn slot(&self, key: Digest) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if slots.len() >= MAX_SLOTS && !slots.contains_key(&key) {
            let now = self.hub.clock.monotonic_nanos();
            slots.retain(|_, it| Arc::strong_count(it) > 1 || it.state.lock().until > now);
            if slots.len() >= MAX_SLOTS {
                // Dropped tokens can be requested again.
                slots.retain(|_, slot| Arc::strong_count(slot) > 1);
            }
        }
        Arc::clone(slots.entry(key).or_default())
    }
}

fn unreadable() -> Refusal {
    Refusal::of(CredentialProblem::Unreadable, None)
}
