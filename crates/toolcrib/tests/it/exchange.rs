//! The tokens of callers, exchanged for tokens of a service: a real issuer, a real token endpoint,
//! and an MCP server that keeps what it gets.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::{
    gateway::{Actor, Reply, TestGateway, TestIssuer, TestProvider},
    upstream::{OAuthBehaviour, OAuthServer},
};

use crate::bridge;

struct Stage {
    server: OAuthServer,
    gw: TestGateway,
}

impl Stage {
    /// A gateway with the issuers of `identity`, and a source with `exchange`.
    async fn new(identity: &str, exchange: &str, has_sessions: bool) -> Self {
        let behaviour = OAuthBehaviour { has_sessions, ..OAuthBehaviour::default() };
        let server = OAuthServer::start(behaviour);
        server.add_client("crib", Some("client-canary"));
        let config = format!(
            "{identity}\n\
             [[source]]\nid = \"notes\"\nkind = \"mcp\"\nurl = \"{}\"\ntenants = [\"acme\"]\n\
             [source.oauth]\nof = \"principal\"\n{exchange}\nclient_id = \"crib\"\n\
             client_secret = {{ env = \"CLIENT\" }}\nscopes = [\"read\"]\n\
             authorization_url = \"{}\"\ntoken_url = \"{}\"\n\
             [source.tools.\"*\"]\nscopes = [\"files:read\"]\n",
            server.url("/mcp"),
            server.url("/authorize"),
            server.url("/token"),
        );
        let builder = TestGateway::builder().config(&config).secret("CLIENT", "client-canary");
        let builder = builder.secret("PROVIDER", TestProvider::SECRET);
        let gw = builder.upstreams().start().await;
        let stage = Self { server, gw };
        stage.connect_tenant().await;
        stage
    }

    async fn of_issuer(issuer: &TestIssuer, exchange: &str, has_sessions: bool) -> Self {
        let public = "[server]\npublic_url = \"https://crib.example\"\n";
        Self::new(&format!("{public}{}", issuer.config("")), exchange, has_sessions).await
    }

