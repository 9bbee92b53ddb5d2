//! The catalog follows its sources, and outlives their failures.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::json;
use toolcrib_core::{call::UpstreamErrorKind, source::SourceState, store::CatalogStore};
use toolcrib_store::MemoryCatalogs;

use crate::support::{eventually, offer, one_source, parse, principal, rig, rig_with};

#[tokio::test]
async fn a_change_at_a_source_becomes_a_new_generation() {
    let rig = rig(&["one"], "").await;
    let caller = principal("t", &["*"]);
    let before = rig.gateway.snapshot();
    assert_eq!(rig.listed(&caller), ["mcp:s.one"]);
    rig.source().offer(&["one", "two"]);
    eventually("the new tool is listed", || rig.listed(&caller).len() == 2).await;
    assert!(rig.gateway.snapshot().catalog.generation() > before.catalog.generation());
    assert!(
        before.catalog.by_id(&caller.tenant, "mcp:s.two").is_none(),
        "I-23: an old snapshot never changes"
    );
}

#[tokio::test]
async fn an_unchanged_list_is_no_new_generation() {
    let rig = rig(&["one"], "").await;
    let generation = rig.gateway.snapshot().catalog.generation();
    rig.source().offer(&["one"]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(rig.gateway.snapshot().catalog.generation(), generation);
}

/// I-25: the last known catalog is kept while a source fails, and after a restart.
#[tokio::test]
async fn the_last_good_catalog_survives_a_failing_source_and_a_restart() {
    let first = rig(&["one"], "").await;
    let caller = principal("t", &["*"]);
    *first.source().offers.lock() = Err(UpstreamErrorKind::Unavailable);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(first.listed(&caller), ["mcp:s.one"]);
    let catalogs = first.catalogs.clone();
    first.gateway.close().await;

    let down = Some(Err(UpstreamErrorKind::Unavailable));
    let second = rig_with(down, &one_source(""), catalogs).await;
    assert_eq!(second.listed(&caller), ["mcp:s.one"]);
    assert_eq!(second.gateway.supply().reports()[0].discovered_at, None);
}

#[tokio::test]
async fn a_source_whose_tools_cannot_be_listed_is_not_ready_and_says_why() {
    let rig = rig(&["one"], "").await;
    let id = "s".parse().unwrap();
    let status = || rig.gateway.supply().reports()[0].status.clone();
    assert_eq!(status().state, SourceState::Ready);
    *rig.source().offers.lock() = Err(UpstreamErrorKind::Refused);
    rig.gateway.supply().refresh(&id);
    eventually("it is not ready", || status().state == SourceState::Degraded).await;
    let detail = status().detail.unwrap();
    assert!(detail.starts_with("its tools could not be listed, 1 times in a row"), "{detail}");
    *rig.source().offers.lock() = Ok(offer(&["one"]));
    rig.gateway.supply().refresh(&id);
    eventually("it is ready again", || status().state == SourceState::Ready).await;
}

#[tokio::test]
async fn an_unreadable_stored_catalog_is_ignored() {
    let catalogs = MemoryCatalogs::default();
    let id = "s".parse().unwrap();
    catalogs.save(&id, "{not json".to_owned(), chrono::Utc::now()).await.unwrap();
    let rig = rig_with(Some(Ok(offer(&["one"]))), &one_source(""), catalogs).await;
    assert_eq!(rig.listed(&principal("t", &["*"])), ["mcp:s.one"]);
}

/// I-25: a dead source does not affect the others.
#[tokio::test]
async fn reload_keeps_what_did_not_change_and_closes_what_is_gone() {
    let rig = rig(&["echo"], "").await;
    let caller = principal("t", &["*"]);
    let two =
        format!("{}[[source]]\nid = \"b\"\nkind = \"mcp\"\ncommand = [\"y\"]\n", one_source(""));
    let plan = rig.gateway.apply(parse(&two)).await.unwrap();
    assert_eq!(
        (plan.started, plan.replaced, plan.removed),
        (vec!["b".parse().unwrap()], vec![], vec![])
    );
    eventually("both are listed", || rig.listed(&caller).len() == 2).await;
    assert_eq!(rig.factory.built.lock().len(), 2, "the first source went on running");

    let rules = "[source.tools.\"*\"]\nsafety_tier = \"pure\"";
    let plan = rig.gateway.plan(&parse(&one_source(rules)));
    assert_eq!(
        (plan.started, plan.replaced, plan.removed),
        (vec![], vec![], vec!["b".parse().unwrap()])
    );
    assert_eq!(rig.listed(&caller).len(), 2, "a plan changes nothing");
    rig.gateway.apply(parse(&one_source(rules))).await.unwrap();
    assert_eq!(rig.listed(&caller), ["mcp:s.echo"]);
    assert_eq!(rig.factory.built.lock().len(), 2, "a changed rule restarts nothing");
    let removed = Arc::clone(&rig.factory.built.lock()[1]);
    eventually("it is closed", || removed.closed.load(Ordering::SeqCst) == 1).await;
    let entry =
        rig.gateway.snapshot().catalog.by_id(&caller.tenant, "mcp:s.echo").cloned().unwrap();
    assert_eq!(entry.tool.safety_tier.as_str(), "pure");
    rig.call(&caller, "s__echo", json!({})).await.result.unwrap();
}

/// I-16: tools that would share a name are left out and reported.
#[tokio::test]
async fn tools_that_would_share_a_name_are_left_out_and_reported() {
    let rig = rig(&["a-b", "a_b", "fine"], "").await;
    assert_eq!(rig.listed(&principal("t", &["*"])), ["mcp:s.fine"]);
    let problems = &rig.gateway.supply().reports()[0].problems;
    assert!(problems.iter().any(|p| p.contains("mcp:s.a-b and mcp:s.a_b")), "{problems:?}");
}

/// I-16: bare names are called as they are. A name that two sources offer is left out, and a name
/// in the prefixed form of another source is never bare.
#[tokio::test]
async fn bare_names_that_two_sources_share_are_left_out_and_reported() {
    let other = SECOND.replace("\"b\"", "\"t\"");
    let text = format!("{}names = \"bare\"\n{other}names = \"bare\"\n", one_source(""));
    let rig = rig_with(Some(Ok(offer(&["one"]))), &text, MemoryCatalogs::default()).await;
    let caller = principal("t", &["*"]);
    assert_eq!(rig.listed(&caller), [""; 0]);
    for source in rig.gateway.supply().reports() {
        let told = |p: &String| p.contains("mcp:s.one and mcp:t.one");
        assert!(source.problems.iter().any(told), "{:?}", source.problems);
    }
    rig.source().offer(&["mine", "t__one", "a.b"]);
    eventually("they part", || rig.listed(&caller).len() == 4).await;
    for name in ["mine", "s__t__one", "one"] {
        rig.call(&caller, name, json!({})).await.result.unwrap();
    }
    rig.call(&caller, "s__mine", json!({})).await.result.unwrap_err();
}

#[tokio::test]
async fn a_grant_that_reaches_nothing_is_reported() {
    let text = format!(
        "[[role]]\nname = \"r\"\nscopes = [\"tools:*\", \"audit:read\", \"fiels:read\"]\n{}",
        one_source("")
    );
    let rig = rig_with(Some(Ok(offer(&["one"]))), &text, MemoryCatalogs::default()).await;
    assert_eq!(rig.gateway.unmatched_grants(), ["role \"r\": fiels:read"]);
}

const SECOND: &str = "[[source]]\nid = \"b\"\nkind = \"mcp\"\ncommand = [\"y\"]\n";

/// I-25: a source that never responds delays no other source's refresh.
#[tokio::test]
async fn a_hanging_discovery_delays_no_other_source() {
    let rig =
        rig_with(None, &format!("{}{SECOND}", one_source("")), MemoryCatalogs::default()).await;
    let caller = principal("t", &["*"]);
    let second = Arc::clone(&rig.factory.built.lock()[1]);
    let before = second.asked.load(Ordering::SeqCst);
    second.hangs.store(true, Ordering::SeqCst);
    second.offer(&["late"]);
    eventually("it is being asked", || second.asked.load(Ordering::SeqCst) > before).await;
    rig.source().offer(&["fresh"]);
    eventually("the other is refreshed", || {
        rig.listed(&caller).contains(&"mcp:s.fresh".to_owned())
    })
    .await;
}

/// I-27: a failed discovery is retried with exponential backoff, and the report has the reason.
#[tokio::test]
async fn a_failed_discovery_is_reported_and_tried_again() {
    let rig = rig(&["one"], "").await;
    let source = rig.source();
    source.refuses.store(true, Ordering::SeqCst);
    source.offer(&["two"]);
    let problem =
        || rig.gateway.supply().reports()[0].problems.first().cloned().unwrap_or_default();
    eventually("it is reported", || problem().contains("no list today")).await;
    assert_eq!(rig.listed(&principal("t", &["*"])), ["mcp:s.one"], "what was known is kept");
    source.refuses.store(false, Ordering::SeqCst);
    eventually("it is asked again unasked", || {
        rig.listed(&principal("t", &["*"])) == ["mcp:s.two"]
    })
    .await;
    eventually("nothing is wrong any more", || problem().is_empty()).await;
}

#[tokio::test]
async fn a_refused_configuration_starts_nothing() {
    let rig = rig(&["one"], "").await;
    let bad = format!(
        "{}{SECOND}[[source]]\nid = \"c\"\nkind = \"mcp\"\ncommand = [\"impossible\"]\n",
        one_source("")
    );
    assert!(rig.gateway.apply(parse(&bad)).await.is_err());
    assert_eq!(rig.factory.built.lock().len(), 1);
    assert_eq!(rig.listed(&principal("t", &["*"])), ["mcp:s.one"]);
}

#[tokio::test]
async fn another_server_under_an_old_id_does_not_show_the_old_tools() {
    let first = rig(&["one"], "").await;
    let catalogs = first.catalogs.clone();
    first.gateway.close().await;
    let down = Some(Err(UpstreamErrorKind::Unavailable));
    let other = one_source("").replace("[\"x\"]", "[\"another\"]");
    let second = rig_with(down, &other, catalogs).await;
    assert!(second.listed(&principal("t", &["*"])).is_empty());
}

/// I-22: calls of a source that a reload removes may finish.
#[tokio::test]
async fn a_removed_source_is_closed_after_its_calls() {
    let rig = rig(&["hang"], "").await;
    let source = rig.source();
    let gateway = rig.gateway.clone();
    let call = tokio::spawn(async move {
        let tool = toolcrib_gateway::ToolRef::Wire("s__hang");
        let surface = toolcrib_gateway::metrics::Surface::CLI;
        let request =
            toolcrib_gateway::CallRequest::new(gateway.snapshot(), surface, tool, json!({}));
        gateway.call(&principal("t", &["*"]), request).await
    });
    eventually("it runs", || source.invoked.load(Ordering::SeqCst) == 1).await;
    rig.gateway.apply(parse("")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(source.closed.load(Ordering::SeqCst), 0, "a call is in flight");
    call.abort();
    eventually("it is closed", || source.closed.load(Ordering::SeqCst) == 1).await;
}
