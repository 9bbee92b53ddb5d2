//! Both generations of OpenWOP against a real gateway, and against hosts that do not speak v2.
#![cfg(test)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use toolcrib_client::{Client, Error, Generation, Refusal, Secret, SourceKind, Version};
use toolcrib_conformance::broken::{BrokenHost, KEY};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestTool};

const V1_0: Version = Version { major: 1, minor: 0 };
const V2_0: Version = Version { major: 2, minor: 0 };

/// Ids that no host has, or that addresses and paths would change.
const ODD_IDS: [&str; 12] = [
    "",
    ".",
    "..",
    "call",
    "mcp:crib.read/",
    "../tools",
    "a%2Fb",
    "%",
    "?view=compact",
    "#",
    "ä\u{7f}\n",
    "mcp:crib.write",
];

/// A gateway with `[openwop] v2 = mode` and the tools `open`, `read` and, for others, `write`.
async fn gateway(mode: &str) -> TestGateway {
    let schema = json!({
        "type": "object",
        "properties": { "path": { "type": "string" } },
        "required": ["path"],
        "additionalProperties": false,
    });
    TestGateway::builder()
        .config(&format!("[openwop]\nv2 = \"{mode}\""))
        .tool(TestTool::new("open").scopes([]).tier("pure"))
        .tool(TestTool::new("read").scopes(["files:read"]).tier("read").input(schema))
        .tool(TestTool::new("remove").scopes(["files:read"]).tier("write"))
        .tool(TestTool::new("write").scopes(["files:write"]).tier("write"))
        .start()
        .await
}

fn client(url: &str, key: Option<&str>, generation: Generation) -> Client {
    let key = key.map(|key| Secret::new(key.to_owned()));
    Client::new(url, key).unwrap().with_generation(generation)
}

fn second(gw: &TestGateway, caller: &Actor) -> Client {
    client(&gw.url, caller.key(), Generation::V2)
}

/// Requests the tools in every form that v2 has, and returns the errors.
async fn errors_of_all_forms(client: &Client) -> [Error; 6] {
    let tools = client.tools();
    [
        tools.list().await.unwrap_err(),
        tools.list_annotated().await.unwrap_err(),
        tools.list_compact().await.unwrap_err(),
        tools.get("mcp:crib.read").await.unwrap_err(),
        tools.get_annotated("mcp:crib.read").await.unwrap_err(),
        tools.get_compact("mcp:crib.read").await.unwrap_err(),
    ]
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::Refused(refusal) => *refusal,
        error => panic!("{error}"),
    }
}

// === A real gateway ===

#[tokio::test]
async fn both_generations_have_the_same_tools() {
    for mode in ["header", "root"] {
        let gw = gateway(mode).await;
        let caller = gw.principal("reader", ["files:read"]).await;
        let first = client(&gw.url, caller.key(), Generation::V1);
        let second = second(&gw, &caller);
        let tools = second.tools().list().await.unwrap().unwrap();
        let ids: Vec<&str> = tools.iter().map(|tool| tool.tool_id.as_str()).collect();
        assert_eq!(ids, ["mcp:crib.open", "mcp:crib.read", "mcp:crib.remove"], "{mode}");
        assert_eq!(first.tools().list().await.unwrap().unwrap(), tools, "{mode}");
        for tool in &tools {
            let id = tool.tool_id.as_str();
            assert_eq!(second.tools().get(id).await.unwrap().as_ref(), Some(tool), "{mode} {id}");
        }
        let compact = second.tools().list_compact().await.unwrap().unwrap();
        let compact_ids: Vec<&str> = compact.iter().map(|tool| tool.tool_id.as_str()).collect();
        assert_eq!(compact_ids, ids, "{mode}");
        let read = second.tools().get_compact("mcp:crib.read").await.unwrap();
        assert_eq!(read.as_ref(), compact.get(1), "{mode}");
        let schema = Value::Object(read.unwrap().input_schema.unwrap());
        let properties = json!({ "path": { "type": "string" } });
        assert_eq!(schema, json!({ "type": "object", "properties": properties }), "{mode}");
    }
}

