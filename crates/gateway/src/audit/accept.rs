//! Acceptance: the operator declares a record valid although it does not continue the signed state.
//! Examples are a restored backup, a new key, or a loss after its investigation.

use std::{collections::BTreeSet, sync::Arc};

use toolcrib_core::{
    clock::Timestamp,
    event::{EventBody, EventLog, RecordAccepted},
    id::{PrincipalId, TenantId},
    record::{CheckpointKind, CheckpointSigner, RecordStore, Witness, WitnessEntry, WitnessStore},
    store::{Storage, StoreError},
};

use super::{
    continuity::{self, KnownEnds, break_of},
    lone_event::lone_event,
    witnesses,
};

/// An accepted log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// The tenant of the log.
    pub tenant: TenantId,
    /// Why the log did not continue its signed state.
    pub problem: String,
}

/// The witnesses of a record, before its acceptance.
struct KnownWitnesses {
    /// The witnesses with a valid signature of the signing key.
    witnesses: Vec<Witness>,
    /// All of them together.
    merged: Witness,
    /// Why they do not cover the whole record.
    problem: Option<&'static str>,
}

impl KnownWitnesses {
    async fn read(
        storage: &dyn Storage,
        signer: &dyn CheckpointSigner,
        own: &dyn WitnessStore,
    ) -> Result<Self, StoreError> {
        let (mut found, mut problem) = match storage.witnesses() {
            Some(shared) => match witnesses::signed_by(&*shared, signer).await? {
                (found, true) => (found, Some(witnesses::FOREIGN)),
                (found, false) => (found, None),
            },
            None => (Vec::new(), None),
        };
        match own.load().await? {
            Some(text) => match continuity::witness(&text, signer) {
                Some(witness) => found.push(witness),
                None => problem = Some("the witness is not one of the signing key"),
            },
            None if found.is_empty() => problem = problem.or(Some("there is no witness")),
            None => {}
        }
        let mut merged = Witness::new(signer.public_key());
        for witness in &found {
            witnesses::merge(&mut merged, witness);
        }
        let last = storage.record().last_position().await?;
        let shorter = last < merged.position;
        problem = problem.or(shorter.then_some("the whole log is shorter than it was"));
        Ok(Self { witnesses: found, merged, problem })
    }

    /// Why the log of `tenant` does not continue the signed state; `None` if it does.
    async fn problem_of(
        &self,
        tenant: &TenantId,
        store: &dyn RecordStore,
        signer: &dyn CheckpointSigner,
    ) -> Result<Option<String>, StoreError> {
        if let (true, Some(unwitnessed)) = (self.witnesses.is_empty(), self.problem) {
            return Ok(Some(unwitnessed.to_owned()));
        }
        let mut entries: Vec<Option<WitnessEntry>> =
            self.witnesses.iter().map(|witness| witness.tenants.get(tenant).copied()).collect();
        entries.dedup();
        for known in entries {
            let (known, ends) = (known.as_ref(), KnownEnds::default());
            let checked = continuity::base_and_head(store, signer, tenant, known, ends).await;
            if let Some(found) = break_of(checked.map(drop))? {
                return Ok(Some(found.to_string()));
            }
        }
        Ok(None)
    }
}

/// Accepts the record in `storage` as it is. Each log that does not continue its signed state, as
/// `own` and the witnesses of a shared store name it, gets an event about this and a checkpoint of
/// kind [`CheckpointKind::Accepted`]. The new witness names these checkpoints, and replaces the
/// others in the store. Returns the accepted logs, which are empty if every log was valid.
///
/// No server may run on the store at the same time.
///
/// # Errors
/// [`StoreError`]: the next attempt accepts the remaining logs.
pub async fn accept(
    storage: &dyn Storage,
    signer: &dyn CheckpointSigner,
    own: &Arc<dyn WitnessStore>,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<Vec<Acceptance>, StoreError> {
    let (log, store) = (&*storage.events(), &*storage.record());
    let known = KnownWitnesses::read(storage, signer, &**own).await?;
    let mut tenants: BTreeSet<TenantId> = known.merged.tenants.keys().cloned().collect();
    tenants.extend(continuity::tenants(store).await?);
    let mut problems = Vec::new();
    for tenant in tenants {
        let problem = known.problem_of(&tenant, store, signer).await?;
        problems.extend(problem.map(|problem| (tenant, problem)));
    }
    if let (true, Some(general), Ok(operator)) =
        (problems.is_empty(), known.problem, TenantId::parse(TenantId::OPERATOR))
    {
        problems.push((operator, general.to_owned()));
    }

    let mut witness = known.merged;
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
        replace(storage, own, witness.text(&signature)).await?;
    }
    Ok(accepted)
}

/// Stores `text` as the only witness.
async fn replace(
    storage: &dyn Storage,
    own: &Arc<dyn WitnessStore>,
    text: String,
) -> Result<(), StoreError> {
    if let Some(shared) = storage.witnesses() {
        let mut others = shared.list().await?;
        others.retain(|other| other.server != shared.server());
        shared.save(text.clone()).await?;
        shared.remove(&others).await?;
    }
    own.save(text).await
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
    log.append(&[lone_event(tenant.clone(), body, now)]).await.map(drop)
}

fn lost(tenant: &TenantId) -> StoreError {
    StoreError::Unavailable(format!("the log of {tenant} changed while it was accepted; try again"))
}
