//! Progress arrives in the order of the wire, and before the result.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolcrib_core::source::SourceLimits;
use toolcrib_testkit::upstream::{
    Answers, FaultyHttp,
    good::{Eras, GoodHttp},
};

use crate::rig::{Reports, Rig, faulty, invocation, text};

async fn progress_of(rig: &Rig, n: usize) -> Arc<Reports> {
    let reports = Arc::new(Reports::default());
    let mut invocation = invocation(json!({ "n": n }));
    invocation.progress = Some(Arc::clone(&reports) as _);
    let outcome = rig.invoke("progress", None, invocation).await.unwrap();
    // Read before anything else runs: later progress would be missing here.
    let seen = reports.numbers();
    assert_eq!(text(&outcome), "done");
    assert_eq!(seen, (0..n).map(|n| n as f64).collect::<Vec<_>>());
    reports
}

// I-28
#[tokio::test(flavor = "multi_thread")]
async fn progress_is_ordered_and_complete_every_time() {
    let stdio =
        [Rig::faulty(&["era=modern"]), Rig::faulty(&["era=legacy"]), Rig::faulty(&["rmcp"])];
    let faulty = [
        FaultyHttp::start(Answers::Events, &["era=modern"]),
        FaultyHttp::start(Answers::Splinters, &["era=legacy"]),
    ];
    let good = [GoodHttp::start(Eras::Modern), GoodHttp::start(Eras::Legacy)];
    let urls = faulty.iter().map(FaultyHttp::url).chain(good.iter().map(GoodHttp::url));
    let rigs: Vec<Rig> = stdio.into_iter().chain(urls.map(|url| Rig::http(&url))).collect();
    for rig in &rigs {
        rig.ready().await;
        for _ in 0..10 {
            progress_of(rig, 50).await;
        }
    }
}

// I-28
#[tokio::test(flavor = "multi_thread")]
async fn the_progress_of_parallel_calls_is_kept_apart() {
    let rig = Rig::faulty(&[]);
    rig.ready().await;
    let calls = (1..20).map(|n| progress_of(&rig, n * 10));
    futures_util::future::join_all(calls).await;
}

// A call has a time limit of its own, independent of the connection's.
#[tokio::test]
async fn a_call_may_take_longer_than_everything_else() {
    let limits =
        SourceLimits { connect_timeout: Duration::from_secs(2), ..SourceLimits::default() };
    for era in ["era=modern", "era=legacy"] {
        let server = FaultyHttp::start(Answers::Events, &[era]);
        let http = Rig::http_with(&server.url(), &[], limits.clone());
        let stdio = Rig::stdio(faulty(&[era]), limits.clone());
        let slow = json!({ "ms": 2500 });
        let (near, far) = tokio::join!(stdio.call("slow", slow.clone()), http.call("slow", slow));
        assert_eq!((text(&near), text(&far)), ("done".to_owned(), "done".to_owned()), "{era}");
    }
}

#[tokio::test]
async fn progress_keeps_its_numbers_total_and_message() {
    let rig = Rig::faulty(&[]);
    rig.ready().await;
    let reports = progress_of(&rig, 3).await.all();
    let last = reports.last().unwrap();
    assert_eq!(last.progress.to_string(), "2", "an integer stays one");
    assert_eq!(last.total.as_ref().unwrap().to_string(), "3");
    assert_eq!(last.message.as_deref(), Some("step 2"));
}
