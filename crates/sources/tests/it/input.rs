//! Tools that request input from the caller: the exchange with the upstream in both directions.

use serde_json::{Map, Value, json};
use toolcrib_core::call::{
    CallerInput, Outcome, Question, Reply, UpstreamError, UpstreamErrorKind, input::MAX_STATE,
};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::rig::{Rig, invocation, text};

fn declaring(capabilities: Value) -> CallerInput {
    CallerInput::declaring(capabilities.as_object().unwrap())
}

async fn ask(
    rig: &Rig,
    arguments: Value,
    input: Option<CallerInput>,
) -> Result<Reply, UpstreamError> {
    rig.ready().await;
    let mut call = invocation(arguments);
    call.input = input;
    rig.ask("question", call).await
}

/// Returns the question for the caller.
fn question(result: Result<Reply, UpstreamError>) -> Question {
    match result.expect("the upstream replies") {
        Reply::NeedsInput(question) => question,
        Reply::Done(outcome) => panic!("no input is requested: {}", text(&outcome)),
    }
}

fn done(result: Result<Reply, UpstreamError>) -> Outcome {
    match result.expect("the upstream replies") {
        Reply::Done(outcome) => outcome,
        Reply::NeedsInput(question) => panic!("input is requested: {question:?}"),
    }
}

async fn two_rounds(rig: &Rig) {
    let mut input = declaring(json!({
        "elicitation": { "form": {} }, "roots": { "listChanged": true }, "tasks": {}, "sampling": 7,
    }));
    let Question::Input(first) = question(ask(rig, json!({}), Some(input.clone())).await) else {
        panic!()
    };
    assert_eq!(first.state().unwrap().get(), "\"c3RhdGU=.1\"");
    let requests: Value = serde_json::from_str(first.requests().unwrap().get()).unwrap();
    assert_eq!(requests["name"]["params"]["message"], "Who are you?");

    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ann", "n": 1.0 } } });
    input.responses = answers.as_object().cloned();
    input.state = Some("c3RhdGU=.1".to_owned());
    let second = done(ask(rig, json!({}), Some(input)).await);
    let sent: Value = serde_json::from_str(&text(&second)).unwrap();
    assert_eq!(sent["inputResponses"], answers);
    assert_eq!(sent["requestState"], "c3RhdGU=.1");
    let forwarded = json!({ "elicitation": { "form": {} }, "roots": { "listChanged": true } });
    assert_eq!(sent["capabilities"], forwarded, "only the capabilities of the caller");
}

#[tokio::test]
async fn input_requests_and_answers_pass_unchanged_on_both_transports() {
    two_rounds(&Rig::faulty(&["era=modern"])).await;
    let server = FaultyHttp::start(Answers::Json, &["era=modern"]);
    two_rounds(&Rig::http(&server.url())).await;
}

// I-50
#[tokio::test]
async fn capabilities_are_declared_for_one_call_only() {
    let server = FaultyHttp::start(Answers::Events, &["era=modern"]);
    let rig = Rig::http(&server.url());
    question(ask(&rig, json!({}), Some(declaring(json!({ "elicitation": {} })))).await);
    let nobody = ask(&rig, json!({}), None).await.unwrap_err();
    assert_eq!(nobody.kind, UpstreamErrorKind::InputRequired);
    let other = ask(&rig, json!({}), Some(declaring(json!({ "sampling": {} })))).await.unwrap_err();
    assert_eq!(other.kind, UpstreamErrorKind::InputRequired);
    let declared: Vec<Value> = server
        .received_method("tools/call")
        .iter()
        .map(|request| {
            request.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone()
        })
        .collect();
    assert_eq!(declared, [json!({ "elicitation": {} }), json!({}), json!({ "sampling": {} })]);
    for method in ["server/discover", "subscriptions/listen", "tools/list"] {
        for request in server.received_method(method) {
            let meta = &request.body["params"]["_meta"];
            assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}), "{method}");
        }
    }
}

