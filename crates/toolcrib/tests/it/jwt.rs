//! Signed tokens as credentials: a real issuer with real keys, and every kind of invalid token.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use toolcrib_core::principal::{AuthMethod, Principal};
use toolcrib_gateway::authn::{AcceptedCredentials, AuthError};
use toolcrib_testkit::gateway::{
    Behaviour, TestGateway, TestGatewayBuilder, TestIssuer, TestKey, TestSource, TestTool, compact,
    sign_hs256,
};

const ROLE: &str = "[[role]]\nname = \"writer\"\nscopes = [\"files:*\"]\n";

/// A gateway that trusts `issuer`, with a tool that requires `files:read` and one that requires
/// `files:write`, both for the tenant `acme` only.
async fn gateway(config: &str) -> TestGateway {
    gateway_with(config, |builder| builder).await
}

async fn gateway_with(
    config: &str,
    more: impl FnOnce(TestGatewayBuilder) -> TestGatewayBuilder,
) -> TestGateway {
    let source = TestSource::new("crib")
        .tenants(["acme"])
        .tool(TestTool::new("read").scopes(["files:read"]))
        .tool(TestTool::new("write").scopes(["files:write"]));
    let builder = TestGateway::builder().config(ROLE).config(config).source(source);
    more(builder).start().await
}

fn with(claims: &Value, name: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    claims[name] = value;
    claims
}

async fn names(gw: &TestGateway, token: &str) -> Vec<String> {
    let reply = gw.bearer(token).get("/v1/tools").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let tools = reply.json();
    tools.as_array().unwrap().iter().map(|it| it["toolId"].as_str().unwrap().to_owned()).collect()
}

async fn principal(gw: &TestGateway, token: &str) -> Arc<Principal> {
    gw.gateway.authenticator().identify(token, AcceptedCredentials::Usual).await.unwrap()
}

/// I-62
#[tokio::test]
async fn a_token_is_its_principal_with_its_scopes_and_roles() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&issuer.config_with_roles(&["writer"], "")).await;
    let good = issuer.claims(gw.gateway.clock().now());
    let token = issuer.sign(&good);
    assert_eq!(names(&gw, &token).await, ["mcp:crib.read"]);
    let call = json!({ "request": { "tool_id": "crib.read" } });
    assert_eq!(gw.bearer(&token).post("/tools/call", call).await.status, 200);
    let called = gw.event(|event| event["type"] == "agent.toolCalled").await;
    assert!(!called.to_string().contains(token.rsplit('.').next().unwrap()));

    let known = principal(&gw, &token).await;
    assert_eq!((known.id.as_str(), known.tenant.as_str()), ("id|ann", "acme"));
    assert!(matches!(&known.auth, AuthMethod::Jwt(token) if token.issuer == issuer.url));

    // A role grants the scopes in the configuration, and an unknown one nothing.
    let roles = |roles: Value| issuer.sign(&with(&good, "https://crib/roles", roles));
    let both = ["mcp:crib.read", "mcp:crib.write"];
    assert_eq!(names(&gw, &roles(json!(["writer", "nothing"]))).await, both);
    assert_eq!(names(&gw, &roles(json!("writer"))).await, both);
    assert_eq!(names(&gw, &roles(json!(["nothing", 1]))).await, ["mcp:crib.read"]);
    // Wildcard scopes come only from a role, never from a token.
    let wide = issuer.sign(&with(&good, "scope", json!("files:* *")));
    assert!(names(&gw, &wide).await.is_empty());
    // Another tenant's token sees nothing of this one.
    let other = issuer.sign(&with(&good, "org", json!({ "id": "other" })));
    assert!(names(&gw, &other).await.is_empty());
    assert_eq!(issuer.requests(), 1, "the keys are cached");
}

