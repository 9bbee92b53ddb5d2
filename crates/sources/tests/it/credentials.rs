//! Credentials sent to a server that requires them: the requests, the redaction of echoes, and
//! access tokens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use toolcrib_core::{
    call::{Operation, UpstreamErrorKind},
    clock::{Clock, Timestamp},
    credential::{
        ClientAuth, Credential, CredentialCaller, CredentialKind, CredentialNeed,
        CredentialProblem, CredentialRef, CredentialStore, Material, OAuth2, Owner, RefusalCause,
        Secret,
    },
    egress::{EgressDecided, EgressReason},
    id::TenantId,
    source::SourceFactory as _,
};
use toolcrib_sources::Factory;
use toolcrib_store::MemoryCredentials;
use toolcrib_testkit::upstream::EchoServer;

use crate::rig::{Reports, Rig, invocation, permit, presenting, text};

const CANARY: &str = "value/canary 42";

fn secret(value: &str) -> Secret {
    Secret::new(value.to_owned())
}

pub(crate) fn credential(kind: CredentialKind) -> Credential {
    Credential {
        id: "cred-1".parse().unwrap(),
        name: "it".parse().unwrap(),
        owner: Owner::tenant(TenantId::parse("tenant").unwrap()),
        kind,
        audiences: vec!["127.0.0.1".parse().unwrap()],
        created_at: Timestamp::UNIX_EPOCH,
        rotated_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
        revision: 1,
    }
}

pub(crate) async fn holding(credential: Credential, value: &str) -> Arc<MemoryCredentials> {
    let store = Arc::new(MemoryCredentials::default());
    let material = Material { value: secret(value), client_secret: None };
    store.put(credential, material).await.unwrap();
    store
}

async fn value(store: &MemoryCredentials) -> String {
    let owner = Owner::tenant(TenantId::parse("tenant").unwrap());
    let opened = store.get(&owner, &"it".parse().unwrap()).await.unwrap().unwrap();
    opened.material.value.expose().to_owned()
}

pub(crate) fn bearer() -> CredentialKind {
    CredentialKind::Header { name: "authorization".to_owned(), prefix: "Bearer ".to_owned() }
}

fn oauth2(server: &EchoServer) -> OAuth2 {
    OAuth2 {
        token_url: server.url("/token"),
        client_id: "toolcrib".to_owned(),
        client_auth: ClientAuth::Basic,
        scopes: Vec::new(),
        resource: None,
    }
}

/// I-36: each kind is sent in its place, and the server's output contains none of its values.
#[tokio::test]
async fn what_a_server_repeats_of_a_credential_is_replaced() {
    for kind in [
        bearer(),
        CredentialKind::Header { name: "x-key".to_owned(), prefix: String::new() },
        CredentialKind::Query { parameter: "key".to_owned() },
        CredentialKind::Basic { username: "ann".to_owned() },
    ] {
        let server = EchoServer::start(&[CANARY]);
        let store = holding(credential(kind.clone()), CANARY).await;
        let rig = Rig::presenting(&server.url("/mcp?v=1"), "it", store);
        let mut shown = format!("{:?} {:?}", rig.ready().await, rig.discover().await);
        let reports = Arc::new(Reports::default());
        for tool in ["echo", "fail", "refuse", "progress", "ask", "break"] {
            let mut call = invocation(json!({}));
            call.progress = Some(reports.clone());
            call.input = Some(toolcrib_core::call::CallerInput::declaring(
                json!({ "elicitation": {} }).as_object().unwrap(),
            ));
            match rig.invoke(tool, None, call).await {
                Ok(outcome) => {
                    let all = format!("{}{:?}", outcome.content.get(), outcome.structured);
                    assert!(all.contains("[REDACTED:cred-1]"), "{tool}: {all}");
                    shown += &all;
                    shown += &text(&outcome);
                }
                Err(error) => shown += &format!("{error:?} {error}"),
            }
        }
        shown += &format!("{:?}", reports.all());
        assert_eq!(reports.all().len(), 1);
        assert!(!shown.contains("canary"), "{kind:?}: {shown}");
        assert_eq!(server.calls().len(), 6, "{kind:?}");
        assert!(server.calls().iter().all(|call| call.target.starts_with("/mcp?v=1")));
    }
}

