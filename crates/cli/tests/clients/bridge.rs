//! Clients of MCP that others wrote sign a person in through `[auth.bridge]`. The identity provider
//! is `oidc-provider`: one that registers no clients and takes no documents of clients, and one that
//! does both.

mod browser;
mod running;
mod suite;

use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Url;
use serde_json::{Value, json};
use toolcrib_testkit::certificates::Authority;

use self::{browser::Browser, running::Running};
use crate::{
    rig::{Foreign, Server, Tools, tool, toolcrib},
    third_party::{inspector, program},
};

const TOOL: &str = "shop__echo";
const TEXT: &str = "through the bridge";
/// What the provider does for clients of MCP. The bridge needs neither.
const REGISTRATIONS: [&str; 2] = ["closed", "open"];
const SECRET: &str = "the-secret-of-desk-canary-of-32-bytes";

/// A gateway before the identity provider.
struct Stage {
    tools: Tools,
    python: PathBuf,
    provider: Foreign,
    /// The id of the client that has a document.
    document: String,
    server: Server,
}

// === impl Stage ===

impl Stage {
    async fn start() -> Option<Self> {
        Self::before("closed").await
    }

    /// `registration` is that of the provider: `closed` or `open`.
    async fn before(registration: &str) -> Option<Self> {
        let (tools, node) = (Tools::find()?, tool("TOOLCRIB_NODE24")?);
        let python = tool("TOOLCRIB_PYTHON")?;
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let authority = Authority::new("the authority of the document");
        let certificate = authority.server();
        let trusted = write("authority.pem", authority.pem());
        // The provider and the gateway know each other's address before they start.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url = format!("http://{free}");
        let mut provider = Foreign::start(
            program(&node)
                .arg(tools.drivers.join("identity-provider.mjs"))
                .arg(&tools.clients)
                .arg(format!("{url}/oauth/callback"))
                .arg(write("document.pem", &certificate.cert))
                .arg(write("document.key", &certificate.key))
                .arg(registration),
        );
        let document = provider.next_line();
        write("seal.key", &STANDARD.encode([7; 32]));
        write("provider.secret", "crib-secret");
        write("desk.secret", SECRET);
        let config = format!(
            r#"
            [server]
            public_url = "{url}"

            [store]
            seal_key = {{ file = "seal.key" }}

            [[role]]
            name = "reader"
            scopes = ["shop:use"]

            [[source]]
            id = "shop"
            kind = "mcp"
            command = [{program:?}, "demo-upstream"]
            [source.tools."*"]
            scopes = ["shop:use"]
            safety_tier = "pure"

            [[auth.jwt]]
            issuer = "{issuer}"
            audiences = ["{url}"]
            tenant = "default"
            principal_prefix = "id|"
            claims = {{ roles = "groups" }}
            roles = ["reader"]

            [auth.bridge]
            issuer = "{issuer}"
            client_id = "crib"
            client_secret = {{ file = "provider.secret" }}
            scopes = ["offline_access"]
            parameters = {{ prompt = "consent" }}
            registration = true
            client_documents = ["127.0.0.1"]
            allow = ["127.0.0.0/8"]
            assertion_issuers = ["{issuer}"]

            [[auth.bridge.client]]
            id = "desk"
            name = "Desk"
            secret = {{ file = "desk.secret" }}
            "#,
            program = env!("CARGO_BIN_EXE_toolcrib"),
            issuer = provider.url,
        );
        let variables = [("SSL_CERT_FILE", trusted.as_path())];
        let server = Server::at(&free.to_string(), folder, &config, &["shop"], &variables).await;
        Some(Self { tools, python, provider, document, server })
    }

    fn mcp(&self) -> String {
        format!("{}/mcp", self.server.url)
    }

