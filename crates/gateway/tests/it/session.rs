//! Interactions: one run, and a tool session around the calls of each tool.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::json;
use toolcrib_core::{
    call::CallError,
    event::{EventBody, SessionOutcome},
    id::{PrincipalId, SessionId},
    principal::Principal,
};
use toolcrib_gateway::{
    CallReport, CallRequest, Interaction, Snapshot, ToolRef,
    metrics::Surface,
    session::{IDLE, MAX_INTERACTIONS},
};

use toolcrib_store::MemoryCatalogs;

use crate::support::{Rig, eventually, offer, one_source, principal, rig, rig_with};

const ALL: &[&str] = &["*"];

async fn call(
    snapshot: Arc<Snapshot>,
    interaction: &Interaction,
    caller: &Principal,
    tool: &str,
) -> CallReport {
    let request =
        CallRequest::new(snapshot, Surface::new("mcp", "Mcp"), ToolRef::Wire(tool), json!({}));
    interaction.call(caller, request).await
}

fn sessions(rig: &Rig) -> Vec<SessionId> {
    let events = rig.log.kept.events().into_iter();
    let ids = events.filter_map(|logged| match logged.event.body {
        EventBody::ToolSessionOpened(opened) => Some(opened.session_id),
        EventBody::ToolSessionClosed(closed) => Some(closed.session_id),
        _ => None,
    });
    ids.collect()
}

/// I-32.
#[tokio::test]
async fn the_calls_of_an_interaction_are_bracketed_in_one_run() {
    let rig = rig(&["echo", "fail"], "").await;
    let caller = principal("t", ALL);
    let interaction = rig.gateway.interaction(&caller).unwrap();
    assert!(rig.log.recorded().is_empty(), "nothing is recorded before the first call");
    for tool in ["s__echo", "s__echo", "s__fail"] {
        let called = call(rig.gateway.snapshot(), &interaction, &caller, tool).await;
        assert_eq!(called.run_id, *interaction.run_id());
        called.result.unwrap();
    }
    interaction.close(SessionOutcome::Completed).await;
    interaction.close(SessionOutcome::Failed).await;
    assert!(matches!(
        call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await.result,
        Err(CallError::Cancelled)
    ));
    drop(interaction);
    rig.gateway.close().await;
    assert_eq!(
        rig.log.recorded(),
        [
            "opened mcp:s.echo",
            "called",
            "returned Ok ran",
            "called",
            "returned Ok ran",
            "opened mcp:s.fail",
            "called",
            "returned Error tool_execution_failed ran",
            "closed mcp:s.echo Completed",
            "closed mcp:s.fail Completed",
        ],
        "closed once, after everything else"
    );
    let events = rig.log.kept.events();
    let runs: HashSet<_> = events.iter().map(|logged| &logged.event.run_id).collect();
    assert_eq!(runs.len(), 1);
    let sequences: Vec<_> = events.iter().map(|logged| logged.event.sequence).collect();
    assert_eq!(sequences, (0..10).collect::<Vec<_>>());
    assert_eq!(sessions(&rig).into_iter().collect::<HashSet<_>>().len(), 1, "one sessionId");
    assert_eq!(events[8].event.causation_id.as_ref(), Some(&events[0].event.event_id));
    assert_eq!(events[9].event.causation_id.as_ref(), Some(&events[5].event.event_id));
}

#[tokio::test]
async fn first_calls_at_once_open_one_session() {
    let rig = rig(&["echo"], "").await;
    let caller = principal("t", ALL);
    let interaction = rig.gateway.interaction(&caller).unwrap();
    let calls = (0..20).map(|_| call(rig.gateway.snapshot(), &interaction, &caller, "s__echo"));
    assert!(futures_util::future::join_all(calls).await.iter().all(|called| called.result.is_ok()));
    interaction.close(SessionOutcome::Completed).await;
    let recorded = rig.log.recorded();
    assert_eq!(recorded.first().unwrap(), "opened mcp:s.echo");
    assert_eq!(recorded.last().unwrap(), "closed mcp:s.echo Completed");
    assert_eq!(sessions(&rig).len(), 2);
    assert_eq!(recorded.len(), 42);
}