    /// An administrator connects the account that lists the tools.
    async fn connect_tenant(&self) {
        let root = self.gw.principal("root", ["connections:manage", "files:read"]).await;
        self.server.sign_in("robot");
        let body = json!({ "source": "notes", "tenant": true });
        let begun = root.post("/v1/connections/begin", body).await;
        assert_eq!(begun.status, 200, "{}", begun.text());
        let cookie = begun.header("set-cookie").split(';').next().unwrap().to_owned();
        let address = begun.json()["address"].as_str().unwrap().to_owned();
        let answer = self.server.consent(&address);
        let body = json!({ "source": "notes", "state": answer["state"], "code": answer["code"] });
        let finished = root.with("cookie", &cookie).post("/v1/connections/finish", body).await;
        assert_eq!(finished.status, 200, "{}", finished.text());
        for _ in 0..500 {
            if root.get("/v1/tools").await.json().as_array().unwrap().len() == 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the tools are not listed");
    }

    /// A token of `name`, different from all others with another `number`.
    fn token(&self, issuer: &TestIssuer, name: &str, number: u64) -> String {
        let mut claims = issuer.claims(self.gw.gateway.clock().now());
        claims["sub"] = json!(name);
        claims["jti"] = json!(number);
        issuer.sign(&claims)
    }

    async fn call(&self, caller: &Actor) -> Reply {
        let call = json!({ "request": { "tool_id": "notes.whoami" } });
        caller.post("/tools/call", call).await
    }

    async fn whoami(&self, token: &str) -> String {
        let reply = self.call(&self.gw.bearer(token)).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let text = reply.text();
        ["ann", "bob", "robot"]
            .into_iter()
            .filter(|name| text.contains(&format!("\"{name}\"")))
            .collect()
    }

    /// The forms of exchanges.
    fn exchanges(&self) -> Vec<Value> {
        let forms = self.server.arrived("/token").into_iter();
        let forms = forms.map(|form| serde_json::from_str::<Value>(&form.body).unwrap());
        forms.filter(|form| form["grant_type"].as_str().unwrap().starts_with("urn:")).collect()
    }
}

/// I-120
#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_caller_is_exchanged_and_goes_nowhere_else() {
    let issuer = TestIssuer::start().await;
    for (exchange, member, has_sessions) in [
        ("exchange = \"token-exchange\"\naudience = \"notes-api\"", "subject_token", false),
        ("exchange = \"on-behalf-of\"", "assertion", true),
    ] {
        let stage = Stage::of_issuer(&issuer, exchange, has_sessions).await;
        let token = |name: &str, number| stage.token(&issuer, name, number);
        let (ann, again, bob) = (token("ann", 1), token("ann", 2), token("bob", 3));
        for (token, account) in [(&ann, "ann"), (&again, "ann"), (&bob, "bob")] {
            stage.server.exchange(token, account);
        }
        let calls = (0..8).map(|number| {
            let (token, account) = if number % 2 == 0 { (&ann, "ann") } else { (&bob, "bob") };
            let stage = &stage;
            async move { assert_eq!(stage.whoami(token).await, account) }
        });
        futures_util::future::join_all(calls).await;
        let sent = stage.exchanges();
        assert_eq!(sent.len(), 2, "one exchange for each token: {sent:?}");
        assert!(sent.iter().all(|form| form["scope"] == "read"), "{sent:?}");
        let is_standard = member == "subject_token";
        let audience = if is_standard { json!("notes-api") } else { Value::Null };
        assert!(sent.iter().all(|form| form["audience"] == audience), "{sent:?}");
        let mut subjects: Vec<_> = sent.iter().map(|form| form[member].as_str().unwrap()).collect();
        subjects.sort_unstable();
        let mut tokens = [ann.as_str(), &bob];
        tokens.sort_unstable();
        assert_eq!(subjects, tokens);
        // A new token of the same person is exchanged itself.
        assert_eq!(stage.whoami(&again).await, "ann");
        assert_eq!(stage.exchanges().len(), 3);
        // A token that the service rejects is replaced within the call, which runs once.
        stage.server.end_access_tokens();
        assert_eq!(stage.whoami(&ann).await, "ann");
        assert_eq!(stage.exchanges().len(), 4);

        let explained = stage.gw.bearer(&ann).get("/v1/explain?tool=notes__whoami").await.text();
        assert!(explained.contains("exchanged for one of the service"), "{explained}");

        let events = format!("{:?}", stage.gw.events().await);
        for token in [&ann, &again, &bob] {
            let signature = token.rsplit('.').next().unwrap();
            for request in stage.server.arrived("/mcp") {
                assert!(!format!("{request:?}").contains(signature), "{request:?}");
            }
            assert!(!events.contains(signature));
        }
        for secret in ["access-canary", "client-canary"] {
            assert!(!events.contains(secret), "{secret}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_exchange_nothing_is_sent() {
    let issuer = TestIssuer::start().await;
    let stage = Stage::of_issuer(&issuer, "exchange = \"token-exchange\"", false).await;
    let before = stage.server.calls().len();
    // The server refuses this token. There is no other account for its caller.
    let token = stage.token(&issuer, "ann", 1);
    let refused = stage.call(&stage.gw.bearer(&token)).await;
    assert!(refused.text().contains("token is not accepted for this tool"), "{}", refused.text());
    assert!(!refused.text().contains("canary"), "{}", refused.text());
    // A caller with a key has no token, and connects an account.
    let key = stage.gw.principal("ada", ["files:read"]).await;
    let refused = stage.call(&key).await;
    assert!(refused.text().contains("/explorer#/connect/"), "{}", refused.text());
    assert_eq!(stage.server.calls().len(), before);
    assert_eq!(stage.exchanges().len(), 1);
    // A browser session has no token either, and none of it is stored.
    let page = stage.gw.bearer(&token).with("origin", &stage.gw.url);
    let page = page.post("/v1/sessions", json!({})).await;
    assert_eq!(page.status, 201, "{}", page.text());
    let cookie = page.header("set-cookie").split(';').next().unwrap().to_owned();
    let page = stage
        .gw
        .anonymous()
        .with("cookie", &cookie)
        .with("toolcrib-session", page.json()["secret"].as_str().unwrap());
    let explained = page.get("/v1/explain?tool=notes__whoami").await.text();
    assert!(explained.contains("no account is connected"), "{explained}");
    assert_eq!(stage.exchanges().len(), 1);
    let signature = token.rsplit('.').next().unwrap().as_bytes();
    for file in std::fs::read_dir(stage.gw.directory()).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_dir() {
            continue;
        }
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(!bytes.windows(signature.len()).any(|part| part == signature));
    }
}

/// A service would get a token of its caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_exchanged_for_itself_is_not_sent() {
    let issuer = TestIssuer::start().await;
    let stage = Stage::of_issuer(&issuer, "exchange = \"token-exchange\"", false).await;
    let before = stage.server.calls().len();
    let token = stage.token(&issuer, "ann", 1);
    let answer = json!({
        "access_token": token, "token_type": "Bearer", "expires_in": 300,
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
    });
    stage.server.behave(|it| it.token_answer = Some((200, answer.to_string())));
    let refused = stage.call(&stage.gw.bearer(&token)).await;
    assert_eq!(stage.exchanges().len(), 1);
    assert_eq!(stage.server.calls().len(), before);
    let text = refused.text();
    assert!(text.contains("token is not accepted for this tool's service"), "{text}");
    assert!(!text.contains(&token), "{text}");
}

/// A client with an access token of this server has no token of the provider to exchange.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_was_signed_in_here_connects_an_account() {
    let provider = TestProvider::start().await;
    let identity = provider.config("registration = true");
    let stage = Stage::new(&identity, "exchange = \"token-exchange\"", false).await;
    let (_, access, _) = bridge::signed_in(&stage.gw).await;
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "notes__whoami", "arguments": {} },
    });
    let client = stage.gw.bearer(&access).with("accept", "application/json, text/event-stream");
    let before = stage.server.calls().len();
    let refused = client.post("/mcp", call).await;
    assert!(refused.text().contains("/explorer#/connect/"), "{}", refused.text());
    assert_eq!((stage.exchanges().len(), stage.server.calls().len()), (0, before));
    let sent = stage.server.whole().concat();
    assert!(!sent.contains(&access) && !sent.contains("provider-"), "{sent}");
}
