//! Missing secrets of the configuration: only their sources are unavailable.

use crate::support::{config, dir, run, write_config};

const MISSING: &str = "environment variable TOOLCRIB_TEST_MISSING is not set";

const WEBHOOK: &str = "[[approvals.webhook]]\nurl = \"https://hooks.example.com\"\n\
                       secret = { env = \"TOOLCRIB_TEST_MISSING\" }\n";

#[test]
fn commands_beside_the_store_need_no_secret_of_the_server() {
    let dir = dir();
    let forward = "[[record.forward]]\nname = \"siem\"\nkind = \"http\"\n\
                   url = \"https://siem.example.com\"\n\
                   headers = { authorization = { env = \"TOOLCRIB_TEST_MISSING\" } }\n";
    let text = config(&format!("{WEBHOOK}{forward}"));
    write_config(dir.path(), &text);
    let create = ["keys", "create", "--name", "ci", "--scope", "demo:read"];
    let call = ["call", "demo__echo", r#"{"text":"hi"}"#];
    for args in [
        &create[..],
        &["keys", "list"],
        &["tools", "list"],
        &["tools", "show", "demo__echo"],
        &call,
        &["explain", "--principal", "ci", "--tool", "demo__echo"],
        &["sources", "check"],
        &["approvals", "list"],
        &["runs", "list"],
        &["audit", "tail"],
        &["audit", "export"],
        &["audit", "forwarders"],
        &["credentials", "list"],
    ] {
        let ran = run(dir.path(), args).ok();
        assert!(!ran.stderr.contains("TOOLCRIB_TEST_MISSING"), "{args:?}: {}", ran.stderr);
    }
    let line = |key: &str| {
        let at = text.lines().position(|line| line.starts_with(key)).unwrap();
        at + 1
    };
    let expected = [
        format!("toolcrib.toml:{}: `approvals.webhook.secret`: {MISSING}", line("secret")),
        format!(
            "toolcrib.toml:{}: `record.forward.siem.headers.authorization`: {MISSING}",
            line("headers")
        ),
    ];
    let checked = run(dir.path(), &["config", "check"]);
    assert_eq!((checked.code, checked.stdout.trim_end()), (1, expected.join("\n").as_str()));
    let served = run(dir.path(), &["serve"]);
    assert_eq!(served.code, 1);
    assert!(expected.iter().all(|line| served.stderr.contains(line)), "{}", served.stderr);
}

#[test]
fn a_source_without_its_secret_is_not_started_and_the_others_are() {
    let dir = dir();
    let needy = "[[source]]\nid = \"needy\"\nkind = \"mcp\"\n\
                 command = [\"sh\", \"-c\", \"touch started\"]\n\
                 env = { TOKEN = { env = \"TOOLCRIB_TEST_MISSING\" } }\n";
    write_config(dir.path(), &config(needy));
    let listed = run(dir.path(), &["tools", "list"]).ok();
    assert!(listed.stdout.contains("demo__echo"), "{}", listed.stdout);
    let warning = format!("warning: source `needy` did not answer ({MISSING})");
    assert!(listed.stderr.contains(&warning), "{}", listed.stderr);
    let checked = run(dir.path(), &["--json", "sources", "check"]);
    assert_eq!(checked.code, 1);
    let checked = checked.json();
    let source = checked.as_array().unwrap().iter().find(|it| it["id"] == "needy").unwrap();
    assert_eq!(
        (source["state"].as_str(), source["detail"].as_str()),
        (Some("degraded"), Some(MISSING))
    );
    let call = run(dir.path(), &["call", "demo__echo", r#"{"text":"hi"}"#]).ok();
    assert_eq!(call.stdout, "hi\n");
    assert!(!dir.path().join("started").exists());
}

#[test]
fn the_seal_key_is_read_when_something_is_sealed() {
    let dir = dir();
    let sealed = "[store]\nseal_key = { env = \"TOOLCRIB_TEST_MISSING\" }\n";
    write_config(
        dir.path(),
        &format!("{sealed}{}", config("[source.tools.wipe]\napproval = \"always\"\n")),
    );
    for args in [
        &["tools", "list"][..],
        &["call", "demo__echo", r#"{"text":"hi"}"#],
        &["approvals", "list"],
        &["credentials", "list"],
    ] {
        run(dir.path(), args).ok();
    }
    // I-15
    let wipe = run(dir.path(), &["call", "demo__wipe"]);
    assert_eq!((wipe.code, wipe.stdout.as_str()), (1, ""), "{wipe:?}");
    for args in [&["serve"][..], &["approvals", "grant", "apr_1"]] {
        let refused = run(dir.path(), args);
        assert_eq!(refused.code, 1);
        assert!(refused.stderr.contains(MISSING), "{args:?}: {}", refused.stderr);
    }
    let checked = run(dir.path(), &["config", "check"]);
    let problem =
        format!("toolcrib.toml:2: `store.seal_key`: `[store] seal_key` cannot be read: {MISSING}");
    assert!(checked.stdout.starts_with(&problem), "{}", checked.stdout);
}
