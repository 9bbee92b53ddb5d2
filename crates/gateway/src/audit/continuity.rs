//! Checks that the log of a tenant continues the last signed state, which the witness names.
//!
//! Invariant (I-72): the end of a log is signed only if the stored checkpoints are the signed ones,
//! the last signed event is unchanged, and every later event follows from it.
//! Invariant (I-108): removals by the retention of another server between two reads are not a break.

use std::fmt;

use toolcrib_core::{
    canonical::Digest,
    id::TenantId,
    record::{
        Checkpoint, CheckpointKind, CheckpointSigner, Head, NO_CHECKPOINT, RecordStore,
        StoredQuery, Witness, WitnessEntry, genesis,
    },
    store::StoreError,
};

/// Why a log does not continue the signed state. Contains no tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Discontinuity {
    /// A signed part is missing.
    Missing(String),
    /// A signed part, or an event after it, was changed.
    Altered(String),
}

/// A break, or an error of the store.
#[derive(Debug)]
pub(super) enum Failure {
    Break(Discontinuity),
    Store(StoreError),
}

/// The most checks of a log if retention changes it meanwhile. Each takes much less time than the
/// interval between two removals.
const MAX_ATTEMPTS: usize = 8;

/// The last signed place of a log.
#[derive(Debug)]
pub(super) struct Base {
    /// The last checkpoint.
    pub(super) last: Option<Checkpoint>,
    /// The checkpoints after that of the witness. Another server has signed them, or a process that
    /// stopped before it could write the witness.
    pub(super) newer: Vec<Checkpoint>,
    /// 0 if the log was never signed.
    pub(super) position: u64,
    pub(super) hash: Digest,
}

// === impl Discontinuity ===

impl Discontinuity {
    pub(super) fn is_loss(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

impl fmt::Display for Discontinuity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Missing(what) | Self::Altered(what)) = self;
        f.write_str(what)
    }
}

// === impl Failure ===

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt(what) => Self::Break(Discontinuity::Altered(what)),
            error => Self::Store(error),
        }
    }
}

fn missing<T>(what: String) -> Result<T, Failure> {
    Err(Failure::Break(Discontinuity::Missing(what)))
}

fn altered<T>(what: String) -> Result<T, Failure> {
    Err(Failure::Break(Discontinuity::Altered(what)))
}

/// Reads the witness in `text`, if `signer` signed it.
pub(super) fn witness(text: &str, signer: &dyn CheckpointSigner) -> Option<Witness> {
    let (witness, signature) = Witness::parse(text)?;
    let own =
        witness.public_key == signer.public_key() && signer.is_own(&witness.signed(), &signature);
    own.then_some(witness)
}

/// The end of a log, as far as a process knows it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KnownEnds<'a> {
    /// Heads of earlier rounds, in order.
    pub(super) seen: &'a [(u64, Digest)],
    /// The last event that this process has appended.
    pub(super) appended: Option<(u64, Digest)>,
    /// The signed head after which only this process has appended.
    pub(super) compared: Option<(u64, Digest)>,
}

/// The break in `checked`, if the check failed with one.
pub(super) fn break_of(checked: Result<(), Failure>) -> Result<Option<Discontinuity>, StoreError> {
    match checked {
        Ok(()) => Ok(None),
        Err(Failure::Break(found)) => Ok(Some(found)),
        Err(Failure::Store(error)) => Err(error),
    }
}

/// The event that the log of `tenant` must continue, after a check of the signed part.
pub(super) async fn base(
    store: &dyn RecordStore,
    signer: &dyn CheckpointSigner,
    tenant: &TenantId,
    known: Option<&WitnessEntry>,
) -> Result<Base, Failure> {
    let mut attempts = Attempts::default();
    loop {
        let checked = read_base(store, signer, tenant, known).await;
        if attempts.is_last(&checked, store, tenant).await? {
            return checked;
        }
    }
}

