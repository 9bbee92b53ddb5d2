//! The alert rules and the dashboard: each name is that of a metric, and the real Prometheus loads and
//! evaluates all of them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use toolcrib_gateway::metrics::{METRICS, MetricDescription, MetricKind};
use toolcrib_testkit::prometheus::{PrometheusServer, promtool};

use crate::support::{Caller, Server, config, dir, eventually_async, key, write_config};

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(deploy(path)).unwrap()
}

/// Returns the expressions of the dashboard.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("grafana/toolcrib.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// The values of keys such as `alert: NAME`.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let key = format!("{key}: ");
    text.lines()
        .filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix(&key))
        .collect()
}

/// A use of a metric in an expression.
#[derive(Debug)]
struct Use<'a> {
    name: &'a str,
    before: &'a str,
    labels: BTreeSet<&'a str>,
}

/// Returns the uses of metrics of toolcrib in `text`.
fn uses(text: &str) -> Vec<Use<'_>> {
    let found = text.match_indices("toolcrib_").map(|(start, _)| {
        let (before, rest) = text.split_at(start);
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let selector =
            after.strip_prefix('{').and_then(|it| it.split_once('}')).map_or("", |it| it.0);
        // No value of a selector has a comma.
        let labels = selector.split(',').filter(|it| !it.is_empty());
        let labels = labels.map(|it| it.split(['=', '!']).next().unwrap().trim()).collect();
        Use { name, before, labels }
    });
    found.collect()
}

/// Returns the description of the metric whose sample is `name`.
fn described(name: &str) -> Option<&'static MetricDescription> {
    METRICS.iter().find(|metric| {
        let endings = metric.kind.endings().iter();
        endings.into_iter().any(|ending| name == format!("toolcrib_{}{ending}", metric.name))
    })
}

#[test]
fn the_alerts_and_the_dashboard_use_metrics_as_they_are() {
    let mut texts = queries();
    assert!(texts.len() > 60, "{}", texts.len());
    // Its comments and links have no metric.
    texts.push(read("prometheus/alerts.yml").lines().filter(|it| !it.contains("://")).collect());
    let mut used = BTreeSet::new();
    for text in &texts {
        let mut possible: BTreeSet<&str> = ["instance", "le"].into();
        for Use { name, before, labels } in uses(text) {
            let metric = described(name).unwrap_or_else(|| panic!("no metric {name}: {text}"));
            used.insert(metric.name);
            let own: BTreeSet<&str> = metric.labels.iter().copied().chain(["instance"]).collect();
            assert!(labels.is_subset(&own), "{name} has no such label: {labels:?}");
            possible.extend(own);
            let is_rate = ["rate(", "increase("].iter().any(|it| before.ends_with(it));
            let grows = matches!(metric.kind, MetricKind::Counter | MetricKind::Histogram);
            assert_eq!(is_rate, grows, "{name} is a {}: {text}", metric.kind.as_str());
        }
        for (_, rest) in text.match_indices(" by (").map(|(at, _)| text.split_at(at + 5)) {
            for label in rest.split(')').next().unwrap().split(", ") {
                assert!(possible.contains(label), "no label {label}: {text}");
            }
        }
    }
    // All but the text of a build are watched.
    let all: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let left: Vec<_> = all.difference(&used).collect();
    assert!(left.is_empty(), "neither the alerts nor the dashboard use {left:?}");
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard: Value = serde_json::from_str(&read("grafana/toolcrib.json")).unwrap();
    assert_eq!((&dashboard["uid"], &dashboard["title"]), (&json!("toolcrib"), &json!("toolcrib")));
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36);
    // A dashboard with an id can replace another one.
    assert_eq!(dashboard.get("id"), None);
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let mut places = BTreeSet::new();
    for panel in panels {
        let place = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{}", panel["title"]);
        for y in place("y")..place("y") + place("h") {
            for x in place("x")..place("x") + place("w") {
                assert!(places.insert((x, y)), "{} covers another panel", panel["title"]);
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        let targets = panel["targets"].as_array().unwrap();
        let names: BTreeSet<_> = targets.iter().map(|it| it["refId"].as_str().unwrap()).collect();
        assert_eq!(names.len(), targets.len(), "{}", panel["title"]);
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "instance", "source", "tenant"]);
}

#[test]
fn every_alert_has_a_test_and_a_row_in_the_playbook() {
    let (rules, tests) = (read("prometheus/alerts.yml"), read("prometheus/alerts_test.yml"));
    let guide = fs::read_to_string(deploy("../docs/guides/observe.md")).unwrap();
    let alerts = values(&rules, "alert");
    assert!(alerts.len() > 20);
    for alert in &alerts {
        assert!(values(&tests, "alertname").contains(alert), "{alert} has no test");
        assert!(guide.contains(&format!("\n| `{alert}` | ")), "{alert} is not in the playbook");
    }
    let links = values(&rules, "runbook_url");
    assert_eq!(links.len(), alerts.len());
    let place = "/docs/guides/observe.md#incident-playbook";
    assert!(links.iter().all(|it| it.ends_with(place)), "{links:?}");
    assert!(guide.contains("\n### Incident playbook\n"));
}

#[test]
fn promtool_accepts_and_tests_the_alerts() {
    let folder = deploy("prometheus");
    let Some(checked) = promtool(&folder, &["check", "rules", "alerts.yml"]) else { return };
    assert!(checked.0, "{}", checked.1);
    let (is_good, text) = promtool(&folder, &["test", "rules", "alerts_test.yml"]).unwrap();
    assert!(is_good, "{text}");
}

/// Queries of Prometheus.
struct Queries(Caller);

