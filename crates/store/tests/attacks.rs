//! I-71, I-72: which attacks on a record are detected by the file alone, by the witness next to the
//! signing key, and by checkpoints that are stored elsewhere. The table in `docs/explanation/record.md` lists
//! the same.
#![cfg(test)]

use std::{path::PathBuf, time::Duration};

use toolcrib_core::{
    event::EventLog,
    record::{Checkpoint, CheckpointSigner, RecordStore, Witness, WitnessStore},
    store::Storage,
};
use toolcrib_store::{
    Durability, Options, SqliteStore, WitnessFile,
    conformance::{
        attack::Attack,
        event_log::decided,
        moment,
        record_store::{sign, signing_key},
    },
    verify::{self, FindingCode, Report, Scope, Verdict},
};

const INTERVAL: Duration = Duration::from_secs(60);

/// A store with two tenants, whose signed parts end before the last events.
struct Rig {
    directory: tempfile::TempDir,
    anchors: Vec<Checkpoint>,
}

impl Rig {
    async fn new() -> Self {
        let rig = Self { directory: tempfile::tempdir().unwrap(), anchors: Vec::new() };
        let store = rig.open();
        let mut anchors = Vec::new();
        let mut witness = Witness::new(signing_key().public());
        for number in 1..=12 {
            let mine = decided("t", "r", &format!("t{number}"));
            store.append(&[mine, decided("u", "r", &format!("u{number}"))]).await.unwrap();
            if [4, 7, 10].contains(&number) {
                for tenant in ["t", "u"] {
                    let checkpoint = sign(&store, &signing_key(), tenant, 1).await;
                    witness.add(&checkpoint);
                    anchors.push(checkpoint);
                }
                witness.position = store.last_position().await.unwrap();
            }
        }
        store.close().await;
        let signature = signing_key().sign(&witness.signed()).unwrap();
        rig.witness_file().save(witness.text(&signature)).await.unwrap();
        Self { anchors, ..rig }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("store.db")
    }

    fn witness_file(&self) -> WitnessFile {
        WitnessFile::new(self.directory.path().join("store.db.witness"))
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(
            self.path(),
            Options { durability: Durability::Relaxed, ..Options::default() },
        )
        .unwrap()
    }

    async fn verify(&self, witness: bool, anchors: &[Checkpoint]) -> Report {
        let text = self.witness_file().load().await.unwrap().unwrap();
        let known = toolcrib_store::witness(&text).unwrap();
        let known = if witness { vec![known] } else { Vec::new() };
        let store = self.open();
        let trusted = vec![signing_key().public()];
        let whole = Scope::default();
        let report = verify::record(&store, &whole, trusted, anchors, &known, |_, _| ()).await;
        store.close().await;
        report.unwrap()
    }

    /// Returns the verdict of the file alone, and whether the witness and the anchors have
    /// findings.
    async fn outcome(&self) -> (Verdict, bool, bool) {
        let alone = self.verify(false, &[]).await.verdict(moment(10), INTERVAL);
        let witness = !self.verify(true, &[]).await.findings.is_empty();
        let anchored = !self.verify(false, &self.anchors).await.findings.is_empty();
        (alone, witness, anchored)
    }
}

// I-71, I-72
#[tokio::test]
async fn each_attack_is_detected_as_documented() {
    let untouched = (Verdict::Verified, false, false);
    assert_eq!(Rig::new().await.outcome().await, untouched);
    let expected = [
        (Attack::Change, (Verdict::Changed, true, true)),
        (Attack::ChangeWithoutCheckpoints, (Verdict::NoCheckpoint, true, true)),
        (Attack::ChangeWithoutLaterCheckpoints, (Verdict::Verified, true, true)),
        (Attack::ChangeWithoutLastCheckpoint, (Verdict::Verified, true, true)),
        (Attack::RemoveAndRenumber, (Verdict::NoCheckpoint, true, true)),
        (Attack::RemoveTenant, (Verdict::Verified, true, true)),
        (Attack::InsertAfterLastCheckpoint, untouched),
        (Attack::CutSignedEnd, (Verdict::Verified, true, true)),
        (Attack::CutUnsignedEnd, untouched),
    ];
    assert_eq!(expected.map(|(attack, _)| attack), Attack::ALL);
    for (attack, outcome) in expected {
        let rig = Rig::new().await;
        attack.commit(&rig.path(), "t");
        assert_eq!(rig.outcome().await, outcome, "{attack:?}");
    }
}

// I-72
#[tokio::test]
async fn a_directory_that_was_put_back_is_found_by_an_anchor_alone() {
    let rig = Rig::new().await;
    let read = |path: PathBuf| std::fs::read(path).unwrap();
    let (store, witness) = (read(rig.path()), read(rig.witness_file().path().to_owned()));
    let open = rig.open();
    open.append(&[decided("t", "r", "late")]).await.unwrap();
    let late = sign(&open, &signing_key(), "t", 2).await;
    open.close().await;
    std::fs::write(rig.path(), store).unwrap();
    std::fs::write(rig.witness_file().path(), witness).unwrap();
    assert_eq!(rig.outcome().await, (Verdict::Verified, false, false));
    let found = rig.verify(true, &[late]).await.findings;
    assert_eq!(found.iter().map(|it| it.code).collect::<Vec<_>>(), [FindingCode::Truncated]);
}

// I-72
#[tokio::test]
async fn with_an_older_witness_what_came_since_can_be_written_anew() {
    let rig = Rig::new().await;
    let earlier = std::fs::read(rig.path()).unwrap();
    let open = rig.open();
    open.append(&[decided("t", "r", "late")]).await.unwrap();
    let late = sign(&open, &signing_key(), "t", 2).await;
    open.close().await;
    // The later checkpoint and its event are removed, and the earlier witness names neither.
    std::fs::write(rig.path(), earlier).unwrap();
    let open = rig.open();
    open.append(&[decided("t", "r", "forged")]).await.unwrap();
    open.close().await;
    assert_eq!(rig.outcome().await, (Verdict::Verified, false, false));
    assert!(!rig.verify(true, &[late]).await.findings.is_empty());
}

#[tokio::test]
async fn events_that_are_not_signed_are_proven_for_an_interval_only() {
    let rig = Rig::new().await;
    let report = rig.verify(true, &[]).await;
    let log = report.tenants.iter().find(|it| it.tenant == "t").unwrap();
    assert_eq!((log.signed, log.unsigned), (10, 2));
    // Recorded at moment(1): an interval, a grace of thirty seconds, and a millisecond too late.
    for (at, verdict) in
        [(1, Verdict::Verified), (90_001, Verdict::Verified), (90_002, Verdict::UnsignedTail)]
    {
        assert_eq!(report.verdict(moment(at), INTERVAL), verdict, "{at}");
    }
    let store = rig.open();
    sign(&store, &signing_key(), "t", 3).await;
    sign(&store, &signing_key(), "u", 3).await;
    store.close().await;
    let report = rig.verify(false, &[]).await;
    assert_eq!(report.verdict(moment(900_000), INTERVAL), Verdict::Verified);
    // For a tenant without any checkpoint nothing is proven, however young it is.
    let store = rig.open();
    store.append(&[decided("v", "r", "v1")]).await.unwrap();
    store.close().await;
    let report = rig.verify(false, &[]).await;
    assert_eq!(report.verdict(moment(2), INTERVAL), Verdict::NoCheckpoint);
    assert_eq!(Report::default().verdict(moment(2), INTERVAL), Verdict::NoCheckpoint);
}
