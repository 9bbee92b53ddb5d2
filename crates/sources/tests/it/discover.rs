//! Tool lists as real upstreams send them.

use std::collections::HashMap;

use serde_json::json;
use toolcrib_core::{
    call::UpstreamErrorKind,
    pin::PinForm,
    source::{FormedOffer, SourceLimits, SourceState},
};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::rig::{Rig, faulty};

fn by_name(tools: Vec<FormedOffer>) -> HashMap<String, FormedOffer> {
    tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect()
}

// An invalid tool is left out, and the others are kept.
#[tokio::test]
async fn a_list_with_malformed_tools_is_salvaged_tool_by_tool() {
    let rig = Rig::faulty(&["list=malformed"]);
    let discovered = rig.discover().await;
    let problems = discovered.problems.join("\n");
    let names: Vec<_> = discovered.offers.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "first",
            "schemaless",
            "string-schema",
            "null-schema",
            "true-output",
            "string-hint",
            "bad-annotations",
            "string-sizes",
            "null-description",
            "number-description",
            "null-meta",
            "empty-schema",
            "task-optional",
            "vendor",
            "bad-header",
            "with spaces",
            "last"
        ]
    );
    let tools = by_name(discovered.offers);
    for name in ["schemaless", "string-schema", "null-schema"] {
        assert_eq!(tools[name].input_schema, None, "{name}");
        assert!(problems.contains(&format!("tool `{name}`: inputSchema is")), "{problems}");
    }
    assert_eq!(tools["empty-schema"].input_schema, Some(json!({})));
    assert_eq!(tools["true-output"].output_schema, None);
    assert_eq!(tools["string-hint"].annotations, Some(json!({ "idempotentHint": true })));
    assert_eq!(tools["bad-annotations"].annotations, None);
    assert_eq!(tools["null-description"].description, None);
    assert_eq!(tools["number-description"].description, None);
    for (what, why) in [
        ("bad-header", "so callers get no header annotations"),
        ("first", "is listed twice"),
        ("string-hint", "annotation readOnlyHint has the wrong type"),
        ("number-description", "description is not a string"),
    ] {
        assert!(problems.lines().any(|p| p.contains(what) && p.contains(why)), "{problems}");
    }
    assert_eq!(
        discovered.notes,
        ["tool `task-only` is left out: it only runs as a task, which is not supported"]
    );
    let nameless = problems.lines().filter(|p| p.contains("no usable name")).count();
    let no_objects =
        problems.lines().filter(|p| p.contains("not an object") && p.starts_with("entry"));
    assert_eq!((nameless, no_objects.count()), (4, 2), "{problems}");
}

// Unknown fields, key order and numbers survive, so that the hash covers the received bytes.
#[tokio::test]
async fn nothing_of_a_tool_is_lost() {
    let rig = Rig::faulty(&["list=malformed"]);
    let tools = by_name(rig.discover().await.offers);
    assert_eq!(
        tools["vendor"].raw.to_string(),
        r#"{"name":"vendor","description":"does vendor","inputSchema":{"type":"object","properties":{}},"x-vendor":{"b":1,"a":[1.0,12345678901234567890]}}"#
    );
    assert_eq!(tools["task-optional"].raw["execution"], json!({ "taskSupport": "optional" }));
    assert_eq!(tools["string-sizes"].raw["icons"][0]["sizes"], "48x48");
}

// Only HTTP of the modern era has these headers; there, an invalid annotation excludes the tool.
#[tokio::test]
async fn a_wrong_header_annotation_hides_a_tool_where_headers_matter() {
    for (era, hidden) in [("era=modern", true), ("era=legacy", false)] {
        let server = FaultyHttp::start(Answers::Json, &[era, "list=malformed"]);
        let rig = Rig::http(&server.url());
        let discovered = rig.discover().await;
        let listed = discovered.offers.iter().any(|tool| tool.name == "bad-header");
        assert_eq!(listed, !hidden, "{era}");
        let told = discovered.problems.iter().any(|p| p.contains("`bad-header` is left out"));
        assert_eq!(told, hidden, "{era}");
    }
}

