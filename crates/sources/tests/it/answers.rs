//! Answers that are not as they should be: the caller gets what can be read, and no success becomes a
//! failure that invites a repetition.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use toolcrib_core::{call::Outcome, call::UpstreamErrorKind, source::SourceState};
use toolcrib_testkit::upstream::{Answers, CallAnswer, FaultyHttp};

use crate::rig::{Rig, text};

const JSON: (&str, &str) = ("content-type", "application/json");
const EVENTS: (&str, &str) = ("content-type", "text/event-stream");
const GZIP: (&str, &str) = ("content-encoding", "gzip");

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn answer(status: u16, headers: &[(&'static str, &str)], body: &[u8]) -> CallAnswer {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    CallAnswer { status, headers, body: body.to_vec() }
}

fn texts(outcome: &Outcome) -> Vec<String> {
    let blocks: Vec<Value> = serde_json::from_str(outcome.content.get()).unwrap();
    blocks.iter().map(|block| block["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A service whose every answer has these bytes, after which it closes the connection.
async fn service(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.windows(4).any(|four| four == b"\r\n\r\n") {
                if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            stream.write_all(&answer).await.ok();
        }
    });
    url
}

/// RFC 9110, section 8.6: strict servers answer 411 to a method that expects a body and has no length.
#[tokio::test]
async fn requests_without_a_body_have_a_length() {
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("openapi.json");
    let operation = |id: &str| json!({ "operationId": id });
    let paths = json!({ "/p": { "post": operation("post"), "put": operation("put"),
        "patch": operation("patch"), "get": operation("get"), "delete": operation("delete") } });
    let openapi =
        json!({ "openapi": "3.1.0", "info": { "title": "t", "version": "1" }, "paths": paths });
    std::fs::write(&document, openapi.to_string()).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let rig = Rig::connector(&url, &document);
    for (tool, expected) in
        [("post", true), ("put", true), ("patch", true), ("get", false), ("delete", false)]
    {
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.windows(4).any(|four| four == b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
            }
            let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            String::from_utf8(request).unwrap().to_lowercase()
        };
        let (_, request) = tokio::join!(rig.call(tool, json!({})), answering);
        assert_eq!(request.contains("\r\ncontent-length: 0\r\n"), expected, "{request}");
    }
}

/// I-113: before its document has been read, a service receives no calls.
#[tokio::test]
async fn a_service_is_reachable_once_its_document_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("openapi.json");
    let rig = Rig::connector("http://127.0.0.1:9", &document);
    rig.source.discover().await.unwrap_err();
    let refused = rig.source.check_reachable().unwrap_err();
    assert_eq!(refused.kind, UpstreamErrorKind::Unavailable);
    let openapi = json!({ "openapi": "3.1.0", "info": { "title": "t", "version": "1" },
        "paths": { "/p": { "get": { "operationId": "get" } } } });
    std::fs::write(&document, openapi.to_string()).unwrap();
    rig.source.discover().await.unwrap();
    rig.source.check_reachable().unwrap();
}

/// Calls an operation of a service that answers with these headers and this body.
async fn call_service(status: &str, headers: &str, body: &[u8]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("openapi.json");
    let operation =
        json!({ "operationId": "pay", "responses": { "200": { "description": "ok" } } });
    let openapi = json!({ "openapi": "3.1.0", "info": { "title": "t", "version": "1" },
        "paths": { "/pay": { "post": operation } } });
    std::fs::write(&document, openapi.to_string()).unwrap();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n\r\n");
    let url = service([head.as_bytes(), body].concat()).await;
    Rig::connector(&url, &document).call("pay", json!({})).await
}

#[tokio::test]
async fn a_service_that_did_the_operation_is_no_failure_however_it_answers() {
    let paid = br#"{"paid": "yes, all of it"}"#;
    let coded = gzip(&paid.repeat(400));
    let cut = &coded[..coded.len() - 9];
    let gzipped = "content-type: application/json\r\ncontent-encoding: gzip";
    for (headers, body, read, note) in [
        (gzipped.to_owned(), paid.as_slice(), true, "not compressed"),
        (gzipped.to_owned(), cut, true, "damaged or cut off"),
        (gzipped.to_owned(), &b"\x1f\x8b garbage"[..], false, "damaged or cut off"),
        (format!("{gzipped}\r\ncontent-length: 9000"), cut, true, "the rest is missing"),
        (
            "content-type: text/plain\r\ncontent-length: 90".to_owned(),
            paid,
            true,
            "connection broke",
        ),
        (
            "content-type: text/plain\r\ncontent-length: 90".to_owned(),
            b"",
            false,
            "connection broke",
        ),
        (
            "content-type: text/plain\r\ncontent-encoding: br".to_owned(),
            b"\x0b\xff",
            false,
            "not gzip",
        ),
    ] {
        let outcome = call_service("201 Created", &headers, body).await;
        let texts = texts(&outcome);
        assert!(!outcome.is_error, "{headers}: {texts:?}");
        assert_eq!(texts[0].starts_with("{\"paid\": \"yes, all of it\"}"), read, "{texts:?}");
        assert!(texts[1].contains(note) && texts[1].contains("HTTP 201"), "{headers}: {texts:?}");
    }
    let fine = call_service("200 OK", gzipped, &gzip(paid)).await;
    assert_eq!(fine.structured.unwrap().get().as_bytes(), paid);
    let text = "content-type: text/plain\r\ncontent-encoding: utf-8";
    assert_eq!(texts(&call_service("200 OK", text, paid).await).len(), 1, "it is evidently text");
}

// I-27
#[tokio::test]
async fn a_small_body_that_becomes_a_large_one_is_too_large_even_if_it_is_cut() {
    let bomb = gzip(&vec![b'x'; 64 << 20]);
    let gzipped = [JSON, GZIP];
    let server = FaultyHttp::start(Answers::Json, &[]);
    let rig = Rig::http(&server.url());
    rig.ready().await;
    server.answer_calls(answer(200, &gzipped, &bomb[..bomb.len() - 9]));
    assert_eq!(rig.fails("echo", json!({})).await, UpstreamErrorKind::TooLarge);
}

#[tokio::test]
async fn a_service_that_refuses_has_its_words_and_its_wait() {
    for (wait, expected) in
        [("7", Some(7)), ("0", Some(0)), ("Thu, 21 Oct 1965 07:28:00 GMT", Some(0)), ("-1", None)]
    {
        let headers =
            format!("content-type: text/plain\r\ncontent-encoding: gzip\r\nretry-after: {wait}");
        let outcome = call_service("429 Too Many Requests", &headers, b"not so fast").await;
        assert!(outcome.is_error);
        assert_eq!(outcome.retry_after.map(|wait| wait.as_secs()), expected, "{wait}");
        let said = text(&outcome);
        assert!(said.starts_with("HTTP 429") && said.ends_with("\nnot so fast"), "{said}");
    }
}

/// As those of a service that is no MCP server.
#[tokio::test]
async fn an_mcp_server_that_refuses_a_call_has_its_words_and_its_wait() {
    let problem = r#"{"title":"quota","detail":"come back\u0007 later"}"#;
    let rpc = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"quota of today"}}"#;
    let rpc_without_id =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"quota used"}}"#;
    let own = r#"{"error":{"type":"quota_reached"}}"#;
    let long = "busy ".repeat(10_000);
    let problem_json = ("content-type", "application/problem+json");
    let html = ("content-type", "text/html; charset=utf-8");
    let after = |wait| ("retry-after", wait);
    for era in ["era=modern", "era=legacy"] {
        let server = FaultyHttp::start(Answers::Json, &[era, "listen=no"]);
        let rig = Rig::http(&server.url());
        rig.ready().await;
        for (status, headers, body, words, wait) in [
            (429, vec![after("7")], "slow\u{202e} down", "; retry after 7 s\nslow  down", Some(7)),
            (503, vec![html, after("0")], "<b>soon</b>", "; retry after 0 s\n<b>soon</b>", Some(0)),
            (503, vec![after("Thu, 21 Oct 1965 07:28:00 GMT")], "", "retry after 0 s", Some(0)),
            (
                429,
                vec![problem_json],
                problem,
                "HTTP 429 Too Many Requests\n{\"title\":\"quota\"",
                None,
            ),
            (429, vec![JSON, after("9")], rpc, "retry after 9 s\nquota of today", Some(9)),
            (503, vec![JSON, after("9")], rpc_without_id, "after 9 s\nquota used", Some(9)),
            (500, vec![JSON, after("9")], rpc, "quota of today", None),
            (400, vec![JSON], own, "quota_reached", None),
            (403, vec![], "not this tool", "HTTP 403 Forbidden\nnot this tool", None),
            (500, vec![GZIP], "oops", "HTTP 500 Internal Server Error\noops", None),
            (502, vec![html], &long, "HTTP 502 Bad Gateway\nbusy busy", None),
            (500, vec![("content-type", "image/png")], "PNG", "HTTP 500 Internal", None),
            (404, vec![], "no such page", "HTTP 404 Not Found\nno such page", None),
        ] {
            let before = server.received_method("tools/call").len();
            server.answer_calls(answer(status, &headers, body.as_bytes()));
            let outcome = rig.call("echo", json!({})).await;
            let said = text(&outcome);
            assert!(outcome.is_error && said.contains(words), "{era} {status}: {said}");
            assert!(said.len() < 9_000, "{}", said.len());
            assert_eq!(
                outcome.retry_after.map(|wait| wait.as_secs()),
                wait,
                "{era} {status} {said}"
            );
            assert_eq!(server.received_method("tools/call").len() - before, 1, "{status} {said}");
        }
        assert_eq!(rig.source.status().state, SourceState::Ready);
        assert_eq!(rig.source.status().restarts, 0);
        // The credential of the source is refused: the words come, and the source is connected anew.
        server.answer_calls(answer(401, &[], b"expired: see https://internal.example/x?token=abc"));
        let said = text(&rig.call("echo", json!({})).await);
        assert_eq!(said, "HTTP 401 Unauthorized\nexpired: see [address]");
        rig.until(|status| status.restarts > 0).await;
    }
}

