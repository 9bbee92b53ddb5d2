//! Accounts that people connect: who can, with which link and in which browser, and what calls get
//! before.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use bytes::Bytes;
use chrono::{DateTime, Duration};
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolcrib_core::{
    approval::Verdict,
    call::{CallError, ConnectionRequired, Lack},
    clock::{Clock, Timestamp},
    credential::{ConnectLink, CredentialProblem, GrantPlace, Owner, Secret},
    id::{PrincipalId, SourceId},
    principal::{AuthMethod, Principal},
    source::AuthorizationResponse,
};
use toolcrib_gateway::{
    CallReport, CallRequest, ToolRef,
    clock::SystemClock,
    connections::{
        Asked, BegunConnection, Connection, ConnectionError, ConnectionResponse, ConnectionState,
        Wanted,
    },
    idempotency::{self, ClientKey, IdempotentOutcome},
    metrics::Surface,
};
use toolcrib_store::MemoryCatalogs;

use crate::{
    accounts::CODE,
    support::{Rig, eventually, offer, principal, rig_at},
};

pub(crate) const PUBLIC: &str = "[server]\npublic_url = \"https://crib.example\"\n";

fn who(id: &str, scopes: &[&str]) -> Principal {
    Principal { id: PrincipalId::parse(id).unwrap(), ..principal("t", scopes) }
}

pub(crate) fn ann() -> Principal {
    who("ann", &["tools:*"])
}

pub(crate) fn bob() -> Principal {
    who("bob", &["tools:*", "approvals:respond"])
}

fn admin() -> Principal {
    who("root", &["tools:*", "connections:manage"])
}

pub(crate) fn source() -> SourceId {
    SourceId::parse("s").unwrap()
}

pub(crate) fn text(of: &str, rules: &str) -> String {
    format!(
        "[[source]]\nid = \"s\"\nkind = \"mcp\"\nurl = \"https://api.example/mcp\"\n\
         tenants = [\"t\"]\n[source.oauth]\nof = \"{of}\"\n{rules}"
    )
}

async fn rig_of(text: &str) -> Rig {
    let tools = offer(&["echo", "expelled"]);
    let clock = Arc::new(SystemClock::default());
    rig_at(Some(Ok(tools)), text, MemoryCatalogs::default(), clock).await
}

/// A gateway whose source `s` uses the accounts of its callers.
async fn own(rules: &str) -> Rig {
    rig_of(&format!("{PUBLIC}{}", text("principal", rules))).await
}

impl Rig {
    async fn echo(&self, caller: &Principal) -> Result<Value, CallError> {
        let called = self.call(caller, "s__echo", json!({})).await;
        called.result.map(|outcome| serde_json::from_str(outcome.content.get()).unwrap())
    }

    async fn refused(&self, caller: &Principal) -> ConnectionRequired {
        match self.echo(caller).await {
            Err(CallError::ConnectionRequired(required)) => *required,
            other => panic!("{other:?}"),
        }
    }

    async fn begin(
        &self,
        caller: &Principal,
        wanted: Wanted,
    ) -> Result<BegunConnection, ConnectionError> {
        self.gateway.begin_connection(caller, &wanted, None).await
    }

    async fn finish(
        &self,
        caller: &Principal,
        state: &str,
        cookies: &[&str],
    ) -> Result<Connection, ConnectionError> {
        let response = ConnectionResponse {
            source: source(),
            state: Secret::new(state.to_owned()),
            cookies: cookies.iter().map(|it| Secret::new((*it).to_owned())).collect(),
            response: AuthorizationResponse {
                code: Some(Secret::new(CODE.to_owned())),
                ..AuthorizationResponse::default()
            },
        };
        self.gateway.finish_connection(caller, response).await
    }

    pub(crate) async fn connect(&self, caller: &Principal, of_tenant: bool) -> Connection {
        let wanted = Wanted::Source { source: source(), of_tenant };
        let begun = self.begin(caller, wanted).await.unwrap();
        self.finish(caller, state(&begun), &[begun.cookie.expose()]).await.unwrap()
    }

