//! Verification of a record: every event against its chain, the chain against its signed
//! checkpoints, and both against checkpoints stored elsewhere.
//!
//! Invariants:
//! - a finding names the first event that differs from the written one, if there is one (I-71,
//!   I-72);
//! - after a finding the check continues from the stored state, so that each break is reported
//!   once;
//! - memory grows with checkpoints and tenants, never with events.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use chrono::{DateTime, TimeDelta};
use serde::Serialize;
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    id::TenantId,
    record::{
        Checkpoint, CheckpointKind, NO_CHECKPOINT, RecordStore, StoredEvent, StoredQuery, Witness,
        genesis, key_id,
    },
    store::StoreError,
};

use crate::sign;

/// The most findings listed; further ones are only counted.
const MAX_FINDINGS: usize = 100;

/// The most checks of a record that retention changes meanwhile. Each takes much less time than the
/// interval between two removals.
const MAX_ATTEMPTS: usize = 8;

/// The part to check.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Only this tenant's log.
    pub tenant: Option<TenantId>,
    /// From this position in that tenant's log.
    pub from: Option<u64>,
    /// Up to this position in that tenant's log.
    pub to: Option<u64>,
}

/// One defect and its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Stable code.
    pub code: FindingCode,
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The first position in that tenant's log that differs from the written one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// The run of the event there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Its sequence in that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The message for people.
    pub message: String,
}

/// The kinds of defects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingCode {
    /// An event differs from the written one: changed, moved or inserted.
    Changed,
    /// Events are missing.
    Missing,
    /// The log stops before the position of a checkpoint.
    Truncated,
    /// The chain differs from the signed one.
    Rewritten,
    /// A checkpoint of the store is invalid or missing.
    Checkpoint,
    /// A checkpoint is signed with an untrusted key.
    UnknownKey,
    /// A checkpoint stored elsewhere is invalid.
    Anchor,
    /// A witness is invalid, or the store lacks a checkpoint that it names.
    Witness,
    /// The file is damaged, or a line of it is not an event.
    Damaged,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The number of events checked.
    pub events: u64,
    /// The number of checkpoints checked.
    pub checkpoints: u64,
    /// The number of checkpoints kept elsewhere that it was compared with.
    pub anchors: u64,
    /// Each tenant's log.
    pub tenants: Vec<LogVerification>,
    /// The defects, by tenant and position.
    pub findings: Vec<Finding>,
    /// The number of findings beyond the listed ones.
    pub more_findings: u64,
    /// Ids of the keys that signed the checkpoints, when no public key was given to verify them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_keys: Vec<String>,
    /// Whether the record was compared with a witness; `None` for the record of a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<WitnessUse>,
}

/// Whether a record was compared with the last signed state, which servers keep apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WitnessUse {
    /// The record was compared.
    Compared,
    /// The witness is missing here, and the server may be elsewhere.
    Absent,
    /// The witness is missing here, where the server's key is.
    Missing,
}

/// A tenant's log.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogVerification {
    /// The tenant.
    pub tenant: String,
    /// First position checked.
    pub first: u64,
    /// Last position checked.
    pub last: u64,
    /// Hash of the last event.
    pub hash: String,
    /// Last position that a checkpoint of a trusted key covers; later events are chained but not
    /// signed yet.
    pub signed: u64,
    /// The number of later events.
    pub unsigned: u64,
    /// Timestamp of the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsigned_since: Option<String>,
    /// Whether there are earlier events that were not checked and that retention did not remove.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// The conclusion of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Signed events are as written; later events continue the chain and are too young to be
    /// signed.
    Verified,
    /// Something differs from the written record.
    Changed,
    /// The record matches its checkpoints. The witness of the server, which would show that the
    /// last checkpoints were removed, does not exist.
    NoWitness,
    /// The signed part is as written. Later events are older than the checkpoint interval and not
    /// signed.
    UnsignedTail,
    /// The events are consistent. For some tenant no event is signed, so the written record is
    /// unknown.
    NoCheckpoint,
}

/// How much later than its interval a checkpoint may be signed.
const GRACE: TimeDelta = TimeDelta::seconds(30);

/// Checks events one by one.
#[derive(Debug, Default)]
pub struct Verifier {
    trusted: Vec<[u8; 32]>,
    chains: BTreeMap<String, Chain>,
    report: Report,
    ranged: bool,
    without_keys: bool,
}

