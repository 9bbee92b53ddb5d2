//! The creator of keys has a single vote with all of them (I-65).

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolcrib_core::{
    approval::{ApprovalState, Verdict, VoteRefusal},
    id::{ApprovalId, KeyId, PrincipalId, TenantId},
    principal::{AuthMethod, Principal},
    scope::Grant,
};
use toolcrib_gateway::{
    approvals::ApprovalError,
    authn::{KeyRequest, NewKey, new_key},
};

use super::{ASKS, asked, asking, refused};
use crate::support::Rig;

const EVERYTHING: &[&str] = &["keys:*", "approvals:respond", "approvals:override", "tools:*"];

pub(super) fn request(name: &str, scopes: &[&str]) -> KeyRequest {
    KeyRequest {
        name: name.to_owned(),
        tenant: TenantId::parse("t").unwrap(),
        principal: PrincipalId::parse(name).unwrap(),
        roles: Vec::new(),
        scopes: scopes.iter().map(|scope| Grant::parse(scope).unwrap()).collect(),
        expires_at: None,
    }
}

impl Rig {
    fn holder(&self, key: &NewKey) -> Arc<Principal> {
        self.gateway.authenticator().authenticate(key.text.expose()).unwrap()
    }

    /// Returns the principal of a new key that the operator created.
    pub(super) async fn by_operator(&self, name: &str, scopes: &[&str]) -> Arc<Principal> {
        self.with_key(request(name, scopes)).await
    }

    /// Returns the principal of a new key that the operator created by `request`.
    pub(super) async fn with_key(&self, request: KeyRequest) -> Arc<Principal> {
        let key = new_key(request, self.gateway.clock().now()).unwrap();
        self.keys.insert(key.record.clone()).await.unwrap();
        self.gateway.authenticator().refresh().await;
        self.holder(&key)
    }

    /// Returns the principal of a new key that `maker` created.
    async fn by(&self, maker: &Principal, name: &str, scopes: &[&str]) -> Arc<Principal> {
        let made = self.gateway.create_key(maker, request(name, scopes)).await;
        self.holder(&made.unwrap())
    }

    /// Returns the principal of a key that `who` created by rotating the key of `of`.
    async fn rotated(&self, who: &Principal, of: &Principal) -> Arc<Principal> {
        let overlap = Duration::from_secs(60);
        let made = self.gateway.rotate_key(who, &key_of(of), overlap).await;
        self.holder(&made.unwrap().0)
    }

    async fn asks(&self, who: &Principal, n: u64) -> ApprovalId {
        asked(self.call(who, "s__echo", json!({ "n": n })).await.result)
    }

    async fn votes(&self, who: &Principal, id: &ApprovalId) -> Result<ApprovalState, VoteRefusal> {
        match self.gateway.approvals().respond(who, id, Verdict::Grant, None).await {
            Err(ApprovalError::Refused(refused)) => Err(refused),
            other => Ok(other.unwrap().state),
        }
    }
}

fn key_of(who: &Principal) -> KeyId {
    match &who.auth {
        AuthMethod::ApiKey(key) => key.clone(),
        other => panic!("{other:?}"),
    }
}

/// I-65: the caller cannot approve with a key that it created for another principal, with one that
/// it rotated, or through a third key.
#[tokio::test]
async fn who_makes_a_key_does_not_consent_with_it() {
    let rig = asking("", ASKS).await;
    let max = rig.by_operator("max", EVERYTHING).await;
    let bob = rig.by_operator("bob", &["approvals:respond"]).await;
    let made = rig.by(&max, "carol", EVERYTHING).await;
    let renewed = rig.rotated(&max, &bob).await;
    let by_way_of = rig.by(&made, "dave", EVERYTHING).await;
    let renewed_itself = rig.rotated(&by_way_of, &by_way_of).await;
    let id = rig.asks(&max, 1).await;
    for who in [&made, &renewed, &by_way_of, &renewed_itself] {
        assert_eq!(rig.votes(who, &id).await, Err(VoteRefusal::SameHand), "{who:?}");
    }
    let why = Some("why".to_owned());
    let passed_over = rig.gateway.approvals().respond(&made, &id, Verdict::Override, why).await;
    assert_eq!(refused(passed_over), VoteRefusal::SameHand);
    // The key that the operator created has no other creator.
    assert_eq!(rig.votes(&bob, &id).await, Ok(ApprovalState::Granted));
    // Only this much is stored of a vote that does not count.
    let kept = rig.gateway.approvals().find(&max, &id).await.unwrap().approval;
    assert_eq!(kept.votes.len(), 1);
}

