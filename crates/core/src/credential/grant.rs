//! Accounts that people connect: the links to connect them, pending authorizations, and the grants
//! of their calls.
//!
//! Invariant: the values of grants, authorizations and clients are sealed, bound to every other
//! field. Links and the states of authorizations are kept only as hashes, and can be used once.

use std::{collections::BTreeSet, fmt, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Audience, ClientAuth, CredentialStoreError, OAuth2, Owner, Secret};
use crate::{
    canonical::Digest,
    clock::{ReadStart, Timestamp},
    id::{CredentialId, PrincipalId, SourceId, TenantId},
    principal::hands,
};

/// The most pending authorizations of one principal.
pub const MAX_PENDING_AUTHORIZATIONS: usize = 8;
/// The most unused links of one principal; the oldest one makes room.
pub const MAX_LINKS: usize = 16;

/// The purpose of a grant: the calls of its owner to one source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GrantPlace {
    /// The principal that consented, or the tenant whose calls share the account.
    pub owner: Owner,
    /// The source.
    pub source: SourceId,
}

/// The consent of a person that their calls to a source act with their account, without its
/// values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountGrant {
    /// Its identity in events and in place of its values.
    pub id: CredentialId,
    /// The owner and the source of the grant; a place has one grant.
    pub place: GrantPlace,
    /// The granted scopes, the account, and how tokens are renewed.
    pub terms: GrantTerms,
    /// When the person consented.
    pub created_at: Timestamp,
    /// When its values were last changed.
    pub changed_at: Timestamp,
    /// When it expires. It is then removed.
    pub expires_at: Option<Timestamp>,
    /// When a call last used it, as recorded: up to about a minute late.
    pub last_used_at: Option<Timestamp>,
    /// Increases by one with every change.
    pub revision: u64,
}

/// The terms of a grant: issuer, scopes, account, and how tokens are renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantTerms {
    /// The authorization server.
    pub issuer: String,
    /// Its token endpoint, the client, and the granted scopes.
    pub oauth2: OAuth2,
    /// Where the tokens may be sent: the origin of the service.
    pub audiences: Vec<Audience>,
    /// The account, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Whether the grant works, or the person has to consent again.
    pub state: GrantState,
    /// When the access token expires, if the server says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_expires_at: Option<Timestamp>,
    /// The scopes that the upstream has required since, and that the next consent requests too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_scopes: Vec<String>,
    /// The scopes that a consent requested and did not give. They are not requested again for a
    /// call; a new consent forgets them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld_scopes: Vec<String>,
    /// Where the tokens can be revoked (RFC 7009).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_url: Option<String>,
    /// The creators of the key with which the person consented.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub makers: Vec<PrincipalId>,
}

/// The states of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantState {
    /// No refusal is known.
    Active,
    /// The authorization server refuses to renew it. The person has to consent again.
    NeedsConsent,
}

/// The values of a grant.
#[derive(Debug, Clone, Default)]
pub struct GrantSecrets {
    /// The last access token.
    pub access_token: Option<Secret>,
    /// The token that renews it.
    pub refresh_token: Option<Secret>,
    /// The secret of the OAuth client, if it has one.
    pub client_secret: Option<Secret>,
}

/// An authorization request whose response has not arrived, without the PKCE verifier.
#[derive(Clone, PartialEq, Eq)]
pub struct PendingAuthorization {
    /// The SHA-256 of the state in the request.
    pub state: Digest,
    /// The id of the grant that it makes.
    pub id: CredentialId,
    /// What the grant is for. Only this principal may finish the authorization.
    pub place: GrantPlace,
    /// The request.
    pub terms: PendingTerms,
    /// When it was sent.
    pub created_at: Timestamp,
    /// When its response comes too late.
    pub expires_at: Timestamp,
}

/// The part of an authorization request that its response is compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PendingTerms {
    /// The authorization server, recorded before the browser is sent to it.
    pub issuer: String,
    /// The address to which it sends the browser back.
    pub redirect_uri: String,
    /// The client, the token endpoint, and the requested scopes.
    pub oauth2: OAuth2,
    /// Whether the response must name the issuer (RFC 9207).
    pub names_issuer: bool,
    /// Where the tokens can be revoked (RFC 7009).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_url: Option<String>,
    /// The principal that must bring the response: the owner, or an administrator for a tenant.
    pub principal: PrincipalId,
    /// The hash of the cookie of the browser that must bring the response.
    pub browser: Digest,
}

/// A link at which a person can connect an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectLink {
    /// The SHA-256 of the secret part of its address.
    pub hash: Digest,
    /// The grant that it makes.
    pub place: GrantPlace,
    /// The only principal that may use it.
    pub principal: PrincipalId,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it can no longer be used.
    pub expires_at: Timestamp,
}