#[derive(Debug, Default)]
struct Chain {
    first: Option<u64>,
    /// Position and hash of the event before the next one.
    last: Option<(u64, Digest)>,
    /// The last pruned position and its hash.
    pruned: Option<(u64, Digest)>,
    /// The statements about positions, sorted so that the next one is last.
    statements: Vec<Statement>,
    signed: u64,
    unsigned: u64,
    unsigned_since: Option<String>,
}

/// A statement about the hash at a position.
#[derive(Debug, Clone, Copy)]
struct Statement {
    position: u64,
    hash: Digest,
    number: u64,
    by: Origin,
    trusted: bool,
}

#[derive(Debug, Clone, Copy)]
enum Origin {
    Store,
    Anchor,
    Witness,
}

// === impl Origin ===

impl Origin {
    /// The words to add after the number of a checkpoint.
    fn suffix(self) -> &'static str {
        match self {
            Self::Store => "",
            Self::Anchor => " kept elsewhere",
            Self::Witness => " that the witness names",
        }
    }
}

// === impl Report ===

impl Report {
    /// Returns the conclusion at `now`, for a record that is signed every `interval`.
    pub fn verdict(&self, now: Timestamp, interval: Duration) -> Verdict {
        if !self.findings.is_empty() {
            return Verdict::Changed;
        }
        if self.tenants.is_empty() || self.tenants.iter().any(|log| log.signed == 0) {
            return Verdict::NoCheckpoint;
        }
        if self.witness == Some(WitnessUse::Missing) {
            return Verdict::NoWitness;
        }
        let interval = TimeDelta::from_std(interval).unwrap_or(TimeDelta::MAX);
        let due = interval.checked_add(&GRACE).and_then(|late| now.checked_sub_signed(late));
        let overdue = |log: &LogVerification| {
            let since = log.unsigned_since.as_deref()?;
            // An invalid time was not written by this program.
            let since = DateTime::parse_from_rfc3339(since).map_or(Timestamp::MIN_UTC, Into::into);
            due.map(|due| since < due)
        };
        match self.tenants.iter().any(|log| overdue(log) == Some(true)) {
            true => Verdict::UnsignedTail,
            false => Verdict::Verified,
        }
    }
}

// === impl Verifier ===

impl Verifier {
    /// Creates a verifier that trusts signatures of `trusted`. `ranged`: logs may start and stop
    /// anywhere.
    pub fn new(trusted: Vec<[u8; 32]>, ranged: bool) -> Self {
        Self { trusted, ranged, ..Self::default() }
    }

    /// Creates a verifier without known public keys. Signatures of unknown keys are then no
    /// findings, and no event counts as signed.
    pub fn without_keys(ranged: bool) -> Self {
        Self { ranged, without_keys: true, ..Self::default() }
    }

