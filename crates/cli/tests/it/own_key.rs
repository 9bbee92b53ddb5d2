//! The caller's own credential goes nowhere: not to an upstream of any kind, and not to a program.

use std::{collections::BTreeSet, path::Path};

use chrono::Utc;
use serde_json::{Value, json};
use toolcrib_testkit::{
    gateway::TestProvider,
    upstream::{Answers, FaultyHttp, OAuthBehaviour, OAuthServer, faulty_program},
};

use crate::{
    bridge::{Bridge, stateless},
    support::{
        Caller, Recorder, Server, dir, eventually_async, key, recorder, toolcrib, write_config,
        write_private, write_seal_key,
    },
};

/// In headers that clients and proxies add.
const CANARY: &str = "caller-canary";
/// The secret of a client of the bridge.
const DESK: &str = "the-secret-of-desk-with-32-bytes";
/// One tool of each kind of source. `flows` calls all others of MCP.
const TOOLS: [&str; 8] = [
    "modern__echo",
    "legacy__echo",
    "pipe__echo",
    "api__show",
    "pack__node",
    "everyday__json-diff",
    "ops__show",
    "mine__whoami",
];

/// The upstreams, and what they have got.
struct Upstreams {
    modern: FaultyHttp,
    legacy: FaultyHttp,
    api: Recorder,
    pack: Recorder,
    accounts: OAuthServer,
}

impl Upstreams {
    fn start() -> Self {
        let answer = |_: &str, _: &str| recorder::json(200, "{}");
        Self {
            modern: FaultyHttp::start(Answers::Json, &["era=modern"]),
            legacy: FaultyHttp::start(Answers::Events, &["era=legacy"]),
            api: Recorder::start(answer),
            pack: Recorder::start(answer),
            accounts: OAuthServer::start(OAuthBehaviour::default()),
        }
    }

    /// Everything that arrived, by place.
    fn got(&self, dir: &Path) -> Vec<(&'static str, Vec<String>)> {
        let received = |upstream: &FaultyHttp| {
            let received = upstream.received();
            received.iter().map(|it| format!("{:?} {}", it.headers, it.body)).collect()
        };
        let read = |name: &str| vec![std::fs::read_to_string(dir.join(name)).unwrap()];
        vec![
            ("modern", received(&self.modern)),
            ("legacy", received(&self.legacy)),
            ("api", self.api.heard()),
            ("pack", self.pack.heard()),
            ("accounts", self.accounts.whole()),
            ("the environment and arguments of a server", read("started")),
            ("what a server reads", read("read")),
        ]
    }
}

fn configure(dir: &Path, upstreams: &Upstreams, provider: &TestProvider) {
    write_seal_key(dir);
    write_private(&dir.join("provider.secret"), TestProvider::SECRET);
    write_private(&dir.join("desk.secret"), DESK);
    let openapi = json!({ "openapi": "3.1.0", "info": { "title": "t", "version": "1" },
        "paths": { "/show": { "get": { "operationId": "show" } } } });
    std::fs::write(dir.join("api.json"), openapi.to_string()).unwrap();
    std::fs::create_dir(dir.join("pack")).unwrap();
    let pack = json!({
        "name": "vendor.test.made", "version": "1.0.0", "kind": "node",
        "engines": { "openwop": ">=1.0.0 <2.0.0" },
        "runtime": { "language": "remote", "entry": format!("{}/", upstreams.pack.url) },
        "nodes": [{ "typeId": "vendor.test.made.node",
            "x-toolcrib-request": { "method": "GET", "path": "/" } }],
    });
    std::fs::write(dir.join("pack/pack.json"), pack.to_string()).unwrap();
    let steps: String = ["mcp:modern.echo", "mcp:legacy.echo", "mcp:pipe.echo", "mcp:mine.whoami"]
        .iter()
        .enumerate()
        .map(|(number, tool)| format!("  - {{ id: s{number}, tool: '{tool}', arguments: {{}} }}\n"))
        .collect();
    let flow = format!("id: all\nsteps:\n{steps}outputs:\n  last: {{ $ref: /steps/s3/result }}\n");
    std::fs::write(dir.join("all.yaml"), flow).unwrap();
    let program = faulty_program();
    let program = program.to_str().unwrap();
    let [started, record] = ["started", "read"].map(|name| dir.join(name).display().to_string());
    let notes = r#"{ env; echo "$0 $@"; } >> "$STARTED"; exec "$0" "$@""#;
    let command = json!(["/bin/sh", "-c", notes, program, format!("record={record}")]);
    let text = format!(
        r#"
[server]
listen = "127.0.0.1:0"
public_url = "{public}"
[store]
seal_key = {{ file = "seal.key" }}
[gate]
rate = "off"
[[role]]
name = "all"
scopes = ["*"]
[[auth.jwt]]
issuer = "{provider}"
audiences = ["{public}"]
principal_prefix = "id|"
tenant = "default"
claims = {{ roles = "groups" }}
roles = ["all"]
[auth.bridge]
issuer = "{provider}"
client_id = "{client}"
client_secret = {{ file = "provider.secret" }}
assertion_issuers = ["{provider}"]
[[auth.bridge.client]]
id = "desk"
name = "Desk"
secret = {{ file = "desk.secret" }}
[toolset.lean]
allow = ["*"]
meta = "search"
[sources]
sandbox_as_root = true
[oxp]
enabled = true
[[source]]
id = "modern"
kind = "mcp"
url = "{modern}"
[[source]]
id = "legacy"
kind = "mcp"
url = "{legacy}"
[[source]]
id = "pipe"
kind = "mcp"
command = {command}
env = {{ STARTED = "{started}" }}
[[source]]
id = "api"
kind = "connector"
document = "api.json"
base_url = "{api}"
[[source]]
id = "pack"
kind = "node-pack"
pack = "./pack"
grants = ["http"]
allow = ["127.0.0.1"]
[[source]]
id = "everyday"
kind = "node-pack"
pack = "vendor.toolcrib.everyday"
[[source]]
id = "ops"
kind = "host-extension"
[source.commands.show]
program = "/usr/bin/env"
[source.tools."*"]
approval = "never"
approval_reason = "it only shows"
[[source]]
id = "mine"
kind = "mcp"
url = "{mine}"
tenants = ["default"]
[source.oauth]
of = "principal"
[[source]]
id = "flows"
kind = "workflow"
files = ["all.yaml"]
"#,
        public = TestProvider::PUBLIC,
        provider = provider.url,
        client = TestProvider::CLIENT,
        modern = upstreams.modern.url(),
        legacy = upstreams.legacy.url(),
        api = upstreams.api.url,
        mine = upstreams.accounts.url("/mcp"),
    );
    write_config(dir, &text);
}

