//! Keys that callers create with the scope [`SCOPE`], in their own tenant.
//!
//! Invariant (I-61): a key gets only scopes and roles of its creator, and a principal that is new
//! or the creator's. Another principal needs [`IMPERSONATE`]. It expires no later than the
//! credential of the creator, or than the configuration allows for a token.
//!
//! Every change takes effect in this process before the response (I-63). `Gateway` records it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use chrono::SecondsFormat;
use serde::{Deserialize, Serialize};
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    clock::Timestamp,
    id::{KeyId, PrincipalId, TenantId},
    principal::{AuthMethod, Principal},
    scope::Grant,
    store::{KeyRecord, KeyRotation, StoreError},
};

use super::{Authenticator, KeyRequest, NewKey, is_kept_for_tokens, new_key, next_key};

/// The scope for managing the keys of a tenant.
pub const SCOPE: &str = RouteScope::KeysManage.as_str();
/// The scope, in addition to [`SCOPE`], for creating or rotating a key of another existing
/// principal, or of a reserved name.
pub const IMPERSONATE: &str = RouteScope::KeysImpersonate.as_str();
/// Reserved principals, in lower case, without punctuation: the operator at the machine, callers
/// without credentials, and the system when it closes approvals. The empty one is `-`.
const RESERVED: [&str; 4] = ["", "operator", "anonymous", "coresystem"];
/// Longest time for which a key and its successor both work.
pub const MAX_OVERLAP: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Most principals behind one key.
pub const MAX_MAKERS: usize = 64;