#[tokio::test]
async fn a_call_that_needs_a_credential_is_not_sent_without_it() {
    let expired = Credential { expires_at: Some(Timestamp::UNIX_EPOCH), ..credential(bearer()) };
    let elsewhere = Credential {
        audiences: vec!["api.example".parse().unwrap(), "localhost".parse().unwrap()],
        ..credential(bearer())
    };
    let other = Credential { name: "other".parse().unwrap(), ..credential(bearer()) };
    for (stored, problem, reason, id) in [
        (expired, CredentialProblem::Expired, EgressReason::Expired, Some("cred-1")),
        (elsewhere, CredentialProblem::OutOfAudience, EgressReason::OutOfAudience, Some("cred-1")),
        (other, CredentialProblem::NotFound, EgressReason::ProvenanceUnevaluable, None),
    ] {
        let server = EchoServer::start(&[CANARY]);
        let rig = Rig::presenting(&server.url("/mcp"), "it", holding(stored, CANARY).await);
        let status = rig.degraded().await;
        assert!(status.detail.unwrap().contains("credential `it`"));
        let call = invocation(json!({}));
        let trail = call.egress.clone();
        let failed = rig.invoke("echo", None, call).await.unwrap_err();
        assert_eq!(failed.kind, UpstreamErrorKind::Credential(problem));
        let credential_id = id.map(str::to_owned);
        let denied = EgressDecided { credential_id, ..EgressDecided::denied("127.0.0.1", reason) };
        assert_eq!(trail.take(), [denied]);
        assert!(server.arrived("/mcp").is_empty(), "nothing is sent, not even to connect");
    }
}

/// The next call uses a rotated credential, without a restart.
#[tokio::test]
async fn a_rotated_credential_is_used_at_once() {
    let server = EchoServer::start(&["first-canary"]);
    let store = holding(credential(bearer()), "first-canary").await;
    let rig = Rig::presenting(&server.url("/mcp"), "it", store.clone());
    rig.call("echo", json!({})).await;
    server.accept_only(&["second-canary"]);
    let material = Material { value: secret("second-canary"), client_secret: None };
    let id = "cred-1".parse().unwrap();
    store.rotate(&id, 1, material, None, Timestamp::UNIX_EPOCH).await.unwrap();
    rig.call("echo", json!({})).await;
    // I-36: what was sent before is replaced, too.
    let log = text(&rig.invoke("log", None, invocation(json!({}))).await.unwrap());
    assert!(log.contains("[REDACTED:cred-1]") && !log.contains("canary"), "{log}");
    assert!(store.remove(&id).await.unwrap());
    let failed = rig.fails("echo", json!({})).await;
    assert_eq!(failed, UpstreamErrorKind::Credential(CredentialProblem::NotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_access_token_serves_all_calls_until_it_is_refused() {
    let server = EchoServer::start(&[]);
    server.exchange("", "client-canary");
    let kind = CredentialKind::ClientCredentials(oauth2(&server));
    let rig = Rig::presenting(
        &server.url("/mcp"),
        "it",
        holding(credential(kind), "client-canary").await,
    );
    rig.ready().await;
    let calls = (0..20).map(|_| rig.call("echo", json!({})));
    for outcome in futures_util::future::join_all(calls).await {
        assert!(!outcome.content.get().contains("canary"), "{:?}", outcome.content);
    }
    let asked = server.arrived("/token");
    assert_eq!(asked.len(), 1, "one request for all calls");
    assert_eq!(asked[0].body, "grant_type=client_credentials");
    assert!(!asked[0].headers.contains_key("cookie"));
    let sent: Vec<_> =
        server.calls().iter().map(|it| it.headers["authorization"].clone()).collect();
    assert!(sent.iter().all(|it| it == "Bearer access-canary-1"), "{sent:?}");
    // Revoked at the server: the next token is requested once, for all callers that need it.
    server.accept_only(&[]);
    assert!(rig.call("echo", json!({})).await.is_error);
    rig.degraded().await;
    let calls = (0..20).map(|_| rig.call("echo", json!({})));
    futures_util::future::join_all(calls).await;
    assert_eq!(server.arrived("/token").len(), 2);
}

/// A clock that a test advances.
#[derive(Default)]
pub(crate) struct Seconds(pub(crate) AtomicU64);

impl Clock for Seconds {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::SeqCst))
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.load(Ordering::SeqCst) * 1_000_000_000
    }
}

