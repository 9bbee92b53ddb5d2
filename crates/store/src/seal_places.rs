//! The places that sealed texts are bound to (their associated data). Every engine uses the same
//! ones, so that a copied store opens with the same keys.

use toolcrib_core::{
    bridge::BridgeItem,
    credential::{AccountGrant, PendingAuthorization, RegisteredClient},
    id::{ApprovalId, CallId, TenantId},
    idempotency::IdempotencyKey,
    store::{SavedItem, StoreError},
};

use crate::seal::SealKeys;

/// The place of the fingerprint key.
pub(crate) const FINGERPRINT_KEY: [&str; 1] = ["toolcrib approvals key 1"];

/// The place of the displayable arguments of a call.
pub(crate) fn approval<'a>(tenant: &'a TenantId, id: &'a ApprovalId) -> [&'a str; 3] {
    ["toolcrib approval 1", tenant.as_str(), id.as_str()]
}

/// The place of the result of a `step`, or of the inputs of a run with `""`.
pub(crate) fn run<'a>(tenant: &'a TenantId, call: &'a CallId, step: &'a str) -> [&'a str; 4] {
    ["toolcrib run 1", tenant.as_str(), call.as_str(), step]
}

/// The place of the content of a saved item. A row moved to another tool or principal does not
/// open.
pub(crate) fn saved(item: &SavedItem) -> [&str; 6] {
    let [tenant, kind, tool, name] = item.place();
    ["toolcrib saved 1", tenant, kind, tool, name, item.principal.as_str()]
}

/// The place of the values of a grant: all fields that decide their use. The times of consent and
/// change only inform.
pub(crate) fn grant(grant: &AccountGrant, terms: &str) -> [String; 8] {
    let [tenant, principal, source] = grant.place.parts().map(str::to_owned);
    let expires = grant.expires_at.map(|at| at.timestamp_millis().to_string());
    [
        "toolcrib grant 1".to_owned(),
        tenant,
        principal,
        source,
        grant.id.to_string(),
        terms.to_owned(),
        expires.unwrap_or_default(),
        grant.revision.to_string(),
    ]
}

/// The place of the verifier of a pending authorization.
pub(crate) fn pending(pending: &PendingAuthorization, terms: &str) -> [String; 8] {
    let [tenant, owner, source] = pending.place.parts().map(str::to_owned);
    [
        "toolcrib authorization 1".to_owned(),
        tenant,
        owner,
        source,
        pending.id.to_string(),
        terms.to_owned(),
        pending.expires_at.timestamp_millis().to_string(),
        pending.state.to_string(),
    ]
}

/// The place of the secret of a client: all fields but the time of its registration.
pub(crate) fn client(client: &RegisteredClient, client_auth: &str) -> [String; 7] {
    let expires = client.expires_at.map(|at| at.timestamp_millis().to_string());
    [
        "toolcrib client 1".to_owned(),
        client.issuer.clone(),
        client.redirect_uri.clone(),
        client.id.to_string(),
        client.client_id.clone(),
        client_auth.to_owned(),
        expires.unwrap_or_default(),
    ]
}

/// The place of the value of an item of the authorization server: all fields but the time of its
/// creation.
pub(crate) fn bridge(item: &BridgeItem) -> [String; 7] {
    let [tenant, principal] = item.owner_parts().map(str::to_owned);
    [
        "toolcrib bridge 1".to_owned(),
        item.kind.word().to_owned(),
        item.id.to_string(),
        tenant,
        principal,
        item.expires_at.timestamp_millis().to_string(),
        item.revision.to_string(),
    ]
}

/// Seals `part` of an idempotent call, bound to its key and part.
pub(crate) fn seal_idempotent(
    keys: &SealKeys,
    key: &IdempotencyKey,
    part: &str,
    text: &str,
) -> Result<Vec<u8>, StoreError> {
    keys.seal_text(&idempotent(key, &key.key.to_string(), part), text)
}

/// Opens `part` of an idempotent call.
pub(crate) fn open_idempotent(
    keys: &SealKeys,
    key: &IdempotencyKey,
    part: &str,
    sealed: &[u8],
) -> Option<String> {
    keys.open_text(&idempotent(key, &key.key.to_string(), part), sealed)
}

/// The part name of an answer, bound to one run.
pub(crate) fn answer_part(run: &str) -> String {
    format!("answer of {run}")
}

fn idempotent<'a>(key: &'a IdempotencyKey, name: &'a str, part: &'a str) -> [&'a str; 5] {
    ["toolcrib once 1", key.tenant.as_str(), key.principal.as_str(), name, part]
}