/// Why a change of keys failed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The caller does not hold this scope: [`SCOPE`] or [`IMPERSONATE`].
    #[error("the scope `{0}` is missing")]
    Forbidden(&'static str),
    /// The key would have a scope or role that the caller does not have.
    #[error("a key cannot have scopes or roles that its creator does not have")]
    Wider,
    /// The caller has every scope, and the configuration has no role of this name.
    #[error("the configuration has no role with one of these names")]
    NoSuchRole,
    /// The key would have no permission.
    #[error("a key needs a role or a scope")]
    Nothing,
    /// The name of its principal is reserved for tokens.
    #[error("a principal with `|` is reserved for tokens; choose another name")]
    KeptForTokens,
    /// The expiry is not in the future, or the overlap is too long.
    #[error("the time is not in the future, or further than 30 days for an overlap")]
    BadTime,
    /// It would work longer than the credential of its creator allows.
    #[error("the key would outlive the credential that creates it; it can expire at {} at the latest", moment(*.0))]
    Outlives(Timestamp),
    /// The caller's tenant has no active key with this id.
    #[error("no active key with this id")]
    NoSuchKey,
    /// It already has a successor.
    #[error("another key follows this one already; rotate that one")]
    Followed,
    /// More than [`MAX_MAKERS`] principals are behind it.
    #[error("too many principals are behind this key; let the operator create one")]
    ManyHands,
    /// The system has no randomness.
    #[error("a key cannot be created right now; try again later")]
    Randomness,
    /// The event of the change could not be stored.
    #[error("the change cannot be recorded")]
    Unrecorded,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A key for display: without its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the members of `KeyRecord`, as texts")]
pub struct KeyInfo {
    pub id: String,
    pub name: String,
    pub tenant: String,
    pub principal: String,
    pub roles: Vec<String>,
    pub scopes: Vec<String>,
    pub created_at: String,
    pub expires_at: Option<String>,
    pub revoked_at: Option<String>,
    pub last_used_at: Option<String>,
    pub replaces: Option<String>,
    #[serde(default)]
    pub made_by: Vec<String>,
}

impl From<&KeyRecord> for KeyInfo {
    fn from(key: &KeyRecord) -> Self {
        Self {
            id: key.id.to_string(),
            name: key.name.clone(),
            tenant: key.tenant.to_string(),
            principal: key.principal.to_string(),
            roles: key.roles.clone(),
            scopes: key.scopes.iter().map(ToString::to_string).collect(),
            created_at: moment(key.created_at),
            expires_at: key.expires_at.map(moment),
            revoked_at: key.revoked_at.map(moment),
            last_used_at: key.last_used_at.map(moment),
            replaces: key.replaces.as_ref().map(ToString::to_string),
            made_by: key.makers.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Formats a time to the second.
pub fn moment(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// A key before it is stored.
pub(crate) struct DraftedKey {
    pub(crate) key: NewKey,
    place: KeyPlace,
}

/// The condition for storing a new key.
enum KeyPlace {
    /// Always.
    Any,
    /// Its principal has no other key.
    NewPrincipal,
    /// An active key without another successor is replaced; it expires at `until`.
    After { old: KeyId, until: Timestamp },
}

impl Authenticator {
    /// The keys of the caller's tenant, by creation, with the uses that are not stored yet.
    ///
    /// # Errors
    /// [`KeyError::Forbidden`], [`KeyError::Store`].
    pub async fn keys_of(&self, caller: &Principal) -> Result<Vec<KeyRecord>, KeyError> {
        may_manage(caller)?;
        let mut keys = self.inner.keys.list().await?;
        keys.retain(|key| key.tenant == caller.tenant && key.session.is_none());
        for key in &mut keys {
            key.last_used_at = key.last_used_at.max(self.inner.last_use(&key.id));
        }
        Ok(keys)
    }

    /// Creates the key `request` for `caller`; it works after [`store_key`](Self::store_key).
    pub(crate) async fn draft_key(
        &self,
        caller: &Principal,
        request: KeyRequest,
    ) -> Result<DraftedKey, KeyError> {
        may_manage(caller)?;
        let now = self.inner.clock.now();
        if request.tenant != caller.tenant {
            return Err(KeyError::Wider);
        }
        if request.roles.is_empty() && request.scopes.is_empty() {
            return Err(KeyError::Nothing);
        }
        if is_kept_for_tokens(&request.principal) {
            return Err(KeyError::KeptForTokens);
        }
        if request.expires_at.is_some_and(|end| end <= now) {
            return Err(KeyError::BadTime);
        }
        self.check_within(caller, &request.roles, &request.scopes)?;
        let any_principal = self.may_act_as(caller, &request.principal, &request.roles);
        if !any_principal {
            let is_taken = |key: &KeyRecord| {
                key.tenant == request.tenant && key.principal == request.principal
            };
            if self.is_reserved(&request.principal, &caller.tenant)
                || self.inner.keys.list().await?.iter().any(is_taken)
            {
                return Err(KeyError::Forbidden(IMPERSONATE));
            }
        }
        let limit = self.key_limit(caller).map_err(|_| KeyError::NoSuchKey)?;
        let expires_at = match (request.expires_at, limit) {
            (Some(end), Some(limit)) if end > limit => return Err(KeyError::Outlives(limit)),
            (requested, limit) => requested.or(limit),
        };
        let request = KeyRequest { expires_at, ..request };
        let mut key = new_key(request, now).map_err(|_| KeyError::Randomness)?;
        hand_over(caller, &mut key.record)?;
        let place = match any_principal {
            true => KeyPlace::Any,
            false => KeyPlace::NewPrincipal,
        };
        Ok(DraftedKey { key, place })
    }

    /// Creates the successor of the key `id`; the old key expires after `overlap`. Returns the new
    /// key and that time.
    pub(crate) async fn draft_successor(
        &self,
        caller: &Principal,
        id: &KeyId,
        overlap: Duration,
    ) -> Result<(DraftedKey, Timestamp), KeyError> {
        let keys = self.keys_of(caller).await?;
        let old = keys.iter().find(|key| key.id == *id).ok_or(KeyError::NoSuchKey)?;
        // The caller gets the text of the new key, and can act as its principal.
        self.check_within(caller, &old.roles, &old.scopes)?;
        if !self.may_act_as(caller, &old.principal, &old.roles) {
            return Err(KeyError::Forbidden(IMPERSONATE));
        }
        let now = self.inner.clock.now();
        let until = end_of_overlap(now, overlap).ok_or(KeyError::BadTime)?;
        rotated(rotation(&keys, old, now))?;
        let mut key = next_key(old, now).map_err(|_| KeyError::Randomness)?;
        let limit = self.key_limit(caller).map_err(|_| KeyError::NoSuchKey)?;
        key.record.expires_at = key.record.expires_at.into_iter().chain(limit).min();
        hand_over(caller, &mut key.record)?;
        let place = KeyPlace::After { old: id.clone(), until };
        Ok((DraftedKey { key, place }, old.expires_at.map_or(until, |end| end.min(until))))
    }

    /// Stores a drafted key. Afterwards the key works.
    pub(crate) async fn store_key(&self, drafted: &DraftedKey) -> Result<(), KeyError> {
        let (keys, record) = (&self.inner.keys, drafted.key.record.clone());
        match &drafted.place {
            KeyPlace::Any => keys.insert(record).await?,
            KeyPlace::NewPrincipal => {
                if !keys.insert_for_new_principal(record).await? {
                    return Err(KeyError::Forbidden(IMPERSONATE));
                }
            }
            KeyPlace::After { old, until } => rotated(keys.rotate(old, record, *until).await?)?,
        }
        self.refresh().await;
        Ok(())
    }

    /// Returns the key `id` of the caller's tenant, unless it is revoked.
    pub(crate) async fn revocable_key(
        &self,
        caller: &Principal,
        id: &KeyId,
    ) -> Result<KeyRecord, KeyError> {
        let keys = self.keys_of(caller).await?;
        let found = keys.into_iter().find(|key| key.id == *id && key.revoked_at.is_none());
        found.ok_or(KeyError::NoSuchKey)
    }

    /// Revokes a key, with immediate effect.
    pub(crate) async fn store_revocation(&self, id: &KeyId) -> Result<Timestamp, KeyError> {
        let now = self.inner.clock.now();
        if !self.inner.keys.revoke(id, now).await? {
            return Err(KeyError::NoSuchKey);
        }
        self.refresh().await;
        Ok(now)
    }

    /// Requires that `caller` has all of `roles` and `scopes`, and that the roles exist.
    fn check_within(
        &self,
        caller: &Principal,
        roles: &[String],
        scopes: &[Grant],
    ) -> Result<(), KeyError> {
        let policy = self.inner.policy.load();
        let granted = roles.iter().filter_map(|role| policy.roles.get(role)).flatten();
        let names: Vec<&str> = roles.iter().map(String::as_str).collect();
        if !is_within(caller, &names, scopes, granted) {
            return Err(KeyError::Wider);
        }
        match roles.iter().all(|role| policy.roles.contains_key(role)) {
            true => Ok(()),
            false => Err(KeyError::NoSuchRole),
        }
    }

    /// Whether `caller` may have a key of the existing `principal` with `roles`: with the scope for
    /// that, or as itself with its current roles. Limits belong to principals and roles, so other
    /// roles would have other limits.
    fn may_act_as(&self, caller: &Principal, principal: &PrincipalId, roles: &[String]) -> bool {
        let sorted = |roles: &[String]| roles.iter().cloned().collect::<BTreeSet<_>>();
        let itself = caller.id == *principal && sorted(&caller.roles) == sorted(roles);
        itself || RouteScope::KeysImpersonate.is_held_by(caller)
    }

    /// Whether `principal` is a reserved name, resembles one, or could be the name of a token.
    fn is_reserved(&self, principal: &PrincipalId, tenant: &TenantId) -> bool {
        let letters = principal.as_str().chars().filter(char::is_ascii_alphanumeric);
        let plain: String =
            letters.map(|c| if c == '0' { 'o' } else { c.to_ascii_lowercase() }).collect();
        RESERVED.contains(&plain.as_str())
            || self.inner.policy.load().tokens.could_name(principal, tenant)
    }
}

impl Authenticator {
    /// Returns the caller of a valid key of `principal` in `tenant`, or of the key `key`. Does not
    /// count as a use of the key.
    ///
    /// # Errors
    /// [`EffectiveScopesError`] if the key is missing, or several keys have different grants.
    pub fn holder_of(
        &self,
        tenant: &TenantId,
        principal: &PrincipalId,
        key: Option<&KeyId>,
    ) -> Result<Arc<Principal>, EffectiveScopesError> {
        let now = self.inner.clock.now();
        let table = self.inner.table.load();
        let wanted = |holder: &Principal| {
            holder.tenant == *tenant
                && holder.id == *principal
                && key.is_none_or(|key| holder.auth.key() == Some(key))
        };
        let all =
            table.all().into_iter().filter(|known| known.is_valid(now) && !known.is_session());
        let mut found: Vec<Arc<Principal>> =
            all.map(|known| Arc::clone(&known.principal)).filter(|holder| wanted(holder)).collect();
        found.sort_by(|one, other| {
            one.auth.key().map(KeyId::as_str).cmp(&other.auth.key().map(KeyId::as_str))
        });
        let first = found.first().ok_or(EffectiveScopesError::NoKey)?;
        let same =
            |holder: &Arc<Principal>| holder.scopes == first.scopes && holder.roles == first.roles;
        match found.iter().all(same) {
            true => Ok(Arc::clone(first)),
            false => Err(EffectiveScopesError::Several(
                found.iter().filter_map(|holder| holder.auth.key().cloned()).collect(),
            )),
        }
    }
}

/// Why a principal's effective scopes are unknown or ambiguous.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EffectiveScopesError {
    /// The tenant has no valid key of it.
    #[error("no active key of this principal")]
    NoKey,
    /// Its keys have different scopes or roles.
    #[error("this principal has keys with different scopes or roles; name one with `keyId`")]
    Several(Vec<KeyId>),
}

/// Predicts the result of rotating `old` in a store with `keys`. Callers check it first, because
/// the event of a new key is stored before the key.
pub fn rotation(keys: &[KeyRecord], old: &KeyRecord, now: Timestamp) -> KeyRotation {
    let follows = |key: &KeyRecord| key.replaces.as_ref() == Some(&old.id);
    if keys.iter().any(|key| follows(key) && key.revoked_at.is_none()) {
        return KeyRotation::AlreadyReplaced;
    }
    match old.revoked_at.is_some() || old.expires_at.is_some_and(|end| end <= now) {
        true => KeyRotation::NoActiveKey,
        false => KeyRotation::Rotated,
    }
}

fn rotated(rotation: KeyRotation) -> Result<(), KeyError> {
    match rotation {
        KeyRotation::Rotated => Ok(()),
        KeyRotation::NoActiveKey => Err(KeyError::NoSuchKey),
        KeyRotation::AlreadyReplaced => Err(KeyError::Followed),
    }
}

/// Returns the end of an overlap that starts at `now`; `None` if it is too long.
pub fn end_of_overlap(now: Timestamp, overlap: Duration) -> Option<Timestamp> {
    if overlap > MAX_OVERLAP {
        return None;
    }
    now.checked_add_signed(chrono::Duration::from_std(overlap).ok()?)
}

/// Adds `caller`, and the makers of its key, to the makers of `key` (I-65).
fn hand_over(caller: &Principal, key: &mut KeyRecord) -> Result<(), KeyError> {
    // The operator is outside of tenants, and takes no part in their approvals.
    if caller.auth == AuthMethod::Operator {
        return Ok(());
    }
    for hand in caller.hands() {
        if !key.makers.contains(hand) {
            key.makers.push(hand.clone());
        }
    }
    if key.makers.len() > MAX_MAKERS { Err(KeyError::ManyHands) } else { Ok(()) }
}

/// Whether `caller` has all of `roles` and `scopes`; `granted` are the grants of the roles. Roles
/// are compared by name, because approvals and quotas depend on the role itself and not on the
/// scopes it grants.
pub(super) fn is_within<'a>(
    caller: &Principal,
    roles: &[&str],
    scopes: &'a [Grant],
    granted: impl Iterator<Item = &'a Grant> + Clone,
) -> bool {
    let has_role = |role: &str| caller.roles.iter().any(|held| held == role);
    let everything = Grant::parse("*").is_ok_and(|all| caller.scopes.includes(&all));
    // The caller may have a grant without all the scopes that it gives to a key: `*` does not give
    // scopes that require their exact name, and a token never gives what claims may not.
    let is_withheld = |scope: &RouteScope| {
        !scope.may_be_claimed()
            && !scope.is_held_by(caller)
            && scope.is_given_by(granted.clone().chain(scopes))
    };
    roles.iter().all(|role| everything || has_role(role))
        && scopes.iter().all(|scope| caller.scopes.includes(scope))
        && !RouteScope::ALL.iter().any(is_withheld)
}

fn may_manage(caller: &Principal) -> Result<(), KeyError> {
    match RouteScope::KeysManage.is_held_by(caller) {
        true => Ok(()),
        false => Err(KeyError::Forbidden(SCOPE)),
    }
}
