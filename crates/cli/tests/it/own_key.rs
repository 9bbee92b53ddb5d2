//! The caller's own key goes nowhere: not to an upstream of any kind, and not to a program.

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};
use toolcrib_testkit::upstream::{
    Answers, FaultyHttp, OAuthBehaviour, OAuthServer, faulty_program,
};

use crate::support::{
    Recorder, Server, dir, eventually_async, key, recorder, toolcrib, write_config, write_seal_key,
};

/// In headers that clients and proxies add.
const CANARY: &str = "caller-canary";
/// One tool of each kind of source. `flows` calls all others.
const TOOLS: [&str; 7] = [
    "modern__echo",
    "legacy__echo",
    "pipe__echo",
    "api__show",
    "pack__node",
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

fn configure(dir: &Path, upstreams: &Upstreams) {
    write_seal_key(dir);
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
public_url = "https://crib.example"
[store]
seal_key = {{ file = "seal.key" }}
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
        modern = upstreams.modern.url(),
        legacy = upstreams.legacy.url(),
        api = upstreams.api.url,
        mine = upstreams.accounts.url("/mcp"),
    );
    write_config(dir, &text);
}

/// A caller that puts its key into one header, and the canary into others.
struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
}

impl Client {
    fn of(server: &Server, key: &str) -> Self {
        // It installs the cryptography of TLS.
        drop(server.caller(None));
        #[expect(clippy::disallowed_methods, reason = "a client of the program under test")]
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { http, url: server.url.clone(), key: key.to_owned() }
    }

    async fn post(&self, path: &str, header: &str, body: &Value) -> reqwest::Response {
        let value = match header {
            "authorization" => format!("Bearer {}", self.key),
            _ => self.key.clone(),
        };
        let mut request = self.http.post(format!("{}{path}", self.url)).json(body);
        for other in ["cookie", "x-forwarded-user", "proxy-authorization", "x-key", "user-agent"] {
            request = request.header(other, CANARY);
        }
        request.header(header, value).send().await.unwrap()
    }
}

#[tokio::test]
async fn the_callers_own_key_is_sent_to_no_upstream() {
    let (dir, upstreams) = (dir(), Upstreams::start());
    let dir = dir.path();
    configure(dir, &upstreams);
    let (_, key) = key(dir, &["--scope", "*"]);
    // Also in the environment of the server, as on a developer's machine.
    let server = Server::of(toolcrib(dir).arg("serve").env("TOOLCRIB_KEY", &key));
    let (client, caller) = (Client::of(&server, &key), server.caller(Some(&key)));
    for wanted in [json!({ "source": "mine", "tenant": true }), json!({ "source": "mine" })] {
        caller.connect(&upstreams.accounts, &wanted).await;
    }
    let tools = TOOLS.iter().chain(&["flows__all"]);
    let wanted: BTreeSet<String> = tools.map(|&tool| tool.to_owned()).collect();
    eventually_async("all tools are listed", async || {
        let (mut names, mut page) = (BTreeSet::new(), json!({}));
        loop {
            let (_, list) = caller.mcp("tools/list", page).await;
            let tools = list["result"]["tools"].as_array().unwrap().iter();
            names.extend(tools.map(|it| it["name"].as_str().unwrap().to_owned()));
            match &list["result"]["nextCursor"] {
                Value::String(cursor) => page = json!({ "cursor": cursor }),
                _ => return wanted.is_subset(&names),
            }
        }
    })
    .await;
    // Renewals, too.
    upstreams.accounts.end_access_tokens();
    let session = caller.open_mcp_session().await;
    for tool in &wanted {
        let id = tool.replacen("__", ".", 1);
        let input = json!({ "request": { "tool_id": id, "input": {} } });
        for header in ["authorization", "x-api-key", "otc-api-key", "oxp-api-key"] {
            for path in ["/tools/call", "/oxp/tools/call"] {
                let reply = client.post(path, header, &input).await;
                let text = reply.text().await.unwrap();
                assert!(text.contains("\"success\":true"), "{tool} {path} {header}: {text}");
                assert!(!tool.starts_with("ops") || !text.contains(&key), "{text}");
            }
        }
        let path = format!("/explorer/tools/{tool}/call");
        assert_eq!(client.post(&path, "authorization", &json!({})).await.status(), 200, "{tool}");
        let params = json!({ "name": tool, "arguments": {} });
        let called = caller.mcp_messages("tools/call", params).await.pop().unwrap();
        assert_ne!(called["result"]["isError"], json!(true), "{called}");
        assert!(called["result"].is_object(), "{called}");
        let (_, called) = caller.call_in_session(&session, tool, json!({})).await;
        assert!(called["result"].is_object(), "{called}");
    }
    // The secret part of the key is its end.
    let secret = key.get(key.len() - 20..).unwrap();
    for (place, got) in upstreams.got(dir) {
        assert!(!got.is_empty() && got.iter().all(|it| !it.is_empty()), "{place} got nothing");
        for text in got {
            assert!(!text.contains(secret), "{place} got the key: {text}");
            assert!(!text.to_lowercase().contains(CANARY), "{place} got a header: {text}");
        }
    }
    assert!(upstreams.accounts.whole().iter().any(|it| it.contains("grant_type=refresh_token")));
}
