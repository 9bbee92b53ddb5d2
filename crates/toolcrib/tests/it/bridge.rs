//! Sign-in of MCP clients with an identity provider that registers none: a real provider, browsers
//! with cookies, and every step out of order.
//!
//! `bridge/mixes.rs` has the tables of two people, `bridge/audience.rs` the endpoints of a token,
//! `bridge/clients.rs` the lifetimes and the limits of clients, `bridge/ends.rs` the ways in which
//! the access of a client ends, and `bridge/renewals.rs` renewals that go wrong.

mod audience;
mod clients;
mod ends;
mod mixes;
mod renewals;

use std::{collections::BTreeMap, time::Duration};

use reqwest::Url;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway, TestProvider, TestSource, TestTool};

const REDIRECT: &str = "http://127.0.0.1:3333/cb";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const RESOURCE: &str = "https://crib.example/mcp";
const COOKIE: &str = "__Host-toolcrib-consent";
/// The settings for clients with a document on this machine.
const DOCUMENTS: &str = "client_documents = [\"127.0.0.1\"]\nallow = [\"127.0.0.0/8\"]";
const MINUTE: Duration = Duration::from_secs(60);

async fn gateway(provider: &TestProvider, more: &str) -> TestGateway {
    let source = TestSource::new("crib")
        .tenants(["acme"])
        .tool(TestTool::new("read").scopes(["files:read"]));
    let config = provider.config(&format!("registration = true\n{more}"));
    let builder = TestGateway::builder().config(&config).source(source);
    builder.secret("PROVIDER", TestProvider::SECRET).manual_clock().start().await
}

/// A browser with the cookies of this server, if it has some.
struct Browser {
    actor: Actor,
    cookie: Option<String>,
}

impl Browser {
    fn new(gw: &TestGateway) -> Self {
        Self { actor: gw.anonymous(), cookie: None }
    }

    fn actor(&self) -> Actor {
        match &self.cookie {
            Some(cookie) => self.actor.with("cookie", cookie),
            None => self.actor.clone(),
        }
    }

    /// Opens an authorization request.
    async fn open(&mut self, query: &str) -> Reply {
        let reply = self.actor().get(&format!("/oauth/authorize?{query}")).await;
        if let Some(set) = reply.headers.get("set-cookie") {
            let new = set.to_str().unwrap().split(';').next().unwrap();
            let earlier = self.cookie.take().map(|earlier| format!("{earlier}; "));
            self.cookie = Some(format!("{}{new}", earlier.unwrap_or_default()));
        }
        reply
    }

    /// Answers the question of a page.
    async fn answer(&self, page: &str, answer: &str) -> Reply {
        let (query, proof) = (field(page, "query"), field(page, "proof"));
        let form = form(&[("query", &query), ("proof", &proof), ("answer", answer)]);
        post_form(&self.actor(), "/oauth/consent", &form).await
    }

    /// Signs in at the provider at `address`, and comes back.
    async fn pass(&self, address: &str) -> Reply {
        self.actor().get(&back_from(address).await).await
    }

    /// Signs in, and returns the parameters that the client gets.
    async fn sign_in(&mut self, query: &str) -> BTreeMap<String, String> {
        let page = self.open(query).await;
        assert_eq!(page.status, 200, "{}", page.text());
        // With `no-referrer`, a browser would send the form with `Origin: null`.
        assert_eq!(page.header("referrer-policy"), "same-origin");
        let away = self.answer(&page.text(), "allow").await;
        assert_eq!(away.status, 303, "{}", away.text());
        let back = self.pass(away.header("location")).await;
        assert_eq!(back.status, 303, "{}", back.text());
        parameters(back.header("location"))
    }
}

/// The hidden field `name` of a page.
fn field(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
    rest.split('"').next().unwrap().replace("&amp;", "&")
}

