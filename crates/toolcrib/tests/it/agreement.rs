//! I-7: for every principal and every catalog, all lists show the same tools, each is found by name,
//! and exactly those can be called; on every surface.

use std::collections::BTreeSet;

use proptest::{
    collection::{btree_set, vec},
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestSource, TestTool};

/// What a rule can ask for.
const REQUIRED: [&[&str]; 6] =
    [&[], &["a:read"], &["a:write"], &["a:read", "b:read"], &["b:x:read"], &["tools:deep:er"]];
/// What a key can hold.
const GRANTS: [&str; 9] =
    ["a:read", "a:*", "a:write", "b:read", "b:*:read", "*", "tools:*", "b:*", "tools:acme-only"];
const TENANTS: [&str; 3] = ["acme", "other", "third"];
/// The sources, and for whom they are.
const SOURCES: [(&str, Option<[&str; 1]>); 3] =
    [("for-all", None), ("acme-only", Some(["acme"])), ("other-only", Some(["other"]))];

/// One case: which of the ruled tools each source offers, and who asks.
#[derive(Debug)]
struct Case {
    offered: Vec<BTreeSet<usize>>,
    tenant: usize,
    grants: BTreeSet<usize>,
}

fn cases() -> impl Strategy<Value = Case> {
    let offered = vec(btree_set(0..REQUIRED.len(), 0..=REQUIRED.len()), SOURCES.len());
    (offered, 0..TENANTS.len(), btree_set(0..GRANTS.len(), 0..4))
        .prop_map(|(offered, tenant, grants)| Case { offered, tenant, grants })
}

/// The rule of scopes, written again: `*` is one segment, at the end all that follow.
fn covers(grant: &[&str], scope: &[&str]) -> bool {
    match (grant, scope) {
        (["*"], [_, ..]) => true,
        ([held, grant @ ..], [wanted, scope @ ..]) => {
            (*held == "*" || held == wanted) && covers(grant, scope)
        }
        ([], []) => true,
        _ => false,
    }
}

impl Case {
    /// Local names of what the caller may use of source `at`; `unruled` has no rule, so it needs the
    /// scope of its source.
    fn expected(&self, at: usize, unruled: &str) -> BTreeSet<String> {
        let (source, tenants) = SOURCES[at];
        if tenants.is_some_and(|only| !only.contains(&TENANTS[self.tenant])) {
            return BTreeSet::new();
        }
        let split = |text: &'static str| text.split(':').collect::<Vec<_>>();
        let held = |scope: &str| {
            let scope: Vec<&str> = scope.split(':').collect();
            self.grants.iter().any(|grant| covers(&split(GRANTS[*grant]), &scope))
        };
        let ruled = self.offered[at].iter().filter(|rule| REQUIRED[**rule].iter().all(|s| held(s)));
        let own = held(&format!("tools:{source}")).then(|| unruled.to_owned());
        ruled.map(|rule| format!("r{rule}")).chain(own).collect()
    }
}

#[test]
fn listed_is_found_is_callable_on_every_surface() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let gw = runtime.block_on(async {
        let mut gw = TestGateway::builder();
        for (id, tenants) in SOURCES {
            let mut source = TestSource::new(id);
            for (rule, scopes) in REQUIRED.iter().enumerate() {
                let scopes = format!("scopes = {}", json!(scopes));
                source = source.tool(tool(&format!("r{rule}")).rule(&scopes));
            }
            gw = gw.source(match tenants {
                Some(only) => source.tenants(only),
                None => source,
            });
        }
        gw.start().await
    });
    let round = std::cell::Cell::new(0);
    let config = Config { cases: 16, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&cases(), |case| {
            round.set(round.get() + 1);
            runtime.block_on(check(&gw, &case, &format!("u{}", round.get())));
            Ok(())
        })
        .unwrap();
}

fn tool(name: &str) -> TestTool {
    TestTool::new(name)
}

async fn check(gw: &TestGateway, case: &Case, unruled: &str) {
    for (at, (id, _)) in SOURCES.iter().enumerate() {
        let ruled = case.offered[at].iter().map(|rule| tool(&format!("r{rule}")));
        // The name is new each time, so every source has news to publish.
        gw.change(id, ruled.chain([tool(unruled)]).collect()).await;
    }
    let grants: Vec<&str> = case.grants.iter().map(|grant| GRANTS[*grant]).collect();
    let caller = gw.principal_of(TENANTS[case.tenant], unruled, &grants).await;
    let expected: BTreeSet<(String, String)> = SOURCES
        .iter()
        .enumerate()
        .flat_map(|(at, (id, _))| {
            case.expected(at, unruled).into_iter().map(|name| ((*id).to_owned(), name))
        })
        .collect();

    let ids = expected.iter().map(|(source, name)| format!("mcp:{source}.{name}")).collect();
    let wires = expected.iter().map(|(source, name)| format!("{source}__{name}")).collect();
    assert_eq!(names(&caller.get("/v1/tools").await.json(), "toolId"), ids, "{case:?}");
    assert_eq!(names(&caller.get("/tools").await.json()["tools"], "name"), wires, "{case:?}");
    assert_eq!(names(&caller.get("/explorer/tools").await.json(), "name"), wires, "{case:?}");
    let list = mcp(&caller, "tools/list", json!({})).await;
    assert_eq!(names(&list["result"]["tools"], "name"), wires, "{case:?}");

    for (at, (source, _)) in SOURCES.iter().enumerate() {
        for name in
            case.offered[at].iter().map(|rule| format!("r{rule}")).chain([unruled.to_owned()])
        {
            let may = expected.contains(&((*source).to_owned(), name.clone()));
            ask(&caller, source, &name, may, case).await;
        }
    }
}

async fn ask(caller: &Actor, source: &str, name: &str, may: bool, case: &Case) {
    let found = if may { 200 } else { 404 };
    let by_id = caller.get(&format!("/v1/tools/mcp:{source}.{name}")).await;
    let detail = caller.get(&format!("/explorer/tools/{source}__{name}")).await;
    assert_eq!((by_id.status, detail.status), (found, found), "{source} {name} {case:?}");
    let otc_id = format!("{}.{name}", source.replace('-', "_"));
    let otc = caller.post("/tools/call", json!({ "request": { "tool_id": otc_id } })).await;
    let explorer = caller.post(&format!("/explorer/tools/{source}__{name}/call"), json!({})).await;
    let params = json!({ "name": format!("{source}__{name}"), "arguments": {} });
    let called = mcp(caller, "tools/call", params).await;
    let ran = (otc.status == 200, explorer.status == 200, called.get("result").is_some());
    assert_eq!(ran, (may, may, may), "{source} {name} {case:?}");
}

async fn mcp(caller: &Actor, method: &str, params: Value) -> Value {
    let caller = caller.with("accept", "application/json, text/event-stream");
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    caller.post("/mcp", message).await.json()
}

fn names(list: &Value, member: &str) -> BTreeSet<String> {
    let names: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item[member].as_str().unwrap().to_owned())
        .collect();
    let set: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(set.len(), names.len(), "each once: {names:?}");
    set
}