/// A credential of a caller.
struct Credential {
    text: String,
    /// Whether it is accepted at the addresses of MCP alone.
    is_of_mcp: bool,
}

impl Credential {
    fn of(text: String) -> Self {
        Self { text, is_of_mcp: false }
    }

    /// A token of `[[auth.jwt]]`.
    fn token(provider: &TestProvider) -> Self {
        Self::of(provider.sign("at+jwt", &claims(provider)))
    }

    /// A token of the bridge, for the person of [`Self::token`].
    async fn of_bridge(client: &Client, provider: &TestProvider) -> Self {
        let mut claims = claims(provider);
        claims["client_id"] = json!("desk");
        claims["resource"] = json!(format!("{}/mcp", TestProvider::PUBLIC));
        claims["jti"] = json!("once");
        let assertion = provider.sign("oauth-id-jag+jwt", &claims);
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
            .append_pair("assertion", &assertion)
            .append_pair("client_id", "desk")
            .append_pair("client_secret", DESK)
            .finish();
        let request = client.http.post(format!("{}/oauth/token", client.url)).body(form);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        let token = answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}"));
        Self { text: token.to_owned(), is_of_mcp: true }
    }

    /// The end, which is of the secret part.
    fn secret(&self) -> &str {
        self.text.get(self.text.len() - 20..).unwrap()
    }
}

fn claims(provider: &TestProvider) -> Value {
    let now = Utc::now().timestamp();
    json!({ "iss": provider.url, "aud": TestProvider::PUBLIC, "sub": "ann", "groups": ["all"],
        "iat": now, "exp": now + 1_800 })
}

fn arguments(tool: &str) -> Value {
    match tool {
        "everyday__json-diff" => json!({ "from": 1, "to": 2 }),
        _ => json!({}),
    }
}

/// A client that sends a credential in one header, and the canary in others.
struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    fn of(server: &Server) -> Self {
        // It installs the cryptography of TLS.
        drop(server.caller(None));
        #[expect(clippy::disallowed_methods, reason = "a client of the program under test")]
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { http, url: server.url.clone() }
    }

    fn post(&self, path: &str, header: &str, credential: &Credential) -> reqwest::RequestBuilder {
        let value = match header {
            "authorization" => format!("Bearer {}", credential.text),
            _ => credential.text.clone(),
        };
        let mut request = self.http.post(format!("{}{path}", self.url));
        for other in ["cookie", "x-forwarded-user", "proxy-authorization", "x-key", "user-agent"] {
            request = request.header(other, CANARY);
        }
        request.header(header, value)
    }

    /// Calls `tool` over everything but MCP, and returns the answers.
    async fn call(&self, tool: &str, credential: &Credential) -> Vec<String> {
        let id = tool.replacen("__", ".", 1).replace('-', "_");
        let input = json!({ "request": { "tool_id": id, "input": arguments(tool) } });
        let mut answers = Vec::new();
        for header in ["authorization", "x-api-key", "otc-api-key", "oxp-api-key"] {
            for path in ["/tools/call", "/otc/tools/call", "/oxp/tools/call"] {
                let request = self.post(path, header, credential).json(&input);
                let text = request.send().await.unwrap().text().await.unwrap();
                assert!(text.contains("\"success\":true"), "{tool} {path} {header}: {text}");
                answers.push(text);
            }
        }
        let path = format!("/explorer/tools/{tool}/call");
        let request = self.post(&path, "authorization", credential).json(&arguments(tool));
        let reply = request.send().await.unwrap();
        assert_eq!(reply.status(), 200, "{tool}");
        answers.push(reply.text().await.unwrap());
        answers
    }

    /// Calls `tool` at an address of MCP, and returns the answer.
    async fn call_mcp(
        &self,
        path: &str,
        tool: &str,
        arguments: Value,
        credential: &Credential,
    ) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let request = self
            .post(path, "authorization", credential)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .json(&stateless(1, "tools/call", params));
        let text = request.send().await.unwrap().text().await.unwrap();
        // The last event of a stream is the answer.
        let last = text.lines().rev().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(last.unwrap_or(&text))
            .unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// Calls every tool in every way that accepts `credential`.