#[tokio::test]
async fn a_call_that_an_mcp_server_answered_with_2xx_has_run() {
    let good = r#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"all paid"}]},"id":"#;
    let first = format!("{good}ID");
    let event = format!("event: message\ndata: {first}");
    let cut = |text: &str| {
        let coded = gzip(text.repeat(if text.starts_with("event") { 1 } else { 2 }).as_bytes());
        coded[..coded.len() - 9].to_vec()
    };
    let result = good.split("\"id\"").next().unwrap();
    let plain = |text: &str| text.as_bytes().to_vec();
    for era in ["era=modern", "era=legacy"] {
        let server = FaultyHttp::start(Answers::Json, &[era, "listen=no"]);
        let rig = Rig::http(&server.url());
        rig.ready().await;
        for (headers, body, read, note) in [
            // It is not compressed.
            (vec![JSON, GZIP], plain(&format!("{first}}}")), "all paid", "not compressed"),
            (vec![EVENTS, GZIP], plain(&format!("{event}}}\n\n")), "all paid", "not compressed"),
            (vec![JSON, GZIP], plain("paid"), "paid", "not compressed"),
            // It is cut.
            (vec![JSON, GZIP], cut(result), "all paid", "damaged or cut off"),
            (vec![EVENTS, GZIP], cut(&event), "all paid", "cut off"),
            (vec![EVENTS], plain(&format!("{event}}}\n")), "all paid", ""),
            (
                vec![EVENTS],
                plain("data: {\"result\":{\"content\":[{\"text\":\"all pai"),
                "all pai",
                "cut off",
            ),
            (vec![JSON], plain(result), "all paid", "not JSON-RPC"),
            // It is something else.
            (vec![("content-type", "text/html")], plain("<p>paid"), "<p>paid", "not JSON-RPC"),
            (vec![JSON], plain("\"paid\""), "\"paid\"", "not JSON-RPC"),
        ] {
            let before = server.received_method("tools/call").len();
            server.answer_calls(answer(200, &headers, &body));
            let outcome = rig.call("echo", json!({})).await;
            let said = texts(&outcome);
            assert!(!outcome.is_error, "{headers:?} {said:?}");
            assert!(said.iter().any(|text| text.contains(read)), "{headers:?} {said:?}");
            assert!(said.iter().any(|text| text.contains(note)), "{headers:?} {note}: {said:?}");
            assert_eq!(server.received_method("tools/call").len() - before, 1);
        }
        // Nothing can be read, and an error cannot be ruled out.
        for (status, headers, body) in [
            (200, vec![JSON], &b""[..]),
            (202, vec![], &b" \r\n"[..]),
            (200, vec![JSON, GZIP], &b"\x1f\x8b garbage"[..]),
            (200, vec![JSON, ("content-encoding", "br")], &b"\x0b\xff\xfe"[..]),
        ] {
            server.answer_calls(answer(status, &headers, body));
            let outcome = rig.call("echo", json!({})).await;
            let said = text(&outcome);
            assert!(outcome.is_error && outcome.retry_after.is_none(), "{said}");
            assert!(said.contains("the call ran, but its result could not be read"), "{said}");
        }
        assert_eq!(rig.source.status().restarts, 0);
    }
}

