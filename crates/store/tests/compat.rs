//! Files that earlier versions wrote stay readable: one file per schema, never regenerated once it
//! has been released.
#![cfg(test)]

use std::{fs, path::Path};

use toolcrib_core::{
    event::{EventBody, EventLog, EventQuery},
    store::{CatalogStore, KeyRecord, KeyStore},
};
use toolcrib_store::{
    Options, SqliteStore,
    conformance::{
        event_log::{called, closed, decided, opened, returned},
        key_store::key,
        moment,
    },
};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/0001.sqlite");

#[tokio::test]
async fn a_file_of_schema_1_is_read_and_continued() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    fs::copy(FILE, &path).unwrap();
    let store = SqliteStore::open(&path, Options::default()).unwrap();

    let call = called("t", "r", "e1", "c1");
    let written = [
        call.clone(),
        returned(&call, "e2"),
        decided("t", "r", "e3"),
        called("u", "r", "e4", "c4"),
        opened("u", "r", "e5", "s5"),
        opened("u", "r", "e6", "s6"),
        closed(&opened("u", "r", "e6", "s6"), "e7"),
    ];
    let read = store.read(EventQuery::default()).await.unwrap();
    assert_eq!(read.len(), written.len());
    for ((logged, event), (position, sequence)) in
        read.iter().zip(&written).zip([(1, 0), (2, 1), (3, 2), (4, 0), (5, 1), (6, 2), (7, 3)])
    {
        assert_eq!((logged.position, logged.event.sequence), (position, sequence));
        assert_eq!((&logged.tenant, &logged.event.run_id), (&event.tenant, &event.run_id));
        assert_eq!((&logged.event.event_id, &logged.event.body), (&event.event_id, &event.body));
        assert_eq!(logged.event.timestamp, event.timestamp);
        assert_eq!(logged.event.causation_id, event.causation_id);
    }
    let of_t = EventQuery { tenant: Some("t".parse().unwrap()), ..EventQuery::default() };
    let of_u = EventQuery { tenant: Some("u".parse().unwrap()), ..EventQuery::default() };
    for (query, expected) in [(of_t, vec![1, 2, 3]), (of_u, vec![1, 2, 3, 4])] {
        let read = store.read(query).await.unwrap();
        let positions: Vec<_> = read.iter().map(|logged| logged.position).collect();
        assert_eq!(positions, expected, "in the tenant's own log");
    }
    let revoked = KeyRecord { revoked_at: Some(moment(9)), ..key("k2", 2, 2) };
    assert_eq!(store.list().await.unwrap(), [key("k1", 1, 1), revoked]);
    assert_eq!(store.epoch().await.unwrap(), 3);
    let loaded = store.load(&"files".parse().unwrap()).await.unwrap();
    assert_eq!(loaded, Some(("[]".to_owned(), moment(4))));

    // I-21: the call and the session that were open in it are closed.
    assert_eq!(store.recover(moment(50)).await.unwrap(), 2);
    let last = EventQuery { after: Some(7), ..EventQuery::default() };
    let last = store.read(last).await.unwrap();
    let of: Vec<_> = last.iter().map(|logged| (logged.position, logged.event.sequence)).collect();
    assert_eq!(of, [(8, 4), (9, 5)]);
    assert!(matches!(last[0].event.body, EventBody::ToolReturned(_)));
    assert!(matches!(last[1].event.body, EventBody::ToolSessionClosed(_)));
}

/// Writes the file for a new schema; run by hand with `--ignored`, and refuses to replace one.
#[tokio::test]
#[ignore = "writes into the source tree"]
async fn write_the_file_of_the_current_schema() {
    assert!(!Path::new(FILE).exists(), "a released file is never regenerated");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let call = called("t", "r", "e1", "c1");
    store.append(vec![call.clone(), returned(&call, "e2")]).await.unwrap();
    store.append(vec![decided("t", "r", "e3"), called("u", "r", "e4", "c4")]).await.unwrap();
    let ended = opened("u", "r", "e6", "s6");
    let end = closed(&ended, "e7");
    store.append(vec![opened("u", "r", "e5", "s5"), ended, end]).await.unwrap();
    store.insert(key("k1", 1, 1)).await.unwrap();
    store.insert(key("k2", 2, 2)).await.unwrap();
    store.revoke(&"k2".parse().unwrap(), moment(9)).await.unwrap();
    store.save(&"files".parse().unwrap(), "[]".to_owned(), moment(4)).await.unwrap();
    store.close().await;
    fs::copy(&path, FILE).unwrap();
}