    /// All events as JSON.
    async fn log(&self) -> String {
        self.settle().await;
        let events = self.log.kept.events();
        events.iter().map(|logged| serde_json::to_string(&logged.event).unwrap()).collect()
    }
}

fn of(wanted: &str) -> Wanted {
    Wanted::Link(Secret::new(wanted.to_owned()))
}

fn state(begun: &BegunConnection) -> &str {
    begun.address.split("state=").nth(1).unwrap()
}

/// The secret part of the link of a refused call.
fn secret(required: &ConnectionRequired) -> String {
    let link = required.link.as_ref().unwrap().expose();
    let secret = link.strip_prefix("https://crib.example/explorer#/connect/").unwrap();
    assert_eq!(secret.len(), 43);
    secret.to_owned()
}

/// The call is refused before any limit and approval. Its link is in no event.
#[tokio::test]
async fn an_unconnected_call_takes_no_token_and_asks_nobody() {
    let rules = "[source.tools.\"*\"]\napproval = \"always\"\nrate = \"1/h\"\n";
    let rig = own(rules).await;
    for _ in 0..3 {
        let required = rig.refused(&ann()).await;
        let words = CallError::ConnectionRequired(Box::new(required.clone())).words();
        assert!(words.contains(&secret(&required)), "{words}");
        assert_eq!((required.of_tenant, required.lack), (false, Lack::Account));
        assert!(!format!("{required} {required:?}").contains(&secret(&required)));
        assert!(!rig.log().await.contains(&secret(&required)));
    }
    assert_eq!(rig.gateway.approvals().list(&bob(), None, 10).await.unwrap(), []);
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
    let refused = ["called", "egress Denied api.example", "returned Error connection_required"];
    assert_eq!(rig.log.recorded(), [refused; 3].concat());
    rig.connect(&ann(), false).await;
    // The token is still there, and the approval is requested now.
    let Err(CallError::ApprovalRequired { pending: Some(asked), .. }) = rig.echo(&ann()).await
    else {
        panic!()
    };
    let approvals = rig.gateway.approvals();
    approvals.respond(&bob(), &asked.approval, Verdict::Grant, None).await.unwrap();
    rig.echo(&ann()).await.unwrap();
    assert_eq!(rig.refused(&bob()).await.source_id, source(), "it is Ann's account");
}

/// I-115
#[tokio::test]
async fn a_link_leads_to_an_account_once() {
    let rig = own("").await;
    let link = secret(&rig.refused(&ann()).await);
    for _ in 0..2 {
        let preview = rig.gateway.preview_connection(&ann(), &of(&link)).await.unwrap();
        let preview = serde_json::to_value(preview).unwrap();
        assert_eq!(
            preview,
            json!({ "source": "s", "host": "api.example", "of": "principal",
                "servers": ["id.example"], "scopes": ["notes"], "again": false,
                "principal": "ann" })
        );
    }
    rig.factory.service.is_down.store(true, Ordering::SeqCst);
    let failed = rig.begin(&ann(), of(&link)).await.err().unwrap();
    assert_eq!(failed.to_string(), "the service does not answer");
    rig.factory.service.is_down.store(false, Ordering::SeqCst);
    let begun = rig.begin(&ann(), of(&link)).await.unwrap();
    let again = rig.begin(&ann(), of(&link)).await.err().unwrap();
    assert!(matches!(again, ConnectionError::NotFound), "{again}");
    let mut news = rig.gateway.connected_accounts();
    let connected =
        rig.finish(&ann(), state(&begun), &["other", begun.cookie.expose()]).await.unwrap();
    assert_eq!((connected.state, connected.tools), (ConnectionState::Active, 2));
    assert_eq!(news.try_recv().unwrap().source, source());
    rig.echo(&ann()).await.unwrap();
    assert!(rig.log.recorded().contains(&"connected principal ann".to_owned()));

    let listed = rig.gateway.connections_of(&ann()).await.unwrap();
    assert!(connected.last_used_at.is_none() && listed[0].last_used_at.is_some());
    let connected = Connection { last_used_at: listed[0].last_used_at.clone(), ..connected };
    assert_eq!(listed, std::slice::from_ref(&connected));
    let of_bob = rig.gateway.connections_of(&bob()).await.unwrap();
    assert_eq!((of_bob.len(), of_bob[0].state), (1, ConnectionState::Absent));
    assert_eq!(of_bob[0].principal.as_ref().unwrap().as_str(), "bob");
    let id = connected.id.unwrap();
    let refused = rig.gateway.disconnect(&bob(), &id).await;
    assert!(matches!(refused, Err(ConnectionError::NotFound)));
    rig.gateway.disconnect(&ann(), &id).await.unwrap();
    rig.refused(&ann()).await;
    eventually("revoked", || *rig.factory.service.revoked.lock() == [id.clone()]).await;
    let log = rig.log().await;
    for canary in [&link, CODE, "token-canary", "verifier-canary", state(&begun)] {
        assert!(!log.contains(canary), "{canary}");
    }
    assert!(!log.contains(begun.cookie.expose()));
}