/// I-8, I-32: an interaction grants nothing: each call is authorized for its own caller.
#[tokio::test]
async fn a_denied_call_opens_nothing_and_another_caller_is_told_nothing() {
    let rig = rig(&["echo"], "[source.tools.\"*\"]\nscopes = [\"a\"]").await;
    let (may, now_may_not) = (principal("t", &["a"]), principal("t", &[]));
    let interaction = rig.gateway.interaction(&may).unwrap();
    let denied = call(rig.gateway.snapshot(), &interaction, &now_may_not, "s__echo").await;
    assert!(matches!(denied.result, Err(CallError::Forbidden { .. })));
    assert_eq!(denied.run_id, *interaction.run_id(), "recorded in the same run");
    let somebody = Principal { id: PrincipalId::parse("q").unwrap(), ..may.clone() };
    for stranger in [somebody, principal("u", &["a"])] {
        let called = call(rig.gateway.snapshot(), &interaction, &stranger, "s__echo").await;
        assert!(matches!(called.result, Err(CallError::NoSuchTool)));
        assert!(called.entry.is_none());
    }
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
    interaction.close(SessionOutcome::Completed).await;
    assert!(sessions(&rig).is_empty());
}

/// I-18: a call in a session that cannot be recorded does not run, and opens no session.
#[tokio::test]
async fn a_session_that_cannot_be_recorded_has_no_calls() {
    let rig = rig(&["echo"], "").await;
    let caller = principal("t", ALL);
    let interaction = rig.gateway.interaction(&caller).unwrap();
    rig.log.fails.store(true, Ordering::SeqCst);
    let called = call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await;
    assert!(matches!(called.result, Err(CallError::NotAccountable(_))), "{:?}", called.result);
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
    rig.log.fails.store(false, Ordering::SeqCst);
    call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await.result.unwrap();
    interaction.close(SessionOutcome::Completed).await;
    assert_eq!(
        rig.log.recorded(),
        ["opened mcp:s.echo", "called", "returned Ok ran", "closed mcp:s.echo Completed"]
    );
}

/// I-22: when the holder of an interaction disconnects, its calls are cancelled, and everything is
/// recorded.
#[tokio::test]
async fn an_interaction_that_is_dropped_is_cancelled() {
    let rig = rig(&["hang"], "").await;
    let caller = principal("t", ALL);
    let interaction = rig.gateway.interaction(&caller).unwrap();
    {
        let calling = call(rig.gateway.snapshot(), &interaction, &caller, "s__hang");
        tokio::pin!(calling);
        tokio::select! {
            _ = &mut calling => panic!("it hangs"),
            () = eventually("it runs", || rig.source().invoked.load(Ordering::SeqCst) == 1) => {}
        }
    }
    drop(interaction);
    eventually("the end is recorded", || rig.log.recorded().len() == 4).await;
    assert_eq!(
        rig.log.recorded(),
        [
            "opened mcp:s.hang",
            "called",
            "returned Error cancelled ran",
            "closed mcp:s.hang Cancelled"
        ]
    );
}

#[tokio::test]
async fn ending_an_interaction_ends_its_calls_first() {
    let rig = rig(&["hang"], "").await;
    let caller = principal("t", ALL);
    let interaction = Arc::new(rig.gateway.interaction(&caller).unwrap());
    let calling = tokio::spawn({
        let (interaction, caller) = (Arc::clone(&interaction), caller.clone());
        let snapshot = rig.gateway.snapshot();
        async move { call(snapshot, &interaction, &caller, "s__hang").await.result }
    });
    eventually("it runs", || rig.source().invoked.load(Ordering::SeqCst) == 1).await;
    interaction.close(SessionOutcome::Completed).await;
    assert!(matches!(calling.await.unwrap(), Err(CallError::Cancelled)));
    assert_eq!(
        rig.log.recorded()[2..],
        ["returned Error cancelled ran", "closed mcp:s.hang Completed"]
    );
}

#[tokio::test]
async fn closing_the_gateway_closes_what_is_open_as_failed() {
    let rig = rig(&["echo", "hang"], "").await;
    let caller = principal("t", ALL);
    let interaction = Arc::new(rig.gateway.interaction(&caller).unwrap());
    call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await.result.unwrap();
    let calling = tokio::spawn({
        let (interaction, caller) = (Arc::clone(&interaction), caller.clone());
        let snapshot = rig.gateway.snapshot();
        async move { call(snapshot, &interaction, &caller, "s__hang").await.result }
    });
    eventually("it runs", || rig.source().invoked.load(Ordering::SeqCst) == 2).await;
    rig.gateway.close().await;
    assert!(calling.await.unwrap().is_err());
    let recorded = rig.log.recorded();
    assert_eq!(
        recorded[recorded.len() - 2..],
        ["closed mcp:s.echo Failed", "closed mcp:s.hang Failed"]
    );
    assert!(rig.gateway.interaction(&caller).is_err(), "no new ones");
}

