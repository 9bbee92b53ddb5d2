//! The requests of a running toolcrib in front of the bench upstream, in every dialect.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::http1::{Connection, request};
use crate::load::{Expect, Shot};
use crate::process::Server;
use crate::servers::upstream::{ECHO, TOOLS};

const VERSION: &str = "2026-07-28";
/// The revision of sessions.
const SESSION_VERSION: &str = "2025-11-25";
const SAID: &str = "the quick brown fox";
/// How long discovery of an upstream on loopback may take.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(30);
const SOURCE: &str = "up";
/// The pack that ships with toolcrib.
const PACK: &str = "vendor.toolcrib.everyday";
const PACK_TOOLS: usize = 2;
const PACK_TOOL: &str = "pack__json-diff";
/// The callers of a large organisation, and the number of their roles.
const KEYS: usize = 10_000;
const ROLES: usize = 500;
/// Connections that create the keys.
const MAKERS: usize = 64;

/// A running toolcrib and its key.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) server: Server,
    key: String,
    /// Other keys that may use the same tools, each with one of the roles.
    crowd: Vec<String>,
}

/// The configuration of a subject.
struct Settings {
    source: String,
    /// The number of tools of the source.
    tools: usize,
    roles: usize,
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
        let settings = Settings { source: source_at(upstream), tools: TOOLS, roles: 0 };
        Self::start_with(program, durability, durability, &settings, folder).await
    }

    /// Starts `program` with the upstream as its only source, [`ROLES`] roles and [`KEYS`] keys.
    pub(crate) async fn with_crowd(
        program: &Path,
        upstream: SocketAddr,
        folder: &Path,
    ) -> Result<Self> {
        let settings = Settings { source: source_at(upstream), tools: TOOLS, roles: ROLES };
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

    /// Starts `program` with its bundled pack as its only source.
    pub(crate) async fn with_pack(program: &Path, folder: &Path) -> Result<Self> {
        let source = format!("id = \"pack\"\nkind = \"node-pack\"\npack = \"{PACK}\"");
        let settings = Settings { source, tools: PACK_TOOLS, roles: 0 };
        Self::start_with(program, "pack", "relaxed", &settings, folder).await
    }

    async fn start_with(
        program: &Path,
        name: &str,
        durability: &str,
        settings: &Settings,
        folder: &Path,
    ) -> Result<Self> {
        let data = folder.join(name);
        std::fs::create_dir_all(&data)?;
        let config = folder.join(format!("{name}.toml"));
        std::fs::write(&config, configuration(durability, settings, &data))?;
        let key = key(program, &config, &data)?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command.arg("--data-dir").arg(&data).current_dir(folder);
        let server = Server::start(name, &mut command, folder).await?;
        let subject = Self { server, key, crowd: Vec::new() };
        subject.wait_for_tools(settings.tools).await?;
        Ok(subject)
    }

    /// Returns the three lists, as the caller sees them.
    pub(crate) async fn lists(&self) -> Result<Lists> {
        Ok(Lists {
            openwop: self.get("/v1/tools").await?,
            otc: self.get("/tools").await?,
            explorer: self.get("/explorer/tools").await?,
        })
    }

    pub(crate) fn list(&self, path: &str, body: &[u8]) -> Shot {
        self.shot(self.request("GET", path, &[], ""), 200, Expect::Body(body.into()))
    }

    /// Returns a shot at a list, sent with the other keys in turns.
    pub(crate) fn list_of_the_crowd(&self, path: &str, body: &[u8]) -> Shot {
        let request_of = |key: &String| {
            let bearer = format!("Bearer {key}");
            request("GET", self.server.address, path, &[("authorization", &bearer)], "")
        };
        let requests = self.crowd.iter().map(request_of).collect();
        let expect = Expect::Body(body.into());
        Shot { address: self.server.address, requests, status: 200, expect }
    }

    /// Returns a shot at a list with the current tag.
    pub(crate) async fn not_modified(&self, path: &str) -> Result<Shot> {
        let mut connection = Connection::open(self.server.address).await?;
        let answer = connection.exchange(&self.request("GET", path, &[], "")).await?;
        let tag = answer.header("etag").context("a list without an etag")?;
        let request = self.request("GET", path, &[("if-none-match", tag)], "");
        Ok(self.shot(request, 304, Expect::Body([].into())))
    }

    pub(crate) fn mcp_list(&self) -> Shot {
        let name = format!("\"name\":\"{SOURCE}__{ECHO}\"");
        let request = mcp(self.server.address, "tools/list", None, Some(&self.key));
        self.shot(request, 200, Expect::Text(name.into()))
    }

    pub(crate) fn mcp_call(&self) -> Shot {
        let name = format!("{SOURCE}__{ECHO}");
        let request = mcp(self.server.address, "tools/call", Some(&name), Some(&self.key));
        self.shot(request, 200, Expect::Text(SAID.into()))
    }

    /// Returns a shot at the list in an MCP session, which all connections share.
    pub(crate) async fn session_list(&self) -> Result<Shot> {
        let name = format!("\"name\":\"{SOURCE}__{ECHO}\"");
        let request = self.in_session("tools/list", json!({})).await?;
        Ok(self.shot(request, 200, Expect::Text(name.into())))
    }

    /// Returns a shot at a call in an MCP session, which all connections share.
    pub(crate) async fn session_call(&self) -> Result<Shot> {
        let name = format!("{SOURCE}__{ECHO}");
        let params = json!({ "name": name, "arguments": { "text": SAID } });
        let request = self.in_session("tools/call", params).await?;
        Ok(self.shot(request, 200, Expect::Text(SAID.into())))
    }

    /// Opens an MCP session, and formats a request in it.
    async fn in_session(&self, method: &str, params: Value) -> Result<Vec<u8>> {
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let message = |method: &str, params: Value| {
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
        };
        let params_of_session = json!({
            "protocolVersion": SESSION_VERSION,
            "capabilities": {},
            "clientInfo": { "name": "toolcrib-bench", "version": "1" },
        });
        let initialize = message("initialize", params_of_session);
        let mut connection = Connection::open(self.server.address).await?;
        let opened = self.request("POST", "/mcp", &headers, &initialize);
        let answer = connection.exchange(&opened).await?;
        let session = answer.header("mcp-session-id").context("no session")?.to_owned();
        let headers = [
            &headers[..],
            &[("mcp-session-id", &*session), ("mcp-protocol-version", SESSION_VERSION)],
        ]
        .concat();
        let initialized =
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
        connection.exchange(&self.request("POST", "/mcp", &headers, &initialized)).await?;
        Ok(self.request("POST", "/mcp", &headers, &message(method, params)))
    }

    /// Returns a shot at a call whose work is a few microseconds of WebAssembly.
    pub(crate) fn pack_call(&self) -> Shot {
        let arguments = json!({ "from": { "text": SAID }, "to": { "text": SAID } });
        let request = mcp_with(
            self.server.address,
            "tools/call",
            Some((PACK_TOOL, arguments)),
            Some(&self.key),
        );
        self.shot(request, 200, Expect::Text("\"equal\":true".into()))
    }

    /// Returns a shot at an Open Tool Calling call; takes the tool's id from the list.
    pub(crate) fn otc_call(&self, list: &[u8]) -> Result<Shot> {
        let list: Value = serde_json::from_slice(list)?;
        let tools = list.get("tools").and_then(Value::as_array).context("no tools in /tools")?;
        let name = format!("{SOURCE}__{ECHO}");
        let is_echo = |tool: &&Value| tool.get("name").and_then(Value::as_str) == Some(&name);
        let echo = tools.iter().find(is_echo).context("the tool is not in /tools")?;
        let id = echo.get("id").context("a tool without an id")?;
        let call = json!({ "tool_id": id, "input": { "text": SAID } });
        let body = json!({ "$schema": "otc://1.0", "request": call }).to_string();
        let headers = [("content-type", "application/json"), ("accept", "application/json")];
        let request = self.request("POST", "/tools/call", &headers, &body);
        Ok(self.shot(request, 200, Expect::Text(SAID.into())))
    }

    fn shot(&self, request: Vec<u8>, status: u16, expect: Expect) -> Shot {
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

/// Returns a shot at an MCP server with the tools of the bench upstream under their own names.
pub(crate) fn direct(address: SocketAddr, method: &str) -> Shot {
    let (name, text) = match method {
        "tools/call" => (Some(ECHO), SAID.to_owned()),
        _ => (None, format!("\"name\":\"{ECHO}\"")),
    };
    let request = mcp(address, method, name, None);
    Shot { address, requests: [request].into(), status: 200, expect: Expect::Text(text.into()) }
}

/// Formats one request of the stateless revision of MCP.
fn mcp(address: SocketAddr, method: &str, tool: Option<&str>, key: Option<&str>) -> Vec<u8> {
    mcp_with(address, method, tool.map(|tool| (tool, json!({ "text": SAID }))), key)
}

fn mcp_with(
    address: SocketAddr,
    method: &str,
    tool: Option<(&str, Value)>,
    key: Option<&str>,
) -> Vec<u8> {
    let mut params = json!({
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "toolcrib-bench", "version": "1" },
        },
    });
    let bearer = key.map(|key| format!("Bearer {key}"));
    let mut headers = vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", VERSION),
        ("mcp-method", method),
    ];
    if let (Some((tool, arguments)), Some(params)) = (tool, params.as_object_mut()) {
        params.insert("name".into(), tool.into());
        params.insert("arguments".into(), arguments);
        headers.push(("mcp-name", tool));
    }
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    request("POST", address, "/mcp", &headers, &body.to_string())
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
    let store = data.join("toolcrib.db");
    let source = &settings.source;
    // Each role has a scope of its own, so that no two keys share a view.
    let roles: String = (0..settings.roles)
        .map(|number| {
            let name = role(number);
            format!("[[role]]\nname = \"{name}\"\nscopes = [\"bench:use\", \"{name}:x\"]\n\n")
        })
        .collect();
    format!(
        r#"[store]
url = "sqlite:{}"

[record]
durability = "{durability}"

[gate]
rate = "off"

{roles}[[source]]
{source}
tenants = ["*"]
[source.tools."*"]
scopes = ["bench:use"]
safety_tier = "read"
approval = "never"
"#,
        store.display()
    )
}

fn key(program: &Path, config: &Path, data: &Path) -> Result<String> {
    let output = Command::new(program)
        .args(["keys", "create", "--name", "bench", "--principal", "bench", "--tenant", "bench"])
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
