//! Files that earlier versions wrote stay readable: one file per schema, never regenerated once it
//! has been released.
#![cfg(test)]

use std::{fs, path::Path};

use toolcrib_core::{
    credential::{Credential, CredentialStore, Material, Secret},
    event::{EventBody, EventLog, EventQuery},
    store::{CatalogStore, KeptRun, KeyRecord, KeyStore, RunQuery, RunState, RunStore},
};
use toolcrib_store::{
    Options, SealKey, SealKeys, SqliteStore,
    conformance::{
        credential_store::{credential, material},
        event_log::{called, closed, decided, opened, returned},
        key_store::key,
        moment,
        run_store::run,
    },
    verify,
};

const FIRST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/0001.sqlite");
const SECOND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/0002.sqlite");
const THIRD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/0003.sqlite");

fn seal_keys() -> SealKeys {
    SealKeys::new(SealKey::parse(&Secret::new("0f".repeat(32))).unwrap(), [])
}

/// The credential that a file of schema 2 holds.
fn stored() -> Credential {
    credential("c1", "github", Some("ann"))
}

#[tokio::test]
async fn a_file_of_schema_1_is_read_and_continued() {
    let directory = tempfile::tempdir().unwrap();
    let store = copy_of(FIRST, directory.path());
    read_and_continue(&store).await;
    let credentials = store.credentials(seal_keys());
    assert!(credentials.list().await.unwrap().is_empty());
    credentials.put(stored(), material("v")).await.unwrap();
    assert_eq!(credentials.list().await.unwrap(), [stored()]);
}

#[tokio::test]
async fn a_file_of_schema_2_is_read_and_continued() {
    let directory = tempfile::tempdir().unwrap();
    let store = copy_of(SECOND, directory.path());
    read_and_continue(&store).await;
    let credentials = store.credentials(seal_keys());
    let opened = credentials.get(&stored().owner, &stored().name).await.unwrap().unwrap();
    assert_eq!(opened.credential, stored());
    let Material { value, client_secret } = opened.material;
    assert_eq!(value.expose(), "sealed-canary");
    assert_eq!(client_secret.unwrap().expose(), "client of sealed-canary");
}

#[tokio::test]
async fn a_file_of_schema_3_is_read_and_continued() {
    let directory = tempfile::tempdir().unwrap();
    let store = copy_of(THIRD, directory.path());
    let runs = store.runs(seal_keys());
    assert!(runs.adopted().await.unwrap().is_empty(), "nobody has found its process dead yet");
    read_and_continue(&store).await;
    // I-49: what it needs to go on is there, sealed or not; the one without is closed.
    let adopted = runs.adopted().await.unwrap();
    let kept = |name: &str| KeptRun {
        record: run("t", name, 1),
        inputs: "{}".to_owned(),
        results: vec![(format!("{name}.step").parse().unwrap(), "\"canary\"".to_owned())],
        cancelled: false,
    };
    assert_eq!(adopted, [kept("plain"), kept("sealed")]);
    assert!(runs.adopted().await.unwrap().is_empty(), "told once");
    let failed = RunQuery { state: Some(RunState::Failed), ..RunQuery::default() };
    let failed = runs.list(failed).await.unwrap();
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (failed[0].call_id.as_str(), failed[0].code.as_deref()),
        ("lost", Some("interrupted"))
    );
    for run in adopted {
        let (tenant, call) = (&run.record.tenant, &run.record.call_id);
        assert!(runs.end(tenant, call, RunState::Completed, None, moment(60)).await.unwrap());
    }
}

fn copy_of(file: &str, directory: &Path) -> SqliteStore {
    let path = directory.join("store.db");
    fs::copy(file, &path).unwrap();
    SqliteStore::open(&path, Options::default()).unwrap()
}

async fn read_and_continue(store: &SqliteStore) {
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
    // I-71: what was written before there was a chain has been chained, and is continued.
    let whole = verify::Scope::default();
    let report = verify::record(store, &whole, Vec::new(), &[], None, |_, _| ()).await.unwrap();
    assert_eq!((report.events, report.tenants.len()), (9, 2));
    assert_eq!(report.findings, []);
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
    assert!(!Path::new(THIRD).exists(), "a released file is never regenerated");
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
    store.credentials(seal_keys()).put(stored(), material("sealed-canary")).await.unwrap();
    for (name, keys) in [("plain", SealKeys::none()), ("sealed", seal_keys())] {
        let runs = store.runs(keys);
        let began = run("t", name, 1);
        runs.begin(began.clone(), Some("{}".to_owned())).await.unwrap();
        let step = format!("{name}.step").parse().unwrap();
        let result = "\"canary\"".to_owned();
        runs.keep(&began.tenant, &began.call_id, &step, result).await.unwrap();
    }
    store.runs(SealKeys::none()).begin(run("t", "lost", 1), None).await.unwrap();
    store.close().await;
    fs::copy(&path, THIRD).unwrap();
}
