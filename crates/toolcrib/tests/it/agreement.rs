//! I-7, I-83, I-84: one oracle predicts the visible tools, the lookups and the call results on
//! every surface. The cases combine principals, tenants, scopes, tiers, policies, and hidden or
//! quarantined tools.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{
    collection::{btree_set, vec},
    option,
    prelude::*,
    sample::{select, subsequence},
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestSource, TestTool};

/// Scopes that a rule can require.
const REQUIRED: [&[&str]; 6] =
    [&[], &["a:read"], &["a:write"], &["a:read", "b:read"], &["b:x:read"], &["tools:deep:er"]];
/// Scopes that a key can have.
const GRANTS: [&str; 9] =
    ["a:read", "a:*", "a:write", "b:read", "b:*:read", "*", "tools:*", "b:*", "tools:acme-only"];
const TENANTS: [&str; 3] = ["acme", "other", "third"];
/// The sources, the tenants they are for, and whether their tools are pinned.
const SOURCES: [(&str, &[&str], bool); 4] = [
    ("for-all", &[], false),
    ("acme-only", &["acme"], false),
    ("both", &["acme", "other"], false),
    ("pinned", &[], true),
];
const TIERS: [&str; 3] = ["pure", "read", "write"];
/// The callers. A policy names one of them.
const PRINCIPALS: [&str; 2] = ["ann", "bob"];

/// A rule of a tool; unset members keep their previous value.
#[derive(Debug, Clone, Default)]
struct Rule {
    scopes: Option<&'static [&'static str]>,
    tenants: Option<Vec<&'static str>>,
    tier: Option<&'static str>,
    hide: Option<bool>,
}

/// One tool of a source.
#[derive(Debug, Clone)]
struct Tool {
    rule: Option<Rule>,
    /// Whether it has changed since it was approved; only relevant for pinned sources.
    drifted: bool,
}

/// The policies of a case.
#[derive(Debug, Clone)]
struct Policies {
    /// The permitted tiers.
    permitted: Vec<&'static str>,
    forbids_tier: Option<&'static str>,
    /// A tenant that must not use a source.
    forbids_tenant: Option<(&'static str, usize)>,
    forbids_principal: Option<(&'static str, &'static str)>,
    /// Whether calls with arguments are denied.
    forbids_arguments: bool,
}

/// One case: the tools and rules of each source, the caller, and the policies.
#[derive(Debug, Clone)]
struct Case {
    /// The rule of `*`, and the tools.
    sources: Vec<(Option<Rule>, Vec<Tool>)>,
    policies: Option<Policies>,
    not_found: bool,
    tenant: &'static str,
    principal: &'static str,
    grants: BTreeSet<usize>,
}

/// The expected result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Runs,
    Forbidden,
    Unknown,
}

// === making cases ===

fn rules(tenants: &'static [&'static str]) -> impl Strategy<Value = Rule> {
    let all = if tenants.is_empty() { &TENANTS[..] } else { tenants };
    let tenants = option::weighted(0.3, subsequence(all.to_vec(), 1..=all.len()));
    let scopes = option::weighted(0.7, select(REQUIRED.to_vec()));
    let tier = option::of(select(TIERS.to_vec()));
    let hide = option::weighted(0.3, any::<bool>());
    (scopes, tenants, tier, hide).prop_map(|(scopes, tenants, tier, hide)| Rule {
        scopes,
        tenants,
        tier,
        hide,
    })
}

fn policies() -> impl Strategy<Value = Policies> {
    let forbidden_tenant = (select(TENANTS.to_vec()), 0..SOURCES.len());
    let forbidden_principal = (select(TENANTS.to_vec()), select(PRINCIPALS.to_vec()));
    (
        subsequence(TIERS.to_vec(), 1..=TIERS.len()),
        option::weighted(0.3, select(TIERS.to_vec())),
        option::weighted(0.5, forbidden_tenant),
        option::weighted(0.3, forbidden_principal),
        any::<bool>(),
    )
        .prop_map(|(permitted, tier, tenant, principal, arguments)| Policies {
            permitted,
            forbids_tier: tier,
            forbids_tenant: tenant,
            forbids_principal: principal,
            forbids_arguments: arguments,
        })
}

