//! Signs a checkpoint of each tenant with new events, after a number of events or an interval, and
//! removes events that are older than the configured retention.
//!
//! Invariants:
//! - a log is signed only if it continues the signed one (`continuity.rs`), and the witness is
//!   written after its checkpoints, so that a crash leaves the store ahead of it;
//! - while this process alone has changed the store since the last comparison, events are signed as
//!   it appended them: a different content of the file is detected;
//! - an event is removed only under a later checkpoint, after the mark of the removal is stored and
//!   every forwarder has delivered the event.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use toolcrib_config::RecordConfig;
use toolcrib_core::{
    canonical::Digest,
    id::TenantId,
    record::{Checkpoint, CheckpointKind, KnownHeads, LogGrowth, Witness},
    store::StoreError,
};

use super::{
    context::Context,
    continuity::{self, Discontinuity, KnownEnds, break_of},
    witnesses::{self, Comparison, Witnesses},
};

/// How often new events are read.
const LOOK: Duration = Duration::from_secs(1);
/// How often expired events are removed.
const LOOK_BACK: Duration = Duration::from_secs(60);
/// Events of the whole log that are read together.
const STRIDE: u64 = 10_000;
/// Events removed in one transaction.
const CHUNK: usize = 500;
/// Tenants whose signed part is checked in each round.
const CHECKED_AT_ONCE: usize = 32;
/// Remembered head positions of a log; beyond this number, every second one.
const MAX_SEEN: usize = 128;
/// Failed rounds in a row that count as a problem.
const MAX_FAILURES: u32 = 3;

pub(super) struct Signing {
    context: Arc<Context>,
    signed: broadcast::Sender<Checkpoint>,
    /// Position in the whole log up to which new events are known; `None` before the first round.
    seen: Option<u64>,
    waiting: HashMap<TenantId, UnsignedTenant>,
    /// The heads of the logs at the last round, as this process knows them.
    known: Option<KnownHeads>,
    /// The signed heads that were among the known ones in this generation.
    compared: HashMap<TenantId, (u64, Digest)>,
    looked_back: Option<u64>,
    /// The last signed state; `None` while signing is not permitted.
    witness: Option<Witness>,
    /// The text of the stored witness, which other processes may not change.
    stored: Option<String>,
    /// Whether the witness differs from the stored one.
    unsaved: bool,
    /// The witnesses of the other servers of a shared store.
    others: Option<Witnesses>,
    /// The highest position of the whole log so far.
    highest: u64,
    /// The last tenant whose signed part was checked.
    checked: Option<TenantId>,
    trouble: SigningObstacles,
    failures: u32,
}

#[derive(Default)]
struct SigningObstacles {
    /// The store is not the opened one, or is shorter than before.
    store: Option<&'static str>,
    /// A valid witness is missing.
    witness: Option<&'static str>,
    /// The witness of another server is invalid.
    foreign: Option<&'static str>,
    /// Contradictions to the witness of another server, by tenant.
    others: BTreeMap<TenantId, Discontinuity>,
    /// Changed signed parts, by tenant.
    signed: BTreeMap<TenantId, Discontinuity>,
    /// Heads of logs that do not continue the signed part.
    ends: BTreeMap<TenantId, Discontinuity>,
}

/// A tenant with unsigned events.
struct UnsignedTenant {
    events: u64,
    /// Monotonic time of the first round that found new events.
    since: u64,
    /// Whether the log was never signed.
    first: bool,
    /// Heads of its log in earlier rounds, in order. Events before them may not change.
    seen: Vec<(u64, Digest)>,
}

pub(super) async fn run(
    mut signing: Signing,
    config: watch::Receiver<RecordConfig>,
    end: CancellationToken,
) {
    loop {
        let config = config.borrow().clone();
        // Uninterrupted: otherwise a checkpoint could exist that no anchor receives.
        let looked = signing.look(&config, end.is_cancelled()).await;
        signing.conclude(looked);
        if end.is_cancelled() {
            return;
        }
        if signing.may_sign()
            && let Err(error) = signing.look_back(&config, &end).await
        {
            tracing::error!(%error, "old events could not be removed; retrying");
        }
        tokio::select! {
            () = end.cancelled() => {}
            () = tokio::time::sleep(LOOK.min(config.checkpoint_interval)) => {}
        }
    }
}

