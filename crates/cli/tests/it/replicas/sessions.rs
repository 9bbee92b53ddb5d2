//! MCP sessions of several servers over one database.

use serde_json::json;
use toolcrib_testkit::{
    postgres,
    upstream::{Answers, FaultyHttp},
};

use super::{Replica, runs};
use crate::support::{eventually_async as eventually, key};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_at_another_server() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=legacy"]);
    let (one, two) = Replica::pair(&database, &upstream, "");
    let (_, text) = key(one.dir.path(), &["--scope", "up:use"]);
    let (first, second) = (one.caller(&text), two.caller(&text));
    for replica in [&one, &two] {
        replica.offers(&text, "slow").await;
    }
    let session = first.open_mcp_session().await;
    let (status, called) =
        second.call_in_session(&session, "up__echo", json!({ "text": "there" })).await;
    assert_eq!((status, &called["result"]["isError"]), (200, &json!(false)), "{called}");

    // The notification arrives at the server where the call does not run.
    let call = tokio::spawn({
        let (first, session) = (first.clone(), session.clone());
        async move { first.call_in_session(&session, "up__slow", json!({ "ms": 30_000 })).await }
    });
    eventually("it runs", async || runs(&upstream, "slow", "30000") == 1).await;
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
    });
    assert_eq!(second.send_in_session(&session, &cancel).await.0, 202);
    let (_, answer) = call.await.unwrap();
    assert!(answer["result"].is_null(), "a cancelled call gets no response: {answer}");
    let arrived = async || !upstream.received_method("notifications/cancelled").is_empty();
    eventually("the upstream hears of it", arrived).await;

    assert_eq!(second.end_mcp_session(&session).await, 204);
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let has_ended = async || first.send_in_session(&session, &list).await.0 == 404;
    eventually("it has ended at the first server too", has_ended).await;
    one.server.stop();
    two.server.stop();
}
