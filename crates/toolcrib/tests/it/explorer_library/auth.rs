use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::HeaderMap;
use serde_json::json;
use toolcrib::{Authenticator, ExplorerConfig, ExplorerPolicy, Identity, RequestHead, ToolCall};
use toolcrib_testkit::gateway::{Reply, TestServer};

use super::{config, serve_f};

/// Accepts `Bearer good`, and counts its calls.
fn hook(config: ExplorerConfig, asked: &Arc<AtomicUsize>) -> ExplorerConfig {
    let asked = Arc::clone(asked);
    config.auth_hook(move |head: RequestHead| {
        asked.fetch_add(1, Ordering::SeqCst);
        async move {
            match head.headers.get("authorization").map(|value| value.as_bytes()) {
                Some(b"Bearer good") => Ok(()),
                _ => Err("canary: the cause, which is for the log"),
            }
        }
    })
}

/// Knows one caller.
struct OneUser;

#[async_trait::async_trait]
impl Authenticator for OneUser {
    async fn authenticate(&self, headers: &HeaderMap) -> Option<Identity> {
        let good = headers.get("authorization").is_some_and(|value| value == "Bearer good");
        good.then(|| Identity {
            id: "user-1".to_owned(),
            identity_type: "human".to_owned(),
            roles: vec!["admin".to_owned()],
            ..Identity::default()
        })
    }
}

/// Returns the caller.
async fn who(call: ToolCall) -> Result<String, String> {
    Ok(match call.identity {
        Some(identity) => {
            format!("{}|{}|{}", identity.id, identity.identity_type, identity.roles.join(","))
        }
        None => "anonymous".to_owned(),
    })
}

fn on() -> ExplorerConfig {
    config().allow_execute(true)
}

async fn call(served: &TestServer, key: &str) -> Reply {
    served.bearer(key).post("/explorer/tools/echo/call", json!({ "msg": "hi" })).await
}

fn unauthorized(reply: &Reply) {
    assert_eq!(reply.status, 401);
    assert_eq!(reply.text(), r#"{"error":"Unauthorized"}"#, "to the byte");
    assert_eq!(reply.header("content-type"), "application/json");
}

/// 32, 33, 39.
#[tokio::test]
async fn a_hook_decides_about_calls() {
    let asked = Arc::default();
    let served = serve_f(hook(on(), &asked)).await;
    assert_eq!(call(&served, "good").await.status, 200);
    unauthorized(&call(&served, "bad").await);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

/// 38.
#[tokio::test]
async fn a_hook_is_called_for_calls_only() {
    let asked = Arc::default();
    let served = serve_f(hook(on(), &asked)).await;
    for path in ["/explorer", "/explorer/", "/explorer/tools", "/explorer/tools/echo"] {
        assert_eq!(served.anonymous().get(path).await.status, 200, "{path}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// Extra: disabled, unknown, unauthorized, in this order.
#[tokio::test]
async fn the_order_of_the_answers() {
    let asked = Arc::default();
    let off = serve_f(hook(config(), &asked)).await;
    let served = serve_f(hook(on(), &asked)).await;
    for (served, tool, status) in [(&off, "nope", 403), (&off, "echo", 403), (&served, "nope", 404)]
    {
        let path = format!("/explorer/tools/{tool}/call");
        assert_eq!(served.anonymous().post(&path, json!({})).await.status, status);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the hook is not called before that");
    unauthorized(&served.anonymous().post("/explorer/tools/echo/call", json!({})).await);
}

/// 49, 50.
#[tokio::test]
async fn an_authenticator_says_who_calls() {
    let served = serve_f(on().authenticator(OneUser).handler(who)).await;
    let reply = call(&served, "good").await;
    assert_eq!(reply.json()["content"][0]["text"], "user-1|human|admin");
    unauthorized(&call(&served, "bad").await);
}

/// 51.
#[tokio::test]
async fn an_authenticator_comes_before_a_hook() {
    let asked = Arc::default();
    let config = hook(on(), &asked).authenticator(OneUser).handler(who);
    assert_eq!(call(&serve_f(config).await, "good").await.status, 200);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// 52. A hook authorizes without an identity.
#[tokio::test]
async fn without_an_authenticator_callers_have_no_identity() {
    let reply = call(&serve_f(on().handler(who)).await, "whatever").await;
    assert_eq!((reply.status, &reply.json()["content"][0]["text"]), (200, &json!("anonymous")));
    let hooked = serve_f(hook(on(), &Arc::default()).handler(who)).await;
    assert_eq!(call(&hooked, "good").await.json()["content"][0]["text"], "anonymous");
}

/// 53, 54.
#[tokio::test]
async fn an_authenticator_guards_calls_alone() {
    let nobody = |_: HeaderMap| async { None::<Identity> };
    for allow in [true, false] {
        let served = serve_f(config().authenticator(nobody).allow_execute(allow)).await;
        for path in ["/explorer", "/explorer/tools", "/explorer/tools/echo"] {
            assert_eq!(served.anonymous().get(path).await.status, 200, "{path}");
        }
        let check = served.anonymous().post("/explorer/tools/echo/validate", json!({})).await;
        assert_eq!(check.parts(), (200, json!({ "valid": true })));
        assert_eq!(call(&served, "good").await.status, if allow { 401 } else { 403 });
    }
}

/// Extra: a hook that panics denies the call.
#[tokio::test]
async fn a_decision_that_panics_is_a_refusal() {
    let broken = |_: HeaderMap| async { panic!("an authenticator that panics, on purpose") };
    unauthorized(&call(&serve_f(on().authenticator(broken)).await, "good").await);
    let broken = |_: RequestHead| async { panic!("a hook that panics, on purpose") };
    let broken = on().auth_hook::<_, _, String>(broken);
    unauthorized(&call(&serve_f(broken).await, "good").await);
}

/// Stricter policies authorize before they reveal anything, and admit no caller without a hook.
#[tokio::test]
async fn stricter_policies_authorize_first() {
    let with = |policy| on().policy(policy).authenticator(OneUser);
    let all = serve_f(with(ExplorerPolicy::All)).await;
    let only_calls = serve_f(with(ExplorerPolicy::CallOnly)).await;
    assert_eq!(all.anonymous().get("/explorer").await.status, 200, "the page holds no data");
    for path in ["/explorer/tools", "/explorer/tools/echo", "/explorer/tools/nope"] {
        unauthorized(&all.anonymous().get(path).await);
        assert_ne!(all.bearer("good").get(path).await.status, 401, "{path}");
        assert_ne!(only_calls.anonymous().get(path).await.status, 401, "{path}");
    }
    for served in [&all, &only_calls] {
        unauthorized(&served.anonymous().post("/explorer/tools/nope/call", json!({})).await);
        assert_eq!(call(served, "good").await.status, 200);
    }
    for policy in [ExplorerPolicy::All, ExplorerPolicy::CallOnly] {
        unauthorized(&call(&serve_f(on().policy(policy)).await, "good").await);
        let off = serve_f(config().policy(policy).authenticator(OneUser)).await;
        unauthorized(&call(&off, "bad").await);
        assert_eq!(call(&off, "good").await.status, 403);
    }
    let open = serve_f(with(ExplorerPolicy::Nothing)).await;
    assert_eq!(call(&open, "bad").await.status, 200);
}
