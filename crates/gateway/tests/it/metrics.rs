//! The metrics of calls, and the table of all metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::DateTime;
use serde_json::json;
use toolcrib_core::principal::{AuthMethod, PresentedToken, Principal, Token};
use toolcrib_gateway::metrics::{METRICS, MetricKind};
use toolcrib_store::MemoryCatalogs;

use crate::support::{Rig, eventually, offer, one_source, parse, principal, rig, rig_with};

/// Returns the samples of the counter `calls` as `tool tenant result: count`.
async fn calls(rig: &Rig) -> Vec<String> {
    let text = rig.gateway.metrics_text().await;
    let mut found: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("toolcrib_calls_total{"))
        .map(|line| {
            let (labels, count) = line.rsplit_once("} ").unwrap();
            let labels: BTreeMap<&str, &str> = labels
                .split(',')
                .map(|label| label.split_once('=').unwrap())
                .map(|(name, value)| (name, value.trim_matches('"')))
                .collect();
            assert_eq!(labels["surface"], "Cli");
            format!(
                "{} {} {} {}: {count}",
                labels["source"], labels["tool"], labels["tenant"], labels["result"]
            )
        })
        .collect();
    found.sort();
    found
}

async fn limited(metrics: &str) -> Rig {
    let text = format!("[metrics]\n{metrics}\n{}", one_source(""));
    rig_with(Some(Ok(offer(&["echo", "fail", "dies"]))), &text, MemoryCatalogs::default()).await
}

#[tokio::test]
async fn calls_are_counted_by_tool_tenant_and_result() {
    let rig = limited("").await;
    let (acme, globex) = (principal("acme", &["*"]), principal("globex", &["*"]));
    rig.call(&acme, "s__echo", json!({})).await;
    rig.call(&acme, "s__echo", json!({})).await;
    rig.call(&acme, "s__fail", json!({})).await;
    rig.call(&globex, "s__dies", json!({})).await;
    rig.call(&globex, "s__unknown_canary", json!({})).await;
    rig.call(&principal("globex", &[]), "s__echo", json!({})).await;
    assert_eq!(
        calls(&rig).await,
        [
            "none none globex forbidden: 1",
            "none none globex not_found: 1",
            "s mcp:s.dies globex upstream_died: 1",
            "s mcp:s.echo acme ok: 2",
            "s mcp:s.fail acme tool_error: 1",
        ]
    );
    // I-20: what callers write is no label.
    assert!(!rig.gateway.metrics_text().await.contains("canary"));
}

#[tokio::test]
async fn only_so_many_tools_and_tenants_are_labels() {
    let rig = limited("tools = 1\ntenants = 1").await;
    for tenant in ["acme", "globex", "initech"] {
        for tool in ["s__echo", "s__fail"] {
            rig.call(&principal(tenant, &["*"]), tool, json!({})).await;
        }
    }
    let expected = [
        "s mcp:s.echo acme ok: 1",
        "s mcp:s.echo other tenants ok: 2",
        "s other acme tool_error: 1",
        "s other other tenants tool_error: 2",
    ];
    assert_eq!(calls(&rig).await, expected);
}

#[tokio::test]
async fn listed_tools_and_tenants_alone_are_labels_and_a_reload_changes_them() {
    let rig = limited("tools = [\"mcp:s.fail\"]\ntenants = [\"globex\"]").await;
    let call = async || {
        for tool in ["s__echo", "s__fail"] {
            rig.call(&principal("globex", &["*"]), tool, json!({})).await;
            rig.call(&principal("acme", &["*"]), tool, json!({})).await;
        }
    };
    call().await;
    let expected = [
        "s mcp:s.fail globex tool_error: 1",
        "s mcp:s.fail other tenants tool_error: 1",
        "s other globex ok: 1",
        "s other other tenants ok: 1",
    ];
    assert_eq!(calls(&rig).await, expected);
    let off = format!("[metrics]\ntools = 0\ntenants = 0\n{}", one_source(""));
    rig.gateway.apply(parse(&off)).await.unwrap();
    assert_eq!(calls(&rig).await, Vec::<String>::new());
    call().await;
    assert_eq!(
        calls(&rig).await,
        ["s other other tenants ok: 2", "s other other tenants tool_error: 2"]
    );
}

