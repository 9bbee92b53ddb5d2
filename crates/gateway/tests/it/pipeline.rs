//! The nine steps, each with its refusals and its events.

use std::sync::atomic::Ordering;

use serde_json::json;
use toolcrib_core::{
    call::{CallError, UpstreamErrorKind},
    event::EventBody,
};
use toolcrib_gateway::{CallRequest, CatalogScope, ToolRef, metrics::Surface};

use crate::support::{eventually, principal, rig};

const ALL: &[&str] = &["*"];

#[tokio::test]
async fn a_call_runs_and_leaves_a_pair_with_one_run_and_one_call_id() {
    let rig = rig(&["echo"], "").await;
    let called = rig.call(&principal("t", ALL), "s__echo", json!({"text": "hello"})).await;
    assert!(called.result.unwrap().content.get().contains("hello"));
    assert_eq!(rig.log.recorded(), ["called", "returned Ok ran"]);
    let events = rig.log.kept.events();
    let (first, second) = (&events[0].event, &events[1].event);
    assert_eq!((first.sequence, second.sequence), (0, 1));
    assert_eq!(second.causation_id.as_ref(), Some(&first.event_id));
    assert_eq!((&first.run_id, &second.run_id), (&called.run_id, &called.run_id));
    let EventBody::ToolCalled(opening) = &first.body else { panic!("{first:?}") };
    assert_eq!(opening.agent_id.as_str(), "core.system");
    assert_eq!(opening.tool_name, "mcp:s.echo");
    assert_eq!(opening.call_id, called.call_id);
    assert_eq!(opening.args_hash.as_ref().map(String::len), Some(64));
}

/// I-20: no word of the arguments or the result is in an event.
#[tokio::test]
async fn the_record_is_content_free() {
    let rig = rig(&["echo", "fail", "strict"], "").await;
    let caller = principal("t", ALL);
    for tool in ["s__echo", "s__fail", "s__strict"] {
        rig.call(&caller, tool, json!({"text": "canary-4711", "n": "canary-4711"})).await;
    }
    let everything = serde_json::to_string(
        &rig.log.kept.events().into_iter().map(|logged| logged.event).collect::<Vec<_>>(),
    );
    let everything = everything.unwrap();
    assert!(!everything.contains("canary"), "{everything}");
    assert!(!everything.contains("went wrong"), "{everything}");
}

