//! Idempotent calls and their answers in memory.

use std::{collections::HashMap, sync::Mutex};

use async_trait::async_trait;
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    id::{CallId, RunId},
    idempotency::{AnswerRecord, ClaimOutcome, IdempotencyClaim, IdempotencyKey, IdempotencyStore},
    store::StoreError,
};

use super::shared::lock;

#[derive(Debug, Default)]
pub(super) struct MemoryIdempotency(Mutex<HashMap<IdempotencyKey, StoredCall>>);

#[derive(Debug)]
struct StoredCall {
    call: Digest,
    run: RunId,
    call_id: CallId,
    until: Timestamp,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Running,
    Spent,
    Ended(String),
}

impl StoredCall {
    fn is_expired(&self, now: Timestamp) -> bool {
        self.state != State::Running && self.until <= now
    }
}

#[async_trait]
impl IdempotencyStore for MemoryIdempotency {
    /// The content does not survive the process, so the gateway keeps the answers itself, within
    /// its bounds.
    fn seals(&self) -> bool {
        false
    }

    async fn claim(&self, claim: IdempotencyClaim) -> Result<ClaimOutcome, StoreError> {
        let mut calls = lock(&self.0);
        let stored = calls.get(&claim.key).filter(|stored| !stored.is_expired(claim.now));
        let claimed = stored.map(|stored| match &stored.state {
            _ if stored.call != claim.call => ClaimOutcome::OtherCall,
            // This process knows the calls that it runs, so a listed call stopped before it freed
            // its key.
            State::Running if claim.repeatable => ClaimOutcome::Taken,
            State::Running => {
                ClaimOutcome::Lost { run: stored.run.clone(), call_id: stored.call_id.clone() }
            }
            State::Spent => ClaimOutcome::Spent,
            State::Ended(body) => ClaimOutcome::Ended(AnswerRecord {
                run: stored.run.clone(),
                body: body.clone(),
                until: stored.until,
            }),
        });
        let claimed = claimed.unwrap_or(ClaimOutcome::Taken);
        if claimed == ClaimOutcome::Taken {
            let IdempotencyClaim { key, call, run, call_id, until, .. } = claim;
            calls.insert(key, StoredCall { call, run, call_id, until, state: State::Running });
        }
        Ok(claimed)
    }

    async fn keep(
        &self,
        key: &IdempotencyKey,
        run: &RunId,
        body: Option<String>,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        if let Some(stored) = lock(&self.0).get_mut(key)
            && stored.run == *run
            && stored.state == State::Running
        {
            stored.state = body.map_or(State::Spent, State::Ended);
            stored.until = until;
        }
        Ok(())
    }

    async fn release(&self, key: &IdempotencyKey, run: &RunId) -> Result<(), StoreError> {
        let is_other = |stored: &StoredCall| stored.run != *run || stored.state != State::Running;
        lock(&self.0).retain(|held, stored| held != key || is_other(stored));
        Ok(())
    }

    async fn sweep(&self, now: Timestamp) -> Result<usize, StoreError> {
        let mut calls = lock(&self.0);
        let before = calls.len();
        calls.retain(|_, stored| !stored.is_expired(now));
        Ok(before - calls.len())
    }
}