/// A client that an authorization server has registered for this gateway (RFC 7591).
#[derive(Debug, Clone)]
pub struct RegisteredClient {
    /// The authorization server, byte for byte. The client is never used with another.
    pub issuer: String,
    /// The address to which the server sends browsers back; part of the registration.
    pub redirect_uri: String,
    /// Its id in events and messages of the store.
    pub id: CredentialId,
    /// The id that the server gave it.
    pub client_id: String,
    /// How it authenticates.
    pub client_auth: ClientAuth,
    /// Its secret, if it has one.
    pub secret: Option<Secret>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When its secret expires.
    pub expires_at: Option<Timestamp>,
}

/// Grants and pending authorizations, sealed at rest. Methods that read or write values fail with
/// [`CredentialStoreError::NoKey`] without a seal key.
#[async_trait]
pub trait GrantStore: Send + Sync + 'static {
    /// Stores a grant in place of an earlier one for the same place, and removes expired grants.
    /// Fails with a conflict if the id exists elsewhere.
    async fn put(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<(), CredentialStoreError>;

    /// Returns the grant for exactly `place`, unless it has expired at `now`.
    async fn get(
        &self,
        place: &GrantPlace,
        now: Timestamp,
    ) -> Result<Option<(AccountGrant, GrantSecrets)>, CredentialStoreError>;

    /// As [`get`](Self::get), for calls, which must not read the store each time. The result can be
    /// as old as [`MAX_READ_AGE`](crate::clock::MAX_READ_AGE); changes by this process are in it at once.
    async fn recent(
        &self,
        place: &GrantPlace,
        now: ReadStart,
    ) -> Result<Option<Arc<(AccountGrant, GrantSecrets)>>, CredentialStoreError> {
        Ok(self.get(place, now.time()).await?.map(Arc::new))
    }

    /// Records when grants were last used. Ignores unknown grants and earlier times. A use is no
    /// change of its grant.
    async fn note_used(
        &self,
        used: Vec<(CredentialId, Timestamp)>,
    ) -> Result<(), CredentialStoreError>;

    /// The grants of a tenant and of all its principals, by principal (the tenant's own first) and
    /// source, expired ones included. Requires no key.
    async fn list(&self, tenant: &TenantId) -> Result<Vec<AccountGrant>, CredentialStoreError>;

    /// The grants of one owner, by source, expired ones included. Requires no key.
    async fn list_of(&self, owner: &Owner) -> Result<Vec<AccountGrant>, CredentialStoreError>;

    /// The authorization server of the earliest grant of `tenant` to `source`, also if it has
    /// expired. Requires no key.
    async fn issuer_of(
        &self,
        tenant: &TenantId,
        source: &SourceId,
    ) -> Result<Option<String>, CredentialStoreError>;

    /// Replaces terms, times and values of the grant with the id and the place of `grant` if its
    /// revision is still that of `grant`; the revision increases by one. Returns `false` if it was
    /// removed or changed meanwhile.
    async fn change(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<bool, CredentialStoreError>;

    /// Removes a grant of a tenant; returns `false` if the id is unknown.
    async fn remove(
        &self,
        tenant: &TenantId,
        id: &CredentialId,
    ) -> Result<bool, CredentialStoreError>;

    /// Stores an authorization with its PKCE verifier, and removes those of the principal that have
    /// expired when it was created. Returns `false` if the principal has
    /// [`MAX_PENDING_AUTHORIZATIONS`] others.
    async fn begin(
        &self,
        pending: PendingAuthorization,
        verifier: Secret,
    ) -> Result<bool, CredentialStoreError>;

    /// Removes the authorization with this state and returns it, unless it has expired at `now`.
    /// Only one of several callers receives it.
    async fn take(
        &self,
        state: &Digest,
        now: Timestamp,
    ) -> Result<Option<(PendingAuthorization, Secret)>, CredentialStoreError>;

    /// Permits `holder` alone to renew the grant `id` until `until`. Returns `false` while another
    /// holder is permitted at `now`.
    async fn lease(
        &self,
        id: &CredentialId,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, CredentialStoreError>;

    /// Ends the lease of `holder`, if it has not passed to another.
    async fn end_lease(&self, id: &CredentialId, holder: &str) -> Result<(), CredentialStoreError>;

    /// Stores a link, and removes the oldest unused ones of its principal beyond [`MAX_LINKS`].
    /// Requires no key.
    async fn add_link(&self, link: ConnectLink) -> Result<(), CredentialStoreError>;

    /// The link with this hash, unless it has expired at `now`. Requires no key.
    async fn link(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<ConnectLink>, CredentialStoreError>;

    /// Removes the link with this hash and returns it, unless it has expired at `now`. Only one of
    /// several callers receives it. Requires no key.
    async fn take_link(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<ConnectLink>, CredentialStoreError>;

    /// Stores a client in place of an earlier one with the same issuer and address.
    async fn put_client(&self, client: RegisteredClient) -> Result<(), CredentialStoreError>;

    /// The client for this issuer and address.
    async fn client(
        &self,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<Option<RegisteredClient>, CredentialStoreError>;

    /// Removes a client, for example because the server no longer knows it; returns `false` if there
    /// is none.
    async fn remove_client(
        &self,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<bool, CredentialStoreError>;

    /// Removes the grants, authorizations and links that have expired at `now`, and returns their
    /// number.
    async fn sweep(&self, now: Timestamp) -> Result<u64, CredentialStoreError>;
}

// === impl GrantPlace ===

impl GrantPlace {
    /// The tenant, the principal (empty for the tenant itself) and the source.
    pub fn parts(&self) -> [&str; 3] {
        let Self { owner: Owner { tenant, principal }, source } = self;
        let principal = principal.as_ref().map_or("", PrincipalId::as_str);
        [tenant.as_str(), principal, source.as_str()]
    }
}

// === impl ConnectLink ===

impl ConnectLink {
    /// The hash of `secret`, under which a link is stored.
    pub fn hash(secret: &Secret) -> Digest {
        Digest::of(secret.expose().as_bytes())
    }
}

// === impl AccountGrant ===

impl AccountGrant {
    /// Whether it has expired at `now`.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether calls with a key that `makers` created use it. All calls use that of a tenant. That
    /// of a principal is for keys of one ancestry: who created another key could act with an
    /// account that it did not connect, or connect one for the others.
    pub fn is_for(&self, makers: &[PrincipalId]) -> bool {
        let Some(own) = &self.place.owner.principal else { return true };
        let consented = &self.terms.makers;
        let known = |makers| hands(own, makers).collect::<BTreeSet<_>>();
        makers == consented || known(makers) == known(consented)
    }
}

// === impl GrantTerms ===

impl GrantTerms {
    /// Whether the tokens of `later`, the successor of this grant, survive the revocation of its own.
    /// Authorization servers end all tokens of a client for an account together, so both must be of
    /// different accounts, clients or servers.
    pub fn is_apart_from(&self, later: &Self) -> bool {
        let are_named = self.account.is_some() && later.account.is_some();
        self.issuer != later.issuer
            || self.oauth2.client_id != later.oauth2.client_id
            || (are_named && self.account != later.account)
    }
}

// === impl PendingAuthorization ===

impl PendingAuthorization {
    /// The hash of `state`, under which an authorization is stored.
    pub fn hash(state: &Secret) -> Digest {
        Digest::of(state.expose().as_bytes())
    }
}

impl fmt::Debug for PendingAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingAuthorization")
            .field("id", &self.id)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &str) -> Vec<PrincipalId> {
        names.split_whitespace().map(|name| name.parse().unwrap()).collect()
    }

    fn grant(principal: Option<&str>, makers: &str) -> AccountGrant {
        let owner = Owner {
            tenant: "acme".parse().unwrap(),
            principal: principal.map(|principal| principal.parse().unwrap()),
        };
        let oauth2 = OAuth2 {
            token_url: "https://id.example/token".to_owned(),
            client_id: "crib".to_owned(),
            client_auth: ClientAuth::None,
            scopes: Vec::new(),
            resource: None,
        };
        AccountGrant {
            id: "g".parse().unwrap(),
            place: GrantPlace { owner, source: "notes".parse().unwrap() },
            terms: GrantTerms {
                issuer: "https://id.example".to_owned(),
                oauth2,
                audiences: Vec::new(),
                account: None,
                state: GrantState::Active,
                token_expires_at: None,
                missing_scopes: Vec::new(),
                withheld_scopes: Vec::new(),
                revocation_url: None,
                makers: ids(makers),
            },
            created_at: Timestamp::UNIX_EPOCH,
            changed_at: Timestamp::UNIX_EPOCH,
            expires_at: None,
            last_used_at: None,
            revision: 1,
        }
    }

    // I-114
    #[test]
    fn an_account_is_for_keys_of_the_ancestry_that_connected_it() {
        for (consented, makers, expected) in [
            ("", "", true),
            ("", "ana", true),
            ("ana", "", true),
            ("root", "root ana", true),
            ("root eve", "eve root", true),
            ("", "eve", false),
            ("root", "eve", false),
            ("root", "root eve", false),
            ("eve", "", false),
            ("root eve", "root", false),
        ] {
            let found = grant(Some("ana"), consented).is_for(&ids(makers));
            assert_eq!(found, expected, "{consented:?} {makers:?}");
        }
        assert!(grant(None, "root").is_for(&ids("eve")), "the tenant's");
    }
}
