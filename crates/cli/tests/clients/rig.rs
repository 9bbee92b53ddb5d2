//! A server over the real filesystem and time servers, and ways to talk to it.

use std::{
    fs::OpenOptions,
    io::{BufRead as _, BufReader, Lines, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns a program of this suite, or the reason why it is missing.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "cargo xtask test says where things are")]
    let found = std::env::var(name).ok().map(PathBuf::from);
    if found.is_none() {
        skip(&format!("{name} is not set; run `cargo xtask test`"));
    }
    found
}

#[expect(clippy::disallowed_methods, reason = "the runner's switches")]
fn skip(why: &str) {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "left out under CI: {why}");
    if let Ok(path) = std::env::var("TOOLCRIB_SKIPS") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{why}").unwrap();
    }
    eprintln!("SKIPPED: {why}");
}

/// Everything the tests need, or `None` when something is missing (which was said).
pub(crate) struct Tools {
    pub(crate) node: PathBuf,
    pub(crate) clients: PathBuf,
    pub(crate) drivers: PathBuf,
    pub(crate) time_server: PathBuf,
}

impl Tools {
    pub(crate) fn find() -> Option<Self> {
        Some(Self {
            node: tool("TOOLCRIB_NODE")?,
            clients: tool("TOOLCRIB_CLIENTS_DIR")?,
            drivers: tool("TOOLCRIB_CLIENT_DRIVERS")?,
            time_server: tool("TOOLCRIB_MCP_TIME")?,
        })
    }

    pub(crate) fn package(&self, path: &str) -> PathBuf {
        self.clients.join("node_modules").join(path)
    }
}

/// `toolcrib serve` over both servers, with a key that may read files and one that may do all.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    pub(crate) admin: String,
    pub(crate) reader: String,
    pub(crate) folder: TempDir,
    pub(crate) http: reqwest::Client,
}

pub(crate) const FILE_TEXT: &str = "what the file says: 4711 + ümlaut";

impl Server {
    pub(crate) async fn start(tools: &Tools) -> Self {
        Self::start_with(tools, "").await
    }

    /// With more in its configuration, before everything else.
    pub(crate) async fn start_with(tools: &Tools, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::write(shared.join("note.txt"), FILE_TEXT).unwrap();
        let filesystem = tools.package("@modelcontextprotocol/server-filesystem/dist/index.js");
        let config = format!(
            r#"
            {more}

            [[role]]
            name = "reader"
            scopes = ["files:read"]

            [[source]]
            id = "files"
            kind = "mcp"
            command = [{node:?}, {filesystem:?}, {shared:?}]
            [source.tools."*"]
            scopes = ["files:read"]
            safety_tier = "read"
            egress = "none"
            [source.tools."{{write,edit,move,create}}_*"]
            scopes = ["files:write"]
            safety_tier = "write"

            [[source]]
            id = "clock"
            kind = "mcp"
            command = [{time:?}, "--local-timezone", "UTC"]
            "#,
            node = tools.node,
            time = tools.time_server,
        );
        Self::over(folder, &config, &["files", "clock"]).await
    }

    /// `toolcrib serve` with `config`, once all its `sources` have been catalogued.
    pub(crate) async fn over(folder: TempDir, config: &str, sources: &[&str]) -> Self {
        Self::at("127.0.0.1:0", folder, config, sources, &[]).await
    }

    /// As [`over`](Self::over), at the address `listen`, with `variables` of the environment.
    pub(crate) async fn at(
        listen: &str,
        folder: TempDir,
        config: &str,
        sources: &[&str],
        variables: &[(&str, &Path)],
    ) -> Self {
        let path = folder.path().join("toolcrib.toml");
        std::fs::write(&path, config).unwrap();
        let admin = key(&path, "tester", &["--scope", "*"]);
        let reader = key(&path, "tester", &["--role", "reader"]);
        let (child, url) = serve(&path, folder.path(), listen, variables);
        let server = Self { child, url, admin, reader, folder, http: http_client() };
        server.ready(sources).await;
        server
    }

    /// Puts `rules` behind those of the last source; the server reads its file again by itself.
    pub(crate) fn reconfigure(&self, rules: &str) {
        let path = self.folder.path().join("toolcrib.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("# more").next().unwrap().to_owned();
        std::fs::write(&path, format!("{text}# more\n{rules}")).unwrap();
    }

    pub(crate) fn file(&self) -> String {
        self.folder.path().join("shared/note.txt").display().to_string()
    }

    /// A key of another principal.
    pub(crate) fn key_of(&self, principal: &str, grants: &[&str]) -> String {
        key(&self.folder.path().join("toolcrib.toml"), principal, grants)
    }

    /// Waits until the upstreams have been catalogued.
    pub(crate) async fn ready(&self, sources: &[&str]) {
        for _ in 0..600 {
            let tools = self.get("/v1/tools").await;
            let of = |source: &str| {
                let prefix = format!("mcp:{source}.");
                let ids = tools.as_array().unwrap().iter().map(|tool| tool["toolId"].as_str());
                ids.flatten().any(|id| id.starts_with(&prefix))
            };
            if sources.iter().all(|source| of(source)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the upstreams were not catalogued within a minute");
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.admin);
        request.send().await.unwrap().json().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.admin);
        let response = request.json(body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// One modern MCP request that asks for no progress, so that JSON comes back.
    pub(crate) async fn mcp(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let mut request = self
            .http
            .post(format!("{}/mcp", self.url))
            .bearer_auth(&self.admin)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        if let Some(name) = params["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let text = request.json(&body).send().await.unwrap().text().await.unwrap();
        // A long call gets an event stream as response.
        let json = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        serde_json::from_str(json.unwrap_or(&text)).unwrap()
    }
}

/// A third-party host: it prints its address, and ends when its stdin is closed, at the latest on drop.
pub(crate) struct Foreign {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) url: String,
}

impl Foreign {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = { &mut lines }
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
        Self { child, lines, url: url.expect("it ended before it listened") }
    }

    /// Writes `line` to its stdin, and waits for a line of output.
    pub(crate) fn tell(&mut self, line: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.next_line()
    }

    /// Waits for a line of output.
    pub(crate) fn next_line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

/// The program under test.
pub(crate) fn toolcrib() -> Command {
    #[expect(clippy::disallowed_methods, reason = "a test starts the program it is about")]
    Command::new(env!("CARGO_BIN_EXE_toolcrib"))
}

fn key(config: &Path, principal: &str, grants: &[&str]) -> String {
    let name = format!("holds {}", grants.join(" "));
    let output = toolcrib()
        .current_dir(config.parent().unwrap())
        .args([
            "keys",
            "create",
            "--name",
            name.as_str(),
            "--principal",
            principal,
            "--tenant",
            "default",
        ])
        .args(grants)
        .args(["--json", "--config"])
        .arg(config)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let key: Value = serde_json::from_slice(&output.stdout).unwrap();
    key["key"].as_str().unwrap().to_owned()
}

fn serve(
    config: &Path,
    folder: &Path,
    listen: &str,
    variables: &[(&str, &Path)],
) -> (Child, String) {
    let mut child = toolcrib()
        .current_dir(folder)
        .args(["serve", "--listen", listen, "--config"])
        .arg(config)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
        .unwrap_or_else(|| panic!("{}", std::fs::read_to_string(folder.join("log")).unwrap()));
    (child, url)
}

pub(crate) fn http_client() -> reqwest::Client {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    // Another test of this process may have been first.
    drop(provider.install_default());
    #[expect(clippy::disallowed_methods, reason = "a client of the server under test")]
    reqwest::Client::builder().no_proxy().build().unwrap()
}