/// Answers as text in which each character is a byte; then what is read of them, and the note.
const MALFORMED: [(&str, &str, Option<&str>); 8] = [
    (
        "\u{ef}\u{bb}\u{bf}{\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"paid\"}]}}",
        "paid",
        None,
    ),
    (
        r#"{"id":ID,"result":{"content":[],"structuredContent":{"left":NaN}}}"#,
        r#"{"content":[],"structuredContent":{"left":NaN}}"#,
        Some("not valid JSON-RPC"),
    ),
    (
        r#"{"result":{"content":[{"type":"text","text":"paid","n":-Infinity}]},"id":ID}"#,
        r#""text":"paid","n":-Infinity"#,
        Some("not valid JSON-RPC"),
    ),
    (
        "{\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"caf\u{e9}\"}]}}",
        "caf\u{fffd}",
        Some("U+FFFD"),
    ),
    (
        "{\"result\":{\"content\":[{\"text\":\"caf\u{e9}\",\"n\":NaN}]},\"id\":ID}",
        "caf\u{fffd}",
        Some("not valid JSON-RPC"),
    ),
    (r#"{"id":ID,"result":null}"#, "", Some("without a result")),
    (r#"{"jsonrpc":"2.0","id":ID}"#, "", Some("without a result")),
    (
        r#"{"id":ID.0,"result":{"content":[{"type":"text","text":"paid"}]},"took":NaN}"#,
        "paid",
        Some("JSON-RPC"),
    ),
];

async fn reads_malformed(rig: &Rig, answers: impl AsyncFn(&str) -> Outcome) {
    for (answer, read, note) in MALFORMED {
        let outcome = answers(answer).await;
        let said = texts(&outcome);
        assert!(!outcome.is_error, "{answer}: {said:?}");
        assert!(said.iter().any(|text| text.contains(read)), "{answer}: {said:?}");
        let noted = |note| said.iter().any(|text| text.contains(note));
        assert!(note.is_none_or(noted), "{answer}: {said:?}");
        assert!(note.is_some() || said.len() == 1, "{answer}: {said:?}");
    }
    assert_eq!(rig.source.status().restarts, 0);
    let failed = answers(r#"{"id":ID,"result":{"content":[{"n":NaN}],"isError":true}}"#).await;
    assert!(failed.is_error && text(&failed).contains("NaN"));
    let failed = answers(r#"{"id":ID,"error":{"code":-1,"message":"broke","data":NaN}}"#).await;
    assert!(failed.is_error && text(&failed).contains("broke"));
}

#[tokio::test]
async fn a_result_that_is_malformed_is_read_as_far_as_it_can_be() {
    for era in ["era=modern", "era=legacy"] {
        let rig = Rig::faulty(&[era]);
        reads_malformed(&rig, async |text| rig.call("answer", json!({ "text": text })).await).await;

        let server = FaultyHttp::start(Answers::Json, &[era, "listen=no"]);
        let rig = Rig::http(&server.url());
        reads_malformed(&rig, async |text| rig.call("answer", json!({ "text": text })).await).await;

        reads_malformed(&rig, async |text| {
            let data: Vec<u8> = text.chars().map(|c| u8::try_from(c).unwrap()).collect();
            let event = [b"data: ", &data[..], b"\n\n"].concat();
            server.answer_calls(answer(200, &[EVENTS], &event));
            rig.call("echo", json!({})).await
        })
        .await;
    }
}
