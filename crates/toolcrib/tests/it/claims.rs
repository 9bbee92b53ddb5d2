//! The rights that claims of a token give: those of tools, and what the configuration names.

use serde_json::{Value, json};
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{principal::Principal, scope::Scope};
use toolcrib_gateway::authn::AcceptedCredentials;
use toolcrib_testkit::gateway::{Actor, TestGateway, TestIssuer, TestSource, TestTool, sign_hs256};

/// An issuer of one tenant, with default settings and `more`.
fn pinned(issuer: &TestIssuer, more: &str) -> String {
    format!(
        "[[auth.jwt]]\nissuer = \"{}\"\naudiences = [\"crib\"]\nprincipal_prefix = \"id|\"\n\
         tenant = \"acme\"\n{more}\n",
        issuer.url
    )
}

/// A gateway with a tool of `acme` that requires `files:read` and an approval, and one of `other`.
async fn gateway(config: &str) -> TestGateway {
    let ours = TestTool::new("read")
        .scopes(["files:read"])
        .rule("approval = \"always\"\napproval_scope = \"money:spend\"");
    TestGateway::builder()
        .config(config)
        .source(TestSource::new("crib").tenants(["acme"]).tool(ours))
        .source(
            TestSource::new("theirs")
                .tenants(["other"])
                .tool(TestTool::new("own").scopes(["theirs:use"])),
        )
        .secret("OTC", SECRET)
        .start()
        .await
}

/// Every scope that means something here, and a few that do not.
fn everything() -> String {
    let routes = RouteScope::ALL.iter().map(|scope| scope.as_str());
    let others =
        ["openid", "files:read", "theirs:use", "approvals:respond", "money:spend", "config:*", "*"];
    routes.chain(others).collect::<Vec<_>>().join(" ")
}

fn token(gw: &TestGateway, issuer: &TestIssuer, more: &Value) -> Actor {
    let mut claims = issuer.claims(gw.gateway.clock().now());
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    gw.bearer(&issuer.sign(&claims))
}

/// Returns the scopes and the routes of `actor`.
async fn rights(actor: &Actor) -> (Value, Value) {
    let who = actor.get("/v1/whoami").await;
    assert_eq!(who.status, 200, "{}", who.text());
    (who.json()["scopes"].clone(), who.json()["may"].clone())
}

/// I-100: whatever an issuer writes, by default it gives the tools of its tenant.
#[tokio::test]
async fn a_claim_gives_the_tools_of_its_tenant_alone() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&pinned(&issuer, "")).await;
    let eve = token(&gw, &issuer, &json!({ "scope": everything() }));
    assert_eq!(rights(&eve).await, (json!(["files:read"]), json!([])));
    for path in [
        "/metrics",
        "/v1/record/forwarders",
        "/v1/sources",
        "/v1/sources/crib/logs",
        "/v1/keys",
        "/v1/pins",
        "/v1/events",
        "/v1/roles",
    ] {
        assert_eq!(eve.get(path).await.status, 403, "{path}");
    }
    let usual = token(&gw, &issuer, &json!({ "scope": "openid config:write" }));
    assert_eq!(rights(&usual).await, (json!([]), json!([])));
    let as_list = token(&gw, &issuer, &json!({ "scope": ["config:write", "files:read"] }));
    assert_eq!(rights(&as_list).await, (json!(["files:read"]), json!([])));
}

/// I-100: a ceiling names rights one by one; a wildcard covers tools, and nothing covers the rest.
#[tokio::test]
async fn a_ceiling_names_what_is_not_of_tools() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&pinned(&issuer, "scopes = [\"*\"]")).await;
    let eve = token(&gw, &issuer, &json!({ "scope": everything() }));
    let wide = json!(["files:read", "openid", "theirs:use"]);
    assert_eq!(rights(&eve).await, (wide, json!([])));

    let scopes = "scopes = [\"files:*\", \"audit:read\", \"money:spend\"]";
    gw.reload(&pinned(&issuer, scopes)).await;
    let eve = token(&gw, &issuer, &json!({ "scope": everything() }));
    let named = json!(["audit:read", "files:read", "money:spend"]);
    assert_eq!(rights(&eve).await, (named, json!(["audit:read"])));
    assert_eq!(eve.get("/v1/events").await.status, 200);

    gw.reload(&pinned(&issuer, "scopes = []")).await;
    let eve = token(&gw, &issuer, &json!({ "scope": everything() }));
    assert_eq!(rights(&eve).await, (json!([]), json!([])));
}

/// A scope that becomes one of approvers is no longer given, also to a token that was seen before.
#[tokio::test]
async fn the_ceiling_follows_the_configuration() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&pinned(&issuer, "")).await;
    let ann = token(&gw, &issuer, &json!({}));
    let held = gw.gateway.authenticator();
    let text = ann.key().unwrap().to_owned();
    let before = held.identify(&text, AcceptedCredentials::Usual).await.unwrap();
    let reads = |who: &Principal| who.scopes.covers(&Scope::parse("files:read").unwrap());
    assert!(reads(&before));
    gw.reload(&format!("[approvals]\nrespond_scope = \"files:read\"\n{}", pinned(&issuer, "")))
        .await;
    assert!(!reads(&held.renew(&before).await.unwrap()));
    assert_eq!(rights(&ann).await.0, json!([]));
}

const ROLES: &str = "[[role]]\nname = \"boss\"\nscopes = [\"money:spend\"]\n\
                     [[role]]\nname = \"admin\"\nscopes = [\"*\", \"config:write\"]\n";

