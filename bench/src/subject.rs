//! The requests of a running toolcrib in front of the bench upstream, in every dialect.

mod account;

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fmt, fs};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::endpoint::{Call, Endpoint};
use crate::http1::{Connection, request};
use crate::load::{ExpectedBody, Shot};
use crate::process::Server;
use crate::servers::upstream::{ECHO, ECHO_PATH, TOOLS};

const SAID: &str = "the quick brown fox";
const JSON: &[(&str, &str)] =
    &[("content-type", "application/json"), ("accept", "application/json")];
/// How long discovery of an upstream on loopback may take.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(30);
/// The sources: an MCP server over HTTP, the same over stdio, a connector and a workflow.
const SOURCE: &str = "up";
const STDIO: &str = "stdio";
const CONNECTOR: &str = "api";
const WORKFLOW: &str = "flows";
/// The id of the workflow.
const STEPS: &str = "steps";
/// The pack that ships with toolcrib.
const PACK: &str = "vendor.toolcrib.everyday";
const PACK_TOOLS: usize = 2;
const PACK_TOOL: &str = "pack__json-diff";
/// The callers of a large organisation, and the number of their roles.
const KEYS: usize = 10_000;
const ROLES: usize = 500;
/// A key that seals and signs the stores of several servers. It protects no real data.
const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// A rate that no measurement reaches.
const NEVER_REACHED: u32 = 1_000_000_000;
/// Connections that create the keys.
const MAKERS: usize = 64;

/// A running toolcrib and its key.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) server: Server,
    /// The directory with the store.
    pub(crate) data: PathBuf,
    key: String,
    /// Other keys that may use the same tools, each with one of the roles.
    crowd: Vec<String>,
}

/// The configuration of a subject.
#[derive(Default)]
struct Settings {
    sources: Vec<String>,
    /// The number of tools of the sources.
    tools: usize,
    roles: usize,
    /// The MCP server of a source to which callers connect accounts.
    accounts: Option<SocketAddr>,
    /// The parts that it shares with other servers.
    shared: Option<SharedServices>,
}

/// The parts that several servers share.
#[derive(Debug, Clone)]
pub(crate) struct SharedServices {
    /// The URL of a PostgreSQL database.
    pub(crate) database: String,
    /// The URL of the server that counts rates, and its password.
    pub(crate) limits: Option<(String, &'static str)>,
}

/// The lists that the limit servers return too.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) openwop: Vec<u8>,
    pub(crate) otc: Vec<u8>,
    pub(crate) explorer: Vec<u8>,
}

impl Subject {
    /// Starts `program` with the upstream as its only source.
    pub(crate) async fn start(
        program: &Path,
        durability: &str,
        upstream: SocketAddr,
        folder: &Path,
    ) -> Result<Self> {
        let settings = Settings::over(vec![source_at(upstream)], TOOLS);
        Self::start_with(program, durability, durability, &settings, folder).await
    }

    /// Starts `program` with the upstream as its only source, [`ROLES`] roles and [`KEYS`] keys.
    pub(crate) async fn with_crowd(
        program: &Path,
        upstream: SocketAddr,
        folder: &Path,
    ) -> Result<Self> {
        let settings =
            Settings { roles: ROLES, ..Settings::over(vec![source_at(upstream)], TOOLS) };
        let mut subject = Self::start_with(program, "crowd", "strict", &settings, folder).await?;
        let mut makers = JoinSet::new();
        for maker in 0..MAKERS {
            let (address, key) = (subject.server.address, subject.key.clone());
            makers.spawn(async move { make_keys(address, &key, maker).await });
        }
        while let Some(made) = makers.join_next().await {
            subject.crowd.extend(made??);
        }
        Ok(subject)
    }

    /// Starts `program` with the upstream as its only source and the strict log, as one of several
    /// servers, with a key for each of `tenants` tenants. All of them may use the same tools.
    pub(crate) async fn with_tenants(
        program: &Path,
        name: &str,
        shared: Option<SharedServices>,
        tenants: usize,
        (upstream, folder): (SocketAddr, &Path),
    ) -> Result<Self> {
        let settings = Settings { shared, ..Settings::over(vec![source_at(upstream)], TOOLS) };
        let mut subject = Self::start_with(program, name, "strict", &settings, folder).await?;
        let config = folder.join(format!("{name}.toml"));
        for tenant in 0..tenants {
            let tenant = format!("tenant-{tenant}");
            subject.crowd.push(key(program, &config, &subject.data, &tenant)?);
        }
        Ok(subject)
    }

