//! `/v1/keys`: who may create keys, and which grants can be passed on.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_core::{
    quota::{Day, QuotaKey, QuotaStore as _},
    store::{KeyStore as _, Storage as _},
};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestIssuer, TestTool};

const ROLES: &str = "[[role]]\nname = \"reader\"\nscopes = [\"files:read\"]\n\
                     [[role]]\nname = \"admin\"\nscopes = [\"*\"]\n\
                     [[role]]\nname = \"maker\"\nscopes = [\"keys:manage\", \"files:*\"]\n";

async fn gateway() -> TestGateway {
    let tool = TestTool::new("read").scopes(["files:read"]);
    TestGateway::builder().config(ROLES).tool(tool).manual_clock().start().await
}

/// I-61
#[tokio::test]
async fn nobody_hands_on_more_than_it_holds() {
    let gw = gateway().await;
    let manager = gw.principal("manager", ["keys:manage", "files:*"]).await;
    let mut number = 0;
    for (roles, scopes, status) in [
        (json!([]), json!(["files:read"]), 201),
        (json!([]), json!(["files:*"]), 201),
        // The creator has the scopes of the role, but not the role.
        (json!(["reader"]), json!([]), 403),
        (json!([]), json!(["files:read:deep"]), 201),
        (json!([]), json!(["*"]), 403),
        (json!([]), json!(["files"]), 403),
        (json!([]), json!(["files:read", "other:read"]), 403),
        (json!(["admin"]), json!([]), 403),
        (json!(["reader", "admin"]), json!([]), 403),
        // The existence of roles is not revealed to callers without them.
        (json!(["nobody"]), json!([]), 403),
        (json!([]), json!([]), 400),
        (json!([]), json!(["files::read"]), 400),
        (json!("reader"), json!([]), 400),
    ] {
        number += 1;
        let body = json!({ "name": format!("new{number}"), "roles": roles, "scopes": scopes });
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

    // An own role can be passed on, and `*` includes every existing role.
    let maker = gw.principal_with_roles("acme", "maker", &["maker", "reader"]).await;
    let admin = gw.principal("admin", ["*"]).await;
    for (caller, name, roles, status) in [
        (&maker, "a", json!(["reader"]), 201),
        (&maker, "b", json!(["maker", "reader"]), 201),
        (&maker, "c", json!(["reader", "admin"]), 403),
        (&admin, "d", json!(["reader", "admin"]), 201),
        (&admin, "e", json!(["nobody"]), 400),
    ] {
        let reply = caller.post("/v1/keys", json!({ "name": name, "roles": roles })).await;
        assert_eq!(reply.status, status, "{name}: {}", reply.text());
    }

    // Rotating a key with more scopes is denied as well.
    let path = format!("/v1/keys/{}/rotate", gw.key_id(&admin));
    assert_eq!(manager.post(&path, json!({})).await.status, 403);
    // A key has at most the scopes of its creator, and so do the keys it creates.
    let body = json!({ "name": "below", "scopes": ["keys:manage", "files:read"] });
    let below = manager.post("/v1/keys", body).await.json();
    let below = gw.bearer(below["key"].as_str().unwrap());
    let wider = json!({ "name": "n", "scopes": ["files:write"] });
    assert_eq!(below.post("/v1/keys", wider).await.status, 403);
    assert_eq!(below.get("/v1/tools").await.json().as_array().unwrap().len(), 1);
}

const FINANCE: &str = "[gate]\nquota = \"3/d\"\n\
    [[role]]\nname = \"finance\"\nscopes = []\n\
    [[role]]\nname = \"unlimited\"\nscopes = []\nquota = \"off\"\n";

async fn with_finance() -> TestGateway {
    let refund = TestTool::new("refund")
        .scopes(["shop:refund"])
        .rule("approval = \"always\"\napproval_role = \"finance\"");
    let read = TestTool::new("read").scopes(["shop:read"]);
    TestGateway::builder().config(FINANCE).tool(refund).tool(read).start().await
}

async fn call(caller: &Actor, tool: &str) -> Value {
    let call = json!({ "tool_id": format!("crib.{tool}@1.0.0"), "input": {} });
    caller.post("/tools/call", json!({ "$schema": "otc://1.0", "request": call })).await.json()
}

/// I-61, I-65: approvals depend on a role by name, so only its holder can pass it on.
#[tokio::test]
async fn a_consent_of_a_role_comes_from_whoever_has_the_role() {
    let gw = with_finance().await;
    let ann = gw.principal("ann", ["shop:*"]).await;
    let manager = gw.principal("max", ["keys:manage", "approvals:respond"]).await;
    let asked = call(&ann, "refund").await;
    assert_eq!(asked["result"]["error"]["developer_message"], "approval_required", "{asked}");
    let body = json!({ "name": "eve", "roles": ["finance"], "scopes": ["approvals:respond"] });
    let refused = manager.post("/v1/keys", body.clone()).await;
    assert_eq!((refused.status, &refused.json()["error"]), (403, &json!("forbidden")));
    // Rotating the key of a role's holder is denied as well, in every form.
    let fay = gw.principal_with_roles("acme", "fay", &["finance"]).await;
    let path = format!("/v1/keys/{}/rotate", gw.key_id(&fay));
    assert_eq!(manager.post(&path, json!({})).await.status, 403);
    let powerful = gw.principal("pam", ["keys:*", "approvals:respond"]).await;
    assert_eq!(powerful.post(&path, json!({})).await.status, 403);
    assert_eq!(gw.store.list().await.unwrap().len(), 4, "no key was made");
    assert_eq!(gw.runs("crib", "refund"), 0);
    let admin = gw.principal("admin", ["*"]).await;
    assert_eq!(admin.post("/v1/keys", body).await.status, 201);
}

/// I-61: roles and limits belong to the principal, so an own key does not change them.
#[tokio::test]
async fn a_quota_is_not_left_with_a_key_of_ones_own() {
    let gw = with_finance().await;
    let ann = gw.principal("ann", ["keys:manage", "shop:read"]).await;
    for _ in 0..3 {
        assert_eq!(call(&ann, "read").await["result"]["success"], true);
    }
    for roles in [json!(["unlimited"]), json!(["finance"])] {
        let body =
            json!({ "name": "n", "principal": "ann", "roles": roles, "scopes": ["shop:read"] });
        assert_eq!(ann.post("/v1/keys", body).await.status, 403);
    }
    let body = json!({ "name": "n", "principal": "ann", "scopes": ["shop:read"] });
    let made = ann.post("/v1/keys", body).await;
    assert_eq!(made.status, 201, "its own name with its own roles: {}", made.text());
    let second = gw.bearer(made.json()["key"].as_str().unwrap());
    let over = call(&second, "read").await;
    assert_eq!(over["details"]["limit"], 3, "the same principal: {over}");
    assert_eq!(gw.runs("crib", "read"), 3);
}

/// I-61: a key for another existing principal, or for a name that the program uses itself, requires
/// an extra scope.
#[tokio::test]
async fn keys_of_other_principals_take_a_scope_of_their_own() {
    let gw = gateway().await;
    let manager = gw.principal("manager", ["keys:manage", "files:*"]).await;
    let ci = gw.principal("ci", ["files:read"]).await;
    let gone = gw.principal("gone", ["files:read"]).await;
    let admin = gw.principal("admin", ["*"]).await;
    assert_eq!(admin.delete(&format!("/v1/keys/{}", gw.key_id(&gone))).await.status, 200);
    let path = format!("/v1/keys/{}/rotate", gw.key_id(&ci));
    let key =
        |principal: &str| json!({ "name": "n", "principal": principal, "scopes": ["files:read"] });
    let names = [
        "ci",
        "gone",
        "admin",
        "operator",
        "Operator",
        "OPERATOR.",
        "0perator",
        "anonymous",
        "-",
        "--",
        "core.system",
    ];
    for name in names {
        let refused = manager.post("/v1/keys", key(name)).await;
        assert_eq!(refused.status, 403, "{name}: {}", refused.text());
        assert_eq!(refused.json()["details"]["scopeRequired"], "keys:impersonate", "{name}");
    }
    let refused = manager.post(&path, json!({})).await;
    assert_eq!(
        (refused.status, refused.json()["details"]["scopeRequired"].clone()),
        (403, json!("keys:impersonate"))
    );
    gw.event(|it| it["payload"]["action"] == "keys:impersonate").await;
    // New names are free, for one of several concurrent requests.
    let (one, two) = tokio::join!(
        manager.post("/v1/keys", key("fresh")),
        manager.post("/v1/keys", key("fresh"))
    );
    let mut both = [one.status, two.status];
    both.sort_unstable();
    assert_eq!(both, [201, 403]);
    for scopes in [["keys:manage", "keys:impersonate", "files:*"], ["keys:*", "files:*", "a"]] {
        let may = gw.principal(&format!("may{}", scopes[1].len()), scopes).await;
        for name in names.iter().filter(|name| **name != "admin") {
            let made = may.post("/v1/keys", key(name)).await;
            assert_eq!(made.status, 201, "{name}: {}", made.text());
        }
    }
    let may = gw.principal("may", ["keys:*", "files:*"]).await;
    assert_eq!(may.post(&path, json!({})).await.status, 201);
}

/// I-61: names known only from calls are taken, too, and those of tokens.
#[tokio::test]
async fn names_without_a_key_are_taken() {
    let issuer = TestIssuer::start().await;
    let config = issuer.config("").replace("id|", "corp-");
    let tool = TestTool::new("read").scopes(["files:read"]);
    let gw = TestGateway::builder().config(&config).config(ROLES).tool(tool).start().await;
    let manager = gw.principal_of("acme", "manager", &["keys:manage", "files:*"]).await;
    let (tenant, principal) = ("acme".parse().unwrap(), "left".parse().unwrap());
    let counted = vec![(QuotaKey { tenant, principal, tool: None }, 1)];
    gw.store.add(Day::of(gw.gateway.clock().now()), counted).await.unwrap();
    let key = |name: &str| json!({ "name": name, "scopes": ["files:read"] });
    for name in ["corp-ann", "corp-", "left"] {
        assert_eq!(manager.post("/v1/keys", key(name)).await.status, 403, "{name}");
    }
    assert_eq!(manager.post("/v1/keys", key("cor")).await.status, 201);
}

/// I-9: keys of another tenant look nonexistent.
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

/// I-63: once a revocation is answered, the key is rejected.
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

/// I-63: two keys of one principal both work until the overlap ends.
#[tokio::test]
async fn a_rotation_lets_both_keys_work_for_a_while() {
    let gw = gateway().await;
    let manager = gw.principal("manager", ["*"]).await;
    let old = gw.principal("ci", ["files:read"]).await;
    let id = gw.key_id(&old);
    let path = format!("/v1/keys/{id}/rotate");
    for wrong in [
        json!({ "overlapSeconds": -1 }),
        json!({ "overlapSeconds": 1e9 }),
        json!({ "overlapSeconds": 1.5 }),
        json!(7),
    ] {
        assert_eq!(manager.post(&path, wrong).await.status, 400);
    }
    let made = manager.post(&path, json!({ "overlapSeconds": 600.0 })).await;
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

#[tokio::test]
async fn a_name_has_no_characters_that_are_not_seen() {
    let gw = gateway().await;
    let manager = gw.principal("manager", ["*"]).await;
    let create = async |name: &str| {
        let body = json!({ "name": name, "principal": "p", "scopes": ["a"] });
        manager.post("/v1/keys", body).await
    };
    let hidden = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
    for hidden in hidden.chain(['\u{200e}', '\u{200f}', '\u{feff}', '\u{e0041}', '\n', '\u{9b}']) {
        let refused = create(&format!("a{hidden}b")).await;
        assert_eq!(refused.status, 400, "{hidden:?}: {}", refused.text());
        assert!(refused.text().contains("invisible characters"), "{hidden:?}: {}", refused.text());
    }
    let made = create("der Schlüssel 日本").await;
    assert_eq!(made.status, 201, "{}", made.text());
}

#[tokio::test]
async fn each_change_of_a_key_is_in_the_record_and_its_text_and_name_are_not() {
    let gw = gateway().await;
    let manager = gw.principal("manager", ["keys:manage", "keys:impersonate", "files:*"]).await;
    let made = json!({ "name": "laptop of ada", "principal": "ada", "scopes": ["files:read"] });
    let made = manager.post("/v1/keys", made).await.json();
    let id = made["id"].as_str().unwrap();
    let next = manager.post(&format!("/v1/keys/{id}/rotate"), json!({})).await.json();
    let next_id = next["id"].as_str().unwrap();
    assert_eq!(manager.delete(&format!("/v1/keys/{next_id}")).await.status, 200);
    // What is refused changes nothing.
    let refused = json!({ "name": "x", "principal": "eve", "scopes": ["other"] });
    assert_eq!(manager.post("/v1/keys", refused).await.status, 403);
    assert_eq!(manager.delete(&format!("/v1/keys/{next_id}")).await.status, 404);
    let events: Vec<Value> = gw
        .events()
        .await
        .iter()
        .map(|logged| serde_json::to_value(&logged.event).unwrap())
        .filter(|event| event["type"] == "key.changed")
        .map(|event| event["payload"].clone())
        .collect();
    let common = json!({ "principal": "manager", "holder": "ada", "scopes": ["files:read"] });
    let expected = [
        json!({ "keyId": id, "action": "created" }),
        json!({ "keyId": next_id, "action": "created", "replaces": id }),
        json!({ "keyId": next_id, "action": "revoked", "replaces": id }),
    ]
    .map(|mut own| {
        own.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
        own
    });
    assert_eq!(events, expected);
}

/// I-63: of concurrent rotations of one key, exactly one creates a key.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_one_successor_however_many_rotate_it() {
    let gw = gateway().await;
    let manager = gw.principal("manager", ["*"]).await;
    let old = gw.principal("ci", ["files:read"]).await;
    let old_id = gw.key_id(&old).to_string();
    let path = format!("/v1/keys/{old_id}/rotate");
    let mut rotations = 0;
    // Without an overlap, the key ends with the first rotation.
    for overlap in [600, 0] {
        let body = || json!({ "overlapSeconds": overlap });
        let (a, b, c, d, e, f, g, h) = tokio::join!(
            manager.post(&path, body()),
            manager.post(&path, body()),
            manager.post(&path, body()),
            manager.post(&path, body()),
            manager.post(&path, body()),
            manager.post(&path, body()),
            manager.post(&path, body()),
            manager.post(&path, body()),
        );
        let mut replies = [a, b, c, d, e, f, g, h];
        replies.sort_by_key(|reply| reply.status);
        let statuses = replies.each_ref().map(|reply| reply.status);
        assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
        let successors = gw.store.list().await.unwrap();
        let live = |key: &&toolcrib_core::store::KeyRecord| {
            key.replaces.is_some() && key.revoked_at.is_none()
        };
        assert_eq!(successors.iter().filter(live).count(), 1);
        let recorded = gw.events().await;
        let recorded = recorded.iter().filter(|logged| {
            let event = serde_json::to_value(&logged.event).unwrap();
            event["payload"]["replaces"] == old_id && event["payload"]["action"] == "created"
        });
        rotations += 1;
        assert_eq!(recorded.count(), rotations, "no event of a key that was not made");
        // A key whose successor was revoked can be rotated again.
        let next = replies[0].json()["id"].as_str().unwrap().to_owned();
        assert_eq!(manager.delete(&format!("/v1/keys/{next}")).await.status, 200);
    }
}

/// The last use is persisted on close, not by each request.
#[tokio::test]
async fn the_last_use_is_written_down_later() {
    let gw = gateway().await;
    let used = gw.principal("used", ["files:read"]).await;
    let (id, idle) = (gw.key_id(&used), gw.key_id(&gw.principal("idle", ["a"]).await));
    let epoch = gw.store.changes(None).await.unwrap().keys;
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
    assert_eq!(gw.store.changes(None).await.unwrap().keys, epoch, "no key has to be read again");
}

/// Returns the status of a request with the key or token `text`.
async fn status(gw: &TestGateway, text: &str) -> u16 {
    gw.bearer(text).get("/v1/tools").await.status
}

/// I-61: a key ends with the token that made it, and so does whatever is made or rotated with that key.
#[tokio::test]
async fn a_key_ends_with_the_token_that_made_it() {
    let issuer = TestIssuer::start().await;
    let config = issuer.config("scopes = [\"files:*\", \"keys:manage\"]\nclock_skew = \"1s\"");
    let tool = TestTool::new("read").scopes(["files:read"]);
    let gw = TestGateway::builder().config(&config).tool(tool).manual_clock().start().await;
    let now = gw.gateway.clock().now();
    let mut claims = issuer.claims(now);
    claims["scope"] = json!("files:read keys:manage");
    claims["exp"] = json!(now.timestamp() + 5);
    let token = issuer.sign(&claims);
    let short = gw.bearer(&token);
    let scopes = json!(["files:read", "keys:manage"]);
    for end in [now.timestamp() + 7, now.timestamp() + 1_000_000] {
        let end = chrono::DateTime::from_timestamp_secs(end).unwrap();
        let body = json!({ "name": "late", "scopes": scopes, "expiresAt": end.to_rfc3339() });
        let refused = short.post("/v1/keys", body).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.text().contains("outlive"), "{}", refused.text());
    }
    let end = toolcrib_gateway::authn::manage::moment(now + chrono::Duration::seconds(6));
    let made = short.post("/v1/keys", json!({ "name": "child", "scopes": scopes })).await.json();
    assert_eq!(made["expiresAt"], json!(end), "{made}");
    let child = made["key"].as_str().unwrap().to_owned();
    gw.advance(Duration::from_secs(3)).await;
    // What the key makes, and what replaces it, ends at the same moment.
    let by_key = gw.bearer(&child);
    let grandchild =
        by_key.post("/v1/keys", json!({ "name": "grandchild", "scopes": scopes })).await.json();
    let path = format!("/v1/keys/{}/rotate", made["id"].as_str().unwrap());
    let rotated = by_key.post(&path, json!({})).await.json();
    for made in [&grandchild, &rotated] {
        assert_eq!(made["expiresAt"], json!(end), "{made}");
        assert_eq!(status(&gw, made["key"].as_str().unwrap()).await, 200);
    }
    gw.advance(Duration::from_secs(4)).await;
    for text in [&token, &child]
        .into_iter()
        .map(String::as_str)
        .chain([&grandchild, &rotated].into_iter().map(|made| made["key"].as_str().unwrap()))
    {
        assert_eq!(status(&gw, text).await, 401);
    }
}

