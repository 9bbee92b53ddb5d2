//! `credentials`, with an upstream that requires a credential and echoes it wherever possible.

use std::{io::Write as _, path::Path, process::Stdio};

use serde_json::{Value, json};
use toolcrib_testkit::upstream::EchoServer;

use crate::{
    record::contents,
    support::{Caller, CommandOutput, Server, dir, finish, key, run, toolcrib, write_config},
};

/// A part of every secret value.
const CANARY: &str = "canary";
const VALUE: &str = "v4lue-canary/with \"quotes\"";
const TOOLS: [&str; 6] = ["ask", "break", "echo", "fail", "progress", "refuse"];

/// Sources `wants` at each of `urls`, which present the credential of that name.
fn configure(dir: &Path, sources: &[(&str, String)]) {
    if !dir.join("seal.key").exists() {
        run(dir, &["credentials", "new-key", "--out", "seal.key"]).ok();
    }
    let mut text = "[server]\nlisten = \"127.0.0.1:0\"\n[store]\n\
                    url = \"sqlite:state/toolcrib.db\"\nseal_key = { file = \"seal.key\" }\n"
        .to_owned();
    for (name, url) in sources {
        text += &format!(
            "[[source]]\nid = \"{name}\"\nkind = \"mcp\"\nurl = \"{url}\"\ncredential = \"{name}\"\n\
             tenants = [\"default\"]\n[source.tools.\"*\"]\nscopes = [\"read\"]\n"
        );
    }
    write_config(dir, &text);
}

/// Runs the program with `input` on stdin.
fn fed(dir: &Path, args: &[&str], input: &str) -> CommandOutput {
    let mut command = toolcrib(dir);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that rejects its arguments does not read stdin.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn set(dir: &Path, name: &str, how: &[&str], value: &str) -> String {
    let args = ["--json", "credentials", "set", name, "--audience", "127.0.0.1"];
    let stored = fed(dir, &[&args, how].concat(), value).ok().json();
    stored["id"].as_str().unwrap().to_owned()
}

/// Collects output, and searches it for the canary.
#[derive(Default)]
struct Seen(Vec<(String, String)>);

impl Seen {
    fn note(&mut self, whence: impl Into<String>, text: impl Into<String>) {
        self.0.push((whence.into(), text.into()));
    }

    fn ran(&mut self, dir: &Path, args: &[&str]) -> CommandOutput {
        let ran = run(dir, args);
        self.note(args.join(" "), format!("{}{}", ran.stdout, ran.stderr));
        ran
    }

    /// Asserts that no collected output contains the canary, in any case or encoding.
    fn is_clean(&self) {
        for (whence, text) in &self.0 {
            let plain = text.replace("\\u00", "%").to_lowercase();
            let decoded = percent_decoded(&plain);
            for text in [text.to_lowercase(), plain, decoded] {
                let at = text.find(CANARY);
                let around = at.map(|at| text[at.saturating_sub(200)..].chars().take(300));
                assert!(at.is_none(), "{whence}: …{}", around.unwrap().collect::<String>());
            }
        }
    }
}

fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                out.push(char::from(code));
                out += &part[2..];
            }
            None => out += part,
        }
    }
    out
}

/// Calls every tool of `source` through every surface that calls.
async fn call_everything(caller: &Caller, source: &str, seen: &mut Seen) {
    for tool in TOOLS {
        let name = format!("{source}__{tool}");
        for path in ["/tools/call", "/oxp/tools/call"] {
            let asked =
                json!({ "request": { "tool_id": format!("{source}.{tool}"), "input": {} } });
            let (status, body) = caller.post(path, &asked).await;
            if ["echo", "fail"].contains(&tool) {
                assert!(body.to_string().contains("[REDACTED:cred-"), "{path} {status} {body}");
            }
            seen.note(format!("{path} {name}"), body.to_string());
        }
        let path = format!("/explorer/tools/{name}/call");
        seen.note(&path, caller.post(&path, &json!({})).await.1.to_string());
        let params = json!({ "name": name, "arguments": {}, "_meta": { "progressToken": "p",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} } } });
        let told = caller.mcp_messages("tools/call", params).await;
        if tool == "progress" {
            let progress = told.iter().find(|it| it["method"] == "notifications/progress");
            assert!(progress.unwrap().to_string().contains("[REDACTED:cred-"), "{told:?}");
        }
        seen.note(format!("/mcp {name}"), format!("{told:?}"));
    }
}

