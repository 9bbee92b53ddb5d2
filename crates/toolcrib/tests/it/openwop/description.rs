//! `openapi.json` matches the server: the parameters, their values, and the forms of responses.

use http::Method;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway, TestTool};

use crate::support::fixture;

/// One described operation under `/v1`.
struct Operation {
    method: Method,
    path: String,
    parameters: Vec<Value>,
}

impl Operation {
    /// Returns its query parameters with their schemas.
    fn query(&self) -> Vec<(&str, &Value)> {
        let query = self.parameters.iter().filter(|it| it["in"] == "query");
        query.map(|it| (it["name"].as_str().unwrap(), &it["schema"])).collect()
    }

    async fn ask(&self, caller: &Actor, query: &str) -> Reply {
        let path = self.path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let path = path.collect::<Vec<_>>().join("/");
        let body = matches!(self.method, Method::POST).then(|| "{}".to_owned().into());
        caller.send(self.method.clone(), &format!("{path}?{query}"), body).await
    }
}

async fn operations(caller: &Actor) -> (Vec<Operation>, Value) {
    let document = caller.get("/v1/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap().iter();
    let described = paths.filter(|(path, _)| path.starts_with("/v1/")).flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(|(method, operation)| Operation {
            method: method.to_uppercase().parse().unwrap(),
            path: path.clone(),
            parameters: operation["parameters"].as_array().cloned().unwrap_or_default(),
        })
    });
    (described.collect(), document)
}

/// Returns the schema of a value, with references resolved.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return document.pointer(reference.trim_start_matches('#')).unwrap();
    }
    let forms = schema["oneOf"].as_array().into_iter().flatten();
    let mut forms = forms.filter(|form| form["type"] != "null");
    forms.next().map_or(schema, |form| resolved(document, form))
}

/// Every route rejects unknown parameters and lists the known ones. Callers without a key do not
/// see that list.
#[tokio::test]
async fn unknown_parameters_are_refused_on_every_route() {
    let gw = fixture().start().await;
    let (admin, nobody) =
        (gw.principal("admin", ["*", "pins:approve", "metrics:all"]).await, gw.anonymous());
    let (operations, _) = operations(&admin).await;
    assert!(operations.len() > 20, "{}", operations.len());
    for operation in &operations {
        let what = format!("{} {}", operation.method, operation.path);
        let known: Vec<&str> = operation.query().into_iter().map(|(name, _)| name).collect();
        for query in ["limits=3", "%6cimits=3", "limits", "limits=1&view=compact"] {
            let reply = operation.ask(&admin, query).await;
            assert_eq!(reply.status, 400, "{what}?{query}: {}", reply.text());
            let told = reply.json();
            assert_eq!(told["error"], "validation_error", "{what}");
            assert_eq!(told["details"]["legal"], json!(known), "{what}");
            assert!(!told.to_string().contains("limits"), "{what}: {told}");
        }
        if operation.path != "/v1/openapi.json" {
            assert_eq!(operation.ask(&nobody, "limits=3").await.status, 401, "{what}");
        }
    }
    assert_eq!(admin.get("/v1/nothing?limits=3").await.status, 404);
    assert_eq!(admin.get("/v1/tools?").await.status, 200);
    assert_eq!(admin.get("/v1/tools?&view=standard").await.status, 200);
}

/// Values excluded by the schema get a 400, others do not.
#[tokio::test]
async fn parameters_take_the_values_that_are_described() {
    let gw = fixture().start().await;
    let admin = gw.principal("admin", ["*", "pins:approve", "metrics:all"]).await;
    let (operations, document) = operations(&admin).await;
    let mut looked_at = 0;
    for operation in operations.iter().filter(|it| it.method == Method::GET) {
        for (name, schema) in operation.query() {
            let schema = resolved(&document, schema);
            let mut good: Vec<String> = Vec::new();
            let mut bad: Vec<String> = Vec::new();
            if schema["type"] == "integer" {
                let (least, most) = (&schema["minimum"], &schema["maximum"]);
                good.extend([least.to_string(), most.to_string()]);
                let below = least.as_i64().unwrap() - 1;
                let above = most.as_u64().unwrap() + 1;
                bad.extend([below.to_string(), above.to_string()]);
                bad.extend(["abc", "", "1.0", "%2B5", "1e1", "null"].map(str::to_owned));
            }
            for word in schema["enum"].as_array().into_iter().flatten() {
                good.push(word.as_str().unwrap().to_owned());
                bad.push(word.as_str().unwrap().to_uppercase());
            }
            if let Some(most) = schema["maxLength"].as_u64() {
                good.push("x".repeat(usize::try_from(most).unwrap()));
                bad.push("x".repeat(usize::try_from(most).unwrap() + 1));
                bad.push(String::new());
            }
            if schema["pattern"].is_string() {
                bad.extend(["", "a%20b", "%C3%BC"].map(str::to_owned));
            }
            let what = format!("{} {name}", operation.path);
            for value in good {
                let reply = operation.ask(&admin, &format!("{name}={value}")).await;
                assert_ne!(reply.status, 400, "{what}={value}: {}", reply.text());
            }
            looked_at += usize::from(!bad.is_empty());
            for value in bad {
                let reply = operation.ask(&admin, &format!("{name}={value}")).await;
                assert_eq!(reply.status, 400, "{what}={value}: {}", reply.text());
            }
        }
    }
    assert!(looked_at >= 14, "{looked_at}");
}