fn cases() -> impl Strategy<Value = Case> {
    let source = |at: usize| {
        let (_, tenants, _) = SOURCES[at];
        let tool = (option::weighted(0.8, rules(tenants)), any::<bool>())
            .prop_map(|(rule, drifted)| Tool { rule, drifted });
        (option::weighted(0.4, rules(tenants)), vec(tool, 0..5))
    };
    let sources = (source(0), source(1), source(2), source(3));
    (
        sources,
        option::weighted(0.6, policies()),
        any::<bool>(),
        select(TENANTS.to_vec()),
        select(PRINCIPALS.to_vec()),
        btree_set(0..GRANTS.len(), 0..5),
    )
        .prop_map(|((a, b, c, d), policies, not_found, tenant, principal, grants)| Case {
            sources: vec![a, b, c, d],
            policies,
            not_found,
            tenant,
            principal,
            grants,
        })
}

// === the oracle ===

/// A second implementation of scope matching: `*` matches one segment, at the end all remaining
/// ones.
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
    fn tools(&self) -> impl Iterator<Item = (usize, usize)> {
        self.sources
            .iter()
            .enumerate()
            .flat_map(|(source, (_, tools))| (0..tools.len()).map(move |tool| (source, tool)))
    }

    /// Returns the value of the last rule that sets it.
    fn said<T>(&self, source: usize, tool: usize, read: impl Fn(&Rule) -> Option<T>) -> Option<T> {
        let (all, tools) = &self.sources[source];
        let own = tools[tool].rule.as_ref().and_then(&read);
        own.or_else(|| all.as_ref().and_then(&read))
    }

    /// Returns whether the tool is hidden from all callers.
    fn is_left_out(&self, source: usize, tool: usize) -> bool {
        self.said(source, tool, |rule| rule.hide) == Some(true)
            || (SOURCES[source].2 && self.sources[source].1[tool].drifted)
    }

    /// Returns the expected result of a call, with or without arguments, and whether a list shows
    /// the tool.
    fn judge(&self, source: usize, tool: usize, arguments: bool) -> (Answer, bool) {
        let (id, tenants, _) = SOURCES[source];
        let denied = if self.not_found { Answer::Unknown } else { Answer::Forbidden };
        if self.is_left_out(source, tool) {
            return (Answer::Unknown, false);
        }
        let own = self.said(source, tool, |rule| rule.tenants.clone());
        if !(tenants.is_empty() || tenants.contains(&self.tenant))
            || own.is_some_and(|own| !own.contains(&self.tenant))
        {
            return (Answer::Unknown, false);
        }
        let split = |text: &'static str| text.split(':').collect::<Vec<_>>();
        let usual = format!("tools:{id}");
        let held = |scope: &str| {
            let scope: Vec<&str> = scope.split(':').collect();
            self.grants.iter().any(|grant| covers(&split(GRANTS[*grant]), &scope))
        };
        let lacks = match self.said(source, tool, |rule| rule.scopes) {
            Some(scopes) => scopes.iter().any(|scope| !held(scope)),
            None => !held(&usual),
        };
        if lacks {
            return (denied, false);
        }
        let Some(policies) = &self.policies else { return (Answer::Runs, true) };
        let tier = self.said(source, tool, |rule| rule.tier).unwrap_or("write");
        if !policies.permitted.contains(&tier)
            || policies.forbids_tier == Some(tier)
            || policies.forbids_tenant == Some((self.tenant, source))
            || policies.forbids_principal == Some((self.tenant, self.principal))
        {
            return (denied, false);
        }
        match policies.forbids_arguments && arguments {
            // The list shows it, so there is nothing to hide.
            true => (Answer::Forbidden, true),
            false => (Answer::Runs, true),
        }
    }

    fn shows(&self, source: usize, tool: usize) -> bool {
        self.judge(source, tool, false).1
    }
}

// === the configuration of the gateway ===

fn toml_of(rule: &Rule) -> String {
    let mut lines = String::new();
    if let Some(scopes) = rule.scopes {
        lines += &format!("scopes = {}\n", json!(scopes));
    }
    if let Some(tenants) = &rule.tenants {
        lines += &format!("tenants = {}\n", json!(tenants));
    }
    if let Some(tier) = rule.tier {
        lines += &format!("safety_tier = {}\n", json!(tier));
    }
    if let Some(hide) = rule.hide {
        lines += &format!("hide = {hide}\n");
    }
    lines
}

/// The name of a tool, different in each case, so that every source reports a change.
fn name(tool: usize, round: usize) -> String {
    format!("t{tool}n{round}")
}