/// I-61: an issuer can allow a longer life, which is counted from the token and not from each key.
#[tokio::test]
async fn an_issuer_says_how_long_keys_of_its_tokens_live() {
    let issuer = TestIssuer::start().await;
    let config = issuer.config("scopes = [\"files:*\", \"keys:manage\"]\nkey_lifetime = \"1h\"");
    let tool = TestTool::new("read").scopes(["files:read"]);
    let gw = TestGateway::builder().config(&config).tool(tool).manual_clock().start().await;
    let now = gw.gateway.clock().now();
    let mut claims = issuer.claims(now);
    claims["scope"] = json!("files:read keys:manage");
    let token = gw.bearer(&issuer.sign(&claims));
    let scopes = json!(["files:read", "keys:manage"]);
    let made = token.post("/v1/keys", json!({ "name": "child", "scopes": scopes })).await.json();
    let end = toolcrib_gateway::authn::manage::moment(now + chrono::Duration::hours(1));
    assert_eq!(made["expiresAt"], json!(end));
    gw.advance(Duration::from_secs(50 * 60)).await;
    let child = gw.bearer(made["key"].as_str().unwrap());
    let path = format!("/v1/keys/{}/rotate", made["id"].as_str().unwrap());
    let rotated = child.post(&path, json!({})).await.json();
    assert_eq!(rotated["expiresAt"], json!(end), "no longer than the key that rotated itself");
    gw.advance(Duration::from_secs(10 * 60 + 1)).await;
    assert_eq!(status(&gw, rotated["key"].as_str().unwrap()).await, 401);
}