/// Actors (RFC 8693, section 4.1) are recorded with the calls of the principal that they act for.
#[tokio::test]
async fn a_call_names_those_who_act_for_its_caller() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&issuer.config("")).await;
    let act = json!({
        "sub": "agent", "note": "content-canary",
        "act": { "sub": "planner", "iss": "https://other.example" },
    });
    let token = issuer.sign(&with(&issuer.claims(gw.gateway.clock().now()), "act", act));
    let actors = json!(["id|agent", "https://other.example|planner"]);
    let caller = gw.bearer(&token);
    for (tool, status) in [("crib.read", 200), ("crib.write", 403)] {
        let call = json!({ "request": { "tool_id": tool } });
        let reply = caller.post("/tools/call", call).await;
        let is_done = reply.status == 200;
        assert_eq!(is_done, status == 200, "{}", reply.text());
        let name = format!("mcp:{tool}");
        let wanted = |event: &Value| {
            event["type"] == "agent.toolCalled" && event["payload"]["toolName"] == name
        };
        let called = gw.event(wanted).await;
        assert_eq!(called["payload"]["actors"], actors, "{called}");
        assert_eq!(called["payload"]["principal"], "id|ann");
    }
    let whoami = caller.get("/v1/whoami").await.json();
    assert_eq!((&whoami["principal"], &whoami["actors"]), (&json!("id|ann"), &actors));
    let explained = caller.get("/v1/explain?tool=crib__read").await.json();
    assert_eq!((&explained["actors"], &explained["outcome"]), (&actors, &json!("allowed")));
    assert!(!format!("{:?}", gw.events().await).contains("content-canary"));
    let auditor = gw.principal("auditor", ["audit:read"]).await;
    let table = auditor.get("/v1/events/export?format=csv&principal=id%7Cann").await.text();
    assert!(table.contains(",id|agent https://other.example|planner"), "{table}");

    // A caller without the claim has none.
    let token = issuer.sign(&issuer.claims(gw.gateway.clock().now()));
    let whoami = gw.bearer(&token).get("/v1/whoami").await.json();
    assert_eq!(whoami.get("actors"), None);
}

/// An authorization server without OpenID Connect describes itself elsewhere (RFC 8414).
#[tokio::test]
async fn an_issuer_without_openid_is_found() {
    let issuer = TestIssuer::start_without_openid().await;
    let gw = gateway(&issuer.config("")).await;
    let token = issuer.sign(&issuer.claims(gw.gateway.clock().now()));
    assert_eq!(names(&gw, &token).await, ["mcp:crib.read"]);
}

/// A key of a similar name is another principal, even where the names are the same.
#[tokio::test]
async fn a_token_is_no_key_of_the_same_name() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&issuer.config("")).await;
    let token = issuer.sign(&issuer.claims(gw.gateway.clock().now()));
    let key = gw.principal("ann", ["files:read"]).await;
    let of_key = principal(&gw, key.key().unwrap()).await;
    assert_ne!(principal(&gw, &token).await.id, of_key.id);
    // No key can be created for the token's principal.
    let manager = gw.principal("manager", ["keys:manage", "files:read"]).await;
    let body = json!({ "name": "x", "principal": "id|ann", "scopes": ["files:read"] });
    assert_eq!(manager.post("/v1/keys", body).await.status, 400);
}