    /// Adds the checkpoints of one tenant, all of them and in order. Call it before its events.
    pub fn checkpoints(&mut self, tenant: &TenantId, checkpoints: &[Checkpoint]) {
        let mut before: Option<&Checkpoint> = None;
        for (index, checkpoint) in checkpoints.iter().enumerate() {
            self.report.checkpoints += 1;
            let next = checkpoints.get(index + 1);
            let begins = match before {
                // Earlier checkpoints may have been pruned; that is checked below.
                None => checkpoint.number > 1 || checkpoint.prev == NO_CHECKPOINT,
                Some(before) => {
                    checkpoint.number == before.number + 1 && checkpoint.prev == before.digest()
                }
            };
            // The signature of the next checkpoint covers this one too.
            let covered = next.is_some_and(|next| {
                next.prev == checkpoint.digest() && next.public_key == checkpoint.public_key
            });
            let number = checkpoint.number;
            if !begins {
                let message = format!("checkpoint {number} does not follow the one before it");
                self.find(FindingCode::Checkpoint, tenant.as_str(), checkpoint.position, message);
            }
            if !covered && !sign::is_signed(checkpoint) {
                let message = format!("the signature of checkpoint {number} is invalid");
                self.find(FindingCode::Checkpoint, tenant.as_str(), checkpoint.position, message);
            }
            let trusted = self.trusted.contains(&checkpoint.public_key);
            if !trusted && self.without_keys {
                self.unknown_key(&checkpoint.public_key);
            } else if !trusted && !covered {
                let key = key_id(&checkpoint.public_key);
                let message = format!(
                    "checkpoint {number} is signed with the key {key}, which is not trusted; if it \
                     is yours, name its public key with --public-key"
                );
                self.find(FindingCode::UnknownKey, tenant.as_str(), checkpoint.position, message);
            }
            let chain = self.chains.entry(tenant.to_string()).or_default();
            if checkpoint.kind == CheckpointKind::Pruned && (trusted || self.without_keys) {
                let known = chain.pruned.map_or(0, |(position, _)| position);
                if checkpoint.position >= known {
                    chain.pruned = Some((checkpoint.position, checkpoint.hash));
                }
            }
            chain.statements.push(Statement {
                position: checkpoint.position,
                hash: checkpoint.hash,
                number,
                by: Origin::Store,
                trusted,
            });
            before = Some(checkpoint);
        }
        let chain = self.chains.entry(tenant.to_string()).or_default();
        let pruned = chain.pruned.map_or(0, |(position, _)| position);
        if let Some(first) = checkpoints.first()
            && first.number > 1
            && first.position > pruned
            && !self.ranged
        {
            let message = format!("the checkpoints before number {} are gone", first.number);
            self.find(FindingCode::Checkpoint, tenant.as_str(), first.position, message);
        }
    }

    /// Adds a checkpoint stored elsewhere. Call it before the events of its tenant.
    pub fn anchor(&mut self, checkpoint: &Checkpoint) {
        self.report.anchors += 1;
        let tenant = checkpoint.tenant.as_str();
        if !sign::is_signed(checkpoint) {
            let message = "the signature of a checkpoint kept elsewhere is invalid";
            return self.find(FindingCode::Anchor, tenant, checkpoint.position, message.to_owned());
        }
        let trusted = self.trusted.contains(&checkpoint.public_key);
        if !trusted && self.without_keys {
            self.unknown_key(&checkpoint.public_key);
        } else if !trusted {
            let message = format!(
                "a checkpoint kept elsewhere is signed with the key {}, which is not \
                 trusted; if it is yours, name its public key with --public-key",
                key_id(&checkpoint.public_key)
            );
            self.find(FindingCode::UnknownKey, tenant, checkpoint.position, message);
        }
        self.chains.entry(tenant.to_owned()).or_default().statements.push(Statement {
            position: checkpoint.position,
            hash: checkpoint.hash,
            number: checkpoint.number,
            by: Origin::Anchor,
            trusted,
        });
    }

    /// Adds the statement of `witness` about `tenant`, whose stored checkpoints are `checkpoints`.
    /// Call it before the events.
    fn witness(&mut self, witness: &Witness, tenant: &TenantId, checkpoints: &[Checkpoint]) {
        let Some(known) = witness.tenants.get(tenant) else { return };
        let number = known.number;
        // A checkpoint that retention removed after the witness was read precedes the first one.
        let pruned = checkpoints.first().is_some_and(|first| first.number > number);
        let stored = checkpoints.iter().find(|checkpoint| checkpoint.number == number);
        let problem = match stored {
            Some(stored) if stored.digest() == known.digest => None,
            Some(_) => Some("is not the last signed one"),
            None if pruned => None,
            None => Some("is the last signed one according to the witness, and is missing"),
        };
        if let Some(problem) = problem {
            let message = format!("checkpoint {number} {problem}");
            self.find(FindingCode::Witness, tenant.as_str(), known.position, message);
        }
        self.chains.entry(tenant.to_string()).or_default().statements.push(Statement {
            position: known.position,
            hash: known.hash,
            number,
            by: Origin::Witness,
            // Only a checkpoint proves that events are signed, because others can verify it.
            trusted: false,
        });
    }

    /// Finishes the checkpoints.
    pub fn begin(&mut self) {
        for chain in self.chains.values_mut() {
            chain.statements.sort_by_key(|statement| std::cmp::Reverse(statement.position));
        }
    }