/// A validating client accepts each form of a tool and of the list.
#[tokio::test]
async fn answers_have_the_forms_that_are_described() {
    let combined =
        json!({ "anyOf": [{ "type": "object" }, { "type": "object", "maxProperties": 3 }] });
    let tool = TestTool::new("read").scopes(["files:read"]).input(combined);
    let gw = TestGateway::builder().tool(tool).start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let document = reader.get("/v1/openapi.json").await.json();
    for (route, path) in [
        ("/v1/tools", "/v1/tools"),
        ("/v1/tools", "/v1/tools?view=compact"),
        ("/v1/tools/{toolId}", "/v1/tools/mcp%3Acrib.read"),
        ("/v1/tools/{toolId}", "/v1/tools/mcp%3Acrib.read?view=compact"),
    ] {
        let ok = &document["paths"][route]["get"]["responses"]["200"]["content"];
        let mut schema = ok["application/json"]["schema"].clone();
        schema["components"] = document["components"].clone();
        let schema = jsonschema::validator_for(&schema).unwrap();
        let reply = reader.get(path).await;
        assert_eq!(reply.header("content-type"), "application/json");
        let errors: Vec<String> =
            schema.iter_errors(&reply.json()).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{path}: {errors:?}");
        assert!(!schema.is_valid(&json!({ "toolId": 1 })), "{route}");
        assert!(!schema.is_valid(&json!([{ "toolId": 1 }])), "{route}");
    }
}

/// The bodies of `/v1/keys` are parsed as described.
#[tokio::test]
async fn bodies_of_keys_match_their_description() {
    let gw = fixture().start().await;
    let admin = gw.principal("admin", ["*", "pins:approve", "metrics:all"]).await;
    let document = admin.get("/v1/openapi.json").await.json();
    let body = &document["paths"]["/v1/keys"]["post"]["requestBody"]["content"];
    let mut schema = body["application/json"]["schema"].clone();
    schema["components"] = document["components"].clone();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let long = "x".repeat(129);
    let many = vec!["a"; 101];
    for (body, legal) in [
        (json!({ "name": "one", "scopes": ["a:*"] }), true),
        (json!({ "name": "tw\u{f6} b", "principal": "two", "scopes": ["*"] }), true),
        (json!({ "name": "three", "scopes": ["a"], "roles": null, "expiresAt": null }), true),
        (json!({ "name": "four", "scopes": ["a"], "expiresAt": "2099-01-01T00:00:00Z" }), true),
        (json!({ "scopes": ["a"] }), false),
        (json!({ "name": "", "scopes": ["a"] }), false),
        (json!({ "name": " n", "scopes": ["a"] }), false),
        (json!({ "name": "a\nb", "scopes": ["a"] }), false),
        (json!({ "name": long, "scopes": ["a"] }), false),
        (json!({ "name": 1, "scopes": ["a"] }), false),
        (json!({ "name": "n", "scopes": ["a b"] }), false),
        (json!({ "name": "n", "scopes": [""] }), false),
        (json!({ "name": "n", "scopes": many }), false),
        (json!({ "name": "n", "scopes": "a" }), false),
        (json!({ "name": "n", "scopes": ["a"], "roles": [1] }), false),
        (json!({ "name": "n", "scopes": ["a"], "principal": "a|b" }), false),
        (json!({ "name": "n", "scopes": ["a"], "principal": "a b" }), false),
        (json!({ "name": "n", "scopes": ["a"], "tenant": "acme" }), false),
        (json!([]), false),
    ] {
        assert_eq!(schema.is_valid(&body), legal, "described: {body}");
        let reply = admin.post("/v1/keys", body.clone()).await;
        assert_eq!(reply.status, if legal { 201 } else { 400 }, "{body}: {}", reply.text());
    }
}

/// A body for an approval is bounded like every other body, and rejected in the same form.
#[tokio::test]
async fn answers_to_approvals_are_bounded() {
    let gw = fixture().config("[server]\nmax_body = \"4KiB\"").start().await;
    let bob = gw.principal("bob", ["approvals:respond"]).await;
    let long = json!({ "verdict": "grant", "comment": "x".repeat(5_000) });
    let reply = bob.post("/v1/approvals/some", long).await;
    let told = reply.json();
    assert_eq!((reply.status, &told["error"]), (413, &json!("validation_error")), "{told}");
    assert_eq!(told["details"]["maxRequestBodyBytes"], 4_096);
    assert_eq!(reply.header("content-type"), "application/json");
    // A truncated body.
    let head = "POST /v1/approvals/some HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n";
    let key = bob.key().unwrap();
    let broken = format!(
        "{head}authorization: Bearer {key}\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n"
    );
    let answer = gw.raw(broken).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let told: Value =
        serde_json::from_str(&body[body.find('{').unwrap()..=body.rfind('}').unwrap()]).unwrap();
    assert_eq!(told["error"], "validation_error", "{answer}");
    // Another parser could read a duplicate member differently.
    let twice =
        bob.post_text("/v1/approvals/some", r#"{"verdict":"reject","verdict":"grant"}"#).await;
    assert_eq!(twice.status, 404, "the existence of the approval is checked first");
}