/// I-62: forged and invalid tokens. Each gets a 401 wherever credentials are required, and none of
/// its content is repeated.
#[tokio::test]
async fn bad_tokens_are_nobody() {
    let issuer = TestIssuer::start().await;
    let (rsa, ours, stranger) = (TestKey::rsa("rsa"), TestKey::ec("ec"), TestKey::ec("ec"));
    issuer.rotate(vec![rsa.clone(), TestKey::ed("ed"), ours.clone()]);
    let gw = gateway(&issuer.config("algorithms = [\"RS256\", \"ES256\", \"EdDSA\"]")).await;
    let now = gw.gateway.clock().now();
    let good = issuer.claims(now);
    let text = good.to_string();
    let sign = |claims: &Value| ours.sign(claims);
    let header = |header: Value| ours.sign_as(&header.to_string(), &text);
    let forged = |header: Value| stranger.sign_as(&header.to_string(), &text);
    let unsigned = |header: &str| compact(header, &text, |_| Vec::new());
    let at = now.timestamp();
    let public = serde_json::to_vec(&issuer.public()).unwrap();
    let der = rsa.public_bytes();
    let ec = |kid: Value| header(json!({ "alg": "ES256", "kid": kid }));
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        claims
    };

    let bad = vec![
        ("alg none", unsigned(r#"{"alg":"none"}"#)),
        ("alg None", unsigned(r#"{"alg":"None","kid":"ec"}"#)),
        ("alg none with a signature", header(json!({ "alg": "none", "kid": "ec" }))),
        ("no alg", header(json!({ "kid": "ec" }))),
        ("HS256 with the public key as JSON", sign_hs256(&public, &good)),
        ("HS256 with the public key as DER", sign_hs256(&der, &good)),
        ("HS256 with nothing", sign_hs256(b"", &good)),
        ("an algorithm that is not listed", header(json!({ "alg": "ES384", "kid": "ec" }))),
        ("the algorithm of another key", header(json!({ "alg": "ES256", "kid": "rsa" }))),
        ("another key of the same name", stranger.sign(&good)),
        (
            "a key of its own",
            forged(json!({ "alg": "ES256", "kid": "ec", "jwk": issuer.public() })),
        ),
        (
            "keys of its own",
            forged(json!({ "alg": "ES256", "kid": "mine", "jku": format!("{}/jwks", issuer.url) })),
        ),
        (
            "a certificate of its own",
            forged(json!({ "alg": "ES256", "x5u": "http://127.0.0.1/x" })),
        ),
        ("kid that is a path", ec(json!("../../../../etc/passwd"))),
        ("kid that is an address", ec(json!(format!("{}/jwks", issuer.url)))),
        ("kid with a line break", ec(json!("ec\r\nx: y"))),
        ("kid with a zero", ec(json!("ec\u{0}"))),
        ("kid of SQL", ec(json!("' OR 1=1 --"))),
        ("kid that is long", ec(json!("k".repeat(4000)))),
        ("kid that is no text", ec(json!(["ec"]))),
        ("kid that is empty", ec(json!(""))),
        ("an extension", header(json!({ "alg": "ES256", "kid": "ec", "crit": ["x"], "x": 1 }))),
        ("another kind", header(json!({ "alg": "ES256", "kid": "ec", "typ": "logout+jwt" }))),
        ("alg twice", ours.sign_as(r#"{"alg":"ES256","alg":"none","kid":"ec"}"#, &text)),
        ("a header that is no JSON", ours.sign_as("{", &text)),
        ("claims that are no object", ours.sign_as(r#"{"alg":"ES256","kid":"ec"}"#, "[]")),
        (
            "a claim twice",
            ours.sign_as(
                r#"{"alg":"ES256","kid":"ec"}"#,
                &text.replacen('{', r#"{"sub":"bob","#, 1),
            ),
        ),
        ("another issuer", sign(&with(&good, "iss", json!("http://127.0.0.1:1")))),
        ("almost the issuer", sign(&with(&good, "iss", json!(format!("{}/", issuer.url))))),
        ("no issuer", sign(&without("iss"))),
        ("another audience", sign(&with(&good, "aud", json!("other")))),
        ("no audience", sign(&without("aud"))),
        ("an audience of another type", sign(&with(&good, "aud", json!({ "crib": true })))),
        ("expired", sign(&with(&good, "exp", json!(at - 61)))),
        ("no end", sign(&without("exp"))),
        ("an end that is a text", sign(&with(&good, "exp", json!((at + 60).to_string())))),
        ("an end beyond the calendar", sign(&with(&good, "exp", json!(1e18)))),
        ("not yet", sign(&with(&good, "nbf", json!(at + 120)))),
        ("issued later", sign(&with(&good, "iat", json!(at + 120)))),
        ("no principal", sign(&without("sub"))),
        ("an empty principal", sign(&with(&good, "sub", json!("")))),
        ("a principal that is no text", sign(&with(&good, "sub", json!(7)))),
        ("a long principal", sign(&with(&good, "sub", json!("a".repeat(200))))),
        ("no tenant", sign(&without("org"))),
        ("the record's own tenant", sign(&with(&good, "org", json!({ "id": "-" })))),
        ("a tenant that cannot be", sign(&with(&good, "org", json!({ "id": "a b" })))),
        ("bound to a key", sign(&with(&good, "cnf", json!({ "jkt": "x" })))),
        ("huge", sign(&with(&good, "x", json!("x".repeat(20_000))))),
        ("no signature", format!("{}.", sign(&good).rsplit_once('.').unwrap().0)),
        ("a part more", format!("{}.x", sign(&good))),
        ("a part less", sign(&good).rsplit_once('.').unwrap().0.to_owned()),
        ("points alone", "..".to_owned()),
    ];
    let control = ours.sign(&good);
    assert_eq!(names(&gw, &control).await, ["mcp:crib.read"], "the key itself is good");
    let mut wrong = Vec::new();
    for (what, token) in &bad {
        let caller = gw.bearer(token);
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let replies = [
            caller.get("/v1/tools").await,
            caller.get("/tools").await,
            caller.get("/explorer/tools").await,
            caller
                .with("accept", "application/json, text/event-stream")
                .post("/mcp", message)
                .await,
        ];
        for reply in replies {
            let repeats = token.len() > 20 && reply.text().contains(&token[..20]);
            if reply.status != 401 || repeats {
                wrong.push(format!("{what}: {} {}", reply.status, reply.text()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(names(&gw, &control).await, ["mcp:crib.read"]);
}

/// Keys of every configured type, and of no other.
#[tokio::test]
async fn every_listed_algorithm_is_verified() {
    let issuer = TestIssuer::start().await;
    let keys = [TestKey::ec("ec"), TestKey::rsa("rsa"), TestKey::ed("ed")];
    issuer.rotate(keys.to_vec());
    let gw = gateway(&issuer.config("algorithms = [\"ES256\", \"RS256\"]")).await;
    let good = issuer.claims(gw.gateway.clock().now());
    for (key, status) in keys.iter().zip([200, 200, 401]) {
        let reply = gw.bearer(&key.sign(&good)).get("/v1/tools").await;
        assert_eq!(reply.status, status, "{}", key.algorithm());
    }
    // Without a key id, the only matching key is used.
    let nameless = keys[1].sign_as(r#"{"alg":"RS256"}"#, &good.to_string());
    assert_eq!(gw.bearer(&nameless).get("/v1/tools").await.status, 200);
}

/// I-62: a new key is fetched once when a token names it, and a removed key is no longer valid.
#[tokio::test]
async fn the_issuers_keys_are_followed() {
    let issuer = TestIssuer::start().await;
    let gw = gateway_with(&issuer.config(""), |builder| builder.manual_clock()).await;
    let good = issuer.claims(gw.gateway.clock().now());
    let old = issuer.sign(&good);
    let held = principal(&gw, &old).await;
    assert_eq!(issuer.requests(), 1);

    issuer.rotate(vec![TestKey::ec("second")]);
    let new = issuer.sign(&good);
    // Fetched just now: not again yet, for any number of requests.
    for _ in 0..20 {
        assert_eq!(gw.bearer(&new).get("/v1/tools").await.status, 401);
    }
    assert_eq!(issuer.requests(), 1);
    gw.advance(Duration::from_secs(11)).await;
    let asked = |_| async { gw.bearer(&new).get("/v1/tools").await.status };
    let told = futures_util::future::join_all((0..20).map(asked)).await;
    assert_eq!(told, [200; 20]);
    assert_eq!(issuer.requests(), 2, "all of them waited for one fetch");

    // Tokens of the removed key are invalid, cached or not.
    assert_eq!(gw.bearer(&old).get("/v1/tools").await.status, 401);
    let renewed = gw.gateway.authenticator().renew(&held).await;
    assert_eq!(renewed.err(), Some(AuthError::Invalid));
    gw.advance(Duration::from_secs(11)).await;
    for n in 0..20 {
        let token = TestKey::ec(&format!("unknown-{n}")).sign(&good);
        assert_eq!(gw.bearer(&token).get("/v1/tools").await.status, 401);
    }
    assert_eq!(issuer.requests(), 3, "the fetches for unknown key ids are limited");
}

/// An expired token is rejected, and its principal cannot be renewed.
#[tokio::test]
async fn a_token_ends() {
    let issuer = TestIssuer::start().await;
    let gw = gateway_with(&issuer.config("clock_skew = \"1s\""), |b| b.manual_clock()).await;
    let token = issuer.sign(&issuer.claims(gw.gateway.clock().now()));
    let held = principal(&gw, &token).await;
    let authenticator = gw.gateway.authenticator().clone();
    assert_eq!(authenticator.renew(&held).await.unwrap(), held);
    gw.advance(Duration::from_secs(302)).await;
    assert_eq!(authenticator.renew(&held).await.err(), Some(AuthError::Invalid));
    assert_eq!(gw.bearer(&token).get("/v1/tools").await.status, 401);
}

/// A reloaded configuration applies at once: roles, audiences, and the issuer itself.
#[tokio::test]
async fn a_reload_counts_at_once() {
    let issuer = TestIssuer::start().await;
    let config = issuer.config_with_roles(&["writer"], "");
    let gw = gateway(&config).await;
    let good =
        with(&issuer.claims(gw.gateway.clock().now()), "https://crib/roles", json!(["writer"]));
    let token = issuer.sign(&good);
    let held = principal(&gw, &token).await;
    assert_eq!(names(&gw, &token).await.len(), 2);
    // The role gives nothing any more.
    let empty = ROLE.replace("files:*", "nothing");
    gw.reload(&format!("{empty}{config}")).await;
    assert_eq!(names(&gw, &token).await, ["mcp:crib.read"]);
    let renewed = gw.gateway.authenticator().renew(&held).await.unwrap();
    assert_eq!(renewed.scopes.iter().count(), 2, "files:read, nothing: {renewed:?}");
    assert_eq!(issuer.requests(), 1, "an issuer that stays keeps its keys");
    let other = config.replace("\"crib\"", "\"nobody\"");
    gw.reload(&format!("{empty}{other}")).await;
    assert_eq!(gw.bearer(&token).get("/v1/tools").await.status, 401);
    assert_eq!(gw.gateway.authenticator().renew(&held).await.err(), Some(AuthError::Unavailable));
    gw.reload("").await;
    assert_eq!(gw.bearer(&token).get("/v1/tools").await.status, 401);
    assert_eq!(gw.gateway.authenticator().renew(&held).await.err(), Some(AuthError::Invalid));
}

/// I-62: keys come from the configured address, complete and in time, or not at all. Meanwhile no
/// token is accepted, and the fetch is retried.
#[tokio::test]
async fn an_issuer_that_misbehaves_lets_nobody_in() {
    let elsewhere = TestIssuer::start().await;
    let bad = [
        Behaviour::Failing,
        Behaviour::Huge,
        Behaviour::Redirecting(format!("{}/jwks", elsewhere.url)),
        // A private address that is not in the configuration.
        Behaviour::Elsewhere(format!("{}/jwks", elsewhere.url)),
        Behaviour::Elsewhere("http://169.254.169.254/jwks".to_owned()),
        Behaviour::Elsewhere("file:///etc/passwd".to_owned()),
        Behaviour::Another,
        Behaviour::Silent,
    ];
    for behaviour in bad {
        let issuer = TestIssuer::start().await;
        issuer.behave(behaviour.clone());
        let gw = gateway_with(&issuer.config(""), |builder| builder.manual_clock()).await;
        let good = issuer.claims(gw.gateway.clock().now());
        let token = issuer.sign(&good);
        let reply = gw.bearer(&token).get("/v1/tools").await;
        assert_eq!(reply.status, 503, "{behaviour:?}: {}", reply.text());
        assert!(!reply.text().contains("127.0.0.1"), "{}", reply.text());
        // API keys keep working.
        let key = gw.principal("key", ["files:read"]).await;
        assert_eq!(key.get("/v1/tools").await.status, 200);
        issuer.behave(Behaviour::Good);
        gw.advance(Duration::from_secs(61)).await;
        assert_eq!(gw.bearer(&token).get("/v1/tools").await.status, 200, "{behaviour:?}");
    }
    assert_eq!(elsewhere.requests(), 0);
}

/// Known keys stay valid while the issuer is unreachable, until they are too old.
#[tokio::test]
async fn known_keys_are_believed_for_a_while() {
    let issuer = TestIssuer::start().await;
    let config = issuer.config("max_key_age = \"2h\"");
    let gw = gateway_with(&config, |builder| builder.manual_clock()).await;
    let forever = |gw: &TestGateway| {
        let at = gw.gateway.clock().now().timestamp();
        with(&issuer.claims(gw.gateway.clock().now()), "exp", json!(at + 100_000))
    };
    let token = issuer.sign(&forever(&gw));
    let held = principal(&gw, &token).await;
    issuer.behave(Behaviour::Failing);
    gw.advance(Duration::from_secs(7_100)).await;
    assert_eq!(gw.bearer(&token).get("/v1/tools").await.status, 200);
    gw.advance(Duration::from_secs(200)).await;
    assert_eq!(gw.bearer(&token).get("/v1/tools").await.status, 503);
    assert_eq!(gw.gateway.authenticator().renew(&held).await.err(), Some(AuthError::Unavailable));
    issuer.behave(Behaviour::Good);
    gw.advance(Duration::from_secs(61)).await;
    assert_eq!(gw.bearer(&token).get("/v1/tools").await.status, 200);
}

const SHARED: &str = "\
[otc.jwt]
secret = { env = \"OTC\" }
audience = \"crib\"
tenant = \"acme\"
roles = [\"writer\"]
";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Tokens with a shared secret: only on the mounts of Open Tool Calling, short-lived, with expiry
/// and audience, and limited to the configured grants.
#[tokio::test]
async fn a_shared_secret_counts_for_open_tool_calling_alone() {
    let gw = gateway_with(SHARED, |builder| builder.secret("OTC", SECRET)).await;
    let at = gw.gateway.clock().now().timestamp();
    let good = json!({ "sub": "agent", "aud": "crib", "exp": at + 600 });
    let sign = |claims: &Value| sign_hs256(SECRET.as_bytes(), claims);
    let token = sign(&good);
    for (path, status) in
        [("/tools", 200), ("/oxp/tools", 200), ("/v1/tools", 401), ("/explorer/tools", 401)]
    {
        assert_eq!(gw.bearer(&token).get(path).await.status, status, "{path}");
        // The token cache does not admit it on other mounts.
        assert_eq!(gw.bearer(&token).get(path).await.status, status, "{path}");
    }
    let by_header = gw.anonymous().with("otc-api-key", &token).get("/tools").await;
    assert_eq!(by_header.status, 200);
    let call = |tool: &str| json!({ "request": { "tool_id": tool } });
    assert_eq!(gw.bearer(&token).post("/tools/call", call("crib.write")).await.status, 200);
    let called = gw.event(|event| event["type"] == "agent.toolCalled").await;
    assert_eq!(called["payload"]["principal"].as_str().unwrap_or("otc|agent"), "otc|agent");
    // A token may request fewer scopes and never gets more.
    let narrow = sign(&with(&good, "scope", json!("files:read tools:admin")));
    assert_eq!(gw.bearer(&narrow).post("/tools/call", call("crib.read")).await.status, 200);
    assert_eq!(gw.bearer(&narrow).post("/tools/call", call("crib.write")).await.status, 403);

    for (what, token) in [
        ("another secret", sign_hs256(b"another secret another secret ab", &good)),
        ("no end", sign(&json!({ "sub": "agent", "aud": "crib" }))),
        ("expired", sign(&with(&good, "exp", json!(at - 31)))),
        ("too long", sign(&with(&good, "exp", json!(at + 1_000)))),
        ("another audience", sign(&with(&good, "aud", json!("other")))),
        ("no audience", sign(&json!({ "sub": "agent", "exp": at + 600 }))),
        ("nobody", sign(&json!({ "aud": "crib", "exp": at + 600 }))),
        ("none", compact(r#"{"alg":"none"}"#, &good.to_string(), |_| Vec::new())),
        ("HS512", compact(r#"{"alg":"HS512"}"#, &good.to_string(), |_| vec![0; 64])),
    ] {
        assert_eq!(gw.bearer(&token).get("/tools").await.status, 401, "{what}");
    }
}
