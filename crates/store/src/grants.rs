//! The parts of grants and pending authorizations that are the same in all engines: their columns,
//! and what their values are sealed with.

use serde::{Serialize, de::DeserializeOwned};
use toolcrib_core::{
    clock::Timestamp,
    credential::{AccountGrant, CredentialStoreError, GrantSecrets, PendingAuthorization, Secret},
    store::StoreError,
};

use crate::{seal::SealKeys, seal_places};

/// The columns of a grant, in the order in which the engines read them.
pub(crate) const GRANT: &str = "id, tenant, principal, source, resource, terms, created_at, \
                                changed_at, expires_at, revision, sealed";

/// The columns of a pending authorization, in the order in which the engines read them.
pub(crate) const PENDING: &str = "state, id, tenant, principal, source, resource, terms, \
                                  created_at, expires_at, sealed";

/// A row of a grant: all fields, with the values sealed.
pub(crate) struct StoredGrant {
    pub(crate) grant: AccountGrant,
    pub(crate) sealed: Vec<u8>,
}

/// A row of a pending authorization, with the verifier sealed.
pub(crate) struct StoredPending {
    pub(crate) pending: PendingAuthorization,
    pub(crate) sealed: Vec<u8>,
}

/// The column with the terms.
pub(crate) fn encode(terms: &impl Serialize) -> Result<String, StoreError> {
    let unwritable = |_| StoreError::Unavailable("the terms have no JSON form".to_owned());
    serde_json::to_string(terms).map_err(unwritable)
}

/// Reads the column with the terms; `None` if this program did not write it.
pub(crate) fn decode<T: DeserializeOwned>(terms: &str) -> Option<T> {
    serde_json::from_str(terms).ok()
}

/// A grant as it is stored: with times in milliseconds, and its values sealed.
pub(crate) fn seal(
    keys: &SealKeys,
    grant: AccountGrant,
    secrets: &GrantSecrets,
) -> Result<StoredGrant, CredentialStoreError> {
    let grant = AccountGrant {
        created_at: in_millis(grant.created_at),
        changed_at: in_millis(grant.changed_at),
        expires_at: grant.expires_at.map(in_millis),
        ..grant
    };
    let GrantSecrets { access_token, refresh_token, client_secret } = secrets;
    let parts = [access_token, refresh_token, client_secret].map(Option::as_ref);
    let sealed = keys.seal_secrets(&seal_places::grant(&grant, &encode(&grant.terms)?), &parts)?;
    Ok(StoredGrant { grant, sealed })
}

/// Opens the values of a grant.
pub(crate) fn open(
    keys: &SealKeys,
    stored: StoredGrant,
) -> Result<(AccountGrant, GrantSecrets), CredentialStoreError> {
    let StoredGrant { grant, sealed } = stored;
    let place = seal_places::grant(&grant, &encode(&grant.terms)?);
    let parts = keys.open_secrets(&grant.id, &place, &sealed)?;
    let [access_token, refresh_token, client_secret] = parts;
    Ok((grant, GrantSecrets { access_token, refresh_token, client_secret }))
}

/// Seals the values of a row with the current key; `None` if they already are.
pub(crate) fn reseal(
    keys: &SealKeys,
    stored: StoredGrant,
) -> Result<Option<StoredGrant>, CredentialStoreError> {
    if keys.is_current(&stored.sealed) {
        return Ok(None);
    }
    let (grant, secrets) = open(keys, stored)?;
    seal(keys, grant, &secrets).map(Some)
}

/// A pending authorization as it is stored.
pub(crate) fn seal_pending(
    keys: &SealKeys,
    pending: PendingAuthorization,
    verifier: &Secret,
) -> Result<StoredPending, CredentialStoreError> {
    let pending = PendingAuthorization {
        created_at: in_millis(pending.created_at),
        expires_at: in_millis(pending.expires_at),
        ..pending
    };
    let place = seal_places::pending(&pending, &encode(&pending.terms)?);
    let sealed = keys.seal_secrets(&place, &[Some(verifier)])?;
    Ok(StoredPending { pending, sealed })
}

/// Opens the verifier of a pending authorization, unless it has expired at `now`.
pub(crate) fn open_pending(
    keys: &SealKeys,
    stored: StoredPending,
    now: Timestamp,
) -> Result<Option<(PendingAuthorization, Secret)>, CredentialStoreError> {
    let StoredPending { pending, sealed } = stored;
    if pending.expires_at <= now {
        return Ok(None);
    }
    let place = seal_places::pending(&pending, &encode(&pending.terms)?);
    let [verifier] = keys.open_secrets(&pending.id, &place, &sealed)?;
    let verifier = verifier.ok_or(CredentialStoreError::NotGenuine(pending.id.clone()))?;
    Ok(Some((pending, verifier)))
}

fn in_millis(at: Timestamp) -> Timestamp {
    chrono::SubsecRound::trunc_subsecs(at, 3)
}
