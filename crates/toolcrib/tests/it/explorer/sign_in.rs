//! Sign-in to the page: the address at which it begins, and the exchange of the code.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{
    Actor, Reply, TestGateway, TestIssuer, TestKey, TestSource, TestTool,
};

const SECRET: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123_-4";
const SIGN_IN: &str = "[auth.jwt.sign_in]\nclient_id = \"console\"\nscopes = [\"files:read\"]\n\
                       resource = \"https://crib.example/tools\"\nparameters = { prompt = \"login\" }\n";

async fn gateway(config: &str) -> TestGateway {
    let source = TestSource::new("crib")
        .tenants(["acme"])
        .tool(TestTool::new("read").scopes(["files:read"]));
    TestGateway::builder().config(config).source(source).start().await
}

/// A page of the server, whose requests have its origin.
fn page(gw: &TestGateway) -> Actor {
    gw.anonymous().with("origin", &gw.url)
}

fn start(gw: &TestGateway, issuer: &TestIssuer) -> Value {
    json!({
        "issuer": issuer.url, "state": SECRET, "nonce": SECRET, "challenge": SECRET,
        "redirectUri": format!("{}/explorer/signed-in", gw.url),
    })
}

fn code(gw: &TestGateway, issuer: &TestIssuer) -> Value {
    json!({
        "issuer": issuer.url, "code": "the-code", "verifier": SECRET, "nonce": SECRET,
        "redirectUri": format!("{}/explorer/signed-in", gw.url),
    })
}

async fn exchange(gw: &TestGateway, issuer: &TestIssuer) -> Reply {
    page(gw).post("/explorer/sign-in/token", code(gw, issuer)).await
}

/// The answer of a token endpoint with these claims of the ID token, and this access token.
fn answer(issuer: &TestIssuer, proof: &Value, token: &str) -> String {
    json!({ "token_type": "Bearer", "id_token": issuer.sign(proof), "access_token": token })
        .to_string()
}

fn proof(gw: &TestGateway, issuer: &TestIssuer) -> Value {
    let mut claims = issuer.claims(gw.gateway.clock().now());
    claims["aud"] = json!("console");
    claims["nonce"] = json!(SECRET);
    claims
}

#[tokio::test]
async fn a_sign_in_begins_at_the_issuer() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&issuer.config(SIGN_IN)).await;
    let listed = gw.anonymous().get("/explorer/sign-in").await;
    assert_eq!(
        listed.json(),
        json!({ "issuers": [{ "issuer": issuer.url, "name": "127.0.0.1" }] })
    );
    let begun = page(&gw).post("/explorer/sign-in/start", start(&gw, &issuer)).await;
    assert_eq!(begun.status, 200, "{}", begun.text());
    assert_eq!(begun.header("cache-control"), "no-store");
    assert_eq!(begun.json()["namesIssuer"], true);
    let callback = format!("{}/explorer/signed-in", gw.url).replace(':', "%3A");
    let expected = format!(
        "{}/authorize?fixed=1&response_type=code&client_id=console&redirect_uri={}&\
         scope=openid+files%3Aread&state={SECRET}&nonce={SECRET}&code_challenge={SECRET}&\
         code_challenge_method=S256&resource=https%3A%2F%2Fcrib.example%2Ftools&prompt=login",
        issuer.url,
        callback.replace('/', "%2F"),
    );
    assert_eq!(begun.json()["url"], expected);
}