/// Signs in at the provider, and returns the path of the callback.
async fn back_from(address: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "plays a browser")]
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let reply = client.build().unwrap().get(address).send().await.unwrap();
    let back = reply.headers()["location"].to_str().unwrap();
    back.strip_prefix(TestProvider::PUBLIC).unwrap().to_owned()
}

fn form(pairs: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://x/").unwrap();
    url.query_pairs_mut().extend_pairs(pairs);
    url.query().unwrap().to_owned()
}

async fn post_form(actor: &Actor, path: &str, form: &str) -> Reply {
    let actor = actor.with("content-type", "application/x-www-form-urlencoded");
    actor.post_text(path, form.to_owned()).await
}

fn parameters(address: &str) -> BTreeMap<String, String> {
    Url::parse(address).unwrap().query_pairs().into_owned().collect()
}

fn query(client: &str, change: &[(&str, &str)]) -> String {
    let mut pairs = vec![
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("state", "client state"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("resource", RESOURCE),
        ("scope", "scope-canary"),
    ];
    for (name, value) in change {
        pairs.retain(|(other, _)| other != name);
        pairs.push((name, value));
    }
    form(&pairs)
}

/// Registers a client with [`REDIRECT`].
async fn registered(gw: &TestGateway) -> String {
    let body = json!({ "client_name": "App", "redirect_uris": ["http://127.0.0.1/cb"] });
    let reply = gw.anonymous().post("/oauth/register", body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["client_id"].as_str().unwrap().to_owned()
}

async fn exchange(gw: &TestGateway, client: &str, code: &str) -> Reply {
    exchange_for(gw, client, code, RESOURCE).await
}

async fn exchange_for(gw: &TestGateway, client: &str, code: &str, resource: &str) -> Reply {
    let pairs = [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
        ("resource", resource),
    ];
    post_form(&gw.anonymous(), "/oauth/token", &form(&pairs)).await
}

async fn refresh(gw: &TestGateway, client: &str, token: &str) -> Reply {
    let pairs = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
    post_form(&gw.anonymous(), "/oauth/token", &form(&pairs)).await
}

/// The access and the refresh token of an answer.
fn tokens(reply: &Reply) -> (String, String) {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let answer = reply.json();
    let text = |name: &str| answer[name].as_str().unwrap().to_owned();
    (text("access_token"), text("refresh_token"))
}

/// Signs in as the person of the provider, with a registered client.
pub(crate) async fn signed_in(gw: &TestGateway) -> (String, String, String) {
    let client = registered(gw).await;
    let back = Browser::new(gw).sign_in(&query(&client, &[])).await;
    let (access, refresh) = tokens(&exchange(gw, &client, &back["code"]).await);
    (client, access, refresh)
}

async fn list(gw: &TestGateway, token: &str) -> Reply {
    list_at(gw, token, "/mcp").await
}

async fn list_at(gw: &TestGateway, token: &str, path: &str) -> Reply {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let actor = gw.bearer(token).with("accept", "application/json, text/event-stream");
    actor.post(path, body).await
}

async fn is_valid(gw: &TestGateway, token: &str) -> bool {
    let reply = list(gw, token).await;
    let is_valid = reply.status == 200;
    assert!(is_valid || reply.status == 401, "{}", reply.text());
    is_valid
}

/// The caller sees how it came in, and so does its person in the list.
async fn came_in_by(gw: &TestGateway, token: &str, way: &str) {
    let client = gw.bearer(token);
    for path in ["/v1/whoami", "/v1/explain"] {
        let reply = client.get(path).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let told = reply.json();
        assert_eq!((&told["auth"], &told["clientBy"]), (&json!("client"), &json!(way)), "{path}");
    }
    let grant = gw.event(|event| event["type"] == "client.signed-in").await;
    let person = grant["payload"]["principal"].as_str().unwrap();
    let listed = gw.principal(person, []).await.get("/v1/clients").await.json();
    assert_eq!(listed["clients"][0]["by"], way, "{listed}");
}

fn error(reply: &Reply) -> String {
    assert!((400..=503).contains(&reply.status), "{}", reply.status);
    reply.json()["error"].as_str().unwrap().to_owned()
}

// I-117
#[tokio::test]
async fn a_registered_client_signs_a_person_in_and_calls() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    let document = gw.anonymous().get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(document["issuer"], TestProvider::PUBLIC);
    assert_eq!(document["token_endpoint_auth_methods_supported"], json!(["none"]));
    assert_eq!(document["client_id_metadata_document_supported"], false);
    let resource = gw.anonymous().get("/.well-known/oauth-protected-resource/mcp").await.json();
    assert_eq!(resource["resource"], RESOURCE);
    assert_eq!(resource["authorization_servers"], json!([TestProvider::PUBLIC]));

    let client = registered(&gw).await;
    let mut browser = Browser::new(&gw);
    let page = browser.open(&query(&client, &[])).await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert!(!page.text().contains("<script"));
    assert!(page.text().contains("App") && page.text().contains(REDIRECT), "{}", page.text());
    let cookie = page.header("set-cookie");
    assert!(cookie.starts_with(COOKIE) && cookie.ends_with("; HttpOnly; SameSite=Lax; Secure"));
    let back = browser.sign_in(&query(&client, &[])).await;
    assert_eq!(
        (back["state"].as_str(), back["iss"].as_str()),
        ("client state", TestProvider::PUBLIC)
    );

    let reply = exchange(&gw, &client, &back["code"]).await;
    assert_eq!(reply.header("cache-control"), "no-store");
    assert_eq!(reply.json()["expires_in"], 3600);
    let (access, _) = tokens(&reply);
    let listed = list(&gw, &access).await;
    assert!(listed.text().contains("crib__read"), "{}", listed.text());
    came_in_by(&gw, &access, "consent").await;
    // The token is for `/mcp` alone.
    for elsewhere in ["/v1/tools", "/v1/clients", "/v1/approvals", "/tools"] {
        assert_eq!(gw.bearer(&access).get(elsewhere).await.status, 401, "{elsewhere}");
    }

    // The provider gets nothing that the client chose, and the client nothing of the provider.
    let sent = format!("{:?}", provider.requests());
    for text in ["scope-canary", "client state", RESOURCE, CHALLENGE, VERIFIER, REDIRECT, &client] {
        assert!(!sent.contains(text), "{text} was sent");
    }
    assert!(!format!("{back:?} {}", reply.text()).contains("provider-"));
    let event = gw.event(|event| event["type"] == "client.signed-in").await;
    assert_eq!(event["payload"]["principal"], "id|ann");
    assert_eq!(
        (&event["payload"]["clientId"], &event["payload"]["by"]),
        (&json!(client), &json!("consent"))
    );
    let record = format!("{:?}", gw.events().await);
    for secret in [&access, &back["code"], "provider-", "client state"] {
        assert!(!record.contains(secret), "{secret} is recorded");
    }
}

#[tokio::test]
async fn a_client_with_a_document_signs_a_person_in() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, DOCUMENTS).await;
    let client = provider.document_id();
    let mut browser = Browser::new(&gw);
    let page = browser.open(&query(&client, &[])).await.text();
    assert!(page.contains("An &lt;app&gt;") && !page.contains("<app>"), "{page}");
    assert!(page.contains("<dd>127.0.0.1, whose"), "{page}");
    let back = browser.sign_in(&query(&client, &[])).await;
    let (access, _) = tokens(&exchange(&gw, &client, &back["code"]).await);
    assert!(is_valid(&gw, &access).await);
}

