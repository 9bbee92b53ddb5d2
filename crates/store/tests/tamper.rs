//! I-71, I-72: every change to the file by other means is detected, and its place is named.
#![cfg(test)]

use rusqlite::Connection;
use toolcrib_core::{
    credential::Secret,
    event::EventLog,
    record::{Checkpoint, RecordStore as _},
    store::Storage,
};
use toolcrib_store::{
    Durability, Options, SigningKey, SqliteStore,
    conformance::{
        attack::rechain,
        event_log::decided,
        record_store::{prune, sign, signing_key},
    },
    verify::{self, Finding, FindingCode, Report, Scope},
};

const EVENTS: usize = 12;

struct Rig {
    directory: tempfile::TempDir,
    anchors: Vec<Checkpoint>,
}

impl Rig {
    /// Twelve events of `t` between some of `u`, with checkpoints at 4 and 8 that are stored
    /// elsewhere.
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rig = Self { directory, anchors: Vec::new() };
        let store = rig.open();
        let mut anchors = Vec::new();
        for number in 1..=EVENTS {
            let mut event = decided("t", "r", &format!("t{number}"));
            event.causation_id = Some("cause".parse().unwrap());
            store.append(&[event, decided("u", "r", &format!("u{number}"))]).await.unwrap();
            if number % 4 == 0 && number < EVENTS {
                anchors.push(sign(&store, &signing_key(), "t", 1).await);
            }
        }
        store.close().await;
        Self { anchors, ..rig }
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("store.db")
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(
            self.path(),
            Options { durability: Durability::Relaxed, ..Options::default() },
        )
        .unwrap()
    }

    fn tamper(&self, sql: &str) {
        let connection = Connection::open(self.path()).unwrap();
        connection.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        connection.execute_batch(sql).unwrap();
    }

    async fn verify(&self, scope: Scope, anchors: &[Checkpoint]) -> Report {
        let store = self.open();
        let trusted = vec![signing_key().public()];
        let report =
            verify::record(&store, &scope, trusted, anchors, &[], |_, _| ()).await.unwrap();
        store.close().await;
        report
    }

    async fn findings(&self) -> Vec<Finding> {
        self.verify(Scope::default(), &[]).await.findings
    }
}

fn places(findings: &[Finding]) -> Vec<(FindingCode, Option<&str>, Option<u64>)> {
    findings.iter().map(|it| (it.code, it.tenant.as_deref(), it.position)).collect()
}

// I-18
#[tokio::test]
async fn nothing_is_stored_through_a_schema_that_was_changed() {
    for (change, restore) in [
        (
            "CREATE TRIGGER x BEFORE INSERT ON events WHEN new.event_id = 'late' \
             BEGIN SELECT raise(IGNORE); END",
            "DROP TRIGGER x",
        ),
        ("CREATE VIEW x AS SELECT * FROM events", "DROP VIEW x"),
        ("CREATE TABLE x (a)", "DROP TABLE x"),
        ("CREATE UNIQUE INDEX x ON events (type)", "DROP INDEX x"),
    ] {
        // A unique index needs events of different types, so of one at most.
        let directory = tempfile::tempdir().unwrap();
        let rig = Rig { directory, anchors: Vec::new() };
        let store = rig.open();
        store.append(&[decided("t", "r", "first")]).await.unwrap();
        assert_eq!(store.displaced().await, None);
        let connection = Connection::open(rig.path()).unwrap();
        let number = "schema_version";
        let before: i64 = connection.pragma_query_value(None, number, |row| row.get(0)).unwrap();
        rig.tamper(change);
        for _ in 0..2 {
            let refused = store.append(&[decided("t", "r", "late")]).await.unwrap_err();
            assert!(refused.to_string().contains("schema was changed"), "{change}: {refused}");
            // The store works again as if nothing had happened.
            connection.pragma_update(None, number, before).unwrap();
        }
        assert_eq!(store.displaced().await, Some("the schema of the store was changed"));
        let again = SqliteStore::open(rig.path(), Options::default());
        assert!(again.is_err_and(|error| error.to_string().contains("\"x\"")), "{change}");
        rig.tamper(restore);
        store.append(&[decided("t", "r", "late")]).await.unwrap();
        assert_eq!(store.displaced().await, None);
        store.close().await;
        assert_eq!(rig.findings().await, []);
    }
}

