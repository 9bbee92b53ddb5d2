//! Browser sessions under attack: with parts of their secret, from other origins, and after their end.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use toolcrib_core::store::Storage as _;
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway, TestIssuer, TestSource, TestTool};

const HEADER: &str = "toolcrib-session";
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A page that is signed in.
pub(crate) struct Page {
    id: String,
    /// `NAME=VALUE`.
    cookie: String,
    secret: String,
    /// The whole `Set-Cookie`.
    set: String,
    anonymous: Actor,
}

impl Page {
    pub(crate) async fn start(gw: &TestGateway, caller: &Actor) -> Self {
        Self::of(gw, caller.with("origin", &gw.url).post("/v1/sessions", json!({})).await)
    }

    fn of(gw: &TestGateway, reply: Reply) -> Self {
        assert_eq!(reply.status, 201, "{}", reply.text());
        let (set, answer) = (reply.header("set-cookie").to_owned(), reply.json());
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        let cookie = set.split(';').next().unwrap().to_owned();
        Self { id: text("id"), cookie, secret: text("secret"), set, anonymous: gw.anonymous() }
    }

    /// The page as a caller.
    pub(crate) fn actor(&self) -> Actor {
        self.cookie_alone().with(HEADER, &self.secret)
    }

    /// A request that another site makes the browser send: with the cookie, without the header.
    fn cookie_alone(&self) -> Actor {
        self.anonymous.with("cookie", &self.cookie)
    }
}

async fn status(caller: &Actor) -> u16 {
    caller.get("/v1/whoami").await.status
}

async fn gateway(config: &str) -> TestGateway {
    let tool = TestTool::new("read").scopes(["files:read"]);
    TestGateway::builder().config(config).tool(tool).manual_clock().start().await
}

fn named<'a>(sessions: &'a Value, member: &str) -> Vec<&'a str> {
    let list = sessions["sessions"].as_array().unwrap().iter();
    list.map(|it| it[member].as_str().unwrap_or_default()).collect()
}

// I-112
#[tokio::test]
async fn a_page_that_stays_signed_in_is_its_key_without_having_it() {
    let gw = gateway("").await;
    let ada = gw.principal("ada", ["files:read"]).await;
    let page = Page::start(&gw, &ada).await;
    let port = gw.url.rsplit(':').next().unwrap();
    assert!(page.cookie.starts_with(&format!("toolcrib-session-{port}=")), "{}", page.set);
    for part in ["; Path=/", "; Max-Age=43200", "; HttpOnly", "; SameSite=Strict"] {
        assert!(page.set.contains(part), "{part}: {}", page.set);
    }
    assert!(!page.set.contains("Secure") && !page.set.contains("Domain"), "{}", page.set);

    let who = page.actor().get("/v1/whoami").await.json();
    assert_eq!((&who["principal"], &who["auth"]), (&json!("ada"), &json!("key")));
    assert_eq!(who["keyId"], gw.key_id(&ada).to_string());
    assert_eq!(who["sessionId"], page.id);
    // Every endpoint that the page uses, over both versions of HTTP.
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    for actor in [page.actor(), page.actor().http2()] {
        // HTTP/2 names the host in the target.
        for path in ["/v1/tools", "/explorer/tools", "/tools"] {
            let tools = actor.get(path).await;
            assert_eq!(tools.status, 200, "{path}");
            assert!(tools.text().contains("read"), "{path}: {}", tools.text());
        }
        assert_eq!(actor.post("/mcp", list.clone()).await.status, 200);
        assert_eq!(actor.post("/explorer/tools/crib__read/call", json!({})).await.status, 200);
    }
    // And none that it does not use.
    let call = json!({ "request": { "tool_id": "crib.read" } });
    for path in ["/tools/call", "/otc/tools/call", "/oxp/tools/call"] {
        assert!(page.actor().post(path, call.clone()).await.status >= 400, "{path}");
    }
    for path in ["/metrics", "/oxp/tools", "/otc/tools"] {
        assert_eq!(page.actor().get(path).await.status, 401, "{path}");
    }
    // Neither secret is in the store, and no event has them.
    let stored = gw.store.keys().list().await.unwrap();
    let events: Vec<String> = gw.events().await.iter().map(|it| format!("{it:?}")).collect();
    let all = format!("{stored:?}{events:?}");
    let cookie = page.cookie.split('=').nth(1).unwrap();
    assert!(!all.contains(cookie) && !all.contains(&page.secret));
    assert!(events.iter().any(|it| it.contains("SignInStarted") && it.contains(&page.id)));
}

