//! The ways in which the access of a client ends.

use serde_json::json;
use toolcrib_testkit::gateway::{TestGateway, TestProvider, TestSource, TestTool};

use super::{
    Browser, REDIRECT, VERIFIER, error, form, gateway, is_valid, list, post_form, query, refresh,
    registered, signed_in, tokens,
};

/// What a renewal takes away, earlier access tokens lose, too.
#[tokio::test]
async fn changed_rights_end_earlier_access_tokens() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    let (client, first, token) = signed_in(&gw).await;
    let (second, token) = tokens(&refresh(&gw, &client, &token).await);
    assert!(is_valid(&gw, &first).await && is_valid(&gw, &second).await);
    provider.claim(json!({ "scope": "other:read" }));
    let (third, _) = tokens(&refresh(&gw, &client, &token).await);
    assert!(!is_valid(&gw, &first).await && !is_valid(&gw, &second).await);
    let listed = list(&gw, &third).await;
    assert!(listed.status == 200 && !listed.text().contains("crib__read"), "{}", listed.text());
}

/// A client without its settings has no access, and no secret to prove itself.
#[tokio::test]
async fn a_client_that_was_removed_has_no_access() {
    const SECRET: &str = "client-secret-canary-of-thirty-two-bytes";
    let provider = TestProvider::start().await;
    let desk = format!(
        "[[auth.bridge.client]]\nid = \"desk\"\nname = \"Desk\"\n\
         secret = {{ env = \"DESK\" }}\nredirect_uris = [\"{REDIRECT}\"]"
    );
    let source = TestSource::new("crib").tool(TestTool::new("read").scopes(["files:read"]));
    let with_both = provider.config(&format!("registration = true\n{desk}"));
    let builder = TestGateway::builder().config(&with_both).source(source);
    let secrets = builder.secret("PROVIDER", TestProvider::SECRET).secret("DESK", SECRET);
    let gw = secrets.start().await;
    let (client, access, token) = signed_in(&gw).await;
    let back = Browser::new(&gw).sign_in(&query("desk", &[])).await;
    let send = async |pairs: &[(&str, &str)]| {
        let desk = [&[("client_id", "desk")], pairs].concat();
        post_form(&gw.anonymous(), "/oauth/token", &form(&desk)).await
    };
    let code = [
        ("grant_type", "authorization_code"),
        ("code", back["code"].as_str()),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
        ("client_secret", SECRET),
    ];
    let (of_desk, renewal) = tokens(&send(&code).await);
    let renew = [("grant_type", "refresh_token"), ("refresh_token", renewal.as_str())];
    assert_eq!(error(&send(&renew).await), "invalid_client", "without its secret");

    gw.reload(&provider.config("")).await;
    assert!(!is_valid(&gw, &of_desk).await && !is_valid(&gw, &access).await);
    assert_eq!(error(&send(&renew).await), "invalid_client");
    assert_eq!(error(&refresh(&gw, &client, &token).await), "invalid_client");
    for client in ["desk", &client] {
        assert_eq!(Browser::new(&gw).open(&query(client, &[])).await.status, 400);
    }
    gw.reload(with_both.split("[auth.bridge]").next().unwrap()).await;
    assert!(!is_valid(&gw, &access).await, "without an authorization server");
    // What was removed by mistake works again.
    gw.reload(&with_both).await;
    assert!(is_valid(&gw, &access).await);
    tokens(&refresh(&gw, &client, &token).await);
}

