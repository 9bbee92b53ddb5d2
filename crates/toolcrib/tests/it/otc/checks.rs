//! Black-box checks of a server of this protocol family, on both mounts, in the order of our list.
//! Every response is validated against the protocol's schemas.

use std::collections::HashSet;

use http::Method;
use serde_json::{Map, Value, json};
use toolcrib_core::call::{UpstreamError, UpstreamErrorKind};
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway, TestSource, TestTool};

use super::spec::answers;
use crate::support::fixture;

/// One of the mounts.
#[derive(Clone, Copy, Debug)]
struct Mount {
    root: &'static str,
    list: &'static str,
    marker: &'static str,
    other: &'static str,
}

const OTC: Mount = Mount { root: "", list: "tools", marker: "otc://1.0", other: "urn:oxp:1.0" };
const OXP: Mount = Mount { root: "/oxp", list: "items", marker: "urn:oxp:1.0", other: "otc://1.0" };
const BOTH: [Mount; 2] = [OTC, OXP];

impl Mount {
    async fn list(self, caller: &Actor) -> Vec<Value> {
        let reply = caller.get(&self.path("/tools")).await;
        let body = answers(&reply, 200);
        assert_eq!(body["$schema"], self.marker);
        body[self.list].as_array().unwrap().clone()
    }

    async fn call(self, caller: &Actor, request: Value) -> Reply {
        caller.post(&self.path("/tools/call"), json!({ "request": request })).await
    }

    async fn refused(self, caller: &Actor, request: Value, status: u16) -> Value {
        answers(&self.call(caller, request).await, status)
    }

    async fn result(self, caller: &Actor, request: Value) -> Value {
        answers(&self.call(caller, request).await, 200)["result"].clone()
    }

    fn path(self, path: &str) -> String {
        format!("{}{path}", self.root)
    }

    /// Returns the input schema of `tool`.
    fn parameters(self, tool: &Value) -> &Value {
        match self.root {
            "" => &tool["input_schema"]["parameters"],
            _ => &tool["input_schema"],
        }
    }
}

async fn started() -> (TestGateway, Actor) {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    (gw, reader)
}

/// Check 1.
#[tokio::test]
async fn health_is_open_whatever_is_presented() {
    let gw = fixture().start().await;
    for mount in BOTH {
        let path = mount.path("/health");
        for caller in
            [gw.anonymous(), gw.bearer("junk"), gw.anonymous().with("authorization", "Basic x")]
        {
            let reply = caller.get(&path).await;
            assert_eq!(reply.parts(), (200, json!({ "status": "OK" })));
        }
    }
}

/// Check 2: an unreachable source causes no 503.
#[tokio::test]
async fn nothing_is_503_because_of_a_source() {
    let (_gw, reader) = started().await;
    for mount in BOTH {
        assert_eq!(reader.get(&mount.path("/health")).await.status, 200);
        mount.list(&reader).await;
        let body = mount.refused(&reader, json!({ "tool_id": "crib.down" }), 400).await;
        assert_eq!((&body["can_retry"], &body["retry_after_ms"]), (&json!(true), &json!(1000)));
        assert!(!body.to_string().contains("10.1.2.3"), "{body}");
    }
}

