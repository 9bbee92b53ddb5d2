//! The credential of a call is resolved before an approval is requested (I-113).

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use toolcrib_core::{
    approval::Verdict,
    call::{CallError, UpstreamErrorKind},
    credential::CredentialProblem,
    id::PrincipalId,
    principal::Principal,
};
use toolcrib_store::MemoryCatalogs;

use crate::support::{Rig, eventually, offer, one_source, principal, rig, rig_with};

const ASKS: &str = "[source.tools.\"*\"]\napproval = \"always\"\ntimeout = \"5s\"\n";

fn caller() -> Principal {
    principal("t", &["tools:*"])
}

fn approver() -> Principal {
    Principal { id: PrincipalId::parse("bob").unwrap(), ..principal("t", &["approvals:respond"]) }
}

impl Rig {
    async fn keyed(&self) -> Result<Value, CallError> {
        let called = self.call(&caller(), "s__keyed", json!({ "text": "canary" })).await;
        called.result.map(|outcome| serde_json::from_str(outcome.content.get()).unwrap())
    }

    async fn approvals(&self) -> usize {
        self.gateway.approvals().list(&approver(), None, 10).await.unwrap().len()
    }
}

/// I-113, I-36: each problem refuses the call with its code, and no approval is requested.
#[tokio::test]
async fn a_call_without_its_credential_requests_no_approval() {
    for (problem, code) in [
        (CredentialProblem::NotFound, "credential_not_found"),
        (CredentialProblem::Expired, "credential_forbidden"),
        (CredentialProblem::OutOfAudience, "credential_forbidden"),
        (CredentialProblem::NotExchanged, "credential_forbidden"),
        (CredentialProblem::OtherKey, "credential_forbidden"),
        (CredentialProblem::NoKey, "credential_forbidden"),
        (CredentialProblem::OtherMakers, "credential_forbidden"),
        (CredentialProblem::AuthExpired, "connector_auth_expired"),
    ] {
        let rig = rig(&["keyed"], ASKS).await;
        *rig.factory.vault.problem.lock() = Some(problem);
        let error = rig.keyed().await.unwrap_err();
        assert_eq!((error.code(), error.retryable()), (code, false));
        assert!(error.to_string().contains("operator") || code == "credential_forbidden");
        assert_eq!(rig.approvals().await, 0, "{problem:?}");
        assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
        let returned = format!("returned Error {code}");
        assert_eq!(rig.log.recorded(), ["called", "egress Denied api.example", &returned]);
        let events = rig.log.kept.events();
        let opening = Some(events[0].event.event_id.clone());
        assert!(events[1..].iter().all(|it| it.event.causation_id == opening));
    }
}

/// I-113: a credential that was removed after the consent uses no grant.
#[tokio::test]
async fn a_grant_is_kept_until_the_credential_is_back() {
    let rig = rig(&["keyed"], ASKS).await;
    let Err(CallError::ApprovalRequired { pending: Some(asked), .. }) = rig.keyed().await else {
        panic!()
    };
    let approvals = rig.gateway.approvals();
    approvals.respond(&approver(), &asked.approval, Verdict::Grant, None).await.unwrap();
    *rig.factory.vault.problem.lock() = Some(CredentialProblem::NotFound);
    assert_eq!(rig.keyed().await.unwrap_err().code(), "credential_not_found");
    *rig.factory.vault.problem.lock() = None;
    rig.keyed().await.unwrap();
    assert_eq!(rig.approvals().await, 1, "the grant of the first approval was used");
}

/// I-29: the source gets the values, which are in no print of the call.
#[tokio::test]
async fn the_source_gets_the_credential_with_the_call() {
    let rig = rig(&["keyed", "echo"], "").await;
    let shown = rig.keyed().await.unwrap().to_string();
    assert!(shown.contains("ResolvedCredential(cred-1)"), "{shown}");
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(rig.factory.vault.resolved.load(Ordering::SeqCst), 1);
    rig.call(&caller(), "s__echo", json!({})).await.result.unwrap();
    assert_eq!(
        rig.factory.vault.resolved.load(Ordering::SeqCst),
        1,
        "only for tools that need one"
    );
}

/// The deadline of a call covers the request for its access token.
#[tokio::test(start_paused = true)]
async fn a_silent_token_endpoint_ends_the_call_at_its_deadline() {
    let rig = rig(&["keyed"], ASKS).await;
    rig.factory.vault.hangs.store(true, Ordering::SeqCst);
    let Err(CallError::Upstream(error)) = rig.keyed().await else { panic!() };
    assert_eq!(error.kind, UpstreamErrorKind::Timeout);
    assert_eq!(rig.approvals().await, 0);
    assert_eq!(rig.log.recorded(), ["called", "returned Error upstream_timeout"]);
}