/// I-115: every mix of two principals, links, browsers and states gets one answer, except for the right one.
#[tokio::test]
async fn only_the_right_person_in_the_right_browser_connects() {
    let rig = own("").await;
    let people = [ann(), bob()];
    for user in 0..2 {
        let link = secret(&rig.refused(&people[user]).await);
        let other = &people[1 - user];
        let refused = rig.gateway.preview_connection(other, &of(&link)).await.err().unwrap();
        let unknown = rig.gateway.preview_connection(other, &of("x")).await.err().unwrap();
        assert_eq!(format!("{refused:?}"), format!("{unknown:?}"));
        let refused = rig.begin(other, of(&link)).await.err().unwrap();
        assert_eq!(format!("{refused:?}"), format!("{unknown:?}"));
        rig.begin(&people[user], of(&link)).await.unwrap();
    }
    assert_eq!(rig.factory.service.begun.load(Ordering::SeqCst), 2);
    for (caller, of_state, of_cookie) in (0..8).map(|mix| (mix & 1, (mix >> 1) & 1, (mix >> 2) & 1))
    {
        let wanted = || Wanted::Source { source: source(), of_tenant: false };
        let begun = [
            rig.begin(&people[0], wanted()).await.unwrap(),
            rig.begin(&people[1], wanted()).await.unwrap(),
        ];
        let (state, cookie) = (state(&begun[of_state]), begun[of_cookie].cookie.expose());
        let is_right = caller == of_state && of_state == of_cookie;
        let finished = rig.finish(&people[caller], state, &[cookie]).await;
        assert_eq!(finished.is_ok(), is_right, "{caller} {of_state} {of_cookie}");
        if let Err(error) = finished {
            assert!(matches!(error, ConnectionError::NotOurs), "{error:?}");
        }
        // The state is used up in any case.
        let own = [begun[of_state].cookie.expose()];
        let again = rig.finish(&people[of_state], state, &own).await;
        assert!(matches!(again, Err(ConnectionError::NotOurs)));
        for person in &people {
            for connection in rig.gateway.connections_of(person).await.unwrap() {
                if let Some(id) = connection.id {
                    rig.gateway.disconnect(person, &id).await.unwrap();
                }
            }
        }
        // The rest of this round must not count as pending.
        for (at, begun) in begun.iter().enumerate() {
            rig.finish(&people[at], self::state(begun), &[]).await.err();
        }
    }
    for cookies in [&[][..], &["", "x"]] {
        let wanted = Wanted::Source { source: source(), of_tenant: false };
        let begun = rig.begin(&ann(), wanted).await.unwrap();
        let refused = rig.finish(&ann(), state(&begun), cookies).await;
        assert!(matches!(refused, Err(ConnectionError::NotOurs)));
    }
    rig.settle().await;
    let recorded = rig.log.recorded();
    for reason in ["unknown_state", "other_principal", "other_browser"] {
        let event = format!("decided connections:finish /v1/connections/finish {reason}");
        assert!(recorded.contains(&event), "{recorded:?}");
    }
}