/// The server's tokens are valid for an hour; the last minute is not used.
#[tokio::test]
async fn a_token_is_followed_by_the_next_before_it_ends() {
    let server = EchoServer::start(&[]);
    server.exchange("refresh-canary-0", "");
    let kind = CredentialKind::RefreshToken(oauth2(&server));
    let store = holding(credential(kind), "refresh-canary-0").await;
    let clock = Arc::new(Seconds::default());
    let factory = Factory::new(clock.clone()).with_credentials(store.clone());
    let rig = Rig::presenting_by(&factory, &server.url("/mcp"), "it");
    for (second, asked) in [(0, 1), (3_539, 1), (3_541, 2), (7_000, 2), (90_000, 3)] {
        clock.0.store(second, Ordering::SeqCst);
        rig.call("echo", json!({})).await;
        assert_eq!(server.arrived("/token").len(), asked, "at {second} s");
        assert_eq!(value(&store).await, format!("refresh-canary-{asked}"), "at {second} s");
    }
}

/// I-36: a credential that expired while its call waited at the source is not sent.
#[tokio::test]
async fn a_credential_that_expired_during_a_wait_is_not_sent() {
    let server = EchoServer::start(&[CANARY]);
    let clock = Arc::new(Seconds::default());
    let expires_at = Some(Timestamp::UNIX_EPOCH + Duration::from_secs(10));
    let store = holding(Credential { expires_at, ..credential(bearer()) }, CANARY).await;
    let factory = Factory::new(clock.clone()).with_credentials(store);
    let rig = Rig::presenting_by(&factory, &server.url("/mcp"), "it");
    rig.call("echo", json!({})).await;
    let permit = permit("echo", None, None);
    let call = rig.resolved(&permit, invocation(json!({}))).await.unwrap();
    let sent = server.arrived("/mcp").len();
    clock.0.store(11, Ordering::SeqCst);
    let refused = rig.source.serve(&permit, Operation::CallTool(call)).await.unwrap_err();
    assert_eq!(refused.kind, UpstreamErrorKind::Credential(CredentialProblem::Expired));
    assert_eq!(server.arrived("/mcp").len(), sent);
}

/// A clock at which credentials expire as soon as a token has been requested.
struct UntilRequest(Arc<EchoServer>);

impl Clock for UntilRequest {
    fn now(&self) -> Timestamp {
        let has_asked = !self.0.arrived("/token").is_empty();
        Timestamp::UNIX_EPOCH + Duration::from_secs(if has_asked { 11 } else { 0 })
    }

    fn monotonic_nanos(&self) -> u64 {
        0
    }
}

/// I-113: a credential that expires while its token is requested is refused.
#[tokio::test]
async fn a_credential_that_expires_during_its_token_request_is_refused() {
    let server = Arc::new(EchoServer::start(&[]));
    server.exchange("refresh-canary-0", "");
    let kind = CredentialKind::RefreshToken(oauth2(&server));
    let expires_at = Some(Timestamp::UNIX_EPOCH + Duration::from_secs(10));
    let credential = Credential { expires_at, ..credential(kind) };
    let store = holding(credential, "refresh-canary-0").await;
    let clock = Arc::new(UntilRequest(Arc::clone(&server)));
    let factory = Factory::new(clock).with_credentials(store);
    let (tenant, principal) = (TenantId::parse("tenant").unwrap(), "ann".parse().unwrap());
    let need = CredentialNeed::Stored {
        reference: CredentialRef::of_tenant("it".parse().unwrap(), tenant.clone()),
        destination: server.url("/mcp"),
    };
    let refused = factory
        .credentials()
        .resolve(&need, CredentialCaller::without_call(&tenant, &principal))
        .await
        .unwrap_err();
    let expired = CredentialProblem::Expired;
    assert!(matches!(refused.cause, RefusalCause::Credential(problem) if problem == expired));
    assert_eq!(server.arrived("/token").len(), 1);
}