#[tokio::test(start_paused = true)]
async fn an_idle_interaction_is_closed_as_failed_and_opens_again() {
    let rig = rig(&["echo"], "").await;
    let caller = principal("t", ALL);
    let interaction = rig.gateway.interaction(&caller).unwrap();
    call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await.result.unwrap();
    tokio::time::sleep(IDLE / 2).await;
    call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await.result.unwrap();
    tokio::time::sleep(IDLE - Duration::from_secs(1)).await;
    assert_eq!(rig.log.recorded().len(), 5, "it was used in between");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.log.recorded().last().unwrap(), "closed mcp:s.echo Failed");
    call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await.result.unwrap();
    interaction.close(SessionOutcome::Completed).await;
    let ids = sessions(&rig);
    assert_eq!(ids.len(), 4);
    assert!(ids[0] == ids[1] && ids[2] == ids[3] && ids[0] != ids[2]);
    assert_eq!(rig.log.recorded().last().unwrap(), "closed mcp:s.echo Completed");
}

/// I-32, I-72: a session that is never idle is closed by age, after the calls that began in it;
/// later calls open another one. An age beyond `keep` has no effect.
#[tokio::test(start_paused = true)]
async fn a_busy_session_ends_by_age() {
    let hour = Duration::from_secs(3_600);
    for (config, age) in [
        ("[record]\nmax_session_age = \"2h\"", 2 * hour),
        ("[record]\nmax_session_age = \"2h\"\nkeep = \"90m\"", 3 * hour / 2),
        ("[record]\nmax_session_age = \"1h\"\nkeep = \"90d\"", hour),
    ] {
        let config = format!("{config}\n{}", one_source("[source.tools.\"*\"]\ntimeout = \"1h\""));
        let offers = Some(Ok(offer(&["echo", "hang"])));
        let rig = rig_with(offers, &config, MemoryCatalogs::default()).await;
        let caller = principal("t", ALL);
        let interaction = Arc::new(rig.gateway.interaction(&caller).unwrap());
        let begin = tokio::time::Instant::now();
        let last = begin + age - Duration::from_secs(240);
        while tokio::time::Instant::now() < last {
            call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await.result.unwrap();
            let next = tokio::time::Instant::now() + IDLE / 2;
            tokio::time::sleep_until(next.min(last)).await;
        }
        let calling = tokio::spawn({
            let (interaction, caller) = (Arc::clone(&interaction), caller.clone());
            let snapshot = rig.gateway.snapshot();
            async move { call(snapshot, &interaction, &caller, "s__hang").await.result }
        });
        eventually("it runs", || rig.log.recorded().last().unwrap() == "called").await;
        let ids = sessions(&rig);
        assert!(ids.len() == 2 && ids[0] == ids[1], "{config}: one session: {ids:?}");
        tokio::time::sleep(Duration::from_secs(400)).await;
        call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await.result.unwrap();
        let ids = sessions(&rig);
        assert!(ids.len() == 3 && ids[2] != ids[0], "{config}: another session: {ids:?}");
        let recorded = rig.log.recorded();
        assert!(!recorded.iter().any(|it| it.starts_with("closed")), "a call runs in the first");
        calling.abort();
        eventually("the first session is closed", || {
            rig.log.recorded().iter().filter(|it| it.starts_with("closed")).count() == 2
        })
        .await;
        let recorded = rig.log.recorded();
        let place = |wanted: &str| recorded.iter().position(|it| it == wanted).unwrap();
        assert!(place("returned Error cancelled ran") < place("closed mcp:s.hang Failed"));
        interaction.close(SessionOutcome::Completed).await;
        assert_eq!(rig.log.recorded().last().unwrap(), "closed mcp:s.echo Completed");
        let ids = sessions(&rig);
        assert_eq!(ids.len(), 6, "each is closed once: {:?}", rig.log.recorded());
    }
}

/// I-27: the number of interactions is limited, and one that has ended, used or not, makes room.
#[tokio::test]
async fn there_is_a_bound_on_interactions() {
    let rig = rig(&["echo"], "").await;
    let caller = principal("t", ALL);
    let mut held: Vec<_> =
        (0..MAX_INTERACTIONS).map(|_| rig.gateway.interaction(&caller).unwrap()).collect();
    assert!(rig.gateway.interaction(&caller).is_err());
    held.pop();
    let next = rig.gateway.interaction(&caller).unwrap();
    call(rig.gateway.snapshot(), &next, &caller, "s__echo").await.result.unwrap();
    assert!(rig.gateway.interaction(&caller).is_err());
    next.close(SessionOutcome::Completed).await;
    assert!(rig.gateway.interaction(&caller).is_ok());
}

