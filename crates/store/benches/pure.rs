//! Benchmarks of the small form of an event. `cargo xtask bench --pure`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use toolcrib_store::benchmarks::CompactPayload;

const PAYLOAD: &str = r#"{"agentId":"system","toolName":"mcp:files.read_file","callId":"018f0000-0000-7000-8000-000000000004","argsHash":"018f00000000700080000000000000018f00000000007000800000000000018f00","principal":"ann","transport":"mcp"}"#;

fn compact(c: &mut Criterion) {
    let mut group = c.benchmark_group("payload of an event");
    group.bench_function("to the small form", |b| {
        b.iter(|| CompactPayload::split(black_box(PAYLOAD)))
    });
    if let Some(compact) = CompactPayload::split(PAYLOAD) {
        group.bench_function("from the small form", |b| b.iter(|| black_box(&compact).join()));
    }
    group.finish();
}

criterion_group!(benches, compact);
criterion_main!(benches);
