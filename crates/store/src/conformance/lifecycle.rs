//! The requirements of a [`Storage`] as a whole.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use toolcrib_core::store::Storage;

use super::{
    event_log::called,
    key_store::key,
    moment,
    run_store::{call, run, tenant},
};

/// Longer than any wait for a change or its confirmation.
const PATIENCE: Duration = Duration::from_secs(10);

/// All handles to a part share its data.
pub async fn parts_share_their_data(storage: &dyn Storage) {
    storage.keys().insert(key("a", 1, 0)).await.unwrap();
    assert_eq!(storage.keys().list().await.unwrap().len(), 1);
    storage.events().append(&[called("t", "r", "e", "c")]).await.unwrap();
    assert_eq!(storage.record().last_position().await.unwrap(), 1, "the log is the record");
}

/// A waiting caller learns of a change, and without one the numbers are confirmed.
pub async fn changes_are_announced(storage: &dyn Storage) {
    let seen = storage.changes(None).await.unwrap();
    let confirmed = tokio::time::timeout(PATIENCE, storage.changes(Some(seen)));
    assert_eq!(confirmed.await.unwrap().unwrap(), seen);
    storage.keys().insert(key("a", 1, 0)).await.unwrap();
    storage.runs().begin(run("acme", "a", 1), None).await.unwrap();
    let of_a = "run-a".parse().unwrap();
    storage.runs().request_cancellation(&tenant("acme"), &of_a).await.unwrap();
    assert_eq!(storage.runs().requested_cancellations().await.unwrap(), [call("a")]);
    let announced = async {
        loop {
            let now = storage.changes(Some(seen)).await.unwrap();
            // The two changes can be announced one after the other.
            if now.keys > seen.keys && now.cancellations > seen.cancellations {
                return now;
            }
        }
    };
    let now = tokio::time::timeout(PATIENCE, announced).await.unwrap();
    assert_eq!((now.pins, now.approvals), (seen.pins, seen.approvals));
}

/// An open store is alive, and its own calls are not recovered.
pub async fn the_living_are_left_alone(storage: &dyn Storage) {
    let alive = storage.instances().await.unwrap();
    assert_eq!(alive.len(), 1, "{alive:?}");
    storage.events().append(&[called("t", "r", "e", "c")]).await.unwrap();
    assert_eq!(storage.recover(moment(1)).await.unwrap(), 0);
    assert_eq!(storage.record().last_position().await.unwrap(), 1);
    assert_eq!(storage.damage().await.unwrap(), Vec::<String>::new());
    assert!(storage.free_space().unwrap().is_none_or(|free| free > 0));
}

/// The size, the queue and the transactions of the writer are measured.
pub async fn it_is_measured(storage: &dyn Storage) {
    let commits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&commits);
    storage.observe_commits(Arc::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    storage.events().append(&[called("t", "r", "e", "c")]).await.unwrap();
    let measured = storage.measure().await.unwrap();
    assert_eq!(measured.waiting, 0);
    match measured.bytes {
        Some(bytes) => {
            assert!(bytes > 0);
            assert_eq!(commits.load(Ordering::SeqCst), 1);
        }
        None => assert_eq!(commits.load(Ordering::SeqCst), 0, "there is no writer"),
    }
}

/// [`Storage::ended`] completes once the store is closed.
pub async fn a_closed_store_has_ended(storage: &dyn Storage) {
    let ended = async { tokio::time::timeout(Duration::from_millis(20), storage.ended()).await };
    assert!(ended.await.is_err(), "it is open");
    storage.close().await;
    tokio::time::timeout(PATIENCE, storage.ended()).await.unwrap();
}