// I-27
#[tokio::test]
async fn malformed_input_requests_reach_no_caller() {
    let rig = Rig::faulty(&["era=modern"]);
    let all = declaring(json!({ "elicitation": {}, "sampling": {}, "roots": {} }));
    let roots = json!({ "method": "roots/list" });
    let many: Map<String, Value> = (0..33).map(|n| (n.to_string(), roots.clone())).collect();
    for result in [
        json!({ "resultType": "input_required" }).to_string(),
        json!({ "resultType": "input_required", "inputRequests": {} }).to_string(),
        json!({ "resultType": "input_required", "inputRequests": [roots] }).to_string(),
        json!({ "resultType": "input_required", "inputRequests": many }).to_string(),
        json!({ "resultType": "input_required", "inputRequests": { "a": "roots/list" } }).to_string(),
        json!({ "resultType": "input_required", "inputRequests": { "a": { "method": "tools/call",
            "params": {} } } })
        .to_string(),
        json!({ "resultType": "input_required", "inputRequests": { "a": roots },
            "requestState": { "a": 1 } })
        .to_string(),
        json!({ "resultType": "input_required", "requestState": "s".repeat(MAX_STATE) }).to_string(),
        r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","method":"sampling/createMessage","params":{}}}}"#.to_owned(),
        r#"{"resultType":"input_required","requestState":"s","requestState":"t"}"#.to_owned(),
    ] {
        let arguments = json!({ "kind": "result", "result": result });
        for input in [None, Some(all.clone())] {
            match ask(&rig, arguments.clone(), input).await {
                Ok(Reply::Done(outcome)) => assert!(outcome.is_error, "{result:.90}"),
                Ok(Reply::NeedsInput(question)) => panic!("{result:.90}: {question:?}"),
                Err(error) => {
                    assert_eq!(error.kind, UpstreamErrorKind::Protocol, "{result:.90}");
                    assert!(!error.detail.contains("roots/list"));
                }
            }
        }
    }
    let large = json!({ "resultType": "input_required", "inputRequests": { "a": {
        "method": "roots/list", "params": { "x": "y".repeat(4096) } } } });
    let mut call = invocation(json!({ "kind": "result", "result": large.to_string() }));
    call.input = Some(all);
    call.max_result_bytes = 1024;
    let error = rig.ask("question", call).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::TooLarge);
}

#[tokio::test]
async fn an_upstream_of_the_handshake_era_cannot_request_input() {
    let rig = Rig::faulty(&["era=legacy"]);
    let mut input = declaring(json!({ "elicitation": {} }));
    let error = ask(&rig, json!({}), Some(input.clone())).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::Protocol);
    // Such an upstream is never sent input responses, so it repeats its request.
    input.responses = Some(Map::new());
    let error = ask(&rig, json!({}), Some(input)).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::Protocol);
}

#[tokio::test]
async fn a_missing_capability_is_named_to_callers_that_can_declare_it() {
    let server = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let stdio = Rig::faulty(&["era=modern"]);
    for rig in [&stdio, &Rig::http(&server.url())] {
        let want = |wanted: Value| json!({ "kind": "want", "wanted": wanted });
        let sampling = json!({ "sampling": {} });
        let modern = Some(CallerInput::default());
        let Question::Capabilities(wanted) =
            question(ask(rig, want(sampling.clone()), modern.clone()).await)
        else {
            panic!()
        };
        assert_eq!(Value::Object(wanted), sampling);
        for (wanted, input) in [
            (sampling, None),
            (json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }), modern.clone()),
            (json!(["sampling"]), modern),
        ] {
            let error = ask(rig, want(wanted), input).await.unwrap_err();
            assert_eq!(error.kind, UpstreamErrorKind::CapabilityRequired);
        }
    }
}

#[tokio::test]
async fn a_state_that_the_upstream_does_not_take_is_an_error_of_the_round() {
    let rig = Rig::faulty(&["era=modern"]);
    let input = CallerInput { state: Some("spoiled".to_owned()), ..CallerInput::default() };
    let Question::Rejected(words) = question(ask(&rig, json!({}), Some(input)).await) else {
        panic!()
    };
    assert_eq!(words, "the state is not ours");
}
