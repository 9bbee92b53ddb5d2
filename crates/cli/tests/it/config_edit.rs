//! Changes of the configuration file: by the API of a running server, and by commands.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::support::{
    Caller, PROGRAM, Server, config, demo_key, dir, eventually_async, finish, key, run, toolcrib,
    write_config,
};

const ROLES: &str = "
# Who reads.
[[role]]
name = \"reader\"
scopes = [\"demo:read\"] # only reading
";

/// Returns the hash of the file that the server reads.
async fn hash(editor: &Caller) -> String {
    let (status, answer) = editor.get("/v1/config").await;
    assert_eq!(status, 200, "{answer}");
    answer["hash"].as_str().unwrap().to_owned()
}

fn text(dir: &Path) -> String {
    fs::read_to_string(dir.join("toolcrib.toml")).unwrap()
}

async fn editor(dir: &Path, server: &Server, more: &[&str]) -> Caller {
    let (_, text) =
        key(dir, &[&["--scope", "config:write", "--scope", "demo:read"], more].concat());
    caller(server, &text).await
}

/// Returns a caller with a new key, once the server knows it.
async fn caller(server: &Server, key: &str) -> Caller {
    let caller = server.caller(Some(key));
    eventually_async("the key is known", async || caller.get("/v1/whoami").await.0 == 200).await;
    caller
}

fn role(name: &str, scopes: &[&str]) -> Value {
    json!({ "action": "add", "kind": "role", "name": name, "settings": { "scopes": scopes } })
}

fn source(name: &str) -> Value {
    let settings = json!({ "kind": "mcp", "command": [PROGRAM, "demo-upstream"] });
    json!({ "action": "add", "kind": "source", "name": name, "settings": settings })
}

/// I-11, I-8: the routes with a file, for callers with each kind of grant.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_grant_of_exactly_this_name_edits() {
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let server = Server::start(dir.path());
    let body = json!({ "changes": [role("new", &["demo:read"])] });
    let writing = json!({ "changes": [role("new", &["demo:read"])], "hash": "0".repeat(64) });
    let keys = ["--scope", "*"];
    let (_, all) = key(dir.path(), &keys);
    let (_, family) = key(dir.path(), &["--principal", "b", "--scope", "config:*"]);
    let (_, none) = key(dir.path(), &["--principal", "c", "--scope", "demo:read"]);
    let (_, named) = key(dir.path(), &["--principal", "d", "--scope", "config:write"]);
    for (key, expected) in [
        (None, [401; 4]),
        (Some(&none), [403; 4]),
        (Some(&family), [403; 4]),
        (Some(&all), [403; 4]),
        // The hash is not that of the file.
        (Some(&named), [200, 200, 200, 409]),
    ] {
        let caller = match key {
            Some(key) => caller(&server, key).await,
            None => server.caller(None),
        };
        let answers = [
            caller.get("/v1/config").await.0,
            caller.get("/v1/config/rules").await.0,
            caller.post("/v1/config/propose", &body).await.0,
            caller.post("/v1/config/write", &writing).await.0,
        ];
        assert_eq!(answers, expected, "{key:?}");
        let (status, who) = caller.get("/v1/whoami").await;
        if status == 200 {
            let may = who["may"].as_array().unwrap().contains(&json!("config:write"));
            assert_eq!(may, key == Some(&named), "{who}");
        }
    }
    // I-61: a holder of `*` cannot give itself the scope, neither by name nor by a role.
    write_config(dir.path(), &config("[[role]]\nname = \"editor\"\nscopes = [\"config:write\"]\n"));
    let admin = caller(&server, &all).await;
    eventually_async("the role is there", async || {
        let wanted = json!({ "name": "plain", "roles": ["editor"], "scopes": [] });
        let (status, answer) = admin.post("/v1/keys", &wanted).await;
        status == 403 && answer["message"].as_str().unwrap().contains("creator")
    })
    .await;
    let wanted = json!({ "name": "mine", "scopes": ["config:write"] });
    assert_eq!(admin.post("/v1/keys", &wanted).await.0, 403);
    let (_, both) =
        key(dir.path(), &["--principal", "e", "--scope", "*", "--scope", "config:write"]);
    assert_eq!(caller(&server, &both).await.post("/v1/keys", &wanted).await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_proposed_written_recorded_and_applied() {
    let dir = dir();
    let before = config(ROLES);
    write_config(dir.path(), &before);
    let server = Server::start(dir.path());
    let editor =
        editor(dir.path(), &server, &["--scope", "audit:read", "--scope", "roles:read"]).await;
    eventually_async("the tools are there", async || {
        editor.get("/v1/tools").await.1.as_array().is_some_and(|it| it.len() == 6)
    })
    .await;
    let set = json!({
        "action": "set", "kind": "role", "name": "reader",
        "settings": { "scopes": ["demo:read", "tools:more"] },
    });
    let changes = json!([source("more"), set]);

    // Without a connection the new tools are unknown, and nothing is started.
    let (status, plain) =
        editor.post("/v1/config/propose", &json!({ "changes": changes.clone() })).await;
    assert_eq!(status, 200, "{plain}");
    assert_eq!(plain["preview"]["unknown"][0]["source"], "more", "{plain}");
    assert_eq!(plain["writable"], true, "{plain}");
    let (status, answer) = editor
        .post("/v1/config/propose", &json!({ "changes": changes.clone(), "connect": true }))
        .await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!((&answer["before"], &answer["after"]), (&plain["before"], &plain["after"]));
    assert_eq!(answer["problems"], json!([]), "{answer}");
    let reader = &answer["preview"]["roles"][0];
    assert_eq!(
        (&reader["role"], &reader["before"], &reader["after"]),
        (&json!("reader"), &json!(6), &json!(12))
    );
    assert!(reader["appears"].as_array().unwrap().contains(&json!("more__echo")), "{reader}");
    assert_eq!(reader["disappears"], json!([]));
    let tools = answer["preview"]["sources"][0]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 6, "{answer}");
    let diff = answer["diff"].to_string();
    assert!(diff.contains("[[source]]") && diff.contains("tools:more"), "{diff}");
    assert!(!diff.contains("listen"), "{diff}");
    assert_eq!(text(dir.path()), before, "a proposal writes nothing");

    let hash = answer["before"].clone();
    let (status, written) =
        editor.post("/v1/config/write", &json!({ "changes": changes, "hash": hash })).await;
    assert_eq!(status, 200, "{written}");
    assert_eq!((&written["before"], &written["after"]), (&answer["before"], &answer["after"]));
    assert_eq!(written["backup"], "toolcrib.toml.bak");
    assert_eq!(fs::read_to_string(dir.path().join("toolcrib.toml.bak")).unwrap(), before);
    let after = text(dir.path());
    assert!(after.contains("# Who reads.") && after.contains("# only reading"), "{after}");
    // The server applies the file by itself.
    eventually_async("the new tools are there for the role", async || {
        let (status, view) = editor.get("/v1/roles/reader").await;
        status == 200 && view["tools"].as_array().unwrap().len() == 12
    })
    .await;

    let (_, events) = editor.get("/v1/events?after=0&limit=1000").await;
    let edits: Vec<&Value> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.get("event").unwrap_or(it))
        .filter(|it| it["type"] == "config.edited")
        .collect();
    let payloads: Vec<&Value> = edits.iter().map(|it| &it["payload"]).collect();
    let payload = |action: &str| {
        json!({
            "principal": "test", "action": action,
            "before": answer["before"], "after": answer["after"],
        })
    };
    assert_eq!(payloads, [&payload("previewed"), &payload("written")], "{events}");
    let tail = run(dir.path(), &["audit", "tail", "-n", "200"]).ok().stdout;
    assert!(tail.contains("config.edited") && tail.contains("written by test"), "{tail}");
    run(dir.path(), &["audit", "verify"]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_changes_for_one_text_one_is_made() {
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let server = Server::start(dir.path());
    let editor = editor(dir.path(), &server, &[]).await;
    let hash = hash(&editor).await;
    let attempt = async |number: usize| {
        let body = json!({ "changes": [role(&format!("r{number}"), &["a"])], "hash": hash });
        editor.post("/v1/config/write", &body).await
    };
    let answers = tokio::join!(attempt(0), attempt(1), attempt(2), attempt(3));
    let answers = [answers.0, answers.1, answers.2, answers.3];
    let made = answers.iter().filter(|(status, _)| *status == 200).count();
    let refused = answers.iter().filter(|(status, _)| *status == 409).count();
    assert_eq!((made, refused), (1, 3), "{answers:?}");
    let names = text(dir.path()).matches("name = \"r").count();
    assert_eq!(names, 2, "the reader and one new role");
    // A change by an editor of text is a change, too.
    let (_, answer) = editor.get("/v1/config").await;
    fs::write(dir.path().join("toolcrib.toml"), format!("{}# more\n", text(dir.path()))).unwrap();
    let body = json!({ "changes": [role("late", &["a"])], "hash": answer["hash"] });
    let (status, answer) = editor.post("/v1/config/write", &body).await;
    assert_eq!((status, &answer["details"]["changed"]), (409, &json!(true)), "{answer}");
    assert!(!text(dir.path()).contains("late"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_checks_refuse_is_not_written() {
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let server = Server::start(dir.path());
    let editor = editor(dir.path(), &server, &[]).await;
    let before = text(dir.path());
    let hash = hash(&editor).await;
    let nasty = "\"]\n[server]\nlisten = \"0.0.0.0:1\"";
    for (change, expected) in [
        (
            json!({ "action": "add", "kind": "source", "name": "x", "settings": { "kind": "mcp", "command": ["x"], "commando": 1 } }),
            "commando",
        ),
        (
            json!({ "action": "add", "kind": "source", "name": nasty, "settings": { "kind": "mcp", "command": ["x"] } }),
            "source",
        ),
        (
            json!({ "action": "add", "kind": "toolset", "name": nasty, "settings": { "allow": ["*"] } }),
            "toolset",
        ),
        (
            json!({ "action": "set", "kind": "role", "name": "reader", "settings": { "scopes": ["a b"] } }),
            "scope",
        ),
        (
            json!({ "action": "add", "kind": "source", "name": "x", "settings": { "kind": "mcp", "command": ["x"], "env": { "API_TOKEN": "canary" } } }),
            "must not be in this file",
        ),
        (json!({ "action": "remove", "kind": "source", "name": "demo" }), "without sources"),
        (json!({ "action": "remove", "kind": "source", "name": "missing" }), "no source"),
    ] {
        let changes = json!([change]);
        let (status, answer) =
            editor.post("/v1/config/propose", &json!({ "changes": changes })).await;
        match status {
            200 => {
                assert_eq!(answer["writable"], false, "{answer}");
                assert!(answer["problems"].to_string().contains(expected), "{expected}: {answer}");
            }
            400 => assert!(answer["message"].as_str().unwrap().contains(expected), "{answer}"),
            other => panic!("{other}: {answer}"),
        }
        let body = json!({ "changes": changes, "hash": hash });
        let (status, answer) = editor.post("/v1/config/write", &body).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer.to_string().contains(expected), "{expected}: {answer}");
    }
    for body in [
        json!({ "changes": [] }),
        json!({ "changes": [[]] }),
        json!({ "changes": [{ "action": "add", "kind": "source", "name": "a", "extra": 1 }] }),
        json!({ "changes": [{ "action": "add", "kind": "listener", "name": "a" }] }),
        json!({ "changes": [role("a", &[])], "force": true }),
        json!({}),
    ] {
        assert_eq!(editor.post("/v1/config/propose", &body).await.0, 400, "{body}");
    }
    // A role keeps a hostile name as a name.
    let body = json!({ "changes": [role(nasty, &["a"])], "hash": hash });
    assert_eq!(editor.post("/v1/config/write", &body).await.0, 200);
    let table: toml::Table = toml::from_str(&text(dir.path())).unwrap();
    assert_eq!(table["server"]["listen"].as_str(), Some("127.0.0.1:0"));
    assert_eq!(table["role"][1]["name"].as_str(), Some(nasty));
    assert_ne!(before, text(dir.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_routes_do_not_exist_where_nothing_can_be_edited() {
    let dir = dir();
    write_config(dir.path(), &config("[explorer]\nedit = false\n"));
    let server = Server::start(dir.path());
    let off = editor(dir.path(), &server, &[]).await;
    let nowhere = off.get("/v1/nowhere").await;
    for path in ["/v1/config", "/v1/config/rules"] {
        assert_eq!(off.get(path).await, nowhere, "{path}");
    }
    let body = json!({ "changes": [role("new", &["a"])], "hash": "0".repeat(64) });
    for path in ["/v1/config/propose", "/v1/config/write"] {
        assert_eq!(off.post(path, &body).await, nowhere, "{path}");
    }
    // The file switches it on without a restart.
    write_config(dir.path(), &config("[explorer]\nedit = true\n"));
    eventually_async("it can be edited", async || off.get("/v1/config").await.0 == 200).await;
    server.stop();
    // A demo has no file.
    let data = dir.path().join("demo");
    let demo = Server::demo(&data);
    let admin = demo.caller(Some(&demo_key(&data, "admin")));
    assert_eq!(admin.get("/v1/config").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_linked_file_is_shown_and_not_written() {
    let dir = dir();
    fs::write(dir.path().join("real.toml"), config(ROLES)).unwrap();
    let link: PathBuf = dir.path().join("toolcrib.toml");
    std::os::unix::fs::symlink("real.toml", &link).unwrap();
    let server = Server::start(dir.path());
    let editor = editor(dir.path(), &server, &[]).await;
    let (status, answer) = editor.get("/v1/config").await;
    assert_eq!(status, 200, "{answer}");
    assert!(answer["obstacle"].as_str().unwrap().contains("symbolic link"), "{answer}");
    let body = json!({ "changes": [role("new", &["a"])] });
    let (_, proposal) = editor.post("/v1/config/propose", &body).await;
    assert_eq!(proposal["writable"], false, "{proposal}");
    assert!(proposal["diff"].to_string().contains("new"), "it can be made by hand: {proposal}");
    let body = json!({ "changes": [role("new", &["a"])], "hash": answer["hash"] });
    let (status, refused) = editor.post("/v1/config/write", &body).await;
    assert_eq!(status, 409, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("symbolic link"), "{refused}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let ran = run(dir.path(), &["roles", "add", "new", "--scope", "a", "--no-connect", "--yes"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("symbolic link"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_is_refreshed_on_request_but_not_again_at_once() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let server = Server::start(dir.path());
    let (_, text) = key(
        dir.path(),
        &["--scope", "sources:refresh", "--scope", "sources:read", "--scope", "demo:read"],
    );
    let caller = server.caller(Some(&text));
    eventually_async("the tools are there", async || {
        caller.get("/v1/tools").await.1.as_array().is_some_and(|it| it.len() == 6)
    })
    .await;
    caller.otc("demo__echo", json!({ "text": "a" })).await;
    let (_, before) = caller.get("/v1/sources").await;
    let before = &before["sources"][0];
    assert_eq!(before["latency"]["calls"], 1, "{before}");
    let (p50, p95) = (before["latency"]["p50Ms"].as_f64(), before["latency"]["p95Ms"].as_f64());
    assert!(p50.unwrap() >= 0.0 && p95 >= p50, "{before}");
    let discovered = before["discoveredAt"].clone();
    assert_eq!(caller.post("/v1/sources/demo/refresh", &json!({})).await.0, 202);
    eventually_async("it was discovered again", async || {
        caller.get("/v1/sources").await.1["sources"][0]["discoveredAt"] != discovered
    })
    .await;
    let (status, answer) = caller.post("/v1/sources/demo/refresh", &json!({})).await;
    assert_eq!((status, &answer["error"]), (429, &json!("rate_limited")), "{answer}");
    assert_eq!(caller.post("/v1/sources/nothing/refresh", &json!({})).await.0, 404);
}

#[test]
fn commands_change_the_file_and_show_what_they_do() {
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let before = text(dir.path());
    let add: &[&str] = &["sources", "add", "more", "--dry-run", "--command", PROGRAM];
    let shown = run(dir.path(), &[add, &["--args", "demo-upstream"]].concat()).ok();
    assert!(
        shown.stdout.contains("+[[source]]") && shown.stdout.contains("+id = \"more\""),
        "{shown:?}"
    );
    assert!(shown.stdout.contains("no role sees other tools"), "{shown:?}");
    assert!(shown.stdout.contains("source more: connected, "), "{shown:?}");
    assert_eq!(text(dir.path()), before);
    // A rule that does nothing is said.
    let idle = ["rules", "add", "demo", "ech", "--set", "hide=true", "--dry-run"];
    let idle = run(dir.path(), &idle).ok();
    assert!(idle.stderr.contains("rule \"ech\" matches no tool of source `demo`"), "{idle:?}");

    // There is no terminal to confirm on.
    let args = ["roles", "add", "support", "--tools", "demo__*"];
    let asked = run(dir.path(), &args);
    assert_eq!(asked.code, 2, "{asked:?}");
    assert!(asked.stderr.contains("--yes"), "{asked:?}");
    assert_eq!(text(dir.path()), before);
    let made = run(dir.path(), &[&args[..], &["--yes"]].concat()).ok();
    assert!(made.stdout.contains("role support: 0 -> 6 tools"), "{made:?}");
    assert!(made.stderr.contains("toolcrib.toml.bak"), "{made:?}");
    assert!(
        text(dir.path()).contains("name = \"support\"\nscopes = [\"demo:read\"]"),
        "{}",
        text(dir.path())
    );
    assert!(text(dir.path()).contains("# Who reads."));
    let answer = run(dir.path(), &[&args[..], &["--yes", "--json"]].concat());
    assert_eq!(answer.code, 1);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("already"), "{answer:?}");

    let shown = run(dir.path(), &["roles", "show", "support", "--json"]).ok().json();
    assert_eq!(shown["tools"].as_array().unwrap().len(), 6, "{shown}");
    let list = run(dir.path(), &["roles", "list"]).ok().stdout;
    assert!(list.contains("support") && list.contains("reader"), "{list}");
    assert_eq!(run(dir.path(), &["roles", "show", "suport"]).code, 1);

    let changed = run(
        dir.path(),
        &["rules", "add", "demo", "wipe", "--approval", "always", "--yes", "--json"],
    )
    .ok()
    .json();
    assert_eq!(changed["written"], true, "{changed}");
    let roles = changed["preview"]["roles"].as_array().unwrap();
    assert!(roles.iter().all(|role| role["changes"].to_string().contains("approval")), "{changed}");
    run(dir.path(), &["rules", "set", "demo", "wipe", "--set", "approval_quorum=2", "--yes"]).ok();
    assert!(text(dir.path()).contains("approval_quorum = 2"));
    run(dir.path(), &["rules", "remove", "demo", "wipe", "--yes"]).ok();
    assert!(!text(dir.path()).contains("approval"));
    run(
        dir.path(),
        &["roles", "set", "support", "--scope", "x:y", "--remove-scope", "demo:read", "--yes"],
    )
    .ok();
    assert!(text(dir.path()).contains("scopes = [\"x:y\"]"), "{}", text(dir.path()));
    run(dir.path(), &["roles", "remove", "support", "--no-connect", "--yes"]).ok();
    run(dir.path(), &["toolsets", "add", "work", "--allow", "demo__*", "--yes"]).ok();
    assert!(text(dir.path()).contains("[toolset.work]"));
    run(dir.path(), &["toolsets", "set", "work", "--set", "title=Work", "--yes", "--no-connect"])
        .ok();
    run(dir.path(), &["toolsets", "remove", "work", "--yes", "--no-connect"]).ok();
    assert!(!text(dir.path()).contains("toolset"));
    run(dir.path(), &["config", "check"]).ok();

    let wrong = ["sources", "set", "demo", "--set", "commando=1", "--yes", "--no-connect"];
    let now = text(dir.path());
    let refused = run(dir.path(), &wrong);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stdout.contains("commando"), "{refused:?}");
    assert_eq!(text(dir.path()), now);
    let url = ["--url", "http://127.0.0.1:1", "roles", "remove", "reader", "--yes"];
    assert_eq!(run(dir.path(), &url).code, 2);
}

/// A role of named tools reaches only these, or the others are shown before it is written.
#[test]
fn a_role_of_named_tools_reaches_these_alone() {
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let before = text(dir.path());
    let args = ["roles", "add", "support", "--tools", "demo__{echo,add}"];
    let with = |more: &[&str]| run(dir.path(), &[&args[..], more].concat());
    let shown = with(&["--dry-run"]).ok();
    let said = "role support would also reach 4 tools that --tools does not name:";
    assert!(shown.stdout.contains(said) && shown.stdout.contains("  ! demo__wipe"), "{shown:?}");
    assert!(!shown.stdout.contains("! demo__echo"), "{shown:?}");
    let refused = with(&["--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("also reach 4 tools") && refused.stderr.contains("--own-scope"),
        "{refused:?}"
    );
    assert_eq!(text(dir.path()), before, "nothing was written");

    let made = with(&["--own-scope", "--yes"]).ok();
    assert!(made.stdout.contains("role support: 0 -> 2 tools"), "{made:?}");
    let tools = |role: &str| {
        let view = run(dir.path(), &["roles", "show", role, "--json"]).ok().json();
        let tools = view["tools"].as_array().unwrap().iter();
        tools.map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(tools("support"), ["demo__add", "demo__echo"]);
    assert_eq!(tools("reader").len(), 6, "who reached the tools still does");
    let after = text(dir.path());
    assert!(after.contains("scopes = [\"demo:read:support\"]"), "{after}");

    // All tools of a scope are what the scope says, and scopes that are stated count as named.
    run(dir.path(), &["roles", "set", "support", "--tools", "demo__*", "--yes"]).ok();
    assert_eq!(tools("support").len(), 6);
    let stated = ["roles", "add", "wide", "--scope", "demo:read", "--tools", "demo__wipe", "--yes"];
    run(dir.path(), &stated).ok();
    let alone = run(dir.path(), &["roles", "add", "x", "--scope", "a", "--own-scope", "--yes"]);
    assert_eq!(alone.code, 2, "{alone:?}");
}

/// The same by HTTP, for the console: a role that would reach other tools cannot be written.
#[tokio::test(flavor = "multi_thread")]
async fn a_proposed_role_of_named_tools_says_what_else_it_reaches() {
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let server = Server::start(dir.path());
    let editor = editor(dir.path(), &server, &["--scope", "roles:read"]).await;
    eventually_async("the tools are there", async || {
        editor.get("/v1/tools").await.1.as_array().is_some_and(|it| it.len() == 6)
    })
    .await;
    let named = |tools: &[&str]| {
        json!([{
            "action": "add", "kind": "role", "name": "support", "settings": { "scopes": [] },
            "tools": tools,
        }])
    };
    let changes = named(&["demo__echo"]);
    let (status, answer) = editor.post("/v1/config/propose", &json!({ "changes": changes })).await;
    assert_eq!((status, &answer["writable"]), (200, &json!(false)), "{answer}");
    let reach = &answer["reach"][0];
    assert_eq!((&reach["role"], &reach["named"]), (&json!("support"), &json!(["demo__echo"])));
    assert_eq!(reach["others"].as_array().unwrap().len(), 5, "{reach}");
    let hash = answer["before"].clone();
    let writing = json!({ "changes": changes, "hash": hash });
    let (status, refused) = editor.post("/v1/config/write", &writing).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(refused["details"]["others"].as_array().unwrap().len(), 5, "{refused}");
    for (tools, said) in [(&["nothing__*"][..], "no tool matches"), (&["{"], "not a glob")] {
        let body = json!({ "changes": named(tools) });
        let (status, answer) = editor.post("/v1/config/propose", &body).await;
        assert_eq!(status, 400);
        assert!(answer["message"].as_str().unwrap().contains(said), "{answer}");
    }

    let changes = &reach["suggestion"];
    let (status, answer) = editor.post("/v1/config/propose", &json!({ "changes": changes })).await;
    assert_eq!((status, &answer["writable"]), (200, &json!(true)), "{answer}");
    let role = |name: &str| {
        let roles = answer["preview"]["roles"].as_array().unwrap().iter();
        roles.clone().find(|it| it["role"] == name).unwrap_or_else(|| panic!("{answer}")).clone()
    };
    assert_eq!(role("support")["appears"], json!(["demo__echo"]));
    assert_eq!(role("reader")["disappears"], json!([]));
    let writing = json!({ "changes": changes, "hash": hash });
    assert_eq!(editor.post("/v1/config/write", &writing).await.0, 200);
    eventually_async("the role is there", async || {
        let (status, view) = editor.get("/v1/roles/support").await;
        status == 200 && view["tools"].as_array().unwrap().len() == 1
    })
    .await;
    server.stop();
}

#[test]
fn a_command_leaves_an_event_or_changes_nothing() {
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let remove = ["roles", "remove", "reader", "--no-connect", "--yes"];
    let add = ["roles", "add", "reader", "--scope", "a:b", "--no-connect", "--yes", "--json"];
    let first = run(dir.path(), &[&remove[..], &["--json"]].concat()).ok().json();
    assert_eq!(first["recorded"], false, "there is no store yet: {first}");
    key(dir.path(), &["--scope", "audit:read"]);
    let made = run(dir.path(), &add).ok().json();
    assert_eq!(made["recorded"], true, "{made}");
    let lines = run(dir.path(), &["audit", "export", "--type", "config.edited"]).ok().stdout;
    let event: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let expected = json!({
        "principal": "operator", "action": "written", "before": made["before"], "after": made["after"],
    });
    assert_eq!(event["payload"], expected, "{lines}");
    assert_eq!(lines.lines().count(), 1, "{lines}");

    let store = dir.path().join(".toolcrib/toolcrib.db");
    fs::write(&store, "not a database").unwrap();
    let before = text(dir.path());
    let refused = run(dir.path(), &remove);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("--unrecorded"), "{refused:?}");
    assert_eq!(text(dir.path()), before);
    let written = run(dir.path(), &[&remove[..], &["--unrecorded"]].concat()).ok();
    assert!(written.stderr.contains("is not recorded"), "{written:?}");
    assert_ne!(text(dir.path()), before);
}

#[test]
fn rules_are_proposed_and_none_is_written() {
    let dir = dir();
    let rules = "[source.tools.\"*\"]\nscopes = [\"demo:read\"]\nsafety_tier = \"read\"\n";
    write_config(dir.path(), &config("").replace(rules, ""));
    let before = text(dir.path());
    let proposals = run(dir.path(), &["rules", "propose", "--json"]).ok().json();
    let proposals = proposals.as_array().unwrap();
    let wipe = proposals
        .iter()
        .find(|it| it["change"]["settings"] == json!({ "approval": "always" }))
        .unwrap_or_else(|| panic!("{proposals:?}"));
    assert!(wipe["tools"].as_array().unwrap().contains(&json!("wipe")), "{wipe}");
    let shown = run(dir.path(), &["rules", "propose", "--source", "demo"]).ok().stdout;
    assert!(shown.contains("toolcrib rules add demo '"), "{shown}");
    assert_eq!(text(dir.path()), before);
    // The printed command works as it is.
    let line = shown.lines().find(|line| line.contains("approval=always")).unwrap().trim();
    let words: Vec<&str> = line.split(' ').skip(1).map(|word| word.trim_matches('\'')).collect();
    run(dir.path(), &[&words[..], &["--yes"]].concat()).ok();
    let left = run(dir.path(), &["rules", "propose", "--json"]).ok().json();
    assert!(!left.to_string().contains("\"always\""), "{left}");
}

#[test]
fn a_first_file_is_created() {
    let dir = dir();
    let args = ["sources", "add", "demo", "--yes", "--command", PROGRAM, "--args", "demo-upstream"];
    let made = run(dir.path(), &args).ok();
    assert!(made.stderr.contains("wrote toolcrib.toml"), "{made:?}");
    assert!(text(dir.path()).starts_with("[[source]]\nid = \"demo\""), "{}", text(dir.path()));
    run(dir.path(), &["config", "check", "--connect"]).ok();
}

/// Runs the change of a file while the system refuses `fault`.
fn with_fault(fault: &str) -> Option<(tempfile::TempDir, crate::support::CommandOutput)> {
    #[expect(clippy::disallowed_methods, reason = "the tools of the tests are in variables")]
    let strace = std::env::var_os("TOOLCRIB_STRACE")?;
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let mut own = toolcrib(dir.path());
    own.args(["roles", "add", "new", "--scope", "a", "--no-connect", "--yes"]);
    #[expect(clippy::disallowed_methods, reason = "the test starts the program under test")]
    let mut command = std::process::Command::new(strace);
    // strace changes only calls that it traces.
    let traced = format!("trace={}", fault.split(['=', ':']).nth(1).unwrap());
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &traced, "-e", fault]);
    command.arg(own.get_program()).args(own.get_args()).current_dir(dir.path());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let ran = finish(&mut command);
    Some((dir, ran))
}

#[test]
fn a_full_disk_and_a_read_only_file_system_leave_the_file_as_it_was() {
    for (fault, reason) in [
        ("inject=fsync:error=ENOSPC", "No space left"),
        ("inject=rename,renameat,renameat2:error=EROFS", "Read-only file system"),
        ("inject=fchmod:error=EPERM", "not permitted"),
    ] {
        let Some((dir, ran)) = with_fault(fault) else {
            return toolcrib_testkit::left_out("faults of the disk: strace is missing");
        };
        assert_eq!(ran.code, 1, "{fault}: {ran:?}");
        assert!(ran.stderr.contains(reason), "{fault}: {ran:?}");
        assert_eq!(text(dir.path()), config(ROLES), "{fault}");
        let left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with(".toolcrib.toml."))
            .collect();
        assert!(left.is_empty() || fault.contains("rename"), "{fault}: {left:?}");
    }
}

/// I-61: the right to change the configuration does not give the roles that it adds, and a proposal says
/// so before anything is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_says_who_can_give_a_new_role() {
    let dir = dir();
    write_config(dir.path(), &config(ROLES));
    let server = Server::start(dir.path());
    let holder = async |principal: &str, scopes: &[&str]| {
        let scopes = scopes.iter().flat_map(|scope| ["--scope", *scope]);
        let args: Vec<&str> = ["--principal", principal].into_iter().chain(scopes).collect();
        caller(&server, &key(dir.path(), &args).1).await
    };
    let plain = holder("plain", &["config:write"]).await;
    let manager = holder("manager", &["config:write", "keys:manage", "demo:*"]).await;
    let both = holder("both", &["config:write", "*"]).await;
    let root = holder("root", &["*"]).await;
    let givers = async |caller: &Caller, change: Value| {
        let body = json!({ "changes": [change] });
        let (status, answer) = caller.post("/v1/config/propose", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer["givers"].clone()
    };
    for (caller, scope, expected) in [
        (&plain, "demo:read", json!({ "role": "team", "caller": false })),
        (
            &manager,
            "demo:read",
            json!({ "role": "team", "caller": false, "others": ["both", "root"] }),
        ),
        // `*` does not give the scope that must be named.
        (&manager, "config:write", json!({ "role": "team", "caller": false, "others": ["both"] })),
        (&both, "config:write", json!({ "role": "team", "caller": true, "others": [] })),
    ] {
        assert_eq!(givers(caller, role("team", &[scope])).await, json!([expected]), "{scope}");
    }
    assert_eq!(givers(&both, source("more")).await, json!([]));

    // It is so once the role is written.
    let body = json!({ "changes": [role("team", &["demo:read"])], "hash": hash(&manager).await });
    assert_eq!(manager.post("/v1/config/write", &body).await.0, 200);
    let wanted = |name: &str| json!({ "name": name, "roles": ["team"] });
    eventually_async("the role is there", async || {
        root.post("/v1/keys", &wanted("by-root")).await.0 == 201
    })
    .await;
    assert_eq!(manager.post("/v1/keys", &wanted("by-manager")).await.0, 403);
    assert_eq!(both.post("/v1/keys", &wanted("by-both")).await.0, 201);
}
