//! Clients with a document, and clients that registered themselves: how long they are known, and
//! how many strangers can cause at once.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Reply, TestGateway, TestProvider};

use super::{
    Browser, DOCUMENTS, MINUTE, error, gateway, is_valid, query, refresh, registered, signed_in,
    tokens,
};

const SECOND: Duration = Duration::from_secs(1);
/// Registrations and fetches that strangers can cause at once.
const BURST: usize = 60;

async fn open(gw: &TestGateway, client: &str) -> Reply {
    Browser::new(gw).open(&query(client, &[])).await
}

async fn register(gw: &TestGateway) -> Reply {
    let body = json!({ "redirect_uris": ["http://127.0.0.1/cb"] });
    gw.anonymous().post("/oauth/register", body).await
}

/// The new address could be any one within this network.
#[tokio::test]
async fn a_document_that_has_moved_is_no_client() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, DOCUMENTS).await;
    let client = provider.document_id();
    for (fetches, status) in (1..).zip([301, 302, 303, 307, 308]) {
        provider.answer_documents(Some(status));
        let reply = open(&gw, &client).await;
        assert_eq!((reply.status, reply.header("location")), (400, ""), "{status}");
        assert_eq!(provider.fetches(), fetches, "the new address is not requested: {status}");
        gw.advance(SECOND * 10).await;
    }
    provider.answer_documents(None);
    assert_eq!(open(&gw, &client).await.status, 200);
}

#[tokio::test]
async fn a_document_is_used_for_five_minutes() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, DOCUMENTS).await;
    let client = provider.document_id();
    for _ in 0..2 {
        let back = Browser::new(&gw).sign_in(&query(&client, &[])).await;
        assert!(back.contains_key("code"), "{back:?}");
        gw.advance(MINUTE / 2).await;
    }
    assert_eq!(provider.fetches(), 1);
    provider.describe(json!({ "client_name": "Renamed" }));
    gw.advance(MINUTE * 4 - SECOND).await;
    assert!(open(&gw, &client).await.text().contains("An &lt;app&gt;"));
    assert_eq!(provider.fetches(), 1);
    gw.advance(SECOND).await;
    assert!(open(&gw, &client).await.text().contains("Renamed"));
    assert_eq!(provider.fetches(), 2);
}

/// Neither an outage nor a wrong document causes a request for each attempt.
#[tokio::test]
async fn a_missing_document_is_requested_again_after_ten_seconds() {
    for (status, members) in [
        (Some(503), Value::Null),
        (None, json!({ "client_id": "https://other.example/client.json" })),
    ] {
        let provider = TestProvider::start().await;
        let gw = gateway(&provider, DOCUMENTS).await;
        let client = provider.document_id();
        provider.answer_documents(status);
        provider.describe(members);
        assert_eq!((open(&gw, &client).await.status, provider.fetches()), (400, 1), "{status:?}");
        provider.answer_documents(None);
        provider.describe(Value::Null);
        gw.advance(SECOND * 9).await;
        assert_eq!((open(&gw, &client).await.status, provider.fetches()), (400, 1), "{status:?}");
        gw.advance(SECOND).await;
        assert_eq!((open(&gw, &client).await.status, provider.fetches()), (200, 2), "{status:?}");
    }
}

/// A sign-in is a use, and a page that was opened is none.
#[tokio::test]
async fn a_registered_client_without_a_sign_in_is_removed_after_an_hour() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    let unused = registered(&gw).await;
    let (used, ..) = signed_in(&gw).await;
    gw.advance(MINUTE * 59).await;
    for client in [&unused, &used] {
        assert_eq!(open(&gw, client).await.status, 200);
    }
    gw.advance(MINUTE * 2).await;
    let (removed, unknown) = (open(&gw, &unused).await, open(&gw, "tcc_unknown").await);
    assert_eq!((removed.status, removed.header("location")), (400, ""));
    assert_eq!(removed.text(), unknown.text());
    assert_eq!(open(&gw, &used).await.status, 200);
}

/// The limit is one for all strangers. Clients that are known do not notice it.
#[tokio::test]
async fn a_burst_of_registrations_disturbs_no_known_client() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, DOCUMENTS).await;
    let (client, access, token) = signed_in(&gw).await;
    for number in 1..BURST {
        assert_eq!(register(&gw).await.status, 201, "{number}");
    }
    for _ in 0..3 {
        let refused = register(&gw).await;
        assert_eq!((refused.status, error(&refused).as_str()), (503, "temporarily_unavailable"));
    }
    // A document would be a request to another host.
    assert_eq!(open(&gw, &provider.document_id()).await.status, 503);
    assert_eq!(provider.fetches(), 0);

    assert!(is_valid(&gw, &access).await);
    tokens(&refresh(&gw, &client, &token).await);
    let back = Browser::new(&gw).sign_in(&query(&client, &[])).await;
    assert!(back.contains_key("code"), "{back:?}");
    // Every half second there is room for one, and a refusal took none.
    gw.advance(SECOND / 2).await;
    assert_eq!(register(&gw).await.status, 201);
    assert_eq!(register(&gw).await.status, 503);
    gw.advance(SECOND / 2).await;
    assert_eq!(open(&gw, &provider.document_id()).await.status, 200);
}