impl Queries {
    /// Waits until Prometheus answers queries: it listens some time before.
    async fn of(prometheus: &PrometheusServer) -> Self {
        let caller = Caller::new(&prometheus.url(), None);
        let is_ready = async || caller.get("/-/ready").await.0 == 200;
        eventually_async("Prometheus is ready", is_ready).await;
        Self(caller)
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.0.get(path).await;
        assert_eq!((status, &body["status"]), (200, &json!("success")), "{path}: {body}");
        body["data"].clone()
    }

    /// The current result of `expression`.
    async fn query(&self, expression: &str) -> Vec<Value> {
        let expression: String =
            url::form_urlencoded::byte_serialize(expression.as_bytes()).collect();
        let data = self.get(&format!("/api/v1/query?query={expression}")).await;
        data["result"].as_array().unwrap().clone()
    }

    async fn eventually(&self, expression: &str) -> Vec<Value> {
        for _ in 0..600 {
            let found = self.query(expression).await;
            if !found.is_empty() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not within a minute: {expression}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_reads_a_real_server() {
    let dir = dir();
    let more = "[[source]]\nid = \"gone\"\nkind = \"mcp\"\nurl = \"http://127.0.0.1:1/mcp\"\n\
                [record]\ncheckpoint_interval = \"1s\"\n\
                [[record.forward]]\nname = \"copy\"\nkind = \"file\"\nfile = \"copy.jsonl\"\n";
    let file = write_config(dir.path(), &config(more));
    let (_, operator) = key(dir.path(), &["--scope", "metrics:all"]);
    let (_, agent) = key(dir.path(), &["--scope", "demo:read", "--tenant", "acme"]);
    let server = Server::start(dir.path());
    let target = server.url.strip_prefix("http://").unwrap();
    let rules = deploy("prometheus/alerts.yml");
    let prometheus = PrometheusServer::start(&format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [\"{}\"]\n\
         scrape_configs:\n\
         - job_name: toolcrib\n  authorization: {{ credentials: \"{operator}\" }}\n  \
           static_configs: [{{ targets: [\"{target}\"] }}]\n",
        rules.display()
    ));
    let Some(prometheus) = prometheus else { return };
    let queries = Queries::of(&prometheus).await;
    queries.eventually("toolcrib_build_info").await;
    queries.eventually("toolcrib_source_tools{source=\"demo\"} > 0").await;

    let agent = server.caller(Some(&agent));
    let make_calls = async || {
        for (tool, input) in [
            ("demo__echo", json!({ "text": "a canary argument" })),
            ("demo__fail", json!({})),
            ("demo__no_such_canary", json!({})),
            ("demo__echo", json!({ "text": 1 })),
        ] {
            agent.otc(tool, input).await;
        }
        server.caller(None).get("/v1/tools").await;
    };
    // A rate needs two scrapes with the series.
    for _ in 0..3 {
        make_calls().await;
        tokio::time::sleep(Duration::from_millis(1_200)).await;
    }
    make_calls().await;
    queries.eventually("rate(toolcrib_calls_total{result=\"tool_error\"}[1m]) > 0").await;
    queries.eventually("toolcrib_record_checkpoint_time_seconds > 0").await;
    queries.eventually("rate(toolcrib_http_requests_total{status=\"401\"}[1m]) > 0").await;

    let mut empty = Vec::new();
    for query in queries_of_dashboard() {
        if queries.query(&query).await.is_empty() {
            empty.push(query);
        }
    }
    // Nothing of this kind has happened.
    let happened = |it: &String| {
        !["upstream_.*", "approval_required\"}", "tls_handshakes_failed", "mcp_mixed_versions"]
            .iter()
            .any(|other| it.contains(other))
    };
    empty.retain(happened);
    assert_eq!(empty, Vec::<String>::new());

    let tools =
        queries.query("sum by (tool, tenant) (toolcrib_calls_total{surface=\"Otc\"})").await;
    let named = |tool: &str| tools.iter().any(|it| it["metric"]["tool"] == tool);
    assert!(named("mcp:demo.echo") && named("none"), "{tools:?}");
    assert!(tools.iter().all(|it| it["metric"]["tenant"] == "acme"), "{tools:?}");
    // I-20: no text of a caller is a label or an exemplar.
    let text = server.caller(Some(&operator)).text("/metrics").await;
    assert!(!text.contains("canary"), "{text}");

    let exemplars =
        "/api/v1/query_exemplars?query=toolcrib_call_seconds_bucket&start=0&end=9999999999";
    let found = queries.get(exemplars).await;
    let run = found[0]["exemplars"][0]["labels"]["run_id"].as_str().unwrap();
    let (status, events) = agent.get(&format!("/v1/runs/{run}/events")).await;
    assert_eq!(status, 200, "{events}");

    let down = queries.query("toolcrib_source_up == 0").await;
    assert_eq!(down.len(), 1);
    assert_eq!(down[0]["metric"]["source"], "gone");
    // An alert fires: the changed configuration has an error.
    fs::write(&file, "[sever]\n").unwrap();
    let firing = "ALERTS{alertname=\"ToolcribConfigurationRefused\", alertstate=\"firing\"}";
    queries.eventually(firing).await;
    let groups = queries.get("/api/v1/rules").await;
    let rules: Vec<&Value> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|it| it["rules"].as_array().unwrap())
        .collect();
    assert!(rules.len() > 30);
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    server.stop();
}

/// The queries of the dashboard, as Grafana sends them with all servers, sources and tenants.
fn queries_of_dashboard() -> Vec<String> {
    let filled = queries().into_iter().map(|query| {
        let variables = ["$instance", "$source", "$tenant"];
        let filled = variables.iter().fold(query, |query, name| query.replace(name, ".*"));
        filled.replace("$__rate_interval", "1m")
    });
    filled.collect()
}
