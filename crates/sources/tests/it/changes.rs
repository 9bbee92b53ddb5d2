//! Changed tool lists are noticed in every era, over every transport.

use serde_json::json;
use toolcrib_testkit::upstream::{
    Answers, FaultyHttp,
    good::{Eras, GoodHttp},
};

use crate::rig::{Rig, eventually};

#[tokio::test]
async fn a_source_that_becomes_ready_says_so_once() {
    let rig = Rig::faulty(&["listen=no"]);
    rig.ready().await;
    rig.changed_after(0).await;
    assert_eq!(rig.changes(), 1);
}

#[tokio::test]
async fn a_child_that_gets_a_tool_is_listed_anew() {
    for era in ["era=modern", "era=legacy"] {
        let rig = Rig::faulty(&[era]);
        assert!(!rig.names().await.contains(&"late".to_owned()));
        rig.call("grow", json!({})).await;
        let mut seen = 0;
        while !rig.names().await.contains(&"late".to_owned()) {
            rig.changed_after(seen).await;
            seen = rig.changes();
        }
        assert!(rig.changes() >= 1, "{era}");
    }
}

#[tokio::test]
async fn a_change_reported_by_a_child_reaches_the_listener() {
    let rig = Rig::faulty(&["era=legacy"]);
    rig.ready().await;
    rig.changed_after(0).await;
    let seen = rig.changes();
    rig.call("grow", json!({})).await;
    rig.changed_after(seen).await;
}

#[tokio::test]
async fn an_http_server_is_listened_to_on_its_stream() {
    for era in ["era=modern", "era=legacy"] {
        let server = FaultyHttp::start(Answers::Events, &[era]);
        let rig = Rig::http(&server.url());
        rig.ready().await;
        eventually("a client listens", || server.listeners() > 0).await;
        // Reports from connecting are over once the one for the new stream has arrived.
        rig.changed_after(1).await;
        let seen = rig.changes();
        server.grow();
        rig.changed_after(seen).await;
        assert!(rig.names().await.contains(&"late".to_owned()), "{era}");
    }
}

#[tokio::test]
async fn the_official_sdk_is_subscribed_to() {
    let server = GoodHttp::start(Eras::Modern);
    let rig = Rig::http(&server.url());
    rig.ready().await;
    eventually("a client listens", || server.listeners() > 0).await;
    rig.changed_after(1).await;
    let seen = rig.changes();
    server.change();
    rig.changed_after(seen).await;
    rig.source.close().await;
    eventually("no client listens", || server.listeners() == 0).await;
}

// An upstream that declares list changes, but has no subscriptions, or never acknowledges one.
#[tokio::test]
async fn a_source_without_a_stream_of_changes_works() {
    for listen in ["listen=no", "listen=silent"] {
        let server = FaultyHttp::start(Answers::Events, &[listen]);
        let rig = Rig::http(&server.url());
        assert!(rig.names().await.contains(&"echo".to_owned()), "{listen}");
        let asked = server.received_method("subscriptions/listen").len();
        assert!(asked <= usize::from(listen != "listen=no"), "{listen}");
    }
}
