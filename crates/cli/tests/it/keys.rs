//! The life cycle of keys, against a running server.

use serde_json::json;

use crate::support::{
    Server, config, dir, eventually, eventually_async, finish, key, run, toolcrib, write_config,
};

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
        table.starts_with("NAME")
            && table.contains(id.as_str().unwrap())
            && table.contains("active")
    );
    run(dir.path(), &["keys", "revoke", id.as_str().unwrap()]).ok();
    assert!(run(dir.path(), &["keys", "list"]).ok().stdout.contains("revoked "));
}

#[test]
fn a_key_with_an_unknown_role_is_not_made() {
    let dir = dir();
    write_config(dir.path(), &config("[[role]]\nname = \"reader\"\nscopes = [\"demo:read\"]\n"));
    let create =
        |args: &[&str]| run(dir.path(), &[&["keys", "create", "--name", "ci"], args].concat());
    let refused = create(&["--role", "raeder"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    let said = "error: there is no role `raeder` in the configuration; did you mean `reader`?\n";
    assert!(refused.stderr.starts_with(said), "{}", refused.stderr);
    assert!(!dir.path().join(".toolcrib").exists(), "nothing was made");
    // A scope may belong to a future tool, so a misspelt one is only a warning.
    let made = create(&["--role", "reader", "--scope", "demo:raed"]).ok();
    assert!(made.stderr.contains("did you mean `demo:read`?"), "{}", made.stderr);
    let made = create(&["--scope", "demo:*", "--scope", "audit:read"]).ok();
    assert!(!made.stderr.contains("did you mean"), "{}", made.stderr);
    let missing = run(dir.path(), &["keys", "revoke", "ci"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("which is called ci?"), "{}", missing.stderr);
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

#[test]
fn a_name_has_no_characters_that_are_not_seen() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let create = |name: &str| {
        let args = ["keys", "create", "--principal", "ci", "--scope", "a", "--name", name];
        run(dir.path(), &args)
    };
    for hidden in ["\u{202e}", "\u{2066}", "\u{2069}", "\u{200e}", "\u{200f}", "\u{202a}", "\u{1b}"]
    {
        let refused = create(&format!("a{hidden}b"));
        assert_eq!(refused.code, 2, "{hidden:?}: {refused:?}");
        assert!(refused.stderr.contains("contains an invisible character"), "{refused:?}");
    }
    create("der Schlüssel 日本").ok();
}

#[test]
fn parallel_rotations_make_one_key() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let (id, _) = key(dir.path(), &["--scope", "*"]);
    let rotations: Vec<_> = std::thread::scope(|scope| {
        let rotate = || finish(toolcrib(dir.path()).args(["keys", "rotate", &id]));
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(rotate)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (made, refused): (Vec<_>, Vec<_>) = rotations.iter().partition(|it| it.code == 0);
    assert_eq!(made.len(), 1, "{rotations:?}");
    for refused in refused {
        assert_eq!(refused.code, 1, "{refused:?}");
        let why = "another key follows this one already";
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
    let listed = run(dir.path(), &["--json", "keys", "list"]).ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
}

/// After a rotation both keys of the principal are valid, in the store and over HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_rotated_here_and_on_a_running_server() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let (id, text) = key(dir.path(), &["--scope", "*"]);
    let server = Server::start(dir.path());
    let next = run(dir.path(), &["--json", "keys", "rotate", &id, "--overlap", "1d"]).ok().json();
    assert_eq!((&next["replaces"], &next["principal"]), (&json!(id), &json!("test")));
    assert!(next["oldKeyEndsAt"].is_string());
    let new = next["key"].as_str().unwrap().to_owned();
    eventually("both keys work", || {
        [&text, &new].iter().all(|key| futures(server.caller(Some(key)).get("/v1/tools")).0 == 200)
    });
    assert_eq!(run(dir.path(), &["keys", "rotate", &id]).code, 1, "one key follows it");
    let changes = run(dir.path(), &["audit", "export", "--type", "key.changed"]).ok().stdout;
    let replaces = format!("\"replaces\":\"{id}\"");
    assert_eq!(
        changes.matches(&replaces).count(),
        1,
        "no event of a key that was not made: {changes}"
    );
    assert_eq!(run(dir.path(), &["keys", "rotate", "nothing"]).code, 1);
    assert_eq!(run(dir.path(), &["keys", "rotate", &id, "--overlap", "31d"]).code, 2);

    // Over HTTP a change is in effect when the command returns.
    let remote = |arguments: &[&str]| {
        let to = ["--json", "--url", &server.url];
        finish(toolcrib(dir.path()).args(to).args(arguments).env("TOOLCRIB_KEY", &new))
    };
    let made = remote(&["keys", "create", "--name", "ci", "--scope", "demo:*"]).ok().json();
    let ci = made["key"].as_str().unwrap().to_owned();
    assert_eq!(server.caller(Some(&ci)).get("/v1/tools").await.0, 200);
    let after = remote(&["keys", "rotate", made["id"].as_str().unwrap()]).ok().json();
    assert_eq!(server.caller(after["key"].as_str()).get("/v1/tools").await.0, 200);
    remote(&["keys", "revoke", made["id"].as_str().unwrap()]).ok();
    assert_eq!(server.caller(Some(&ci)).get("/v1/tools").await.0, 401);
    let listed = remote(&["keys", "list"]).ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 4);
    assert_eq!(remote(&["keys", "create", "--name", "x"]).code, 2);
    let elsewhere = ["keys", "create", "--name", "x", "--tenant", "t", "--scope", "a"];
    assert_eq!(remote(&elsewhere).code, 2);
}

#[tokio::test]
async fn sessions_of_the_page_are_listed_apart_from_keys_and_end_like_them() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let server = Server::start(dir.path());
    let (id, text) = key(dir.path(), &["--principal", "ada", "--scope", "keys:manage"]);
    let caller = server.caller(Some(&text));
    let mut sessions = Vec::new();
    eventually_async("the key works", async || caller.get("/v1/whoami").await.0 == 200).await;
    for _ in 0..2 {
        let page = [("origin", server.url.as_str())];
        let made = caller.request("POST", "/v1/sessions", &page).await;
        let made: serde_json::Value = made.json().await.unwrap();
        sessions.push(made["id"].as_str().unwrap().to_owned());
    }
    let none = run(dir.path(), &["--json", "keys", "list"]).ok().json();
    assert_eq!(none.as_array().unwrap().len(), 1, "{none}");
    let url = ["--url", &server.url, "--key-file", "key.txt"];
    std::fs::write(dir.path().join("key.txt"), &text).unwrap();
    for target in [&[][..], &url] {
        let listed = run(dir.path(), &[target, &["--json", "keys", "list", "--sessions"]].concat());
        let listed = listed.ok().json();
        let ids: Vec<_> = listed.as_array().unwrap().iter().map(|it| &it["id"]).collect();
        assert_eq!(ids, [&json!(sessions[0]), &json!(sessions[1])], "{listed}");
        assert_eq!(
            json!([listed[0]["principal"], listed[0]["browser"], listed[0]["keyId"]]),
            json!(["ada", "another browser", id])
        );
        let table = run(dir.path(), &[target, &["keys", "list", "--sessions"]].concat()).ok();
        assert!(table.stdout.starts_with("PRINCIPAL"), "{}", table.stdout);
        let rotated = run(dir.path(), &[target, &["keys", "rotate", &sessions[0]]].concat());
        assert_eq!(rotated.code, 1, "{rotated:?}");
    }
    run(dir.path(), &["keys", "revoke", &sessions[0]]).ok();
    run(dir.path(), &[&url[..], &["keys", "revoke", &sessions[1]]].concat()).ok();
    let left = run(dir.path(), &["keys", "list", "--sessions"]).ok();
    assert!(left.stderr.contains("no active sessions"), "{left:?}");
}
