//! Packs from the command line: installing, checking, serving.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{dir, run, write_config};

const NAME: &str = "vendor.toolcrib.everyday";

fn everyday() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/everyday")
}

fn copied(to: &Path) {
    std::fs::create_dir_all(to.join("schemas")).unwrap();
    for file in ["pack.json", "everyday.wasm"] {
        std::fs::copy(everyday().join(file), to.join(file)).unwrap();
    }
    for entry in std::fs::read_dir(everyday().join("schemas")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join("schemas").join(entry.file_name())).unwrap();
    }
}

/// The pack in the directory `changed`, as another version.
fn changed(dir: &Path, version: &str) -> PathBuf {
    let pack = dir.join(format!("everyday-{version}"));
    copied(&pack);
    let text = std::fs::read_to_string(pack.join("pack.json")).unwrap();
    let text = text.replacen("\"version\": \"1.0.0\"", &format!("\"version\": \"{version}\""), 1);
    std::fs::write(pack.join("pack.json"), text).unwrap();
    pack
}

fn serving(pack: &str, rest: &str) -> String {
    format!(
        "[[source]]\nid = \"everyday\"\nkind = \"node-pack\"\npack = \"{pack}\"\n{rest}\n\
         [source.tools.\"*\"]\nscopes = []\nsafety_tier = \"pure\"\n"
    )
}

/// The configuration of docs/guides/node-packs.md.
#[test]
fn the_pack_that_comes_along_is_served_without_being_installed() {
    let dir = dir();
    write_config(dir.path(), &serving(NAME, ""));
    run(dir.path(), &["config", "check", "--connect"]).ok();
    let listed = run(dir.path(), &["--json", "tools", "list"]).ok().json();
    assert_eq!(listed[0]["toolId"], "openwop:vendor.toolcrib.everyday.cron-next");
    assert_eq!((&listed[0]["source"], &listed[0]["egress"]), (&json!("node-pack"), &json!("none")));
    let arguments = r#"{"from": {"a": 1}, "to": {"a": 2, "b": []}}"#;
    let answer = run(dir.path(), &["call", "everyday__json-diff", arguments]).ok().stdout;
    let patch = r#"[{"op":"replace","path":"/a","value":2},{"op":"add","path":"/b","value":[]}]"#;
    assert_eq!(answer, format!("{{\"equal\":false,\"patch\":{patch}}}\n"));
    let arguments =
        r#"{"expression": "30 8 * * mon-fri", "after": "2026-11-20T10:00:00Z", "count": 2}"#;
    let answer = run(dir.path(), &["call", "everyday.cron_next", arguments]).ok().stdout;
    assert_eq!(answer, "{\"next\":[\"2026-11-23T08:30:00Z\",\"2026-11-24T08:30:00Z\"]}\n");
    let listed = run(dir.path(), &["packs", "list"]).ok().stdout;
    assert!(listed.contains(NAME) && listed.contains("part of this program"), "{listed}");
}

