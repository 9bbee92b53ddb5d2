//! People connect their accounts at MCP servers that others wrote, with their own OAuth: the router
//! and the example provider of the TypeScript SDK, and the provider of fastmcp.
//!
//! A browser is played by requests: it reads the form of the provider's page, and does not follow
//! the redirect back.

use std::{collections::BTreeMap, process::Command, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{RequestBuilder, Response, Url, redirect::Policy};
use serde_json::{Value, json};

use crate::rig::{Foreign, Server, http_client, tool};

const CALLBACK: &str = "https://crib.example/connect/notes/callback";

/// A gateway before a protected server, and the keys of its people.
struct Stage {
    host: Foreign,
    server: Server,
    keys: BTreeMap<&'static str, String>,
    http: reqwest::Client,
}

/// Posts `body` with a key.
fn post(server: &Server, path: &str, key: &str, body: &Value) -> RequestBuilder {
    server.http.post(format!("{}{path}", server.url)).bearer_auth(key).json(body)
}

async fn read(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or_default())
}

fn location(response: &Response) -> Url {
    let location = response.headers()["location"].to_str().unwrap();
    response.url().join(location).unwrap()
}

/// The value of the hidden field.
fn hidden(page: &str) -> &str {
    page.split("name=\"id\" value=\"").nth(1).unwrap().split('"').next().unwrap()
}