    /// A client with `script`, which gets `more` after the address and the call.
    fn driver(&self, with: &Path, script: &str, before: &[&str], more: &[&str]) -> Command {
        let mut command = program(with);
        command
            .arg(self.tools.drivers.join(script))
            .args(before)
            .args([&self.mcp(), TOOL, &json!({ "text": TEXT }).to_string()])
            .args(more)
            .env("TOOLCRIB_CLIENTS_DIR", &self.tools.clients);
        self.alone(command)
    }

    /// Keeps a client away from the files and the screen of the person who runs the tests. Clients
    /// that open a browser print the address.
    fn alone(&self, mut command: Command) -> Command {
        command
            .env("HOME", self.server.folder.path())
            .env("BROWSER", "echo %s")
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY");
        command
    }

    /// Runs a client, and signs `person` in at the address that it opens. Returns its output, and
    /// the question to the person.
    async fn signed_in(&self, command: Command, person: &str) -> (Value, String) {
        let mut client = Running::start(command);
        let question = self.answer(&mut client, person).await;
        (client.finish().await, question)
    }

    /// Signs `person` in at the address that a client opens. Returns the question.
    async fn answer(&self, client: &mut Running, person: &str) -> String {
        let address = client.find(&format!("{}/oauth/authorize?", self.server.url)).await;
        let hosts = [self.server.url.as_str(), self.provider.url.as_str()];
        Browser::new().sign_in(&address, person, &hosts).await
    }

    /// As [`signed_in`](Self::signed_in), for a client that lists and calls.
    async fn lists_and_calls(&self, command: Command, person: &str) -> String {
        let (told, question) = self.signed_in(command, person).await;
        has_listed_and_called(&told);
        question
    }