/// I-9: a foreign tenant's tool does not exist.
#[tokio::test]
async fn a_foreign_tool_is_unknown_and_the_attempt_is_recorded() {
    let rig = rig(&["echo"], "tenants = [\"mine\"]").await;
    let stranger = principal("other", ALL);
    let foreign = rig.call(&stranger, "s__echo", json!({})).await;
    let unknown = rig.call(&stranger, "s__nothing", json!({})).await;
    assert!(matches!(foreign.result, Err(CallError::NoSuchTool)));
    assert!(matches!(unknown.result, Err(CallError::NoSuchTool)));
    assert!(foreign.entry.is_none());
    eventually("both are recorded", || rig.log.recorded().len() == 3).await;
    let of = |tenant: &str| {
        let events = rig.log.kept.events();
        let of_tenant = events.iter().filter(|logged| logged.tenant.as_str() == tenant);
        of_tenant.map(|logged| crate::support::recorded(&logged.event.body)).collect::<Vec<_>>()
    };
    assert_eq!(
        of("other"),
        ["decided tools:call unknown unknown"; 2],
        "the record of the tenant does not distinguish them"
    );
    assert_eq!(of("-"), ["decided tools:call mcp:s.echo tenant"], "but by the operator");
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_missing_scope_is_a_recorded_pair_and_nothing_runs() {
    let rig = rig(&["echo"], "[source.tools.\"*\"]\nscopes = [\"a:b\", \"c\"]").await;
    let called = rig.call(&principal("t", &["a:*"]), "s__echo", json!({})).await;
    let Err(CallError::Forbidden { tool, required }) = called.result else {
        panic!("{:?}", called.result)
    };
    assert_eq!(tool.as_str(), "mcp:s.echo");
    assert_eq!(required.len(), 2);
    assert_eq!(
        rig.log.recorded(),
        ["called", "decided tools:call mcp:s.echo scope", "returned Forbidden forbidden"]
    );
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn denied_calls_can_look_like_unknown_ones() {
    let text = format!(
        "[gate]\ndenied_calls = \"not_found\"\n{}",
        crate::support::one_source("[source.tools.\"*\"]\nscopes = [\"a\"]")
    );
    let rig = crate::support::rig_with(None, &text, Default::default()).await;
    let called = rig.call(&principal("t", &["b"]), "s__echo", json!({})).await;
    assert!(matches!(called.result, Err(CallError::NoSuchTool)));
    assert_eq!(rig.log.recorded().len(), 3, "the record still says what happened");
}

/// I-12: denied calls use no rate limit; the limit is per tenant, principal and tool.
#[tokio::test]
async fn the_limit_counts_only_calls_that_were_allowed() {
    let rig = rig(&["echo", "two"], "[source.tools.\"*\"]\nrate = \"2/h\"").await;
    let (caller, nobody) = (principal("t", ALL), principal("t", &[]));
    for _ in 0..5 {
        assert!(rig.call(&nobody, "s__echo", json!({})).await.result.is_err());
    }
    for _ in 0..2 {
        rig.call(&caller, "s__echo", json!({})).await.result.unwrap();
    }
    let third = rig.call(&caller, "s__echo", json!({})).await;
    let Err(CallError::RateLimited { retry_after, limit, .. }) = third.result else {
        panic!("{:?}", third.result)
    };
    assert_eq!(limit, 2);
    assert!(retry_after.as_secs() > 0);
    rig.call(&caller, "s__two", json!({})).await.result.unwrap();
    rig.call(&principal("u", ALL), "s__echo", json!({})).await.result.unwrap();
    assert!(rig.log.recorded().contains(&"returned RateLimited rate_limited".to_owned()));
}

/// The gates in their order: a call that several of them would refuse is refused by the first.
#[tokio::test]
async fn the_gates_stand_in_their_order() {
    let rules = "[source.tools.\"*\"]\nscopes = [\"a\"]\nrate = \"1/h\"\napproval = \"always\"";
    let rig = rig(&["strict"], rules).await;
    let (may, may_not) = (principal("t", &["a"]), principal("t", &[]));
    let bad = json!({"n": "not a number"});
    for _ in 0..2 {
        let denied = rig.call(&may_not, "s__strict", bad.clone()).await.result;
        assert!(matches!(denied, Err(CallError::Forbidden { .. })), "{denied:?}");
    }
    let invalid = rig.call(&may, "s__strict", bad.clone()).await.result;
    assert!(matches!(invalid, Err(CallError::InvalidArguments(_))), "{invalid:?}");
    let limited = rig.call(&may, "s__strict", bad).await.result;
    assert!(matches!(limited, Err(CallError::RateLimited { .. })), "{limited:?}");
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
    // Every refusal is a pair of events with its cause and reason, and no duration (RFC 0064 §F).
    let events = rig.log.kept.events();
    let returns: Vec<_> = events
        .iter()
        .filter_map(|logged| match &logged.event.body {
            EventBody::ToolReturned(returned) => Some((logged, returned)),
            _ => None,
        })
        .collect();
    assert_eq!(returns.len(), 4);
    for (logged, returned) in returns {
        let cause = logged.event.causation_id.as_ref().unwrap();
        let opening = events.iter().find(|other| other.event.event_id == *cause).unwrap();
        let EventBody::ToolCalled(opening) = &opening.event.body else { panic!("{opening:?}") };
        assert_eq!(opening.call_id, returned.call_id);
        assert_eq!(returned.principal.as_ref(), Some(&opening.principal));
        assert_eq!(returned.duration_ms, None);
        let error = returned.error.as_ref().unwrap();
        assert!(!error.code.is_empty() && !error.message.is_empty());
    }
    // The decision names its call.
    let decided: Vec<_> = events
        .iter()
        .filter(|logged| matches!(logged.event.body, EventBody::AuthorizationDecided(_)))
        .map(|logged| logged.event.causation_id.clone().unwrap())
        .collect();
    assert_eq!(decided, [events[0].event.event_id.clone(), events[3].event.event_id.clone()]);
}

/// RFC 0064, forbidden at load: a return without a call.
#[tokio::test]
async fn references_to_nothing_are_told_as_returns_without_a_call() {
    let rig = rig(&["echo"], "").await;
    let (tenant, agent) = ("t".parse().unwrap(), "agent:reviewer".parse().unwrap());
    let first = rig
        .gateway
        .audit()
        .forbidden_at_load(&tenant, &agent, ["mcp:s.gone", "mcp:s.other*", "mcp:s.gone"])
        .await
        .unwrap();
    let again =
        rig.gateway.audit().forbidden_at_load(&tenant, &agent, ["mcp:s.gone"]).await.unwrap();
    assert_ne!(first, again);
    assert_eq!(rig.log.recorded(), ["returned Forbidden forbidden"; 3]);
    let events = rig.log.kept.events();
    let row = serde_json::to_value(&events[0].event).unwrap();
    assert_eq!(
        row["payload"],
        json!({
            "agentId": "agent:reviewer",
            "toolName": "mcp:s.gone",
            // printf 'mcp:s.gone' | sha256sum
            "callId": "forbidden:426a012e814d1b389fd99158c3ad7ac1b04d63cf5c7791913fed0c3a48ec4635",
            "status": "forbidden",
            "error": {
                "code": "forbidden",
                "message": "the reference resolves to no tool that may be used",
            },
        })
    );
    assert_eq!(row.get("causationId"), None);
    let call_id = |at: usize| match &events[at].event.body {
        EventBody::ToolReturned(returned) => returned.call_id.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(call_id(0), call_id(2), "the same when it is loaded again");
    rig.log.fails.store(true, Ordering::SeqCst);
    let failed = rig.gateway.audit().forbidden_at_load(&tenant, &agent, ["mcp:s.gone"]).await;
    assert!(failed.is_err());
}

#[tokio::test]
async fn every_violation_is_told_and_nothing_runs() {
    let rig = rig(&["strict"], "").await;
    let caller = principal("t", ALL);
    let called = rig.call(&caller, "s__strict", json!({"n": "canary"})).await;
    let Err(CallError::InvalidArguments(violations)) = called.result else {
        panic!("{:?}", called.result)
    };
    let pointers: Vec<&str> = violations.iter().map(|v| v.pointer.as_str()).collect();
    assert!(pointers.contains(&"/n") && pointers.contains(&"/text"), "{pointers:?}");
    assert!(violations.iter().all(|v| !v.message.contains("canary")));
    for not_an_object in [json!([1]), json!("x"), json!(null), json!(7)] {
        let called = rig.call(&caller, "s__strict", not_an_object).await;
        assert!(matches!(called.result, Err(CallError::InvalidArguments(_))));
    }
    assert_eq!(rig.log.recorded()[1], "returned Error validation_error");
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
}

/// I-15: no run without a grant.
#[tokio::test]
async fn a_tool_that_wants_approval_does_not_run() {
    for approval in ["always", "conditional"] {
        let rules = format!("[source.tools.\"*\"]\napproval = \"{approval}\"");
        let rig = rig(&["echo"], &rules).await;
        let called = rig.call(&principal("t", ALL), "s__echo", json!({})).await;
        assert!(matches!(called.result, Err(CallError::ApprovalRequired { .. })));
        let recorded = ["asked mcp:s.echo", "called", "returned Error approval_required"];
        assert_eq!(rig.log.recorded(), recorded);
        assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
    }
}

/// I-18: no run without an opening event.
#[tokio::test]
async fn a_call_that_cannot_be_recorded_does_not_run() {
    let rig = rig(&["echo"], "").await;
    rig.log.fails.store(true, Ordering::SeqCst);
    let called = rig.call(&principal("t", ALL), "s__echo", json!({})).await;
    assert!(matches!(called.result, Err(CallError::NotAccountable(_))), "{:?}", called.result);
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
}

/// I-19: a finished call is answered, and its closing event is stored later.
#[tokio::test(start_paused = true)]
async fn a_closing_event_that_cannot_be_stored_does_not_fail_the_call() {
    let rig = rig(&["echo"], "").await;
    rig.log.fails_from.store(2, Ordering::SeqCst);
    let called = rig.call(&principal("t", ALL), "s__echo", json!({"text": "done"})).await;
    assert!(called.result.unwrap().content.get().contains("done"));
    assert_eq!(rig.log.recorded(), ["called"]);
    rig.log.fails_from.store(0, Ordering::SeqCst);
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let mut events = rig.log.recorded();
    events.retain(|event| !event.starts_with("resumed"));
    assert_eq!(events, ["called", "returned Ok ran"]);
}

#[tokio::test]
async fn every_way_a_source_fails_is_told_apart_and_recorded() {
    let rig = rig(&["fail", "down", "dies", "boom", "big"], "").await;
    let caller = principal("t", ALL);
    let failed = rig.call(&caller, "s__fail", json!({})).await.result.unwrap();
    assert!(failed.is_error);
    for (tool, kind) in [
        ("s__down", UpstreamErrorKind::Unavailable),
        ("s__dies", UpstreamErrorKind::Died),
        ("s__big", UpstreamErrorKind::TooLarge),
    ] {
        let called = rig.call(&caller, tool, json!({})).await;
        let Err(CallError::Upstream(error)) = called.result else { panic!("{tool}") };
        assert_eq!(error.kind, kind);
    }
    let called = rig.call(&caller, "s__boom", json!({})).await;
    assert!(matches!(called.result, Err(CallError::Internal)));
    assert_eq!(
        rig.log.recorded().into_iter().filter(|t| t.starts_with("returned")).collect::<Vec<_>>(),
        [
            "returned Error tool_execution_failed ran",
            "returned Error upstream_unavailable",
            "returned Error upstream_died ran",
            "returned Error result_too_large ran",
            "returned Error internal_error ran",
        ]
    );
}

/// I-35: the egress decision of a call is in its run, between its two events.
#[tokio::test]
async fn where_a_call_went_is_recorded_with_it() {
    let rig = rig(&["blocked", "sent_on"], "").await;
    let called = rig.call(&principal("t", ALL), "s__blocked", json!({})).await;
    let error = called.result.unwrap_err();
    assert_eq!((error.code(), error.retryable()), ("ssrf_blocked", false));
    assert!(!error.to_string().contains("10.0"), "{error}");
    assert!(called.duration.is_none(), "nothing was sent");
    assert_eq!(
        rig.log.recorded(),
        [
            "called",
            "egress Allowed a.example",
            "egress Denied 10.0.0.1",
            "returned Forbidden ssrf_blocked",
        ]
    );
    let events = rig.log.events_of(&called.run_id).await;
    let cause = Some(events[0].event_id.clone());
    assert!(events[1..].iter().all(|event| event.causation_id == cause));
    // A request that had been sent before the guard refused may have taken effect.
    let called = rig.call(&principal("t", ALL), "s__sent_on", json!({})).await;
    assert!(called.duration.is_some());
    assert_eq!(rig.log.recorded()[5], "returned Error ssrf_blocked ran");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_call_and_the_upstream_is_told() {
    let rig = rig(&["hang"], "[source.tools.\"*\"]\ntimeout = \"5s\"").await;
    let called = rig.call(&principal("t", ALL), "s__hang", json!({})).await;
    let Err(CallError::Upstream(error)) = called.result else { panic!("{:?}", called.result) };
    assert_eq!(error.kind, UpstreamErrorKind::Timeout);
    assert_eq!(rig.source().dropped.load(Ordering::SeqCst), 1, "the source's future was dropped");
    assert_eq!(rig.log.recorded()[1], "returned Error upstream_timeout ran");
}

/// I-22: a client that disconnects cancels the upstream call, and both events are recorded.
#[tokio::test]
async fn a_caller_that_hangs_up_cancels_and_is_recorded() {
    let rig = rig(&["hang"], "").await;
    let caller = principal("t", ALL);
    let source = rig.source();
    {
        let call = rig.call(&caller, "s__hang", json!({}));
        tokio::pin!(call);
        tokio::select! {
            _ = &mut call => panic!("it hangs"),
            () = eventually("it runs", || source.invoked.load(Ordering::SeqCst) == 1) => {}
        }
    }
    eventually("the upstream is told", || source.dropped.load(Ordering::SeqCst) == 1).await;
    eventually("the end is recorded", || rig.log.recorded().len() == 2).await;
    assert_eq!(rig.log.recorded(), ["called", "returned Error cancelled ran"]);
}

/// I-22: closing the gateway cancels all calls.
#[tokio::test]
async fn closing_waits_for_what_is_to_be_recorded() {
    let rig = rig(&["hang"], "").await;
    let (gateway, source) = (rig.gateway.clone(), rig.source());
    let caller = principal("t", ALL);
    let unknown = ToolRef::Id("nothing");
    gateway.find(&gateway.snapshot(), &caller, unknown, &CatalogScope::default());
    let call = tokio::spawn({
        let gateway = gateway.clone();
        async move {
            let tool = toolcrib_gateway::ToolRef::Wire("s__hang");
            let request = toolcrib_gateway::CallRequest::new(
                gateway.snapshot(),
                toolcrib_gateway::metrics::Surface::CLI,
                tool,
                json!({}),
            );
            gateway.call(&caller, request).await
        }
    });
    eventually("it runs", || source.invoked.load(Ordering::SeqCst) == 1).await;
    call.abort();
    gateway.close().await;
    let mut recorded = rig.log.recorded();
    recorded.sort();
    assert_eq!(
        recorded,
        ["called", "decided tools:read unknown unknown", "returned Error cancelled ran"]
    );
}

/// I-7: a tool is listed if and only if it is callable, checked from both sides.
#[tokio::test]
async fn what_is_listed_can_be_called_and_nothing_else() {
    let rules = "[source.tools.\"a*\"]\nscopes = [\"x\"]\n[source.tools.\"b*\"]\nscopes = [\"y:z\"]\n\
                 [source.tools.\"open\"]\nscopes = []";
    let rig = rig(&["a1", "a2", "b1", "open", "plain"], rules).await;
    for scopes in [&[][..], &["x"], &["y:*"], &["tools:s"], &["x", "y:z"], &["*"], &["z"]] {
        let caller = principal("t", scopes);
        let listed = rig.listed(&caller);
        for tool in ["a1", "a2", "b1", "open", "plain"] {
            let called = rig.call(&caller, &format!("s__{tool}"), json!({})).await;
            let on_list = listed.contains(&format!("mcp:s.{tool}"));
            assert_eq!(called.result.is_ok(), on_list, "{tool} for {scopes:?}");
        }
    }
}

/// Unauthenticated requests cannot fill the record: one event per second and route, and a count of
/// the rest.
#[tokio::test]
async fn refusals_without_credentials_are_counted_not_piled_up() {
    let rig = rig(&["echo"], "").await;
    for _ in 0..1000 {
        rig.gateway.audit().denials().unauthenticated("/v1/*");
    }
    rig.gateway.close().await;
    let repeated: Vec<Option<u64>> = rig
        .log
        .kept
        .events()
        .iter()
        .filter_map(|logged| match &logged.event.body {
            EventBody::AuthorizationDecided(decided) => Some(decided.repeated),
            _ => None,
        })
        .collect();
    let recorded = repeated.len() as u64 + repeated.iter().flatten().sum::<u64>();
    assert_eq!(recorded, 1000, "none is lost: {repeated:?}");
    assert!(repeated.len() <= 5, "{repeated:?}");
}

/// I-9: counts reveal no more to the caller's tenant than single events do.
#[tokio::test]
async fn counted_denials_of_foreign_and_unknown_tools_are_one_to_the_tenant() {
    let rig = rig(&["echo"], "tenants = [\"mine\"]").await;
    let stranger = principal("other", ALL);
    for _ in 0..300 {
        for tool in ["s__echo", "s__nothing"] {
            let request = CallRequest::new(
                rig.gateway.snapshot(),
                Surface::CLI,
                ToolRef::Wire(tool),
                json!({}),
            );
            assert!(rig.gateway.call(&stranger, request).await.result.is_err());
        }
    }
    rig.gateway.close().await;
    let decided = |tenant: &str| {
        let events = rig.log.kept.events().into_iter();
        let of_tenant = events.filter(|logged| logged.tenant.as_str() == tenant);
        let decided = of_tenant.filter_map(|logged| match logged.event.body {
            EventBody::AuthorizationDecided(decided) => Some(decided),
            _ => None,
        });
        decided.collect::<Vec<_>>()
    };
    let of_other = decided("other");
    assert!(of_other.iter().all(|it| it.resource == "unknown"), "{of_other:?}");
    let counts: Vec<u64> = of_other.iter().filter_map(|it| it.repeated).collect();
    assert_eq!(counts.len(), 1, "one event for both: {counts:?}");
    assert_eq!(of_other.len() as u64 + counts[0], 600);
    let of_operator = decided("-");
    let of_foreign: u64 = of_operator.iter().map(|it| 1 + it.repeated.unwrap_or(0)).sum();
    assert_eq!(of_foreign, 300, "{of_operator:?}");
}

/// A store that fails for a while: denials during that time are recorded later.
#[tokio::test]
async fn denials_that_cannot_be_stored_are_counted_and_told_of_later() {
    let rig = rig(&["echo"], "[source.tools.\"*\"]\nscopes = [\"a\"]").await;
    let nobody = principal("t", &[]);
    rig.log.fails.store(true, Ordering::SeqCst);
    for _ in 0..10 {
        rig.call(&nobody, "s__echo", json!({})).await;
    }
    assert!(rig.log.recorded().is_empty());
    rig.log.fails.store(false, Ordering::SeqCst);
    rig.gateway.close().await;
    assert_eq!(rig.log.recorded(), ["decided tools:call mcp:s.echo scope"]);
    let event = rig.log.kept.events()[0].event.clone();
    let EventBody::AuthorizationDecided(decided) = event.body else { panic!("{event:?}") };
    assert_eq!(decided.repeated, Some(9));
}
