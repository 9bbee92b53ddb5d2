//! `/v1/connections` and `/connect`: accounts that people connect. `connections/mixes.rs` has the
//! tables of two people at a real authorization server, and `connections/waiting.rs` calls that wait
//! meanwhile.

mod mixes;
mod waiting;

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use toolcrib_core::{
    credential::{GrantPlace, Owner, Secret},
    store::Storage as _,
};
use toolcrib_store::{Options, SealKey, SealKeys, SqliteStore};
use toolcrib_testkit::gateway::{
    Actor, Reply, TestAccounts, TestGateway, TestGatewayBuilder, TestSource, TestTool,
};

fn notes(of: &str) -> TestGatewayBuilder {
    TestGateway::builder().config("[server]\npublic_url = \"https://crib.example\"").source(
        TestSource::new("notes")
            .tenants(["acme"])
            .accounts(of)
            .tool(TestTool::new("read").scopes(["notes:read"]).rule("rate = \"1/h\""))
            .tool(TestTool::new("ask").scopes(["notes:read"]).rule("approval = \"always\"")),
    )
}

async fn begun(caller: &Actor, body: Value) -> (String, String) {
    let reply = caller.post("/v1/connections/begin", body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let cookie = reply.header("set-cookie").to_owned();
    let rest = "; Path=/v1/connections/finish; Max-Age=600; HttpOnly; SameSite=Lax; Secure";
    let cookie = cookie.strip_suffix(rest).unwrap_or_else(|| panic!("{cookie}"));
    let (name, value) = cookie.split_once('=').unwrap();
    let id = name.strip_prefix("toolcrib-connect-").unwrap();
    assert_eq!((id.len(), value.len()), (16, 43));
    assert_eq!(reply.header("cache-control"), "no-store");
    let body = reply.json();
    let state = body["address"].as_str().unwrap().split("state=").nth(1).unwrap();
    (state.to_owned(), cookie.to_owned())
}

fn name(cookie: &str) -> &str {
    cookie.split_once('=').unwrap().0
}

async fn finish(caller: &Actor, state: &str, cookie: &str) -> Reply {
    let body = json!({ "source": "notes", "state": state, "code": TestAccounts::CODE });
    caller.with("cookie", cookie).post("/v1/connections/finish", body).await
}

async fn connect(caller: &Actor, body: Value) -> Value {
    let (state, cookie) = begun(caller, body).await;
    let name = name(&cookie);
    let reply = finish(caller, &state, &format!("a=b; {name}=x; {cookie}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.header("set-cookie").starts_with(&format!("{name}=; ")));
    assert!(reply.header("set-cookie").contains("Max-Age=0"));
    reply.json()["connection"].clone()
}

async fn connections(caller: &Actor) -> Value {
    caller.get("/v1/connections").await.json()["connections"].clone()
}

async fn call(caller: &Actor, tool: &str) -> Reply {
    caller.post(&format!("/explorer/tools/notes__{tool}/call"), json!({})).await
}

/// The secret of the link in the details of a refusal.
fn secret(details: &Value) -> String {
    let link = details["link"].as_str().unwrap_or_else(|| panic!("{details}"));
    link.strip_prefix("https://crib.example/explorer#/connect/").unwrap().to_owned()
}

/// The events of the record as text.
async fn record(gw: &TestGateway) -> String {
    let events = gw.events().await;
    events.iter().map(|logged| serde_json::to_string(&logged.event).unwrap()).collect()
}

/// Open Tool Calling and the explorer. The forms of MCP are in `mcp/connections.rs`.
#[tokio::test]
async fn the_surfaces_name_the_link_and_the_record_does_not() {
    let gw = notes("principal").start().await;
    let ann = gw.principal("ann", ["notes:read"]).await;
    let mut links = BTreeSet::new();
    for tool in ["read", "ask", "read"] {
        let refused = call(&ann, tool).await;
        assert_eq!(refused.status, 403, "{}", refused.text());
        let details = refused.json()["details"].clone();
        assert_eq!(
            (&details["source"], &details["connection"]),
            (&json!("notes"), &json!("required"))
        );
        assert!(details["expiresAt"].is_string());
        links.insert(secret(&details));
    }
    let asked = ann.get("/v1/approvals").await.json();
    assert_eq!(asked["approvals"], json!([]));
    for prefix in ["/otc", "/oxp"] {
        let body = json!({ "request": { "tool_id": "notes.read" } });
        let keyed = ann.with("idempotency-key", "once");
        let reply = keyed.post(&format!("{prefix}/tools/call"), body).await;
        let result = reply.json()["result"].clone();
        assert_eq!((reply.status, &result["success"]), (200, &json!(false)), "{}", reply.text());
        assert_eq!(result["error"]["developer_message"], "connection_required");
        assert_eq!(result["error"]["can_retry"], false);
        let message = result["error"]["message"].as_str().unwrap();
        let link = message.split("#/connect/").nth(1).unwrap().get(..43).unwrap().to_owned();
        assert!(links.insert(link), "the answer is not replayed");
    }
    let explained = ann.get("/v1/explain?tool=notes__read").await;
    assert_eq!(explained.json()["outcome"], "unavailable");
    assert!(!explained.text().contains("#/connect"), "no link is made");
    // The rate token of `read` is still there.
    connect(&ann, json!({ "link": links.last().unwrap() })).await;
    let done = call(&ann, "read").await;
    assert_eq!(done.status, 200, "{}", done.text());
    let record = record(&gw).await;
    assert!(record.contains("account.connected"));
    for canary in links.iter().map(String::as_str).chain([TestAccounts::CODE, TestAccounts::TOKEN])
    {
        assert!(!record.contains(canary), "{canary}");
    }
    let metrics = gw.principal("m", ["metrics:all"]).await.get("/metrics").await.text();
    assert!(metrics.contains("connection_required"), "{metrics}");
}

#[tokio::test]
async fn a_person_connects_and_disconnects() {
    let gw = notes("principal").start().await;
    let ann = gw.principal("ann", ["notes:read"]).await;
    let absent = json!({ "source": "notes", "host": "notes.example", "of": "principal",
        "state": "absent", "tools": 2, "toolNames": ["notes__ask", "notes__read"],
        "principal": "ann" });
    assert_eq!(connections(&ann).await, json!([absent]));
    let made = ann.post("/v1/connections/link", json!({ "source": "notes" })).await;
    assert_eq!(made.status, 201);
    let link = json!({ "link": secret(&made.json()) });
    for _ in 0..2 {
        let preview = ann.post("/v1/connections/preview", link.clone()).await;
        assert_eq!(
            preview.parts(),
            (
                200,
                json!({ "source": "notes", "host": "notes.example", "of": "principal",
                "servers": ["id.example"], "scopes": ["notes"], "again": false, "principal": "ann" })
            )
        );
    }
    // What the person has seen must be the request to the service.
    let mut other = link.clone();
    other["shown"] = json!({ "servers": ["id.example"], "scopes": [] });
    let changed = ann.post("/v1/connections/begin", other).await;
    assert_eq!((changed.status, &changed.json()["details"]["reason"]), (409, &json!("changed")));
    let mut seen = link.clone();
    seen["shown"] = json!({ "servers": ["id.example"], "scopes": ["notes"] });
    let (state, cookie) = begun(&ann, seen).await;
    let used = ann.post("/v1/connections/begin", link).await;
    let unknown = ann.post("/v1/connections/begin", json!({ "link": "x" })).await;
    assert_eq!((used.status, used.text()), (404, unknown.text()));
    let connected = finish(&ann, &state, &cookie).await.json()["connection"].clone();
    assert_eq!((&connected["state"], &connected["scopes"]), (&json!("active"), &json!(["notes"])));
    assert_eq!(connections(&ann).await, json!([connected]));
    let path = format!("/v1/connections/{}", connected["id"].as_str().unwrap());
    let bob = gw.principal("bob", ["notes:read"]).await;
    assert_eq!(bob.delete(&path).await.status, 404);
    assert_eq!(connected["lastUsedAt"], Value::Null);
    assert_eq!(call(&ann, "read").await.status, 200);
    assert!(connections(&ann).await[0]["lastUsedAt"].is_string(), "it shows at once");
    assert_eq!(ann.delete(&path).await.parts(), (200, json!({ "revoked": true })));
    assert_eq!(ann.delete(&path).await.status, 404);
    assert_eq!(call(&ann, "ask").await.status, 403);

    // A refusal of the person, and bodies with another form.
    let (state, cookie) = begun(&ann, json!({ "source": "notes" })).await;
    let body = json!({ "source": "notes", "state": state, "error": "access_denied" });
    let refused = ann.with("cookie", &cookie).post("/v1/connections/finish", body).await;
    assert_eq!((refused.status, &refused.json()["error"]), (403, &json!("upstream_refused")));
    for body in [
        json!({}),
        json!({ "link": "x", "source": "notes" }),
        json!({ "link": "x", "tenant": true }),
        json!({ "source": "notes", "more": 1 }),
    ] {
        assert_eq!(ann.post("/v1/connections/begin", body).await.status, 400);
    }
    for source in ["none", "NO", "crib"] {
        let refused = ann.post("/v1/connections/begin", json!({ "source": source })).await;
        assert_eq!(refused.status, 404);
    }
}

/// I-115: every mix of two principals, links, cookies and states is refused with the same answer, except for
/// the right one.
#[tokio::test]
async fn nobody_finishes_for_another_person_or_browser() {
    let gw = notes("principal").start().await;
    let people =
        [gw.principal("ann", ["notes:read"]).await, gw.principal("bob", ["notes:read"]).await];
    let mut answers = BTreeSet::new();
    for user in 0..2 {
        let link = json!({ "link": secret(&call(&people[user], "ask").await.json()["details"]) });
        for route in ["preview", "begin"] {
            let path = format!("/v1/connections/{route}");
            let refused = people[1 - user].post(&path, link.clone()).await;
            answers.insert((refused.status, refused.text()));
        }
        begun(&people[user], link).await;
    }
    assert_eq!(answers.len(), 1);
    let mut answers = BTreeSet::new();
    for mix in 0..8 {
        let (caller, of_state, of_cookie) = (mix & 1, (mix >> 1) & 1, (mix >> 2) & 1);
        let begun = [
            begun(&people[0], json!({ "source": "notes" })).await,
            begun(&people[1], json!({ "source": "notes" })).await,
        ];
        let (state, cookie) = (&begun[of_state].0, &begun[of_cookie].1);
        let reply = finish(&people[caller], state, cookie).await;
        match caller == of_state && of_state == of_cookie {
            true => assert_eq!(reply.status, 200),
            false => drop(answers.insert((reply.status, reply.text()))),
        }
        // A state is used once.
        let again = finish(&people[of_state], state, &begun[of_state].1).await;
        answers.insert((again.status, again.text()));
        // The other authorization of this round does not stay pending.
        let other = 1 - of_state;
        finish(&people[other], &begun[other].0, "").await;
    }
    for value in ["", "x"] {
        let (state, cookie) = begun(&people[0], json!({ "source": "notes" })).await;
        let reply = finish(&people[0], &state, &format!("{}={value}", name(&cookie))).await;
        answers.insert((reply.status, reply.text()));
        let (state, cookie) = begun(&people[0], json!({ "source": "notes" })).await;
        let value = cookie.split_once('=').unwrap().1;
        let reply = finish(&people[0], &state, &format!("toolcrib-connect={value}")).await;
        answers.insert((reply.status, reply.text()));
    }
    let (state, cookie) = begun(&people[0], json!({ "source": "notes" })).await;
    for (source, code) in [("other", TestAccounts::CODE), ("notes", "wrong")] {
        let body = json!({ "source": source, "state": state, "code": code });
        let reply = people[0].with("cookie", &cookie).post("/v1/connections/finish", body).await;
        answers.insert((reply.status, reply.text()));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    let (status, body) = answers.pop_first().unwrap();
    assert!(status == 403 && body.contains("not_this_browser"), "{body}");
}

/// I-115
#[tokio::test]
async fn links_and_browsers_have_ten_minutes() {
    let gw = notes("principal").manual_clock().start().await;
    let ann = gw.principal("ann", ["notes:read"]).await;
    let link = json!({ "link": secret(&call(&ann, "ask").await.json()["details"]) });
    gw.advance(Duration::from_secs(599)).await;
    assert_eq!(ann.post("/v1/connections/preview", link.clone()).await.status, 200);
    gw.advance(Duration::from_secs(1)).await;
    assert_eq!(ann.post("/v1/connections/preview", link.clone()).await.status, 404);
    assert_eq!(ann.post("/v1/connections/begin", link).await.status, 404);
    let (state, cookie) = begun(&ann, json!({ "source": "notes" })).await;
    gw.advance(Duration::from_secs(600)).await;
    assert_eq!(finish(&ann, &state, &cookie).await.status, 403);
}

#[tokio::test]
async fn the_account_of_a_tenant_is_for_administrators() {
    let gw = notes("tenant").start().await;
    let ann = gw.principal("ann", ["notes:read"]).await;
    let admin = gw.principal("root", ["notes:read", "connections:manage"]).await;
    let refused = call(&ann, "ask").await;
    assert_eq!(refused.status, 403);
    assert!(refused.json()["details"].get("link").is_none());
    let of_tenant = json!({ "source": "notes", "tenant": true });
    for route in ["link", "preview", "begin"] {
        let path = format!("/v1/connections/{route}");
        let refused = ann.post(&path, of_tenant.clone()).await;
        assert_eq!(
            (refused.status, &refused.json()["details"]["scopeRequired"]),
            (403, &json!("connections:manage"))
        );
        let own = admin.post(&path, json!({ "source": "notes" })).await;
        assert_eq!(own.status, 400, "the source has no accounts of principals");
    }
    assert_eq!(ann.get("/v1/connections?all=true").await.status, 403);
    let link = secret(&call(&admin, "ask").await.json()["details"]);
    let connected = connect(&admin, json!({ "link": link })).await;
    assert_eq!(connected["of"], "tenant");
    assert_eq!(call(&ann, "read").await.status, 200);
    assert_eq!(connections(&ann).await[0].get("account"), None);
    let all = admin.get("/v1/connections?all=true").await.json();
    assert_eq!(all["connections"][0]["id"], connected["id"]);
    let other = gw.principal_of("other", "root", &["*"]).await;
    assert_eq!(connections(&other).await, json!([]));
    let path = format!("/v1/connections/{}", connected["id"].as_str().unwrap());
    for stranger in [&ann, &other] {
        assert_eq!(stranger.delete(&path).await.status, 404);
    }
    assert_eq!(admin.delete(&path).await.status, 200);
}

/// The browser that comes back is led to the page. Nothing happens, and nothing is logged.
#[tokio::test]
async fn the_callback_leads_to_the_page() {
    let gw = notes("principal").start().await;
    let ann = gw.principal("ann", ["notes:read"]).await;
    let (state, cookie) = begun(&ann, json!({ "source": "notes" })).await;
    let query = format!("code={}&state={state}&iss=https%3A%2F%2Fid.example", TestAccounts::CODE);
    for _ in 0..2 {
        let reply = gw.anonymous().get(&format!("/connect/notes/callback?{query}")).await;
        let page = format!("/explorer#/connected?source=notes&{query}");
        assert_eq!((reply.status, reply.header("location")), (303, &*page));
        assert_eq!(reply.header("referrer-policy"), "no-referrer");
        assert_eq!(reply.header("cache-control"), "no-store");
        assert!(reply.body.is_empty());
    }
    assert_eq!(finish(&ann, &state, &cookie).await.status, 200, "nothing was used up");
    let long = format!("/connect/notes/callback?{}", "x".repeat((8 << 10) + 1));
    assert_eq!(gw.anonymous().get(&long).await.status, 400);
    assert_eq!(gw.anonymous().get("/connect/NO/callback").await.status, 404);
    assert_eq!(gw.anonymous().get("/connect").await.status, 404);
    let document = gw.anonymous().get("/connect/client.json").await;
    assert_eq!(document.status, 200);
    let document = document.json();
    assert_eq!(document["client_id"], "https://crib.example/connect/client.json");
    assert_eq!(document["redirect_uris"], json!(["https://crib.example/connect/notes/callback"]));
    assert_eq!(document["token_endpoint_auth_method"], "none");
}

/// Another site can make a browser send its cookies, but not the key or the header of a session.
#[tokio::test]
async fn a_cookie_alone_finishes_nothing() {
    let gw = notes("principal").start().await;
    let ann = gw.principal("ann", ["notes:read"]).await;
    let (state, cookie) = begun(&ann, json!({ "source": "notes" })).await;
    assert_eq!(finish(&gw.anonymous(), &state, &cookie).await.status, 401);
    let elsewhere = ann.with("origin", "https://eve.example");
    assert_eq!(finish(&elsewhere, &state, &cookie).await.status, 403);
    assert_eq!(finish(&ann, &state, &cookie).await.status, 200);
}

/// I-114: who creates a key of another principal neither uses its account nor gives it one.
#[tokio::test]
async fn a_key_of_other_makers_does_not_use_the_account() {
    let gw = notes("principal").start().await;
    let ann = gw.principal("ann", ["notes:read"]).await;
    let eve = gw.principal("eve", ["keys:manage", "keys:impersonate", "notes:read"]).await;
    let made = async |name: &str| {
        let body = json!({ "name": "n", "principal": name, "scopes": ["notes:read"] });
        let made = eve.post("/v1/keys", body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        gw.bearer(made.json()["key"].as_str().unwrap())
    };
    let wanted = || json!({ "source": "notes" });
    connect(&ann, wanted()).await;
    let foreign = made("ann").await;
    for (other, own) in [(&foreign, &ann), (&ann, &foreign)] {
        let refused = call(other, "ask").await;
        assert!(refused.text().contains("connected with another key"), "{}", refused.text());
        assert!(!refused.text().contains("#/connect"), "no link: it would replace the account");
        let asked = call(own, "ask").await;
        assert!(!asked.text().contains("another key"), "{}", asked.text());
        // An account that Eve connects in the name of Ann is not that of Ann.
        connect(other, wanted()).await;
    }
    for name in ["anonymous", "operator"] {
        let nobody = made(name).await;
        for route in ["link", "preview", "begin"] {
            let refused = nobody.post(&format!("/v1/connections/{route}"), wanted()).await;
            assert_eq!(refused.status, 403, "{name} {route}");
            assert!(refused.text().contains("belongs to a person"), "{}", refused.text());
        }
        let refused = call(&nobody, "read").await;
        assert_eq!(refused.json()["details"]["connection"], "required", "{}", refused.text());
        assert!(!refused.text().contains("#/connect"));
    }
}

/// An answer of an account is stored for the keys that may use it.
#[tokio::test]
async fn a_key_of_other_makers_gets_no_stored_answer() {
    let gw = notes("principal").start().await;
    let ann = gw.principal("ann", ["notes:read", "keys:manage"]).await;
    let eve = gw.principal("eve", ["keys:manage", "keys:impersonate", "notes:read"]).await;
    let made = async |maker: &Actor| {
        let body = json!({ "name": "n", "principal": "ann", "scopes": ["notes:read"] });
        let made = maker.post("/v1/keys", body).await.json();
        gw.bearer(made["key"].as_str().unwrap())
    };
    let (foreign, second) = (made(&eve).await, made(&ann).await);
    connect(&ann, json!({ "source": "notes" })).await;
    let send = async |caller: &Actor| {
        let body = json!({ "request": { "tool_id": "notes.read", "call_id": "once" } });
        caller.post("/tools/call", body).await.json()["result"].clone()
    };
    let first = send(&ann).await;
    assert_eq!(first["success"], true, "{first}");
    let refused = send(&foreign).await;
    assert_eq!(refused["success"], false, "{refused}");
    assert!(refused.to_string().contains("connected with another key"), "{refused}");
    for own in [&ann, &second] {
        assert_eq!(send(own).await, first, "the answer is stored");
    }
}

/// Each tab has its own cookie, and a refused end is recorded without its secrets.
#[tokio::test]
async fn two_tabs_of_a_browser_can_both_finish() {
    let gw = notes("principal").start().await;
    let ann = gw.principal("ann", ["notes:read"]).await;
    let wanted = || json!({ "source": "notes" });
    let (one, first) = begun(&ann, wanted()).await;
    let (two, second) = begun(&ann, wanted()).await;
    assert_ne!(name(&first), name(&second));
    let jar = format!("{first}; {second}");
    for (state, cookie) in [(&one, &first), (&two, &second)] {
        let reply = finish(&ann, state, &jar).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.header("set-cookie").starts_with(&format!("{}=; ", name(cookie))));
    }
    let (state, cookie) = begun(&ann, wanted()).await;
    let reply = finish(&ann, &state, &second).await;
    assert_eq!(reply.status, 403);
    assert!(reply.header("set-cookie").starts_with(&format!("{}=; ", name(&cookie))));
    for state in [state.as_str(), "canary"] {
        assert_eq!(finish(&ann, state, &cookie).await.status, 403, "{state}");
    }
    let event = gw.event(|event| event["payload"]["reason"] == "other_browser").await;
    assert_eq!(event["type"], "authorization.decided");
    let expected = json!({ "principal": "ann", "action": "connections:finish",
        "resource": "/v1/connections/finish", "allowed": false, "reason": "other_browser" });
    assert_eq!(event["payload"], expected);
    gw.event(|event| event["payload"]["reason"] == "unknown_state").await;
    let record = record(&gw).await;
    let value = cookie.split_once('=').unwrap().1;
    for canary in [state.as_str(), value, TestAccounts::CODE, "canary"] {
        assert!(!record.contains(canary), "{canary}");
    }
}

/// Connecting again does not replace an account that another key opens.
#[tokio::test]
async fn an_account_of_another_seal_key_is_kept() {
    let gw = notes("principal").start().await;
    let ann = gw.principal("ann", ["notes:read"]).await;
    let key = SealKey::parse(&Secret::new("a".repeat(64))).unwrap();
    let options = Options { seal_keys: SealKeys::new(key, []), ..Options::default() };
    let other = SqliteStore::open(gw.directory().join("test.db"), options).unwrap();
    let connected = connect(&ann, json!({ "source": "notes" })).await;
    let place = GrantPlace {
        owner: Owner::principal("acme".parse().unwrap(), "ann".parse().unwrap()),
        source: "notes".parse().unwrap(),
    };
    let now = gw.gateway.now();
    let (grant, secrets) = gw.store.grants().get(&place, now).await.unwrap().unwrap();
    other.grants().put(grant, secrets).await.unwrap();
    let refused = call(&ann, "read").await;
    assert!(refused.text().contains("`[store] old_seal_key`"), "{}", refused.text());
    for route in ["preview", "begin"] {
        let path = format!("/v1/connections/{route}");
        let refused = ann.post(&path, json!({ "source": "notes" })).await;
        assert_eq!(refused.status, 409, "{}", refused.text());
        assert!(refused.text().contains("`[store] old_seal_key`"), "{}", refused.text());
        assert_eq!(refused.json()["details"]["reason"], "other_key");
    }
    let path = format!("/v1/connections/{}", connected["id"].as_str().unwrap());
    assert_eq!(ann.delete(&path).await.status, 200, "the key may be lost");
    connect(&ann, json!({ "source": "notes" })).await;
    assert_eq!(call(&ann, "read").await.status, 200);
}