/// The same through `toolcrib mcp`, by lines.
fn call_everything_by_lines(dir: &Path, source: &str, seen: &mut Seen) {
    let mut lines = String::new();
    let mut request = |id: usize, method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        lines += &format!("{message}\n");
    };
    let client = json!({ "name": "test", "version": "0" });
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    request(0, "initialize", hello);
    request(1, "tools/list", json!({}));
    for (at, tool) in TOOLS.iter().enumerate() {
        let name = format!("{source}__{tool}");
        let params = json!({ "name": name, "_meta": { "progressToken": at } });
        request(2 + at, "tools/call", params);
    }
    let said = fed(dir, &["-vv", "mcp"], &lines).ok();
    let answers: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answered = |id: usize| {
        let answer = answers.iter().find(|it| it["id"] == id);
        answer.unwrap_or_else(|| panic!("no answer to {id}: {}", said.stdout)).to_string()
    };
    let echo = 2 + TOOLS.iter().position(|tool| *tool == "echo").unwrap();
    for id in [1, echo] {
        assert!(answered(id).contains("[REDACTED:cred-"), "{}", answered(id));
    }
    seen.note("mcp by lines", said.stdout);
    seen.note("mcp by lines, log", said.stderr);
}

/// I-36: the values of credentials, access tokens and refresh tokens among them, are in no answer,
/// list, record, number, log or file, although the server repeats what it is sent everywhere.
#[tokio::test(flavor = "multi_thread")]
async fn no_surface_shows_a_credential() {
    let plain = EchoServer::start(&[VALUE]);
    let issuer = EchoServer::start(&[]);
    issuer.exchange("refresh-canary-0", "client-canary");
    let dir = dir();
    let dir = dir.path();
    let at = |query: &str| plain.url(&format!("/mcp?{query}"));
    let sources = [
        ("bearer", at("a")),
        ("header", at("b")),
        ("query", at("c=1")),
        ("basic", at("d")),
        ("refresh", issuer.url("/mcp")),
    ];
    configure(dir, &sources);
    let mut seen = Seen::default();
    set(dir, "bearer", &["--bearer"], VALUE);
    set(dir, "header", &["--header", "X-Key"], VALUE);
    std::fs::write(dir.join("value"), format!("{VALUE}\n")).unwrap();
    set(dir, "query", &["--query", "key", "--value-file", "value"], "");
    std::fs::remove_file(dir.join("value")).unwrap();
    let args = ["credentials", "set", "basic", "--audience", "127.0.0.1", "--basic", "ann"];
    let mut command = toolcrib(dir);
    finish(command.args(args).args(["--value-env", "VALUE"]).env("VALUE", VALUE)).ok();
    std::fs::write(dir.join("value"), "client-canary").unwrap();
    let token_url = issuer.url("/token");
    let oauth =
        ["--oauth2-refresh", &token_url, "--client-id", "us", "--client-secret-file", "value"];
    let refresh = set(dir, "refresh", &oauth, "refresh-canary-0");
    std::fs::remove_file(dir.join("value")).unwrap();
    for args in [&["credentials", "list"][..], &["credentials", "list", "--json"]] {
        assert!(seen.ran(dir, args).ok().stdout.contains(&refresh));
    }

    let scopes = ["--scope", "read", "--scope", "audit:read", "--scope", "metrics:all"];
    let more = ["--scope", "sources:read"];
    let (_, text) = key(dir, &[&scopes[..], &more].concat());
    let mut server = Server::of(toolcrib(dir).args(["-vv", "serve"]));
    let caller = server.caller(Some(&text));
    server.process.until("all sources", |process| {
        (process.stderr().matches("source is ready").count() >= 5).then_some(())
    });
    // The lists follow the connections.
    for (source, _) in &sources {
        eventually_listed(&caller, &format!("{source}__echo")).await;
    }
    for (source, _) in &sources {
        call_everything(&caller, source, &mut seen).await;
    }
    for path in [
        "/.well-known/openwop",
        "/v1/openapi.json",
        "/v1/tools",
        "/v1/tools/mcp%3Abearer.echo",
        "/v1/sources",
        "/tools",
        "/oxp/tools",
        "/explorer",
        "/explorer/tools",
        "/explorer/tools/bearer__echo",
        "/metrics",
        "/readyz",
    ] {
        let text = caller.text(path).await;
        assert!(!text.is_empty());
        seen.note(path, text);
    }
    let listed = caller.mcp("tools/list", json!({})).await.1;
    assert!(listed.to_string().contains("[REDACTED:cred-"), "{listed}");
    seen.note("tools/list", listed.to_string());

    // What was decided about each request stands in the record, by id.
    let mut events = String::new();
    let mut after = Value::from(0);
    while !after.is_null() {
        let page = caller.get(&format!("/v1/events?after={after}")).await.1;
        let full = page["events"].as_array().is_some_and(|page| !page.is_empty());
        after = if full { page["next"].clone() } else { Value::Null };
        events += &page.to_string();
    }
    assert!(events.contains("egress.decided") && events.contains(&refresh));
    seen.note("/v1/events", events);

    // The upstream now refuses the credential and echoes it in the error.
    plain.accept_only(&[]);
    caller.otc("bearer.echo", json!({})).await;
    server.process.until("a refusal", |process| {
        process.stderr().contains("source is not connected").then_some(())
    });
    seen.note("/v1/sources", caller.text("/v1/sources").await);
    seen.note("log", server.stop());

    plain.accept_only(&[VALUE]);
    call_everything_by_lines(dir, "header", &mut seen);
    call_everything_by_lines(dir, "refresh", &mut seen);
    seen.ran(dir, &["call", "query__echo"]).ok();
    seen.ran(dir, &["call", "refresh__echo", "--json"]).ok();
    seen.ran(dir, &["-vv", "tools", "list"]).ok();
    seen.ran(dir, &["tools", "show", "bearer__echo"]);
    seen.ran(dir, &["sources", "list"]).ok();
    seen.ran(dir, &["audit", "export"]).ok();
    seen.ran(dir, &["credentials", "rotate", "bearer", "--value=canary"]);
    seen.is_clean();
    for (file, bytes) in contents(dir) {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        assert!(!text.contains(CANARY), "{file} holds a value");
    }
    // Proves that the credentials were sent.
    let sent = format!("{:?}", plain.calls());
    assert!(sent.contains("canary") && sent.contains("key=v4lue") && sent.contains("Basic "));
    assert!(issuer.arrived("/token").iter().any(|it| it.body.contains("refresh-canary-0")));
    assert!(issuer.calls().iter().any(|it| it.headers["authorization"].contains("access-canary")));
}