#[tokio::test]
async fn a_code_becomes_a_token_that_opens_the_tools() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&issuer.config(SIGN_IN)).await;
    let token = issuer.sign(&issuer.claims(gw.gateway.clock().now()));
    issuer.answers(200, answer(&issuer, &proof(&gw, &issuer), &token));
    let done = exchange(&gw, &issuer).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(done.header("cache-control"), "no-store");
    assert_eq!(done.json()["token"], token);
    assert!(done.json()["expiresAt"].is_string());
    assert_eq!(gw.bearer(&token).get("/v1/whoami").await.json()["principal"], "id|ann");
    let forms = issuer.forms();
    let form = &forms[0];
    for part in [
        "grant_type=authorization_code",
        "client_id=console",
        "code=the-code",
        &format!("code_verifier={SECRET}"),
        "resource=https%3A%2F%2Fcrib.example%2Ftools",
    ] {
        assert!(form.split('&').any(|it| it == part), "{part} in {form}");
    }
    assert!(!form.contains("secret"), "a public client has no secret");
    // Nothing of the sign-in is in the record.
    let text = format!("{:?}", gw.events().await);
    assert!(!text.contains("the-code") && !text.contains(&token));
}

#[tokio::test]
async fn only_the_answer_to_this_sign_in_counts() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&issuer.config(SIGN_IN)).await;
    let now = gw.gateway.clock().now();
    let token = issuer.sign(&issuer.claims(now));
    let good = proof(&gw, &issuer);
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        answer(&issuer, &claims, &token)
    };
    let of_stranger = json!({
        "token_type": "Bearer", "access_token": token, "id_token": TestKey::ec("first").sign(&good),
    });
    for (case, body) in [
        ("another nonce", with("nonce", json!(SECRET.to_lowercase()))),
        ("no nonce", with("nonce", Value::Null)),
        ("another client", with("aud", json!("other"))),
        ("another party", with("azp", json!("other"))),
        ("several parties", with("aud", json!(["console", "other"]))),
        ("another issuer", with("iss", json!("https://other.example"))),
        ("expired", with("exp", json!(now.timestamp() - 300))),
        ("a foreign key", of_stranger.to_string()),
        ("no ID token", json!({ "token_type": "Bearer", "access_token": token }).to_string()),
    ] {
        issuer.answers(200, body);
        let reply = exchange(&gw, &issuer).await;
        assert_eq!(reply.status, 400, "{case}: {}", reply.text());
        assert_eq!(reply.json()["details"]["code"], "unproven", "{case}");
        assert!(!reply.text().contains("eyJ"), "{case}");
    }
}

#[tokio::test]
async fn what_went_wrong_is_said() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&issuer.config(SIGN_IN)).await;
    let now = gw.gateway.clock().now();
    let good = proof(&gw, &issuer);
    let claims = |name: &str, value: Value| {
        let mut claims = issuer.claims(now);
        claims[name] = value;
        issuer.sign(&claims)
    };
    let of = |token: &str| answer(&issuer, &good, token);
    let refusal = r#"{"error":"invalid_client","error_description":"no <b>such</b>\nclient"}"#;
    for (status, body, expected, code) in [
        (400, r#"{"error":"invalid_grant"}"#.to_owned(), 400, "code_expired"),
        (401, refusal.to_owned(), 403, "refused"),
        (500, "<html>".to_owned(), 502, "unreachable"),
        (200, "x".repeat(1 << 20), 502, "unreachable"),
        (200, "[]".to_owned(), 502, "unreachable"),
        (200, of("opaque"), 403, "opaque_token"),
        (200, of(&claims("aud", json!("elsewhere"))), 403, "audience"),
        (200, of(&claims("org", json!({}))), 403, "rejected"),
        (302, String::new(), 502, "unreachable"),
    ] {
        issuer.answers(status, body);
        let reply = exchange(&gw, &issuer).await;
        assert_eq!(reply.status, expected, "{code}: {}", reply.text());
        assert_eq!(reply.json()["details"]["code"], code);
        if code == "refused" {
            assert_eq!(reply.json()["details"]["providerDescription"], "no <b>such</b> client");
        }
    }
}