impl Case {
    fn toml(&self) -> String {
        let mut toml = String::from("[gate]\nrate = \"off\"\n");
        if self.not_found {
            toml += "denied_calls = \"not_found\"\n";
        }
        toml += "[toolset.some]\nallow = [\"mcp:for-all.*\"]\n";
        if self.policies.is_some() {
            toml += "[policy]\ncedar = [\"some.cedar\"]\n";
        }
        for ((id, tenants, pinned), (all, tools)) in SOURCES.iter().zip(&self.sources) {
            let pins = if *pinned { "enforce" } else { "off" };
            toml += &format!(
                "[[source]]\nid = \"{id}\"\nkind = \"mcp\"\ncommand = [\"in-process\"]\n\
                 pins = \"{pins}\"\n"
            );
            if !tenants.is_empty() {
                toml += &format!("tenants = {}\n", json!(tenants));
            }
            if let Some(rule) = all {
                toml += &format!("[source.tools.\"*\"]\n{}", toml_of(rule));
            }
            toml += "[source.tools.\"hidden*\"]\nhide = true\n";
            for (at, tool) in tools.iter().enumerate() {
                if let Some(rule) = &tool.rule {
                    toml += &format!("[source.tools.\"t{at}n*\"]\n{}", toml_of(rule));
                }
            }
        }
        toml
    }

    fn offered(&self, source: usize, round: usize, drift: bool) -> Vec<TestTool> {
        let tools = self.sources[source].1.iter().enumerate();
        let tools = tools.map(|(at, tool)| {
            let text = if drift && tool.drifted { "as it is now" } else { "as it was" };
            TestTool::new(&name(at, round)).description(text)
        });
        // Never offered: it makes a source without tools report a change as well.
        tools.chain([TestTool::new(&format!("hidden{round}"))]).collect()
    }
}

impl Policies {
    fn cedar(&self) -> String {
        let mut text = String::new();
        for tier in &self.permitted {
            text += &format!(
                "permit(principal, action, resource) when {{ resource.tier == \"{tier}\" }};\n"
            );
        }
        if let Some(tier) = self.forbids_tier {
            text += &format!(
                "forbid(principal, action, resource) when {{ resource.tier == \"{tier}\" }};\n"
            );
        }
        if let Some((tenant, source)) = self.forbids_tenant {
            let source = SOURCES[source].0;
            text += &format!(
                "forbid(principal in Tenant::\"{tenant}\", action, resource in Source::\"{source}\");\n"
            );
        }
        if let Some((tenant, principal)) = self.forbids_principal {
            text += &format!(
                "forbid(principal == Principal::\"{tenant}/{principal}\", action, resource);\n"
            );
        }
        if self.forbids_arguments {
            text += "forbid(principal, action, resource) when { context.arguments.count > 0 };\n";
        }
        text
    }
}

// === requests ===

#[test]
fn one_oracle_tells_what_every_surface_shows_finds_and_runs() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let gw = runtime.block_on(async {
        let mut gw = TestGateway::builder();
        for (id, _, pinned) in SOURCES {
            let source = TestSource::new(id);
            gw = gw.source(if pinned { source.pins("enforce") } else { source });
        }
        gw.start().await
    });
    let round = std::cell::Cell::new(0);
    let seen = std::cell::RefCell::new(BTreeMap::<String, usize>::new());
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&cases(), |case| {
            round.set(round.get() + 1);
            runtime.block_on(check(&gw, &case, round.get()));
            for (source, tool) in case.tools() {
                let (answer, shown) = case.judge(source, tool, true);
                *seen.borrow_mut().entry(format!("{answer:?} {shown}")).or_default() += 1;
            }
            Ok(())
        })
        .unwrap();
    // Every expected result occurred, so each was compared.
    let seen = seen.into_inner();
    for way in ["Runs true", "Forbidden true", "Forbidden false", "Unknown false"] {
        assert!(seen.contains_key(way), "{way}: {seen:?}");
    }
}

