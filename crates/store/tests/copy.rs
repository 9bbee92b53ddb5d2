//! Copies of whole stores, from one engine to another and back.
//!
//! `TOOLCRIB_COPY_EVENTS` is the length of the long log.
#![cfg(test)]
#![cfg(feature = "postgres")]
#![expect(clippy::disallowed_methods, reason = "the switch of the number of events")]

use std::{path::Path, time::Instant};

use tempfile::TempDir;
use toolcrib_core::{
    credential::Secret,
    event::EventLog as _,
    id::TenantId,
    record::RecordStore as _,
    store::{Storage, StoreError},
};
use toolcrib_store::{
    CopyPlace, CopyStep, CopySummary, Durability, Options, PostgresStore, SealKey, SealKeys,
    SqliteStore,
    conformance::{
        approval_store, bridge_store, catalog_store, connect_store, credential_store,
        event_log::{called, decided, opened, returned},
        grant_store, idempotency_store, key_store, moment, pin_store, quota_store,
        record_store::{self, prune, sign},
        run_store, saved_store,
    },
    copy, verify,
};
use toolcrib_testkit::postgres;

fn options() -> Options {
    let key = SealKeys::new(SealKey::parse(&Secret::new("0f".repeat(32))).unwrap(), []);
    Options { seal_keys: key.clone(), call_keys: key, ..Options::default() }
}

fn place(url: &str) -> CopyPlace {
    CopyPlace { url: url.to_owned(), options: options() }
}

fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// A store with something in every table, a pruned log, and what a killed process left open.
async fn full(path: &Path) {
    let store = SqliteStore::open(path, options()).unwrap();
    key_store::a_key_is_followed_by_another(&store).await;
    pin_store::the_newest_form_that_differs_is_noted_once(&store).await;
    pin_store::earlier_forms_remain_approved_only_on_request(&store).await;
    approval_store::a_reader_goes_on_where_it_was(&store).await;
    credential_store::an_owner_is_matched_exactly(&store).await;
    connect_store::a_client_comes_back_as_it_was_put(&store).await;
    grant_store::a_grant_comes_back_as_it_was_put(&store).await;
    bridge_store::grants_are_listed_by_their_person(&store).await;
    grant_store::authorizations_are_bounded(&store).await;
    connect_store::links_are_bounded(&store).await;
    run_store::a_run_ends_once(&store).await;
    idempotency_store::an_answer_belongs_to_its_call(&store).await;
    quota_store::what_differs_is_counted_apart(&store).await;
    catalog_store::the_last_catalog_is_the_one_that_counts(&store).await;
    saved_store::an_item_comes_back_as_it_was_saved(&store).await;
    let key = record_store::signing_key();
    for number in 0..40 {
        let call = called("t", &format!("r{number}"), &format!("e{number}"), &format!("c{number}"));
        let end = returned(&call, &format!("e{number}-end"));
        store.append(&[call, decided("u", "r", &format!("d{number}")), end]).await.unwrap();
    }
    let old = sign(&store, &key, "t", 1).await;
    store.append(&[decided("t", "r", "later")]).await.unwrap();
    sign(&store, &key, "t", 100).await;
    sign(&store, &key, "u", 100).await;
    assert!(prune(&store, &key, &old, 10).await > 0);
    let call = called("t", "r", "open", "open");
    store.append(&[opened("t", "r", "session", "s"), call]).await.unwrap();
    store.close().await;
}

async fn check(storage: &dyn Storage, events: u64) {
    let trusted = vec![record_store::signing_key().public()];
    let whole = verify::Scope::default();
    let record = storage.record();
    let report = verify::record(&*record, &whole, trusted, &[], &[], |_, _| ()).await.unwrap();
    assert_eq!((report.events, report.findings), (events, Vec::new()));
}