    /// Starts `program` with its bundled pack as its only source.
    pub(crate) async fn with_pack(program: &Path, folder: &Path) -> Result<Self> {
        let source = format!("id = \"pack\"\nkind = \"node-pack\"\npack = \"{PACK}\"");
        let settings = Settings::over(vec![source], PACK_TOOLS);
        Self::start_with(program, "pack", "relaxed", &settings, folder).await
    }

    /// Starts `program` with the upstream and one source of `kind`.
    pub(crate) async fn with_source(
        program: &Path,
        kind: SourceKind,
        durability: &str,
        upstream: SocketAddr,
        folder: &Path,
    ) -> Result<Self> {
        let (source, tools) = kind.write(upstream, folder)?;
        let sources = vec![source_at(upstream), source];
        let settings = Settings::over(sources, TOOLS + tools);
        let name = format!("{}-{durability}", kind.id());
        Self::start_with(program, &name, durability, &settings, folder).await
    }

    async fn start_with(
        program: &Path,
        name: &str,
        durability: &str,
        settings: &Settings,
        folder: &Path,
    ) -> Result<Self> {
        let data = folder.join(name);
        fs::create_dir_all(&data)?;
        let config = folder.join(format!("{name}.toml"));
        fs::write(&config, configuration(durability, settings, &data))?;
        if let Some(shared) = &settings.shared {
            shared.write_secrets(folder)?;
        }
        let key = key(program, &config, &data, "bench")?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command.arg("--data-dir").arg(&data).current_dir(folder);
        let server = Server::start(name, &mut command, folder).await?;
        let subject = Self { server, data, key, crowd: Vec::new() };
        subject.wait_for_tools(settings.tools).await?;
        Ok(subject)
    }

    /// A key of another tenant; see [`Subject::with_tenants`].
    pub(crate) fn foreign_key(&self) -> Result<String> {
        self.crowd.first().cloned().context("a subject with one tenant only")
    }

    /// The name of the tool that most requests call.
    pub(crate) fn tool() -> String {
        echo().tool
    }

    /// The three lists, as the caller sees them.
    pub(crate) async fn lists(&self) -> Result<Lists> {
        Ok(Lists {
            openwop: self.get("/v1/tools").await?,
            otc: self.get("/tools").await?,
            explorer: self.get("/explorer/tools").await?,
        })
    }

    pub(crate) fn list(&self, path: &str, body: &[u8]) -> Shot {
        self.shot(self.request("GET", path, &[], ""), 200, ExpectedBody::Body(body.into()))
    }

    /// A shot at a list, sent with the other keys in turns.
    pub(crate) fn list_of_the_crowd(&self, path: &str, body: &[u8]) -> Shot {
        let request_of = |key: &String| {
            let bearer = format!("Bearer {key}");
            request("GET", self.server.address, path, &[("authorization", &bearer)], "")
        };
        let requests = self.crowd.iter().map(request_of).collect();
        let expect = ExpectedBody::Body(body.into());
        Shot { address: self.server.address, requests, status: 200, expect }
    }

    /// A shot at a list with the current tag.
    pub(crate) async fn not_modified(&self, path: &str) -> Result<Shot> {
        let mut connection = Connection::open(self.server.address).await?;
        let answer = connection.exchange(&self.request("GET", path, &[], "")).await?;
        let tag = answer.header("etag").context("a list without an etag")?;
        let request = self.request("GET", path, &[("if-none-match", tag)], "");
        Ok(self.shot(request, 304, ExpectedBody::Body([].into())))
    }

    pub(crate) fn mcp_list(&self) -> Shot {
        self.mcp().list(&echo().tool)
    }

    pub(crate) fn mcp_call(&self) -> Shot {
        self.mcp().call(&echo())
    }

    pub(crate) async fn session_list(&self) -> Result<Shot> {
        self.mcp().session_list(&echo().tool).await
    }

    pub(crate) async fn session_call(&self) -> Result<Shot> {
        self.mcp().session_call(&echo()).await
    }