#[test]
fn packs_are_installed_verified_and_removed() {
    let dir = dir();
    let pack = changed(dir.path(), "1.5.0");
    let pack = pack.to_str().unwrap();
    let looked = run(dir.path(), &["--json", "packs", "verify", pack]).ok().json();
    assert_eq!(looked["version"], "1.5.0");
    let added = run(dir.path(), &["--json", "packs", "add", pack]).ok().json();
    assert_eq!(added["integrity"], looked["integrity"]);
    assert_eq!(added["nodes"].as_array().unwrap().len(), 2);
    let integrity = added["integrity"].as_str().unwrap();

    let lock = std::fs::read_to_string(dir.path().join(".toolcrib/packs/pack-lock.json")).unwrap();
    assert!(lock.contains(integrity) && lock.contains("\"lockfileVersion\": 1"), "{lock}");

    // An installed pack takes precedence over a bundled one, and can be pinned.
    for pinned in ["", &format!("integrity = \"{integrity}\"")] {
        write_config(dir.path(), &serving(NAME, pinned));
        let listed = run(dir.path(), &["--json", "sources", "list"]).ok().json();
        assert!(listed.to_string().contains("\"ready\""), "{listed}");
    }
    write_config(dir.path(), &serving(&format!("{NAME}@1.5.0"), ""));
    run(dir.path(), &["call", "everyday__json-diff", r#"{"from": 1, "to": 1}"#]).ok();

    let verified = run(dir.path(), &["packs", "verify"]).ok().stdout;
    assert_eq!(verified, format!("{NAME}@1.5.0: good\n"));
    let archive = dir.path().join(format!(".toolcrib/packs/{NAME}-1.5.0.tgz"));
    std::fs::write(&archive, b"other bytes").unwrap();
    let verified = run(dir.path(), &["packs", "verify"]);
    assert_eq!(verified.code, 1);
    assert!(verified.stdout.contains("pack_"), "{verified:?}");
    let refused = run(dir.path(), &["sources", "check"]);
    assert!(refused.code == 1 && refused.stdout.contains("pack_"), "{refused:?}");

    run(dir.path(), &["packs", "remove", &format!("{NAME}@1.5.0")]).ok();
    assert!(!archive.exists());
    let gone = run(dir.path(), &["packs", "remove", NAME]);
    assert!(gone.code == 1 && gone.stderr.contains("pack_lockfile_incomplete"), "{gone:?}");
}

#[test]
fn what_is_not_trusted_is_not_installed() {
    let dir = dir();
    let pack = everyday();
    let pack = pack.to_str().unwrap();
    let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let unsigned = run(dir.path(), &["packs", "add", pack, "--trusted-key", key]);
    assert!(
        unsigned.code == 1 && unsigned.stderr.contains("pack_signature_invalid"),
        "{unsigned:?}"
    );
    let wrong = format!("sha256-{key}");
    let other = run(dir.path(), &["packs", "add", pack, "--integrity", &wrong]);
    assert!(other.code == 1 && other.stderr.contains("pack_integrity_mismatch"), "{other:?}");
    let no_key = run(dir.path(), &["packs", "add", pack, "--trusted-key", "nonsense"]);
    assert!(no_key.code == 2 && no_key.stderr.contains("Ed25519"), "{no_key:?}");
    assert!(!dir.path().join(".toolcrib/packs/pack-lock.json").exists());
}

#[test]
fn packs_that_can_never_work_are_told_apart() {
    let dir = dir();
    for (pack, rest, complaint) in [
        (NAME, "grants = [\"fs\"]", "expected one of `log`, `clock`, `random`, `http`"),
        (NAME, "memory = \"1KiB\"", "expected between 64KiB and 1GiB"),
        (NAME, "integrity = \"sha256-x\"", "base64 of 32 bytes"),
        (NAME, "trusted_keys = [\"x\"]", "expected an Ed25519 public key"),
        (NAME, "nodes = [\"[\"]", "source.everyday.nodes"),
        (NAME, "allow = [\"10.0.0.0/8\"]", "requires the grant \"http\""),
        (NAME, "command = [\"x\"]", "is only for a source of kind \"mcp\""),
        ("a b", "", "expected a directory"),
    ] {
        write_config(dir.path(), &serving(pack, rest));
        let ran = run(dir.path(), &["config", "check"]);
        let said = ran.stdout + &ran.stderr;
        assert!(ran.code == 1 && said.contains(complaint), "{rest}: {said}");
    }
    write_config(dir.path(), &serving("./none", ""));
    let checked = run(dir.path(), &["sources", "check"]);
    assert!(checked.code == 1 && checked.stdout.contains("pack_unreadable"), "{checked:?}");
}

/// A server that answers one request with its head's `authorization`, as JSON.
fn echoing() -> std::net::SocketAddr {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
            let sent = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("authorization").then(|| value.to_owned())
            });
            let expected = sent.as_deref() == Some("Bearer canary-5f0e2a77");
            let body = json!({ "expected": expected, "sent": sent }).to_string();
            let length = body.len();
            write!(
                stream.get_mut(),
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    address
}

#[test]
fn a_declared_request_carries_the_credential_of_its_source() {
    let dir = dir();
    let pack = dir.path().join("pack");
    std::fs::create_dir(&pack).unwrap();
    let manifest = json!({
        "name": "local.test", "version": "1.0.0", "engines": { "openwop": "^1" },
        "runtime": { "language": "remote", "entry": format!("http://{}/", echoing()) },
        "nodes": [{ "typeId": "local.test.who", "x-toolcrib-request": { "path": "/who" } }],
    });
    std::fs::write(pack.join("pack.json"), manifest.to_string()).unwrap();
    run(dir.path(), &["credentials", "new-key", "--out", "seal.key"]).ok();
    let source =
        serving("./pack", "grants = [\"http\"]\nallow = [\"127.0.0.1\"]\ncredential = \"api\"");
    let source = source.replace("safety_tier = \"pure\"", "safety_tier = \"read\"");
    write_config(dir.path(), &format!("store.seal_key = {{ file = \"seal.key\" }}\n{source}"));
    std::fs::write(dir.path().join("value"), "canary-5f0e2a77").unwrap();
    let set = ["credentials", "set", "api", "--bearer", "--value-file", "value", "--audience"];
    run(dir.path(), &[&set[..], &["127.0.0.1"]].concat()).ok();
    let answer = run(dir.path(), &["call", "everyday__who"]).ok();
    assert!(answer.stdout.contains("\"expected\":true"), "{answer:?}");
    assert!(!answer.stdout.contains("canary"), "{answer:?}");

    // The code of a pack gets no credential.
    let source = serving(NAME, "credential = \"api\"");
    write_config(dir.path(), &format!("store.seal_key = {{ file = \"seal.key\" }}\n{source}"));
    let checked = run(dir.path(), &["sources", "check"]);
    assert!(
        checked.code == 1 && checked.stdout.contains("is for nodes that are requests"),
        "{checked:?}"
    );
}
