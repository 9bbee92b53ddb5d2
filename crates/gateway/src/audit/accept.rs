//! Acceptance: the operator declares a record valid although it does not continue the signed state,
//! for example after a backup was restored, a key was changed, or a loss was investigated.

use std::{collections::BTreeSet, sync::Arc};

use toolcrib_core::{
    clock::Timestamp,
    event::{EventBody, EventLog, NewEvent, RecordAccepted},
    id::{PrincipalId, TenantId},
    record::{CheckpointKind, CheckpointSigner, Witness, WitnessStore},
    store::{Storage, StoreError},
};

use super::continuity::{self, Failure};
use crate::ids::new_id;

/// A log that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// Whose log.
    pub tenant: TenantId,
    /// The problem of the log.
    pub problem: String,
}

/// Accepts the record in `storage` as it is. Each log that does not continue what the witness names
/// gets an event that says so and a checkpoint of kind [`CheckpointKind::Accepted`], and the
/// witness names those. Returns the accepted logs; none when every log was valid.
///
/// No server may run on the store at the same time.
///
/// # Errors
/// [`StoreError`]: the next attempt accepts the remaining logs.
pub async fn accept(
    storage: &dyn Storage,
    signer: &dyn CheckpointSigner,
    witnesses: &Arc<dyn WitnessStore>,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<Vec<Acceptance>, StoreError> {
    let (log, store) = (&*storage.events(), &*storage.record());
    let (mut witness, general) = match witnesses.load().await? {
        Some(text) => match continuity::witness(&text, signer) {
            Some(witness) => (witness, None),
            None => (
                Witness::new(signer.public_key()),
                Some("the witness is not one of the signing key"),
            ),
        },
        None => (Witness::new(signer.public_key()), Some("there is no witness")),
    };
    let last = store.last_position().await?;
    let shorter = last < witness.position;
    let general = general.or(shorter.then_some("the whole log is shorter than it was"));

    let mut tenants: BTreeSet<TenantId> = witness.tenants.keys().cloned().collect();
    let mut after = None;
    loop {
        let page = store.tenants(after.as_ref()).await?;
        after = page.last().cloned();
        tenants.extend(page);
        if after.is_none() {
            break;
        }
    }
    let mut problems = Vec::new();
    for tenant in tenants {
        let known = witness.tenants.get(&tenant);
        let checked = match continuity::base(store, signer, &tenant, known).await {
            Ok(base) => continuity::head(store, &tenant, &base, &[], None).await.map(drop),
            Err(failure) => Err(failure),
        };
        match (checked, general.filter(|_| witness.position == 0)) {
            (Err(Failure::Store(error)), _) => return Err(error),
            (_, Some(unwitnessed)) => problems.push((tenant, unwitnessed.to_owned())),
            (Err(Failure::Break(found)), None) => problems.push((tenant, found.to_string())),
            (Ok(()), None) => {}
        }
    }
    if let (true, Some(general), Ok(operator)) =
        (problems.is_empty(), general, TenantId::parse(TenantId::OPERATOR))
    {
        problems.push((operator, general.to_owned()));
    }

    let mut accepted = Vec::new();
    for (tenant, problem) in problems {
        let known = witness.tenants.get(&tenant).map(|known| known.number);
        record(log, &tenant, &problem, known, reason, now).await?;
        let head = store.head(&tenant).await?.ok_or_else(|| lost(&tenant))?;
        let before = store.last_checkpoint(&tenant).await?;
        let place = (head.position, head.hash);
        let kind = CheckpointKind::Accepted;
        let checkpoint = signer.checkpoint(kind, tenant.clone(), place, before.as_ref(), now)?;
        if !store.add_checkpoint(checkpoint.clone()).await? {
            return Err(lost(&tenant));
        }
        witness.tenants.remove(&tenant);
        witness.add(&checkpoint);
        accepted.push(Acceptance { tenant, problem });
    }
    if !accepted.is_empty() {
        witness.position = store.last_position().await?;
        let signature = signer.sign(&witness.signed())?;
        witnesses.save(witness.text(&signature)).await?;
    }
    Ok(accepted)
}

async fn record(
    log: &dyn EventLog,
    tenant: &TenantId,
    problem: &str,
    checkpoint: Option<u64>,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let operator = PrincipalId::parse("operator")
        .map_err(|_| StoreError::Unavailable("the operator has no name".to_owned()))?;
    let body = EventBody::RecordAccepted(RecordAccepted {
        principal: operator,
        problem: problem.to_owned(),
        checkpoint,
        reason: reason.map(ToOwned::to_owned),
    });
    let event = NewEvent {
        event_id: new_id(),
        tenant: tenant.clone(),
        run_id: new_id(),
        body,
        timestamp: now,
        causation_id: None,
    };
    log.append(&[event]).await.map(drop)
}

fn lost(tenant: &TenantId) -> StoreError {
    StoreError::Unavailable(format!("the log of {tenant} changed while it was accepted; try again"))
}
