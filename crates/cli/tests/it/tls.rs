//! TLS of the server's own: clients, client certificates, replaced files, and peers without TLS.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    sync::Arc,
    time::Duration,
};

use rustix::process::Signal;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use toolcrib_testkit::certificates::{Authority, Certificate};

use crate::support::{Server, config, dir, eventually, key, run, toolcrib, write_config};

const LONG: Duration = Duration::from_secs(60);
const LIVEZ: &[u8] = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A server in `dir` with a certificate of `authority`, and `tls` in its table.
fn start(dir: &Path, authority: &Authority, tls: &str) -> (Server, String) {
    authority.server().write(dir, "server");
    fs::write(dir.join("ca.pem"), authority.pem()).unwrap();
    // Relative paths start from the directory of the file, and not from the current one.
    let table = format!("tls = {{ cert = \"server.pem\", key = \"server.key\"{tls} }}\n");
    let text = config("").replace("listen =", &format!("{table}listen ="));
    write_config(dir, &text);
    let (_, key) = key(dir, &["--principal", "ada", "--scope", "*", "--scope", "metrics:all"]);
    let file = dir.join("toolcrib.toml");
    let server = Server::of(toolcrib(Path::new("/")).args(["serve", "--config"]).arg(file));
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    (server, key)
}

fn address(server: &Server) -> SocketAddr {
    server.url.strip_prefix("https://").unwrap().parse().unwrap()
}

/// A client that trusts `authority` and may present `identity`.
fn client(authority: &Authority, identity: Option<&Certificate>) -> reqwest::ClientBuilder {
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let trusted = reqwest::Certificate::from_pem(authority.pem().as_bytes()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a client of the program under test")]
    let builder = reqwest::Client::builder();
    let builder = builder.no_proxy().tls_certs_only([trusted]);
    match identity {
        Some(identity) => {
            let pem = format!("{}{}", identity.cert, identity.key);
            builder.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap())
        }
        None => builder,
    }
}