impl Stage {
    async fn start(command: &mut Command) -> Self {
        let host = Foreign::start(command);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("seal.key"), STANDARD.encode([7; 32])).unwrap();
        let config = format!(
            r#"
            [server]
            public_url = "https://crib.example"

            [store]
            seal_key = {{ file = "seal.key" }}

            [[role]]
            name = "reader"
            scopes = ["notes:use"]

            [[source]]
            id = "notes"
            kind = "mcp"
            url = "{}/mcp"
            tenants = ["default"]
            [source.oauth]
            of = "principal"
            [source.tools."*"]
            scopes = ["notes:use"]
            safety_tier = "pure"
            "#,
            host.url
        );
        let server = Server::over(folder, &config, &[]).await;
        let key = |name| (name, server.key_of(name, &["--scope", "notes:use"]));
        let keys = ["ann", "ben"].map(key).into_iter().collect();
        drop(http_client());
        #[expect(clippy::disallowed_methods, reason = "a browser of the test")]
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        Self { host, server, keys, http }
    }

    /// At the provider: opens the address, types the name, agrees, and comes back to the gateway.
    async fn agree(&self, address: &str, account: &str) -> BTreeMap<String, String> {
        let mut page = self.http.get(address).send().await.unwrap();
        if page.status().is_redirection() {
            page = self.http.get(location(&page)).send().await.unwrap();
        }
        let page = page.error_for_status().unwrap().text().await.unwrap();
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("id", hidden(&page))
            .append_pair("person", account)
            .finish();
        let request = self.http.post(format!("{}/agree", self.host.url)).body(form);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let back = location(&request.send().await.unwrap());
        assert!(back.as_str().starts_with(CALLBACK), "{back}");
        back.query_pairs().into_owned().collect()
    }

    /// Connects the account that `wanted` names, with `key`.
    async fn connect(&self, key: &str, wanted: &Value, account: &str) -> Value {
        let begun = post(&self.server, "/v1/connections/begin", key, wanted).send().await.unwrap();
        let cookies = begun.headers().get_all("set-cookie").iter();
        let cookies = cookies.map(|cookie| cookie.to_str().unwrap().split(';').next().unwrap());
        let cookie = cookies.collect::<Vec<_>>().join("; ");
        let begun: Value = begun.json().await.unwrap();
        let address = begun["address"].as_str().unwrap_or_else(|| panic!("{begun}"));
        let mut back = self.agree(address, account).await;
        let mut body = json!({ "source": "notes" });
        for name in ["state", "code", "iss"] {
            if let Some(value) = back.remove(name) {
                body[name] = json!(value);
            }
        }
        let finish = post(&self.server, "/v1/connections/finish", key, &body);
        let (status, answer) = read(finish.header("cookie", cookie)).await;
        assert_eq!(status, 200, "{answer}");
        answer["connection"].clone()
    }

    async fn call(&self, who: &str) -> (u16, Value) {
        let path = "/explorer/tools/notes__whoami/call";
        read(post(&self.server, path, &self.keys[who], &json!({}))).await
    }

    /// The account that the server says a call had.
    async fn account(&self, who: &str) -> String {
        let (status, answer) = self.call(who).await;
        assert_eq!(status, 200, "{who}: {answer}");
        answer["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// The state of somebody's connection.
    async fn state(&self, who: &str) -> String {
        let path = format!("{}/v1/connections", self.server.url);
        let (_, list) = read(self.server.http.get(path).bearer_auth(&self.keys[who])).await;
        list["connections"][0]["state"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned()
    }
}

async fn two_people_use_their_own_accounts(command: &mut Command) {
    let mut stage = Stage::start(command).await;
    let admin = stage.server.admin.clone();
    stage.connect(&admin, &json!({ "source": "notes", "tenant": true }), "the team").await;
    stage.server.ready(&["notes"]).await;
    for who in ["ann", "ben"] {
        let (status, refused) = stage.call(who).await;
        assert_eq!(status, 403, "{refused}");
        let link = refused["details"]["link"].as_str().unwrap();
        let secret = link.rsplit('/').next().unwrap();
        let wanted = json!({ "link": secret });
        let key = stage.keys[who].clone();
        let connected = stage.connect(&key, &wanted, &format!("{who}@notes")).await;
        assert_eq!(connected["state"], "active");
    }
    let calls = (0..20).map(|number| {
        let (who, stage) = (["ann", "ben"][number % 2], &stage);
        async move { assert_eq!(stage.account(who).await, format!("{who}@notes")) }
    });
    futures_util::future::join_all(calls).await;

    // The provider revokes ann's consent.
    assert_eq!(stage.host.tell("revoke ann@notes"), "done");
    for _ in 0..2 {
        let (status, refused) = stage.call("ann").await;
        assert_eq!(
            (status, &refused["details"]["connection"]),
            (403, &json!("required")),
            "{refused}"
        );
        assert_eq!(stage.state("ann").await, "needs_consent");
        assert_eq!(stage.account("ben").await, "ben@notes");
    }
    let key = stage.keys["ann"].clone();
    let connected = stage.connect(&key, &json!({ "source": "notes" }), "ann@notes").await;
    assert_eq!(stage.account("ann").await, "ann@notes");

    // All access tokens end; each person's account is renewed once.
    assert_eq!(stage.host.tell("expire"), "done");
    for who in ["ann", "ben", "ann"] {
        assert_eq!(stage.account(who).await, format!("{who}@notes"));
    }
    let renewals: usize = stage.host.tell("renewals").parse().unwrap();
    assert!((2..=3).contains(&renewals), "{renewals}, with that of the tenant");

    // A person disconnects, and the provider hears of it.
    assert_ne!(stage.host.tell("tokens ann@notes"), "0");
    let path = format!("{}/v1/connections/{}", stage.server.url, connected["id"].as_str().unwrap());
    let removed = stage.server.http.delete(path).bearer_auth(&key).send().await.unwrap();
    assert_eq!(removed.status(), 200);
    assert_eq!(stage.call("ann").await.0, 403);
    for _ in 0..100 {
        if stage.host.tell("tokens ann@notes") == "0" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(stage.host.tell("tokens ann@notes"), "0");
    assert_eq!(stage.account("ben").await, "ben@notes");
    assert_eq!(stage.host.tell("mixed"), "0", "no session was used with another account");
}

/// I-114, at a server of the TypeScript SDK, which has sessions.
#[tokio::test]
async fn two_people_connect_at_a_server_of_the_typescript_sdk() {
    let (Some(node), Some(clients), Some(drivers)) =
        (tool("TOOLCRIB_NODE"), tool("TOOLCRIB_CLIENTS_DIR"), tool("TOOLCRIB_CLIENT_DRIVERS"))
    else {
        return;
    };
    #[expect(clippy::disallowed_methods, reason = "the server under test is a program of its own")]
    let mut command = Command::new(node);
    let command = command.arg(drivers.join("oauth-server.mjs")).arg(clients);
    two_people_use_their_own_accounts(command).await;
}

/// I-114, at a server of fastmcp, which has none.
#[tokio::test]
async fn two_people_connect_at_a_server_of_fastmcp() {
    let (Some(python), Some(drivers)) =
        (tool("TOOLCRIB_PYTHON_FASTMCP"), tool("TOOLCRIB_CLIENT_DRIVERS"))
    else {
        return;
    };
    #[expect(clippy::disallowed_methods, reason = "the server under test is a program of its own")]
    let mut command = Command::new(python);
    two_people_use_their_own_accounts(command.arg(drivers.join("oauth_server.py"))).await;
}