// === impl SigningObstacles ===

impl SigningObstacles {
    /// Why no call may run: signed events are missing, so new ones may get lost, too.
    fn loss(&self) -> Option<&'static str> {
        let lost = self.breaks().any(|(_, found)| found.is_loss());
        let missing = "a signed part of the record is missing";
        self.store.or(lost.then_some(missing))
    }

    /// Every changed part, by tenant.
    fn breaks(&self) -> impl Iterator<Item = (&TenantId, &Discontinuity)> {
        self.signed.iter().chain(&self.ends).chain(&self.others)
    }

    /// Whether the log of `tenant` was changed. Such a log is kept for the investigation.
    fn concerns(&self, tenant: &TenantId) -> bool {
        self.breaks().any(|(changed, _)| changed == tenant)
    }

    /// Whether no log was changed.
    fn is_none(&self) -> bool {
        self.breaks().next().is_none()
    }

    /// Why a part of the record is unsigned.
    fn unsigned(&self) -> Option<&'static str> {
        let text = "a part of the record differs from its signed or written state";
        self.witness.or(self.foreign).or((!self.is_none()).then_some(text))
    }
}

impl Signing {
    pub(super) fn new(context: Arc<Context>, signed: broadcast::Sender<Checkpoint>) -> Self {
        Self {
            others: Witnesses::new(&context),
            context,
            signed,
            seen: None,
            waiting: HashMap::new(),
            known: None,
            compared: HashMap::new(),
            looked_back: None,
            witness: None,
            stored: None,
            unsaved: false,
            highest: 0,
            checked: None,
            trouble: SigningObstacles::default(),
            failures: 0,
        }
    }

    /// Compares every signed part with the log.
    pub(super) async fn check_all(&mut self) {
        let checked = async {
            if self.look_at_store().await?.is_some() {
                let all = self.witness.as_ref().map_or(0, |witness| witness.tenants.len());
                self.check_signed(all).await?;
            }
            Ok(())
        };
        let checked = checked.await;
        self.conclude(checked);
    }

    fn may_sign(&self) -> bool {
        self.trouble.store.is_none() && self.trouble.foreign.is_none() && self.witness.is_some()
    }