    /// A shot at a call of the tool of another source.
    pub(crate) fn source_call(&self, kind: SourceKind) -> Shot {
        self.mcp().call(&kind.call())
    }

    /// A shot at a call whose work is a few microseconds of WebAssembly.
    pub(crate) fn pack_call(&self) -> Shot {
        let arguments = json!({ "from": { "text": SAID }, "to": { "text": SAID } });
        let answer = "\"equal\":true".into();
        self.mcp().call(&Call { tool: PACK_TOOL.into(), arguments, answer })
    }

    /// A shot at an Open Tool Calling call; takes the tool's id from the list.
    pub(crate) fn otc_call(&self, list: &[u8]) -> Result<Shot> {
        Ok(self.post("/tools/call", &Self::otc_body(list)?))
    }

    /// A shot at an Open Tool Calling call, sent with the other keys in turns.
    pub(crate) fn otc_call_of_the_crowd(&self, list: &[u8]) -> Result<Shot> {
        let body = Self::otc_body(list)?;
        let request_of = |key: &String| {
            let bearer = format!("Bearer {key}");
            let headers = [JSON, &[("authorization", &bearer)]].concat();
            request("POST", self.server.address, "/tools/call", &headers, &body)
        };
        let requests = self.crowd.iter().map(request_of).collect();
        let expect = ExpectedBody::Text(SAID.into());
        Ok(Shot { address: self.server.address, requests, status: 200, expect })
    }

    fn otc_body(list: &[u8]) -> Result<String> {
        let list: Value = serde_json::from_slice(list)?;
        let tools = list.get("tools").and_then(Value::as_array).context("no tools in /tools")?;
        let name = echo().tool;
        let is_echo = |tool: &&Value| tool.get("name").and_then(Value::as_str) == Some(&name);
        let echo = tools.iter().find(is_echo).context("the tool is not in /tools")?;
        let id = echo.get("id").context("a tool without an id")?;
        let call = json!({ "tool_id": id, "input": { "text": SAID } });
        Ok(json!({ "$schema": "otc://1.0", "request": call }).to_string())
    }

    pub(crate) fn explorer_call(&self) -> Shot {
        let Call { tool, arguments, .. } = echo();
        self.post(&format!("/explorer/tools/{tool}/call"), &arguments.to_string())
    }

    /// The MCP server with this key.
    fn mcp(&self) -> Endpoint {
        let bearer = format!("Bearer {}", self.key);
        Endpoint::new(self.server.address, vec![("authorization".into(), bearer)])
    }

    fn post(&self, path: &str, body: &str) -> Shot {
        let request = self.request("POST", path, JSON, body);
        self.shot(request, 200, ExpectedBody::Text(SAID.into()))
    }

    fn shot(&self, request: Vec<u8>, status: u16, expect: ExpectedBody) -> Shot {
        Shot { address: self.server.address, requests: [request].into(), status, expect }
    }

    fn request(&self, method: &str, path: &str, more: &[(&str, &str)], body: &str) -> Vec<u8> {
        let bearer = format!("Bearer {}", self.key);
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(more);
        request(method, self.server.address, path, &headers, body)
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>> {
        let mut connection = Connection::open(self.server.address).await?;
        let answer = connection.exchange(&self.request("GET", path, &[], "")).await?;
        if answer.status != 200 {
            bail!("{path}: {}: {}", answer.status, String::from_utf8_lossy(answer.body));
        }
        Ok(answer.body.to_vec())
    }

    async fn wait_for_tools(&self, tools: usize) -> Result<()> {
        let deadline = Instant::now() + DISCOVERY_LIMIT;
        loop {
            let list = self.get("/v1/tools").await?;
            let found = serde_json::from_slice::<Value>(&list)?;
            let count = found.as_array().map_or(0, Vec::len);
            if count == tools {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{count} of {tools} tools after {} s", DISCOVERY_LIMIT.as_secs());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

// === impl Settings ===

impl Settings {
    fn over(sources: Vec<String>, tools: usize) -> Self {
        Self { sources, tools, ..Self::default() }
    }
}

// === impl SourceKind ===

/// The kinds of sources other than an MCP server over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceKind {
    Stdio,
    Connector,
    Workflow,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdio => "a stdio upstream",
            Self::Connector => "a connector",
            Self::Workflow => "a workflow",
        })
    }
}

impl SourceKind {
    fn id(self) -> &'static str {
        match self {
            Self::Stdio => STDIO,
            Self::Connector => CONNECTOR,
            Self::Workflow => WORKFLOW,
        }
    }