#[tokio::test]
async fn the_description_says_which_routes_accept_a_session() {
    let gw = gateway("[oxp]\nenabled = true").await;
    let ada = gw.principal("ada", ["files:read"]).await;
    let (mut accepting, mut others) = (0, 0);
    for document in [toolcrib::openapi(), toolcrib::openapi_v2()] {
        let is_v2 = document["info"]["title"].as_str().unwrap().contains("v2")
            || document["paths"].get("/runs").is_some();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let Ok(method) = method.to_uppercase().parse::<Method>() else { continue };
                let security = operation.get("security").unwrap_or(&document["security"]);
                let is_open = security.as_array().unwrap().iter().any(|it| *it == json!({}));
                if is_open || security.as_array().unwrap().is_empty() {
                    continue;
                }
                let described = security.to_string().contains("sessionHeader");
                // A new session for each, because some end it.
                let page = Page::start(&gw, &ada).await.actor();
                let page = match is_v2 {
                    true => page.with("openwop-version", "2.0"),
                    false => page,
                };
                let path = path.replace(['{', '}'], "x");
                if ["/v1/changes", "/v1/approvals/events"].contains(&path.as_str()) {
                    // Their answers do not end.
                    continue;
                }
                let body = (method == Method::POST).then(|| "{}".into());
                let answer = page.send(method.clone(), &path, body).await;
                let accepted = answer.status != 401;
                assert_eq!(accepted, described, "{method} {path}: {}", answer.text());
                match described {
                    true => accepting += 1,
                    false => others += 1,
                }
            }
        }
    }
    assert!(accepting > 30 && others > 3, "{accepting} {others}");
}

#[tokio::test]
async fn neither_half_of_a_session_is_a_credential() {
    let gw = gateway("[anonymous]\ntenant = \"acme\"\nscopes = []").await;
    let ada = gw.principal("ada", ["files:read"]).await;
    let (page, other) = (Page::start(&gw, &ada).await, Page::start(&gw, &ada).await);
    let none = gw.anonymous();
    let value = page.cookie.split('=').nth(1).unwrap();
    let name = page.cookie.split('=').next().unwrap();
    for (attack, caller) in [
        ("a form of another site", page.cookie_alone()),
        ("the header alone", none.with(HEADER, &page.secret)),
        ("an empty header", page.cookie_alone().with(HEADER, "")),
        ("a guess", page.cookie_alone().with(HEADER, &"A".repeat(43))),
        ("the halves of two sessions", page.cookie_alone().with(HEADER, &other.secret)),
        (
            "halves exchanged",
            none.with("cookie", &format!("{name}={}", page.secret)).with(HEADER, value),
        ),
        ("two headers", page.actor().with(HEADER, &page.secret)),
        ("the cookie as a key", gw.bearer(value)),
        ("the header as a key", gw.bearer(&page.secret)),
        ("the id as a key", gw.bearer(&page.id)),
        (
            "the name of encrypted pages",
            none.with("cookie", &format!("__Host-toolcrib={value}")).with(HEADER, &page.secret),
        ),
        (
            "another port",
            none.with("cookie", &format!("toolcrib-session-1={value}")).with(HEADER, &page.secret),
        ),
        (
            "no port",
            none.with("cookie", &format!("toolcrib-session={value}")).with(HEADER, &page.secret),
        ),
    ] {
        assert_eq!(status(&caller).await, 401, "{attack}");
        let read = caller.get("/explorer/tools").await;
        assert!(!read.text().contains("read"), "{attack}: {}", read.text());
    }
    // Another port of this host can plant cookies with this name. They change no result.
    for planted in
        [&other.cookie, &page.cookie, &format!("{name}={}", "A".repeat(43)), &format!("{name}=")]
    {
        for cookies in
            [format!("{planted}; {}", page.cookie), format!("{}; {planted}", page.cookie)]
        {
            let caller = none.with("cookie", &cookies).with(HEADER, &page.secret);
            assert_eq!(status(&caller).await, 200, "{cookies}");
        }
    }
    let planted = none.with("cookie", &format!("{0}; {name}=", other.cookie));
    assert_eq!(status(&planted.with(HEADER, &page.secret)).await, 401);
    assert_eq!(status(&page.actor()).await, 200);
}

