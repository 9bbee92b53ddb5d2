//! Keys over their whole life, against a running server.

use serde_json::json;

use crate::support::{Server, config, dir, eventually, key, run, write_config};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_works_until_it_is_revoked() {
    let dir = dir();
    write_config(dir.path(), &config("[[role]]\nname = \"reader\"\nscopes = [\"demo:read\"]\n"));
    let server = Server::start(dir.path());
    let (id, text) = key(dir.path(), &["--role", "reader", "--expires", "1d"]);
    let caller = server.caller(Some(&text));
    eventually("the key works", || {
        let status = futures(caller.get("/v1/tools")).0;
        assert!(matches!(status, 200 | 401), "{status}");
        status == 200
    });
    assert_eq!(server.caller(Some("tc_nonsense")).get("/v1/tools").await.0, 401);
    run(dir.path(), &["keys", "revoke", &id]).ok();
    eventually("the key is refused", || futures(caller.get("/v1/tools")).0 == 401);
    let again = run(dir.path(), &["keys", "revoke", &id]);
    assert_eq!(again.code, 1, "{again:?}");
}

/// Blocks on a future inside a test of several threads.
fn futures<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}

#[test]
fn a_key_is_shown_once_and_listed_without_its_text() {
    let dir = dir();
    let made = run(
        dir.path(),
        &["keys", "create", "--name", "ci", "--tenant", "acme", "--scope", "a:b", "--scope", "c:*"],
    );
    let made = made.ok();
    let text = made.stdout.trim_end();
    assert!(text.starts_with("tc_") && text.len() == 46, "{text}");
    assert!(!made.stderr.contains("tc_"), "{}", made.stderr);
    let listed = run(dir.path(), &["--json", "keys", "list"]).ok();
    assert!(!listed.stdout.contains("tc_") && !listed.stdout.contains("digest"));
    let listed = listed.json();
    let id = &listed[0]["id"];
    assert_eq!(
        json!([
            listed[0]["name"],
            listed[0]["tenant"],
            listed[0]["principal"],
            listed[0]["scopes"]
        ]),
        json!(["ci", "acme", "ci", ["a:b", "c:*"]])
    );
    let table = run(dir.path(), &["keys", "list"]).ok().stdout;
    assert!(
        table.starts_with("ID") && table.contains(id.as_str().unwrap()) && table.contains("active")
    );
    run(dir.path(), &["keys", "revoke", id.as_str().unwrap()]).ok();
    assert!(run(dir.path(), &["keys", "list"]).ok().stdout.contains("revoked "));
}

#[test]
fn an_unknown_role_is_warned_about() {
    let dir = dir();
    let made = run(dir.path(), &["keys", "create", "--name", "ci", "--role", "nobody"]).ok();
    assert!(made.stderr.contains("warning: there is no role `nobody`"), "{}", made.stderr);
}

#[cfg(unix)]
#[test]
fn the_store_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = dir();
    key(dir.path(), &["--scope", "a"]);
    let mode = |path: &str| dir.path().join(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(".toolcrib/toolcrib.db"), 0o600);
    assert_eq!(mode(".toolcrib"), 0o700);
}