/// Documents of strangers: of other hosts, at private addresses, of another id. `bridge/clients.rs`
/// has those that have moved.
#[tokio::test]
async fn a_document_that_is_not_permitted_is_no_client() {
    let provider = TestProvider::start().await;
    let client = provider.document_id();
    for (more, id) in [
        ("", client.as_str()),
        ("client_documents = [\"other.example\"]", &client),
        // The host is permitted, but its address is private.
        ("client_documents = [\"127.0.0.1\"]", &client),
        (DOCUMENTS, &format!("{client}?x")),
    ] {
        let gw = gateway(&provider, more).await;
        let reply = Browser::new(&gw).open(&query(id, &[])).await;
        assert_eq!((reply.status, reply.header("location")), (400, ""), "{more} {id}");
    }
    for members in [
        json!({ "client_id": "https://other.example/client.json" }),
        json!({ "redirect_uris": ["https://other.example/cb"] }),
        json!({ "padding": "x".repeat(6 << 10) }),
    ] {
        provider.describe(members.clone());
        let gw = gateway(&provider, DOCUMENTS).await;
        let reply = Browser::new(&gw).open(&query(&client, &[])).await;
        assert_eq!((reply.status, reply.header("location")), (400, ""), "{members}");
        assert!(provider.requests().is_empty());
    }
}