/// I-65: the reverse: it calls with a key that it created, and votes with its own.
#[tokio::test]
async fn who_makes_a_key_does_not_consent_to_its_calls() {
    let rig = asking("", ASKS).await;
    let max = rig.by_operator("max", EVERYTHING).await;
    let bob = rig.by_operator("bob", &["approvals:respond"]).await;
    let (one, two) = (rig.by(&max, "one", EVERYTHING).await, rig.by(&max, "two", EVERYTHING).await);
    let id = rig.asks(&one, 1).await;
    assert_eq!(rig.votes(&max, &id).await, Err(VoteRefusal::SameHand));
    assert_eq!(rig.votes(&two, &id).await, Err(VoteRefusal::SameHand), "both are of one hand");
    assert_eq!(rig.votes(&bob, &id).await, Ok(ApprovalState::Granted));
    // It may reject calls with keys that it created.
    let id = rig.asks(&one, 2).await;
    let rejected = rig.gateway.approvals().respond(&max, &id, Verdict::Reject, None).await.unwrap();
    assert_eq!(rejected.state, ApprovalState::Rejected);
}

/// I-65: a quorum counts people, not keys.
#[tokio::test]
async fn keys_of_one_maker_are_one_voice() {
    let rig = asking("[approvals]\nquorum = 2", ASKS).await;
    let max = rig.by_operator("max", EVERYTHING).await;
    let ann = rig.by_operator("ann", &["tools:*"]).await;
    let bob = rig.by_operator("bob", &["approvals:respond"]).await;
    let made = rig.by(&max, "carol", EVERYTHING).await;
    let id = rig.asks(&ann, 1).await;
    assert_eq!(rig.votes(&max, &id).await, Ok(ApprovalState::Pending));
    assert_eq!(rig.votes(&made, &id).await, Err(VoteRefusal::SameHand));
    assert_eq!(rig.votes(&bob, &id).await, Ok(ApprovalState::Granted));
}

/// I-65: an approver cannot use a grant with a key that it created for the requester. Its call
/// needs a grant of its own, from an approver unrelated to the key.
#[tokio::test]
async fn who_consents_does_not_use_the_grant() {
    let rig = asking("", ASKS).await;
    let max = rig.by_operator("max", EVERYTHING).await;
    let bob = rig.by_operator("bob", &["approvals:respond"]).await;
    let ann = rig.by_operator("ann", &["tools:*"]).await;
    let id = rig.asks(&ann, 1).await;
    assert_eq!(rig.votes(&max, &id).await, Ok(ApprovalState::Granted));
    let made = rig.by(&max, "ann", &["tools:*"]).await;
    let renewed = rig.rotated(&max, &ann).await;
    assert_eq!((&made.id, &renewed.id), (&ann.id, &ann.id));
    let other = rig.asks(&made, 1).await;
    assert_ne!(other, id);
    assert_eq!(rig.asks(&renewed, 1).await, other, "keys of the same hands make the same call");
    assert_eq!(rig.runs(), 0);
    assert_eq!(rig.votes(&max, &other).await, Err(VoteRefusal::SameHand));
    // The grant remains valid for the requester, also with another key from the operator.
    let again = rig.by_operator("ann", &["tools:*"]).await;
    let called = rig.call(&again, "s__echo", json!({ "n": 1 })).await;
    assert!(called.result.is_ok(), "{:?}", called.result);
    assert_eq!(rig.votes(&bob, &other).await, Ok(ApprovalState::Granted));
    assert!(rig.call(&made, "s__echo", json!({ "n": 1 })).await.result.is_ok());
    assert_eq!(rig.runs(), 2);
}