#[tokio::test]
async fn a_session_with_another_credential_is_ambiguous() {
    let gw = gateway("").await;
    let (ada, eve) = (gw.principal("ada", ["files:read"]).await, gw.principal("eve", []).await);
    let page = Page::start(&gw, &ada).await;
    for (name, value) in [
        ("authorization", format!("Bearer {}", ada.key().unwrap())),
        ("authorization", format!("Bearer {}", eve.key().unwrap())),
        ("authorization", "Basic YTpi".to_owned()),
        ("x-api-key", ada.key().unwrap().to_owned()),
        ("otc-api-key", eve.key().unwrap().to_owned()),
    ] {
        assert_eq!(status(&page.actor().with(name, &value)).await, 401, "{name}: {value}");
    }
    // A cookie without the header says nothing: a planted one cannot change who calls.
    let who = eve.with("cookie", &page.cookie).get("/v1/whoami").await.json();
    assert_eq!(who["principal"], "eve");
    // Where no session is accepted, the header says nothing either.
    let tools = eve.with("cookie", &page.cookie).with(HEADER, &page.secret).get("/oxp/tools").await;
    assert_eq!(tools.status, 200);
}

#[tokio::test]
async fn only_the_page_of_this_server_has_a_session() {
    let gw = gateway(
        "[server]\nallowed_hosts = [\"crib.example\", \"old.example\"]\n\
         allowed_origins = [\"https://app.example\"]",
    )
    .await;
    let ada = gw.principal("ada", ["files:read"]).await;
    let port = gw.url.rsplit(':').next().unwrap().to_owned();
    let asks = async |host: Option<&str>, origin: Option<&str>| {
        let caller = host.map_or(ada.clone(), |host| ada.with("host", host));
        let caller = origin.map_or(caller.clone(), |origin| caller.with("origin", origin));
        caller.post("/v1/sessions", json!({})).await
    };
    let sibling = format!("http://localhost:{port}");
    for (host, origin) in [
        (None, None),
        (None, Some("https://app.example")),
        (None, Some(sibling.as_str())),
        (None, Some("http://127.0.0.1:1")),
        (None, Some("null")),
        (Some("crib.example"), Some("http://crib.example")),
        (Some("crib.example"), Some("https://old.example")),
    ] {
        let reply = asks(host, origin).await;
        assert_eq!(reply.status, 403, "{host:?} {origin:?}");
        assert!(reply.header("set-cookie").is_empty());
    }
    let cross = ada.with("origin", &gw.url).with("sec-fetch-site", "cross-site");
    assert_eq!(cross.post("/v1/sessions", json!({})).await.status, 403);

    // Behind a proxy with TLS: the browser sends the cookie over TLS alone.
    let page = Page::of(&gw, asks(Some("crib.example"), Some("https://crib.example")).await);
    assert!(page.cookie.starts_with("__Host-toolcrib="), "{}", page.set);
    assert!(page.set.contains("; Secure") && page.set.contains("; Path=/"), "{}", page.set);
    let at = |host: &str| page.actor().with("host", host);
    assert_eq!(status(&at("crib.example")).await, 200);
    // At another name, and as a cookie of an unencrypted page, it is worth nothing.
    assert_eq!(status(&at("old.example")).await, 401);
    assert_eq!(status(&page.actor()).await, 401);
    let value = page.cookie.split('=').nth(1).unwrap();
    for cookie in [format!("toolcrib-session={value}"), format!("toolcrib-session-{port}={value}")]
    {
        for host in ["crib.example", "127.0.0.1", &format!("127.0.0.1:{port}")] {
            let caller = gw.anonymous().with("cookie", &cookie).with(HEADER, &page.secret);
            assert_eq!(status(&caller.with("host", host)).await, 401, "{cookie} {host}");
        }
    }
    // A listed page of another origin may call with a key of its own, and not with a session.
    for (name, value) in [
        ("origin", "https://app.example"),
        ("origin", "http://crib.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
    ] {
        assert!(status(&at("crib.example").with(name, value)).await > 400, "{name}: {value}");
    }
    let own = at("crib.example").with("sec-fetch-site", "same-origin");
    assert_eq!(status(&own.with("origin", "https://crib.example")).await, 200);
    let preflight = gw
        .anonymous()
        .with("origin", "https://app.example")
        .with("access-control-request-method", "POST")
        .send(Method::OPTIONS, "/v1/sessions", None)
        .await;
    assert!(!preflight.header("access-control-allow-headers").to_lowercase().contains(HEADER));
    assert!(preflight.header("access-control-allow-credentials").is_empty());
}

// I-112
#[tokio::test]
async fn a_session_ends_with_its_credential_and_never_has_more() {
    let role = "[[role]]\nname = \"reader\"\nscopes = [\"files:read\", \"audit:read\"]\n";
    let gw = gateway(role).await;
    let key = gw.principal_with_roles("acme", "ada", &["reader"]).await;
    let page = Page::start(&gw, &key).await.actor();
    assert_eq!(page.get("/v1/events").await.status, 200);
    gw.replace("[[role]]\nname = \"reader\"\nscopes = [\"files:read\"]\n").await;
    assert_eq!(page.get("/v1/events").await.status, 403, "the role lost a scope");
    gw.replace("").await;
    assert_eq!(page.get("/v1/whoami").await.json()["scopes"], json!([]), "the role is gone");
    gw.revoke(&key).await;
    assert_eq!(status(&page).await, 401, "the key is revoked");

    // The time is over: of the session, and of a key that ends sooner.
    let key = gw.principal("bob", ["keys:manage", "files:read"]).await;
    let page = Page::start(&gw, &key).await.actor();
    let soon = gw.gateway.clock().now() + HOUR;
    let body = json!({ "name": "bob", "scopes": ["keys:manage", "files:read"], "expiresAt": soon });
    let made = key.post("/v1/keys", body).await.json();
    let short = Page::start(&gw, &gw.bearer(made["key"].as_str().unwrap())).await;
    // Whole seconds, rounded down.
    assert!(
        ["Max-Age=3600;", "Max-Age=3599;"].iter().any(|it| short.set.contains(it)),
        "{}",
        short.set
    );
    gw.advance(HOUR * 2).await;
    assert_eq!(status(&short.actor()).await, 401, "its key has expired");
    assert_eq!(status(&page).await, 200);
    gw.advance(HOUR * 11).await;
    assert_eq!(status(&page).await, 401, "the session has expired");
    assert_eq!(status(&key).await, 200, "the key has not");
}

#[tokio::test]
async fn a_session_of_a_token_ends_with_the_token() {
    let issuer = TestIssuer::start().await;
    let source = TestSource::new("crib")
        .tenants(["acme"])
        .tool(TestTool::new("read").scopes(["files:read"]));
    let gw = TestGateway::builder()
        .config(&issuer.config(""))
        .source(source)
        .manual_clock()
        .start()
        .await;
    let claims = issuer.claims(gw.gateway.clock().now());
    let page = Page::start(&gw, &gw.bearer(&issuer.sign(&claims))).await;
    let who = page.actor().get("/v1/whoami").await.json();
    assert_eq!((&who["auth"], &who["sessionId"]), (&json!("token"), &json!(page.id)));
    assert_eq!(page.actor().get("/v1/tools").await.json()[0]["toolId"], "mcp:crib.read");
    gw.advance(HOUR * 24).await;
    assert_eq!(status(&page.actor()).await, 401);
}

#[tokio::test]
async fn a_sign_out_ends_the_session_on_the_server() {
    let gw = gateway("").await;
    let ada = gw.principal("ada", ["files:read"]).await;
    let (page, other) = (Page::start(&gw, &ada).await, Page::start(&gw, &ada).await);
    let mut streams = Vec::new();
    for path in ["/v1/changes", "/v1/approvals/events"] {
        let stream = page.actor().open(Method::GET, path, None).await;
        assert_eq!(stream.status, 200, "{path}");
        streams.push(stream);
    }
    let end = page.actor().delete("/v1/sessions/current").await;
    assert_eq!(end.status, 200, "{}", end.text());
    let cleared = end.header("set-cookie");
    assert!(cleared.starts_with(&page.cookie[..page.cookie.find('=').unwrap() + 1]), "{cleared}");
    assert!(cleared.contains("=; Path=/; Max-Age=0; HttpOnly"), "{cleared}");
    // A copy of both halves is of no use now, and the streams have ended.
    assert_eq!(status(&page.actor()).await, 401);
    for stream in &mut streams {
        while stream.next().await.is_some() {}
    }
    assert_eq!(page.actor().delete("/v1/sessions/current").await.status, 401);
    assert_eq!(status(&other.actor()).await, 200, "another browser stays signed in");
    let ended = gw.event(|event| event["type"] == "sign-in.ended").await;
    assert_eq!(ended["payload"], json!({ "principal": "ada", "sessionId": page.id }));
    // A key has no session to end.
    assert_eq!(ada.delete("/v1/sessions/current").await.status, 404);
}

#[tokio::test]
async fn sessions_are_listed_and_ended_by_their_owner_and_by_those_who_manage_keys() {
    let gw = gateway("").await;
    let ada = gw.principal("ada", ["files:read"]).await;
    let bob = gw.principal("bob", []).await;
    let manager = gw.principal("manager", ["keys:manage"]).await;
    let foreign = gw.principal_of("other", "manager", &["*"]).await;
    let firefox = ada.with("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0");
    let (page, of_bob) = (Page::start(&gw, &firefox).await, Page::start(&gw, &bob).await);
    let list = page.actor().get("/v1/sessions").await.json();
    assert_eq!(named(&list, "id"), [page.id.as_str()]);
    assert_eq!(named(&list, "browser"), ["Firefox on Linux"]);
    assert_eq!(list["sessions"][0]["current"], true);
    assert_eq!(list["sessions"][0]["keyId"], gw.key_id(&ada).to_string());
    assert!(list["sessions"][0]["lastUsedAt"].is_string());
    let all = manager.get("/v1/sessions").await.json();
    assert_eq!(named(&all, "principal"), ["ada", "bob"]);
    assert!(foreign.get("/v1/sessions").await.json()["sessions"].as_array().unwrap().is_empty());
    // They are no keys.
    let keys = manager.get("/v1/keys").await.text();
    assert!(!keys.contains(&page.id) && !keys.contains(&of_bob.id));
    let rotate = format!("/v1/keys/{}/rotate", page.id);
    assert_eq!(manager.post(&rotate, json!({})).await.status, 404);

    let path = format!("/v1/sessions/{}", of_bob.id);
    for stranger in [&page.actor(), &ada, &foreign] {
        assert_eq!(stranger.delete(&path).await.status, 404);
    }
    assert_eq!(status(&of_bob.actor()).await, 200);
    assert_eq!(manager.delete(&path).await.status, 200);
    assert_eq!(status(&of_bob.actor()).await, 401);
    let ended = gw.event(|event| event["type"] == "sign-in.ended").await;
    assert_eq!(ended["payload"]["by"], "manager");
    // With the path of the command line, too.
    let key_path = format!("/v1/keys/{}", page.id);
    assert_eq!(foreign.delete(&key_path).await.status, 404);
    assert_eq!(manager.delete(&key_path).await.status, 200);
    assert_eq!(status(&page.actor()).await, 401);
}

#[tokio::test]
async fn a_session_makes_no_session_and_their_number_is_bounded() {
    let gw = gateway("").await;
    let ada = gw.principal("ada", []).await;
    let page = Page::start(&gw, &ada).await;
    let again = page.actor().with("origin", &gw.url).post("/v1/sessions", json!({})).await;
    assert_eq!(again.status, 403);
    for _ in 1..240 {
        Page::start(&gw, &ada).await;
    }
    // Parallel requests cannot exceed the limit.
    let origin = ada.with("origin", &gw.url);
    let at_once = (0..40).map(|_| origin.post("/v1/sessions", json!({})));
    let answers = futures_util::future::join_all(at_once).await;
    assert_eq!(answers.iter().filter(|it| it.status == 201).count(), 16);
    let more = ada.with("origin", &gw.url).post("/v1/sessions", json!({})).await;
    assert_eq!(more.status, 429, "{}", more.text());
    // Ended ones count until they would have expired, and expired ones leave the store a day later.
    page.actor().delete("/v1/sessions/current").await;
    assert_eq!(ada.with("origin", &gw.url).post("/v1/sessions", json!({})).await.status, 429);
    gw.advance(HOUR * 37).await;
    Page::start(&gw, &ada).await;
    let stored = gw.store.keys().list().await.unwrap();
    assert_eq!(stored.iter().filter(|it| it.session.is_some()).count(), 1);
}

#[tokio::test]
async fn without_a_lifetime_nobody_stays_signed_in() {
    let gw = gateway("[explorer]\nsession_lifetime = \"0s\"").await;
    let ada = gw.principal("ada", []).await;
    let refused = ada.with("origin", &gw.url).post("/v1/sessions", json!({})).await;
    assert_eq!(refused.status, 403);
    assert!(gw.anonymous().get("/explorer").await.text().contains("data-sessions=\"false\""));
}

#[tokio::test]
async fn a_link_signs_in_once() {
    let gw = gateway("").await;
    let ada = gw.principal("ada", ["files:read"]).await;
    let link = |time| {
        let made = gw.gateway.authenticator().new_sign_in_link(ada.key().unwrap(), time).unwrap();
        json!({ "secret": made.expose() })
    };
    let follow = async |body: &Value| {
        let page = gw.anonymous().with("origin", &gw.url);
        page.post("/explorer/sign-in/link", body.clone()).await
    };
    let first = link(HOUR);
    // A preview of the link, another page and a guess do not spend it.
    assert_eq!(gw.anonymous().get("/explorer").await.status, 200);
    let other = gw.anonymous().with("origin", "http://127.0.0.1:1");
    assert_eq!(other.post("/explorer/sign-in/link", first.clone()).await.status, 403);
    let without = gw.anonymous().post("/explorer/sign-in/link", first.clone()).await;
    assert_eq!(without.status, 403);
    assert_eq!(follow(&json!({ "secret": "A".repeat(43) })).await.status, 403);
    let page = Page::of(&gw, follow(&first).await);
    assert_eq!(page.actor().get("/v1/whoami").await.json()["principal"], "ada");
    // The session that a link replaces in the browser is over.
    let replacing = page.actor().with("origin", &gw.url);
    let refused = replacing.post("/explorer/sign-in/link", first.clone()).await;
    assert_eq!((refused.status, status(&page.actor()).await), (403, 200));
    let next = Page::of(&gw, replacing.post("/explorer/sign-in/link", link(HOUR)).await);
    assert_eq!((status(&page.actor()).await, status(&next.actor()).await), (401, 200));
    let stale = replacing.post("/explorer/sign-in/link", link(HOUR)).await;
    assert_eq!(stale.status, 201, "{}", stale.text());
    let again = follow(&first).await;
    assert_eq!(again.status, 403);
    assert!(again.text().contains("used already"), "{}", again.text());
    let late = link(HOUR);
    gw.advance(HOUR).await;
    assert_eq!(follow(&late).await.status, 403, "it has expired");
    let of_revoked = link(HOUR);
    gw.revoke(&ada).await;
    assert_eq!(follow(&of_revoked).await.status, 403, "its key is revoked");
}

#[tokio::test]
async fn the_root_leads_browsers_to_the_page_and_programs_nowhere() {
    let gw = gateway("").await;
    let browser = gw.anonymous().with("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
    let page = browser.get("/").await;
    assert_eq!((page.status, page.header("location")), (303, "/explorer/"));
    let raw = gw
        .raw("GET / HTTP/1.1\r\nhost: localhost\r\naccept: text/html\r\nconnection: close\r\n\r\n")
        .await;
    assert!(raw.starts_with("HTTP/1.1 303") && raw.contains("location: /explorer/\r\n"), "{raw}");
    for caller in [gw.anonymous(), gw.anonymous().with("accept", "*/*")] {
        let reply = caller.get("/").await;
        assert_eq!(reply.parts().0, 404);
        assert_eq!(reply.json()["error"], "not_found");
        assert_eq!(caller.post("/", json!({})).await.status, 404);
    }
}

/// A page of another site cannot show this one in a frame, where clicks would be its own.
#[tokio::test]
async fn the_page_refuses_to_be_framed() {
    let gw = gateway("").await;
    for path in ["/explorer", "/explorer/", "/explorer/signed-in"] {
        let page = gw.anonymous().get(path).await;
        let policy = page.header("content-security-policy");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
}
