//! Signed tokens: their issuer, the key that verifies them and their principal.
//!
//! A verified token is cached by its digest until it expires, or until the configuration or the
//! keys of the issuer change.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::hmac;
use quick_cache::{Weighter, sync::Cache};
use sha2::{Digest as _, Sha256};
use toolcrib_config::{Config, JwtAlgorithm, JwtConfig, SharedJwtConfig};
use toolcrib_core::{
    clock::Timestamp,
    credential::Secret,
    id::{PrincipalId, TenantId},
    principal::{AuthMethod, PresentedToken, Principal, Token},
};

use super::{
    ceiling::{self, ScopeUses},
    claims::{self, Claims},
    error::AuthError,
    issuer::{Issuer, IssuerContext},
    jwk::KeyMatch,
    jws::{Jws, NoToken},
    roles::{Rights, Roles, rights},
};

/// Most cached tokens, and their most bytes.
const REMEMBERED: usize = 10_000;
const REMEMBERED_BYTES: u64 = 32 << 20;
/// Longest remaining lifetime of a token with a shared secret.
const SHARED_LIFE: Duration = Duration::from_secs(15 * 60);
/// Accepted clock difference for tokens with a shared secret.
const SHARED_SKEW: Duration = Duration::from_secs(30);
/// The issuer name of tokens signed with a shared secret.
const SHARED: &str = "otc";

/// The state for judging tokens under one configuration.
pub(super) struct Tokens {
    issuers: Vec<Arc<Issuer>>,
    uses: ScopeUses,
    shared: Option<SharedSecretVerifier>,
    verified: Cache<[u8; 32], Arc<Principal>, Bytes>,
}

/// The size of a principal in the cache: an issuer may put many scopes and roles into a token.
#[derive(Clone)]
struct Bytes;

impl Weighter<[u8; 32], Arc<Principal>> for Bytes {
    fn weight(&self, _: &[u8; 32], principal: &Arc<Principal>) -> u64 {
        let scopes = principal.scopes.iter().map(|scope| 64 + scope.to_string().len());
        let roles = principal.roles.iter().map(|role| 64 + role.len());
        let total: usize = scopes.chain(roles).sum();
        u64::try_from(1024 + total).unwrap_or(u64::MAX)
    }
}

struct SharedSecretVerifier {
    config: SharedJwtConfig,
    key: hmac::Key,
    proof: [u8; 32],
}

/// The result for a token without a request to its issuer.
pub(super) enum Verdict {
    /// The principal of the token.
    Holder(Arc<Principal>),
    /// The token is invalid.
    Refused,
    /// The keys of this issuer must be fetched first.
    Open(Arc<Issuer>),
}

// === impl Tokens ===

impl Tokens {
    /// The issuers of `config`. Issuers of `before` with the same settings keep their keys.
    pub(super) fn new(config: &Config, before: Option<&Self>, context: &IssuerContext) -> Self {
        let before = before.map(|before| before.issuers.as_slice()).unwrap_or_default();
        let issuer =
            |config: &JwtConfig| match before.iter().find(|issuer| issuer.config == *config) {
                Some(issuer) => Arc::clone(issuer),
                None => Issuer::new(config.clone(), context),
            };
        Self {
            issuers: config.issuers.iter().map(issuer).collect(),
            uses: ScopeUses::new(config),
            shared: config
                .otc_jwt
                .clone()
                .map(|shared| SharedSecretVerifier::new(shared, &config.roles)),
            verified: Cache::with_weighter(REMEMBERED, REMEMBERED_BYTES, Bytes),
        }
    }

    pub(super) fn issuers(&self) -> &[Arc<Issuer>] {
        &self.issuers
    }

    /// Fetches the due keys of issuers.
    pub(super) fn refresh_if_due(&self) {
        for issuer in &self.issuers {
            issuer.refresh_if_due();
        }
    }

    /// Judges the token `text` at `now`.
    pub(super) fn judge(&self, text: &str, shared: bool, roles: &Roles, now: Timestamp) -> Verdict {
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        if let Some(principal) = self.verified.get(&digest)
            && let AuthMethod::Jwt(token) = &principal.auth
            // Those with a shared secret are only valid on their mounts.
            && (shared || token.issuer != SHARED)
        {
            match self.holds(token, now) {
                Ok(()) => return Verdict::Holder(principal),
                Err(_) => self.verified.remove(&digest),
            };
        }
        let verdict = match Jws::read(text) {
            Ok(token) => self.verify(&token, shared, roles, now),
            Err(NoToken) => Verdict::Refused,
        };
        if let Verdict::Holder(principal) = &verdict {
            self.verified.insert(digest, Arc::clone(principal));
        }
        verdict
    }

    /// `principal` with the token `text` that it came with. Those with a shared secret are never
    /// exchanged. The cache has principals without their tokens.
    pub(super) fn presenting(principal: &Arc<Principal>, text: &str) -> Arc<Principal> {
        let AuthMethod::Jwt(token) = &principal.auth else { return Arc::clone(principal) };
        if token.issuer == SHARED {
            return Arc::clone(principal);
        }
        let presented = PresentedToken::new(Secret::new(text.to_owned()));
        let token = Token { presented, ..Token::clone(token) };
        let auth = AuthMethod::Jwt(Arc::new(token));
        Arc::new(Principal { auth, ..Principal::clone(principal) })
    }