// I-96
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_survives_the_way_to_postgres_and_back() {
    let Some(database) = postgres::database() else { return };
    let dir = TempDir::new().unwrap();
    let (first, last) = (dir.path().join("first.db"), dir.path().join("last.db"));
    full(&first).await;
    let there = copy(place(&url(&first)), place(&database), |_| ()).await.unwrap();
    let count = |copied: &CopySummary, table: &str| {
        copied.rows.iter().find(|(name, _)| *name == table).unwrap().1
    };
    for table in [
        "keys",
        "catalogs",
        "checkpoints",
        "credentials",
        "account_grants",
        "pending_authorizations",
        "connect_links",
        "oauth_clients",
        "bridge_items",
        "runs",
        "pins",
        "earlier_forms",
        "approvals",
        "approval_readers",
        "once_calls",
        "quotas",
        "saved",
    ] {
        assert!(count(&there, table) > 0, "{table} is filled");
    }
    let store = PostgresStore::open(&database, options()).await.unwrap();
    check(&store, there.events).await;
    // It is used as if it had always been there.
    let tenant: TenantId = "t".parse().unwrap();
    let head = store.head(&tenant).await.unwrap().unwrap();
    assert_eq!(store.append(&[decided("t", "r", "more")]).await.unwrap().len(), 1);
    assert_eq!(store.head(&tenant).await.unwrap().unwrap().position, head.position + 1);
    let keys = store.keys().list().await.unwrap();
    store.close().await;
    let back = copy(place(&database), place(&url(&last)), |_| ()).await.unwrap();
    assert_eq!((back.events, back.rows), (there.events + 1, there.rows));
    let store = SqliteStore::open(&last, options()).unwrap();
    assert_eq!(store.keys().list().await.unwrap(), keys);
    check(&store, back.events).await;
    assert_eq!(store.recover(moment(1)).await.unwrap(), 0, "nothing is open");
    store.append(&[decided("t", "r", "most")]).await.unwrap();
    check(&store, back.events + 1).await;
    assert!(store.damage().await.unwrap().is_empty());
    store.close().await;
    let others = std::fs::read_dir(dir.path()).unwrap().flatten();
    let others = others.filter(|it| it.file_name().to_string_lossy().contains("partial"));
    assert_eq!(others.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_log_is_copied_there_and_back() {
    let Some(database) = postgres::database() else { return };
    let events = std::env::var("TOOLCRIB_COPY_EVENTS").map_or(10_000, |it| it.parse().unwrap());
    let dir = TempDir::new().unwrap();
    let (first, last) = (dir.path().join("first.db"), dir.path().join("last.db"));
    let durability = Durability::Relaxed;
    let store = SqliteStore::open(&first, Options { durability, ..options() }).unwrap();
    for page in 0..events / 1_000 {
        let mut batch = Vec::with_capacity(1_000);
        for number in 0..500 {
            let (tenant, id) = (format!("t{}", number % 4), format!("{page}-{number}"));
            let call = called(&tenant, &format!("r{id}"), &format!("e{id}"), &format!("c{id}"));
            let end = returned(&call, &format!("e{id}-end"));
            batch.extend([call, end]);
        }
        store.append(&batch).await.unwrap();
    }
    store.close().await;
    for (from, to) in [(url(&first), database.clone()), (database, url(&last))] {
        let begun = Instant::now();
        let copied = copy(place(&from), place(&to), |_| ()).await.unwrap();
        assert_eq!(copied.events, events);
        let seconds = begun.elapsed().as_secs_f64();
        eprintln!("{events} events copied and compared in {seconds:.1} s");
    }
    let store = SqliteStore::open(&last, options()).unwrap();
    let whole = verify::Scope::default();
    let report = verify::record(&store, &whole, Vec::new(), &[], &[], |_, _| ()).await.unwrap();
    assert_eq!((report.events, report.findings), (events, Vec::new()));
}

#[tokio::test]
async fn a_copy_leaves_what_is_there_unchanged() {
    let Some(database) = postgres::database() else { return };
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("store.db");
    let store = SqliteStore::open(&path, options()).unwrap();
    store.append(&[decided("t", "r", "e1")]).await.unwrap();
    let refused = async |from: &str, to: &str| {
        let error = copy(place(from), place(to), |_| ()).await.unwrap_err();
        assert!(matches!(error, StoreError::Unsuitable(_)), "{error}");
        error.to_string()
    };
    let error = refused(&url(&path), &database).await;
    assert!(error.contains("a server uses the store to"), "{error}");
    store.close().await;
    drop(store);
    let missing = url(&dir.path().join("missing.db"));
    let error = copy(place(&missing), place(&database), |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("is not a file"), "{error}");
    assert!(!dir.path().join("missing.db").exists());
    let error = refused(&url(&path), &url(&path)).await;
    assert!(error.contains("exists"), "{error}");
    let other = PostgresStore::open(&database, options()).await.unwrap();
    other.append(&[decided("t", "r", "other")]).await.unwrap();
    let error = refused(&url(&path), &database).await;
    assert!(error.contains("a server uses the store to"), "{error}");
    other.close().await;
    drop(other);
    let error = refused(&url(&path), &database).await;
    assert!(error.contains("not empty"), "{error}");
    let kept = PostgresStore::open(&database, options()).await.unwrap();
    check(&kept, 1).await;
}

/// A malformed event is not copied as if it were sound.
#[tokio::test]
async fn a_copy_that_fails_keeps_nothing() {
    let Some(database) = postgres::database() else { return };
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("store.db");
    let store = SqliteStore::open(&path, options()).unwrap();
    key_store::a_key_is_followed_by_another(&store).await;
    for number in 0..2_000 {
        store.append(&[decided("t", "r", &format!("e{number}"))]).await.unwrap();
    }
    store.close().await;
    drop(store);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE events SET timestamp = 'never' WHERE position = 1900", []).unwrap();
    drop(connection);
    let error = copy(place(&url(&path)), place(&database), |_| ()).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    let empty = PostgresStore::open(&database, options()).await.unwrap();
    assert_eq!(empty.last_position().await.unwrap(), 0);
    assert!(empty.keys().list().await.unwrap().is_empty());
    empty.append(&[decided("t", "r", "e1")]).await.unwrap();
}

/// A database that stores something else than it is given is found out, and has no rows afterwards.
#[tokio::test]
async fn a_copy_that_differs_keeps_nothing() {
    let Some(postgres) = postgres::PostgresServer::shared() else { return };
    let database = postgres.database();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("store.db");
    full(&path).await;
    PostgresStore::open(&database, options()).await.unwrap().close().await;
    let (client, connection) =
        tokio_postgres::connect(&database, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for (table, change, wanted) in [
        ("keys", "NEW.name = 'other'", "differs in keys"),
        ("quotas", "NEW.calls = NEW.calls + 1", "differs in quotas"),
        ("events", "NEW.payload = '{}'", "differs in the events"),
    ] {
        let sql = format!(
            "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS \
               $$ BEGIN {change}; RETURN NEW; END $$; \
             CREATE TRIGGER spoil BEFORE INSERT ON {table} \
               FOR EACH ROW EXECUTE FUNCTION spoil()"
        );
        // Before the first row, because a store with a foreign trigger is not opened.
        let spoil = |step| {
            if matches!(step, CopyStep::Rows) {
                assert!(postgres.psql(&database, &sql).status().unwrap().success());
            }
        };
        let error = copy(place(&url(&path)), place(&database), spoil).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
        client.batch_execute("DROP FUNCTION spoil CASCADE").await.unwrap();
        let empty = PostgresStore::open(&database, options()).await.unwrap();
        assert_eq!(empty.last_position().await.unwrap(), 0, "{table}");
        assert!(empty.keys().list().await.unwrap().is_empty(), "{table}");
        empty.close().await;
    }
    let copied = copy(place(&url(&path)), place(&database), |_| ()).await.unwrap();
    let store = PostgresStore::open(&database, options()).await.unwrap();
    check(&store, copied.events).await;
    store.close().await;
}