/// A wall clock that the test moves.
#[derive(Default)]
struct Wall(AtomicI64);

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        DateTime::UNIX_EPOCH + Duration::seconds(self.0.load(Ordering::SeqCst))
    }
    fn monotonic_nanos(&self) -> u64 {
        0
    }
}

/// I-115
#[tokio::test]
async fn a_link_and_a_browser_have_ten_minutes() {
    let (clock, tools) = (Arc::new(Wall::default()), offer(&["echo"]));
    let text = format!("{PUBLIC}{}", text("principal", ""));
    let rig =
        rig_at(Some(Ok(tools)), &text, MemoryCatalogs::default(), Arc::clone(&clock) as _).await;
    let required = rig.refused(&ann()).await;
    assert_eq!(required.expires_at, clock.now() + Duration::minutes(10));
    let link = secret(&required);
    clock.0.store(599, Ordering::SeqCst);
    rig.gateway.preview_connection(&ann(), &of(&link)).await.unwrap();
    clock.0.store(600, Ordering::SeqCst);
    let late = rig.begin(&ann(), of(&link)).await.err().unwrap();
    assert!(matches!(late, ConnectionError::NotFound));

    let link = secret(&rig.refused(&ann()).await);
    let begun = rig.begin(&ann(), of(&link)).await.unwrap();
    clock.0.store(1200, Ordering::SeqCst);
    let late = rig.finish(&ann(), state(&begun), &[begun.cookie.expose()]).await;
    assert!(matches!(late, Err(ConnectionError::NotOurs)));
    assert_eq!(rig.factory.service.exchanged.load(Ordering::SeqCst), 0);
}

/// Only an administrator connects the account of the tenant, which a principal's call never uses.
#[tokio::test]
async fn the_account_of_the_tenant_needs_its_scope() {
    let rig = own("").await;
    let of_tenant = || Wanted::Source { source: source(), of_tenant: true };
    let refused = rig.begin(&ann(), of_tenant()).await.err().unwrap();
    assert!(matches!(refused, ConnectionError::Forbidden));
    let connected = rig.connect(&admin(), true).await;
    assert_eq!((connected.of.word(), connected.tools), ("tenant", 0));
    rig.refused(&ann()).await;
    rig.refused(&admin()).await;
    assert_eq!(rig.gateway.connections_of(&admin()).await.unwrap().len(), 2);
    assert_eq!(rig.gateway.connections_of(&ann()).await.unwrap().len(), 1);
    assert!(rig.gateway.connections_of_tenant(&ann()).await.is_err());
    assert_eq!(rig.gateway.connections_of_tenant(&admin()).await.unwrap(), {
        let mut all = vec![connected.clone()];
        all[0].tools = 0;
        all
    });
    let foreign = Principal { tenant: "u".parse().unwrap(), ..admin() };
    assert_eq!(rig.gateway.connections_of(&foreign).await.unwrap(), []);
    let refused = rig.gateway.disconnect(&foreign, connected.id.as_ref().unwrap()).await;
    assert!(matches!(refused, Err(ConnectionError::NotFound)));

    let rig = rig_of(&format!("{PUBLIC}{}", text("tenant", ""))).await;
    let required = rig.refused(&ann()).await;
    assert!(required.of_tenant && required.link.is_none());
    let link = secret(&rig.refused(&admin()).await);
    let begun = rig.begin(&admin(), of(&link)).await.unwrap();
    // The scope is gone meanwhile.
    let demoted = who("root", &["tools:*"]);
    let refused = rig.finish(&demoted, state(&begun), &[begun.cookie.expose()]).await;
    assert!(matches!(refused, Err(ConnectionError::NotOurs)));
    let connected = rig.connect(&admin(), true).await;
    rig.echo(&ann()).await.unwrap();
    let seen = &rig.gateway.connections_of(&ann()).await.unwrap()[0];
    assert_eq!((seen.state, seen.tools, &seen.id), (ConnectionState::Active, 2, &None));
    let refused = rig.gateway.disconnect(&ann(), connected.id.as_ref().unwrap()).await;
    assert!(matches!(refused, Err(ConnectionError::NotFound)));
}

