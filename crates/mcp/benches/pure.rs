//! Benchmarks of reading and writing MCP messages. `cargo xtask bench --pure`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use toolcrib_mcp::{message, scan::IdScan, sse::SseParser};

const MAX_EVENT: usize = 1 << 16;

/// The answer to a call, about 500 bytes.
fn answer() -> Vec<u8> {
    let text = "the quick brown fox jumps over the lazy dog; ".repeat(9);
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": false });
    message::result("7", result.to_string().as_bytes())
}

fn message(c: &mut Criterion) {
    let mut group = c.benchmark_group("MCP message");
    let answer = answer();
    group.bench_function("parse", |b| {
        b.iter(|| {
            let incoming =
                serde_json::from_slice::<message::IncomingMessage<'_>>(black_box(&answer));
            incoming.map(|incoming| incoming.result.map(|result| result.get().len()))
        })
    });
    group.bench_function("find the id of", |b| {
        b.iter(|| {
            let mut scan = IdScan::default();
            scan.feed(black_box(&answer));
            scan.finish()
        })
    });
    let stream = [b"data: ".as_slice(), &answer, b"\n\n"].concat();
    group.bench_function("cut from a stream", |b| {
        b.iter(|| {
            let mut bytes = 0;
            let mut parser = SseParser::new(MAX_EVENT);
            parser.push(black_box(&stream), &mut |event| bytes += event.len()).map(|()| bytes)
        })
    });
    let params = json!({ "name": "read_file", "arguments": { "path": "/srv/docs/report.md" } });
    group.bench_function("write a request", |b| {
        b.iter(|| message::request(7, "tools/call", black_box(&params)))
    });
    group.finish();
}

criterion_group!(benches, message);
criterion_main!(benches);