#[tokio::test]
async fn requests_of_others_are_invalid() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&issuer.config(SIGN_IN)).await;
    let good = start(&gw, &issuer);
    let with = |name: &str, value: &str| {
        let mut body = good.clone();
        body[name] = json!(value);
        body
    };
    let callback = format!("{}/explorer/signed-in", gw.url);
    for (name, value) in [
        ("redirectUri", "https://evil.example/explorer/signed-in"),
        ("redirectUri", &format!("{callback}/")),
        ("redirectUri", &format!("{callback}?x=1")),
        ("redirectUri", &format!("{}/explorer", gw.url)),
        ("state", "short"),
        ("nonce", &"ä".repeat(43)),
        ("challenge", ""),
        ("more", "x"),
    ] {
        let reply = page(&gw).post("/explorer/sign-in/start", with(name, value)).await;
        assert_eq!(reply.status, 400, "{name} {value}");
    }
    let without_origin = gw.anonymous().post("/explorer/sign-in/start", good.clone()).await;
    assert_eq!(without_origin.status, 400);
    let form = page(&gw).post_text("/explorer/sign-in/start", good.to_string()).await;
    assert_eq!(form.status, 400, "a form of another page needs no preflight");
    let unknown = with("issuer", "https://other.example");
    assert_eq!(page(&gw).post("/explorer/sign-in/start", unknown).await.status, 404);
    let large = with("issuer", &"x".repeat(20_000));
    assert_eq!(page(&gw).post("/explorer/sign-in/start", large).await.status, 413);
    assert!(issuer.forms().is_empty());
}

#[tokio::test]
async fn an_issuer_without_pkce_or_with_plain_addresses_is_not_used() {
    for (described, problem) in [
        (json!({ "code_challenge_methods_supported": ["plain"] }), "PKCE"),
        (json!({ "response_types_supported": ["token"] }), "authorization codes"),
        (json!({ "token_endpoint": "http://id.example/token" }), "over https"),
        (json!({ "authorization_endpoint": null }), "over https"),
    ] {
        let issuer = TestIssuer::start().await;
        issuer.describes(described);
        let gw = gateway(&issuer.config(SIGN_IN)).await;
        let reply = page(&gw).post("/explorer/sign-in/start", start(&gw, &issuer)).await;
        assert_eq!(reply.status, 502);
        assert!(reply.text().contains(problem), "{}", reply.text());
    }
}

#[tokio::test]
async fn sign_ins_are_limited_and_switched_off_by_default() {
    let issuer = TestIssuer::start().await;
    let gw = gateway(&issuer.config(SIGN_IN)).await;
    issuer.answers(400, r#"{"error":"invalid_grant"}"#);
    let mut last = 0;
    for _ in 0..100 {
        let reply = exchange(&gw, &issuer).await;
        last = reply.status;
        if last == 429 {
            assert!(!reply.header("retry-after").is_empty());
            break;
        }
    }
    assert_eq!(last, 429, "strangers cause any number of requests");
    assert!(issuer.forms().len() <= 80);

    let gw = gateway(&issuer.config("")).await;
    assert_eq!(gw.anonymous().get("/explorer/sign-in").await.json(), json!({ "issuers": [] }));
    let reply = page(&gw).post("/explorer/sign-in/start", start(&gw, &issuer)).await;
    assert_eq!((reply.status, reply.json()["details"]["code"].as_str()), (404, Some("no_issuer")));
}

/// The page after a sign-in is the page itself: same policy, no referrer, not stored.
#[tokio::test]
async fn the_callback_is_the_page() {
    let gw = gateway("").await;
    let plain = gw.anonymous().get("/explorer").await;
    let back = gw.anonymous().get("/explorer/signed-in?code=x&state=y").await;
    assert_eq!((back.status, &back.body), (200, &plain.body));
    for name in ["content-security-policy", "referrer-policy"] {
        assert_eq!(back.header(name), plain.header(name), "{name}");
    }
    assert_eq!(back.header("referrer-policy"), "no-referrer");
    assert_eq!(back.header("cache-control"), "no-store");
    assert!(back.header("content-security-policy").contains("connect-src 'self';"));
}