#[tokio::test]
async fn an_untouched_log_is_what_was_written() {
    let rig = Rig::new().await;
    let report = rig.verify(Scope::default(), &rig.anchors).await;
    assert_eq!(report.findings, []);
    let counts = (report.events, report.checkpoints, report.anchors);
    assert_eq!(counts, (2 * EVENTS as u64, 2, 2));
    let of: Vec<_> =
        report.tenants.iter().map(|it| (&*it.tenant, it.first, it.last, it.signed)).collect();
    assert_eq!(of, [("t", 1, 12, 8), ("u", 1, 12, 0)]);
}

#[tokio::test]
async fn a_change_of_any_column_is_found_where_it_was_made() {
    let rig = Rig::new().await;
    let good = std::fs::read(rig.path()).unwrap();
    let changes = [
        ("event_id", "'t5x'"),
        ("tenant", "'v'"),
        ("tenant_position", "99"),
        ("run_id", "'q'"),
        ("sequence", "77"),
        ("type", "'agent.toolCalled'"),
        ("timestamp", "'2026-01-01T00:00:00.000Z'"),
        ("causation_id", "'other'"),
        ("causation_id", "NULL"),
        ("payload", "x'00'"),
        ("form", "NULL"),
        ("form", "99"),
        ("form = NULL, payload", "'{}'"),
        ("payload", "CAST(x'7bff7d' AS TEXT)"),
        ("hash", "zeroblob(32)"),
        ("hash", "x'00'"),
    ];
    for (column, value) in changes {
        std::fs::write(rig.path(), &good).unwrap();
        rig.tamper(&format!("UPDATE events SET {column} = {value} WHERE event_id = 't5'"));
        let findings = rig.findings().await;
        let first = findings.iter().find(|it| it.tenant.as_deref() == Some("t"));
        let first = first.unwrap_or_else(|| panic!("{column} = {value}: {findings:?}"));
        assert_eq!(first.position, Some(5), "{column} = {value}: {findings:?}");
        if first.code == FindingCode::Changed && !["run_id", "sequence"].contains(&column) {
            assert_eq!(first.sequence, Some(4), "{column} = {value}");
        }
    }
    // A form is part of every event that has it; the first event was stored without one.
    std::fs::write(rig.path(), &good).unwrap();
    rig.tamper("UPDATE forms SET text = replace(text, 'false', 'true ')");
    let findings = rig.findings().await;
    let changed = findings.iter().filter(|it| it.code == FindingCode::Changed).count();
    assert_eq!(changed, 2 * EVENTS - 1, "{findings:?}");
    // The position in the whole log is in no hash, but it has no gaps.
    std::fs::write(rig.path(), &good).unwrap();
    rig.tamper("UPDATE events SET position = 1000 WHERE event_id = 'u12'");
    assert!(!rig.findings().await.is_empty());
    // Two tenants can therefore swap places in it: the order is proven only within a tenant.
    std::fs::write(rig.path(), &good).unwrap();
    rig.tamper(
        "UPDATE events SET position = -1 WHERE event_id = 't5'; \
         UPDATE events SET position = 9 WHERE event_id = 'u5'; \
         UPDATE events SET position = 10 WHERE event_id = 't5'",
    );
    assert_eq!(rig.findings().await, []);
}

