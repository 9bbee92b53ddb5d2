//! The suites on PostgreSQL, and several open stores on one database.
#![cfg(test)]
#![cfg(feature = "postgres")]

use std::{collections::HashSet, time::Duration};

use toolcrib_core::{
    canonical::Digest,
    credential::Secret,
    event::{EventBody, EventLog, EventQuery},
    id::SourceId,
    pin::PinForm,
    record::RecordStore,
    store::{Storage, StoreError},
};
use toolcrib_store::{
    Options, PostgresStore, SealKey, SealKeys,
    conformance::{
        event_log::{called, decided, opened, returned},
        moment,
        record_store::{self, mark, sign},
    },
    storage_suite, verify,
};
use toolcrib_testkit::postgres::{self, PostgresServer};

async fn open(url: &str) -> PostgresStore {
    let key = SealKeys::new(SealKey::parse(&Secret::new("0f".repeat(32))).unwrap(), []);
    let options = Options { seal_keys: key.clone(), call_keys: key, ..Options::default() };
    PostgresStore::open(url, options).await.unwrap()
}

storage_suite!(on_postgres, {
    let Some(url) = postgres::database() else { return };
    (open(&url).await, ())
});

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_lose_nothing_and_share_the_sequences() {
    let Some(url) = postgres::database() else { return };
    let mut tasks = Vec::new();
    for (name, store) in [("a", open(&url).await), ("b", open(&url).await)] {
        for task in 0..32 {
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                let mut positions = Vec::new();
                for number in 0..25 {
                    let event = decided("t", "r", &format!("{name}-{task}-{number}"));
                    positions.extend(store.append(&[event]).await.unwrap());
                }
                positions
            }));
        }
    }
    let mut positions = HashSet::new();
    for task in tasks {
        let acknowledged = task.await.unwrap();
        assert!(acknowledged.is_sorted_by(|a, b| a < b));
        positions.extend(acknowledged);
    }
    let store = open(&url).await;
    assert_eq!(positions, (1..=1600).collect());
    let whole = verify::Scope::default();
    let report = verify::record(&store, &whole, Vec::new(), &[], &[], |_, _| ()).await.unwrap();
    assert_eq!((report.events, report.findings), (1600, Vec::new()));
}

#[tokio::test]
async fn only_the_calls_of_the_dead_are_closed() {
    let Some(url) = postgres::database() else { return };
    let (living, other, dead) = (open(&url).await, open(&url).await, open(&url).await);
    dead.append(&[called("t", "r", "e1", "c1")]).await.unwrap();
    living.append(&[called("t", "r", "e2", "c2")]).await.unwrap();
    for store in [&living, &other, &dead] {
        assert_eq!(store.recover(moment(99)).await.unwrap(), 0, "everyone lives");
    }
    dead.close().await;
    let (one, two) = tokio::join!(living.recover(moment(99)), other.recover(moment(99)));
    assert_eq!(one.unwrap() + two.unwrap(), 1, "closed by exactly one of them");
    let read = living.read(EventQuery::default()).await.unwrap();
    assert_eq!(read.last().unwrap().event.causation_id.as_ref().unwrap().as_str(), "e1");
}

#[tokio::test]
async fn one_living_instance_does_the_work_of_a_duty() {
    let Some(url) = postgres::database() else { return };
    let (one, two) = (open(&url).await, open(&url).await);
    assert!(one.leads("a").await.unwrap());
    assert!(!two.leads("a").await.unwrap());
    assert!(two.leads("b").await.unwrap());
    assert!(one.leads("a").await.unwrap(), "it still does");
    one.close().await;
    assert!(two.leads("a").await.unwrap(), "taken over");
}

/// A process that was asleep for longer than its lease must not answer calls that were closed for it.
#[tokio::test]
async fn an_instance_that_was_taken_over_writes_no_more() {
    let Some(url) = postgres::database() else { return };
    let (living, asleep) = (open(&url).await, open(&url).await);
    asleep.append(&[called("t", "r", "e1", "c1")]).await.unwrap();
    let instances = living.instances().await.unwrap();
    living.append(&[decided("t", "r", "e2")]).await.unwrap();
    // What recovery does with the lease of a dead process.
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = "DELETE FROM instances WHERE id = (SELECT instance FROM open_calls)";
    assert_eq!(client.execute(sql, &[]).await.unwrap(), 1);
    assert_eq!(living.recover(moment(99)).await.unwrap(), 1);
    let error = asleep.append(&[decided("t", "r", "e3")]).await.unwrap_err();
    assert!(error.to_string().contains("another one has closed its calls"), "{error}");
    tokio::time::timeout(Duration::from_secs(30), asleep.ended()).await.expect("it ends itself");
    living.append(&[decided("t", "r", "e4")]).await.unwrap();
    assert_eq!(living.instances().await.unwrap().len(), instances.len() - 1);
}