    /// Writes the files of the source; returns its configuration and the number of its tools.
    fn write(self, upstream: SocketAddr, folder: &Path) -> Result<(String, usize)> {
        let id = self.id();
        Ok(match self {
            Self::Stdio => {
                let program = env::current_exe()?;
                let command = json!([program, "upstream", "--stdio"]);
                (format!("id = \"{id}\"\nkind = \"mcp\"\ncommand = {command}"), TOOLS)
            }
            Self::Connector => {
                fs::write(folder.join("api.json"), document().to_string())?;
                let place = format!("document = \"api.json\"\nbase_url = \"http://{upstream}\"");
                (format!("id = \"{id}\"\nkind = \"connector\"\n{place}"), 1)
            }
            Self::Workflow => {
                fs::write(folder.join("steps.yaml"), workflow())?;
                (format!("id = \"{id}\"\nkind = \"workflow\"\nfiles = [\"steps.yaml\"]"), 1)
            }
        })
    }

    fn call(self) -> Call {
        let text = json!({ "text": SAID });
        let (tool, arguments) = match self {
            Self::Stdio => (ECHO, text),
            Self::Connector => (ECHO, json!({ "body": text })),
            Self::Workflow => (STEPS, text),
        };
        Call { tool: format!("{}__{tool}", self.id()), arguments, answer: SAID.into() }
    }
}

/// The OpenAPI document of the upstream's HTTP service.
fn document() -> Value {
    let text = json!({
        "type": "object",
        "properties": { "text": { "type": "string" } },
        "required": ["text"],
    });
    let content = json!({ "application/json": { "schema": text } });
    let operation = json!({
        "operationId": ECHO,
        "requestBody": { "required": true, "content": content },
        "responses": { "200": { "description": "The text", "content": content } },
    });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "The service of the bench", "version": "1.0.0" },
        "paths": { ECHO_PATH: { "post": operation } },
    })
}

/// A workflow of three calls, one after the other.
fn workflow() -> String {
    let tool = format!("mcp:{SOURCE}.{ECHO}");
    let step = |id, text| {
        format!("  - id: {id}\n    tool: {tool}\n    arguments: {{ text: {{ $ref: {text} }} }}\n")
    };
    let steps = [
        step("first", "/inputs/text"),
        step("second", "/steps/first/text"),
        step("third", "/steps/second/text"),
    ];
    format!(
        "id: {STEPS}\nversion: 1.0.0\ninputs:\n  type: object\n  properties: {{ text: {{ type: string }} }}\n  \
         required: [text]\nsteps:\n{}outputs:\n  text: {{ $ref: /steps/third/text }}\n",
        steps.concat()
    )
}

/// The call of most rows.
fn echo() -> Call {
    Call { tool: format!("{SOURCE}__{ECHO}"), ..direct_echo() }
}

/// A call of the upstream, which has its tools under their own names.
pub(crate) fn direct_echo() -> Call {
    Call { tool: ECHO.into(), arguments: json!({ "text": SAID }), answer: SAID.into() }
}

/// A shot at an MCP server with the tools of the bench upstream under their own names.
pub(crate) fn direct(address: SocketAddr, method: &str) -> Shot {
    let server = Endpoint::new(address, Vec::new());
    match method {
        "tools/call" => server.call(&direct_echo()),
        _ => server.list(ECHO),
    }
}

/// A shot at the HTTP service of the bench upstream.
pub(crate) fn direct_service(address: SocketAddr) -> Shot {
    let body = json!({ "text": SAID }).to_string();
    let request = request("POST", address, ECHO_PATH, JSON, &body);
    Shot {
        address,
        requests: [request].into(),
        status: 200,
        expect: ExpectedBody::Text(SAID.into()),
    }
}

fn source_at(upstream: SocketAddr) -> String {
    format!("id = \"{SOURCE}\"\nkind = \"mcp\"\nurl = \"http://{upstream}/mcp\"")
}