#[tokio::test]
async fn pages_are_joined_and_an_empty_cursor_is_followed() {
    assert_eq!(Rig::faulty(&["list=paged"]).names().await, ["one", "two", "three"]);
}

// I-27
#[tokio::test]
async fn a_list_that_does_not_end_is_ended() {
    let limits = SourceLimits {
        max_pages: 7,
        max_tools: 100,
        max_list_bytes: 3 << 20,
        ..SourceLimits::default()
    };
    for (list, tools, why) in [
        ("repeated", 2, "repeats a cursor"),
        ("endless", 7, "more than 7 pages"),
        ("wide", 100, "more than 100 tools"),
        ("heavy", 2, "larger than 3145728 bytes"),
    ] {
        let words = faulty(&[&format!("list={list}"), "listen=no"]);
        let rig = Rig::stdio(words, limits.clone());
        let discovered = rig.discover().await;
        // The repeated list contains its second tool twice before the cursor repeats.
        assert_eq!(discovered.offers.len(), tools, "{list}");
        assert!(discovered.problems.iter().any(|p| p.contains(why)), "{:?}", discovered.problems);
    }
}

#[tokio::test]
async fn a_source_whose_list_fails_is_not_ready_and_says_why() {
    for (list, why) in [("list=error", "no list today"), ("list=nonsense", "not a list of tools")] {
        let rig = Rig::faulty(&[list]);
        let status = rig.degraded().await;
        let detail = status.detail.unwrap();
        assert!(detail.starts_with("its tools could not be listed: "), "{detail}");
        assert!(detail.contains(why), "{detail}");
        assert_eq!(
            rig.source.discover().await.unwrap_err().kind,
            UpstreamErrorKind::Unavailable,
            "{list}"
        );
    }
}

// A renewed session is no way around the pauses between two attempts.
#[tokio::test]
async fn a_session_that_every_list_ends_is_opened_once_per_attempt() {
    let server = FaultyHttp::start(Answers::Json, &["era=legacy", "list=lost"]);
    let rig = Rig::http(&server.url());
    let status = rig.until(|status| status.restarts >= 2).await;
    assert_ne!(status.state, SourceState::Ready);
    rig.source.close().await;
    let attempts = usize::try_from(rig.source.status().restarts).unwrap() + 1;
    assert!(server.sessions_opened() <= attempts, "{} {attempts}", server.sessions_opened());
    assert_eq!(rig.changes(), 0, "nothing is announced");
}

// I-104: the list of a new session is compared before its first call.
#[tokio::test]
async fn a_tool_that_changed_with_the_session_does_not_run() {
    let server = FaultyHttp::start(Answers::Json, &["era=legacy", "list=turning"]);
    let rig = Rig::http(&server.url());
    let form = async || {
        let tools = rig.discover().await.offers;
        PinForm::of(tools.iter().find(|tool| tool.name == "echo").unwrap()).digest
    };
    let before = form().await;
    rig.call_pinned("echo", before, json!({})).await.unwrap();
    rig.call("turn", json!({ "form": 1 })).await;
    server.expire_sessions();
    let calls = || {
        let calls = server.received_method("tools/call");
        calls.iter().filter(|call| call.body["params"]["name"] == "echo").count()
    };
    server.take_received();
    for _ in 0..3 {
        let error = rig.call_pinned("echo", before, json!({})).await.unwrap_err();
        assert_eq!(error.kind, UpstreamErrorKind::Changed);
    }
    // The server has refused the first, because it did not know the session.
    assert_eq!((calls(), server.sessions_opened()), (1, 2));
    let after = form().await;
    rig.call_pinned("echo", after, json!({})).await.unwrap();
    // Where pins are not enforced, the tool runs in any form.
    rig.call("echo", json!({})).await;
}

