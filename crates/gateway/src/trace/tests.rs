use parking_lot::Mutex;
use std::sync::Arc;

use toolcrib_config::Sampling;
use toolcrib_core::trace::{Span, SpanCounts, SpanKind, SpanSink, TraceContext};

use super::*;

/// Keeps all spans.
#[derive(Default)]
struct SpanCollector(Mutex<Vec<Span>>);

impl SpanSink for SpanCollector {
    fn record(&self, span: Span) {
        self.0.lock().push(span);
    }

    fn counts(&self) -> SpanCounts {
        SpanCounts::default()
    }
}

fn tracer(ratio: f64, trust_parent: bool) -> (Tracer, Arc<SpanCollector>) {
    let kept = Arc::new(SpanCollector::default());
    (Tracer::new(Arc::clone(&kept) as _, Sampling { ratio, trust_parent }), kept)
}

fn remote(flags: &str) -> TraceContext {
    let text = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
    TraceContext::parse(&text, None).unwrap()
}

#[test]
fn the_flag_of_a_caller_decides_only_where_it_is_trusted() {
    for (ratio, trust, flags, is_sampled) in [
        (0.0, false, "01", false),
        (1.0, false, "00", true),
        (0.0, true, "01", true),
        (1.0, true, "00", false),
    ] {
        let (tracer, kept) = tracer(ratio, trust);
        let joined = tracer.join(remote(flags));
        assert_eq!(joined.is_sampled(), is_sampled, "{ratio} {trust} {flags}");
        let span = tracer.span(Some(joined.clone()), SpanKind::Internal, || "a".into());
        let child = span.child(SpanKind::Internal, || "b".into());
        assert_eq!(child.context().unwrap().trace, joined.trace);
        assert_eq!(child.context().unwrap().is_sampled(), is_sampled);
        drop((child, span));
        assert_eq!(kept.0.lock().len(), if is_sampled { 2 } else { 0 });
    }
}

#[test]
fn a_part_of_the_traces_is_recorded_whatever_ids_callers_choose() {
    let (tracer, _) = tracer(0.25, false);
    let recorded = (0..4_000).filter(|_| tracer.join(remote("01")).is_sampled()).count();
    // Ten standard deviations around a thousand.
    assert!((726..1_274).contains(&recorded), "{recorded}");
    let roots = (0..4_000).filter(|_| {
        let span = tracer.span(None, SpanKind::Internal, || "a".into());
        span.context().unwrap().is_sampled()
    });
    let recorded = roots.count();
    assert!((726..1_274).contains(&recorded), "{recorded}");
}

#[test]
fn without_a_receiver_a_trace_is_passed_on_as_it_came() {
    let tracer = Tracer::default();
    for flags in ["00", "01"] {
        let joined = tracer.join(remote(flags));
        let span = tracer.span(Some(joined), SpanKind::Internal, || unreachable!());
        assert_eq!(span.child(SpanKind::Client, || unreachable!()).context(), Some(&remote(flags)));
    }
    assert_eq!(tracer.span(None, SpanKind::Internal, || unreachable!()).context(), None);
    assert!(tracer.request(None, Some(remote("01"))).request().is_none());
}

#[tokio::test]
async fn a_request_moves_into_the_trace_that_its_body_names() {
    let (tracer, kept) = tracer(1.0, false);
    let task = tracer.request(None, None);
    let began = task.trace().unwrap().trace;
    task.enter(async {
        TaskContext::join(&remote("00"));
        let task = TaskContext::current();
        let span = tracer.span(task.trace().cloned(), SpanKind::Internal, || "a".into());
        assert_eq!(log_ids().trace, Some(remote("00").trace));
        drop(span);
    })
    .await;
    let spans = kept.0.lock();
    let [part, request] = &spans[..] else { panic!("{spans:?}") };
    assert_ne!(request.context.trace, began);
    assert_eq!(request.context.trace, remote("00").trace);
    assert_eq!(
        request.parent,
        Some(toolcrib_core::trace::Parent { span: remote("00").span, is_remote: true })
    );
    assert_eq!(part.parent.unwrap().span, request.context.span);
}

#[tokio::test]
async fn a_carried_task_keeps_the_ids_of_its_request() {
    let id = http::HeaderValue::from_static("r1");
    let task = Tracer::default().request(Some(id.clone()), Some(remote("01")));
    let ids =
        task.enter(async { tokio::spawn(TaskContext::carry(async { log_ids() })).await.unwrap() });
    let ids = ids.await;
    assert_eq!((ids.request, ids.trace), (Some(id), Some(remote("01").trace)));
    assert_eq!(log_ids(), LogIds::default());
}