#[tokio::test]
async fn both_generations_filter_by_the_kind_of_source() {
    let gw = gateway("header").await;
    let caller = gw.principal("reader", ["files:read"]).await;
    for generation in Generation::ALL {
        let client = client(&gw.url, caller.key(), generation);
        for (kind, count) in [(SourceKind::Mcp, 3), (SourceKind::Workflow, 0)] {
            let tools = client.tools().of(kind).list().await.unwrap().unwrap();
            assert_eq!(tools.len(), count, "{generation} {kind}");
            let tools = client.tools().of(kind).list_compact().await.unwrap().unwrap();
            assert_eq!(tools.len(), count, "{generation} {kind}");
        }
    }
}

#[tokio::test]
async fn unknown_and_hidden_tools_are_none() {
    for mode in ["header", "root"] {
        let gw = gateway(mode).await;
        let caller = gw.principal("reader", ["files:read"]).await;
        for generation in Generation::ALL {
            let client = client(&gw.url, caller.key(), generation);
            for id in ODD_IDS {
                let tools = client.tools();
                assert_eq!(tools.get(id).await.unwrap(), None, "{mode} {generation} {id:?}");
                assert_eq!(
                    tools.get_compact(id).await.unwrap(),
                    None,
                    "{mode} {generation} {id:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_second_generation_has_hints() {
    let gw = gateway("header").await;
    let caller = gw.principal("reader", ["files:read"]).await;
    let client = second(&gw, &caller);
    let annotated = client.tools().list_annotated().await.unwrap().unwrap();
    let hints: Vec<_> = annotated
        .iter()
        .map(|it| {
            let hints = it.annotations.unwrap();
            (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
        })
        .collect();
    // `pure`, `read` and `write`.
    assert_eq!(hints[0..2].iter().map(|it| (it.0, it.1)).collect::<Vec<_>>(), [(true, false); 2]);
    assert_eq!(hints[2], (false, true, false));
    assert!(annotated[1].annotations.unwrap().open_world_hint);
    for one in &annotated {
        let found = client.tools().get_annotated(&one.tool.tool_id).await.unwrap();
        assert_eq!(found.as_ref(), Some(one));
    }
    assert_eq!(client.tools().get_annotated("mcp:crib.write").await.unwrap(), None);
    let plain: Vec<_> = annotated.into_iter().map(|it| it.tool).collect();
    assert_eq!(client.tools().list().await.unwrap().unwrap(), plain);
}

#[tokio::test]
async fn a_missing_and_a_wrong_key_are_refusals() {
    for mode in ["header", "root"] {
        let gw = gateway(mode).await;
        for key in [None, Some("tc_junk")] {
            for generation in Generation::ALL {
                let tools = client(&gw.url, key, generation);
                let listed = refusal(tools.tools().list().await.unwrap_err());
                let single = refusal(tools.tools().get("mcp:crib.read").await.unwrap_err());
                for refusal in [listed, single] {
                    let parts = (refusal.status, refusal.code.as_str(), refusal.retry_after);
                    assert_eq!(parts, (401, "unauthenticated", None), "{mode} {generation}");
                    assert!(!refusal.message.is_empty());
                }
            }
        }
    }
}

#[tokio::test]
async fn a_gateway_without_the_second_generation_says_so() {
    let gw = gateway("off").await;
    let caller = gw.principal("reader", ["files:read"]).await;
    for key in [caller.key(), None] {
        for error in errors_of_all_forms(&client(&gw.url, key, Generation::V2)).await {
            let Error::VersionUnsupported { requested, listed } = error else { panic!("{error}") };
            assert_eq!((requested, listed), (Generation::V2, vec![V1_0]));
        }
    }
    let first = client(&gw.url, caller.key(), Generation::V1);
    assert_eq!(first.tools().list().await.unwrap().unwrap().len(), 3);
}

#[tokio::test]
async fn the_newest_shared_generation_is_negotiated() {
    for (mode, generation, listed) in [
        ("header", Generation::V2, vec![V1_0, V2_0]),
        ("root", Generation::V2, vec![V1_0, V2_0]),
        ("off", Generation::V1, vec![V1_0]),
    ] {
        let gw = gateway(mode).await;
        let caller = gw.principal("reader", ["files:read"]).await;
        for before in Generation::ALL {
            let client = client(&gw.url, caller.key(), before);
            let versions = client.versions().await.unwrap();
            assert_eq!((&versions.listed, versions.preferred), (&listed, Some(V1_0)), "{mode}");
            let client = client.negotiate().await.unwrap();
            assert_eq!(client.generation(), generation, "{mode}");
            assert_eq!(client.tools().list().await.unwrap().unwrap().len(), 3, "{mode}");
        }
        // Discovery requires no key.
        let stranger = client(&gw.url, Some("tc_junk"), Generation::V1).negotiate().await.unwrap();
        assert_eq!(stranger.generation(), generation, "{mode}");
    }
}

// === Other hosts ===

#[tokio::test]
async fn hosts_of_other_protocols_are_recognized() {
    // Their `GET /tools` is an object with `tools`, like a list of v1.
    let host = BrokenHost::otc(false, None).await;
    let client = client(&host.url, Some(KEY), Generation::V2);
    for error in errors_of_all_forms(&client).await {
        assert!(matches!(error, Error::VersionIgnored { answered: None, .. }), "{error}");
    }
    assert!(matches!(client.versions().await, Err(Error::NoDiscovery)));
    assert!(matches!(client.negotiate().await, Err(Error::NoDiscovery)));
}

#[tokio::test]
async fn a_host_of_the_first_generation_alone_is_recognized() {
    let host = BrokenHost::openwop(None).await;
    let client = client(&host.url, Some(KEY), Generation::V2);
    // Its 404 is no statement about a tool.
    for error in errors_of_all_forms(&client).await {
        assert!(matches!(error, Error::VersionIgnored { answered: None, .. }), "{error}");
    }
    // It lists no versions, only the one that it has.
    let client = client.negotiate().await.unwrap();
    assert_eq!(client.generation(), Generation::V1);
    assert_eq!(client.tools().list().await.unwrap().unwrap().len(), 3);
}

/// A server that gives every request the same response, and keeps the heads of the requests.
struct Canned {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Canned {
    async fn start(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "HTTP/1.1 {status} Status\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
            body.len()
        );
        let response: Arc<[u8]> = [head.into_bytes(), body].concat().into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = request_head(&mut stream).await;
                kept.lock().unwrap().push(head);
                // A client that has seen enough hangs up.
                stream.write_all(&response).await.ok();
            }
        });
        Self { url, requests, server }
    }

    async fn json(status: u16, headers: &[(&str, &str)], body: Value) -> Self {
        Self::start(status, headers, body.to_string()).await
    }

    fn client(&self, generation: Generation) -> Client {
        client(&self.url, Some("key"), generation)
    }

    /// Returns the heads of the requests so far, in lower case.
    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Canned {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn request_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

fn tools() -> Value {
    json!([{ "toolId": "mcp:a.b", "source": "mcp", "safetyTier": "read" }])
}

#[tokio::test]
async fn a_response_counts_only_with_its_version() {
    // `tools` is a correct list, so only the header differs.
    for (headers, answered) in [
        (&[][..], None),
        (&[("openwop-version", "1.0")], Some(V1_0)),
        (&[("openwop-version", "3.1")], Some(Version { major: 3, minor: 1 })),
        (&[("openwop-version", "two")], None),
        (&[("openwop-version", "2.0"), ("openwop-version", "2.0")], None),
    ] {
        for (status, body) in [(200, tools()), (200, json!([])), (404, json!({}))] {
            let host = Canned::json(status, headers, body).await;
            for error in errors_of_all_forms(&host.client(Generation::V2)).await {
                let Error::VersionIgnored { requested, answered: version } = error else {
                    panic!("{headers:?} {status}: {error}")
                };
                assert_eq!((requested, version), (Generation::V2, answered), "{headers:?}");
            }
        }
    }
    let host = Canned::json(200, &[("openwop-version", "2.3")], tools()).await;
    let client = host.client(Generation::V2);
    assert_eq!(client.tools().list().await.unwrap().unwrap().len(), 1);
    // The hints are optional.
    let annotated = client.tools().list_annotated().await.unwrap().unwrap();
    assert_eq!(annotated[0].annotations, None);
    let host = Canned::json(404, &[("openwop-version", "2.0")], json!({})).await;
    assert!(host.client(Generation::V2).tools().list().await.unwrap().is_none());
}

#[tokio::test]
async fn other_bodies_are_errors() {
    let version = [("openwop-version", "2.0")];
    for body in ["", "<html>", "{}", "null", "{\"tools\":1}", "[1]", "[{}]"] {
        let host = Canned::start(200, &version, body).await;
        let error = host.client(Generation::V2).tools().list().await.unwrap_err();
        let is_expected =
            matches!(error, Error::NotJson | Error::NotAList | Error::NotADescriptor { .. });
        assert!(is_expected, "{body}: {error}");
    }
}

#[tokio::test]
async fn responses_are_bounded_in_both_generations() {
    let body = vec![b' '; (64 << 20) + 1];
    let host = Canned::start(200, &[("openwop-version", "2.0")], body.clone()).await;
    for generation in Generation::ALL {
        let error = host.client(generation).tools().list().await.unwrap_err();
        assert!(matches!(error, Error::TooLarge), "{generation}: {error}");
    }
    assert!(matches!(host.client(Generation::V2).versions().await, Err(Error::TooLarge)));
    // The body of a foreign response is not read.
    let host = Canned::start(200, &[], body).await;
    let error = host.client(Generation::V2).tools().list().await.unwrap_err();
    assert!(matches!(error, Error::VersionIgnored { .. }), "{error}");
}

#[tokio::test]
async fn every_request_names_its_version() {
    let host = Canned::json(404, &[("openwop-version", "2.0")], json!({})).await;
    let second = host.client(Generation::V2);
    assert!(second.tools().of(SourceKind::Mcp).list().await.unwrap().is_none());
    assert!(second.tools().list_annotated().await.unwrap().is_none());
    assert!(second.tools().list_compact().await.unwrap().is_none());
    assert!(second.tools().get("mcp:a.b/ä").await.unwrap().is_none());
    assert!(second.tools().get_compact("call").await.unwrap().is_none());
    assert!(host.client(Generation::V1).tools().list().await.unwrap().is_none());
    assert!(second.versions().await.is_err());
    let requests = host.requests();
    let lines: Vec<&str> = requests.iter().map(|head| head.lines().next().unwrap()).collect();
    let paths = [
        "/tools",
        "/tools",
        "/tools?view=compact",
        "/tools/mcp%3aa.b%2f%c3%a4",
        "/tools/call?view=compact",
        "/v1/tools",
        "/.well-known/openwop",
    ];
    assert_eq!(lines, paths.map(|path| format!("get {path} http/1.1")));
    for (index, head) in requests.iter().enumerate() {
        assert_eq!(head.contains("\r\nopenwop-version: 2.0\r\n"), index < 5, "{head}");
        // Discovery is public, so the key stays here.
        assert_eq!(head.contains("\r\nauthorization: bearer key\r\n"), index < 6, "{head}");
    }
}

#[tokio::test]
async fn a_refusal_says_when_to_try_again() {
    let version = ("openwop-version", "2.0");
    let after = ("retry-after", "2");
    let body =
        |details: Value| json!({ "error": "rate_limited", "message": "m", "details": details });
    let millis = body(json!({ "retryAfterMs": 1500 }));
    let (exact, whole) = (Duration::from_millis(1500), Duration::from_secs(2));
    for (generation, headers, body, wait) in [
        (Generation::V1, &[after][..], millis.clone(), Some(exact)),
        (Generation::V1, &[after], body(Value::Null), Some(whole)),
        (Generation::V1, &[], json!("plain"), None),
        // Details are forbidden there, so they mean nothing.
        (Generation::V2, &[version, after], millis.clone(), Some(whole)),
        (Generation::V2, &[version], millis, None),
        // A proxy knows no versions.
        (Generation::V2, &[after], json!({}), Some(whole)),
        (Generation::V2, &[version, ("retry-after", "soon")], json!({}), None),
    ] {
        let host = Canned::json(429, headers, body).await;
        let refusal = refusal(host.client(generation).tools().list().await.unwrap_err());
        assert_eq!((refusal.status, refusal.retry_after), (429, wait), "{generation} {headers:?}");
    }
}

#[tokio::test]
async fn a_missing_catalog_has_one_status_more_in_the_first_generation() {
    let host = Canned::json(501, &[("openwop-version", "2.0")], json!({})).await;
    assert!(host.client(Generation::V1).tools().list().await.unwrap().is_none());
    let refused = refusal(host.client(Generation::V2).tools().list().await.unwrap_err());
    assert_eq!(refused.status, 501);
}

#[tokio::test]
async fn features_of_the_other_generation_are_errors_without_a_request() {
    let host = Canned::json(200, &[("openwop-version", "2.0")], json!([])).await;
    let (first, second) = (host.client(Generation::V1), host.client(Generation::V2));
    for (error, generation) in [
        (first.tools().list_annotated().await.unwrap_err(), Generation::V1),
        (first.tools().get_annotated("a").await.unwrap_err(), Generation::V1),
        (second.tools().within("a").list().await.unwrap_err(), Generation::V2),
        (second.tools().search("a", 1).list_compact().await.unwrap_err(), Generation::V2),
    ] {
        let is_expected =
            matches!(error, Error::NotInGeneration { generation: it, .. } if it == generation);
        assert!(is_expected, "{error}");
    }
    assert!(host.requests().is_empty());
}

#[tokio::test]
async fn ids_without_a_path_are_none_without_a_request() {
    // A host that ignores a trailing slash would return its list.
    let host = Canned::json(200, &[("openwop-version", "2.0")], tools()).await;
    for generation in Generation::ALL {
        let client = host.client(generation);
        for id in ["", ".", ".."] {
            assert_eq!(client.tools().get(id).await.unwrap(), None, "{generation} {id:?}");
            assert_eq!(client.tools().get_compact(id).await.unwrap(), None, "{generation} {id:?}");
        }
    }
    assert!(host.requests().is_empty());
}

#[tokio::test]
async fn discovery_documents_of_other_hosts_are_judged() {
    for body in ["", "<html></html>", "[]", "{}", "{\"protocolVersions\":[]}"] {
        let host = Canned::start(200, &[], body).await;
        let error = host.client(Generation::V1).negotiate().await.unwrap_err();
        assert!(matches!(error, Error::NotDiscovery), "{body}: {error}");
    }
    let host = Canned::json(200, &[], json!({ "protocolVersions": ["3.0", "0.1"] })).await;
    let error = host.client(Generation::V1).negotiate().await.unwrap_err();
    let Error::NoSharedVersion { listed } = error else { panic!("{error}") };
    assert_eq!(listed, [Version { major: 3, minor: 0 }, Version { major: 0, minor: 1 }]);
    let host = Canned::json(404, &[], json!({})).await;
    let error = host.client(Generation::V1).negotiate().await.unwrap_err();
    assert!(matches!(error, Error::NoDiscovery), "{error}");
    let host = Canned::json(503, &[("retry-after", "3")], json!({})).await;
    let refused = refusal(host.client(Generation::V1).negotiate().await.unwrap_err());
    assert_eq!((refused.status, refused.retry_after), (503, Some(Duration::from_secs(3))));
    // A host without the first generation.
    let body = json!({ "protocolVersions": ["2.0", "3.0"], "preferredVersion": "3.0" });
    let host = Canned::json(200, &[("openwop-version", "3.0")], body).await;
    let client = host.client(Generation::V1).negotiate().await.unwrap();
    assert_eq!(client.generation(), Generation::V2);
}
