//! One idempotent call: authorized, claimed, run and stored.

use std::sync::Arc;

use bytes::Bytes;
use toolcrib_core::{
    call::CallError,
    canonical::Digest,
    catalog::Entry,
    idempotency::{ClaimOutcome, IdempotencyClaim, IdempotencyKey},
    principal::Principal,
};

use super::{
    CallReport, CallRequest, Pipeline,
    call::{AuthorizedCall, Call},
    idempotency::{
        self, ClientKey, EndedCall, IdempotencyError, IdempotentOutcome, IdempotentResult,
        KeyState, MAX_KEY, Owner, StoredAnswer, Ticket,
    },
    recorded_run::interrupted,
};
use crate::{clock::after, ids::new_id, trace::TaskContext};

/// A call that has reserved its key in this process.
struct Claim {
    key: IdempotencyKey,
    /// The digest of the tool and the input.
    digest: Digest,
    ticket: Ticket,
}

impl Pipeline {
    /// Runs `request` unless the same call has run under `key`. `keep` returns the body to store
    /// for a completed call. It may only depend on the report, so that all answers are equal.
    ///
    /// # Errors
    /// Fails if the key cannot be used for this call.
    pub(crate) async fn call_idempotent(
        self: &Arc<Self>,
        principal: &Arc<Principal>,
        key: ClientKey<'_>,
        request: CallRequest<'_>,
        keep: impl FnOnce(&CallReport) -> Option<Bytes> + Send + 'static,
    ) -> Result<IdempotentOutcome, IdempotencyError> {
        if key.text.is_empty() || key.text.len() > MAX_KEY {
            return Err(IdempotencyError::Unusable);
        }
        let began = self.services.clock.monotonic_nanos();
        let (named_offer, call) =
            Call::new(&self.services.tracer, new_id(), None, request, None, began);
        let authorized = match self.authorize(principal, named_offer, &call).await {
            Ok(authorized) => authorized,
            Err(error) => {
                return Ok(IdempotentOutcome::Report(Arc::new(
                    self.refused(principal, &call, error),
                )));
            }
        };
        let digest = digest(&authorized.target.entry, &call);
        let owner: Owner = (principal.tenant.clone(), principal.id.clone());
        let text = table_text(principal, key);
        let mut waiting = match self.idempotency.take(&owner, &text, digest)? {
            KeyState::Kept(kept) => return Ok(IdempotentOutcome::Kept(kept)),
            KeyState::Running(waiting) => waiting,
            KeyState::Free(sender, waiting) => {
                let key = IdempotencyKey {
                    tenant: principal.tenant.clone(),
                    principal: principal.id.clone(),
                    key: Digest::of(text.as_bytes()),
                };
                let ticket = Ticket::new(&self.idempotency, owner, text);
                let claim = Claim { key, digest, ticket };
                let (pipeline, principal) = (Arc::clone(self), Arc::clone(principal));
                self.services.background.spawn(TaskContext::carry(async move {
                    let ended = tokio::select! {
                        ended = pipeline.run_claimed(&principal, authorized, call, claim, keep) => ended,
                        // When the gateway stops, every caller is disconnected.
                        () = pipeline.services.background.ended().cancelled() => return,
                    };
                    sender.send_replace(Some(ended));
                }));
                waiting
            }
        };
        let ended = waiting.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        // Only a bug in this program stops the task without a report.
        let lost = || CallReport::failed(new_id(), new_id(), CallError::Internal);
        ended.unwrap_or_else(|| Ok(IdempotentOutcome::Report(Arc::new(lost()))))
    }