async fn call_everything(dir: &Path, server: &Server, credential: &Credential) {
    let (client, caller) = (Client::of(server), server.caller(Some(&credential.text)));
    let session = caller.open_mcp_session().await;
    let mut bridge = Bridge::start(dir, &server.url, &credential.text, &[]);
    for tool in wanted() {
        let tool = tool.as_str();
        let direct = client.call_mcp("/mcp", tool, arguments(tool), credential).await;
        let meta = json!({ "name": tool, "arguments": arguments(tool) });
        let meta_call = client.call_mcp("/mcp/lean", "call_tool", meta.clone(), credential).await;
        let (_, in_session) = caller.call_in_session(&session, tool, arguments(tool)).await;
        let by_lines = bridge.answer(&stateless(1, "tools/call", meta));
        let mut answers = Vec::new();
        for called in [direct, meta_call, in_session, by_lines] {
            assert_ne!(called["result"]["isError"], json!(true), "{called}");
            assert!(called["result"].is_object(), "{called}");
            answers.push(called.to_string());
        }
        if !credential.is_of_mcp {
            answers.extend(client.call(tool, credential).await);
        }
        for text in answers {
            assert!(!text.contains(credential.secret()), "{tool} got the credential: {text}");
        }
    }
    bridge.end();
}

/// The names of all tools to call.
fn wanted() -> BTreeSet<String> {
    TOOLS.iter().chain(&["flows__all"]).map(|&tool| tool.to_owned()).collect()
}

async fn lists_everything(caller: &Caller) -> bool {
    let (mut names, mut page) = (BTreeSet::new(), json!({}));
    loop {
        let (_, list) = caller.mcp("tools/list", page).await;
        let tools = list["result"]["tools"].as_array().unwrap().iter();
        names.extend(tools.map(|it| it["name"].as_str().unwrap().to_owned()));
        match &list["result"]["nextCursor"] {
            Value::String(cursor) => page = json!({ "cursor": cursor }),
            _ => return wanted().is_subset(&names),
        }
    }
}

/// The number of accounts whose list of tools was read.
fn accounts_with_lists(accounts: &OAuthServer) -> usize {
    let requests = accounts.arrived("/mcp").into_iter();
    let lists = requests.filter(|it| it.body.contains("\"tools/list\"") && !it.token.is_empty());
    lists.map(|it| it.token).collect::<BTreeSet<_>>().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_callers_own_key_is_sent_to_no_upstream() {
    let (dir, upstreams) = (dir(), Upstreams::start());
    let (dir, provider) = (dir.path(), TestProvider::start().await);
    configure(dir, &upstreams, &provider);
    let (_, key) = key(dir, &["--scope", "*"]);
    // Also in the environment of the server, as on a developer's machine.
    let server = Server::of(toolcrib(dir).arg("serve").env("TOOLCRIB_KEY", &key));
    let (key, token) = (Credential::of(key), Credential::token(&provider));
    let of_bridge = Credential::of_bridge(&Client::of(&server), &provider).await;
    let of_key = server.caller(Some(&key.text));
    of_key.connect(&upstreams.accounts, &json!({ "source": "mine", "tenant": true })).await;
    eventually_async("all tools are listed", async || lists_everything(&of_key).await).await;
    for credential in [&key, &token] {
        let caller = server.caller(Some(&credential.text));
        caller.connect(&upstreams.accounts, &json!({ "source": "mine" })).await;
    }
    // With the account of the tenant, and with those of two people.
    let are_read = async || accounts_with_lists(&upstreams.accounts) >= 3;
    eventually_async("the accounts' own lists are read", are_read).await;
    // Renewals, too.
    upstreams.accounts.end_access_tokens();
    let credentials = [key, token, of_bridge];
    for credential in &credentials {
        call_everything(dir, &server, credential).await;
    }
    for (place, got) in upstreams.got(dir) {
        assert!(!got.is_empty() && got.iter().all(|it| !it.is_empty()), "{place} got nothing");
        for text in got {
            for credential in &credentials {
                let secret = credential.secret();
                assert!(!text.contains(secret), "{place} got the credential: {text}");
            }
            assert!(!text.to_lowercase().contains(CANARY), "{place} got a header: {text}");
        }
    }
    assert!(upstreams.accounts.whole().iter().any(|it| it.contains("grant_type=refresh_token")));
}
