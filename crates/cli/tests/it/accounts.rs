//! `connections`, for those who look after the accounts of all people, and calls that need an account.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};
use toolcrib_testkit::upstream::{OAuthBehaviour, OAuthServer};

use crate::support::{
    Caller, CommandOutput, PROGRAM, Server, dir, eventually_async, finish, key, search_path,
    toolcrib, with_accounts, write_config, write_seal_key,
};

fn configure(dir: &Path, service: &OAuthServer) {
    let store = write_seal_key(dir);
    write_config(dir, &with_accounts(store, &service.url("/mcp")));
}

async fn status(caller: &Caller) -> u16 {
    caller.post("/explorer/tools/mine__whoami/call", &json!({})).await.0
}

/// The shortest beginning of `id`, from eight characters on, that none of the other `ids` has.
fn short<'a>(id: &'a str, ids: &[String]) -> &'a str {
    let is_unique = |short: &&str| ids.iter().filter(|it| it.starts_with(*short)).count() == 1;
    (8..id.len()).filter_map(|length| id.get(..length)).find(is_unique).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_lists_all_accounts_and_disconnects_one_by_a_short_id() {
    let (dir, service) = (dir(), OAuthServer::start(OAuthBehaviour::default()));
    let dir = dir.path();
    configure(dir, &service);
    let [olga, ann, ben] = [("olga", "*"), ("ann", "mine:use"), ("ben", "mine:use")]
        .map(|(name, scope)| key(dir, &["--scope", scope, "--principal", name]).1);
    let server = Server::start(dir);
    let command = |key: &str, args: &[&str]| -> CommandOutput {
        let mut command = toolcrib(dir);
        command.arg("connections").args(args);
        finish(command.env("TOOLCRIB_URL", &server.url).env("TOOLCRIB_KEY", key))
    };
    let callers = [&olga, &ann, &ben].map(|key| server.caller(Some(key)));
    callers[0].connect(&service, &json!({ "source": "mine", "tenant": true })).await;
    eventually_async("the tool is listed", async || status(&callers[0]).await == 403).await;
    for caller in &callers[1..] {
        caller.connect(&service, &json!({ "source": "mine" })).await;
        assert_eq!(status(caller).await, 200);
    }

    let shown = command(&olga, &["list", "--all"]).ok().stdout;
    for owner in ["(the tenant)", "ann", "ben"] {
        assert!(shown.contains(owner), "{shown}");
    }
    let listed = || command(&olga, &["list", "--all", "--json"]).ok().json();
    let all = listed();
    let all = all.as_array().unwrap();
    assert!(all.iter().all(|it| it["state"] == "active"), "{all:?}");
    let text = |it: &Value| it["id"].as_str().unwrap().to_owned();
    let ids: Vec<String> = all.iter().map(text).collect();
    assert_eq!(ids.len(), 3, "{all:?}");
    let of_ann = all.iter().find(|it| it["of"] == "principal" && it["principal"] == "ann");
    let of_ann = text(of_ann.unwrap());
    let short = short(&of_ann, &ids);

    // Another person can do neither.
    let refused = command(&ben, &["list", "--all"]);
    assert!(refused.code == 1 && refused.stderr.contains("connections:manage"), "{refused:?}");
    for id in [short, &of_ann] {
        let refused = command(&ben, &["disconnect", id]);
        assert_ne!(refused.code, 0, "{refused:?}");
    }
    assert_eq!(status(&callers[1]).await, 200);

    let removed = command(&olga, &["disconnect", short]).ok();
    assert!(removed.stderr.starts_with("disconnected"), "{removed:?}");
    let left: Vec<String> = listed().as_array().unwrap().iter().map(text).collect();
    assert!(left.len() == 2 && !left.contains(&of_ann), "{left:?}");
    assert_eq!([status(&callers[1]).await, status(&callers[2]).await], [403, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_on_a_terminal_opens_the_page_that_connects_the_account() {
    let (dir, service) = (dir(), OAuthServer::start(OAuthBehaviour::default()));
    let dir = dir.path();
    configure(dir, &service);
    let [olga, ann] = [("olga", "*"), ("ann", "mine:use")]
        .map(|(name, scope)| key(dir, &["--scope", scope, "--principal", name]).1);
    let server = Server::start(dir);
    let administrator = server.caller(Some(&olga));
    administrator.connect(&service, &json!({ "source": "mine", "tenant": true })).await;
    eventually_async("the tool is listed", async || status(&administrator).await == 403).await;
    // A desktop whose browser keeps the address.
    let (programs, opened) = (dir.join("bin"), dir.join("opened"));
    fs::create_dir(&programs).unwrap();
    let browser = programs.join("xdg-open");
    fs::write(&browser, format!("#!/bin/sh\necho \"$1\" >> {}\n", opened.display())).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let path = search_path(&programs);
    let at_the_desktop = |mut command: std::process::Command| {
        command.current_dir(dir).env("DISPLAY", ":99").env("PATH", &path).env("NO_COLOR", "1");
        finish(command.env("TOOLCRIB_URL", &server.url).env("TOOLCRIB_KEY", &ann))
    };

    let mut plain = toolcrib(dir);
    plain.args(["call", "mine__whoami"]);
    let refused = at_the_desktop(plain);
    assert!(refused.stderr.contains("https://crib.example/explorer#/connect/"), "{refused:?}");
    assert!(refused.stderr.contains("toolcrib connections connect"), "{refused:?}");
    assert!(!opened.exists(), "a script opens nothing");

    let line = format!("{PROGRAM} call mine__whoami");
    #[expect(clippy::disallowed_methods, reason = "runs the program in a terminal of `script`")]
    let mut script = std::process::Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("SHELL", "/bin/sh");
    let shown = at_the_desktop(script).stdout;
    assert!(shown.contains("the page was opened in your browser"), "{shown:?}");
    // The shell creates the file before it writes the line.
    let kept = || fs::read_to_string(&opened).unwrap_or_default();
    eventually_async("the page is opened", async || kept().ends_with('\n')).await;
    let address = kept();
    assert!(address.starts_with("https://crib.example/explorer#/connect/"), "{address}");
    assert_eq!(address.lines().count(), 1, "{address}");
}
