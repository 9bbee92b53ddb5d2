//! toolcrib behind the proxies of `deploy/proxy`: their real programs with the files as they are, except
//! for addresses and paths.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use reqwest::{Certificate, Identity, Response, StatusCode, header};
use serde_json::{Value, json};

use super::program;
use crate::support::{Process, Server, config, dir, is_running, key, write_config};

/// The name in the files, under which clients reach the proxy.
const NAME: &str = "tools.example.com";
/// How long a stream waits for its next piece. It only bounds a hang.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn nginx_passes_lists_calls_and_streams_on() {
    let Some(program) = program("TOOLCRIB_NGINX") else { return };
    check(|rig| {
        let site = rig.edited("nginx.conf", |text| {
            text.replace("listen 443 ssl http2;", &format!("listen {} ssl http2;", rig.listen))
        });
        let site = match rig.clients {
            true => site.replace("#ssl_", "ssl_"),
            false => site,
        };
        let place = rig.place().display().to_string();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {place}/{name};"))
            .join(" ");
        let main = format!(
            "daemon off; master_process off; pid {place}/pid; error_log stderr;\n\
             events {{ }}\nhttp {{ access_log off; {temporary} include {place}/site.conf; }}\n"
        );
        fs::write(rig.place().join("site.conf"), site).unwrap();
        let file = rig.place().join("main.conf");
        fs::write(&file, main).unwrap();
        let mut command = command(&program);
        command.arg("-p").arg(rig.place()).arg("-c").arg(file).args(["-e", "stderr"]);
        command
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caddy_passes_lists_calls_and_streams_on() {
    let Some(program) = program("TOOLCRIB_CADDY") else { return };
    check(|rig| {
        let address = format!("https://{NAME}:{}", rig.listen.port());
        let site = rig.edited("Caddyfile", |text| {
            text.replace(&format!("{NAME} {{"), &format!("{address} {{\n\tbind 127.0.0.1"))
        });
        let site = match rig.clients {
            true => without_comments(&site),
            false => site,
        };
        let file = rig.place().join("Caddyfile");
        // Its interface for changes, and the redirection from port 80, would listen elsewhere.
        let options = "{\n\tadmin off\n\tauto_https off\n}\n";
        fs::write(&file, format!("{options}{site}")).unwrap();
        let mut command = command(&program);
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
        command.env("HOME", rig.place());
        command
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_passes_lists_calls_and_streams_on() {
    let Some(program) = program("TOOLCRIB_ENVOY") else { return };
    check(|rig| {
        let text = rig.edited("envoy.yaml", |text| {
            text.replace(
                "address: 0.0.0.0, port_value: 443",
                &format!("address: 127.0.0.1, port_value: {}", rig.listen.port()),
            )
        });
        let text = match rig.clients {
            true => text
                .replace("require_client_certificate: false", "require_client_certificate: true")
                .replace("#validation_context", "validation_context"),
            false => text,
        };
        let file = rig.place().join("envoy.yaml");
        fs::write(&file, text).unwrap();
        let mut command = command(&program);
        command.arg("--config-path").arg(file);
        command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn"]);
        command
    })
    .await;
}

/// Runs all checks behind the proxy that `proxy` starts: without and with certificates of clients.
async fn check(proxy: impl Fn(&Rig) -> Command) {
    for clients in [false, true] {
        let rig = Rig::new(clients);
        let process = Process::start(&mut proxy(&rig));
        let client = rig.client(clients);
        rig.wait(&process, &client).await;

        if clients {
            let stranger = rig.client(false);
            let refused = match rig.get(&stranger, "/livez").send().await {
                Err(_) => true,
                Ok(answer) => answer.status() == StatusCode::BAD_REQUEST,
            };
            assert!(refused, "a client without a certificate was served");
        }
        let health = rig.get(&client, "/readyz").send().await.unwrap();
        assert_eq!(health.status(), 200);
        lists_and_calls(&rig, &client).await;
        names_and_origins(&rig, &client).await;
        streams(&rig, &client).await;
    }
}

async fn lists_and_calls(rig: &Rig, client: &reqwest::Client) {
    // The source may still be starting.
    let deadline = tokio::time::Instant::now() + LIMIT;
    loop {
        let listed = rig.get(client, "/v1/tools").bearer_auth(&rig.key).send().await.unwrap();
        assert_eq!(listed.status(), 200);
        if listed.text().await.unwrap().contains("mcp:demo.echo") {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "the tool is not listed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let without_key = rig.get(client, "/v1/tools").send().await.unwrap();
    assert_eq!(without_key.status(), 401);

    let body = json!({ "request": { "tool_id": "demo__echo", "input": { "text": "hi" } } });
    let url = rig.url("/tools/call");
    let called = client.post(url).bearer_auth(&rig.key).json(&body).send().await.unwrap();
    assert_eq!(called.status(), 200);
    assert!(called.headers().contains_key("toolcrib-run-id"));
    assert!(called.text().await.unwrap().contains("hi"));
}

/// The name and the port that the client used arrive, so that `Host` and `Origin` are checked.
async fn names_and_origins(rig: &Rig, client: &reqwest::Client) {
    let own = format!("https://{NAME}:{}", rig.listen.port());
    for (origin, status) in
        [(own.as_str(), 200), ("https://evil.example", 403), ("https://tools.example.com:1", 403)]
    {
        let request = rig.get(client, "/v1/tools").bearer_auth(&rig.key);
        let answer = request.header(header::ORIGIN, origin).send().await.unwrap();
        assert_eq!(answer.status(), status, "{origin}");
    }
    // A name that is not the proxy's own: refused by the proxy or by toolcrib, but not served. In HTTP/2 the
    // name would be that of the address, whatever the header.
    let old = rig.builder(rig.clients).http1_only().build().unwrap();
    let request = rig.get(&old, "/v1/tools").bearer_auth(&rig.key);
    let answer = request.header(header::HOST, "evil.example").send().await;
    let served = answer.is_ok_and(|it| it.status() == 200 && it.content_length() != Some(0));
    assert!(!served, "a foreign Host was served");
}

/// The first event of a subscription arrives while its stream is open and stays silent.
async fn streams(rig: &Rig, client: &reqwest::Client) {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "notifications": { "toolsListChanged": true },
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    } });
    let request = client
        .post(rig.url("/mcp"))
        .bearer_auth(&rig.key)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "subscriptions/listen")
        .json(&body);
    let mut stream = request.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    assert_eq!(stream.headers()[header::CONTENT_TYPE], "text/event-stream");
    let first = event(&mut stream).await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    // Still open: nothing ends it.
    let next = tokio::time::timeout(Duration::from_millis(200), stream.chunk()).await;
    assert!(next.is_err() || matches!(next, Ok(Ok(Some(_)))), "the stream has ended: {next:?}");
}

/// Reads one event of a stream.
async fn event(stream: &mut Response) -> Value {
    let mut text = String::new();
    loop {
        let piece = tokio::time::timeout(LIMIT, stream.chunk()).await;
        let piece = piece.expect("no event in time").unwrap().expect("the stream has ended");
        text.push_str(std::str::from_utf8(&piece).unwrap());
        let data = text.lines().find_map(|line| line.strip_prefix("data: "));
        if let Some(value) = data.and_then(|it| serde_json::from_str(it).ok()) {
            return value;
        }
    }
}

/// A toolcrib server, and the certificates and addresses of a proxy in front of it.
struct Rig {
    dir: tempfile::TempDir,
    server: Server,
    /// A key of the server.
    key: String,
    /// The address of the proxy.
    listen: SocketAddr,
    /// Whether the proxy requires certificates of clients.
    clients: bool,
    authority: String,
    /// The certificate of a client with its key.
    identity: String,
}

impl Rig {
    fn new(clients: bool) -> Self {
        let dir = dir();
        let text = config("").replace(
            "listen = \"127.0.0.1:0\"",
            &format!("listen = \"127.0.0.1:0\"\nallowed_hosts = [\"{NAME}\"]"),
        );
        write_config(dir.path(), &text);
        let (_, key) = key(dir.path(), &["--scope", "*"]);
        let server = Server::start(dir.path());
        // The port is free again before the proxy takes it; no test asks for a certain one.
        let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();

        let place = dir.path().join("proxy");
        fs::create_dir(&place).unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        ca.distinguished_name.push(DnType::CommonName, "test authority");
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let issue = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            let certificate = params.signed_by(&key, &ca).unwrap();
            (certificate.pem(), key.serialize_pem())
        };
        let (certificate, secret) = issue(NAME);
        fs::write(place.join(format!("{NAME}.pem")), certificate).unwrap();
        fs::write(place.join(format!("{NAME}.key")), secret).unwrap();
        fs::write(place.join("clients-ca.pem"), ca.pem()).unwrap();
        let (certificate, secret) = issue("client.example");
        let identity = certificate + &secret;
        Self { server, key, listen, clients, authority: ca.pem(), identity, dir }
    }

    fn place(&self) -> PathBuf {
        self.dir.path().join("proxy")
    }

    /// Returns a file of `deploy/proxy` with the paths and the upstream of this test, and the changes of
    /// `edit`, which must change something.
    fn edited(&self, name: &str, edit: impl Fn(String) -> String) -> String {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/proxy").join(name);
        let mut text = fs::read_to_string(file).unwrap();
        let upstream: SocketAddr =
            self.server.url.strip_prefix("http://").unwrap().parse().unwrap();
        let folder = name.split('.').next().unwrap().trim_end_matches("file").to_lowercase();
        for (from, to) in [
            ("127.0.0.1:8808".to_owned(), upstream.to_string()),
            (
                "address: 127.0.0.1, port_value: 8808".to_owned(),
                format!("address: 127.0.0.1, port_value: {}", upstream.port()),
            ),
            (format!("/etc/{folder}/"), format!("{}/", self.place().display())),
        ] {
            text = text.replace(&from, &to);
        }
        assert!(text.contains(&upstream.port().to_string()), "{name} has another upstream");
        let edited = edit(text.clone());
        assert_ne!(edited, text, "{name} has another address");
        edited
    }

    fn client(&self, with_certificate: bool) -> reqwest::Client {
        self.builder(with_certificate).build().unwrap()
    }

    fn builder(&self, with_certificate: bool) -> reqwest::ClientBuilder {
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        #[expect(clippy::disallowed_methods, reason = "a client of the program under test")]
        let builder = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([Certificate::from_pem(self.authority.as_bytes()).unwrap()])
            .resolve(NAME, self.listen);
        match with_certificate {
            true => builder.identity(Identity::from_pem(self.identity.as_bytes()).unwrap()),
            false => builder,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{NAME}:{}{path}", self.listen.port())
    }

    fn get(&self, client: &reqwest::Client, path: &str) -> reqwest::RequestBuilder {
        client.get(self.url(path))
    }

    /// Waits until the proxy answers.
    async fn wait(&self, process: &Process, client: &reqwest::Client) {
        let deadline = tokio::time::Instant::now() + LIMIT;
        while self.get(client, "/livez").send().await.is_err() {
            assert!(tokio::time::Instant::now() < deadline, "{}", process.stderr());
            assert!(is_running(process.pid()), "{}", process.stderr());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Returns the text with its commented lines in force. Comments for people have a space after the mark.
fn without_comments(text: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn command(program: &Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "the test starts a proxy")]
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin");
    command
}
