//! `hash`: redaction, canonical form and digest.

use crate::support::{dir, run};

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

#[test]
fn what_has_no_exact_form_is_refused() {
    // I-17
    for document in ["9007199254740993", r#"{"a":1,"a":1}"#, "[1,]", ""] {
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