// I-104: an announced change is compared before the next call, although lists are read less often.
#[tokio::test]
async fn a_tool_whose_change_was_announced_does_not_run() {
    let rig = Rig::faulty(&["listen=yes", "list=turning"]);
    let tools = rig.discover().await.offers;
    let before = PinForm::of(tools.iter().find(|tool| tool.name == "echo").unwrap()).digest;
    for form in 1..4 {
        rig.call_pinned("echo", before, json!({})).await.unwrap();
        rig.call("turn", json!({ "form": form })).await;
        let error = rig.call_pinned("echo", before, json!({})).await.unwrap_err();
        assert_eq!(error.kind, UpstreamErrorKind::Changed, "{form}");
        rig.call("turn", json!({ "form": 0 })).await;
    }
}

// I-27
#[tokio::test]
async fn a_list_that_takes_too_long_is_a_timeout() {
    let limits = SourceLimits {
        connect_timeout: std::time::Duration::from_millis(700),
        ..SourceLimits::default()
    };
    let server = FaultyHttp::start(Answers::Json, &["list=slow"]);
    let rig = Rig::http_with(&server.url(), &[], limits);
    let detail = rig.degraded().await.detail.unwrap();
    assert!(detail.contains("was not complete in time"), "{detail}");
}

#[tokio::test]
async fn tools_for_apps_and_for_tasks_are_left_out_with_a_note() {
    for era in ["era=modern", "era=legacy"] {
        let discovered = Rig::faulty(&[era, "list=apps"]).discover().await;
        let names: Vec<_> = discovered.offers.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["echo", "add", "region"], "{era}");
        assert_eq!(discovered.problems, <[String; 0]>::default(), "{era}");
        assert_eq!(
            discovered.notes,
            [
                "tool `late` is left out: it is for MCP Apps only, which are not offered",
                "tool `fail` is left out: it only runs as a task, which is not supported",
            ],
            "{era}"
        );
    }
}

/// Waits until the parts that are not offered were counted, and returns the line about them.
async fn not_offered(rig: &Rig) -> String {
    let counted = async {
        loop {
            if let Some(parts) = rig.source.not_offered() {
                return parts.to_string();
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::rig::PATIENCE, counted).await.unwrap()
}

#[tokio::test]
async fn what_a_server_has_in_addition_to_tools_is_counted() {
    let line = "3 resources, 1 prompt, instructions (13 characters), icons of the server, icons of \
                1 tool, _meta of 2 tools";
    for era in ["era=modern", "era=legacy"] {
        let words = [era, "list=apps", "more=yes"];
        let rig = Rig::faulty(&words);
        rig.discover().await;
        assert_eq!(not_offered(&rig).await, line, "{era}");
        let server = FaultyHttp::start(Answers::Json, &words);
        let rig = Rig::http(&server.url());
        rig.discover().await;
        assert_eq!(not_offered(&rig).await, line, "{era}");
    }
    let plain = Rig::faulty(&[]);
    plain.discover().await;
    assert_eq!(not_offered(&plain).await, "");
}

#[tokio::test]
async fn resources_that_cannot_be_counted_cost_nothing_else() {
    for (more, said) in [
        ("refused", "resources (not counted), 1 prompt, "),
        ("endless", "at least 20 resources, 1 prompt, "),
        // The server ended once, and no list is requested again.
        (
            "crash",
            "resources (not counted), resource templates (not counted), prompts (not counted), ",
        ),
    ] {
        let rig = Rig::faulty(&["list=apps", &format!("more={more}")]);
        let line = not_offered(&rig).await;
        assert!(line.starts_with(said), "{more}: {line}");
        assert_eq!(rig.discover().await.offers.len(), 3, "{more}");
        assert_eq!(rig.source.status().state, SourceState::Ready, "{more}");
    }
    let server = FaultyHttp::start(Answers::Json, &["list=apps", "more=forbidden"]);
    let rig = Rig::http(&server.url());
    let line = not_offered(&rig).await;
    assert!(line.starts_with("resources (not counted), 1 prompt, "), "{line}");
    assert_eq!(rig.source.status().state, SourceState::Ready);
    assert_eq!(server.received_method("tools/list").len(), 1, "the connection held");
}