/// Until the client and its address are known, nothing is sent there.
#[tokio::test]
async fn a_request_is_refused_where_its_client_or_the_person_can_see_it() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    let client = registered(&gw).await;
    for (client, change) in [
        ("tcc_unknown", ("state", "s")),
        ("https://127.0.0.1/client.json", ("state", "s")),
        (client.as_str(), ("redirect_uri", "http://127.0.0.1:3333/other")),
        (&client, ("redirect_uri", "https://evil.example/cb")),
        (&client, ("redirect_uri", "http://localhost:3333/cb")),
    ] {
        let reply = Browser::new(&gw).open(&query(client, &[change])).await;
        assert_eq!((reply.status, reply.header("location")), (400, ""), "{client} {change:?}");
        assert!(!reply.text().contains("evil.example"));
    }
    for (name, value, code) in [
        ("response_type", "token", "unsupported_response_type"),
        ("code_challenge", "", "invalid_request"),
        ("code_challenge_method", "plain", "invalid_request"),
        ("resource", "https://other.example/mcp", "invalid_target"),
        ("resource", "https://crib.example/v1", "invalid_target"),
        ("request", "x", "request_not_supported"),
    ] {
        let reply = Browser::new(&gw).open(&query(&client, &[(name, value)])).await;
        assert_eq!(reply.status, 303, "{name}={value}");
        let back = parameters(reply.header("location"));
        assert_eq!((back["error"].as_str(), back["state"].as_str()), (code, "client state"));
    }
    // A link to this server must not lead to a site that registered itself.
    let body = json!({ "redirect_uris": ["https://evil.example/cb"] });
    let elsewhere = gw.anonymous().post("/oauth/register", body).await.json();
    let elsewhere = elsewhere["client_id"].as_str().unwrap();
    let uri = ("redirect_uri", "https://evil.example/cb");
    let reply = Browser::new(&gw).open(&query(elsewhere, &[uri, ("code_challenge", "")])).await;
    assert_eq!((reply.status, reply.header("location")), (400, ""));
    assert!(!reply.text().contains("evil.example"));
    assert_eq!(Browser::new(&gw).open(&query(elsewhere, &[uri])).await.status, 200);
    for body in [
        json!({ "redirect_uris": ["http://evil.example/cb"] }),
        json!({ "redirect_uris": ["javascript:alert(1)"] }),
        json!({ "redirect_uris": [] }),
        json!([]),
    ] {
        assert_eq!(
            gw.anonymous().post("/oauth/register", body.clone()).await.status,
            400,
            "{body}"
        );
    }
    assert!(provider.requests().is_empty());
}

