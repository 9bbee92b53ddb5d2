//! `explain`, on the store and against a running server, and `config check` of policies.

use serde_json::json;

use crate::support::{Server, config, dir, eventually, key, run, write_config};

const ROLES: &str = "[[role]]\nname = \"reader\"\nscopes = [\"demo:read\"]\n";

#[test]
fn an_operator_is_told_step_by_step() {
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let (id, _) = key(dir.path(), &["--role", "reader"]);
    let explain = |more: &[&str]| run(dir.path(), &[&["--json", "explain"], more].concat());
    let told = explain(&["--key-id", &id, "--tool", "demo__echo"]).ok().json();
    assert_eq!((&told["outcome"], &told["grants"]), (&json!("allowed"), &json!(["demo:read"])));
    let steps: Vec<&str> =
        told["steps"].as_array().unwrap().iter().map(|it| it["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["identity", "tool", "tenant", "pin", "scope", "rate", "approval", "source"]);
    let text = run(dir.path(), &["explain", "--scope", "mail:*", "--tool", "demo__echo"]);
    assert_eq!(text.code, 1, "{text:?}");
    assert!(text.stdout.contains("missing: ") && text.stdout.contains("hidden: "), "{text:?}");
    assert!(text.stdout.contains("roles with `demo:read`: reader\n"), "{text:?}");
    let empty = explain(&["--scope", "mail:*"]);
    assert_eq!((empty.code, &empty.json()["tools"]), (1, &json!(0)));
    assert_eq!(explain(&["--scope", "*", "--tool", "demo__absent"]).json()["outcome"], "unknown");

    run(dir.path(), &["keys", "revoke", &id]).ok();
    let revoked = explain(&["--key-id", &id, "--tool", "demo__echo"]);
    assert_eq!((revoked.code, &revoked.json()["outcome"]), (1, &json!("denied")));
    assert!(revoked.stdout.contains("is revoked"));
    for wrong in [
        &["explain", "--tool", "demo__echo"][..],
        &["explain", "--scope", "*", "--arguments-shape", "{}"],
        &["explain", "--scope", "*", "--tool", "a", "--arguments-shape", "{"],
        &["explain", "--role", "nobody"],
    ] {
        assert_eq!(run(dir.path(), wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(run(dir.path(), &["explain", "--principal", "nobody"]).code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_tells_a_key_about_itself() {
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let server = Server::start(dir.path());
    let (_, text) = key(dir.path(), &["--role", "reader"]);
    std::fs::write(dir.path().join("key.txt"), &text).unwrap();
    let told = |more: &[&str]| {
        let global = ["--json", "--url", &server.url, "--key-file", "key.txt", "explain"];
        run(dir.path(), &[&global, more].concat())
    };
    eventually("the key works", || told(&[]).code == 0);
    let echo = told(&["--tool", "demo__echo"]).ok().json();
    assert_eq!(echo["outcome"], "allowed");
    let absent = told(&["--tool", "demo__absent"]);
    assert_eq!((absent.code, &absent.json()["outcome"]), (1, &json!("unknown")));
    assert_eq!(told(&["--scope", "*"]).code, 2, "that is for the store");
    let who = echo["principal"].as_str().unwrap().to_owned();
    let refused = told(&["--principal", &who]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("explain:others"), "{refused:?}");

    // An admin gets the same explanation for another principal as that principal.
    let (_, admin) = key(dir.path(), &["--principal", "admin", "--scope", "explain:others"]);
    std::fs::write(dir.path().join("key.txt"), &admin).unwrap();
    eventually("the key works", || told(&["--principal", &who]).code == 0);
    let of_ci = told(&["--principal", &who, "--tool", "demo__echo"]).ok().json();
    assert_eq!(of_ci, echo);
    assert_eq!(told(&["--tool", "demo__echo"]).code, 1, "it may not call the tool itself");
    let nobody = told(&["--principal", "nobody", "--tool", "demo__echo"]);
    assert_eq!(nobody.code, 1);
    assert!(nobody.stderr.contains("no active key of this principal"), "{nobody:?}");
}

#[test]
fn policies_are_checked_with_file_and_line_and_asked_with_shapes() {
    let dir = dir();
    let policies = dir.path().join("some.cedar");
    write_config(dir.path(), &format!("[policy]\ncedar = [\"*.cedar\"]\n{}", config(ROLES)));
    std::fs::write(&policies, "permit(principal, action, resource);\n\nforbid(principal, action, resource)\nwhen { context.arguments.byts > 20 };\n").unwrap();
    let refused = run(dir.path(), &["config", "check"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stdout.contains("some.cedar:4: "), "{refused:?}");
    assert!(refused.stdout.contains("toolcrib.toml:2: `policy.cedar`"), "{refused:?}");

    std::fs::write(&policies, "permit(principal, action, resource);\n@id(\"short\")\nforbid(principal, action, resource)\nwhen { context.arguments.bytes > 20 };\n").unwrap();
    run(dir.path(), &["config", "check"]).ok();
    let explain = |arguments: &str| {
        let who = ["--json", "explain", "--role", "reader", "--tool", "demo__echo"];
        run(dir.path(), &[&who[..], &["--arguments-shape", arguments]].concat())
    };
    assert_eq!(explain("{\"text\": \"hi\"}").ok().json()["outcome"], "allowed");
    let denied = explain("{\"text\": \"hi, a little longer\"}");
    assert_eq!((denied.code, &denied.json()["outcome"]), (1, &json!("denied")));
    assert!(denied.stdout.contains("short (some.cedar:2)"), "{denied:?}");
    let who = ["--json", "explain", "--role", "reader", "--tool", "demo__echo"];
    assert_eq!(run(dir.path(), &who).ok().json()["outcome"], "depends");

    std::fs::remove_file(&policies).unwrap();
    let gone = run(dir.path(), &["config", "check"]);
    assert!(gone.code == 1 && gone.stdout.contains("matches no file"), "{gone:?}");
}