#[tokio::test]
async fn there_is_no_link_without_an_address_or_a_principal() {
    let rig = rig_of(&text("principal", "")).await;
    let required = rig.refused(&ann()).await;
    assert!(required.link.is_none());
    let refused = rig.gateway.link_connection(&ann(), &source(), false).await.err().unwrap();
    assert!(matches!(refused, ConnectionError::NoPublicUrl));
    assert!(rig.gateway.client_document().is_none());
    let rig = own("").await;
    let anonymous = Principal { auth: AuthMethod::Anonymous, ..ann() };
    assert!(rig.refused(&anonymous).await.link.is_none());
    let refused = rig.gateway.link_connection(&anonymous, &source(), false).await.err().unwrap();
    assert!(matches!(refused, ConnectionError::Anonymous));
    // A key with such a name is one of another person.
    for name in ["anonymous", "operator"] {
        let nobody = who(name, &["tools:*"]);
        assert!(rig.refused(&nobody).await.link.is_none());
        let refused = rig.gateway.link_connection(&nobody, &source(), false).await.err().unwrap();
        assert!(matches!(refused, ConnectionError::Anonymous));
    }
    let blind = who("eve", &[]);
    let refused = rig.gateway.link_connection(&blind, &source(), false).await.err().unwrap();
    assert!(matches!(refused, ConnectionError::NotFound));
    let document = rig.gateway.client_document().unwrap();
    assert_eq!(document["client_id"], "https://crib.example/connect/client.json");
    assert_eq!(document["redirect_uris"], json!(["https://crib.example/connect/s/callback"]));
}

/// The refusal of the service asks for a new consent, with one event.
#[tokio::test]
async fn a_refused_account_is_connected_again() {
    let rig = own("").await;
    rig.connect(&ann(), false).await;
    *rig.factory.vault.refuses.lock() = Some(CredentialProblem::NeedsConsent);
    for _ in 0..2 {
        let required = rig.refused(&ann()).await;
        assert_eq!(required.lack, Lack::Consent);
        secret(&required);
    }
    *rig.factory.vault.refuses.lock() = None;
    let refused =
        |log: &[String]| log.iter().filter(|it| it.starts_with("account refused")).count();
    assert_eq!(refused(&rig.log.recorded()), 1);
    // A call that was sent.
    rig.connect(&ann(), false).await;
    let called = rig.call(&ann(), "s__expelled", json!({})).await;
    let Err(CallError::ConnectionRequired(required)) = called.result else { panic!() };
    assert_eq!(required.lack, Lack::Consent);
    assert!(!rig.log().await.contains(&secret(&required)));
    let recorded = rig.log.recorded();
    assert_eq!(refused(&recorded), 2);
    assert!(recorded.contains(&"returned Error connection_required".to_owned()));
    let preview = Wanted::Source { source: source(), of_tenant: false };
    assert!(rig.gateway.preview_connection(&ann(), &preview).await.unwrap().again);
}

fn wanted() -> Wanted {
    Wanted::Source { source: source(), of_tenant: false }
}

/// A call that lacks a scope gets a link, and the account stays connected for the other tools.
#[tokio::test]
async fn a_missing_scope_concerns_its_call_alone() {
    let tools = offer(&["echo", "lacking", "ungranted"]);
    let text = format!("{PUBLIC}{}", text("principal", ""));
    let clock = Arc::new(SystemClock::default());
    let rig = rig_at(Some(Ok(tools)), &text, MemoryCatalogs::default(), clock).await;
    rig.connect(&ann(), false).await;
    for _ in 0..2 {
        let called = rig.call(&ann(), "s__lacking", json!({})).await;
        let Err(CallError::ConnectionRequired(required)) = called.result else { panic!() };
        assert_eq!(required.lack, Lack::Scopes);
        assert!(!required.to_string().contains("no longer accepts"), "{required}");
        assert!(!rig.log().await.contains(&secret(&required)));
        // A consent that did not help is not requested again.
        let called = rig.call(&ann(), "s__ungranted", json!({})).await;
        let error = called.result.unwrap_err();
        assert_eq!((error.code(), &*error.to_string()), ("credential_forbidden", "not `admin`"));
        rig.echo(&ann()).await.unwrap();
    }
    let recorded = rig.log.recorded();
    assert!(!recorded.iter().any(|it| it.starts_with("account refused")), "{recorded:?}");
}