    /// Reports the state of the record: in `/readyz`, to calls, and in the log.
    fn conclude(&mut self, looked: Result<(), StoreError>) {
        match looked {
            Ok(()) => self.failures = 0,
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                tracing::error!(%error, "the record could not be signed; retrying");
            }
        }
        let readiness = &self.context.readiness;
        let loss = self.trouble.loss();
        if loss.is_some() != readiness.refuses_calls() {
            match loss {
                Some(loss) => tracing::error!(
                    "{loss}: calls are refused; look into it, stop the server and use \
                     `toolcrib audit accept`"
                ),
                None => tracing::warn!("the record is complete again: calls run"),
            }
        }
        readiness.set_refuses_calls(loss.is_some());
        let unsigned = self.waiting.values().map(|waiting| waiting.events).sum();
        self.context.metrics.signing(unsigned, loss.is_some());
        let reason = match (loss, self.trouble.unsigned()) {
            (Some(loss), _) => Some(format!("{loss}; calls are refused")),
            (None, Some(unsigned)) => {
                Some(format!("{unsigned}; it is not signed until `toolcrib audit accept`"))
            }
            (None, None) if self.failures >= MAX_FAILURES => {
                Some("the record cannot be signed".to_owned())
            }
            (None, None) => None,
        };
        readiness.set(reason);
    }

    /// The last position of the whole log, unless the store is not the signed one.
    async fn look_at_store(&mut self) -> Result<Option<u64>, StoreError> {
        self.trouble.store = self.context.store.displaced().await;
        if self.trouble.store.is_some() {
            return Ok(None);
        }
        let last = self.context.store.last_position().await?;
        if self.witness.is_none() || self.context.witness.load().await? != self.stored {
            self.load_witness().await?;
        }
        let known = self.witness.as_ref().map_or(0, |witness| witness.position);
        self.highest = self.highest.max(known);
        if self.compare_with_others().await? || last < self.highest {
            self.trouble.store = Some("the record is shorter than it was");
            return Ok(None);
        }
        self.highest = last;
        Ok(Some(last))
    }

    /// Reads the witness. Without one, only logs that were never signed may be signed.
    async fn load_witness(&mut self) -> Result<(), StoreError> {
        let signer = &self.context.signer;
        self.witness = None;
        let mut problem = None;
        match self.context.witness.load().await? {
            Some(text) => match continuity::witness(&text, &**signer) {
                Some(witness) => {
                    self.witness = Some(witness);
                    self.stored = Some(text);
                }
                None => problem = Some("the witness of the record is not one of the signing key"),
            },
            None => {
                let may_begin = self.others.is_some() || self.context.key_may_be_new;
                // Check this first: a server saves its witness in a shared store before it
                // signs.
                let is_unsigned = !self.has_checkpoints().await?;
                let last_signed = match &self.others {
                    Some(others) => others.last_signed().await?,
                    None => Ok(None),
                };
                match last_signed {
                    Ok(Some(witness)) => self.begin_witness(witness).await?,
                    // Even for an empty store: it may have been emptied.
                    Ok(None) if may_begin && is_unsigned => {
                        self.begin_witness(Witness::new(signer.public_key())).await?;
                    }
                    Ok(None) => problem = Some("the witness of the record is gone"),
                    Err(foreign) => problem = Some(foreign),
                }
            }
        }
        if let Some(problem) = problem
            && self.trouble.witness != Some(problem)
        {
            tracing::error!(
                "{problem}: signing is paused; look into it, stop the server and use \
                 `toolcrib audit accept`"
            );
        }
        self.trouble.witness = problem;
        Ok(())
    }

    /// Stores a new witness, which no server has written before.
    async fn begin_witness(&mut self, witness: Witness) -> Result<(), StoreError> {
        let signature = self.context.signer.sign(&witness.signed())?;
        let text = witness.text(&signature);
        self.context.witness.save(text.clone()).await?;
        self.witness = Some(witness);
        self.stored = Some(text);
        Ok(())
    }

    /// Compares the record with the witnesses of the other servers, and adopts their later
    /// signatures. Returns whether one of them has signed beyond the end of the whole log.
    async fn compare_with_others(&mut self) -> Result<bool, StoreError> {
        let (Some(others), Some(witness), Some(text)) =
            (&mut self.others, &mut self.witness, &self.stored)
        else {
            return Ok(false);
        };
        let Comparison { contradicted, is_shorter, is_foreign, later } =
            others.compare(witness, text).await?;
        if let Some(later) = later {
            self.unsaved |= witnesses::merge(witness, &later);
        }
        let foreign = is_foreign.then_some(witnesses::FOREIGN);
        if foreign.is_some() && self.trouble.foreign.is_none() {
            tracing::error!(
                "{}: signing is paused; look into it, stop the servers and use `toolcrib audit \
                 accept`",
                witnesses::FOREIGN
            );
        }
        self.trouble.foreign = foreign;
        let known: Vec<TenantId> = self.trouble.others.keys().cloned().collect();
        for tenant in known.iter().filter(|tenant| !contradicted.contains_key(*tenant)) {
            note(&mut self.trouble.others, tenant, None);
        }
        for (tenant, found) in contradicted {
            note(&mut self.trouble.others, &tenant, Some(found));
        }
        Ok(is_shorter)
    }

    async fn has_checkpoints(&self) -> Result<bool, StoreError> {
        for tenant in continuity::tenants(&*self.context.store).await? {
            if self.context.store.last_checkpoint(&tenant).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks the signed parts of the next `count` tenants.
    async fn check_signed(&mut self, count: usize) -> Result<(), StoreError> {
        let Some(witness) = &self.witness else { return Ok(()) };
        let from = match &self.checked {
            Some(last) => Bound::Excluded(last.clone()),
            None => Bound::Unbounded,
        };
        let next = witness.tenants.range((from, Bound::Unbounded)).take(count);
        let next: Vec<_> = next.map(|(tenant, known)| (tenant.clone(), *known)).collect();
        self.checked = match next.len() < count {
            true => None,
            false => next.last().map(|(tenant, _)| tenant.clone()),
        };
        for (tenant, known) in next {
            let (store, signer) = (&self.context.store, &self.context.signer);
            let found = continuity::base(&**store, &**signer, &tenant, Some(&known)).await;
            let found = break_of(found.map(drop))?;
            note(&mut self.trouble.signed, &tenant, found);
        }
        Ok(())
    }

    /// Signs the logs that are due; at shutdown all of them.
    async fn look(&mut self, config: &RecordConfig, ending: bool) -> Result<(), StoreError> {
        let Some(last) = self.look_at_store().await? else { return Ok(()) };
        self.check_signed(CHECKED_AT_ONCE).await?;
        let now = self.context.clock.monotonic_nanos();
        match self.seen {
            None => self.begin(now).await?,
            Some(seen) if seen < last || !self.waiting.is_empty() => {
                self.look_from(seen, last, now).await?;
            }
            Some(_) => {}
        }
        if self.seen.is_none() {
            self.seen = Some(last);
        }
        if !self.may_sign() {
            return Ok(());
        }
        let interval = u64::try_from(config.checkpoint_interval.as_nanos()).unwrap_or(u64::MAX);
        let due: Vec<TenantId> = self
            .waiting
            .iter()
            .filter(|(tenant, waiting)| {
                let refused = self.trouble.ends.contains_key(*tenant);
                ending
                    || now.saturating_sub(waiting.since) >= interval
                    || !refused && (waiting.first || waiting.events >= config.checkpoint_every)
            })
            .map(|(tenant, _)| tenant.clone())
            .collect();
        for tenant in due {
            if self.sign(&tenant).await? {
                self.waiting.remove(&tenant);
            } else if let Some(waiting) = self.waiting.get_mut(&tenant) {
                waiting.since = now;
            }
        }
        self.save_witness().await?;
        if let (Some(others), Some(text)) = (&mut self.others, &self.stored) {
            others.save(text, config.checkpoint_interval, ending).await?;
        }
        Ok(())
    }

    /// Notes the tenants with events after position `seen` of the whole log, up to `last`.
    async fn look_from(&mut self, mut seen: u64, last: u64, now: u64) -> Result<(), StoreError> {
        let generation = |known: &Option<KnownHeads>| known.as_ref().map(|heads| heads.generation);
        let before = generation(&self.known);
        self.known = self.context.store.known_heads().await?;
        if before.is_some() && before == generation(&self.known) {
            let known = self.known.as_ref().map(|known| known.heads.clone()).unwrap_or_default();
            for (tenant, (position, hash)) in known {
                let checkpointed = self.signed_position(&tenant);
                self.note(LogGrowth { tenant, position, hash: Some(hash), checkpointed }, now);
            }
            self.seen = Some(seen.max(last));
            return Ok(());
        }
        // Even without new events: unsigned ones may have been changed.
        self.compared.clear();
        while seen < last {
            let to = last.min(seen + STRIDE);
            for news in self.context.store.news(seen, to).await? {
                self.note(news, now);
            }
            seen = to;
            self.seen = Some(seen);
        }
        Ok(())
    }

    /// The position of the last signed event of `tenant`; 0 if it was never signed.
    fn signed_position(&self, tenant: &TenantId) -> u64 {
        let signed = self.witness.as_ref().and_then(|witness| witness.tenants.get(tenant));
        signed.map_or(0, |signed| signed.position)
    }

    /// Stores the witness, after the checkpoints: a crash in between leaves signed checkpoints that
    /// continue the checkpoint of the witness.
    async fn save_witness(&mut self) -> Result<(), StoreError> {
        let Some(witness) = self.witness.as_mut().filter(|_| self.unsaved) else { return Ok(()) };
        witness.position = self.highest.max(witness.position);
        let signature = self.context.signer.sign(&witness.signed())?;
        let text = witness.text(&signature);
        self.context.witness.save(text.clone()).await?;
        self.stored = Some(text);
        self.unsaved = false;
        Ok(())
    }

    /// Finds events that an earlier process, or a command, has left unsigned.
    async fn begin(&mut self, now: u64) -> Result<(), StoreError> {
        for tenant in continuity::tenants(&*self.context.store).await? {
            let Some(head) = self.context.store.head(&tenant).await? else { continue };
            let news = LogGrowth {
                position: head.position,
                hash: Some(head.hash),
                checkpointed: self.signed_position(&tenant),
                tenant,
            };
            self.note(news, now);
        }
        Ok(())
    }

    fn note(&mut self, news: LogGrowth, now: u64) {
        let events = news.position.saturating_sub(news.checkpointed);
        if events > 0 {
            let first = news.checkpointed == 0;
            let waiting = self.waiting.entry(news.tenant);
            let new = || UnsignedTenant { events: 0, since: now, first, seen: Vec::new() };
            let waiting = waiting.or_insert_with(new);
            waiting.events = events;
            let higher = waiting.seen.last().is_none_or(|last| last.0 < news.position);
            if let Some(hash) = news.hash.filter(|_| higher) {
                waiting.seen.push((news.position, hash));
            }
            if waiting.seen.len() > MAX_SEEN {
                let mut index = 0;
                waiting.seen.retain(|_| {
                    index += 1;
                    index % 2 == 0
                });
            }
        }
    }

    /// Signs the head of the log of `tenant`; `false` if it may not be signed.
    async fn sign(&mut self, tenant: &TenantId) -> Result<bool, StoreError> {
        let Some(witness) = &self.witness else { return Ok(false) };
        if self.trouble.others.contains_key(tenant) {
            return Ok(false);
        }
        let (store, signer) = (Arc::clone(&self.context.store), Arc::clone(&self.context.signer));
        let known = witness.tenants.get(tenant).copied();
        let known = known.as_ref();
        let ends = KnownEnds {
            seen: self.waiting.get(tenant).map_or(&[][..], |waiting| &waiting.seen),
            appended: self.known.as_ref().and_then(|heads| heads.heads.get(tenant).copied()),
            compared: self.compared.get(tenant).copied(),
        };
        let appended = ends.appended;
        let checked = continuity::base_and_head(&*store, &*signer, tenant, known, ends);
        let (base, head) = match checked.await {
            Ok(checked) => checked,
            Err(failure) => {
                let found = break_of(Err(failure))?;
                self.context.metrics.refused_checkpoint();
                note(&mut self.trouble.ends, tenant, found);
                return Ok(false);
            }
        };
        note(&mut self.trouble.ends, tenant, None);
        if !base.newer.is_empty()
            && let Some(witness) = &mut self.witness
        {
            base.newer.iter().for_each(|checkpoint| witness.add(checkpoint));
            self.unsaved = true;
        }
        if head.position == base.position {
            return Ok(true);
        }
        let place = (head.position, head.hash);
        let added = self.add(CheckpointKind::Head, tenant, place, base.last).await?;
        match added && appended == Some(place) {
            true => self.compared.insert(tenant.clone(), place),
            // The file has another event there: the next attempt compares all of them.
            false => self.compared.remove(tenant),
        };
        Ok(added)
    }

    async fn add(
        &mut self,
        kind: CheckpointKind,
        tenant: &TenantId,
        place: (u64, Digest),
        last: Option<Checkpoint>,
    ) -> Result<bool, StoreError> {
        let now = self.context.clock.now();
        let signer = &self.context.signer;
        let checkpoint = signer.checkpoint(kind, tenant.clone(), place, last.as_ref(), now)?;
        let added = self.context.store.add_checkpoint(checkpoint.clone()).await?;
        if added {
            self.context.metrics.checkpoint(now);
            if let Some(witness) = &mut self.witness {
                witness.add(&checkpoint);
                self.unsaved = true;
            }
            // Without anchors there is no receiver.
            self.signed.send(checkpoint).ok();
        }
        Ok(added)
    }

    /// Removes expired events, and finishes the removals of an earlier process.
    async fn look_back(
        &mut self,
        config: &RecordConfig,
        end: &CancellationToken,
    ) -> Result<(), StoreError> {
        let Some(keep) = config.keep else { return Ok(()) };
        let now = self.context.clock.monotonic_nanos();
        let pause = u64::try_from(LOOK_BACK.min(keep).as_nanos()).unwrap_or(u64::MAX);
        if self.looked_back.is_some_and(|last| now.saturating_sub(last) < pause) {
            return Ok(());
        }
        self.looked_back = Some(now);
        let age = chrono::TimeDelta::from_std(keep).unwrap_or(chrono::TimeDelta::MAX);
        let Some(before) = self.context.clock.now().checked_sub_signed(age) else { return Ok(()) };
        let delivered = self.delivered(config).await?;
        let store = Arc::clone(&self.context.store);
        // All marks come first: an engine may drop whole parts that the marks of all tenants cover.
        let tenants = continuity::tenants(&*store).await?;
        for tenant in &tenants {
            if self.trouble.concerns(tenant) {
                continue;
            }
            if let Some(found) = store.prunable(tenant, before, delivered).await?
                && let Some(last) = self.signed_last(tenant).await?
            {
                let place = (found.position, found.hash);
                self.add(CheckpointKind::Pruned, tenant, place, Some(last)).await?;
                self.save_witness().await?;
            }
            if end.is_cancelled() {
                return Ok(());
            }
        }
        if self.trouble.is_none() {
            self.context.metrics.pruned(store.drop_pruned().await?);
        }
        for tenant in tenants.iter().filter(|tenant| !self.trouble.concerns(tenant)) {
            loop {
                let removed = store.prune(tenant, CHUNK).await?;
                self.context.metrics.pruned(removed);
                if end.is_cancelled() {
                    return Ok(());
                }
                if removed < CHUNK {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The last checkpoint of `tenant`, if its signed part is unchanged.
    async fn signed_last(&mut self, tenant: &TenantId) -> Result<Option<Checkpoint>, StoreError> {
        let known = self.witness.as_ref().and_then(|witness| witness.tenants.get(tenant));
        let (store, signer) = (&self.context.store, &self.context.signer);
        match continuity::base(&**store, &**signer, tenant, known).await {
            Ok(base) => Ok(base.last),
            Err(failure) => {
                let found = break_of(Err(failure))?;
                self.context.metrics.refused_checkpoint();
                note(&mut self.trouble.signed, tenant, found);
                Ok(None)
            }
        }
    }

    /// Position in the whole log that every configured forwarder has delivered.
    async fn delivered(&self, config: &RecordConfig) -> Result<u64, StoreError> {
        if config.forwards.is_empty() {
            return Ok(u64::MAX);
        }
        let cursors = self.context.store.cursors().await?;
        let of = |name: &str| {
            cursors.iter().find(|cursor| cursor.name == name).map_or(0, |cursor| cursor.position)
        };
        Ok(config.forwards.iter().map(|forward| of(&forward.name)).min().unwrap_or(u64::MAX))
    }
}

/// Remembers the break of the log of `tenant`, and logs a new one.
fn note(
    known: &mut BTreeMap<TenantId, Discontinuity>,
    tenant: &TenantId,
    found: Option<Discontinuity>,
) {
    match found {
        None => {
            if known.remove(tenant).is_some() {
                tracing::warn!(%tenant, "the log of the tenant continues its signed part again");
            }
        }
        Some(found) if known.get(tenant) == Some(&found) => {}
        Some(found) => {
            tracing::error!(
                %tenant, problem = %found,
                "the log of the tenant does not continue its signed part and is not signed; look \
                 into it, stop the server and use `toolcrib audit accept`"
            );
            known.insert(tenant.clone(), found);
        }
    }
}