/// Like [`base`], with the end of the log.
pub(super) async fn base_and_head(
    store: &dyn RecordStore,
    signer: &dyn CheckpointSigner,
    tenant: &TenantId,
    known: Option<&WitnessEntry>,
    ends: KnownEnds<'_>,
) -> Result<(Base, Head), Failure> {
    let mut attempts = Attempts::default();
    loop {
        let checked = match read_base(store, signer, tenant, known).await {
            Ok(base) => head(store, tenant, &base, ends).await.map(|head| (base, head)),
            Err(failure) => Err(failure),
        };
        if attempts.is_last(&checked, store, tenant).await? {
            return checked;
        }
    }
}

/// The checks of a log, each with several queries. Between two queries, retention of another server
/// may remove rows. It stores a mark before it removes events, so a break counts only if no mark
/// was added since the start of the check.
#[derive(Default)]
struct Attempts {
    count: usize,
    /// The removals before the last attempt; `None` before the first one.
    removed: Option<(Option<u64>, Option<u64>)>,
}

impl Attempts {
    /// Whether the result of an attempt counts.
    async fn is_last<T>(
        &mut self,
        checked: &Result<T, Failure>,
        store: &dyn RecordStore,
        tenant: &TenantId,
    ) -> Result<bool, StoreError> {
        self.count += 1;
        if !matches!(checked, Err(Failure::Break(_))) || self.count == MAX_ATTEMPTS {
            return Ok(true);
        }
        let removed = Some(removals(store, tenant).await?);
        Ok(std::mem::replace(&mut self.removed, removed) == removed)
    }
}

/// The number of the first checkpoint, and of the last mark of retention: both rise with each
/// removal.
async fn removals(
    store: &dyn RecordStore,
    tenant: &TenantId,
) -> Result<(Option<u64>, Option<u64>), StoreError> {
    let rows = checkpoints(store, tenant, 0).await?;
    let mark = rows.iter().rfind(|row| row.kind == CheckpointKind::Pruned);
    Ok((rows.first().map(|row| row.number), mark.map(|row| row.number)))
}

async fn read_base(
    store: &dyn RecordStore,
    signer: &dyn CheckpointSigner,
    tenant: &TenantId,
    known: Option<&WitnessEntry>,
) -> Result<Base, Failure> {
    let is_own = |row: &Checkpoint| {
        row.public_key == signer.public_key() && signer.is_own(&row.signed(), &row.signature)
    };
    let rows =
        checkpoints(store, tenant, known.map_or(0, |known| known.number.saturating_sub(1))).await?;
    let marks = rows.iter().filter(|row| row.kind == CheckpointKind::Pruned && is_own(row));
    let removed = marks.map(|row| row.position).max();
    // Retention removes the checkpoints before its mark. Another server may have signed that
    // mark after this one wrote its witness; no other server can sign one with a higher number.
    let begins_after_removal = |row: &Checkpoint| {
        row.number > known.map_or(0, |known| known.number)
            && row.kind != CheckpointKind::Pruned
            && removed.is_some_and(|removed| row.position <= removed)
    };
    let mut rows = rows.into_iter().peekable();
    let mut base = Base { last: None, newer: Vec::new(), position: 0, hash: genesis() };
    let mut pruned = 0;
    if let Some(known) = known {
        let number = known.number;
        match rows.next_if(|row| row.number == number) {
            // After a failover lost this checkpoint, another server has signed a new one.
            Some(first) if first.digest() != known.digest && is_own(&first) => {
                return missing(format!(
                    "checkpoint {number}, the last signed one, is missing, and another one of the \
                     key has its number"
                ));
            }
            Some(first) if first.digest() != known.digest => {
                return altered(format!("checkpoint {number} differs from the last signed one"));
            }
            Some(first) => {
                if first.kind == CheckpointKind::Pruned {
                    pruned = first.position;
                }
                base.last = Some(first);
                (base.position, base.hash) = (known.position, known.hash);
            }
            None if rows.peek().is_some_and(begins_after_removal) => {}
            None => {
                return missing(format!("checkpoint {number}, the last signed one, is missing"));
            }
        }
    }
    for row in rows {
        let (number, prev) = match &base.last {
            Some(last) => (last.number + 1, last.digest()),
            None if begins_after_removal(&row) => (row.number, row.prev),
            None => (1, NO_CHECKPOINT),
        };
        if row.number != number || row.prev != prev || !is_own(&row) {
            return altered(format!(
                "checkpoint {} was not signed with the key of this server after number {}",
                row.number,
                number - 1
            ));
        }
        match row.kind {
            CheckpointKind::Pruned => pruned = pruned.max(row.position),
            CheckpointKind::Head | CheckpointKind::Accepted => {
                (base.position, base.hash) = (row.position, row.hash);
            }
        }
        base.newer.push(row.clone());
        base.last = Some(row);
    }
    let position = base.position;
    if position > 0 {
        let query = events(tenant, position - 1, 1);
        match store.stored(query).await?.first() {
            Some(event) if event.tenant_position == position => {
                if event.hash != Some(base.hash) {
                    return altered(format!("the event at position {position} was changed"));
                }
            }
            Some(_) if pruned >= position => {}
            Some(_) => return missing(format!("the event at position {position} is gone")),
            None => {
                return missing(format!("the events from position {position} on are gone"));
            }
        }
    }
    Ok(base)
}