/// Two browsers and two people, in every mix: cookie, form, state and code.
#[tokio::test]
async fn only_the_browser_that_consented_gets_the_code() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    let client = registered(&gw).await;
    let (mut ann, mut bob) = (Browser::new(&gw), Browser::new(&gw));
    let page = ann.open(&query(&client, &[])).await.text();
    let other = bob.open(&query(&client, &[("state", "bob")])).await.text();
    assert_ne!(ann.cookie, bob.cookie);
    // The form of one browser in another one, or without a cookie.
    for browser in [&bob, &Browser::new(&gw)] {
        let reply = browser.answer(&page, "allow").await;
        assert_eq!((reply.status, reply.header("location")), (400, ""));
    }
    // The proof fits no other request.
    let mixed = page.replace("client+state", "other+state");
    assert_eq!(ann.answer(&mixed, "allow").await.status, 400);
    // A page of another site cannot send the form.
    let foreign = Browser {
        actor: ann.actor.with("origin", "https://evil.example"),
        cookie: ann.cookie.clone(),
    };
    assert_eq!(foreign.answer(&page, "allow").await.status, 403);
    assert!(provider.requests().is_empty());

    let away = ann.answer(&page, "allow").await;
    let back = back_from(away.header("location")).await;
    // Ann's response in the browser of Bob, who is himself away.
    bob.answer(&other, "allow").await;
    for browser in [&bob, &Browser::new(&gw)] {
        let reply = browser.actor().get(&back).await;
        assert_eq!((reply.status, reply.header("location")), (400, ""));
    }
    // It was used up.
    assert_eq!(ann.actor().get(&back).await.status, 400);
    // A code of another sign-in of the same browser.
    let page = ann.open(&query(&client, &[])).await.text();
    let (one, two) = (ann.answer(&page, "allow").await, ann.answer(&page, "allow").await);
    let (one, two) =
        (back_from(one.header("location")).await, back_from(two.header("location")).await);
    let code = |path: &str| parameters(&format!("http://x{path}"))["code"].clone();
    let crossed = one.replace(&code(&one), &code(&two));
    let reply = ann.actor().get(&crossed).await;
    assert_eq!(
        parameters(reply.header("location"))["error"],
        "access_denied",
        "nonce and verifier"
    );
    let denied = ann.answer(&page, "deny").await;
    assert_eq!(parameters(denied.header("location"))["error"], "access_denied");
    let record = format!("{:?}", gw.events().await);
    assert!(!record.contains("client.signed-in") && !record.contains("ClientSignedIn"), "{record}");
}

#[tokio::test]
async fn a_person_who_declines_is_recorded() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    let client = registered(&gw).await;
    let mut browser = Browser::new(&gw);
    let page = browser.open(&query(&client, &[])).await.text();
    let denied = browser.answer(&page, "deny").await;
    assert!(denied.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(parameters(denied.header("location"))["error"], "access_denied");
    let event = gw.event(|event| event["payload"]["resource"] == "/oauth/consent").await;
    assert_eq!(event["type"], "authorization.decided");
    assert_eq!(event["payload"]["reason"], "declined");
}