/// I-101: a role counts if the issuer may give it and the configuration has it.
#[tokio::test]
async fn a_role_is_not_given_by_its_name_alone() {
    let issuer = TestIssuer::start().await;
    let config = format!("{ROLES}{}", issuer.config_with_roles(&["boss"], ""));
    let gw = gateway(&config).await;
    let names = json!(["boss", "admin", "chief", 1]);
    let eve = token(&gw, &issuer, &json!({ "https://crib/roles": names }));
    let who = eve.get("/v1/whoami").await.json();
    assert_eq!((&who["roles"], &who["may"]), (&json!(["boss"]), &json!([])));
    assert_eq!(who["scopes"], json!(["files:read", "money:spend"]));
    // A role gives what claims may give, and no key with more.
    gw.reload(&format!("{ROLES}{}", issuer.config_with_roles(&["admin"], ""))).await;
    let who = eve.get("/v1/whoami").await.json();
    assert_eq!(who["roles"], json!(["admin"]));
    let may: Vec<_> = who["may"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for scope in RouteScope::ALL {
        assert_eq!(may.contains(&scope.as_str()), scope.may_be_claimed(), "{scope:?}");
    }
    for (status, scopes) in
        [(403, "*"), (403, "config:write"), (403, "keys:*"), (201, "audit:read")]
    {
        let key = json!({ "name": scopes, "principal": "new", "scopes": [scopes] });
        assert_eq!(eve.post("/v1/keys", key).await.status, status, "{scopes}");
    }
    // It cannot act as another principal, although the role has wildcards.
    let vic = gw.principal_of("acme", "vic", &["files:read"]).await;
    let key =
        |principal: &str| json!({ "name": "k", "principal": principal, "scopes": ["files:read"] });
    for name in ["vic", "operator", "anonymous", "core.system"] {
        assert_eq!(eve.post("/v1/keys", key(name)).await.status, 403, "{name}");
    }
    let keys = eve.get("/v1/keys").await.json();
    let of_vic = keys["keys"].as_array().unwrap().iter().find(|it| it["principal"] == "vic");
    let path = format!("/v1/keys/{}/rotate", of_vic.unwrap()["id"].as_str().unwrap());
    assert_eq!(eve.post(&path, json!({ "overlapSeconds": 0 })).await.status, 403);
    assert_eq!(vic.get("/v1/whoami").await.status, 200);
    // Without a list there is no role.
    gw.reload(&format!("{ROLES}{}", issuer.config(""))).await;
    let none = token(&gw, &issuer, &json!({ "https://crib/roles": ["admin"] }));
    assert_eq!(none.get("/v1/whoami").await.json()["roles"], json!([]));
}

/// I-101: the role of a key that the configuration no longer has is no role, also for an approval
/// that was requested while it had it.
#[tokio::test]
async fn a_role_that_was_removed_counts_nowhere() {
    let config = |roles: &str| {
        format!("[[role]]\nname = \"clerk\"\nscopes = [\"approvals:respond\"]\n{roles}")
    };
    let boss = "[[role]]\nname = \"boss\"\nscopes = []\n";
    let ask = |rule: &str| {
        TestTool::new("ask").scopes(["files:read"]).rule(&format!("approval = \"always\"\n{rule}"))
    };
    let gw = TestGateway::builder()
        .config(&config(boss))
        .tool(ask("approval_role = \"boss\""))
        .start()
        .await;
    let ann = gw.principal("ann", ["files:read"]).await;
    let call = json!({ "request": { "tool_id": "crib.ask", "input": {} } });
    ann.post("/tools/call", call).await;
    let bob = gw.principal_with_roles("acme", "bob", &["boss", "clerk"]).await;
    assert_eq!(bob.get("/v1/whoami").await.json()["roles"], json!(["boss", "clerk"]));
    let id = bob.get("/v1/approvals").await.json()["approvals"][0]["approvalId"].clone();
    let path = format!("/v1/approvals/{}", id.as_str().unwrap());
    assert_eq!(bob.get(&path).await.status, 200);

    let source = "[[source]]\nid = \"crib\"\nkind = \"mcp\"\ncommand = [\"in-process\"]\n\
                  [source.tools.\"*\"]\nscopes = [\"files:read\"]\napproval = \"always\"\n";
    gw.replace(&format!("{}{source}", config(""))).await;
    assert_eq!(bob.get("/v1/whoami").await.json()["roles"], json!(["clerk"]));
    // Who cannot answer does not see it.
    assert_eq!(bob.post(&path, json!({ "verdict": "grant" })).await.status, 404);
    assert_eq!(bob.get("/v1/approvals").await.json()["approvals"], json!([]));
}

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A token with a shared secret narrows what the configuration gives. Below a wildcard it cannot name
/// what the wildcard does not give.
#[tokio::test]
async fn a_shared_secret_names_nothing_below_a_wildcard() {
    let config = "[[role]]\nname = \"all\"\nscopes = [\"*\"]\n[otc.jwt]\nsecret = { env = \"OTC\" }\n\
                  tenant = \"acme\"\nroles = [\"all\"]\n";
    let gw = gateway(config).await;
    let at = gw.gateway.clock().now().timestamp();
    let claims = json!({ "sub": "agent", "exp": at + 600, "scope": everything() });
    let token = sign_hs256(SECRET.as_bytes(), &claims);
    let held = gw.gateway.authenticator().identify(&token, AcceptedCredentials::Shared).await;
    let held = held.unwrap();
    for scope in RouteScope::ALL {
        assert_eq!(scope.is_held_by(&held), scope.may_be_claimed(), "{scope:?}");
    }
}