    /// Adds the next event of a tenant. The first may have its [`StoredEvent::prev`].
    pub fn event(&mut self, event: &StoredEvent) {
        self.report.events += 1;
        let mut found = Vec::new();
        let ranged = self.ranged;
        if !self.chains.contains_key(&event.tenant) {
            self.chains.insert(event.tenant.clone(), Chain::default());
        }
        let Some(chain) = self.chains.get_mut(&event.tenant) else { return };
        let at = event.tenant_position;
        let pruned = chain.pruned.map_or(0, |(position, _)| position);
        let last = chain.last.map_or(0, |(last, _)| last);
        let prev = match (chain.last, chain.pruned) {
            (Some((last, hash)), _) if last + 1 == at => Some(hash),
            (Some((last, _)), _) if at <= last => {
                let message = format!("position {at} follows position {last}");
                found.push((FindingCode::Changed, at.min(last + 1), message));
                None
            }
            (None, _) if at == 1 => Some(genesis()),
            (None, _) if ranged => event.prev,
            (_, Some((pruned, hash))) if pruned + 1 == at => Some(hash),
            // Retention is removing them now, oldest first.
            _ if at <= pruned => None,
            _ => {
                let from = last.max(pruned) + 1;
                found.push((FindingCode::Missing, from, gone(from, at - 1)));
                None
            }
        };
        let right = prev.map(|prev| event.hash_after(&prev));
        if event.hash.is_none() || right.is_some_and(|right| event.hash != Some(right)) {
            let message = "this event, or the one before it, was changed".to_owned();
            found.push((FindingCode::Changed, at, message));
        }
        let hash = event.hash.or(right).unwrap_or_else(genesis);
        chain.first.get_or_insert(at);
        chain.last = Some((at, hash));
        chain.unsigned += 1;
        if chain.unsigned == 1 {
            chain.unsigned_since = Some(event.timestamp.clone());
        }
        while let Some(statement) = chain.statements.pop_if(|statement| statement.position <= at) {
            if statement.position < at {
                // Before the first event, or at a missing one, reported already.
                continue;
            }
            if statement.hash == hash {
                if statement.trusted {
                    chain.signed = at;
                    (chain.unsigned, chain.unsigned_since) = (0, None);
                }
                continue;
            }
            let message = format!(
                "the log differs from the one that checkpoint {}{} signed: it was rewritten at \
                 this position or before it",
                statement.number,
                statement.by.suffix()
            );
            found.push((FindingCode::Rewritten, at, message));
        }
        for (code, position, message) in found {
            self.add(Finding {
                code,
                tenant: Some(event.tenant.clone()),
                position: Some(position),
                run_id: (position == at).then(|| event.run_id.clone()),
                sequence: (position == at).then_some(event.sequence),
                message,
            });
        }
    }

    /// The position up to which events of `tenant` may be pruned.
    fn pruned(&self, tenant: &str) -> u64 {
        let pruned = self.chains.get(tenant).and_then(|chain| chain.pruned);
        pruned.map_or(0, |(position, _)| position)
    }

    /// Adds damage found by other means.
    pub fn damaged(&mut self, message: String) {
        self.found(FindingCode::Damaged, message);
    }

    /// Adds a defect of the record as a whole.
    pub fn found(&mut self, code: FindingCode, message: String) {
        self.add(Finding {
            code,
            tenant: None,
            position: None,
            run_id: None,
            sequence: None,
            message,
        });
    }

    /// Adds missing positions of the whole log that no tenant's chain shows.
    fn gap(&mut self, from: u64, to: u64) {
        let message = format!(
            "the events at {} of the whole log are gone",
            if from == to {
                format!("position {from}")
            } else {
                format!("positions {from} to {to}")
            }
        );
        self.add(Finding {
            code: FindingCode::Missing,
            tenant: None,
            position: None,
            run_id: None,
            sequence: None,
            message,
        });
    }

