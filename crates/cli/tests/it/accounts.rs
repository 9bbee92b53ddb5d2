//! `connections`, for those who look after the accounts of all people.

use std::path::Path;

use serde_json::{Value, json};
use toolcrib_testkit::upstream::{OAuthBehaviour, OAuthServer};

use crate::support::{
    Caller, CommandOutput, Server, dir, eventually_async, finish, key, toolcrib, write_config,
    write_seal_key,
};

fn configure(dir: &Path, service: &OAuthServer) {
    write_seal_key(dir);
    let text = format!(
        r#"
[server]
listen = "127.0.0.1:0"
public_url = "https://crib.example"
[store]
seal_key = {{ file = "seal.key" }}
[[source]]
id = "mine"
kind = "mcp"
url = "{}"
tenants = ["default"]
[source.oauth]
of = "principal"
[source.tools."*"]
scopes = ["mine:use"]
safety_tier = "read"
"#,
        service.url("/mcp")
    );
    write_config(dir, &text);
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