/// Every tenant with an event or a checkpoint.
pub(super) async fn tenants(store: &dyn RecordStore) -> Result<Vec<TenantId>, StoreError> {
    let mut all: Vec<TenantId> = Vec::new();
    loop {
        let page = store.tenants(all.last()).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// The stored checkpoints of `tenant` after number `after`.
pub(super) async fn checkpoints(
    store: &dyn RecordStore,
    tenant: &TenantId,
    mut after: u64,
) -> Result<Vec<Checkpoint>, StoreError> {
    let mut rows = Vec::new();
    loop {
        let page = store.checkpoints(tenant, after).await?;
        let Some(last) = page.last() else { return Ok(rows) };
        after = last.number;
        rows.extend(page);
    }
}

/// The end of the log of `tenant`, with every event after `base` recomputed. If it contains the
/// last event that this process appended, the result is that event.
async fn head(
    store: &dyn RecordStore,
    tenant: &TenantId,
    base: &Base,
    ends: KnownEnds<'_>,
) -> Result<Head, Failure> {
    let KnownEnds { seen, appended, compared } = ends;
    if let Some((position, hash)) = appended
        && compared == Some((base.position, base.hash))
    {
        return Ok(Head { tenant: tenant.clone(), position, hash });
    }
    let (mut position, mut hash) = (base.position, base.hash);
    loop {
        let page = store.check_links(tenant, position, hash).await?;
        for link in &page {
            let at = link.position;
            if at != position + 1 {
                return missing(format!("the event at position {} is gone", position + 1));
            }
            if link.stored != Some(link.computed) {
                return altered(format!(
                    "the event at position {at}, or the one before it, was changed"
                ));
            }
            (position, hash) = (at, link.computed);
            let before = seen.binary_search_by_key(&at, |(position, _)| *position).ok();
            if before.and_then(|place| seen.get(place)).is_some_and(|before| before.1 != hash) {
                return altered(format!("the log was written anew up to position {at}"));
            }
            if appended == Some((position, hash)) {
                return Ok(Head { tenant: tenant.clone(), position, hash });
            }
        }
        if page.is_empty() {
            break;
        }
    }
    if let Some((seen, _)) = seen.last().filter(|seen| seen.0 > position) {
        return missing(format!("the events at positions {} to {seen} are gone", position + 1));
    }
    Ok(Head { tenant: tenant.clone(), position, hash })
}

fn events(tenant: &TenantId, after: u64, limit: usize) -> StoredQuery {
    StoredQuery { tenant: Some(tenant.clone()), after, limit, with_prev: false }
}