    /// Returns the report after all events. `open_end`: more events may follow outside the checked
    /// range.
    pub fn finish(mut self, open_end: bool) -> Report {
        let chains = std::mem::take(&mut self.chains);
        for (tenant, chain) in chains {
            let last = chain.last.map_or(0, |(position, _)| position);
            let pruned = chain.pruned.map_or(0, |(position, _)| position);
            let ahead =
                chain.statements.iter().find(|statement| statement.position > last.max(pruned));
            if let (Some(statement), false) =
                (chain.statements.first().filter(|_| ahead.is_some()), open_end)
            {
                let message = format!(
                    "the log stops at position {last}, but checkpoint {}{} covers it up to \
                     position {}",
                    statement.number,
                    statement.by.suffix(),
                    statement.position
                );
                self.find(FindingCode::Truncated, &tenant, last + 1, message);
            }
            if let (Some(first), Some((last, hash))) = (chain.first, chain.last) {
                let hash = hash.to_string();
                let partial = first > pruned + 1;
                let Chain { signed, unsigned, unsigned_since, .. } = chain;
                let log = LogVerification {
                    tenant,
                    first,
                    last,
                    hash,
                    signed,
                    unsigned,
                    unsigned_since,
                    partial,
                };
                self.report.tenants.push(log);
            }
        }
        let place = |finding: &Finding| (finding.tenant.clone(), finding.position);
        self.report.findings.sort_by_key(place);
        self.report
    }

    fn unknown_key(&mut self, public_key: &[u8; 32]) {
        let (id, known) = (key_id(public_key), &mut self.report.unknown_keys);
        if !known.contains(&id) && known.len() < MAX_FINDINGS {
            known.push(id);
        }
    }

    fn find(&mut self, code: FindingCode, tenant: &str, position: u64, message: String) {
        let (tenant, position) = (Some(tenant.to_owned()), Some(position));
        self.add(Finding { code, tenant, position, run_id: None, sequence: None, message });
    }

    fn add(&mut self, finding: Finding) {
        // Several witnesses can show the same defect.
        if self.report.findings.contains(&finding) {
            return;
        }
        match self.report.findings.len() < MAX_FINDINGS {
            true => self.report.findings.push(finding),
            false => self.report.more_findings += 1,
        }
    }
}

fn gone(from: u64, to: u64) -> String {
    match from == to {
        true => format!("the event at position {from} is gone"),
        false => format!("the events at positions {from} to {to} are gone"),
    }
}

/// Verifies the part `scope` of the record in `store`. Signatures of `trusted` keys count.
/// `anchors` are checkpoints stored elsewhere; `witnesses` are the last signed states of the
/// servers, read before this call. `progress` receives the number of checked events and of all
/// events.
///
/// A server may prune old events meanwhile. A check with findings is therefore repeated when
/// retention has advanced during it.
///
/// # Errors
/// Fails when the store cannot be read; damaged content is part of the report.
pub async fn record(
    store: &dyn RecordStore,
    scope: &Scope,
    trusted: Vec<[u8; 32]>,
    anchors: &[Checkpoint],
    witnesses: &[Witness],
    mut progress: impl FnMut(u64, u64),
) -> Result<Report, StoreError> {
    let mut attempt = 1;
    loop {
        let (report, last) =
            check(store, scope, trusted.clone(), anchors, witnesses, &mut progress).await?;
        if report.findings.is_empty()
            || attempt == MAX_ATTEMPTS
            || !pruned_after(store, &last).await?
        {
            return Ok(report);
        }
        attempt += 1;
    }
}

