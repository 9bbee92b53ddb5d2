//! I-116: tokens of accounts that are renewed by several servers, and by one that is killed.

use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_testkit::{
    postgres,
    upstream::{OAuthBehaviour, OAuthServer},
};

use crate::support::{
    Caller, Server, dir, eventually_async as eventually, key, shared_store, with_accounts,
    write_config, write_seal_key,
};

const RENEWALS: usize = 200;
/// Calls at once at each of two servers.
const CALLERS: usize = 4;

/// Connects the account of the tenant, and then that of `caller`, each of whose calls needs a renewal.
async fn connect(caller: &Caller, service: &OAuthServer) {
    caller.connect(service, &json!({ "source": "mine", "tenant": true })).await;
    service.behave(|behaviour| behaviour.ends_at_once = true);
    caller.connect(service, &json!({ "source": "mine" })).await;
}

async fn call(caller: &Caller) -> (u16, Value) {
    caller.post("/explorer/tools/mine__whoami/call", &json!({})).await
}

async fn works(caller: &Caller) -> bool {
    call(caller).await.0 == 200
}

/// The renewals so far, answered or not.
fn renewals(service: &OAuthServer) -> usize {
    let requests = service.arrived("/token").into_iter();
    requests.filter(|request| request.body.contains("refresh_token\":\"refresh")).count()
}

fn over(database: &str, service: &OAuthServer) -> (TempDir, Server) {
    let dir = dir();
    let store = shared_store(dir.path(), database);
    write_config(dir.path(), &with_accounts(&store, &service.url("/mcp")));
    let server = Server::start(dir.path());
    (dir, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_never_send_one_refresh_token_twice() {
    let Some(database) = postgres::database() else { return };
    let service = OAuthServer::start(OAuthBehaviour::default());
    let (dir, one) = over(&database, &service);
    let (_other, two) = over(&database, &service);
    let (_, text) = key(dir.path(), &["--scope", "*", "--principal", "ann"]);
    let callers = [one.caller(Some(&text)), two.caller(Some(&text))];
    connect(&callers[0], &service).await;
    for caller in &callers {
        eventually("it is offered", async || works(caller).await).await;
    }
    let before = renewals(&service);
    while renewals(&service) < before + RENEWALS {
        let calls = (0..2 * CALLERS).map(|number| call(&callers[number % 2]));
        for (status, answer) in futures_util::future::join_all(calls).await {
            assert_eq!(status, 200, "{answer}");
        }
    }
    assert_eq!(service.replays(), 0);
    one.stop();
    two.stop();
}

/// The service has issued a new refresh token, and the server ends before it is stored: no one knows
/// it. The old one was used, so that the person has to consent again. That is all that is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_before_a_token_is_stored_costs_at_most_a_consent() {
    let service = OAuthServer::start(OAuthBehaviour::default());
    let dir = dir();
    let store = write_seal_key(dir.path());
    write_config(dir.path(), &with_accounts(store, &service.url("/mcp")));
    let [ann, ben] =
        ["ann", "ben"].map(|name| key(dir.path(), &["--scope", "*", "--principal", name]).1);
    let mut server = Server::start(dir.path());
    let caller = server.caller(Some(&ann));
    connect(&caller, &service).await;
    eventually("it is offered", async || works(&caller).await).await;
    // Its list is read, too.
    tokio::time::sleep(Duration::from_secs(1)).await;

    service.hold_tokens(true);
    let before = renewals(&service);
    let waiting = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.try_mcp("tools/call", whoami()).await })
    };
    eventually("it renews", async || renewals(&service) > before).await;
    // The server gets the token, and cannot store it.
    let store = Connection::open(dir.path().join(".toolcrib/toolcrib.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    service.hold_tokens(false);
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.process.kill();
    assert!(waiting.await.unwrap().is_none(), "the call was answered");
    drop(store);
    service.behave(|behaviour| behaviour.ends_at_once = false);

    let server = Server::start(dir.path());
    let (caller, other) = (server.caller(Some(&ann)), server.caller(Some(&ben)));
    other.connect(&service, &json!({ "source": "mine" })).await;
    eventually("another account works", async || works(&other).await).await;
    // The lease of the killed server ends within a minute.
    let refused = async || {
        for _ in 0..60 {
            let (status, refused) = call(&caller).await;
            if status != 500 {
                return (status, refused);
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        panic!("not within two minutes");
    };
    let (status, refused) = refused().await;
    assert_eq!((status, &refused["details"]["connection"]), (403, &json!("required")), "{refused}");
    assert_eq!(renewals(&service), before + 2, "the used token is sent once more, and no further");
    let (_, list) = caller.get("/v1/connections").await;
    let own = list["connections"].as_array().unwrap().iter().find(|it| it["principal"] == "ann");
    assert_eq!(own.unwrap()["state"], "needs_consent", "{list}");
    caller.connect(&service, &json!({ "source": "mine" })).await;
    assert!(works(&caller).await);
    server.stop();
}

fn whoami() -> Value {
    json!({ "name": "mine__whoami", "arguments": {} })
}