/// I-61: what the list of roles says about giving them is what happens.
#[tokio::test]
async fn roles_say_whether_the_caller_can_give_them() {
    let more = "[[role]]\nname = \"editor\"\nscopes = [\"config:write\"]\n\
                [[role]]\nname = \"lister\"\nscopes = [\"keys:manage\", \"roles:read\", \"files:*\"]\n";
    let tool = TestTool::new("read").scopes(["files:read"]);
    let config = format!("{ROLES}{more}");
    let gw = TestGateway::builder().config(&config).tool(tool).start().await;
    let callers = [
        (gw.principal("manager", ["keys:manage", "roles:read", "files:*"]).await, vec![]),
        (gw.principal("reads", ["roles:read", "files:*"]).await, vec![]),
        (gw.principal("root", ["*"]).await, vec!["admin", "lister", "maker", "reader"]),
        (
            gw.principal("both", ["*", "config:write"]).await,
            vec!["admin", "editor", "lister", "maker", "reader"],
        ),
        (
            gw.principal_with_roles("acme", "lena", &["lister", "reader"]).await,
            vec!["lister", "reader"],
        ),
    ];
    for (number, (caller, expected)) in callers.iter().enumerate() {
        let listed = caller.get("/v1/roles").await.json();
        let roles = listed["roles"].as_array().unwrap();
        assert_eq!(roles.len(), 5, "{listed}");
        let mut given = Vec::new();
        for role in roles {
            let name = role["name"].as_str().unwrap();
            if role["mayGive"] == true {
                given.push(name);
            }
            let one = caller.get(&format!("/v1/roles/{name}")).await.json();
            assert_eq!(one["role"], *role);
            let body = json!({ "name": format!("k{number}-{name}"), "roles": [name] });
            let status = caller.post("/v1/keys", body).await.status;
            assert_eq!(status == 201, role["mayGive"] == true, "{number} {name}: {status}");
        }
        assert_eq!(given, *expected, "{number}");
    }
}

/// I-9: a role without grants is known where approvals require it, and nowhere else.
#[tokio::test]
async fn a_role_that_approvals_require_is_listed() {
    let gw = with_finance().await;
    let root = gw.principal("root", ["*"]).await;
    let listed = root.get("/v1/roles").await.json();
    let names: Vec<_> = listed["roles"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["finance"], "{listed}");
    assert_eq!(root.get("/v1/roles/finance").await.status, 200);
    assert_eq!(root.get("/v1/roles/unlimited").await.status, 404);
}
