//! Calls that wait for their turn at a source with one call at a time, while their caller loses the
//! right to make them (I-110).

use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::{
    gateway::{Actor, Reply, TestGateway},
    upstream::{OAuthBehaviour, OAuthServer},
};

struct Stage {
    server: OAuthServer,
    gw: TestGateway,
    ann: Actor,
    bob: Actor,
}

impl Stage {
    /// A source with the accounts of ann and bob.
    async fn start(has_sessions: bool) -> Self {
        let behaviour = OAuthBehaviour { has_sessions, ..OAuthBehaviour::default() };
        let server = OAuthServer::start(behaviour);
        let config = format!(
            "[server]\npublic_url = \"https://crib.example\"\n\
             [[source]]\nid = \"notes\"\nkind = \"mcp\"\nurl = \"{}\"\ntenants = [\"acme\"]\n\
             max_concurrency = 1\n[source.oauth]\nof = \"principal\"\n\
             [source.tools.\"*\"]\nscopes = [\"notes:use\"]\n",
            server.url("/mcp")
        );
        let builder = TestGateway::builder().config(&config).upstreams().manual_clock();
        let gw = builder.start().await;
        let root = gw.principal("root", ["connections:manage", "notes:use"]).await;
        let [ann, bob] = ["ann", "bob"].map(|name| gw.principal(name, ["notes:use"]));
        let stage = Self { ann: ann.await, bob: bob.await, server, gw };
        stage.connect(&root, "robot", true).await;
        for _ in 0..500 {
            if root.get("/v1/tools").await.json().as_array().unwrap().len() == 2 {
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
            tokio::join!(call(&self.ann), change).0
        };
        let (first, waited) = tokio::join!(call(&self.bob), later);
        assert_eq!(first.status, 200, "{}", first.text());
        assert_eq!(self.called().split_off(before), ["bob"], "the other was sent, too");
        waited
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
        assert_eq!(refused.status, 403, "{}", refused.text());
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