/// A program can open several tabs at once. A refused end is recorded without its secrets.
#[tokio::test]
async fn each_tab_of_a_browser_finishes_its_own_sign_in() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    let client = registered(&gw).await;
    let mut browser = Browser::new(&gw);
    let mut tabs = Vec::new();
    for state in ["one", "two"] {
        // Both pages are requested before the browser has a cookie.
        let mut tab = Browser::new(&gw);
        let page = tab.open(&query(&client, &[("state", state)])).await.text();
        tabs.push((state, page, tab.cookie.unwrap()));
    }
    let names: Vec<_> = tabs.iter().map(|(.., it)| it.split_once('=').unwrap().0).collect();
    assert!(names[0] != names[1] && names[0].starts_with(COOKIE), "{names:?}");
    browser.cookie = Some(format!("{}; {}", tabs[0].2, tabs[1].2));
    for ((state, page, _), name) in tabs.iter().zip(&names) {
        let away = browser.answer(page, "allow").await;
        assert_eq!(away.status, 303, "{}", away.text());
        let back = browser.pass(away.header("location")).await;
        assert_eq!(parameters(back.header("location"))["state"], *state);
        let removed = back.header("set-cookie");
        assert!(removed.starts_with(&format!("{name}=; ")), "{removed}");
        assert!(removed.contains("Max-Age=0"), "{removed}");
    }
    // The oldest requests of a browser make room.
    let mut crowded = Browser::new(&gw);
    for count in 1..=10 {
        let reply = crowded.open(&query(&client, &[])).await;
        let set = reply.headers.get_all("set-cookie").iter();
        let removed = set.filter(|it| it.to_str().unwrap().contains("Max-Age=0")).count();
        assert_eq!(removed, count - count.min(8), "{count}");
    }

    // Refused ends, one a second and route.
    let page = browser.open(&query(&client, &[("state", "secret-canary")])).await.text();
    let away = browser.answer(&page, "allow").await;
    assert_eq!(Browser::new(&gw).answer(&page, "allow").await.status, 400);
    let back = back_from(away.header("location")).await;
    assert_eq!(Browser::new(&gw).actor().get(&back).await.status, 400);
    for route in ["/oauth/consent", "/oauth/callback"] {
        let event = gw.event(|event| event["payload"]["resource"] == route).await;
        let expected = json!({ "principal": "anonymous", "action": "http:request",
            "resource": route, "allowed": false, "reason": "other_browser" });
        assert_eq!(event["type"], "authorization.decided");
        assert_eq!(event["payload"], expected);
    }
    let record = format!("{:?}", gw.events().await);
    let values = tabs.iter().map(|(.., cookie)| cookie.split_once('=').unwrap().1);
    let states = parameters(&format!("http://x{back}"));
    let answer = [states["state"].as_str(), states["code"].as_str(), "secret-canary"];
    for secret in values.chain(answer) {
        assert!(!record.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn a_code_is_for_its_client_its_redirect_and_its_verifier_once() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    let (client, other) = (registered(&gw).await, registered(&gw).await);
    let code = Browser::new(&gw).sign_in(&query(&client, &[])).await["code"].clone();
    let good = [
        ("grant_type", "authorization_code"),
        ("client_id", client.as_str()),
        ("code", &code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
    ];
    for (name, value, expected) in [
        ("client_id", other.as_str(), "invalid_grant"),
        ("redirect_uri", "http://127.0.0.1:4444/cb", "invalid_grant"),
        ("redirect_uri", "", "invalid_grant"),
        ("code_verifier", &"x".repeat(43), "invalid_grant"),
        ("code_verifier", "", "invalid_request"),
        ("resource", "https://crib.example/mcp/files", "invalid_target"),
        ("client_secret", "s", "invalid_client"),
        ("code", "tcd_x.y", "invalid_grant"),
    ] {
        let mut pairs: Vec<_> = good.iter().copied().filter(|(other, _)| *other != name).collect();
        pairs.push((name, value));
        let reply = post_form(&gw.anonymous(), "/oauth/token", &form(&pairs)).await;
        assert_eq!(error(&reply), expected, "{name}={value}");
    }
    let (access, token) = tokens(&exchange(&gw, &client, &code).await);
    assert!(is_valid(&gw, &access).await);
    // A second exchange ends what the first one gave.
    assert_eq!(error(&exchange(&gw, &client, &code).await), "invalid_grant");
    assert!(!is_valid(&gw, &access).await);
    assert_eq!(error(&refresh(&gw, &client, &token).await), "invalid_grant");
    let event = gw.event(|event| event["type"] == "client.signed-out").await;
    assert_eq!(event["payload"]["cause"], "reused");
    // A code that is a minute old.
    let code = Browser::new(&gw).sign_in(&query(&client, &[])).await["code"].clone();
    gw.advance(MINUTE).await;
    assert_eq!(error(&exchange(&gw, &client, &code).await), "invalid_grant");
}

/// I-118
#[tokio::test]
async fn a_refresh_token_is_replaced_by_one_successor() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    let (client, old, first) = signed_in(&gw).await;
    let (access, second) = tokens(&refresh(&gw, &client, &first).await);
    assert!(is_valid(&gw, &access).await && is_valid(&gw, &old).await);
    // The answer was lost: the same successor, and no second request to the provider.
    let asked = provider.requests().len();
    assert_eq!(tokens(&refresh(&gw, &client, &first).await).1, second);
    assert_eq!(provider.requests().len(), asked);
    // Many at once get one successor, and the provider's token is used once.
    let many = futures_util::future::join_all((0..8).map(|_| refresh(&gw, &client, &second))).await;
    let mut next: Vec<String> = many.iter().map(|reply| tokens(reply).1).collect();
    next.dedup();
    assert_eq!((next.len(), provider.replays()), (1, 0));
    let third = next.remove(0);
    // Another client's token is not accepted, and nothing ends.
    let other = registered(&gw).await;
    assert_eq!(error(&refresh(&gw, &other, &third).await), "invalid_grant");
    // An older token ends the family, and its access tokens at once.
    let (last, _) = tokens(&refresh(&gw, &client, &third).await);
    assert!(is_valid(&gw, &last).await);
    assert_eq!(error(&refresh(&gw, &client, &first).await), "invalid_grant");
    assert!(!is_valid(&gw, &last).await && !is_valid(&gw, &access).await);
    assert_eq!(error(&refresh(&gw, &client, &third).await), "invalid_grant");
}

/// Each renewal checks the person at the provider.
#[tokio::test]
async fn a_person_who_left_is_not_renewed() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "access_lifetime = \"5m\"").await;
    let (client, access, token) = signed_in(&gw).await;
    provider.set_down(true);
    assert_eq!(error(&refresh(&gw, &client, &token).await), "temporarily_unavailable");
    provider.set_down(false);
    let (_, token) = tokens(&refresh(&gw, &client, &token).await);
    gw.advance(MINUTE * 5).await;
    assert!(!is_valid(&gw, &access).await, "it has expired");
    provider.leave("ann");
    assert_eq!(error(&refresh(&gw, &client, &token).await), "invalid_grant");
    let event = gw.event(|event| event["type"] == "client.signed-out").await;
    assert_eq!(
        (&event["payload"]["cause"], &event["payload"]["principal"]),
        (&json!("refused"), &json!("id|ann"))
    );
    // The provider answers for another person.
    provider.sign_in("bob");
    let (client, _, token) = signed_in(&gw).await;
    provider.claim(json!({ "sub": "eve" }));
    assert_eq!(error(&refresh(&gw, &client, &token).await), "invalid_grant");
}