    /// Runs `toolcrib clients` as an administrator.
    fn clients(&self, words: &[&str]) -> Value {
        let mut command = toolcrib();
        command.args(["clients"]).args(words).arg("--json");
        command.env("TOOLCRIB_URL", &self.server.url).env("TOOLCRIB_KEY", &self.server.admin);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The only grant, which is of `person`.
    fn grant(&self, person: &str) -> Value {
        let Value::Array(mut all) = self.clients(&["list", "--all"]) else { panic!("no list") };
        assert_eq!(all.len(), 1, "{all:?}");
        let grant = all.remove(0);
        assert_eq!(grant["principal"], format!("id|{person}"));
        grant
    }
}

fn has_listed_and_called(told: &Value) {
    assert!(told["tools"].as_array().unwrap().contains(&json!(TOOL)), "{told}");
    let text = told["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains(TEXT), "{told}");
}

/// I-117: the client that registers itself, and the one with a document.
fn asks_about(stage: &Stage, question: &str, name: Option<&str>) {
    match name {
        Some(name) => assert!(
            question.contains(&format!("<dt>Client</dt><dd>{name}</dd>"))
                && question.contains("The client itself: it registered here"),
            "{question}"
        ),
        None => assert!(
            question.contains("<dd>A documented client</dd>")
                && question.contains(&format!("<dt>Id</dt><dd>{}</dd>", stage.document))
                && question.contains("127.0.0.1, whose address the client has"),
            "{question}"
        ),
    }
}

/// I-117, with the renewal of each SDK, and its end.
#[tokio::test]
async fn the_typescript_sdks_sign_a_person_in() {
    for registration in REGISTRATIONS {
        let Some(mut stage) = Stage::before(registration).await else { return };
        let discovery = format!("{}/.well-known/openid-configuration", stage.provider.url);
        let known = stage.server.http.get(discovery).send().await.unwrap();
        let known: Value = known.json().await.unwrap();
        let is_open = registration == "open";
        assert_eq!(known.get("registration_endpoint").is_some(), is_open, "{known}");
        assert_eq!(known["client_id_metadata_document_supported"] == true, is_open, "{known}");
        the_typescript_sdks(&mut stage).await;
    }
}

async fn the_typescript_sdks(stage: &mut Stage) {
    let document = stage.document.clone();
    let document = document.as_str();
    for (version, document) in [("v1", ""), ("v2", ""), ("v1", document), ("v2", document)] {
        let node = &stage.tools.node;
        let command = stage.driver(node, "sign-in.mjs", &[], &[version, document]);
        let question = stage.lists_and_calls(command, "ann").await;
        let name = format!("The TypeScript SDK {version}");
        asks_about(stage, &question, document.is_empty().then_some(name.as_str()));
        let grant = stage.grant("ann");
        let vouched = if document.is_empty() { "itself" } else { "host" };
        assert_eq!(grant["vouchedBy"], vouched, "{grant}");
        assert!(grant["lastUsedAt"].is_string(), "{grant}");
        let id = grant["id"].as_str().unwrap();
        assert_eq!(stage.clients(&["end", &id[..id.len() - 4]]), json!({ "id": id }));
        assert_eq!(stage.clients(&["list", "--all"]), json!([]));
    }
    // Nothing that a client chose has reached the provider.
    let requests: Vec<String> = serde_json::from_str(&stage.provider.tell("requests")).unwrap();
    assert_eq!(requests.len(), 4);
    for request in requests {
        let request = Url::parse(&format!("http://x{request}")).unwrap();
        assert_eq!(request.path(), "/auth", "the bridge registers at no provider");
        let sent: BTreeMap<_, _> = request.query_pairs().collect();
        assert_eq!(sent["scope"], "openid offline_access");
        assert_eq!(sent["client_id"], "crib");
        assert!(!sent.contains_key("resource") && sent["state"] != "the state of the client");
    }
}

/// The access of people who leave ends at the next renewal.
#[tokio::test]
async fn people_who_left_are_not_renewed() {
    let Some(mut stage) = Stage::start().await else { return };
    let command = stage.driver(&stage.tools.node, "sign-in.mjs", &[], &["v1", "", "wait"]);
    let mut client = Running::start(command);
    stage.answer(&mut client, "ben").await;
    client.find("signed-in").await;
    stage.grant("ben");
    assert_eq!(stage.provider.tell("leave ben"), "done");
    std::fs::write(stage.server.folder.path().join("go-on"), "").unwrap();
    let (status, errors) = client.fail().await;
    assert_eq!(status, Some(1), "{errors}");
    assert_eq!(stage.clients(&["list", "--all"]), json!([]), "{errors}");
}

#[tokio::test]
async fn the_python_sdk_signs_a_person_in() {
    for registration in REGISTRATIONS {
        let Some(stage) = Stage::before(registration).await else { return };
        for document in ["", &stage.document] {
            let more = if document.is_empty() { vec![] } else { vec![document] };
            let command = stage.driver(&stage.python, "sign_in.py", &["mcp"], &more);
            let question = stage.lists_and_calls(command, "ann").await;
            asks_about(&stage, &question, document.is_empty().then_some("The Python SDK"));
        }
    }
}

#[tokio::test]
async fn fastmcp_signs_a_person_in() {
    let Some(python) = tool("TOOLCRIB_PYTHON_FASTMCP") else { return };
    for registration in REGISTRATIONS {
        let Some(stage) = Stage::before(registration).await else { return };
        for document in ["", &stage.document] {
            let more = if document.is_empty() { vec![] } else { vec![document] };
            let mut command = stage.driver(&python, "sign_in.py", &["fastmcp"], &more);
            // Its log has the address on several lines.
            command.env("FASTMCP_LOG_LEVEL", "WARNING");
            let question = stage.lists_and_calls(command, "ann").await;
            asks_about(&stage, &question, document.is_empty().then_some("A client of fastmcp"));
        }
    }
}

#[tokio::test]
async fn the_inspector_signs_a_person_in() {
    let Some(node) = tool("TOOLCRIB_NODE24") else { return };
    for registration in REGISTRATIONS {
        let Some(stage) = Stage::before(registration).await else { return };
        for document in ["", &stage.document] {
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let run = |method: &str, more: &[&str]| {
                let mut command = program(&node);
                command
                    .arg(inspector(&stage.tools))
                    .args(["--cli", &stage.mcp(), "--transport", "http", "--format", "json"])
                    .args(["--method", method])
                    .args(["--callback-url", &format!("http://{free}/oauth/callback")])
                    .args(more)
                    .env("MCP_INSPECTOR_SECRET_STORE", "file")
                    .env("MCP_AUTO_OPEN_ENABLED", "true");
                if !document.is_empty() {
                    command.args(["--client-metadata-url", document]);
                }
                stage.alone(command)
            };
            let fresh = ["--relogin"];
            let (listed, question) = stage.signed_in(run("tools/list", &fresh), "ann").await;
            assert!(listed.to_string().contains(&format!("{TOOL:?}")), "{listed}");
            let name = "MCP Inspector";
            match document {
                "" => assert!(question.contains(name), "{question}"),
                _ => asks_about(&stage, &question, None),
            }
            // It has stored its tokens.
            let arguments = json!({ "text": TEXT }).to_string();
            let call = ["--tool-name", TOOL, "--tool-args-json", &arguments, "--stored-auth-only"];
            let called = Running::start(run("tools/call", &call)).finish().await;
            assert!(called.to_string().contains(TEXT), "{called}");
        }
    }
}

#[tokio::test]
async fn mcp_remote_signs_a_person_in() {
    for registration in REGISTRATIONS {
        let Some(stage) = Stage::before(registration).await else { return };
        let mut command = stage.driver(&stage.tools.node, "remote.mjs", &[], &[]);
        command.env("MCP_REMOTE_CONFIG_DIR", stage.server.folder.path().join("remote"));
        let question = stage.lists_and_calls(command, "ann").await;
        assert!(question.contains("The client itself: it registered here"), "{question}");
        assert_eq!(stage.grant("ann")["vouchedBy"], "itself");
    }
}

/// ID-JAG: no browser, an assertion of the provider, and a client with a secret.
#[tokio::test]
async fn clients_with_a_secret_exchange_an_assertion() {
    let Some(mut stage) = Stage::start().await else { return };
    let (url, mcp) = (stage.server.url.clone(), stage.mcp());
    let claims =
        json!({ "aud": url, "client_id": "desk", "resource": mcp, "sub": "ann" }).to_string();
    let mut assertion = || stage.provider.tell(&format!("sign {claims}"));
    let assertions = [assertion(), assertion()];
    let with = |mut command: Command, secret: &str, assertion: &str| {
        command
            .env("TOOLCRIB_ISSUER", &url)
            .env("TOOLCRIB_CLIENT", format!("desk {secret}"))
            .env("TOOLCRIB_ASSERTION", assertion);
        command
    };
    let typescript = || stage.driver(&stage.tools.node, "assertion.mjs", &[], &[]);
    let python = || stage.driver(&stage.python, "sign_in.py", &["assertion"], &[]);
    let wrong = with(typescript(), &"x".repeat(SECRET.len()), &assertions[0]);
    assert_eq!(Running::start(wrong).fail().await.0, Some(1), "another secret");
    for (command, assertion) in [(typescript(), &assertions[0]), (python(), &assertions[1])] {
        let told = Running::start(with(command, SECRET, assertion)).finish().await;
        has_listed_and_called(&told);
    }
    let again = Running::start(with(python(), SECRET, &assertions[1])).fail().await;
    assert_eq!(again.0, Some(1), "an assertion works once: {}", again.1);
    let Value::Array(grants) = stage.clients(&["list", "--all"]) else { panic!("no list") };
    let known: Vec<_> = grants.iter().map(|it| (&it["name"], &it["vouchedBy"])).collect();
    assert_eq!(known, [(&json!("Desk"), &json!("operator")); 2]);
}