    /// Whether a token could have the principal `id` of `tenant`.
    pub(super) fn could_name(&self, id: &PrincipalId, tenant: &TenantId) -> bool {
        let issued = |issuer: &Arc<Issuer>| {
            let config = &issuer.config;
            // An issuer without a configured tenant names the tenant in each token.
            config.tenant.as_ref().is_none_or(|of| of == tenant)
                && id.as_str().starts_with(config.principal_prefix())
        };
        let shared = |shared: &SharedSecretVerifier| {
            shared.config.tenant == *tenant && shared.config.principal.as_ref() == Some(id)
        };
        self.issuers.iter().any(issued) || self.shared.as_ref().is_some_and(shared)
    }

    /// Returns `principal`, the holder of `token`, with its current roles and scopes.
    pub(super) fn renew(
        &self,
        principal: &Arc<Principal>,
        token: &Token,
        roles: &Roles,
        now: Timestamp,
    ) -> Result<Arc<Principal>, AuthError> {
        self.holds(token, now)?;
        let Rights { roles, scopes } = self.rights_of(token, &principal.tenant, roles);
        Ok(match scopes == principal.scopes && roles == principal.roles {
            true => Arc::clone(principal),
            false => Arc::new(Principal { roles, scopes, ..Principal::clone(principal) }),
        })
    }

    /// Returns the latest expiry of a key that the holder of `token` creates at `now`.
    pub(super) fn key_limit(&self, token: &Token, now: Timestamp) -> Timestamp {
        // A client must not turn an hour into a year.
        let issuer = self.issuer_of(token).filter(|_| token.client.is_none());
        let life = issuer.and_then(|issuer| issuer.config.key_lifetime);
        let end = life.and_then(|life| chrono::Duration::from_std(life).ok());
        end.and_then(|life| now.checked_add_signed(life)).unwrap_or(token.expires_at)
    }

    fn issuer_of(&self, token: &Token) -> Option<&Arc<Issuer>> {
        self.issuers.iter().find(|issuer| issuer.config.issuer == token.issuer)
    }

    /// The rights of a token in `tenant`: the part of its claims that the current configuration
    /// admits.
    fn rights_of(&self, token: &Token, tenant: &TenantId, all: &Roles) -> Rights {
        let claimed = ceiling::claimable(&token.scopes);
        match self.issuer_of(token) {
            Some(issuer) => {
                let config = &issuer.config;
                let is_admitted = |role: &&String| config.roles.contains(*role);
                let roles: Vec<_> = token.roles.iter().filter(is_admitted).cloned().collect();
                rights(all, &roles, &self.uses.admitted(config, tenant, &claimed))
            }
            // Its rights are at most those of the configuration.
            None if token.issuer == SHARED => rights(all, &token.roles, &claimed),
            None => rights(all, &[], &[]),
        }
    }

    fn principal(&self, id: PrincipalId, tenant: TenantId, token: Token, all: &Roles) -> Principal {
        let Rights { roles, scopes } = self.rights_of(&token, &tenant, all);
        let auth = AuthMethod::Jwt(Arc::new(token));
        Principal { id, tenant, scopes, roles, makers: Vec::new(), auth, session: None }
    }

    /// Whether a verified token is still valid.
    fn holds(&self, token: &Token, now: Timestamp) -> Result<(), AuthError> {
        if token.expires_at <= now {
            return Err(AuthError::Invalid);
        }
        if self.shared.as_ref().is_some_and(|shared| shared.proof == token.proof) {
            return Ok(());
        }
        let keys = self
            .issuer_of(token)
            .ok_or(AuthError::Invalid)?
            .keys()
            .ok_or(AuthError::Unavailable)?;
        if keys.proofs.contains(&token.proof) { Ok(()) } else { Err(AuthError::Invalid) }
    }

    fn verify(&self, token: &Jws<'_>, shared: bool, roles: &Roles, now: Timestamp) -> Verdict {
        if let Some(known) = self.shared.as_ref().filter(|_| shared && token.algorithm == "HS256") {
            return match known.verify(token, roles, now) {
                Ok((id, token)) => {
                    let tenant = known.config.tenant.clone();
                    Verdict::Holder(Arc::new(self.principal(id, tenant, token, roles)))
                }
                Err(NoToken) => Verdict::Refused,
            };
        }
        let claimed = token.claims.get("iss").and_then(|issuer| issuer.as_str());
        let Some(issuer) =
            self.issuers.iter().find(|issuer| Some(issuer.config.issuer.as_str()) == claimed)
        else {
            return Verdict::Refused;
        };
        let config = &issuer.config;
        let algorithm = JwtAlgorithm::parse(&token.algorithm);
        let Some(algorithm) = algorithm.filter(|algorithm| config.algorithms.contains(algorithm))
        else {
            return Verdict::Refused;
        };
        // The cheap checks come first, so that an invalid token causes no request.
        let Ok(end) = claims::end_of(&token.claims, now, config.clock_skew) else {
            return Verdict::Refused;
        };
        if !claims::is_for(&token.claims, config.audiences.iter().map(String::as_str)) {
            return Verdict::Refused;
        }
        let Some(known) = issuer.keys() else { return Verdict::Open(Arc::clone(issuer)) };
        let key = match known.keys.find(token, algorithm) {
            KeyMatch::Signed(key) => key,
            KeyMatch::Forged => return Verdict::Refused,
            KeyMatch::Unknown => return Verdict::Open(Arc::clone(issuer)),
        };
        match mapped(issuer, &token.claims, end, &key.thumbprint) {
            Ok((id, tenant, token)) => {
                Verdict::Holder(Arc::new(self.principal(id, tenant, token, roles)))
            }
            Err(NoToken) => Verdict::Refused,
        }
    }
}

