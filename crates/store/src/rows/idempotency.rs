//! Idempotent calls: the outcome of a claim, and the sealed parts of a call.

use serde_json::Value as Json;
use toolcrib_core::{
    clock::Timestamp,
    id::RunId,
    idempotency::{AnswerRecord, ClaimOutcome, IdempotencyClaim, IdempotencyKey},
    store::StoreError,
};

use crate::{
    IdempotencyBounds,
    seal::SealKeys,
    seal_places::{answer_part, open_idempotent, seal_idempotent},
};

/// The approximate bytes of a call without its answer.
pub(crate) const OVERHEAD: usize = 512;
/// The bytes of the largest stored answer; also bounds the memory per answer.
const LARGEST: usize = 8 << 20;
/// The most expired calls that one step deletes.
pub(crate) const SWEEP: i64 = 256;
/// The most answers that one step deletes to make room; more wait for the next step.
pub(crate) const MOST_FORGOTTEN: usize = 256;

/// The call under a key, still sealed.
pub(crate) struct StoredCall {
    pub(crate) id: i64,
    pub(crate) state: String,
    pub(crate) instance: String,
    pub(crate) run: String,
    pub(crate) call_id: String,
    pub(crate) call: Vec<u8>,
    pub(crate) answer: Option<Vec<u8>>,
    pub(crate) until: Timestamp,
}

/// The outcome of a claim for a key that has a call.
pub(crate) enum Decision {
    /// The row is removed, and the key is free.
    Remove(i64),
    Outcome(ClaimOutcome),
    Answer(SealedAnswer),
}

/// The answer of an ended call. It is opened after the transaction, because it may be large.
pub(crate) struct SealedAnswer {
    run: RunId,
    answer: Vec<u8>,
    until: Timestamp,
}

/// Seals the arguments of a claim, which are compared with those of other claims of its key.
pub(crate) fn seal_call(keys: &SealKeys, claim: &IdempotencyClaim) -> Result<Vec<u8>, StoreError> {
    match keys.can_seal() {
        true => seal_idempotent(keys, &claim.key, "call", &claim.call.to_string()),
        false => {
            Err(StoreError::Unavailable("idempotent answers require `[store] seal_key`".to_owned()))
        }
    }
}

/// Seals an answer, unless it is too large. Also returns the bytes of the call then.
pub(crate) fn seal_answer(
    keys: &SealKeys,
    key: &IdempotencyKey,
    run: &RunId,
    body: Option<String>,
    bounds: IdempotencyBounds,
) -> Result<(Option<Vec<u8>>, i64), StoreError> {
    let largest = usize::try_from(bounds.bytes.1).unwrap_or(usize::MAX).min(LARGEST);
    let body = body.filter(|body| OVERHEAD + body.len() <= largest);
    let part = answer_part(run.as_str());
    let sealed = body.map(|body| seal_idempotent(keys, key, &part, &body)).transpose()?;
    let bytes = OVERHEAD + sealed.as_ref().map_or(0, Vec::len);
    Ok((sealed, i64::try_from(bytes).unwrap_or(i64::MAX)))
}

/// Decides about `claim` of the process `own`, whose key has the call `stored`.
pub(crate) fn decide(
    keys: &SealKeys,
    claim: &IdempotencyClaim,
    own: &str,
    stored: StoredCall,
) -> Result<Decision, StoreError> {
    let unreadable = |_| StoreError::Corrupt("an idempotent call".to_owned());
    if stored.state != "running" && stored.until <= claim.now {
        return Ok(Decision::Remove(stored.id));
    }
    // A call that cannot be opened cannot be compared, and its answer is lost.
    let Some(call) = open_idempotent(keys, &claim.key, "call", &stored.call) else {
        return Ok(Decision::Outcome(ClaimOutcome::Spent));
    };
    if call != claim.call.to_string() {
        return Ok(Decision::Outcome(ClaimOutcome::OtherCall));
    }
    let run = || RunId::parse(stored.run.clone()).map_err(unreadable);
    Ok(match (stored.state.as_str(), stored.answer) {
        // This process knows the calls that it runs, so a listed call stopped before it freed its
        // key.
        ("running", _) if stored.instance != own => Decision::Outcome(ClaimOutcome::Running),
        ("running" | "lost", _) if claim.repeatable => Decision::Remove(stored.id),
        ("running" | "lost", _) => {
            let call_id = stored.call_id.parse().map_err(unreadable)?;
            Decision::Outcome(ClaimOutcome::Lost { run: run()?, call_id })
        }
        ("ended", Some(answer)) => {
            Decision::Answer(SealedAnswer { run: run()?, answer, until: stored.until })
        }
        _ => Decision::Outcome(ClaimOutcome::Spent),
    })
}

impl SealedAnswer {
    /// Opens the answer; one that cannot be opened is lost.
    pub(crate) fn open(self, keys: &SealKeys, key: &IdempotencyKey) -> ClaimOutcome {
        let Self { run, answer, until } = self;
        match open_idempotent(keys, key, &answer_part(run.as_str()), &answer) {
            Some(body) => ClaimOutcome::Ended(AnswerRecord { run, body, until }),
            None => ClaimOutcome::Spent,
        }
    }
}

/// Whether the return in `payload` shows that `call` may have run: its duration was recorded, or it
/// was interrupted. `None` for the return of another call.
pub(crate) fn may_have_run(payload: &str, call: &str) -> Result<Option<bool>, StoreError> {
    let payload: Json =
        serde_json::from_str(payload).map_err(|_| StoreError::Corrupt("an event".to_owned()))?;
    if payload.get("callId").and_then(Json::as_str) != Some(call) {
        return Ok(None);
    }
    let ran = payload.get("durationMs").is_some();
    let code = payload.pointer("/error/code").and_then(Json::as_str);
    Ok(Some(ran || code == Some("interrupted")))
}