/// Leases expire while the database is away; no living process is regarded as dead then.
#[tokio::test]
async fn an_expired_lease_alone_is_no_death() {
    let Some(url) = postgres::database() else { return };
    let (one, two) = (open(&url).await, open(&url).await);
    two.append(&[called("t", "r", "e1", "c1")]).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = "UPDATE instances SET expires_at = clock_timestamp() - interval '1 hour'";
    assert_eq!(client.execute(sql, &[]).await.unwrap(), 2);
    assert_eq!(one.recover(moment(99)).await.unwrap(), 0, "the other one had no time to renew it");
    two.append(&[decided("t", "r", "e2")]).await.unwrap();
}

#[tokio::test]
async fn a_restarted_database_is_used_again() {
    let Some(server) = PostgresServer::own() else { return };
    let url = server.database();
    let store = open(&url).await;
    store.append(&[decided("t", "r", "e1")]).await.unwrap();
    let seen = store.changes(None).await.unwrap();
    server.stop();
    let error = store.append(&[decided("t", "r", "e2")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    eventually("it is known that changes are not", async || {
        store.changes(Some(seen)).await.is_err()
    })
    .await;
    server.start();
    eventually("it is written again", async || {
        store.append(&[decided("t", "r", "e3")]).await.is_ok()
    })
    .await;
    eventually("changes are known again", async || store.changes(Some(seen)).await.is_ok()).await;
    let events = store.read(EventQuery::default()).await.unwrap();
    let ids: Vec<_> = events.iter().map(|it| it.event.event_id.as_str()).collect();
    assert_eq!(ids, ["e1", "e3"]);
}

#[tokio::test]
async fn a_refused_call_whose_start_was_stored_does_not_stay_open() {
    let Some(server) = PostgresServer::own() else { return };
    let store = open(&server.database()).await;
    let running = called("t", "r", "e1", "c1");
    store.append(std::slice::from_ref(&running)).await.unwrap();
    // A commit waits for a replica that does not exist, is stored, and loses its connection.
    server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.query("SELECT pg_reload_conf()");
    let (opens, session) = (called("t", "r", "e2", "c2"), opened("t", "r", "e3", "s"));
    let refused = tokio::spawn({
        let store = store.clone();
        async move { store.append(&[opens, session]).await }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    eventually("the commit waits for the replica", async || server.query(waits) == "1").await;
    server.query("ALTER SYSTEM RESET synchronous_standby_names");
    server.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
    );
    let error = refused.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    server.query("SELECT pg_reload_conf()");
    // Without an append by this process, and without the end of a process.
    eventually("its call is closed", async || {
        store.read(EventQuery::default()).await.is_ok_and(|it| it.len() == 5)
    })
    .await;
    let events = store.read(EventQuery::default()).await.unwrap();
    let body = |at: usize| &events.get(at).unwrap().event.body;
    let EventBody::ToolReturned(end) = body(3) else { panic!("{:?}", body(3)) };
    assert_eq!(end.call_id.as_str(), "c2");
    assert_eq!(end.error.as_ref().unwrap().code, "interrupted");
    let EventBody::ToolSessionClosed(end) = body(4) else { panic!("{:?}", body(4)) };
    assert_eq!(end.session_id.as_str(), "s");
    // The call that runs stays open.
    store.append(&[returned(&running, "e4")]).await.unwrap();
    let whole = verify::Scope::default();
    let report = verify::record(&store, &whole, Vec::new(), &[], &[], |_, _| ()).await.unwrap();
    assert_eq!((report.events, report.findings), (6, Vec::new()));
}

#[tokio::test]
async fn changes_of_another_process_are_announced() {
    let Some(url) = postgres::database() else { return };
    let (one, two) = (open(&url).await, open(&url).await);
    for number in 0..20 {
        let seen = one.changes(None).await.unwrap();
        two.pins().trust(&SourceId::parse("s").unwrap(), forms(number), moment(1)).await.unwrap();
        let mut now = one.changes(Some(seen)).await.unwrap();
        for _ in 0..50 {
            if now != seen {
                break;
            }
            now = one.changes(Some(seen)).await.unwrap();
        }
        assert_eq!((now.pins, now.keys), (seen.pins + 1, seen.keys));
    }
}

#[tokio::test]
async fn urls_and_servers_that_cannot_be_used_are_refused_with_a_reason() {
    for (url, wanted) in [
        ("postgres://user@host:port/none", "the URL of the store is invalid"),
        ("postgres://user@127.0.0.1:1/none", "the connection to the database was lost"),
        ("postgres://user@%2Fnowhere/none", "the connection to the database was lost"),
    ] {
        let error = PostgresStore::open(url, Options::default()).await.unwrap_err();
        assert!(error.to_string().contains(wanted), "{url}: {error}");
    }
    let Some(url) = postgres::database() else { return };
    let missing = format!("{url}_missing");
    let error = PostgresStore::open(&missing, Options::default()).await.unwrap_err();
    assert!(error.to_string().contains("3D000"), "{error}");
    let client = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(client.1);
    drop(open(&url).await);
    client.0.batch_execute("UPDATE schema_version SET version = 99").await.unwrap();
    let error = PostgresStore::open(&url, Options::default()).await.unwrap_err();
    assert!(matches!(error, StoreError::TooNew { found: 99, .. }), "{error}");
}

/// A process waits for the one that migrates, for longer than statements may wait for a lock.
#[tokio::test]
async fn a_process_waits_for_another_one_that_migrates() {
    let Some(url) = postgres::database() else { return };
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = 0x7463_7262_i64;
    client.execute("SELECT pg_advisory_lock($1)", &[&lock]).await.unwrap();
    let opening = tokio::spawn(async move { open(&url).await });
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!opening.is_finished(), "it waits");
    client.execute("SELECT pg_advisory_unlock($1)", &[&lock]).await.unwrap();
    let store = opening.await.unwrap();
    store.append(&[decided("t", "r", "e1")]).await.unwrap();
}

/// Retention drops the partition of a month when the marks of all tenants cover it.
#[tokio::test]
async fn a_month_is_dropped_once_every_tenant_has_pruned_it() {
    let Some(url) = postgres::database() else { return };
    let (store, key) = (open(&url).await, record_store::signing_key());
    for tenant in ["t", "u"] {
        for number in 0..3 {
            let id = format!("{tenant}{number}");
            store.append(&[decided(tenant, "r", &id)]).await.unwrap();
        }
    }
    let old = [sign(&store, &key, "t", 1).await, sign(&store, &key, "u", 1).await];
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    // As if they had been stored long ago.
    let sql = "CREATE TABLE events_2020_01 PARTITION OF events \
                 FOR VALUES FROM ('2020-01-01') TO ('2020-02-01'); \
               UPDATE events SET month = '2020-01-01'";
    client.batch_execute(sql).await.unwrap();
    for tenant in ["t", "u"] {
        store.append(&[decided(tenant, "r", &format!("{tenant}-new"))]).await.unwrap();
        sign(&store, &key, tenant, 100).await;
    }
    let exists = async || {
        let sql = "SELECT to_regclass('events_2020_01') IS NOT NULL";
        client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0)
    };
    assert_eq!(store.drop_pruned().await.unwrap(), 0, "no mark covers it");
    mark(&store, &key, &old[0]).await;
    assert_eq!(store.drop_pruned().await.unwrap(), 0, "the other tenant needs it");
    assert!(exists().await);
    mark(&store, &key, &old[1]).await;
    assert_eq!(store.drop_pruned().await.unwrap(), 6);
    assert!(!exists().await);
    for tenant in ["t", "u"] {
        assert_eq!(store.prune(&tenant.parse().unwrap(), 10).await.unwrap(), 0);
    }
    let trusted = vec![key.public()];
    let whole = verify::Scope::default();
    let report = verify::record(&store, &whole, trusted, &[], &[], |_, _| ()).await.unwrap();
    assert_eq!((report.events, report.findings), (2, Vec::new()));
    store.append(&[decided("t", "r", "t-newer")]).await.unwrap();
}

/// The clock of the database may pass a month for which no server has made a partition.
#[tokio::test]
async fn a_missing_month_is_created_by_the_append_that_needs_it() {
    let Some(url) = postgres::database() else { return };
    let store = open(&url).await;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let months = "SELECT inhrelid::regclass::text FROM pg_inherits \
                  WHERE inhparent = 'events'::regclass ORDER BY 1";
    let made = client.query(months, &[]).await.unwrap();
    assert_eq!(made.len(), 2, "this month and the next");
    for row in &made {
        let sql = format!("DROP TABLE {}", row.get::<_, String>(0));
        client.batch_execute(&sql).await.unwrap();
    }
    store.append(&[decided("t", "r", "e1")]).await.unwrap();
    assert_eq!(client.query(months, &[]).await.unwrap().len(), 2);
}

/// I-18: whatever could discard, change or hide events without an error is noticed, when a store is
/// opened and while it is open.
#[tokio::test]
async fn a_changed_schema_is_refused() {
    let Some(url) = postgres::database() else { return };
    let store = open(&url).await;
    store.append(&[decided("t", "r", "e1")]).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let function = "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS \
                    $$ BEGIN DELETE FROM events; RETURN NULL; END $$";
    client.batch_execute(function).await.unwrap();
    let partition = "SELECT max(inhrelid::regclass::text) FROM pg_inherits \
                     WHERE inhparent = 'events'::regclass";
    let partition: String = client.query_one(partition, &[]).await.unwrap().get(0);
    let on_partition =
        format!("CREATE TRIGGER t AFTER INSERT ON {partition} EXECUTE FUNCTION forget()");
    let changes = [
        (
            "CREATE TRIGGER t AFTER INSERT ON events EXECUTE FUNCTION forget()",
            "DROP TRIGGER t ON events",
            "the trigger events.t",
        ),
        (&on_partition, &format!("DROP TRIGGER t ON {partition}"), "the trigger events_"),
        (
            "CREATE RULE r AS ON INSERT TO checkpoints DO INSTEAD NOTHING",
            "DROP RULE r ON checkpoints",
            "the rule checkpoints.r",
        ),
        (
            "ALTER TABLE events ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE events DISABLE ROW LEVEL SECURITY",
            "the table events kind p p row security",
        ),
        ("CREATE POLICY p ON keys USING (false)", "DROP POLICY p ON keys", "the policy keys.p"),
        (
            "ALTER TABLE events ADD COLUMN note text DEFAULT 'x'",
            "ALTER TABLE events DROP COLUMN note",
            "the column events.note text default",
        ),
        (
            "ALTER TABLE pins ALTER COLUMN approved TYPE varchar(10)",
            "ALTER TABLE pins ALTER COLUMN approved TYPE text",
            "the column pins.approved character varying(10)",
        ),
        (
            "ALTER TABLE cursors RENAME TO c; CREATE VIEW cursors AS SELECT * FROM c",
            "DROP VIEW cursors; ALTER TABLE c RENAME TO cursors",
            "cursors",
        ),
        (
            "CREATE TABLE more () INHERITS (checkpoints)",
            "DROP TABLE more",
            "the child more of checkpoints",
        ),
        (
            "ALTER TABLE meta DISABLE TRIGGER announce",
            "ALTER TABLE meta ENABLE TRIGGER announce",
            "the trigger meta.announce enabled D",
        ),
        (
            "ALTER TABLE once_calls DROP CONSTRAINT once_calls_tenant_principal_key_key",
            "ALTER TABLE once_calls ADD UNIQUE (tenant, principal, key)",
            "the constraint once_calls.once_calls_tenant_principal_key_key",
        ),
        ("ALTER TABLE runs SET UNLOGGED", "ALTER TABLE runs SET LOGGED", "the table runs kind r u"),
    ];
    for (change, repair, wanted) in changes {
        assert_eq!(store.displaced().await, None, "before {change}");
        client.batch_execute(change).await.unwrap();
        assert_eq!(
            store.displaced().await,
            Some("the schema of the store was changed"),
            "{change}"
        );
        let error = PostgresStore::open(&url, Options::default()).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{change}: {error}");
        assert!(error.to_string().contains(wanted), "{change}: {error}");
        client.batch_execute(repair).await.unwrap();
    }
    // A server of an older version, while the others are upgraded one after the other.
    let upgrade = "ALTER TABLE keys ADD COLUMN later text; UPDATE schema_version SET version = 99";
    client.batch_execute(upgrade).await.unwrap();
    assert_eq!(store.displaced().await, None);
    let trigger = "CREATE TRIGGER t AFTER INSERT ON events EXECUTE FUNCTION forget()";
    client.batch_execute(trigger).await.unwrap();
    assert!(store.displaced().await.is_some());
}

fn forms(number: u32) -> Vec<(String, PinForm)> {
    let document = format!("{{\"number\":{number}}}");
    let digest = Digest::of(document.as_bytes());
    vec![(format!("tool{number}"), PinForm { digest, document })]
}

async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..300 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not within half a minute: {what}");
}