#[tokio::test]
async fn an_id_token_needs_the_required_claims() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "[auth.bridge.require]\nhd = \"acme.example\"").await;
    signed_in(&gw).await;
    let client = registered(&gw).await;
    for wrong in [
        json!({ "hd": "other.example" }),
        json!({ "hd": null }),
        json!({ "nonce": "other" }),
        json!({ "aud": "other" }),
        json!({ "iss": "https://other.example" }),
        json!({ "exp": 1_000 }),
        json!({ "sub": "" }),
    ] {
        provider.claim(wrong.clone());
        let back = Browser::new(&gw).sign_in(&query(&client, &[])).await;
        assert_eq!(back["error"], "access_denied", "{wrong}");
        assert!(!back.contains_key("code"));
    }
}

/// ID-JAG: the assertion of the provider in place of a sign-in.
#[tokio::test]
async fn an_assertion_is_exchanged_once_by_its_client() {
    const SECRET: &str = "client-secret-canary-of-thirty-two-bytes";
    let provider = TestProvider::start().await;
    let source = TestSource::new("crib")
        .tenants(["acme"])
        .tool(TestTool::new("read").scopes(["files:read"]));
    let client = "[[auth.bridge.client]]\nid = \"desk\"\nname = \"Desk\"\n\
                  secret = { env = \"DESK\" }";
    let config = provider.config(&format!(
        "assertion_issuers = [\"{}\"]\nregistration = true\n\
         require = {{ hd = \"acme.example\" }}\n{client}",
        provider.url
    ));
    let gw = TestGateway::builder()
        .config(&config)
        .source(source)
        .secret("PROVIDER", TestProvider::SECRET)
        .secret("DESK", SECRET)
        .start()
        .await;
    let document = gw.anonymous().get("/.well-known/oauth-authorization-server").await.json();
    let kind = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    assert!(document["grant_types_supported"].as_array().unwrap().contains(&json!(kind)));
    let now = gw.gateway.now().timestamp();
    let claims = |jti: &str| {
        json!({
            "iss": provider.url, "aud": TestProvider::PUBLIC, "sub": "ann", "client_id": "desk",
            "resource": RESOURCE, "jti": jti, "scope": "files:read", "iat": now, "exp": now + 300,
            "hd": "acme.example",
        })
    };
    let with = |name: &str, value: Value| {
        let mut claims = claims(name);
        claims[name] = value;
        claims
    };
    let send = async |assertion: &str, secret: &str| {
        let pairs = [
            ("grant_type", kind),
            ("assertion", assertion),
            ("client_id", "desk"),
            ("client_secret", secret),
        ];
        post_form(&gw.anonymous(), "/oauth/token", &form(&pairs)).await
    };
    let typ = "oauth-id-jag+jwt";
    let good = provider.sign(typ, &claims("one"));
    assert_eq!(error(&send(&good, "wrong").await), "invalid_client");
    assert_eq!(error(&send(&good, "").await), "invalid_client");
    let reply = send(&good, SECRET).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.json().get("refresh_token").is_none());
    let access = reply.json()["access_token"].as_str().unwrap().to_owned();
    assert!(is_valid(&gw, &access).await);
    came_in_by(&gw, &access, "assertion").await;
    let event = gw.event(|event| event["type"] == "client.signed-in").await;
    assert_eq!(
        (&event["payload"]["by"], &event["payload"]["clientId"]),
        (&json!("assertion"), &json!("desk"))
    );
    assert_eq!(error(&send(&good, SECRET).await), "invalid_grant", "it was used");
    let stranger = TestProvider::start().await;
    for (what, assertion) in [
        ("typ", provider.sign("JWT", &claims("a"))),
        ("client", provider.sign(typ, &with("client_id", json!("other")))),
        ("aud", provider.sign(typ, &with("aud", json!("https://other.example")))),
        ("several", provider.sign(typ, &with("aud", json!([TestProvider::PUBLIC, "x"])))),
        ("jti", provider.sign(typ, &with("jti", json!(null)))),
        ("hd", provider.sign(typ, &with("hd", json!("other.example")))),
        ("old", provider.sign(typ, &with("exp", json!(now - 300)))),
        ("long", provider.sign(typ, &with("exp", json!(now + 86_400)))),
        ("key", stranger.sign(typ, &claims("b"))),
        ("iss", stranger.sign(typ, &with("iss", json!(stranger.url)))),
    ] {
        assert_eq!(error(&send(&assertion, SECRET).await), "invalid_grant", "{what}");
    }
    let other = provider.sign(typ, &with("resource", json!("https://other.example/mcp")));
    assert_eq!(error(&send(&other, SECRET).await), "invalid_target");
    // A busy client ends no other one of the person.
    let (_, own, _) = signed_in(&gw).await;
    for number in 0..66 {
        let assertion = provider.sign(typ, &claims(&format!("busy {number}")));
        assert_eq!(send(&assertion, SECRET).await.status, 200);
    }
    assert!(is_valid(&gw, &own).await);
    // An assertion is no bearer token.
    assert_eq!(list(&gw, &provider.sign(typ, &claims("c"))).await.status, 401);
}