/// Needed concurrently, before there is one: a single request is sent, for all sources.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_callers_wait_for_the_same_token_request() {
    let server = EchoServer::start(&[]);
    server.exchange("refresh-canary-0", "");
    let kind = CredentialKind::RefreshToken(oauth2(&server));
    let store = holding(credential(kind), "refresh-canary-0").await;
    let factory = presenting(store.clone());
    let rigs =
        ["/mcp?a", "/mcp?b"].map(|path| Rig::presenting_by(&factory, &server.url(path), "it"));
    let calls = rigs.iter().flat_map(|rig| (0..10).map(|_| rig.call("echo", json!({}))));
    futures_util::future::join_all(calls).await;
    assert_eq!(server.arrived("/token").len(), 1);
    assert_eq!(value(&store).await, "refresh-canary-1", "what came in its place is stored");
}

/// Two processes with one store: the refresh token is valid once, and the loser of the race uses
/// the successor that the winner stored.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_exchange_one_refresh_token_both_succeed() {
    let server = EchoServer::start(&[]);
    server.exchange("refresh-canary-0", "");
    let kind = CredentialKind::RefreshToken(oauth2(&server));
    let store = holding(credential(kind), "refresh-canary-0").await;
    let rigs =
        ["/mcp?a", "/mcp?b"].map(|path| Rig::presenting(&server.url(path), "it", store.clone()));
    let calls = rigs.iter().map(|rig| rig.call("echo", json!({})));
    futures_util::future::join_all(calls).await;
    let posted = server.arrived("/token");
    assert!(posted.iter().any(|it| it.body.contains("refresh_token=refresh-canary-1")));
    let last = value(&store).await;
    assert!(last.starts_with("refresh-canary-") && last != "refresh-canary-1", "{last}");
}

#[tokio::test]
async fn a_rejection_by_the_token_endpoint_fails_the_call_without_its_text() {
    let server = EchoServer::start(&[]);
    server.exchange("other", "");
    server.deny_tokens(400);
    let kind = CredentialKind::RefreshToken(oauth2(&server));
    let store = holding(credential(kind), "refresh-canary-0").await;
    let rig = Rig::presenting(&server.url("/mcp"), "it", store.clone());
    let status = rig.degraded().await;
    let failed = rig.try_call("echo", json!({})).await.unwrap_err();
    assert_eq!(failed.kind, UpstreamErrorKind::Credential(CredentialProblem::AuthExpired));
    assert!(!format!("{failed:?} {failed} {status:?}").contains("canary"), "{failed:?}");
    assert!(server.arrived("/mcp").is_empty());
    let asked = server.arrived("/token").len();
    rig.try_call("echo", json!({})).await.unwrap_err();
    assert_eq!(server.arrived("/token").len(), asked, "not one request per call");
    // An explanation says the same.
    let need = rig.source.credential_for(permit("echo", None, None).entry());
    let (tenant, principal) = ("acme".parse().unwrap(), "ann".parse().unwrap());
    let refused = rig
        .credentials
        .find(&need, CredentialCaller::without_call(&tenant, &principal))
        .await
        .unwrap_err();
    let expired = CredentialProblem::AuthExpired;
    assert!(matches!(refused.cause, RefusalCause::Credential(problem) if problem == expired));
    // Stored again by the operator.
    server.deny_tokens(0);
    server.exchange("refresh-canary-9", "");
    let material = Material { value: secret("refresh-canary-9"), client_secret: None };
    let id = "cred-1".parse().unwrap();
    assert!(store.rotate(&id, 1, material, None, Timestamp::UNIX_EPOCH).await.unwrap());
    rig.call("echo", json!({})).await;
}

/// A token is requested only for a destination that may receive it.
#[tokio::test]
async fn no_token_is_requested_for_a_forbidden_destination() {
    let server = EchoServer::start(&[]);
    server.exchange("", "client-canary");
    let elsewhere = Credential {
        audiences: vec!["api.example".parse().unwrap()],
        ..credential(CredentialKind::ClientCredentials(oauth2(&server)))
    };
    let rig = Rig::presenting(&server.url("/mcp"), "it", holding(elsewhere, "client-canary").await);
    rig.degraded().await;
    let failed = rig.fails("echo", json!({})).await;
    assert_eq!(failed, UpstreamErrorKind::Credential(CredentialProblem::OutOfAudience));
    assert!(server.arrived("/token").is_empty());
}