/// I-32: whenever interactions end, each tool of each session is opened once before its calls, and
/// closed once after the last event of a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bracket_is_closed_once_and_last() {
    let rig = Arc::new(rig(&["echo", "fail", "hang"], "").await);
    let caller = principal("t", ALL);
    let mut all = Vec::new();
    for number in 0..120 {
        let (rig, caller) = (Arc::clone(&rig), caller.clone());
        all.push(tokio::spawn(async move {
            let interaction = Arc::new(rig.gateway.interaction(&caller).unwrap());
            call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await.result.unwrap();
            let calls = (0..4).map(|index| {
                let (interaction, caller) = (Arc::clone(&interaction), caller.clone());
                let snapshot = rig.gateway.snapshot();
                let tool = ["s__echo", "s__fail", "s__hang"][(number + index) % 3];
                tokio::spawn(async move { drop(call(snapshot, &interaction, &caller, tool).await) })
            });
            let calls: Vec<_> = calls.collect();
            for _ in 0..number % 7 {
                tokio::task::yield_now().await;
            }
            match number % 4 {
                0 => interaction.close(SessionOutcome::Completed).await,
                1 => calls.iter().for_each(tokio::task::JoinHandle::abort),
                2 => {
                    calls[number % 4].abort();
                    interaction.close(SessionOutcome::Failed).await;
                }
                _ => {
                    tokio::join!(
                        interaction.close(SessionOutcome::Completed),
                        interaction.close(SessionOutcome::Cancelled)
                    );
                }
            }
            drop(interaction);
            for call in calls {
                call.await.ok();
            }
        }));
    }
    for one in all {
        one.await.unwrap();
    }
    rig.gateway.close().await;

    let events = rig.log.kept.events();
    let mut runs = std::collections::HashMap::<_, Vec<_>>::new();
    for logged in &events {
        runs.entry(&logged.event.run_id).or_default().push(&logged.event.body);
    }
    assert_eq!(runs.len(), 120);
    for (run, bodies) in runs {
        let (mut open, mut pending, mut closing) = (HashSet::new(), 0, false);
        for body in &bodies {
            match body {
                EventBody::ToolSessionOpened(opened) => {
                    assert!(
                        open.insert(opened.tool_id.to_string()),
                        "{run} opened twice: {bodies:?}"
                    );
                }
                EventBody::ToolCalled(called) => {
                    assert!(!closing && open.contains(&called.tool_name), "{run}: {bodies:?}");
                    pending += 1;
                }
                EventBody::ToolReturned(_) => pending -= 1,
                EventBody::ToolSessionClosed(closed) => {
                    closing = true;
                    assert_eq!(pending, 0, "{run} closed during a call: {bodies:?}");
                    assert!(open.remove(closed.tool_id.as_str()), "{run} closed twice: {bodies:?}");
                }
                EventBody::AuthorizationDecided(_) => panic!("nobody is denied"),
                EventBody::EgressDecided(_) => panic!("nothing leaves"),
                EventBody::ToolPinDrifted(_)
                | EventBody::ToolPinApproved(_)
                | EventBody::RecordAccepted(_)
                | EventBody::RecordResumed(_)
                | EventBody::SignInStarted(_)
                | EventBody::SignInEnded(_)
                | EventBody::SavedChanged(_)
                | EventBody::KeyChanged(_)
                | EventBody::AccountConnected(_)
                | EventBody::AccountDisconnected(_)
                | EventBody::AccountRefused(_)
                | EventBody::ClientSignedIn(_)
                | EventBody::ClientSignedOut(_)
                | EventBody::ConfigEdited(_) => panic!("nothing changes"),
                EventBody::InterruptRequested(_)
                | EventBody::ApprovalGranted(_)
                | EventBody::ApprovalRejected(_)
                | EventBody::ApprovalOverridden(_) => panic!("nobody is asked"),
            }
        }
        assert!(open.is_empty(), "{run} left open: {bodies:?}");
    }
}

/// Refused calls cannot fill the log through the sessions around them.
#[tokio::test]
async fn refusals_that_are_only_counted_open_no_session() {
    let rig = rig(&["echo"], "[source.tools.\"*\"]\nrate = \"1/d\"").await;
    let caller = principal("t", ALL);
    for _ in 0..500 {
        let interaction = rig.gateway.interaction(&caller).unwrap();
        let _refused = call(rig.gateway.snapshot(), &interaction, &caller, "s__echo").await;
        interaction.close(SessionOutcome::Completed).await;
    }
    // One call that ran, a hundred refusals, and each with its session.
    let recorded = rig.log.recorded();
    assert_eq!(recorded.iter().filter(|it| it.starts_with("opened")).count(), 101);
    assert_eq!(recorded.len(), 404);
}
