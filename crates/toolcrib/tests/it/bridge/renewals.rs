//! Renewals at the provider that end in an unusual way.

use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::gateway::TestProvider;

use super::{error, gateway, is_valid, refresh, signed_in, tokens};

fn renewals(provider: &TestProvider) -> usize {
    let requests = provider.requests();
    requests.iter().filter(|form| form.contains_key("refresh_token")).count()
}

/// The provider has replaced its refresh token by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_in_a_renewal_renews_again() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    let (client, _, token) = signed_in(&gw).await;
    provider.hold_tokens(true);
    let mut hanging = Box::pin(refresh(&gw, &client, &token));
    for _ in 0..500 {
        let pause = Duration::from_millis(10);
        assert!(tokio::time::timeout(pause, &mut hanging).await.is_err(), "the provider waits");
        if renewals(&provider) == 1 {
            break;
        }
    }
    assert_eq!(renewals(&provider), 1);
    drop(hanging);
    provider.hold_tokens(false);
    let (access, next) = tokens(&refresh(&gw, &client, &token).await);
    assert!(is_valid(&gw, &access).await);
    tokens(&refresh(&gw, &client, &next).await);
    assert_eq!(provider.replays(), 0);
}

/// An answer without tokens says nothing about the person.
#[tokio::test]
async fn an_empty_answer_of_the_provider_is_no_renewal() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, "").await;
    for answer in [json!({}), json!([]), json!({ "token_type": "Bearer", "expires_in": 300 })] {
        let (client, access, token) = signed_in(&gw).await;
        provider.answer_renewals(Some(answer.clone()));
        let refused = refresh(&gw, &client, &token).await;
        assert_eq!(error(&refused), "temporarily_unavailable", "{answer}");
        assert!(is_valid(&gw, &access).await, "{answer}");
        provider.answer_renewals(None);
    }
}