/// Check 3.
#[tokio::test]
async fn the_list_is_an_object_also_when_it_is_empty() {
    let gw = TestGateway::builder().start().await;
    let caller = gw.principal("a", []).await;
    for mount in BOTH {
        let reply = caller.get(&mount.path("/tools")).await;
        let expected = format!(r#"{{"$schema":"{}","{}":[]}}"#, mount.marker, mount.list);
        assert_eq!(reply.text(), expected);
    }
}

/// Check 4: a version may be requested, and the response uses the caller's family.
#[tokio::test]
async fn the_list_is_answered_in_the_callers_family() {
    let (_gw, reader) = started().await;
    for mount in BOTH {
        let path = mount.path("/tools");
        let ask = async |body: Value| {
            reader.send(Method::GET, &path, Some(body.to_string().into())).await
        };
        let plain = mount.list(&reader).await;
        for marker in [
            mount.marker,
            mount.other,
            "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json",
            "https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json",
            "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json",
        ] {
            let body = answers(&ask(json!({ "$schema": marker })).await, 200);
            assert_eq!((&body["$schema"], &body[mount.list]), (&json!(marker), &json!(plain)));
        }
        for bad in ["otc://9.9", "urn:oxp:9.9", "https://x/http/2.0/openapi.json", "nonsense"] {
            let body = answers(&ask(json!({ "$schema": bad })).await, 400);
            assert_eq!(body["$schema"], mount.marker);
            assert!(!body.to_string().contains(bad), "{body}");
        }
        answers(&ask(json!({ "$schema": 1 })).await, 400);
    }
}

/// Check 5.
#[tokio::test]
async fn a_get_that_announces_json_and_sends_nothing_is_fine() {
    let (_gw, reader) = started().await;
    let typed = reader.with("content-type", "application/json");
    for mount in BOTH {
        assert_eq!(typed.get(&mount.path("/tools")).await.status, 200);
        let empty = typed.send(Method::GET, &mount.path("/tools"), Some("".into())).await;
        assert_eq!(empty.status, 200);
    }
}

/// Check 6: definitions conform to the schema for any upstream tool.
#[tokio::test]
async fn every_definition_keeps_to_the_protocol() {
    let nested = json!({
        "type": "object",
        "properties": {
            "a": { "$ref": "#/$defs/x" },
            "b": { "type": "array", "items": { "$ref": "#/$defs/x" } },
            "c": { "title": "Sea" }, "d": true, "e": false, "f": { "$ref": "#anchor" },
        },
        "$defs": {
            "x": { "type": "object", "properties": { "again": { "$ref": "#/$defs/x" } } },
            "y": { "$anchor": "anchor", "type": "string" },
        },
    });
    let long = "a-very-long-tool-name-that-does-not-fit-into-sixty-four-characters-of-a-name";
    let source = TestSource::new("team-files")
        .version("2.010.3-beta+7")
        .tool(TestTool::new("do.it").scopes([]).input(nested.clone()).output(nested))
        .tool(TestTool::new("undo-it").annotations(json!({ "readOnlyHint": true })))
        .tool(TestTool::new("löschen"))
        .tool(TestTool::new(long))
        .tool(TestTool::new("silent").output(json!({ "type": "null" })));
    let gw = TestGateway::builder().source(source).start().await;
    let caller = gw.principal("a", ["*"]).await;
    for mount in BOTH {
        let tools = mount.list(&caller).await;
        assert_eq!(tools.len(), 5);
        let ids: HashSet<&str> = tools.iter().map(|tool| tool["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 5);
        let found = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
        let nested = found("team-files__do_it");
        let words = ["$ref", "$defs", "anchor\""];
        assert!(!words.iter().any(|word| nested.to_string().contains(word)), "{nested}");
        let parameters = &mount.parameters(nested)["properties"];
        assert_eq!(parameters["a"]["properties"]["again"], json!({}), "recursion ends");
        assert_eq!(parameters["b"]["items"]["type"], "object");
        assert_eq!(parameters["c"]["description"], "Sea");
        assert_eq!(parameters["d"]["description"], "d");
        assert_eq!(parameters["f"]["type"], "string");
        assert_eq!((&nested["version"], nested.get("requirements")), (&json!("2.10.3"), None));
        assert_eq!(nested["output_schema"]["type"], "object");
        let other = found("team-files__undo-it");
        assert_eq!(other["output_schema"], json!({}));
        assert_eq!(other["requirements"], json!({ "scopes": ["tools:team-files"] }));
        assert_eq!(found("team-files__silent")["output_schema"], Value::Null);
    }
}

/// Check 7.
#[tokio::test]
async fn a_call_by_its_whole_id_answers() {
    let (_gw, reader) = started().await;
    for mount in BOTH {
        let request = json!({
            "tool_id": "crib.read@1.0.0", "call_id": format!("mine {}", mount.list),
            "trace_id": "t", "input": { "path": "a" },
            "context": { "user_id": "u", "secrets": [{ "id": "s", "value": "canary" }] },
        });
        let reply = mount.call(&reader, request.clone()).await;
        assert!(!reply.header("toolcrib-run-id").is_empty());
        let result = answers(&reply, 200)["result"].clone();
        assert_eq!((&result["call_id"], &result["success"]), (&request["call_id"], &json!(true)));
        assert_eq!(result["value"], "read: a");
        assert!(result["duration"].is_number() && result.get("error").is_none());
    }
}

/// Check 8.
#[tokio::test]
async fn a_call_without_an_id_gets_one_of_its_own() {
    let (_gw, reader) = started().await;
    let mut ids = HashSet::new();
    for mount in BOTH {
        for _ in 0..2 {
            let result = mount.result(&reader, json!({ "tool_id": "crib.open" })).await;
            assert!(ids.insert(result["call_id"].as_str().unwrap().to_owned()));
        }
    }
}

/// Check 9: `@x` means x.0.0 only; without a version, the available one is used. (The choice of the
/// highest version is tested in the catalog: `a_name_without_a_version_is_the_highest_one`.)
#[tokio::test]
async fn versions_are_resolved() {
    let tool = || TestTool::new("run").scopes([]);
    let gw = TestGateway::builder()
        .source(TestSource::new("ten").version("10.0.0").tool(tool()))
        .source(TestSource::new("odd").version("1.2.3").tool(tool()))
        .start()
        .await;
    let caller = gw.principal("a", []).await;
    for mount in BOTH {
        for good in ["ten.run", "ten.run@10", "ten.run@10.0.0", "ten__run", "odd.run@1.2.3"] {
            let result = mount.result(&caller, json!({ "tool_id": good })).await;
            assert_eq!(result["success"], true, "{good}");
        }
        for absent in ["ten.run@1", "ten.run@9", "odd.run@1", "odd.run@1.2.4"] {
            let body = mount.refused(&caller, json!({ "tool_id": absent }), 400).await;
            let told = body["developer_message"].as_str().unwrap();
            let version = if absent.starts_with("ten") { "10.0.0" } else { "1.2.3" };
            assert_eq!(told, format!("it is offered in version {version}"), "{absent}");
        }
    }
}

/// Check 10.
#[tokio::test]
async fn a_malformed_version_is_400() {
    let (gw, reader) = started().await;
    for mount in BOTH {
        for id in ["crib.open@1.2", "crib.open@v1", "crib.open@1@2", "crib.open@", "a.b.c", "crib."]
        {
            mount.refused(&reader, json!({ "tool_id": id }), 400).await;
        }
    }
    assert_eq!(gw.runs("crib", "open"), 0);
}

/// Check 11.
#[tokio::test]
async fn an_unknown_tool_is_400_with_two_messages() {
    let (_gw, reader) = started().await;
    for mount in BOTH {
        let unknown = mount.refused(&reader, json!({ "tool_id": "no.such" }), 400).await;
        assert_eq!(unknown["message"], "no such tool");
        assert!(unknown["developer_message"].as_str().unwrap().contains("GET /tools"));
        let version = mount.refused(&reader, json!({ "tool_id": "crib.open@7.7.7" }), 400).await;
        assert_eq!(version["message"], "the tool is not offered in that version");
        // I-9: a denied tool is not offered in any version.
        let hidden = mount.refused(&reader, json!({ "tool_id": "other.secret@7.7.7" }), 400).await;
        assert_eq!(hidden, unknown);
    }
}

/// Checks 12 and 13.
#[tokio::test]
async fn input_that_does_not_fit_is_422_by_parameter() {
    let gw = fixture()
        .tool(TestTool::new("deep").scopes([]).input(json!({
            "type": "object",
            "properties": { "a": { "type": "object", "properties": { "b": { "type": "array",
                "items": { "type": "string" } } }, "required": ["c"] } },
        })))
        .start()
        .await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for mount in BOTH {
        let input = json!({ "count": "canary-value", "extra": 1 });
        let request = json!({ "tool_id": "crib.read", "input": input });
        let body = mount.refused(&reader, request, 422).await;
        let keys: Vec<&String> = body["parameter_errors"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["count", "extra", "path"]);
        assert!(!body.to_string().contains("canary"), "{body}");
        let missing = mount.refused(&reader, json!({ "tool_id": "crib.read" }), 422).await;
        assert!(missing["parameter_errors"]["path"].is_string());
        let request = json!({ "tool_id": "crib.deep", "input": { "a": { "b": [1] } } });
        let deep = mount.refused(&reader, request, 422).await;
        let told = deep["parameter_errors"]["a"].as_str().unwrap();
        assert!(told.contains("at /b/0: ") && told.contains("; "), "{told}");
    }
    assert_eq!(gw.runs("crib", "read") + gw.runs("crib", "deep"), 0);
}

/// Check 14, and the errors that allow a retry.
#[tokio::test]
async fn a_failure_of_a_tool_is_a_result() {
    let lost = |kind: UpstreamErrorKind| {
        move |_| async move { Err(UpstreamError::new(kind, "http://10.1.2.3/ went away")) }
    };
    let tool = |name: &str| TestTool::new(name).scopes([]);
    let gw = fixture()
        .tool(tool("dies").runs_as(lost(UpstreamErrorKind::Died)))
        .tool(tool("dies_reading").tier("read").runs_as(lost(UpstreamErrorKind::Died)))
        .tool(
            tool("late")
                .rule("replay_policy = \"idempotent\"")
                .runs_as(lost(UpstreamErrorKind::Timeout)),
        )
        .tool(tool("odd").tier("read").runs_as(lost(UpstreamErrorKind::Protocol)))
        .start()
        .await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for mount in BOTH {
        for (tool, message, code, retry) in [
            ("fail", "kaboom", None, false),
            ("panic", "internal error", Some("internal_error"), false),
            (
                "ask",
                "approval required: this tool does not run without a grant",
                Some("approval_required"),
                true,
            ),
            (
                "dies",
                "the tool's source went away during the call; whether the call took effect is unknown",
                Some("upstream_died"),
                false,
            ),
            (
                "dies_reading",
                "the tool's source went away during the call; whether the call took effect is unknown",
                Some("upstream_died"),
                true,
            ),
            (
                "late",
                "the tool did not answer in time and was cancelled",
                Some("upstream_timeout"),
                true,
            ),
            (
                "odd",
                "the tool's source did not return a valid tool result",
                Some("upstream_protocol_error"),
                false,
            ),
        ] {
            let result = mount.result(&reader, json!({ "tool_id": format!("crib.{tool}") })).await;
            assert_eq!(result["success"], false, "{tool}");
            let error = &result["error"];
            // The id of the approval follows the message.
            let said = error["message"].as_str().unwrap().split(". Approval ").next().unwrap();
            assert_eq!((said, &error["can_retry"]), (message, &json!(retry)));
            assert_eq!(error.get("developer_message").and_then(Value::as_str), code);
            assert_eq!(error.get("retry_after_ms").is_some(), retry, "{tool}");
            assert!(!result.to_string().contains("10.1.2.3"), "{result}");
        }
    }
}

/// Check 15.
#[tokio::test]
async fn a_malformed_call_is_400() {
    let (gw, reader) = started().await;
    for mount in BOTH {
        for bad in ["", "not json", "[]", "null", "{}", r#"{"request":[]}"#, r#"{"request":{}}"#] {
            let reply = reader.post_text(&mount.path("/tools/call"), bad).await;
            assert_eq!(answers(&reply, 400)["$schema"], mount.marker, "{bad}");
        }
        for (member, wrong) in [
            ("tool_id", json!(1)),
            ("input", json!([])),
            ("call_id", json!(5)),
            ("call_id", json!("")),
            ("call_id", json!("x".repeat(257))),
            ("trace_id", json!({})),
            ("context", json!("x")),
        ] {
            let mut request = Map::from_iter([("tool_id".to_owned(), json!("crib.open"))]);
            request.insert(member.to_owned(), wrong);
            let body = mount.refused(&reader, request.into(), 400).await;
            assert!(body["message"].as_str().unwrap().contains(member), "{body}");
        }
    }
    assert_eq!(gw.runs("crib", "open"), 0);
    for mount in BOTH {
        mount.result(&reader, json!({ "tool_id": "crib.open" })).await;
        let alias = json!({ "tool_id": "crib.open", "inputs": { "a": 1 } });
        assert_eq!(mount.result(&reader, alias).await["value"], r#"{"a":1}"#);
    }
}

/// Check 16: also across the mounts, which share a caller's ids.
#[tokio::test]
async fn the_same_call_id_runs_once() {
    let (gw, reader) = started().await;
    let request = json!({ "tool_id": "crib.open", "call_id": "once", "input": { "n": 1 } });
    let first = OTC.call(&reader, request.clone()).await;
    let again = OTC.call(&reader, request.clone()).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.header("toolcrib-run-id"), first.header("toolcrib-run-id"));
    assert_eq!(OXP.result(&reader, request.clone()).await, first.json()["result"]);
    for mount in BOTH {
        for (member, other) in [("input", json!({ "n": 2 })), ("tool_id", json!("crib.sum"))] {
            let mut request = request.clone();
            request[member] = other;
            let body = mount.refused(&reader, request, 400).await;
            assert!(body["message"].as_str().unwrap().starts_with("`call_id` "), "{body}");
        }
    }
    assert_eq!((gw.runs("crib", "open"), gw.runs("crib", "sum")), (1, 0));
}

/// Check 17: every spelling of the key's header, and no values that merely resemble a key.
#[tokio::test]
async fn a_key_is_required_in_any_of_the_headers() {
    let (gw, reader) = started().await;
    let key = reader.key().unwrap();
    let nobody = gw.anonymous();
    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.";
    let signed = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln";
    for mount in BOTH {
        for path in [mount.path("/tools"), mount.path("/tools/call")] {
            let ask = async |name: &str, value: &str| {
                let caller = nobody.with(name, value);
                match path.ends_with("/call") {
                    false => caller.get(&path).await,
                    true => {
                        let body = json!({ "request": { "tool_id": "crib.open" } });
                        caller.post(&path, body).await
                    }
                }
            };
            for name in ["x-api-key", "otc-api-key", "OXP-API-Key"] {
                answers(&ask(name, key).await, 200);
                answers(&ask(name, "junk").await, 401);
            }
            for scheme in ["Bearer", "bearer"] {
                answers(&ask("authorization", &format!("{scheme} {key}")).await, 200);
            }
            for bad in [
                format!("Basic {key}"),
                key.to_owned(),
                format!("Bearer {key}x"),
                format!("Bearer {unsigned}"),
                format!("Bearer {signed}"),
                "Bearer".to_owned(),
            ] {
                let reply = ask("authorization", &bad).await;
                assert_eq!(reply.header("www-authenticate"), "Bearer");
                let body = answers(&reply, 401);
                assert_eq!(body["$schema"], mount.marker);
            }
            answers(&ask("x-other", key).await, 401);
            // A proxy may have checked the other one.
            for (name, value) in [
                ("x-api-key", key),
                ("authorization", &format!("Bearer {key}")),
                ("otc-api-key", key),
            ] {
                for other in ["junk", key] {
                    let twice = nobody.with(name, value).with(name, other);
                    let body = answers(&twice.get(&mount.path("/tools")).await, 401);
                    assert!(body.to_string().contains("several credentials"), "{name}: {body}");
                }
            }
            let differ = reader.with("x-api-key", "junk").get(&mount.path("/tools")).await;
            answers(&differ, 401);
            answers(&reader.with("x-api-key", key).get(&mount.path("/tools")).await, 200);
        }
    }
}

/// Check 18: without authentication, presented credentials are ignored unless they are a key.
#[tokio::test]
async fn without_authentication_garbage_is_ignored_and_a_key_is_not() {
    let gw = fixture()
        .config("[anonymous]\ntenant = \"acme\"\nscopes = [\"none\"]")
        .config("[otc]\nauth = \"optional\"\n[oxp]\nauth = \"optional\"")
        .start()
        .await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let nobody = gw.anonymous();
    let key = reader.key().unwrap();
    for mount in BOTH {
        let count = async |caller: &Actor| mount.list(caller).await.len();
        assert_eq!((count(&nobody).await, count(&reader).await), (1, 7));
        for garbage in ["garbage", "Bearer garbage", "Basic Zm9vOmJhcg==", "Bearer", ""] {
            let caller = nobody.with("authorization", garbage);
            assert_eq!(count(&caller).await, 1, "{garbage}");
            mount.result(&caller, json!({ "tool_id": "crib.open" })).await;
            // A key in addition still identifies its caller.
            assert_eq!(count(&caller.with("x-api-key", key)).await, 7, "{garbage}");
        }
        assert_eq!(count(&nobody.with("otc-api-key", "junk").with("oxp-api-key", key)).await, 7);
        let second = gw.principal("second", ["files:read"]).await;
        let two = reader.with("x-api-key", second.key().unwrap());
        assert_eq!(two.get(&mount.path("/tools")).await.status, 401, "two callers are none");
    }
    // On other surfaces an invalid key is rejected.
    assert_eq!(gw.bearer("garbage").get("/explorer/tools").await.status, 401);
}

/// Check 19: `context` is optional; the required scopes are those of the key, and a caller without
/// them is rejected before the tool runs.
#[tokio::test]
async fn required_scopes_are_declared_and_enforced() {
    let (gw, reader) = started().await;
    for mount in BOTH {
        let tools = mount.list(&reader).await;
        let of = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
        assert_eq!(of("crib__read")["requirements"], json!({ "scopes": ["files:read"] }));
        assert_eq!(of("crib__open").get("requirements"), None);
        let request = json!({ "tool_id": "crib.write", "context": { "authorization": [
            { "id": "files", "token": "canary" },
        ] } });
        let body = mount.refused(&reader, request, 403).await;
        assert_eq!(body["details"]["requiredScopes"], json!(["files:write"]));
        assert!(!body.to_string().contains("canary"));
    }
    assert_eq!(gw.runs("crib", "write"), 0);
    let told = format!("{:?}", gw.events().await);
    assert!(!told.contains("canary"), "context is not recorded");
}

/// Check 20: developer details are not in the message for users.
#[tokio::test]
async fn every_error_says_its_version_and_keeps_the_two_messages_apart() {
    let (gw, reader) = started().await;
    for mount in BOTH {
        let nothing = mount.path("/tools/call");
        for (reply, status) in [
            (gw.anonymous().get(&mount.path("/tools")).await, 401),
            (reader.post_text(&nothing, "{").await, 400),
            (mount.call(&reader, json!({ "tool_id": "crib.write" })).await, 403),
            (mount.call(&reader, json!({ "tool_id": "crib.down" })).await, 400),
            (mount.call(&reader, json!({ "tool_id": "no.such" })).await, 400),
            (reader.get(&nothing).await, 405),
            (reader.with("origin", "http://evil.example").get(&mount.path("/tools")).await, 403),
        ] {
            let body = answers(&reply, status);
            assert_eq!(body["$schema"], mount.marker);
            if let Some(developers) = body.get("developer_message") {
                let message = body["message"].as_str().unwrap();
                assert!(!message.contains(developers.as_str().unwrap()), "{body}");
            }
        }
        // An error response also uses the caller's family, where it is known.
        let body = json!({ "$schema": mount.other, "request": { "tool_id": "no.such" } });
        let refused = answers(&reader.post(&nothing, body).await, 400);
        assert_eq!(refused["$schema"], mount.other);
        let body = json!({ "$schema": mount.other, "request": { "tool_id": "crib.read" } });
        let refused = answers(&reader.post(&nothing, body).await, 422);
        assert_eq!(refused["$schema"], mount.other);
    }
}

/// Check 21.
#[tokio::test]
async fn the_media_type_of_a_call_is_ignored() {
    let (_gw, reader) = started().await;
    let body = r#"{"request":{"tool_id":"crib.open"}}"#;
    for mount in BOTH {
        let path = mount.path("/tools/call");
        answers(&reader.post_text(&path, body).await, 200);
        for odd in ["text/plain", "application/x-www-form-urlencoded", "nonsense"] {
            let caller = reader.with("content-type", odd);
            answers(&caller.post_text(&path, body).await, 200);
        }
    }
}

/// Check 22: requests as the published clients send them. (The clients themselves run in the client
/// tests.)
#[tokio::test]
async fn requests_as_the_published_clients_write_them() {
    let (_gw, reader) = started().await;
    // universal-tool-client: the tool by its name, no arguments when there are none.
    let universal = json!({ "$schema": "otc://1.0", "request": { "tool_id": "crib__open" } });
    for mount in BOTH {
        let body = answers(&reader.post(&mount.path("/tools/call"), universal.clone()).await, 200);
        assert_eq!(body["$schema"], "otc://1.0");
    }
    // oxp: `$schema` last, all other members in the request.
    let oxp = r#"{"request":{"tool_id":"crib.open@1.0.0","input":{"msg":"hi"},"call_id":"c1",
        "trace_id":"t1","context":{"user_id":"u"}},"$schema":"otc://1.0"}"#;
    let reply = reader.with("x-stainless-retry-count", "0").post_text("/oxp/tools/call", oxp).await;
    assert_eq!(answers(&reply, 200)["result"]["call_id"], "c1");
    // open-tool-client uses an unsupported protocol: a 400, and no tool runs.
    for mount in BOTH {
        let open = json!({ "name": "crib__open", "args": {} });
        answers(&reader.post(&mount.path("/tools/call"), open).await, 400);
    }
}

/// Check 23.
#[tokio::test]
async fn oxp_says_its_version_in_a_header_and_takes_no_other() {
    let (gw, reader) = started().await;
    let call = json!({ "tool_id": "crib.open" });
    for (reply, status) in [
        (gw.anonymous().get("/oxp/health").await, 200),
        (gw.anonymous().get("/oxp/tools").await, 401),
        (reader.get("/oxp/tools").await, 200),
        (reader.post("/oxp/tools/call", call.clone()).await, 200),
        (reader.post("/oxp/tools/call", json!({})).await, 400),
        (reader.post("/oxp/tools", json!({})).await, 405),
        (reader.get("/oxp/none").await, 404),
        (reader.get("/oxp").await, 404),
        (reader.with("origin", "http://evil.example").get("/oxp/tools").await, 403),
    ] {
        assert_eq!((reply.status, reply.header("oxp-version")), (status, "1.0"));
    }
    for good in ["1.0", "1.0.0"] {
        let caller = reader.with("oxp-version", good);
        assert_eq!(caller.get("/oxp/tools").await.status, 200, "{good}");
    }
    for bad in ["9.0", "1", "2.0.0", ""] {
        let caller = reader.with("oxp-version", bad);
        for reply in [
            caller.get("/oxp/health").await,
            caller.get("/oxp/tools").await,
            caller.post("/oxp/tools/call", call.clone()).await,
        ] {
            assert_eq!(reply.header("oxp-version"), "1.0");
            answers(&reply, 400);
        }
        // Open Tool Calling has no such header.
        assert_eq!(caller.get("/tools").await.status, 200);
    }
    assert_eq!(gw.runs("crib", "open"), 1);
}