/// An issuer of tokens may name any tenant, so only tenants of the configuration become labels by one.
#[tokio::test]
async fn a_token_adds_no_tenant_to_the_labels() {
    let rig = rig(&["echo"], "tenants = [\"known\", \"stranger\"]\n").await;
    let by_token = |tenant: &str| Principal {
        auth: AuthMethod::Jwt(Arc::new(Token {
            client: None,
            actors: Vec::new(),
            presented: PresentedToken::default(),
            issuer: "https://id.example.com".to_owned(),
            expires_at: DateTime::UNIX_EPOCH,
            roles: Vec::new(),
            scopes: Vec::new(),
            proof: [0; 32],
        })),
        ..principal(tenant, &["*"])
    };
    rig.call(&by_token("known"), "s__echo", json!({})).await;
    rig.call(&by_token("made-up"), "s__echo", json!({})).await;
    rig.call(&principal("of-a-key", &["*"]), "s__echo", json!({})).await;
    assert_eq!(
        calls(&rig).await,
        [
            "none none of-a-key not_found: 1",
            "none none other tenants not_found: 1",
            "s mcp:s.echo known ok: 1",
        ]
    );
}

#[tokio::test]
async fn run_times_have_exemplars_with_the_run_and_the_gate_is_measured() {
    let rig = rig(&["echo"], "").await;
    rig.call(&principal("t", &[]), "s__echo", json!({})).await;
    let text = rig.gateway.metrics_text().await;
    assert!(text.contains("toolcrib_gate_seconds_count 0"), "{text}");
    let called = rig.call(&principal("t", &["*"]), "s__echo", json!({})).await;
    let text = rig.gateway.metrics_text().await;
    let exemplar = format!("# {{run_id=\"{}\"}} ", called.run_id);
    let with =
        text.lines().find(|line| line.contains(&exemplar)).unwrap_or_else(|| panic!("{text}"));
    assert!(with.starts_with("toolcrib_call_seconds_bucket{le="), "{with}");
    for line in [
        "toolcrib_call_seconds_count{source=\"s\"} 1",
        "toolcrib_gate_seconds_count 1",
        "toolcrib_source_up{source=\"s\"} 1",
        "toolcrib_store_append_failures_total 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn tools_and_sources_that_are_gone_leave_their_places() {
    let rig = limited("tools = 1").await;
    let caller = principal("t", &["*"]);
    rig.call(&caller, "s__echo", json!({})).await;
    rig.source().offer(&["fail"]);
    eventually("the tool is gone", || rig.listed(&caller) == ["mcp:s.fail"]).await;
    rig.call(&caller, "s__fail", json!({})).await;
    assert_eq!(calls(&rig).await, ["s mcp:s.fail t tool_error: 1"]);
    rig.gateway.apply(parse("[metrics]\ntools = 1\n")).await.unwrap();
    let text = rig.gateway.metrics_text().await;
    let left: Vec<&str> = text.lines().filter(|it| it.contains("source=\"s\"")).collect();
    assert_eq!(left, Vec::<&str>::new());
}

#[tokio::test]
async fn the_table_describes_every_metric() {
    // I-6
    let rig = rig(&["echo"], "").await;
    rig.call(&principal("t", &["*"]), "s__echo", json!({})).await;
    let text = rig.gateway.metrics_text().await;
    let named: BTreeSet<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE toolcrib_")?.split_once(' '))
        .collect();
    let described: BTreeSet<(&str, &str)> =
        METRICS.iter().map(|it| (it.name, it.kind.as_str())).collect();
    // A family without a series has no line.
    assert!(named.is_subset(&described), "{:?}", named.difference(&described));
    for metric in METRICS {
        assert!(!metric.meaning.is_empty() && !metric.meaning.ends_with('.'), "{}", metric.name);
        for ending in metric.kind.endings() {
            let name = format!("toolcrib_{}{ending}", metric.name);
            for line in text.lines().filter(|it| it.split([' ', '{']).next() == Some(&name)) {
                let labels = line.split_once('{').map_or("", |it| it.1);
                let labels = labels.split_once('}').map_or("", |it| it.0);
                let mut labels: Vec<&str> = labels.split(',').filter(|it| !it.is_empty()).collect();
                labels.retain(|it| metric.kind != MetricKind::Histogram || !it.starts_with("le="));
                let labels: BTreeSet<&str> =
                    labels.iter().map(|it| it.split_once('=').unwrap().0).collect();
                assert_eq!(labels, metric.labels.iter().copied().collect(), "{line}");
            }
        }
    }
}
