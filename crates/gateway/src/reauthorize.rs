//! Authorizes a delayed call again.

use std::sync::Arc;

use toolcrib_core::{
    authorize::{Authorizer as _, CallContext},
    call::CallError,
    catalog::Entry,
    principal::Principal,
};

use crate::{
    authn::{AuthError, Authenticator},
    snapshot::{Snapshot, Snapshots},
};

/// Authorizes a call of `entry` by `principal` in the current snapshot, and returns that snapshot
/// with its entry: the caller is still known, in its browser session if it has one, and may use the
/// tool, and the tool is still the same. Keys and pins were confirmed by the store recently.
///
/// # Errors
/// Fails if the call must not run.
pub(crate) async fn reauthorize(
    authenticator: &Authenticator,
    snapshots: &Snapshots,
    principal: &Principal,
    entry: &Entry,
    context: CallContext<'_>,
) -> Result<(Arc<Snapshot>, Arc<Entry>), CallError> {
    let credential = Arc::new(principal.clone());
    let renewed = authenticator.renew(&credential).await.map_err(|error| match error {
        AuthError::Unavailable => CallError::NotAccountable("checked again"),
        AuthError::Missing | AuthError::Invalid | AuthError::Ambiguous => CallError::NoSuchTool,
    })?;
    if !snapshots.pins.wait().await {
        return Err(CallError::NotAccountable("checked again"));
    }
    let snapshot = snapshots.load();
    let current = snapshot.catalog.by_id(&renewed.tenant, entry.id.as_str());
    let form = |entry: &Entry| (entry.digest, entry.program);
    let current = current.filter(|current| form(current) == form(entry));
    let current = Arc::clone(current.ok_or(CallError::NoSuchTool)?);
    let is_same = renewed.id == principal.id && renewed.tenant == principal.tenant;
    let decider = snapshot.decider_for(current.offer.kind(), &renewed);
    let decided = decider.authorize_call(renewed.subject(), current.resource(), context);
    match decided {
        Ok(()) if is_same => Ok((snapshot, current)),
        _ => Err(CallError::NoSuchTool),
    }
}
