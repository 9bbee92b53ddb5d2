//! Benchmarks of the pure code on the path of every request. `cargo xtask bench --pure`.

use std::{cell::LazyCell, hint::black_box, sync::Arc};

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use toolcrib_core::{
    arguments::ArgumentCheck,
    authorize::{ScopeAuthorizer, Subject},
    canonical::digest,
    catalog::{Catalog, Entry, Generation, ListFormat},
    credential::Secret,
    descriptor::{Auth, SafetyTier, SourceKind},
    id::{PrincipalId, SourceId, TenantId},
    json::parse_strict,
    limit::{Rate, take},
    record::{StoredEvent, genesis},
    redact::Redactor,
    schema::Schema,
    scope::{Scope, ScopeSet},
};

const ITEM: ListFormat = ListFormat {
    key: "bench",
    open: "[",
    close: "]",
    item: |entry, out| out.extend(serde_json::to_vec(&entry.tool).unwrap_or_default()),
};

fn arguments() -> Value {
    json!({ "path": "/srv/docs/report.md", "lines": { "from": 1, "to": 200 }, "tags": ["a", "b"], "ratio": 0.25 })
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1, "pattern": "^/" },
            "lines": { "type": "object", "properties": { "from": { "type": "integer" }, "to": { "type": "integer" } } },
            "tags": { "type": "array", "items": { "type": "string" } },
            "ratio": { "type": "number", "maximum": 1 },
        },
        "required": ["path"],
        "additionalProperties": false,
    })
}

fn entry(i: usize) -> Option<Arc<Entry>> {
    let source = SourceId::parse(format!("s{}", i % 50)).ok()?;
    let name = format!("tool_{i}");
    let mut entry = Entry::new(SourceKind::Mcp, &source, &name, SafetyTier::Read).ok()?;
    let scope = Scope::parse(&format!("team{}:read", i % 5_000)).ok()?;
    entry.tool.auth = Some(Auth { scopes: Some(vec![scope]), credential_ref: None });
    entry.tool.input_schema = Schema::try_from(&schema()).ok();
    entry.arguments = ArgumentCheck::compile(Some(&schema())).ok()?;
    Some(Arc::new(entry))
}

fn catalog(c: &mut Criterion) {
    // Made by the first benchmark that is selected, because that takes a while.
    let entries = LazyCell::new(|| (0..100_000).filter_map(entry).collect::<Vec<_>>());
    let build = || Catalog::build(Generation(1), entries.clone()).0;
    let catalog = LazyCell::new(build);
    let mut group = c.benchmark_group("catalog of 100 000");
    group.sample_size(10);
    group.bench_function("build", |b| b.iter(build));
    let (Ok(tenant), Ok(principal), Ok(scopes)) =
        (TenantId::parse("acme"), PrincipalId::parse("ann"), ScopeSet::parse(["team7:*", "x:y"]))
    else {
        return;
    };
    let subject = Subject { tenant: &tenant, scopes: &scopes, principal: &principal };
    group.bench_function("first view of 20", |b| {
        b.iter_batched(
            build,
            |fresh| fresh.view(&ScopeAuthorizer, subject),
            criterion::BatchSize::PerIteration,
        );
    });
    group.sample_size(100);
    group.bench_function("list again", |b| {
        b.iter(|| catalog.view(&ScopeAuthorizer, black_box(subject)).body(&ITEM, None));
    });
    group.bench_function("look a tool up", |b| {
        b.iter(|| catalog.by_wire(&tenant, black_box("s7__tool_57")).cloned())
    });
    group.finish();
}

fn call(c: &mut Criterion) {
    let mut group = c.benchmark_group("call");
    let (value, text) = (arguments(), arguments().to_string());
    group.bench_function("parse", |b| b.iter(|| parse_strict(black_box(text.as_bytes()))));
    group.bench_function("digest", |b| b.iter(|| digest(black_box(&value))));
    let redactor = Redactor::new((0..4).map(|i| Secret::new(format!("resolved-value-{i}"))));
    group.bench_function("redact", |b| b.iter(|| redactor.value(black_box(&value))));
    group.bench_function("compile schema", |b| {
        b.iter(|| ArgumentCheck::compile(black_box(Some(&schema()))))
    });
    if let Ok(check) = ArgumentCheck::compile(Some(&schema())) {
        group.bench_function("validate", |b| b.iter(|| check.check(black_box(&value))));
        let wrong = json!({ "path": 1, "lines": 2, "more": 3 });
        group.bench_function("explain", |b| b.iter(|| check.check(black_box(&wrong))));
    }
    if let Ok(rate) = Rate::parse("30/m") {
        group.bench_function("bucket", |b| b.iter(|| take(black_box(0), black_box(1), &rate)));
    }
    group.finish();
}

/// The event of a call as the store chains it.
fn record(c: &mut Criterion) {
    let event = StoredEvent {
        position: 7,
        tenant: "acme".into(),
        tenant_position: 7,
        event_id: "018f0000-0000-7000-8000-000000000001".into(),
        run_id: "018f0000-0000-7000-8000-000000000002".into(),
        sequence: 1,
        kind: "agent.toolReturned".into(),
        timestamp: "2026-01-02T03:04:05.678Z".into(),
        causation_id: Some("018f0000-0000-7000-8000-000000000003".into()),
        payload: json!({
            "agentId": "system",
            "toolName": "mcp:files.read_file",
            "callId": "018f0000-0000-7000-8000-000000000004",
            "status": "ok",
            "durationMs": 7,
            "principal": "ann",
        })
        .to_string(),
        prev: None,
        hash: None,
    };
    let mut group = c.benchmark_group("record");
    group.bench_function("chain hash", |b| {
        b.iter(|| black_box(&event).hash_after(black_box(&genesis())))
    });
    group.finish();
}

criterion_group!(benches, call, record, catalog);
criterion_main!(benches);
