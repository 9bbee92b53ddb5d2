//! The account of a call whose caller has to connect one.
//!
//! Invariant: a call without a usable account takes no token of a limit and requests no approval.

use std::time::Duration;

use toolcrib_core::{
    call::{CallError, Lack, UpstreamError, UpstreamErrorKind},
    catalog::Entry,
    clock::Timestamp,
    credential::{AccountSpec, CredentialNeed, CredentialProblem, CredentialRefusal, RefusalCause},
    id::CredentialId,
    principal::Principal,
    text,
};

use super::{Pipeline, call::Call, dispatch::Execution, target::Target};
use crate::connections::required;

impl Pipeline {
    /// Before step 3: checks that the account of a call is connected, without a request to its
    /// server.
    pub(super) async fn check_connection(
        &self,
        principal: &Principal,
        target: &Target,
        call: &Call,
    ) -> Result<(), CallError> {
        let step = call.span.begin_step("toolcrib.connection");
        let deadline = target.entry.timeout;
        let finding = self.credentials.find(&target.need, principal.credential_caller());
        let source = &target.entry.source;
        step.close(match tokio::time::timeout(deadline, finding).await {
            Ok(Ok(found)) => {
                let grant = found.map(|found| found.id);
                target.snapshot.own.confirm(principal, source, grant.as_ref());
                Ok(())
            }
            Ok(Err(refusal)) => {
                if let RefusalCause::Credential(CredentialProblem::NotConnected) = refusal.cause {
                    target.snapshot.own.confirm(principal, source, None);
                }
                refusal.decided().into_iter().for_each(|denied| call.egress.note(denied));
                Err(refused(&target.need, &target.entry, &refusal, self.services.now()))
            }
            Err(_late) => Err(too_late(deadline)),
        })
    }

    /// Turns the result of a call whose account was refused at its service, or lacks a scope there,
    /// into the request to connect it again. The result is recorded already.
    pub(super) async fn reconnected(
        &self,
        principal: &Principal,
        entry: &Entry,
        account: &AccountSpec,
        used: Option<&CredentialId>,
        execution: Execution,
    ) -> Execution {
        let Err(CallError::Upstream(error)) = &execution.result else { return execution };
        let UpstreamErrorKind::Credential(problem) = error.kind else { return execution };
        let Some(lack) = lack(problem) else { return execution };
        if let (Lack::Consent, Some(id)) = (lack, used) {
            self.connections.note_refused(principal, &entry.source, account, id).await;
        }
        let error = required(entry, account, lack, self.services.now());
        let result = Err(self.connections.with_link(principal, error).await);
        Execution { result, ..execution }
    }
}

/// The error of a call of `entry` whose credential is refused.
pub(super) fn refused(
    need: &CredentialNeed,
    entry: &Entry,
    refusal: &CredentialRefusal,
    now: Timestamp,
) -> CallError {
    let error = match need {
        CredentialNeed::None => return CallError::Internal,
        CredentialNeed::Stored { reference, .. } => {
            let what = format_args!("credential `{}`", reference.name);
            UpstreamError::without_credential(what, refusal)
        }
        CredentialNeed::Account { source, account, .. } => {
            if let RefusalCause::Credential(problem) = &refusal.cause
                && let Some(lack) = lack(*problem)
            {
                return required(entry, account, lack, now);
            }
            UpstreamError::without_credential(format_args!("account at `{source}`"), refusal)
        }
    };
    CallError::Upstream(error)
}

/// The missing part, for the problems that a person solves by connecting an account.
fn lack(problem: CredentialProblem) -> Option<Lack> {
    match problem {
        CredentialProblem::NotConnected => Some(Lack::Account),
        CredentialProblem::NeedsConsent => Some(Lack::Consent),
        CredentialProblem::NeedsScopes => Some(Lack::Scopes),
        CredentialProblem::NotFound
        | CredentialProblem::OutOfAudience
        | CredentialProblem::Expired
        | CredentialProblem::Unreadable
        | CredentialProblem::OtherKey
        | CredentialProblem::NoKey
        | CredentialProblem::Replaced
        | CredentialProblem::OtherMakers
        | CredentialProblem::NotExchanged
        | CredentialProblem::NotGranted
        | CredentialProblem::AuthExpired => None,
    }
}

/// The error of a call whose credential does not arrive within its `deadline`.
pub(super) fn too_late(deadline: Duration) -> CallError {
    let detail = format!("no credential within {}", text::duration(deadline));
    CallError::Upstream(UpstreamError::new(UpstreamErrorKind::Timeout, detail))
}