async fn check(gw: &TestGateway, case: &Case, round: usize) {
    if let Some(policies) = &case.policies {
        std::fs::write(gw.directory().join("some.cedar"), policies.cedar()).unwrap();
    }
    gw.replace(&case.toml()).await;
    for (source, (id, _, pinned)) in SOURCES.iter().enumerate() {
        gw.change(id, case.offered(source, round, false)).await;
        if *pinned && case.sources[source].1.iter().any(|tool| tool.drifted) {
            settled(gw, case, round, source, false).await;
            gw.change(id, case.offered(source, round, true)).await;
        }
    }
    for source in 0..SOURCES.len() {
        settled(gw, case, round, source, true).await;
    }
    let grants: Vec<&str> = case.grants.iter().map(|grant| GRANTS[*grant]).collect();
    let caller = gw.principal_of(case.tenant, case.principal, &grants).await;
    lists(&caller, case, round).await;
    for (source, tool) in case.tools() {
        finds(&caller, case, source, tool, round).await;
        for arguments in [false, true] {
            calls(&caller, case, source, tool, round, arguments).await;
        }
    }
}

/// Waits until the snapshot contains exactly the expected tools of `source`.
async fn settled(gw: &TestGateway, case: &Case, round: usize, source: usize, drift: bool) {
    let id = SOURCES[source].0;
    let expected: BTreeSet<String> = (0..case.sources[source].1.len())
        .filter(|tool| match drift {
            true => !case.is_left_out(source, *tool),
            false => case.said(source, *tool, |rule| rule.hide) != Some(true),
        })
        .map(|tool| name(tool, round))
        .collect();
    for _ in 0..500 {
        let snapshot = gw.gateway.snapshot();
        let offered = snapshot.catalog.entries().iter().filter(|it| it.source.as_str() == id);
        let names: BTreeSet<String> = offered.map(|it| it.upstream_name.clone()).collect();
        if names == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{id} never had {expected:?}: {case:?}");
}

async fn lists(caller: &Actor, case: &Case, round: usize) {
    let shown = case.tools().filter(|(source, tool)| case.shows(*source, *tool));
    let shown: Vec<(&str, String)> =
        shown.map(|(source, tool)| (SOURCES[source].0, name(tool, round))).collect();
    let ids: BTreeSet<String> = shown.iter().map(|(id, name)| format!("mcp:{id}.{name}")).collect();
    let wires: BTreeSet<String> = shown.iter().map(|(id, name)| format!("{id}__{name}")).collect();
    let otc: BTreeSet<String> =
        shown.iter().map(|(id, name)| format!("{}.{name}@1.0.0", id.replace('-', "_"))).collect();

    let list = caller.get("/v1/tools").await.json();
    assert_eq!(names(&list, "toolId"), ids, "{case:?}");
    let of_kind = caller.get("/v1/tools?source=mcp").await.json();
    assert_eq!(names(&of_kind, "toolId"), ids, "{case:?}");
    let compact = caller.get("/v1/tools?view=compact").await.json();
    assert_eq!(names(&compact["tools"], "toolId"), ids, "{case:?}");
    for (list, member) in [("/tools", "tools"), ("/oxp/tools", "items")] {
        let list = caller.get(list).await.json();
        assert_eq!(names(&list[member], "name"), wires, "{case:?}");
        assert_eq!(names(&list[member], "id"), otc, "{case:?}");
    }
    let explorer = caller.get("/explorer/tools").await.json();
    assert_eq!(names(&explorer, "name"), wires, "{case:?}");
    for modern in [false, true] {
        let list = mcp(caller, "/mcp", "tools/list", json!({}), modern).await;
        assert_eq!(names(&list["result"]["tools"], "name"), wires, "{case:?}");
    }
    // Every description contains the searched word.
    let found = caller.get("/v1/tools?q=was&limit=100").await.json();
    assert_eq!(names(&found, "toolId"), ids, "{case:?}");
    let within = |all: &BTreeSet<String>, start: &str| -> BTreeSet<String> {
        all.iter().filter(|name| name.starts_with(start)).cloned().collect()
    };
    let some = caller.get("/v1/tools?toolset=some").await.json();
    assert_eq!(names(&some, "toolId"), within(&ids, "mcp:for-all."), "{case:?}");
    let found = caller.get("/v1/tools?q=was&limit=100&toolset=some").await.json();
    assert_eq!(names(&found, "toolId"), within(&ids, "mcp:for-all."), "{case:?}");
    let some = mcp(caller, "/mcp/some", "tools/list", json!({}), true).await;
    assert_eq!(names(&some["result"]["tools"], "name"), within(&wires, "for-all__"), "{case:?}");
    let told = caller.get("/v1/explain").await.json();
    assert_eq!(told["tools"], shown.len(), "{case:?}");
}

async fn finds(caller: &Actor, case: &Case, source: usize, tool: usize, round: usize) {
    let (id, name) = (SOURCES[source].0, name(tool, round));
    let (answer, shown) = case.judge(source, tool, false);
    let status = if shown { 200 } else { 404 };
    let about = format!("{id} {name} {case:?}");
    for path in [
        format!("/v1/tools/mcp:{id}.{name}"),
        format!("/v1/tools/mcp:{id}.{name}?view=compact"),
        format!("/explorer/tools/{id}__{name}"),
    ] {
        assert_eq!(caller.get(&path).await.status, status, "{path} {about}");
    }
    let validate = format!("/explorer/tools/{id}__{name}/validate");
    assert_eq!(caller.post(&validate, json!({})).await.status, status, "{about}");
    let told = caller.get(&format!("/v1/explain?tool={id}__{name}")).await.json();
    let outcomes: &[&str] = match (answer, shown) {
        (Answer::Runs, _) if case.policies.as_ref().is_some_and(|it| it.forbids_arguments) => {
            &["depends"]
        }
        (Answer::Runs, _) => &["allowed"],
        (Answer::Forbidden, _) => &["hidden"],
        // A holder of all scopes may read pins, too.
        (Answer::Unknown, _) if case.grants.contains(&5) => &["unknown", "hidden"],
        (Answer::Unknown, _) => &["unknown"],
    };
    let outcome = told["outcome"].as_str().unwrap();
    assert!(outcomes.contains(&outcome), "{outcome}, not {outcomes:?}: {about}");
}

async fn calls(
    caller: &Actor,
    case: &Case,
    source: usize,
    tool: usize,
    round: usize,
    arguments: bool,
) {
    let (id, name) = (SOURCES[source].0, name(tool, round));
    let (expected, _) = case.judge(source, tool, arguments);
    let about = format!("{id} {name} {arguments} {case:?}");
    let input = if arguments { json!({ "a": 1 }) } else { json!({}) };
    let otc_id = format!("{}.{name}", id.replace('-', "_"));
    for mount in ["/tools/call", "/oxp/tools/call"] {
        let ask = json!({ "request": { "tool_id": otc_id, "input": input } });
        let answer = match caller.post(mount, ask).await.status {
            200 => Answer::Runs,
            403 => Answer::Forbidden,
            400 => Answer::Unknown,
            other => panic!("{mount} {other} {about}"),
        };
        assert_eq!(answer, expected, "{mount} {about}");
    }
    let explorer = format!("/explorer/tools/{id}__{name}/call");
    let answer = match caller.post(&explorer, input.clone()).await.status {
        200 => Answer::Runs,
        403 => Answer::Forbidden,
        404 => Answer::Unknown,
        other => panic!("explorer {other} {about}"),
    };
    assert_eq!(answer, expected, "explorer {about}");
    for (path, modern) in [("/mcp", false), ("/mcp", true), ("/mcp/some", true)] {
        let params = json!({ "name": format!("{id}__{name}"), "arguments": input });
        let told = mcp(caller, path, "tools/call", params, modern).await;
        // A tool outside a toolset is unknown there.
        let expected = match path == "/mcp/some" && id != "for-all" {
            true => Answer::Unknown,
            false => expected,
        };
        let answer = match told["error"]["code"].as_i64() {
            None => Answer::Runs,
            Some(-31403) => Answer::Forbidden,
            Some(-32602) => Answer::Unknown,
            Some(other) => panic!("mcp {other} {about}"),
        };
        assert_eq!(answer, expected, "{path} {modern} {about}");
    }
}

/// Sends one request in the modern or the legacy revision.
async fn mcp(caller: &Actor, path: &str, method: &str, mut params: Value, modern: bool) -> Value {
    let mut caller = caller.with("accept", "application/json, text/event-stream");
    if modern {
        let version = "2026-07-28";
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        caller = caller.with("mcp-protocol-version", version).with("mcp-method", method);
        if let Some(name) = params["name"].as_str() {
            caller = caller.with("mcp-name", name);
        }
    }
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    caller.post(path, message).await.json()
}

/// Returns the distinct values of `member` in a list.
fn names(list: &Value, member: &str) -> BTreeSet<String> {
    let names: Vec<String> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item[member].as_str().unwrap().to_owned())
        .collect();
    let set: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(set.len(), names.len(), "each once: {names:?}");
    set
}
