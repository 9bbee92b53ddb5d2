//! The creation of API keys.

use toolcrib_core::{
    clock::Timestamp,
    credential::Secret,
    id::{PrincipalId, TenantId},
    scope::Grant,
    store::KeyRecord,
};

use super::digest;
use crate::ids;

/// The start of every key, so that scanners can find leaked ones.
pub const KEY_PREFIX: &str = "tc_";

/// A new key, the only place with its text.
#[derive(Debug)]
pub struct NewKey {
    /// The stored record.
    pub record: KeyRecord,
    /// The text to hand over.
    pub text: Secret,
}

/// The request for a new key.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// Name for people.
    pub name: String,
    /// The tenant of its principal.
    pub tenant: TenantId,
    /// The principal that the key authenticates.
    pub principal: PrincipalId,
    /// Names of roles of the configuration.
    pub roles: Vec<String>,
    /// Scopes in addition to those of the roles.
    pub scopes: Vec<Grant>,
    /// When it expires. Without a time, the limit of its creator applies, if there is one.
    pub expires_at: Option<Timestamp>,
}

/// Creates a key without storing it: 256 random bits after [`KEY_PREFIX`].
///
/// # Errors
/// Fails if the operating system has no randomness.
pub fn new_key(request: KeyRequest, now: Timestamp) -> Result<NewKey, getrandom::Error> {
    let text = format!("{KEY_PREFIX}{}", ids::secret()?);
    let record = KeyRecord {
        id: ids::new_id(),
        name: request.name,
        tenant: request.tenant,
        principal: request.principal,
        digest: digest(&text),
        roles: request.roles,
        scopes: request.scopes,
        created_at: now,
        expires_at: request.expires_at,
        revoked_at: None,
        last_used_at: None,
        replaces: None,
        makers: Vec::new(),
        session: None,
    };
    Ok(NewKey { record, text: Secret::new(text) })
}

/// Creates the successor of `old` without storing it: with the same principal, scopes, roles,
/// lifetime and makers.
///
/// # Errors
/// Fails if the operating system has no randomness.
pub fn next_key(old: &KeyRecord, now: Timestamp) -> Result<NewKey, getrandom::Error> {
    let life = old.expires_at.map(|end| end - old.created_at);
    let request = KeyRequest {
        name: old.name.clone(),
        tenant: old.tenant.clone(),
        principal: old.principal.clone(),
        roles: old.roles.clone(),
        scopes: old.scopes.clone(),
        expires_at: life.and_then(|life| now.checked_add_signed(life)),
    };
    let mut key = new_key(request, now)?;
    key.record.replaces = Some(old.id.clone());
    key.record.makers.clone_from(&old.makers);
    Ok(key)
}

/// Whether `principal` is reserved for tokens: it contains the `|` that follows the issuer.
pub fn is_kept_for_tokens(principal: &PrincipalId) -> bool {
    principal.as_str().contains('|')
}