#[tokio::test]
async fn removed_moved_and_inserted_events_are_found_where_they_begin() {
    let rig = Rig::new().await;
    let good = std::fs::read(rig.path()).unwrap();
    let hash = "(SELECT hash FROM events WHERE event_id = 't6')";
    let inserted = format!(
        "UPDATE events SET tenant_position = -tenant_position - 1 \
           WHERE tenant = 't' AND tenant_position > 6; \
         UPDATE events SET tenant_position = -tenant_position WHERE tenant_position < 0; \
         INSERT INTO events (event_id, tenant, tenant_position, run_id, sequence, type, timestamp, \
           form, payload, hash, writer) \
           SELECT 'new', tenant, 7, run_id, 99, type, timestamp, form, payload, {hash}, writer \
           FROM events WHERE event_id = 't6'"
    );
    let cases = [
        ("DELETE FROM events WHERE event_id = 't7'", 7),
        ("DELETE FROM events WHERE tenant = 't' AND tenant_position BETWEEN 7 AND 9", 7),
        ("DELETE FROM events WHERE tenant = 't' AND tenant_position < 7", 1),
        ("DELETE FROM events WHERE tenant = 't' AND tenant_position >= 7", 7),
        ("DELETE FROM events WHERE tenant = 't'", 1),
        (
            // Two events change places, together with their hashes.
            "UPDATE events SET tenant_position = 0 WHERE event_id = 't7'; \
             UPDATE events SET tenant_position = 7 WHERE event_id = 't8'; \
             UPDATE events SET tenant_position = 8 WHERE event_id = 't7'",
            7,
        ),
        (
            // And their content, which leaves everything else in place.
            "UPDATE events SET form = NULL, payload = 'other' WHERE event_id = 't7'; \
             UPDATE events SET sequence = 70 WHERE event_id = 't7'; \
             UPDATE events SET sequence = 6 WHERE event_id = 't8'; \
             UPDATE events SET sequence = 7 WHERE event_id = 't7'",
            7,
        ),
        (inserted.as_str(), 7),
    ];
    for (sql, position) in cases {
        std::fs::write(rig.path(), &good).unwrap();
        rig.tamper(sql);
        let findings = rig.findings().await;
        let first = findings.iter().find(|it| it.tenant.as_deref() == Some("t"));
        let first = first.unwrap_or_else(|| panic!("{sql}: {findings:?}"));
        assert_eq!(first.position, Some(position), "{sql}: {findings:?}");
    }
    // A tenant without checkpoints that is removed completely.
    std::fs::write(rig.path(), &good).unwrap();
    rig.tamper("DELETE FROM events WHERE tenant = 'u'");
    let findings = rig.findings().await;
    assert_eq!(places(&findings), [(FindingCode::Missing, None, None)], "{findings:?}");
}

#[tokio::test]
async fn recomputed_hashes_are_detected_by_the_next_checkpoint() {
    let rig = Rig::new().await;
    rig.tamper("UPDATE events SET form = NULL, payload = '{}' WHERE event_id = 't6'");
    rechain(&Connection::open(rig.path()).unwrap(), "t");
    let findings = rig.findings().await;
    assert_eq!(places(&findings), [(FindingCode::Rewritten, Some("t"), Some(8))], "{findings:?}");
}

#[tokio::test]
async fn a_checkpoint_that_was_changed_or_removed_is_found() {
    let rig = Rig::new().await;
    let good = std::fs::read(rig.path()).unwrap();
    for (sql, expected) in [
        (
            "UPDATE checkpoints SET signature = zeroblob(64) WHERE number = 1",
            FindingCode::Checkpoint,
        ),
        (
            "UPDATE checkpoints SET signature = zeroblob(64) WHERE number = 2",
            FindingCode::Checkpoint,
        ),
        ("UPDATE checkpoints SET signed_at = '2027-01-01T00:00:00.000Z'", FindingCode::Checkpoint),
        ("UPDATE checkpoints SET position = 3 WHERE number = 1", FindingCode::Checkpoint),
        ("UPDATE checkpoints SET kind = 'pruned' WHERE number = 2", FindingCode::Checkpoint),
        ("DELETE FROM checkpoints WHERE number = 1", FindingCode::Checkpoint),
    ] {
        std::fs::write(rig.path(), &good).unwrap();
        rig.tamper(sql);
        let findings = rig.findings().await;
        assert!(findings.iter().any(|it| it.code == expected), "{sql}: {findings:?}");
    }
}

#[tokio::test]
async fn without_the_key_a_removal_cannot_look_like_retention() {
    let rig = Rig::new().await;
    rig.tamper(
        "DELETE FROM events WHERE tenant = 't' AND tenant_position <= 4; \
         INSERT INTO checkpoints SELECT tenant, 3, 'pruned', position, hash, signed_at, public_key, \
         prev, signature FROM checkpoints WHERE number = 1",
    );
    let findings = rig.findings().await;
    assert!(findings.iter().any(|it| it.code == FindingCode::Checkpoint), "{findings:?}");
}