/// What the claims of a verified token of `issuer` mean, which expires at `end` and was signed with
/// the key of `thumbprint`.
pub(super) fn mapped(
    issuer: &Issuer,
    said: &Claims,
    end: Timestamp,
    thumbprint: &[u8; 32],
) -> Result<(PrincipalId, TenantId, Token), NoToken> {
    let config = &issuer.config;
    let (id, tenant) = holder(config, said)?;
    let at = |path: &Option<_>| path.as_ref().and_then(|path| claims::at(said, path));
    let token = Token {
        issuer: config.issuer.clone(),
        expires_at: end,
        roles: claims::roles(at(&config.claims.roles)),
        scopes: claims::scopes(at(&config.claims.scopes)),
        proof: issuer.proof(thumbprint),
        client: None,
        actors: claims::actors(said, &config.issuer, config.principal_prefix()),
        presented: PresentedToken::default(),
    };
    Ok((id, tenant, token))
}

fn holder(config: &JwtConfig, said: &Claims) -> Result<(PrincipalId, TenantId), NoToken> {
    let name = claims::text_at(said, &config.claims.principal)?;
    let tenant = match (&config.claims.tenant, &config.tenant) {
        (Some(path), _) => claims::tenant(claims::text_at(said, path)?)?,
        (None, Some(tenant)) => tenant.clone(),
        (None, None) => return Err(NoToken),
    };
    Ok((claims::principal(config.principal_prefix(), name)?, tenant))
}

// === impl SharedSecretVerifier ===

impl SharedSecretVerifier {
    fn new(config: SharedJwtConfig, all_roles: &Roles) -> Self {
        let secret = config.secret.expose().as_bytes();
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let SharedJwtConfig { secret: _, audience, tenant, principal, scopes, roles } = &config;
        // The grants of the roles are part of the key, because a token may contain some of them
        // itself.
        let given: Vec<_> = roles.iter().map(|role| all_roles.get(role)).collect();
        let settings =
            format!("{audience:?} {tenant:?} {principal:?} {scopes:?} {roles:?} {given:?}");
        // Keyed, so that the digest cannot be used to guess secrets.
        let mut proof = [0; 32];
        let tag = hmac::sign(&key, settings.as_bytes());
        proof.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        Self { config, key, proof }
    }

    /// Every party with the shared secret can write any claim, so a token can only narrow the
    /// scopes that the configuration grants to all of them.
    fn verify(
        &self,
        token: &Jws<'_>,
        roles: &Roles,
        now: Timestamp,
    ) -> Result<(PrincipalId, Token), NoToken> {
        hmac::verify(&self.key, token.signed, &token.signature).map_err(|_| NoToken)?;
        let end = claims::end_of(&token.claims, now, SHARED_SKEW)?;
        if (end - now).to_std().map_err(|_| NoToken)? > SHARED_LIFE + SHARED_SKEW * 2 {
            return Err(NoToken);
        }
        let ours = match &self.config.audience {
            Some(audience) => claims::is_for(&token.claims, [audience.as_str()]),
            None => !token.claims.contains_key("aud"),
        };
        if !ours {
            return Err(NoToken);
        }
        let prefix = SharedJwtConfig::PRINCIPAL_PREFIX;
        let id = match (token.claims.get("sub"), &self.config.principal) {
            (Some(name), _) => claims::principal(prefix, name.as_str().ok_or(NoToken)?)?,
            (None, Some(principal)) => principal.clone(),
            (None, None) => return Err(NoToken),
        };
        let all = Token {
            issuer: SHARED.to_owned(),
            expires_at: end,
            roles: self.config.roles.clone(),
            scopes: self.config.scopes.clone(),
            proof: self.proof,
            client: None,
            actors: Vec::new(),
            presented: PresentedToken::default(),
        };
        let all = match token.claims.get("scope") {
            None => all,
            requested => {
                let held = rights(roles, &all.roles, &all.scopes).scopes;
                let mut scopes = claims::scopes(requested);
                scopes.retain(|scope| held.includes(scope));
                Token { roles: Vec::new(), scopes, ..all }
            }
        };
        Ok((id, all))
    }
}