/// Returns the metric `name`.
async fn metric(http: &reqwest::Client, server: &Server, key: &str, name: &str) -> Option<f64> {
    let request = http.get(format!("{}/metrics", server.url)).bearer_auth(key);
    let text = request.send().await.unwrap().error_for_status().unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

/// Waits until so many handshakes have failed for `reason`.
async fn until_failed(
    http: &reqwest::Client,
    server: &Server,
    key: &str,
    reason: &str,
    times: f64,
) {
    let name = format!("toolcrib_tls_handshakes_failed_total{{reason=\"{reason}\"}}");
    let counted = async {
        while metric(http, server, key, &name).await.is_none_or(|count| count < times) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, counted).await.unwrap_or_else(|_| panic!("{reason} is too rare"));
}

/// Opens a TLS connection that presents `identity`.
async fn connect(
    server: &Server,
    authority: &Authority,
    identity: Option<&Certificate>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        Some(identity) => {
            let cert = CertificateDer::from_pem_slice(identity.cert.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![cert], key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    let stream = TcpStream::connect(address(server)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    timeout(LONG, TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap()
}

/// The certificate that the server presented.
fn presented(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// Sends a request and reads the beginning of its answer.
async fn livez(stream: &mut TlsStream<TcpStream>) -> std::io::Result<String> {
    stream.write_all(LIVEZ).await?;
    let mut bytes = vec![0; 15];
    timeout(LONG, stream.read_exact(&mut bytes)).await.unwrap()?;
    // Its headers and body fit into one read.
    let mut rest = vec![0; 4_096];
    let read = timeout(LONG, stream.read(&mut rest)).await.unwrap()?;
    assert!(read > 0);
    Ok(String::from_utf8(bytes).unwrap())
}

// I-112
/// A cookie of an encrypted page, and one that a page without encryption could have had.
#[tokio::test]
async fn a_browser_session_is_for_encrypted_pages_alone() {
    let dir = dir();
    let authority = Authority::new("ours");
    let (server, key) = start(dir.path(), &authority, "");
    let own = server.url.clone();
    let port = own.rsplit(':').next().unwrap();
    for builder in [client(&authority, None), client(&authority, None).http1_only()] {
        let http = builder.build().unwrap();
        let sessions = format!("{own}/v1/sessions");
        let plain = http.post(&sessions).bearer_auth(&key);
        let plain = plain.header("origin", own.replace("https", "http")).send().await.unwrap();
        assert_eq!(plain.status().as_u16(), 403);
        let made = http.post(&sessions).bearer_auth(&key).header("origin", &own);
        let made = made.send().await.unwrap();
        let set = made.headers()["set-cookie"].to_str().unwrap().to_owned();
        let made: serde_json::Value = made.json().await.unwrap();
        let secret = made["secret"].as_str().unwrap();
        assert!(set.starts_with(&format!("__Host-toolcrib-{port}=")), "{set}");
        assert!(set.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{set}");
        let cookie = set.split(';').next().unwrap();
        let value = cookie.split('=').nth(1).unwrap();
        for (cookie, status) in [
            (cookie.to_owned(), 200),
            (format!("toolcrib-session-{port}={value}"), 401),
            (format!("toolcrib-session={value}"), 401),
            (format!("__Host-toolcrib={value}"), 401),
        ] {
            let request = http.get(format!("{own}/v1/whoami")).header("cookie", &cookie);
            let answer = request.header("toolcrib-session", secret).send().await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "{cookie}");
        }
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_both_versions_of_http_and_the_command_line_use_https() {
    let dir = dir();
    let authority = Authority::new("ours");
    let (server, key) = start(dir.path(), &authority, ", hsts = \"30d\"");
    for (builder, version) in [
        (client(&authority, None), reqwest::Version::HTTP_2),
        (client(&authority, None).http1_only(), reqwest::Version::HTTP_11),
        (client(&authority, None).http2_prior_knowledge(), reqwest::Version::HTTP_2),
        (
            client(&authority, None).tls_version_max(reqwest::tls::Version::TLS_1_2),
            reqwest::Version::HTTP_2,
        ),
    ] {
        let http = builder.build().unwrap();
        let request = http.get(format!("{}/v1/tools", server.url)).bearer_auth(&key);
        let answer = request.send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, version));
        assert_eq!(answer.headers()["strict-transport-security"], "max-age=2592000");
        // An own page, and one that somebody between put there.
        let own = server.url.clone();
        for (origin, status) in [(own.clone(), 200), (own.replace("https", "http"), 403)] {
            let request = http.get(format!("{own}/v1/tools")).bearer_auth(&key);
            let answer = request.header("origin", &origin).send().await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "{origin}");
        }
    }
    let http = client(&authority, None).build().unwrap();
    let expires = metric(&http, &server, &key, "toolcrib_tls_certificate_expires_seconds{}").await;
    assert!(expires.unwrap() > 1.6e9, "{expires:?}");

    fs::write(dir.path().join("other.pem"), Authority::new("other").pem()).unwrap();
    fs::write(dir.path().join("key.txt"), &key).unwrap();
    let listed = |more: &[&str]| {
        let args = ["--url", &server.url, "--key-file", "key.txt", "tools", "list"];
        run(dir.path(), &[&args, more].concat())
    };
    eventually("the tools are listed", || {
        listed(&["--ca-file", "ca.pem"]).ok().stdout.contains("demo__echo")
    });
    for untrusted in [&[][..], &["--ca-file", "other.pem"]] {
        let refused = listed(untrusted);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("certificate"), "{refused:?}");
        assert!(refused.stderr.contains("with --ca-file or TOOLCRIB_CA_FILE"), "{refused:?}");
    }
    let unreadable = listed(&["--ca-file", "key.txt"]);
    assert!(unreadable.stderr.contains("contains no PEM certificate"), "{unreadable:?}");
    let args = ["--url", &server.url, "--ca-file", "ca.pem", "conformance", "--protocol", "mcp"];
    let checked = run(dir.path(), &[&args[..], &["--key-file", "key.txt"]].concat()).ok();
    assert!(checked.stdout.contains("PASS"), "{checked:?}");
    until_failed(&http, &server, &key, "server_certificate", 2.0).await;
    server.stop();
}

#[test]
fn a_failed_handshake_says_which_option_helps() {
    let dir = dir();
    let authority = Authority::new("ours");
    let hint = |url: &str, more: &[&str]| {
        let args = ["--url", url, "--key", "tc_x", "keys", "list"];
        let refused = run(dir.path(), &[&args, more].concat());
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("hint: "), "no hint: {refused:?}");
        refused.stderr
    };
    let (server, _) = start(dir.path(), &authority, ", client_ca = \"ca.pem\"");
    let said = hint(&server.url, &["--ca-file", "ca.pem"]);
    assert!(said.contains("--client-cert and --client-key"), "{said}");
    let said = hint(&server.url, &[]);
    assert!(said.contains("--ca-file"), "{said}");
    server.stop();

    write_config(dir.path(), &config(""));
    let plain = Server::start(dir.path());
    let said = hint(&plain.url.replace("http://", "https://"), &[]);
    assert!(said.contains("write http:// in --url"), "{said}");
    let url = plain.url.clone();
    plain.stop();
    let said = hint(&url, &[]);
    assert!(said.ends_with("hint: is `toolcrib serve` running there?\n"), "{said}");
}

// I-30
#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_the_network_needs_tls_and_nothing_else() {
    let dir = dir();
    let authority = Authority::new("ours");
    authority.server().write(dir.path(), "server");
    write_config(
        dir.path(),
        "[server]\nlisten = \"0.0.0.0:0\"\ntls = { cert = \"server.pem\", key = \"server.key\" }\n",
    );
    let server = Server::start(dir.path());
    assert!(server.url.starts_with("https://0.0.0.0:"), "{}", server.url);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_is_required_and_is_no_credential() {
    let dir = dir();
    let (authority, clients) = (Authority::new("ours"), Authority::new("clients"));
    fs::write(dir.path().join("clients.pem"), clients.pem()).unwrap();
    let (server, key) = start(dir.path(), &authority, ", client_ca = \"clients.pem\"");
    let ada = clients.client("ada");
    let url = format!("{}/v1/tools", server.url);

    let known = client(&authority, Some(&ada)).build().unwrap();
    let without_key = known.get(&url).send().await.unwrap();
    assert_eq!(without_key.status().as_u16(), 401, "a certificate is no key");
    let with_key = known.get(&url).bearer_auth(&key).send().await.unwrap();
    assert_eq!(with_key.status().as_u16(), 200);

    // A certificate of another authority, one for servers, and none.
    let foreign = Authority::new("clients").client("ada");
    for identity in [None, Some(&foreign), Some(&clients.server())] {
        let stranger = client(&authority, identity).build().unwrap();
        stranger.get(&url).bearer_auth(&key).send().await.unwrap_err();
        // With TLS 1.3 the client learns of the refusal when it reads.
        let answered = match connect(&server, &authority, identity).await {
            Ok(mut stream) => livez(&mut stream).await,
            Err(error) => Err(error),
        };
        assert!(answered.is_err(), "{answered:?}");
    }
    until_failed(&known, &server, &key, "client_certificate", 6.0).await;
    let line = server.process.stderr();
    assert!(line.contains("a TLS handshake failed reason=\"client_certificate\""), "{line}");

    fs::write(dir.path().join("key.txt"), &key).unwrap();
    ada.write(dir.path(), "ada");
    let list = |more: &[&str]| {
        let args = ["--url", &server.url, "--ca-file", "ca.pem", "--key-file", "key.txt"];
        run(dir.path(), &[&args, more, &["tools", "list"]].concat())
    };
    list(&["--client-cert", "ada.pem", "--client-key", "ada.key"]).ok();
    assert_eq!(list(&[]).code, 1);
    let alone = list(&["--client-cert", "ada.pem"]);
    assert!(alone.stderr.contains("private key"), "{alone:?}");
    assert_eq!(list(&["--client-key", "ada.key"]).code, 2);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_files_are_used_for_new_connections_only() {
    let dir = dir();
    let authority = Authority::new("ours");
    let (server, key) = start(dir.path(), &authority, "");
    let mut old = connect(&server, &authority, None).await.unwrap();
    let first = presented(&old);
    let http = client(&authority, None).build().unwrap();
    let url = server.url.clone();
    let listed = async {
        let tools = || http.get(format!("{url}/v1/tools")).bearer_auth(&key).send();
        while !tools().await.unwrap().text().await.unwrap().contains("demo.slow") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, listed).await.expect("the tools are listed");
    // A call that runs while the certificate is replaced.
    let call = tokio::spawn(async move {
        let input = json!({ "steps": 100, "step_ms": 40 });
        let body = json!({ "request": { "tool_id": "demo__slow", "input": input } });
        let request = http.post(format!("{url}/tools/call")).bearer_auth(key).json(&body);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    });

    // A key of another certificate: the old pair stays, and new connections work.
    let next = authority.server();
    fs::write(dir.path().join("server.key"), &next.key).unwrap();
    eventually("the refusal", || {
        let said = server.process.stderr();
        said.contains("the certificate was not replaced; the old one stays")
            && said.contains("server.key: the private key does not match the certificate")
    });
    assert_eq!(presented(&connect(&server, &authority, None).await.unwrap()), first);

    // Now the certificate follows.
    fs::write(dir.path().join("server.pem"), &next.cert).unwrap();
    replaced(&server, 1);
    let second = presented(&connect(&server, &authority, None).await.unwrap());
    assert_ne!(second, first);
    assert_eq!(livez(&mut old).await.unwrap(), "HTTP/1.1 200 OK");
    let (status, body) = call.await.unwrap();
    assert_eq!(status, 200, "{body}");

    // Other files, by a changed configuration; a wrong one is refused as a whole.
    let text = fs::read_to_string(dir.path().join("toolcrib.toml")).unwrap();
    write_config(dir.path(), &text.replace("server.pem", "gone.pem"));
    eventually("the refusal of the configuration", || {
        let said = server.process.stderr();
        said.contains("the configuration was not applied") && said.contains("gone.pem: the file")
    });
    fs::create_dir(dir.path().join("v1")).unwrap();
    let third = authority.server();
    third.write(&dir.path().join("v1"), "server");
    symlink("v1", dir.path().join("current")).unwrap();
    let moved = text.replace("\"server.", "\"current/server.");
    write_config(dir.path(), &moved);
    replaced(&server, 2);
    let third = CertificateDer::from_pem_slice(third.cert.as_bytes()).unwrap().to_vec();
    assert_eq!(presented(&connect(&server, &authority, None).await.unwrap()), third);
    assert!(!server.process.stderr().contains("restart the server to apply it"));

    // A directory that is swapped by its link.
    fs::create_dir(dir.path().join("v2")).unwrap();
    authority.server().write(&dir.path().join("v2"), "server");
    symlink("v2", dir.path().join("new")).unwrap();
    fs::rename(dir.path().join("new"), dir.path().join("current")).unwrap();
    replaced(&server, 3);
    assert_ne!(presented(&connect(&server, &authority, None).await.unwrap()), third);
    assert_eq!(livez(&mut old).await.unwrap(), "HTTP/1.1 200 OK");

    server.process.signal(Signal::HUP);
    replaced(&server, 4);
    server.stop();
}

/// Waits until the certificate has been replaced so many times.
fn replaced(server: &Server, times: usize) {
    eventually("the new certificate is in force", || {
        let said = server.process.stderr();
        said.matches("the certificate was reloaded").count() >= times
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_without_tls_disturb_nothing() {
    let dir = dir();
    let authority = Authority::new("ours");
    let (server, key) = start(dir.path(), &authority, "");
    let mut open = connect(&server, &authority, None).await.unwrap();

    let mut http = TcpStream::connect(address(&server)).await.unwrap();
    http.write_all(LIVEZ).await.unwrap();
    let mut answer = String::new();
    timeout(LONG, http.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.ends_with("This port requires TLS: use an https URL.\r\n"), "{answer}");

    for garbage in [&b"\x00\x01\x02\x03"[..], &[0x16; 4_096], &[0xff; 100_000]] {
        let mut stream = TcpStream::connect(address(&server)).await.unwrap();
        // The server may close before it has everything.
        stream.write_all(garbage).await.ok();
        timeout(LONG, stream.read_to_end(&mut Vec::new())).await.expect("closed").ok();
    }
    assert_eq!(livez(&mut open).await.unwrap(), "HTTP/1.1 200 OK");
    let http = client(&authority, None).build().unwrap();
    until_failed(&http, &server, &key, "plain_http", 1.0).await;
    until_failed(&http, &server, &key, "not_tls", 3.0).await;
    server.stop();
}

#[test]
fn the_check_reads_the_files() {
    let dir = dir();
    let authority = Authority::new("ours");
    authority.expired_server().write(dir.path(), "server");
    let text = "[server]\ntls = { cert = \"server.pem\", key = \"server.key\" }\n";
    let check = |text: &str| {
        write_config(dir.path(), text);
        run(dir.path(), &["config", "check"])
    };
    let expired = check(text);
    assert_eq!(expired.code, 0, "{expired:?}");
    assert!(expired.stderr.contains("server.pem expired on 2020-04-01"), "{expired:?}");
    fs::set_permissions(dir.path().join("server.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = check(text);
    assert!(exposed.code == 0 && exposed.stderr.contains("chmod 600"), "{exposed:?}");

    let gone = check(&text.replace("server.key", "gone.key"));
    assert_eq!(gone.code, 1);
    insta::assert_snapshot!(gone.stdout, @"toolcrib.toml:2: `server.tls.key`: gone.key: the file cannot be read (not found); check the path and the permissions; relative paths start from the directory of the configuration");
    let unknown = check("[server]\ntls = { cert = \"server.pem\", kee = \"server.key\" }\n");
    assert_eq!(unknown.code, 1);
    assert!(unknown.stdout.contains("unknown field `kee`"), "{unknown:?}");
    let plain = check(&format!(
        "{text}[auth.resource]\nresource = \"http://127.0.0.1:8808/mcp\"\n\
         authorization_servers = [\"https://id.example.com\"]\n"
    ));
    assert!(plain.stdout.contains("expected an https address, because `server.tls`"), "{plain:?}");
}

// A program that a source confines must not read the private key.
#[test]
fn a_confined_program_cannot_be_given_the_private_key() {
    let dir = dir();
    Authority::new("ours").server().write(dir.path(), "server");
    write_config(
        dir.path(),
        "[server]\ntls = { cert = \"server.pem\", key = \"server.key\" }\n\
         [[source]]\nid = \"files\"\nkind = \"mcp\"\ncommand = [\"cat\"]\n\
         [source.sandbox]\nread = [\"server.key\"]\n",
    );
    let refused = run(dir.path(), &["config", "check"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stdout.contains("the data directory or a key of the server"), "{refused:?}");
}

/// The probe of the container needs no options: it accepts exactly the certificate of the configuration,
/// which names another machine or has expired.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_asked_for_its_health_with_its_own_certificate() {
    let authority = Authority::new("ours");
    // Without a name, and one that has expired.
    for certificate in [authority.client("none"), authority.expired_server()] {
        let dir = dir();
        let path = dir.path();
        certificate.write(path, "server");
        authority.server().write(path, "other");
        let write = |file: &str, listen: &str, name: &str| {
            let tls = format!("{{ cert = \"{name}.pem\", key = \"{name}.key\" }}");
            let text = format!("[server]\nlisten = \"{listen}\"\ntls = {tls}\n");
            fs::write(path.join(file), text).unwrap();
        };
        write("toolcrib.toml", "127.0.0.1:0", "server");
        let server = Server::start(path);
        let listen = address(&server).to_string();
        let health = |name: &str| {
            write("own.toml", &listen, name);
            run(path, &["--config", "own.toml", "health"])
        };
        assert_eq!(health("server").ok().stdout, "ready\n");
        let other = health("other");
        assert_eq!(other.code, 1, "{other:?}");
        assert!(other.stderr.contains("does not present the certificate"), "{other:?}");
        let url = run(path, &["--url", &server.url, "health"]);
        assert_eq!(url.code, 1, "an authority that is not trusted: {url:?}");
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_of_a_server_with_client_certificates_needs_one() {
    let dir = dir();
    let path = dir.path();
    let (authority, clients) = (Authority::new("ours"), Authority::new("clients"));
    fs::write(path.join("clients.pem"), clients.pem()).unwrap();
    clients.client("ada").write(path, "ada");
    let (server, _) = start(path, &authority, ", client_ca = \"clients.pem\"");
    let text = fs::read_to_string(path.join("toolcrib.toml")).unwrap();
    let own = text.replace("127.0.0.1:0", &address(&server).to_string());
    fs::write(path.join("own.toml"), own).unwrap();
    let health = |more: &[&str]| run(path, &[&["--config", "own.toml", "health"], more].concat());
    let without = health(&[]);
    assert_eq!(without.code, 1, "{without:?}");
    assert!(without.stderr.contains("requires a client certificate"), "{without:?}");
    assert!(without.stderr.contains("TOOLCRIB_CLIENT_CERT"), "{without:?}");
    let with = health(&["--client-cert", "ada.pem", "--client-key", "ada.key"]);
    assert_eq!(with.ok().stdout, "ready\n");
    server.stop();
}