// I-72
#[tokio::test]
async fn with_an_anchor_a_truncation_is_found() {
    let rig = Rig::new().await;
    rig.tamper("DELETE FROM events WHERE position > 13; DELETE FROM checkpoints WHERE number = 2");
    assert_eq!(rig.findings().await, [], "the file alone does not show it");
    let findings = rig.verify(Scope::default(), &rig.anchors).await.findings;
    assert_eq!(places(&findings), [(FindingCode::Truncated, Some("t"), Some(8))], "{findings:?}");
}

// I-72
#[tokio::test]
async fn with_an_anchor_a_log_that_was_rewritten_with_another_key_is_found() {
    let rig = Rig::new().await;
    rig.tamper("UPDATE events SET form = NULL, payload = '{}' WHERE event_id = 't2'; DELETE FROM checkpoints");
    rechain(&Connection::open(rig.path()).unwrap(), "t");
    let other = SigningKey::parse(&Secret::new("0b".repeat(32))).unwrap();
    let store = rig.open();
    sign(&store, &other, "t", 1).await;
    let whole = Scope::default();
    let own = vec![other.public()];
    let report = verify::record(&store, &whole, own.clone(), &[], &[], |_, _| ()).await.unwrap();
    assert_eq!(report.findings, [], "an attacker with the whole file can make it look right");
    let both = vec![other.public(), signing_key().public()];
    for trusted in [own, both] {
        let report = verify::record(&store, &whole, trusted, &rig.anchors, &[], |_, _| ()).await;
        let findings = report.unwrap().findings;
        let rewritten = findings.iter().find(|it| it.code == FindingCode::Rewritten).unwrap();
        assert_eq!(rewritten.position, Some(4), "{findings:?}");
    }
    let trusted = vec![signing_key().public()];
    let report = verify::record(&store, &whole, trusted, &[], &[], |_, _| ()).await.unwrap();
    assert!(report.findings.iter().any(|it| it.code == FindingCode::UnknownKey));
}

#[tokio::test]
async fn an_invalid_anchor_is_reported() {
    let rig = Rig::new().await;
    let mut forged = rig.anchors.clone();
    forged[0].position = 5;
    let findings = rig.verify(Scope::default(), &forged).await.findings;
    assert_eq!(places(&findings), [(FindingCode::Anchor, Some("t"), Some(5))]);
}

#[tokio::test]
async fn a_range_is_checked_alone() {
    let rig = Rig::new().await;
    rig.tamper("UPDATE events SET form = NULL, payload = '{}' WHERE event_id IN ('t3', 'u7')");
    let range = |from, to| Scope { tenant: Some("t".parse().unwrap()), from, to };
    for (from, to, found) in [
        (Some(5), None, false),
        (Some(5), Some(9), false),
        (None, Some(2), false),
        (Some(3), Some(3), true),
        (None, None, true),
        (Some(1), Some(4), true),
    ] {
        let report = rig.verify(range(from, to), &[]).await;
        let places = places(&report.findings);
        match found {
            true => assert_eq!(places, [(FindingCode::Changed, Some("t"), Some(3))]),
            false => assert_eq!(places, [], "{from:?} to {to:?}"),
        }
    }
}

#[tokio::test]
async fn pruned_events_are_not_missing_and_the_rest_is_checked() {
    let rig = Rig::new().await;
    let store = rig.open();
    assert_eq!(prune(&store, &signing_key(), &rig.anchors[0], 3).await, 4);
    store.close().await;
    let report = rig.verify(Scope::default(), &rig.anchors).await;
    assert_eq!(report.findings, []);
    assert_eq!(report.tenants[0].first, 5);
    rig.tamper("UPDATE events SET form = NULL, payload = '{}' WHERE event_id = 't5'");
    let findings = rig.findings().await;
    assert_eq!(places(&findings), [(FindingCode::Changed, Some("t"), Some(5))]);
    rig.tamper("DELETE FROM events WHERE event_id = 't5'");
    let findings = rig.findings().await;
    assert!(places(&findings).contains(&(FindingCode::Missing, Some("t"), Some(5))));
}