/// A person that does not agree to what a call needed can still connect again without it.
#[tokio::test]
async fn a_declined_scope_is_not_requested_again() {
    let rig = own("").await;
    rig.connect(&ann(), false).await;
    let grants = rig.factory.vault.grants.lock().clone().unwrap();
    let owner = Owner::principal(ann().tenant, ann().id);
    let place = GrantPlace { owner, source: source() };
    let grant = async || grants.get(&place, rig.gateway.now()).await.unwrap().unwrap();
    let (mut lacking, values) = grant().await;
    lacking.terms.missing_scopes = vec!["admin".to_owned(), "later".to_owned()];
    assert!(grants.change(lacking, values).await.unwrap());
    *rig.factory.service.further.lock() = vec!["admin".to_owned()];
    let begun = rig.begin(&ann(), wanted()).await.unwrap();
    let response = ConnectionResponse {
        source: source(),
        state: Secret::new(state(&begun).to_owned()),
        cookies: vec![begun.cookie],
        response: AuthorizationResponse {
            error: Some("access_denied".to_owned()),
            ..AuthorizationResponse::default()
        },
    };
    assert!(rig.gateway.finish_connection(&ann(), response).await.is_err());
    let terms = grant().await.0.terms;
    assert_eq!(terms.missing_scopes, ["later"]);
    assert_eq!(terms.withheld_scopes, ["admin"]);
    rig.echo(&ann()).await.unwrap();
}

/// No more is requested than the person has seen.
#[tokio::test]
async fn what_is_asked_must_be_what_was_shown() {
    let rig = own("").await;
    let link = secret(&rig.refused(&ann()).await);
    let preview = rig.gateway.preview_connection(&ann(), &of(&link)).await.unwrap();
    assert_eq!(preview.asked.servers, ["id.example"]);
    *rig.factory.service.further.lock() = vec!["admin".to_owned()];
    let begin = async |shown: &Asked| {
        rig.gateway.begin_connection(&ann(), &of(&link), Some(shown)).await.map(drop)
    };
    let refused = begin(&preview.asked).await.unwrap_err();
    assert!(matches!(refused, ConnectionError::Changed), "{refused:?}");
    let preview = rig.gateway.preview_connection(&ann(), &of(&link)).await.unwrap();
    assert_eq!(preview.asked.scopes, ["notes", "admin"]);
    assert!(preview.new_scopes.is_empty(), "all are new");
    let elsewhere = Asked { servers: vec!["evil.example".to_owned()], ..preview.asked.clone() };
    assert!(matches!(begin(&elsewhere).await, Err(ConnectionError::Changed)));
    begin(&preview.asked).await.unwrap();
    // An account has its scopes already.
    rig.connect(&ann(), false).await;
    let preview = rig.gateway.preview_connection(&ann(), &wanted()).await.unwrap();
    assert_eq!(preview.new_scopes, ["admin"]);
}

/// The tokens of a replaced account are revoked, unless those of its successor would end with them.
#[tokio::test]
async fn a_replaced_account_is_revoked() {
    let rig = own("").await;
    let first = rig.connect(&ann(), false).await.id.unwrap();
    let second = rig.connect(&ann(), false).await.id.unwrap();
    *rig.factory.service.account.lock() = Some("other@example".to_owned());
    rig.connect(&ann(), false).await;
    let service = &rig.factory.service;
    eventually("revoked", || *service.revoked.lock() == [second.clone()]).await;
    assert_ne!(first, second);
}