#[tokio::test]
async fn a_client_and_a_person_can_end_the_access() {
    let provider = TestProvider::start().await;
    let resource = format!("[auth.resource]\nresource = \"{}\"", TestProvider::PUBLIC);
    let gw = gateway(&provider, &resource).await;
    let client = registered(&gw).await;
    let whole = query(&client, &[("resource", TestProvider::PUBLIC)]);
    let sign_in = async || {
        let back = Browser::new(&gw).sign_in(&whole).await;
        let pairs = [
            ("grant_type", "authorization_code"),
            ("client_id", client.as_str()),
            ("code", &back["code"]),
            ("code_verifier", VERIFIER),
            ("redirect_uri", REDIRECT),
        ];
        tokens(&post_form(&gw.anonymous(), "/oauth/token", &form(&pairs)).await)
    };
    let revoke = async |client: &str, token: &str| {
        let form = form(&[("client_id", client), ("token", token)]);
        post_form(&gw.anonymous(), "/oauth/revoke", &form).await.status
    };
    let (access, token) = sign_in().await;
    let who = gw.bearer(&access).get("/v1/whoami").await.json();
    assert_eq!((&who["auth"], &who["clientId"]), (&json!("client"), &json!(client)));
    assert_eq!((&who["principal"], &who["scopes"]), (&json!("id|ann"), &json!(["files:read"])));
    assert_eq!(who["clientName"], "App");
    let explained = gw.bearer(&access).get("/v1/explain?tool=crib__read").await.json();
    assert_eq!(explained["clientId"], json!(client));
    // A client is no person: it makes no session.
    let page = gw.bearer(&access).with("origin", &gw.url).post("/v1/sessions", json!({})).await;
    assert_eq!(page.status, 401, "{}", page.text());
    // A client has the tools of the person, and not the person's other rights, although the resource
    // of this server is the whole server.
    for elsewhere in ["/v1/tools", "/v1/clients", "/v1/connections", "/tools", "/explorer/tools"] {
        assert_eq!(gw.bearer(&access).get(elsewhere).await.status, 401, "{elsewhere}");
    }
    assert_eq!(list(&gw, &access).await.status, 200);

    let other = registered(&gw).await;
    assert_eq!(revoke(&other, &access).await, 200, "it is ignored");
    assert_eq!(gw.bearer(&access).get("/v1/whoami").await.status, 200);
    assert_eq!(revoke(&client, &access).await, 200);
    assert_eq!(gw.bearer(&access).get("/v1/whoami").await.status, 401);
    let (access, token) = tokens(&refresh(&gw, &client, &token).await);
    assert_eq!((revoke(&client, &token).await, revoke(&client, "unknown").await), (200, 200));
    assert_eq!(gw.bearer(&access).get("/v1/whoami").await.status, 401);

    let (access, token) = sign_in().await;
    assert_eq!(list(&gw, &access).await.status, 200);
    let person = gw.principal("id|ann", ["files:read"]).await;
    let listed = person.get("/v1/clients").await.json();
    let clients = listed["clients"].as_array().unwrap();
    assert_eq!((clients.len(), &clients[0]["clientId"]), (1, &json!(client)));
    assert_eq!((&clients[0]["name"], &clients[0]["vouchedBy"]), (&json!("App"), &json!("itself")));
    assert!(clients[0].get("host").is_none() && clients[0]["lastUsedAt"].is_string());
    let id = clients[0]["id"].as_str().unwrap();
    let path = format!("/v1/clients/{id}");
    // Strangers of the tenant and of another one see nothing.
    let stranger = gw.principal("bob", ["files:read"]).await;
    let foreign = gw.principal_of("other", "admin", &["keys:manage"]).await;
    for caller in [&stranger, &foreign] {
        assert_eq!(caller.get("/v1/clients").await.json(), json!({ "clients": [] }));
        assert_eq!(caller.delete(&path).await.status, 404);
    }
    assert_eq!(stranger.get("/v1/clients?all=true").await.status, 403);
    assert_eq!(foreign.get("/v1/clients?all=true").await.json(), json!({ "clients": [] }));
    let admin = gw.principal("admin", ["keys:manage"]).await;
    assert_eq!(admin.get("/v1/clients").await.json(), json!({ "clients": [] }), "its own");
    assert_eq!(admin.get("/v1/clients?all=true").await.json(), listed);
    assert_eq!(admin.delete(&path).await.status, 200);
    assert_eq!(gw.bearer(&access).get("/v1/whoami").await.status, 401);
    assert_eq!(error(&refresh(&gw, &client, &token).await), "invalid_grant");
    let event = gw.event(|event| event["payload"]["by"] == "admin").await;
    assert_eq!(
        (&event["type"], &event["payload"]["cause"]),
        (&json!("client.signed-out"), &json!("revoked"))
    );
}
