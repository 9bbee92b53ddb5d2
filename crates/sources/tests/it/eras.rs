//! Both eras over both transports, against both kinds of peers.

use serde_json::{Value, json};
use toolcrib_testkit::upstream::{
    Answers, FaultyHttp,
    good::{Eras, GoodHttp},
};

use crate::rig::{Rig, text};

#[tokio::test]
async fn the_official_sdk_over_http_speaks_every_era_with_us() {
    for (eras, version) in
        [(Eras::Both, "2026-07-28"), (Eras::Modern, "2026-07-28"), (Eras::Legacy, "2025-11-25")]
    {
        let server = GoodHttp::start(eras);
        let rig = Rig::http(&server.url());
        works(&rig, version).await;
    }
}

#[tokio::test]
async fn the_official_sdk_over_stdio_speaks_with_us() {
    works(&Rig::faulty(&["rmcp"]), "2026-07-28").await;
}

async fn works(rig: &Rig, version: &str) {
    let status = rig.ready().await;
    assert_eq!(status.detail.unwrap(), format!("connected, MCP {version}"));
    let discovered = rig.discover().await;
    assert_eq!(discovered.version.as_deref(), Some("4.5.6"), "{version}");
    assert_eq!(discovered.problems, [""; 0], "{version}");
    let names: Vec<_> = discovered.offers.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["echo", "add", "progress", "slow", "region"], "{version}");
    let echoed = rig.call("echo", json!({ "text": "héllo" })).await;
    assert_eq!(text(&echoed), r#"{"text":"héllo"}"#, "{version}");
    let sum = rig.call("add", json!({ "a": 2, "b": 3 })).await;
    assert_eq!(sum.structured.unwrap().get(), r#"{"sum":5}"#, "{version}");
    let unknown = rig.call("nothing", json!({})).await;
    assert!(unknown.is_error && text(&unknown).contains("unknown tool"), "{version}");
    rig.source.close().await;
}

#[tokio::test]
async fn every_kind_of_stdio_server_is_understood() {
    for (era, version) in [
        ("both", "2026-07-28"),
        ("modern", "2026-07-28"),
        // Rejects the version of the first request, although it supports it.
        ("shy", "2026-07-28"),
        ("legacy", "2025-11-25"),
        // Responds to unknown methods with an empty result.
        ("sloppy", "2025-11-25"),
        // Exits when the first message is not the handshake.
        ("strict", "2025-11-25"),
        // Never responds to unknown methods.
        ("deaf", "2025-11-25"),
    ] {
        let rig = Rig::faulty(&[&format!("era={era}")]);
        let status = rig.ready().await;
        assert_eq!(status.detail.unwrap(), format!("connected, MCP {version}"), "{era}");
        assert_eq!(rig.discover().await.version.as_deref(), Some("1.2.3"), "{era}");
        assert_eq!(text(&rig.call("echo", json!({ "a": 1 })).await), r#"{"a":1}"#, "{era}");
    }
}

#[tokio::test]
async fn every_kind_of_http_server_is_understood() {
    for era in ["both", "modern", "shy", "legacy", "sloppy"] {
        for answers in [Answers::Json, Answers::Events, Answers::Splinters] {
            let server = FaultyHttp::start(answers, &[&format!("era={era}")]);
            let rig = Rig::http(&server.url());
            rig.ready().await;
            let echoed = rig.call("echo", json!({ "a": 1 })).await;
            assert_eq!(text(&echoed), r#"{"a":1}"#, "{era} {answers:?}");
        }
    }
}

// The result type is missing in one era and required in the other, and one of them adds `_meta`.
// The outcome for the caller is the same.
#[tokio::test]
async fn the_same_call_has_the_same_outcome_in_every_era() {
    let mut outcomes = Vec::new();
    for era in ["era=modern", "era=legacy"] {
        let stdio = Rig::faulty(&[era]);
        let server = FaultyHttp::start(Answers::Events, &[era]);
        let http = Rig::http(&server.url());
        for rig in [&stdio, &http] {
            let outcome = rig.call("add", json!({ "a": 2, "b": 3 })).await;
            let structured = outcome.structured.as_ref().map(|raw| raw.get().to_owned());
            outcomes.push((outcome.content.get().to_owned(), structured, outcome.is_error));
        }
    }
    let first = outcomes.first().unwrap().clone();
    assert!(outcomes.iter().all(|outcome| *outcome == first), "{outcomes:?}");
    // Key order and numbers are those of the upstream.
    assert_eq!(first.1.unwrap(), r#"{"z":1.0,"sum":5,"big":12345678901234567890}"#);
}

#[tokio::test]
async fn modern_requests_say_in_headers_and_meta_what_they_must() {
    let server = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let rig = Rig::http_with(&server.url(), &[("x-team", "crib")], Default::default());
    rig.ready().await;
    let schema = json!({ "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" } } });
    let mut invocation = crate::rig::invocation(json!({ "region": "Zürich" }));
    invocation.meta.insert("traceparent".to_owned(), json!("00-1-2-01"));
    invocation.meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), json!("forged"));
    rig.invoke("region", Some(schema), invocation).await.unwrap();
    let received = server.received_method("tools/call").pop().unwrap();
    let header = |name: &str| received.headers.get(name).map(String::as_str);
    assert_eq!(header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(header("mcp-method"), Some("tools/call"));
    assert_eq!(header("mcp-name"), Some("region"));
    assert_eq!(header("mcp-param-region"), Some("=?base64?WsO8cmljaA==?="));
    assert_eq!(header("x-team"), Some("crib"));
    assert_eq!(header("mcp-session-id"), None);
    let meta = &received.body["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "toolcrib");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_eq!(meta["progressToken"], received.body["id"]);
    assert_eq!(meta["traceparent"], "00-1-2-01");
}

#[tokio::test]
async fn the_sdk_accepts_the_headers_that_repeat_arguments() {
    let server = GoodHttp::start(Eras::Modern);
    let rig = Rig::http(&server.url());
    let tools = rig.discover().await.offers;
    let region = tools.into_iter().find(|tool| tool.name == "region").unwrap();
    for place in ["eu-west", "Zürich", " edge "] {
        let invocation = crate::rig::invocation(json!({ "region": place }));
        let outcome = rig.invoke("region", region.input_schema.clone(), invocation).await.unwrap();
        assert_eq!(text(&outcome), json!({ "region": place }).to_string());
    }
}

#[tokio::test]
async fn legacy_requests_name_their_session_and_version() {
    let server = FaultyHttp::start(Answers::Events, &["era=legacy"]);
    let rig = Rig::http(&server.url());
    rig.call("echo", json!({})).await;
    let handshake = server.received_method("initialize").pop().unwrap();
    assert_eq!(handshake.body["params"]["capabilities"], json!({}));
    assert!(!handshake.headers.contains_key("mcp-protocol-version"));
    assert_eq!(server.received_method("notifications/initialized").len(), 1);
    let call = server.received_method("tools/call").pop().unwrap();
    assert_eq!(call.headers["mcp-session-id"], "session-0");
    assert_eq!(call.headers["mcp-protocol-version"], "2025-11-25");
    assert!(!call.headers.contains_key("mcp-method"));
    assert_eq!(
        call.body["params"]["_meta"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["progressToken"]
    );
    rig.source.close().await;
    let last = server.received().pop().unwrap();
    assert_eq!((last.verb.as_str(), &last.body), ("DELETE", &Value::Null));
}