/// The caller hears whether the service knows.
#[tokio::test]
async fn a_removal_says_whether_the_service_was_told() {
    let rig = own("").await;
    for cannot in [false, true] {
        rig.factory.service.cannot_revoke.store(cannot, Ordering::SeqCst);
        let id = rig.connect(&ann(), false).await.id.unwrap();
        assert_eq!(rig.gateway.disconnect(&ann(), &id).await.unwrap(), !cannot);
    }
}

/// An explanation says so, and makes no link.
#[tokio::test]
async fn an_explanation_has_the_step_and_no_link() {
    let rig = own("").await;
    let step = async || {
        let explained = rig.gateway.explain_to(&ann(), Some("s__echo")).await;
        let explained = serde_json::to_value(explained).unwrap();
        let steps = explained["steps"].as_array().unwrap();
        let names: Vec<_> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
        let at = names.iter().position(|name| *name == "connection").unwrap();
        assert_eq!(names[at + 1], "rate");
        assert!(!explained.to_string().contains("#/connect"));
        (explained["outcome"].clone(), steps[at]["result"].clone())
    };
    assert_eq!(step().await, (json!("unavailable"), json!("stop")));
    rig.connect(&ann(), false).await;
    assert_eq!(step().await, (json!("allowed"), json!("pass")));
}

/// The caller of a workflow gets the link of a step, which is neither stored nor recorded.
#[tokio::test]
async fn the_link_of_a_step_reaches_the_caller_alone() {
    let directory = tempfile::tempdir().unwrap();
    let flows = [("inner", "mcp:s.echo"), ("outer", "openwop:workflow.inner")];
    for (id, tool) in flows {
        let flow = format!(
            "id: {id}\ninputs: {{ type: object }}\nsteps: [ {{ id: a, tool: '{tool}' }} ]\noutputs: {{}}\n"
        );
        std::fs::write(directory.path().join(format!("{id}.yaml")), flow).unwrap();
    }
    let files = directory.path().join("*.yaml");
    let workflows = format!(
        "[[source]]\nid = \"w\"\nkind = \"workflow\"\ntenants = [\"t\"]\nfiles = [{files:?}]\n"
    );
    let rig = rig_of(&format!("{PUBLIC}{}{workflows}", text("principal", ""))).await;
    let ann = Arc::new(who("ann", &["*"]));
    for tool in ["openwop:workflow.inner", "openwop:workflow.outer"] {
        let request =
            CallRequest::new(rig.gateway.snapshot(), Surface::CLI, ToolRef::Id(tool), json!({}));
        let kept = Arc::new(Mutex::new(None));
        let keep = {
            let kept = Arc::clone(&kept);
            move |report: &CallReport| {
                assert!(idempotency::is_final(report), "the workflow ran");
                let words = report.result.as_ref().unwrap_err().words();
                *kept.lock() = Some(words.clone());
                Some(Bytes::from(words))
            }
        };
        let key = ClientKey { space: "test", text: tool };
        let called = rig.gateway.call_idempotent(&ann, key, request, keep).await.unwrap();
        let IdempotentOutcome::Report(report) = called else { panic!() };
        let Err(CallError::ConnectionRequired(required)) = &report.result else {
            panic!("{:?}", report.result)
        };
        assert_eq!(required.source_id, source());
        let link = secret(required);
        assert!(!kept.lock().as_ref().unwrap().contains(&link));
        assert!(!rig.log().await.contains(&link));
        let hash = ConnectLink::hash(&Secret::new(link.clone()));
        let grants = rig.factory.vault.grants.lock().clone().unwrap();
        let stored = grants.link(&hash, rig.gateway.now()).await.unwrap().unwrap();
        assert!(!format!("{stored:?}").contains(&link), "only as a hash");
        let owner = Owner::principal(ann.tenant.clone(), ann.id.clone());
        assert_eq!(stored.place, GrantPlace { owner, source: source() });
    }
}