/// Whether a tenant has a mark of retention after its checkpoint in `last`.
async fn pruned_after(
    store: &dyn RecordStore,
    last: &HashMap<TenantId, u64>,
) -> Result<bool, StoreError> {
    for (tenant, number) in last {
        let newer = match store.checkpoints(tenant, *number).await {
            Ok(newer) => newer,
            // The report contains the damage.
            Err(StoreError::Corrupt(_)) => continue,
            Err(error) => return Err(error),
        };
        if newer.iter().any(|checkpoint| checkpoint.kind == CheckpointKind::Pruned) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs one check, and returns it with the number of each tenant's last checkpoint at its start.
async fn check(
    store: &dyn RecordStore,
    scope: &Scope,
    trusted: Vec<[u8; 32]>,
    anchors: &[Checkpoint],
    witnesses: &[Witness],
    mut progress: impl FnMut(u64, u64),
) -> Result<(Report, HashMap<TenantId, u64>), StoreError> {
    let ranged = scope.from.is_some_and(|from| from > 1);
    let mut verifier = Verifier::new(trusted, ranged);
    let last_numbers = check_tenants(store, scope, witnesses, &mut verifier).await?;
    let wanted =
        |anchor: &&Checkpoint| scope.tenant.as_ref().is_none_or(|tenant| *tenant == anchor.tenant);
    for anchor in anchors.iter().filter(wanted) {
        verifier.anchor(anchor);
    }
    verifier.begin();

    // After the checkpoints and before the events, so that events appended meanwhile are not
    // reported missing.
    let end = store.last_position().await?;
    let mut query = StoredQuery {
        tenant: scope.tenant.clone(),
        after: scope.from.map_or(0, |from| from.saturating_sub(1)),
        limit: 0,
        with_prev: ranged,
    };
    let mut places = Places::default();
    let mut open_end = scope.to.is_some();
    'pages: loop {
        let page = store.stored(query.clone()).await?;
        query.with_prev = false;
        let Some(last) = page.last() else { break };
        query.after = match scope.tenant {
            Some(_) => last.tenant_position,
            None => last.position,
        };
        for event in &page {
            if scope.to.is_some_and(|to| event.tenant_position > to) {
                break 'pages;
            }
            // This event was appended since: its checkpoints may not have been read.
            if event.position > end {
                break 'pages;
            }
            open_end = scope.to.is_some_and(|to| event.tenant_position >= to);
            places.see(event, verifier.pruned(&event.tenant));
            verifier.event(event);
        }
        progress(verifier.report.events, end);
    }
    if scope.tenant.is_none() {
        places.finish(end, &mut verifier);
    }
    Ok((verifier.finish(open_end), last_numbers))
}

/// Adds the checkpoints of the tenants in `scope`, and those that only `witnesses` have. Returns
/// the number of each tenant's last checkpoint.
async fn check_tenants(
    store: &dyn RecordStore,
    scope: &Scope,
    witnesses: &[Witness],
    verifier: &mut Verifier,
) -> Result<HashMap<TenantId, u64>, StoreError> {
    let mut last_numbers = HashMap::new();
    let mut after = None;
    loop {
        let tenants = match &scope.tenant {
            Some(tenant) => vec![tenant.clone()],
            None => store.tenants(after.as_ref()).await?,
        };
        for tenant in &tenants {
            let mut all: Vec<Checkpoint> = Vec::new();
            loop {
                let after = all.last().map_or(0, |last| last.number);
                match store.checkpoints(tenant, after).await {
                    Ok(page) if page.is_empty() => break,
                    Ok(page) => all.extend(page),
                    Err(StoreError::Corrupt(what)) => {
                        verifier.damaged(format!("a checkpoint of {tenant} is unreadable: {what}"));
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            last_numbers.insert(tenant.clone(), all.last().map_or(0, |last| last.number));
            verifier.checkpoints(tenant, &all);
            for witness in witnesses {
                verifier.witness(witness, tenant, &all);
            }
        }
        after = tenants.last().cloned();
        if after.is_none() || scope.tenant.is_some() {
            break;
        }
    }
    for witness in witnesses {
        let unknown = witness.tenants.keys().filter(|id| !last_numbers.contains_key(*id));
        for tenant in unknown.filter(|id| scope.tenant.as_ref().is_none_or(|only| only == *id)) {
            verifier.witness(witness, tenant, &[]);
        }
    }
    Ok(last_numbers)
}

/// The positions of the whole log, which have no gap except where events were pruned. Each such gap
/// then precedes the first remaining event of a pruned tenant.
#[derive(Default)]
struct Places {
    last: u64,
    /// The last gap.
    gap: Option<(u64, u64)>,
    firsts: HashMap<String, u64>,
}

impl Places {
    /// Records the position of `event`. `pruned`: events of its tenant up to there may be pruned.
    fn see(&mut self, event: &StoredEvent, pruned: u64) {
        if event.position > self.last + 1 {
            self.gap = Some((self.last + 1, event.position - 1));
        }
        self.last = event.position;
        if event.tenant_position > pruned && !self.firsts.contains_key(&event.tenant) {
            self.firsts.insert(event.tenant.clone(), event.position);
        }
    }

    fn finish(mut self, end: u64, verifier: &mut Verifier) {
        if end > self.last {
            self.gap = Some((self.last + 1, end));
        }
        let Some((from, to)) = self.gap else { return };
        let explained =
            self.firsts.iter().any(|(tenant, first)| *first > to && verifier.pruned(tenant) > 0);
        if !explained {
            verifier.gap(from, to);
        }
    }
}
