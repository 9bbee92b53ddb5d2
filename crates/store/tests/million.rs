//! The time to verify a large record. Run by hand:
//! `cargo test -p toolcrib-store --test million -- --ignored --nocapture`.
#![cfg(test)]

use std::time::Instant;

use toolcrib_core::{event::EventLog, store::Storage};
use toolcrib_store::{
    Durability, Options, SqliteStore,
    conformance::{
        event_log::{called, returned},
        record_store::{sign, signing_key},
    },
    verify::{self, Scope},
};

const EVENTS: usize = 1_000_000;
const BATCH: usize = 2_000;

#[tokio::test]
#[ignore = "writes a million events"]
async fn a_million_events_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store =
        SqliteStore::open(&path, Options { durability: Durability::Relaxed, ..Options::default() })
            .unwrap();
    let begun = Instant::now();
    for batch in 0..EVENTS / BATCH {
        let pairs = (0..BATCH / 2).flat_map(|number| {
            let name = format!("{batch}-{number}");
            // Ten tenants, runs of ten calls.
            let tenant = format!("tenant-{}", number % 10);
            let call = called(&tenant, &format!("run-{batch}-{}", number / 100), &name, &name);
            let end = returned(&call, &format!("{name}-end"));
            [call, end]
        });
        store.append(&pairs.collect::<Vec<_>>()).await.unwrap();
        if batch % 5 == 4 {
            for tenant in 0..10 {
                sign(&store, &signing_key(), &format!("tenant-{tenant}"), 1).await;
            }
        }
    }
    println!("{EVENTS} events and their checkpoints written in {:?}", begun.elapsed());
    let begun = Instant::now();
    let trusted = vec![signing_key().public()];
    let whole = Scope::default();
    let report = verify::record(&store, &whole, trusted, &[], &[], |_, _| ()).await.unwrap();
    println!(
        "{} events and {} checkpoints checked in {:?}",
        report.events,
        report.checkpoints,
        begun.elapsed()
    );
    assert_eq!((report.events, report.findings), (EVENTS as u64, Vec::new()));
    let begun = Instant::now();
    assert!(store.damage().await.unwrap().is_empty());
    println!("the file itself checked in {:?}", begun.elapsed());
    println!("{} bytes", std::fs::metadata(&path).unwrap().len());
}
