//! Calls that wait, for their turn at a source with one call at a time or for a new token, while
//! their caller loses the right to make them (I-110).

use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::{
    gateway::{Actor, Reply, TestGateway},
    upstream::{OAuthBehaviour, OAuthServer},
};

use crate::sign_in::Page;

struct Stage {
    server: OAuthServer,
    gw: TestGateway,
    config: String,
    ann: Actor,
    bob: Actor,
}

impl Stage {
    /// An MCP server with the accounts of ann and bob.
    async fn start(has_sessions: bool) -> Self {
        let server = OAuthServer::start(OAuthBehaviour { has_sessions, ..Default::default() });
        let address = format!("kind = \"mcp\"\nurl = \"{}\"", server.url("/mcp"));
        Self::of(server, &address, "").await
    }

    /// An HTTP API with the accounts of ann and bob.
    async fn start_connector() -> Self {
        let server = OAuthServer::start(OAuthBehaviour { challenges: false, ..Default::default() });
        let address = format!(
            "kind = \"connector\"\ndocument = \"notes.json\"\nbase_url = \"{}\"",
            server.url("")
        );
        let issuer = format!("issuer = \"{}\"\n", server.issuer());
        Self::of(server, &address, &issuer).await
    }

    async fn of(server: OAuthServer, address: &str, issuer: &str) -> Self {
        let config = format!(
            "[server]\npublic_url = \"https://crib.example\"\n\
             [[source]]\nid = \"notes\"\n{address}\ntenants = [\"acme\"]\nmax_concurrency = 1\n\
             [source.oauth]\nof = \"principal\"\n{issuer}\
             [source.tools.\"*\"]\nscopes = [\"notes:use\"]\n",
        );
        let document = json!({ "openapi": "3.1.0", "info": { "title": "t", "version": "1" },
            "paths": { "/whoami": { "post": { "operationId": "whoami" } } } });
        let builder = TestGateway::builder().config(&config).upstreams().manual_clock();
        let gw = builder.file("notes.json", &document.to_string()).start().await;
        let root = gw.principal("root", ["connections:manage", "notes:use"]).await;
        let [ann, bob] = ["ann", "bob"].map(|name| gw.principal(name, ["notes:use"]));
        let stage = Self { ann: ann.await, bob: bob.await, server, gw, config };
        stage.connect(&root, "robot", true).await;
        for _ in 0..500 {
            if root.get("/v1/tools").await.text().contains("notes.whoami") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stage.connect(&stage.ann, "ann", false).await;
        stage.connect(&stage.bob, "bob", false).await;
        stage
    }

    async fn connect(&self, caller: &Actor, account: &str, of_tenant: bool) {
        let body = json!({ "source": "notes", "tenant": of_tenant });
        let begun = caller.post("/v1/connections/begin", body).await;
        assert_eq!(begun.status, 200, "{}", begun.text());
        let cookie = begun.header("set-cookie").split(';').next().unwrap().to_owned();
        self.server.sign_in(account);
        let answer = self.server.consent(begun.json()["address"].as_str().unwrap());
        let body = json!({ "source": "notes", "state": answer["state"], "code": answer["code"],
            "iss": answer["iss"] });
        let finished = caller.with("cookie", &cookie).post("/v1/connections/finish", body).await;
        assert_eq!(finished.status, 200, "{account}: {}", finished.text());
    }

    /// The id of an account.
    async fn account(&self, caller: &Actor) -> String {
        let listed = caller.get("/v1/connections").await.json();
        listed["connections"][0]["id"].as_str().unwrap().to_owned()
    }

    /// The accounts of the calls that have arrived.
    fn called(&self) -> Vec<String> {
        let calls = self.server.arrived("/mcp").into_iter();
        let calls = calls.filter(|request| request.body.contains("tools/call"));
        calls.map(|request| request.account).collect()
    }

    /// A call of ann that has waited during `change` behind one of bob.
    async fn waited(&self, change: impl AsyncFnOnce()) -> Reply {
        let (waited, sent) = self.waited_for(&self.ann, change).await;
        assert_eq!(sent, ["bob"], "the other was sent, too");
        waited
    }

    /// A call of `caller` that has waited during `change` behind one of bob, and the accounts of the
    /// calls that were sent.
    async fn waited_for(&self, caller: &Actor, change: impl AsyncFnOnce()) -> (Reply, Vec<String>) {
        let before = self.called().len();
        self.server.hold_calls(true);
        let later = async {
            while self.called().len() == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let change = async {
                self.wait_for_running(2).await;
                change().await;
                self.server.hold_calls(false);
            };
            tokio::join!(call(caller), change).0
        };
        let (first, waited) = tokio::join!(call(&self.bob), later);
        assert_eq!(first.status, 200, "{}", first.text());
        (waited, self.called().split_off(before))
    }

    /// Applies the configuration with `text` in place of `part`, and lets its confirmations expire.
    async fn reload(&self, part: &str, text: &str) {
        assert!(self.config.contains(part));
        self.gw.replace(&self.config.replace(part, text)).await;
        self.gw.advance(Duration::from_secs(3)).await;
    }

    /// Grants the call of `caller` as a new principal, and returns it.
    async fn approve(&self, caller: &Actor) -> Actor {
        let asked = call(caller).await;
        assert_eq!(asked.status, 403, "{}", asked.text());
        let id = asked.json()["details"]["approvalId"].as_str().unwrap().to_owned();
        let eve = self.gw.principal("eve", ["approvals:respond"]).await;
        let path = format!("/v1/approvals/{id}");
        let granted = eve.post(&path, json!({ "verdict": "grant" })).await;
        assert_eq!(granted.status, 200, "{}", granted.text());
        eve
    }

    /// Waits until this many calls run or wait at the source.
    async fn wait_for_running(&self, calls: usize) {
        let metrics = self.gw.principal("meter", ["metrics:all"]).await;
        let sought = format!("toolcrib_source_calls_running{{source=\"notes\"}} {calls}\n");
        for _ in 0..500 {
            if metrics.get("/metrics").await.text().contains(&sought) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{}", metrics.get("/metrics").await.text());
    }
}

async fn call(caller: &Actor) -> Reply {
    caller.post("/explorer/tools/notes__whoami/call", json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_does_not_use_a_removed_account() {
    for has_sessions in [false, true] {
        let stage = Stage::start(has_sessions).await;
        let id = stage.account(&stage.ann).await;
        let removal = async || {
            let reply = stage.ann.delete(&format!("/v1/connections/{id}")).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
        };
        let refused = stage.waited(removal).await;
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert!(refused.text().contains("/explorer#/connect/"), "{}", refused.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_does_not_use_a_replaced_account() {
    for has_sessions in [false, true] {
        let stage = Stage::start(has_sessions).await;
        let refused = stage.waited(async || stage.connect(&stage.ann, "carl", false).await).await;
        let text = refused.text();
        assert!(text.contains("the account was replaced while the call waited"), "{text}");
        assert!(!text.contains("#/connect/"), "{text}");
        let next = call(&stage.ann).await;
        assert!(next.status == 200 && next.text().contains("carl"), "{}", next.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_does_not_run_with_a_revoked_key() {
    let stage = Stage::start(false).await;
    let revocation = async || {
        stage.gw.revoke(&stage.ann).await;
        stage.gw.advance(Duration::from_secs(3)).await;
    };
    let refused = stage.waited(revocation).await;
    assert_eq!(refused.status, 404, "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_does_not_run_after_its_session_has_ended() {
    for has_sessions in [false, true] {
        let stage = Stage::start(has_sessions).await;
        let page = Page::start(&stage.gw, &stage.ann).await;
        let end = async || {
            let reply = page.actor().delete("/v1/sessions/current").await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            stage.gw.advance(Duration::from_secs(3)).await;
        };
        let (refused, sent) = stage.waited_for(&page.actor(), end).await;
        assert_eq!((refused.status, sent), (404, vec!["bob".to_owned()]), "{}", refused.text());
        assert_eq!(call(&stage.ann).await.status, 200, "the key itself is valid");
    }
}

/// The service has refused a token, and the new one arrives late.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_not_repeated_with_a_key_that_was_revoked_meanwhile() {
    for is_revoked in [false, true] {
        let stage = Stage::start_connector().await;
        let sent = || stage.server.arrived("/whoami").len();
        assert_eq!((call(&stage.ann).await.status, sent()), (200, 1));
        stage.server.end_access_tokens();
        stage.server.hold_tokens(true);
        let requests = stage.server.arrived("/token").len();
        let change = async {
            while stage.server.arrived("/token").len() == requests {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if is_revoked {
                stage.gw.revoke(&stage.ann).await;
            }
            stage.gw.advance(Duration::from_secs(3)).await;
            stage.server.hold_tokens(false);
        };
        let (reply, ()) = tokio::join!(call(&stage.ann), change);
        let expected = if is_revoked { (404, 2) } else { (200, 3) };
        assert_eq!((reply.status, sent()), expected, "{}", reply.text());
    }
}

/// Under other rules, the same call would not run, or not with this account.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_runs_under_the_rules_of_a_reload() {
    let rule = "scopes = [\"notes:use\"]\n";
    let always = format!("{rule}approval = \"always\"\n");
    let by_two = format!("{always}approval_quorum = 2\n");
    let own = "of = \"principal\"";
    for (part, text, said) in [
        (rule, &*always, "approval"),
        (own, "of = \"tenant\"", "the tool has changed at its source"),
    ] {
        let stage = Stage::start(false).await;
        let refused = stage.waited(async || stage.reload(part, text).await).await;
        assert!(refused.status >= 400 && refused.text().contains(said), "{}", refused.text());
    }
    // A reload that changes nothing for the call does not refuse it.
    let stage = Stage::start(false).await;
    let same = async || stage.reload(rule, &format!("{rule}timeout = \"59s\"\n")).await;
    let (reply, sent) = stage.waited_for(&stage.ann, same).await;
    assert_eq!((reply.status, sent.len()), (200, 2), "{}", reply.text());

    // A grant holds under the rules under which it was given, while its approver could give it.
    for (text, is_revoked, status) in
        [(&*always, false, 200), (&by_two, false, 403), (&*always, true, 403)]
    {
        let mut stage = Stage::start(false).await;
        stage.config = stage.config.replace(rule, &always);
        stage.gw.replace(&stage.config).await;
        stage.approve(&stage.bob).await;
        let approver = stage.approve(&stage.ann).await;
        let change = async || {
            if is_revoked {
                stage.gw.revoke(&approver).await;
            }
            stage.reload(&always, text).await;
        };
        let (reply, _) = stage.waited_for(&stage.ann, change).await;
        assert_eq!(reply.status, status, "{}", reply.text());
    }
}
