//! `hash`: redaction, canonical form and digest.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Server, config, dir, key, run, write_config, write_private};

fn hash(args: &[&str]) -> String {
    run(dir().path(), &[&["hash"], args].concat()).ok().stdout.trim_end().to_owned()
}

#[test]
fn the_hash_is_over_the_canonical_form() {
    // I-17
    // printf '%s' '{}' | sha256sum
    assert_eq!(hash(&["{}"]), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    // printf '%s' '{"a":[2,1000,"é"],"b":1}' | sha256sum
    let canonical = hash(&[r#"{"a":[2,1000,"é"],"b":1}"#]);
    assert_eq!(hash(&["{ \"b\": 1.0, \"a\": [2e0, 1E3, \"\\u00e9\"] }"]), canonical);
    assert_ne!(hash(&[r#"{"a":[2,1000,"e"],"b":1}"#]), canonical);
}

#[test]
fn secrets_do_not_change_the_hash_unless_asked_for() {
    let one = r#"{"user":"ana","password":"one"}"#;
    let two = r#"{"user":"ana","password":"two"}"#;
    assert_eq!(hash(&[one]), hash(&[two]));
    assert_ne!(hash(&["--no-redact", one]), hash(&["--no-redact", two]));
}

/// The test vectors of docs/explanation/record.md.
#[test]
fn numbers_beyond_a_double_have_hashes_of_their_own() {
    for (document, expected) in [
        (
            r#"{"id":1915883588174806058}"#,
            "6d0eeb8389c17cbd8f95d3591e51f7b5b9332e9382e81bd8490ce1d6937b650a",
        ),
        (
            r#"{"id":9007199254740993.0}"#,
            "2185812179ffd2b19c8154d2d409599d231fb75ef4968df59b7f02b435c094fa",
        ),
        (
            r#"{"n":[18446744073709551616,1e400,1E-400,-0,0.10]}"#,
            "f1f7d0ba2a67dd40ea9b159c6c13bac686d80756ff98e6b897ba157347071e37",
        ),
    ] {
        assert_eq!(hash(&[document]), expected, "{document}");
    }
}

#[test]
fn what_is_not_one_document_is_refused() {
    // I-17
    for document in [r#"{"a":1,"a":1}"#, "[1,]", "", "1e9999"] {
        let ran = run(dir().path(), &["hash", document]);
        assert_ne!(ran.code, 0, "{document}");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn it_can_be_json_and_come_from_a_file() {
    let dir = dir();
    std::fs::write(dir.path().join("a.json"), "{}").unwrap();
    let ran = run(dir.path(), &["--json", "hash", "@a.json"]).ok().json();
    assert_eq!(ran["sha256"], "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
}

/// A short secret cannot be guessed from the record without the key.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_protects_the_hashes_of_the_record() {
    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let dir = dir();
    let path = dir.path();
    write_private(&path.join("hash.key"), KEY);
    let text = "[record]\nhash_key = { file = \"hash.key\" }\n";
    write_config(path, &format!("{text}{}", config("")));
    let (_, all) = key(path, &["--scope", "*"]);
    let server = Server::start(path);
    let caller = server.caller(Some(&all));
    let arguments = json!({ "text": "0042" });
    let mut tries = 0;
    while caller.otc("demo__echo", arguments.clone()).await.0 != 200 {
        tries += 1;
        assert!(tries < 600, "the tool cannot be called");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let export = run(path, &["audit", "export"]).ok().stdout;
    let mut events = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let called = events.rfind(|event| event["type"] == "agent.toolCalled").unwrap();
    let recorded = called["payload"]["argsHash"].as_str().unwrap().to_owned();
    let arguments = arguments.to_string();
    let plain = run(path, &["hash", &arguments]).ok().stdout;
    let keyed = run(path, &["hash", "--keyed", &arguments]).ok().stdout;
    assert_eq!(recorded, keyed.trim_end());
    assert_ne!(recorded, plain.trim_end());
    // printf '%s' '{"text":"0042"}' | openssl dgst -sha256 -mac HMAC -macopt hexkey:000102…1f
    assert_eq!(recorded, "d41fa37cdbf1e4e18a6f1e9511fbeda73d70623684254f9d850dc3ee11b88c54");
    for shown in [&export, &keyed, &server.process.stderr()] {
        assert!(!shown.contains(KEY), "the key is nowhere");
    }
    server.stop();

    fs::write(path.join("hash.key"), "short").unwrap();
    let refused = run(path, &["hash", "--keyed", "{}"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("`[record] hash_key` is not a key"), "{}", refused.stderr);
    write_config(path, &config(""));
    let refused = run(path, &["hash", "--keyed", "{}"]);
    assert!(refused.stderr.contains("`[record] hash_key` is not set"), "{}", refused.stderr);
}
