//! `/v1/keys`: who may make keys, and what can be handed on.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_core::store::KeyStore as _;
use toolcrib_testkit::gateway::{TestGateway, TestTool};

const ROLES: &str = "[[role]]\nname = \"reader\"\nscopes = [\"files:read\"]\n\
                     [[role]]\nname = \"admin\"\nscopes = [\"*\"]\n";

async fn gateway() -> TestGateway {
    let tool = TestTool::new("read").scopes(["files:read"]);
    TestGateway::builder().config(ROLES).tool(tool).manual_clock().start().await
}

/// I-61
#[tokio::test]
async fn nobody_hands_on_more_than_it_holds() {
    let gw = gateway().await;
    let manager = gw.principal("manager", ["keys:manage", "files:*"]).await;
    for (roles, scopes, status) in [
        (json!([]), json!(["files:read"]), 201),
        (json!([]), json!(["files:*"]), 201),
        (json!(["reader"]), json!([]), 201),
        (json!([]), json!(["files:read:deep"]), 201),
        (json!([]), json!(["*"]), 403),
        (json!([]), json!(["files"]), 403),
        (json!([]), json!(["files:read", "other:read"]), 403),
        (json!(["admin"]), json!([]), 403),
        (json!(["reader", "admin"]), json!([]), 403),
        (json!(["nobody"]), json!([]), 400),
        (json!([]), json!([]), 400),
        (json!([]), json!(["files::read"]), 400),
        (json!("reader"), json!([]), 400),
    ] {
        let body = json!({ "name": "new", "roles": roles, "scopes": scopes });
        let reply = manager.post("/v1/keys", body.clone()).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.text());
    }
    for body in [
        json!({}),
        json!({ "name": "", "scopes": ["files:read"] }),
        json!({ "name": "n", "scopes": ["files:read"], "tenant": "other" }),
        json!({ "name": "n", "scopes": ["files:read"], "expiresAt": "tomorrow" }),
        json!({ "name": "n", "scopes": ["files:read"], "expiresAt": "2001-01-01T00:00:00Z" }),
        json!([]),
    ] {
        assert_eq!(manager.post("/v1/keys", body.clone()).await.status, 400, "{body}");
    }

    // Neither by renewing a key that holds more.
    let admin = gw.principal("admin", ["*"]).await;
    let path = format!("/v1/keys/{}/rotate", gw.key_id(&admin));
    assert_eq!(manager.post(&path, json!({})).await.status, 403);
    // What a key holds is no more than its maker's, and so is what its own keys hold.
    let body = json!({ "name": "below", "scopes": ["keys:manage", "files:read"] });
    let below = manager.post("/v1/keys", body).await.json();
    let below = gw.bearer(below["key"].as_str().unwrap());
    let wider = json!({ "name": "n", "scopes": ["files:write"] });
    assert_eq!(below.post("/v1/keys", wider).await.status, 403);
    assert_eq!(below.get("/v1/tools").await.json().as_array().unwrap().len(), 1);
}

/// I-9: another tenant's keys are not there.
#[tokio::test]
async fn keys_stay_in_their_tenant() {
    let gw = gateway().await;
    let manager = gw.principal("manager", ["*"]).await;
    let other = gw.principal_of("other", "manager", &["*"]).await;
    let id = gw.key_id(&manager);
    let unknown = other.delete("/v1/keys/none").await;
    for reply in [
        other.delete(&format!("/v1/keys/{id}")).await,
        other.post(&format!("/v1/keys/{id}/rotate"), json!({})).await,
    ] {
        assert_eq!((reply.status, reply.text()), (404, unknown.text()));
    }
    let listed = other.get("/v1/keys").await.json();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 1);
    assert_eq!(listed["keys"][0]["tenant"], "other");
    assert!(!listed.to_string().contains("digest"));
    assert_eq!(manager.get("/v1/tools").await.status, 200);
}

/// I-63: the answer to a revocation is the moment from which the key is refused.
#[tokio::test]
async fn a_key_works_when_it_is_told_and_never_after_it_was_taken_back() {
    let gw = gateway().await;
    let manager = gw.principal("manager", ["*"]).await;
    for _ in 0..20 {
        let body = json!({ "name": "new", "scopes": ["files:read"] });
        let made = manager.post("/v1/keys", body).await.json();
        let holder = gw.bearer(made["key"].as_str().unwrap());
        assert_eq!(holder.get("/v1/tools").await.status, 200);
        let path = format!("/v1/keys/{}", made["id"].as_str().unwrap());
        assert_eq!(manager.delete(&path).await.status, 200);
        assert_eq!(holder.get("/v1/tools").await.status, 401);
        assert_eq!(manager.delete(&path).await.status, 404, "once");
    }
}

/// I-63: two keys of one principal work side by side until the overlap ends.
#[tokio::test]
async fn a_rotation_lets_both_keys_work_for_a_while() {
    let gw = gateway().await;
    let manager = gw.principal("manager", ["*"]).await;
    let old = gw.principal("ci", ["files:read"]).await;
    let id = gw.key_id(&old);
    let path = format!("/v1/keys/{id}/rotate");
    for wrong in [json!({ "overlapSeconds": -1 }), json!({ "overlapSeconds": 1e9 }), json!(7)] {
        assert_eq!(manager.post(&path, wrong).await.status, 400);
    }
    let made = manager.post(&path, json!({ "overlapSeconds": 600 })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    assert_eq!((&made["principal"], &made["replaces"]), (&json!("ci"), &json!(id.as_str())));
    assert_eq!(made["expiresAt"], Value::Null, "the old key was made for ever");
    let new = gw.bearer(made["key"].as_str().unwrap());
    for holder in [&old, &new] {
        assert_eq!(holder.get("/v1/tools").await.json().as_array().unwrap().len(), 1);
    }
    assert_eq!(manager.post(&path, json!({})).await.status, 409, "one key follows it");
    gw.advance(Duration::from_secs(601)).await;
    assert_eq!(old.get("/v1/tools").await.status, 401);
    assert_eq!(new.get("/v1/tools").await.status, 200);
    assert_eq!(manager.post(&path, json!({})).await.status, 409);
}

/// When a key was used last is known after it was closed, and a request does not write it.
#[tokio::test]
async fn the_last_use_is_written_down_later() {
    let gw = gateway().await;
    let used = gw.principal("used", ["files:read"]).await;
    let (id, idle) = (gw.key_id(&used), gw.key_id(&gw.principal("idle", ["a"]).await));
    let epoch = gw.store.epoch().await.unwrap();
    gw.advance(Duration::from_secs(5)).await;
    let at = gw.gateway.clock().now();
    assert_eq!(used.get("/v1/tools").await.status, 200);
    let last = async |id: &toolcrib_core::id::KeyId| {
        let keys = gw.store.list().await.unwrap();
        keys.into_iter().find(|key| key.id == *id).unwrap().last_used_at
    };
    assert_eq!(last(&id).await, None);
    gw.advance(Duration::from_secs(61)).await;
    for _ in 0..200 {
        if last(&id).await.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(last(&id).await.map(|at| at.timestamp()), Some(at.timestamp()));
    assert_ne!(last(&idle).await, Some(at));
    assert_eq!(gw.store.epoch().await.unwrap(), epoch, "no key has to be read again");
}