/// Creates the share of [`KEYS`] that belongs to the `maker`-th of [`MAKERS`].
async fn make_keys(address: SocketAddr, key: &str, maker: usize) -> Result<Vec<String>> {
    let mut connection = Connection::open(address).await?;
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let mut keys = Vec::new();
    for number in (maker..KEYS).step_by(MAKERS) {
        let roles = [role(number % ROLES)];
        let name = format!("caller-{number}");
        let body = json!({ "name": name, "principal": name, "roles": roles }).to_string();
        let request = request("POST", address, "/v1/keys", &headers, &body);
        let answer = connection.exchange(&request).await?;
        if answer.status != 201 {
            bail!("no key: {}: {}", answer.status, String::from_utf8_lossy(answer.body));
        }
        let made: Value = serde_json::from_slice(answer.body)?;
        keys.push(made.get("key").and_then(Value::as_str).context("a key")?.to_owned());
    }
    Ok(keys)
}

fn role(number: usize) -> String {
    format!("team-{number}")
}

fn configuration(durability: &str, settings: &Settings, data: &Path) -> String {
    // Each role has a distinct scope, so that no two keys share a view.
    let roles: String = (0..settings.roles)
        .map(|number| {
            let name = role(number);
            format!("[[role]]\nname = \"{name}\"\nscopes = [\"bench:use\", \"{name}:x\"]\n\n")
        })
        .collect();
    let sources: String = settings.sources.iter().map(|source| sourced(source)).collect();
    let accounts = settings.accounts.map(account::Configuration::at).unwrap_or_default();
    let place = match &settings.shared {
        Some(shared) => shared.configuration(durability),
        None => format!(
            "[store]\nurl = \"sqlite:{}\"\n{}\n[record]\ndurability = \"{durability}\"\n\n\
             [gate]\nrate = \"off\"\n",
            data.join("toolcrib.db").display(),
            accounts.store
        ),
    };
    format!("{place}\n{roles}{sources}{}", accounts.rest)
}

impl SharedServices {
    /// Returns the sections of the configuration that several servers have in common.
    fn configuration(&self, durability: &str) -> String {
        let limits = match &self.limits {
            // Never reached, but counted with every call.
            Some((url, _)) => format!(
                "[gate]\nrate = \"{NEVER_REACHED}/m\"\n\n[limits]\nshared = \"{url}\"\n\
                 password = {{ file = \"limits.password\" }}\n"
            ),
            None => "[gate]\nrate = \"off\"\n".to_owned(),
        };
        format!(
            "[store]\nurl = \"{}\"\nseal_key = {{ file = \"seal.key\" }}\n\n[record]\n\
             durability = \"{durability}\"\nsigning_key = {{ file = \"signing.key\" }}\n\n{limits}",
            self.database
        )
    }

    /// Writes the files that [`SharedServices::configuration`] names.
    fn write_secrets(&self, folder: &Path) -> Result<()> {
        write_private(&folder.join("seal.key"), KEY)?;
        write_private(&folder.join("signing.key"), KEY)?;
        match &self.limits {
            Some((_, password)) => write_private(&folder.join("limits.password"), password),
            None => Ok(()),
        }
    }
}

/// Writes a file that only its owner can read, unless it exists.
fn write_private(path: &Path, text: &str) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

fn sourced(source: &str) -> String {
    format!(
        r#"[[source]]
{source}
tenants = ["*"]
[source.tools."*"]
scopes = ["bench:use"]
safety_tier = "read"
approval = "never"

"#
    )
}

/// Creates a key of the principal `bench` in `tenant`.
fn key(program: &Path, config: &Path, data: &Path, tenant: &str) -> Result<String> {
    let output = Command::new(program)
        .args(["keys", "create", "--name", "bench", "--principal", "bench", "--tenant", tenant])
        .args(["--scope", "*", "--json", "--config"])
        .arg(config)
        .arg("--data-dir")
        .arg(data)
        .stdin(Stdio::null())
        .output()
        .context("cannot start toolcrib")?;
    if !output.status.success() {
        bail!("keys create failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let created: Value = serde_json::from_slice(&output.stdout).context("keys create --json")?;
    let key = created.get("key").and_then(Value::as_str).context("keys create: no key")?;
    Ok(key.to_owned())
}