/// An explanation says which credential a call would use, as far as its reader may know.
#[tokio::test]
async fn an_explanation_names_the_credential() {
    let rig = rig(&["keyed", "echo"], "").await;
    let step = async |caller_asks: bool, tool: &str| {
        let explanation = match caller_asks {
            true => rig.gateway.explain_to(&caller(), Some(tool)).await,
            false => rig.gateway.explain(&caller(), Some(tool), None).await,
        };
        let explanation = serde_json::to_value(explanation).unwrap();
        let steps = explanation["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["step"] == "credential");
        (explanation["outcome"].clone(), step.cloned().unwrap_or_default())
    };
    let (outcome, found) = step(false, "s__keyed").await;
    assert_eq!((&outcome, &found["result"]), (&json!("allowed"), &json!("pass")));
    let message = "calls are sent with the credential `github` of the tenant `t`";
    assert_eq!(found["message"], message);
    assert_eq!(found["details"], json!({ "name": "github", "id": "cred-1", "owner": "tenant" }));
    let (_, found) = step(true, "s__keyed").await;
    assert_eq!(found["message"], "the tool's credential is stored");
    assert_eq!(found["details"], Value::Null, "a call does not reveal the name");
    *rig.factory.vault.problem.lock() = Some(CredentialProblem::NotFound);
    let (outcome, found) = step(true, "s__keyed").await;
    assert_eq!((&outcome, &found["result"]), (&json!("unavailable"), &json!("stop")));
    assert_eq!(found["message"], CredentialProblem::NotFound.to_string());
    let (_, found) = step(false, "s__keyed").await;
    assert!(found["message"].as_str().unwrap().starts_with("credential `github`: "), "{found}");
    assert_eq!(step(false, "s__echo").await.1, Value::Null);
}

/// A caller that hangs up waits for no token.
#[tokio::test]
async fn a_caller_that_hangs_up_ends_the_wait() {
    let rig = rig(&["keyed"], "").await;
    rig.factory.vault.hangs.store(true, Ordering::SeqCst);
    tokio::select! {
        _ = rig.keyed() => panic!("the resolver hangs"),
        () = eventually("asked", || rig.factory.vault.resolved.load(Ordering::SeqCst) == 1) => {}
    }
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
}

impl Rig {
    /// Makes a call that waits for its approval. While it waits, `change` happens, and then it is
    /// granted.
    async fn waiting(&self, change: impl FnOnce()) -> Result<Value, CallError> {
        let granting = async {
            let approvals = self.gateway.approvals();
            let mut changes = approvals.changes();
            let list = approvals.list(&approver(), None, 10).await.unwrap();
            if list.is_empty() {
                changes.changed().await.unwrap();
            }
            let list = approvals.list(&approver(), None, 10).await.unwrap();
            change();
            approvals.respond(&approver(), &list[0].id, Verdict::Grant, None).await.unwrap();
        };
        tokio::join!(self.keyed(), granting).0
    }
}

async fn waiting_rig() -> Rig {
    let text = format!("[approvals]\nwait = \"30s\"\n{}", one_source(ASKS));
    rig_with(Some(Ok(offer(&["keyed"]))), &text, MemoryCatalogs::default()).await
}

/// I-113: a credential that is removed while its call waits uses no grant.
#[tokio::test]
async fn a_call_that_waited_without_its_credential_uses_no_grant() {
    let rig = waiting_rig().await;
    let problem = |problem| *rig.factory.vault.problem.lock() = problem;
    let refused = rig.waiting(|| problem(Some(CredentialProblem::NotFound))).await;
    assert_eq!(refused.unwrap_err().code(), "credential_not_found");
    problem(None);
    rig.keyed().await.unwrap();
    assert_eq!(rig.approvals().await, 1, "the grant of the wait was used");
}

/// I-113: a source without a connection requests no approval and uses no grant.
#[tokio::test]
async fn a_call_that_cannot_reach_its_source_uses_no_grant() {
    let rig = waiting_rig().await;
    let reachable = |yes: bool| rig.source().unreachable.store(!yes, Ordering::SeqCst);
    reachable(false);
    assert_eq!(rig.keyed().await.unwrap_err().code(), "upstream_unavailable");
    assert_eq!(rig.approvals().await, 0);
    reachable(true);
    let refused = rig.waiting(|| reachable(false)).await;
    assert_eq!(refused.unwrap_err().code(), "upstream_unavailable");
    reachable(true);
    rig.keyed().await.unwrap();
    assert_eq!(rig.approvals().await, 1, "the grant of the wait was used");
}