/// A credential of the caller's principal comes before that of its tenant, and no other tenant has
/// either. I-36: none goes to where an upstream redirects.
#[tokio::test(flavor = "multi_thread")]
async fn each_caller_presents_its_own_where_it_is_for() {
    let server = EchoServer::start(&["of-the-tenant-canary", "of-ana-canary"]);
    let elsewhere = EchoServer::start(&[]);
    let dir = dir();
    let dir = dir.path();
    configure(dir, &[]);
    let document = json!({ "openapi": "3.1.0", "info": { "title": "who", "version": "1" },
        "paths": {
            "/api/who": { "get": { "operationId": "who", "responses": {} } },
            "/api/away": { "get": { "operationId": "away", "responses": {}, "parameters": [
                { "name": "to", "in": "query", "schema": { "type": "string" } }] } } } });
    std::fs::write(dir.join("who.json"), document.to_string()).unwrap();
    let config = std::fs::read_to_string(dir.join("toolcrib.toml")).unwrap();
    let base = server.url("");
    write_config(
        dir,
        &format!(
            "{config}[[source]]\nid = \"who\"\nkind = \"connector\"\ndocument = \"who.json\"\n\
             base_url = \"{base}\"\ncredential = \"hub\"\nallow = [\"127.0.0.1\"]\n\
             [source.tools.\"*\"]\nscopes = [\"read\"]\n"
        ),
    );
    let of_tenant = set(dir, "hub", &["--bearer"], "of-the-tenant-canary");
    let of_ana = set(dir, "hub", &["--header", "x-key", "--principal", "ana"], "of-ana-canary");
    let caller = |principal: &str, tenant: &str| {
        key(dir, &["--scope", "read", "--principal", principal, "--tenant", tenant]).1
    };
    let [ana, bob, eve] =
        [("ana", "default"), ("bob", "default"), ("ana", "other")].map(|(p, t)| caller(p, t));
    let program = Server::start(dir);
    let who = async |key: &str| program.caller(Some(key)).otc("who.who", json!({})).await.1;
    eventually_listed(&program.caller(Some(&ana)), "who__who").await;
    for (key, header, value, id) in [
        (&ana, "x-key", "of-ana-canary", &of_ana),
        (&bob, "authorization", "Bearer of-the-tenant-canary", &of_tenant),
    ] {
        let told = who(key).await;
        assert!(told.to_string().contains(&format!("[REDACTED:{id}]")), "{told}");
        let arrived = server.arrived("/api/who").pop().unwrap();
        assert_eq!(arrived.headers[header], value);
    }
    let before = server.arrived("/api/who").len();
    let told = who(&eve).await;
    assert!(told.to_string().contains("credential that is not stored"), "{told}");
    assert_eq!(server.arrived("/api/who").len(), before, "nothing is sent without it");

    let listed = program.caller(Some(&ana)).get("/tools").await.1.to_string();
    assert!(listed.contains(r#""requirements":{"scopes":["read"],"credential":true}"#), "{listed}");
    let listed = program.caller(Some(&ana)).get("/v1/tools").await.1.to_string();
    assert!(listed.contains(r#""credentialRef":true"#), "{listed}");

    let to = json!({ "to": elsewhere.url("/api/who") });
    let told = program.caller(Some(&ana)).otc("who.away", to).await.1;
    let arrived = elsewhere.arrived("/api/who").pop().unwrap_or_else(|| panic!("{told}"));
    assert!(!format!("{arrived:?}").contains(CANARY), "{arrived:?}");
    drop(program);
    let events = run(dir, &["audit", "export"]).ok().stdout;
    let denied =
        r#""decision":"denied","destination":"127.0.0.1","reason":"provenance-unevaluable""#;
    let dropped = r#""decision":"downgraded","destination":"127.0.0.1","reason":"policy-denied""#;
    assert!(events.contains(denied) && events.contains(dropped), "{events}");
}

async fn eventually_listed(caller: &Caller, name: &str) {
    let mut left = 1_200;
    while caller.get(&format!("/explorer/tools/{name}")).await.0 != 200 {
        assert!(left > 0, "{name} is not offered");
        left -= 1;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[test]
fn a_credential_is_set_listed_rotated_and_removed() {
    let dir = dir();
    let dir = dir.path();
    configure(dir, &[]);
    let bearer = ["--bearer", "--expires", "1h"];
    let id = set(dir, "github", &bearer, "first-canary\n");
    let own = set(dir, "github", &["--bearer", "--principal", "ana"], "of-ana");
    assert_ne!(id, own, "a principal has its own");
    let again = ["credentials", "set", "github", "--audience", "a.example", "--bearer"];
    let refused = fed(dir, &again, "x");
    assert!(refused.code == 1 && refused.stderr.contains("rotate"), "{refused:?}");

    let list = || run(dir, &["--json", "credentials", "list"]).ok().json();
    let listed = list();
    assert_eq!(listed[0]["id"], id.as_str());
    assert_eq!(listed[0]["audiences"], json!(["127.0.0.1"]));
    assert_eq!(listed[0]["state"], "active");
    assert!(listed[0]["expiresAt"].is_string());
    assert_eq!(listed[1]["principal"], "ana");
    fed(dir, &["credentials", "rotate", "github"], "second").ok();
    let rotated = list();
    assert_eq!((&rotated[0]["revision"], &rotated[0]["expiresAt"]), (&json!(2), &Value::Null));
    assert_eq!(rotated[1]["revision"], 1);

    run(dir, &["credentials", "remove", "github", "--principal", "ana"]).ok();
    assert_eq!(list().as_array().unwrap().len(), 1);
    let gone = run(dir, &["credentials", "remove", "github", "--principal", "ana"]);
    assert!(gone.code == 1 && gone.stderr.contains("there is no credential"), "{gone:?}");

    // Another key cannot read it, and after a change of keys with both at hand everything can be.
    run(dir, &["credentials", "new-key", "--out", "next.key"]).ok();
    let keys = |text: &str| {
        write_config(dir, &format!("[store]\nurl = \"sqlite:state/toolcrib.db\"\n{text}\n"));
    };
    keys("seal_key = { file = \"next.key\" }");
    let refused = fed(dir, &["credentials", "rotate", "github"], "third");
    assert!(refused.code == 1 && refused.stderr.contains("old_seal_key"), "{refused:?}");
    keys("seal_key = { file = \"next.key\" }\nold_seal_key = { file = \"seal.key\" }");
    run(dir, &["credentials", "reseal"]).ok();
    keys("seal_key = { command = [\"cat\", \"next.key\"] }");
    fed(dir, &["credentials", "rotate", "github"], "third").ok();
}

#[test]
fn what_cannot_be_a_credential_is_refused_before_anything_is_stored() {
    let dir = dir();
    let dir = dir.path();
    write_config(dir, "[store]\nurl = \"sqlite:state/toolcrib.db\"\n");
    let set = |more: &[&str], value: &str| {
        fed(dir, &[&["credentials", "set", "x"], more].concat(), value)
    };
    let to = ["--audience", "a.example"];
    let refused = set(&[&to[..], &["--bearer"]].concat(), "canary");
    assert!(refused.code == 1 && refused.stderr.contains("new-key"), "{refused:?}");
    assert!(!dir.join("state").exists(), "no store is made");
    configure(dir, &[]);
    for (more, value, said) in [
        (&["--bearer"][..], "canary", "--audience"),
        (&["--audience", "https://a.example/", "--bearer"], "canary", "without a path"),
        (&["--audience", "*.com", "--bearer"], "canary", "two labels"),
        (&to, "canary", "--bearer"),
        (&["--audience", "a.example", "--bearer", "--query", "k"], "canary", "cannot be used with"),
        (&["--audience", "a.example", "--bearer"], "\n", "no value on stdin"),
        (&["--audience", "a.example", "--bearer"], "canary\ncanary", "line break"),
        (&["--audience", "a.example", "--header", "Host"], "canary", "protocol itself"),
        (&["--audience", "a.example", "--basic", "a:b"], "canary", "`:`"),
        (
            &[
                "--audience",
                "a.example",
                "--oauth2-client",
                "http://id.example/",
                "--client-id",
                "c",
            ],
            "canary",
            "https URL",
        ),
        (&["--audience", "a.example", "--bearer", "--value", "canary"], "", "unexpected argument"),
        (&["--audience", "a.example", "--bearer", "--tenant", "-"], "canary", "tenant"),
    ] {
        let refused = set(more, value);
        assert!(refused.code == 2 && refused.stderr.contains(said), "{more:?} {refused:?}");
        assert!(!refused.stderr.contains("canary"), "{refused:?}");
    }
    let listed = run(dir, &["credentials", "list", "--json"]);
    assert!(listed.code != 0 || listed.stdout.trim() == "[]", "{listed:?}");
}