    /// Claims the key in the store, runs the call and stores its answer.
    async fn run_claimed(
        &self,
        principal: &Principal,
        authorized: AuthorizedCall,
        call: Call,
        claim: Claim,
        keep: impl FnOnce(&CallReport) -> Option<Bytes>,
    ) -> IdempotentResult {
        let Claim { key, digest, ticket } = claim;
        let (run, entry) = (call.run.clone(), Arc::clone(&authorized.target.entry));
        let ttl = authorized.target.snapshot.gate.idempotency_ttl;
        let failed = |run, call_id, error| {
            let report = CallReport::failed(run, call_id, error);
            Ok(IdempotentOutcome::Report(Arc::new(CallReport {
                entry: Some(Arc::clone(&entry)),
                ..report
            })))
        };
        let store = self.idempotency.sealed_store();
        if let Some(store) = store {
            let now = self.services.now();
            let claim = IdempotencyClaim {
                key: key.clone(),
                call: digest,
                run: run.clone(),
                call_id: call.id.clone(),
                repeatable: idempotency::is_repeatable(&entry),
                now,
                until: after(now, ttl),
            };
            let unsettled = &self.idempotency.unsettled;
            let claimed = match unsettled.settle_key(store, &key).await {
                Ok(()) => store.claim(claim).await,
                Err(error) => Err(error),
            };
            match claimed {
                Ok(ClaimOutcome::Taken) => {}
                Ok(ClaimOutcome::OtherCall) => return Err(IdempotencyError::Conflict),
                Ok(ClaimOutcome::Running) => return Err(IdempotencyError::Running),
                Ok(ClaimOutcome::Spent) => return Err(IdempotencyError::Spent),
                Ok(ClaimOutcome::Ended(answer)) => {
                    let kept = StoredAnswer { body: Bytes::from(answer.body), run_id: answer.run };
                    let left = (answer.until - now).to_std().unwrap_or_default();
                    ticket.end(Some(kept.clone()), left);
                    return Ok(IdempotentOutcome::Kept(kept));
                }
                Ok(ClaimOutcome::Lost { run, call_id }) => {
                    return failed(run, call_id, interrupted());
                }
                Err(error) => {
                    tracing::error!(%error, "a call was refused because its key could not be taken");
                    // The store may have accepted it despite the error.
                    let reservation = self.idempotency.storing.reservation();
                    unsettled.settle_later(EndedCall {
                        key,
                        run: run.clone(),
                        body: None,
                        until: now,
                        reservation,
                    });
                    let error = CallError::NotAccountable("kept under its key");
                    return failed(run, call.id, error);
                }
            }
        }
        let report = Arc::new(self.proceed(principal, authorized, call).await);
        // If the tool requested input, the final answer is still missing.
        let body = match idempotency::requests_input(&report) {
            true => None,
            false => keep(report.without_link().as_ref().unwrap_or(&report)),
        };
        if let Some(store) = store {
            let mut reservation = self.idempotency.storing.reservation();
            reservation.add(body.as_ref().map_or(0, Bytes::len));
            let until = after(self.services.now(), ttl);
            let ended = EndedCall { key, run, body: body.clone(), until, reservation };
            self.idempotency.unsettled.settle(store, ended).await;
        }
        // The table comes before the waiting callers: a returned answer is always stored.
        ticket.end(body.map(|body| StoredAnswer { body, run_id: report.run_id.clone() }), ttl);
        Ok(IdempotentOutcome::Report(report))
    }
}

/// The text of a key among those of its principal. Who creates a key in the name of somebody must not
/// get the answers of that person, which can come from an account, nor give answers to them.
fn table_text(principal: &Principal, key: ClientKey<'_>) -> String {
    let ClientKey { space, text } = key;
    let hands = principal.hand_names();
    if hands.len() == 1 {
        return format!("{space}:{text}");
    }
    let hands = Digest::of(Vec::from_iter(hands).join("\n").as_bytes());
    format!("{space}/made:{hands}:{text}")
}

/// The digest of the tool and the exact input: two secrets are two calls, and so are two rounds.
fn digest(entry: &Entry, call: &Call) -> Digest {
    let mut bytes = entry.id.as_str().as_bytes().to_vec();
    bytes.push(0);
    bytes.extend(call.input.exact());
    Digest::of(&bytes)
}
