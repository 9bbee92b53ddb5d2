//! The requirements of [`RecordStore`](toolcrib_core::record::RecordStore).

use std::collections::HashMap;

use toolcrib_core::{
    canonical::Digest,
    credential::Secret,
    event::EventQuery,
    id::TenantId,
    record::{
        Checkpoint, CheckpointKind, CheckpointSigner, Cursor, LogGrowth, StoredQuery, genesis,
    },
    store::Storage,
};

use super::{
    event_log::{called, decided, returned},
    moment,
};
use crate::{
    SigningKey,
    verify::{self, Scope},
};

pub fn signing_key() -> SigningKey {
    SigningKey::parse(&Secret::new("0a".repeat(32))).unwrap()
}

/// Signs the end of the log of `tenant`, and stores the checkpoint.
pub async fn sign(storage: &dyn Storage, key: &SigningKey, tenant: &str, at: i64) -> Checkpoint {
    let tenant = tenant.parse().unwrap();
    let head = storage.record().head(&tenant).await.unwrap().unwrap();
    let last = storage.record().last_checkpoint(&tenant).await.unwrap();
    let (head, kind) = ((head.position, head.hash), CheckpointKind::Head);
    let checkpoint = key.checkpoint(kind, tenant, head, last.as_ref(), moment(at)).unwrap();
    assert!(storage.record().add_checkpoint(checkpoint.clone()).await.unwrap());
    checkpoint
}

/// Marks the events that `checkpoint` covers as pruned.
pub async fn mark(storage: &dyn Storage, key: &SigningKey, checkpoint: &Checkpoint) {
    let tenant = checkpoint.tenant.clone();
    let last = storage.record().last_checkpoint(&tenant).await.unwrap();
    let place = (checkpoint.position, checkpoint.hash);
    let kind = CheckpointKind::Pruned;
    let mark = key.checkpoint(kind, tenant, place, last.as_ref(), moment(90)).unwrap();
    assert!(storage.record().add_checkpoint(mark).await.unwrap());
}

/// Marks the events that `checkpoint` covers as pruned, and removes them in batches of `step`.
pub async fn prune(
    storage: &dyn Storage,
    key: &SigningKey,
    checkpoint: &Checkpoint,
    step: usize,
) -> usize {
    let tenant = checkpoint.tenant.clone();
    mark(storage, key, checkpoint).await;
    let mut removed = 0;
    loop {
        let count = storage.record().prune(&tenant, step).await.unwrap();
        removed += count;
        if count < step {
            return removed;
        }
    }
}

async fn fill(storage: &dyn Storage) {
    for number in 0..3 {
        let call = called("t", "r", &format!("e{number}"), &format!("c{number}"));
        let end = returned(&call, &format!("e{number}-end"));
        storage
            .events()
            .append(&[call, decided("u", "r", &format!("d{number}")), end])
            .await
            .unwrap();
    }
}

async fn findings(storage: &dyn Storage) -> Vec<verify::Finding> {
    let trusted = vec![signing_key().public()];
    let whole = Scope::default();
    verify::record(&*storage.record(), &whole, trusted, &[], &[], |_, _| ()).await.unwrap().findings
}

pub async fn every_event_continues_its_tenants_chain(storage: &dyn Storage) {
    fill(storage).await;
    for (tenant, count) in [("t", 6), ("u", 3)] {
        let tenant = tenant.parse().unwrap();
        let query = StoredQuery {
            tenant: Some(TenantId::clone(&tenant)),
            with_prev: true,
            ..StoredQuery::default()
        };
        let mut prev = genesis();
        let stored = storage.record().stored(query).await.unwrap();
        assert_eq!(stored.len(), count);
        for (event, position) in stored.iter().zip(1..) {
            assert_eq!((event.tenant_position, event.prev), (position, Some(prev)));
            prev = event.hash_after(&prev);
            assert_eq!(event.hash, Some(prev));
        }
        let head = storage.record().head(&tenant).await.unwrap().unwrap();
        assert_eq!((head.position, head.hash), (count as u64, prev));
    }
    assert!(storage.record().head(&"unknown".parse().unwrap()).await.unwrap().is_none());
    assert_eq!(storage.record().last_position().await.unwrap(), 9);
    let after = StoredQuery { after: 7, ..StoredQuery::default() };
    let positions: Vec<u64> =
        storage.record().stored(after).await.unwrap().iter().map(|event| event.position).collect();
    assert_eq!(positions, [8, 9]);
    assert_eq!(findings(storage).await, []);
}

pub async fn readers_are_told_the_links_that_are_stored(storage: &dyn Storage) {
    fill(storage).await;
    let query = StoredQuery { with_prev: true, ..StoredQuery::default() };
    let stored = storage.record().stored(query).await.unwrap();
    let read = storage.events().read(EventQuery::default()).await.unwrap();
    assert_eq!(stored.len(), read.len());
    for (stored, read) in stored.iter().zip(&read) {
        let link = (read.link.position, Some(read.link.prev), Some(read.link.hash));
        assert_eq!((stored.tenant_position, stored.prev, stored.hash), link);
        assert_eq!(read.event.body.payload_text().unwrap(), stored.payload);
    }
}

pub async fn a_checkpoint_is_added_only_when_it_is_true_and_the_next_one(storage: &dyn Storage) {
    fill(storage).await;
    let key = signing_key();
    let first = sign(storage, &key, "t", 1).await;
    let tenant = &first.tenant;
    let made = |kind, place, last: Option<&Checkpoint>| {
        key.checkpoint(kind, tenant.clone(), place, last, moment(2)).unwrap()
    };
    let place = (first.position, first.hash);
    let head = CheckpointKind::Head;
    let other_hash = (first.position, Digest([7; 32]));
    let refused = [
        ("the same number", made(head, place, None)),
        ("another hash", made(head, other_hash, Some(&first))),
        ("an unknown position", made(head, (99, first.hash), Some(&first))),
        (
            "after another one",
            Checkpoint { prev: Digest([1; 32]), ..made(head, place, Some(&first)) },
        ),
    ];
    for (what, checkpoint) in refused {
        assert!(!storage.record().add_checkpoint(checkpoint).await.unwrap(), "{what}");
    }
    storage.events().append(&[decided("t", "r", "more")]).await.unwrap();
    let second = sign(storage, &key, "t", 3).await;
    assert_eq!((second.number, second.prev), (2, first.digest()));
    let stored = storage.record().checkpoints(tenant, 0).await.unwrap();
    assert_eq!(stored, [first.clone(), second.clone()]);
    assert_eq!(
        storage.record().checkpoints(tenant, 1).await.unwrap(),
        std::slice::from_ref(&second)
    );
    assert_eq!(storage.record().last_checkpoint(tenant).await.unwrap(), Some(second));
    assert_eq!(findings(storage).await, []);
}

pub async fn news_are_told_with_what_is_signed(storage: &dyn Storage) {
    fill(storage).await;
    sign(storage, &signing_key(), "u", 1).await;
    let mut hashes = HashMap::new();
    for tenant in ["t", "u"] {
        let head = storage.record().head(&tenant.parse().unwrap()).await.unwrap().unwrap();
        hashes.insert(tenant, head.hash);
    }
    let news = |tenant: &str, position, checkpointed| LogGrowth {
        tenant: tenant.parse().unwrap(),
        position,
        hash: Some(hashes[tenant]),
        checkpointed,
    };
    let mut all = storage.record().news(0, 9).await.unwrap();
    all.sort_by(|a, b| a.tenant.cmp(&b.tenant));
    assert_eq!(all, [news("t", 6, 0), news("u", 3, 3)]);
    assert_eq!(storage.record().news(8, 9).await.unwrap(), [news("t", 6, 0)]);
    assert_eq!(storage.record().news(9, 9).await.unwrap(), []);
    let tenants =
        |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>();
    assert_eq!(storage.record().tenants(None).await.unwrap(), tenants(&["t", "u"]));
    assert_eq!(
        storage.record().tenants(Some(&"t".parse().unwrap())).await.unwrap(),
        tenants(&["u"])
    );
}

pub async fn what_is_pruned_leaves_a_log_that_proves_itself(storage: &dyn Storage) {
    let key = signing_key();
    fill(storage).await;
    let old = sign(storage, &key, "t", 1).await;
    storage
        .events()
        .append(&(0..4).map(|n| decided("t", "r", &format!("f{n}"))).collect::<Vec<_>>())
        .await
        .unwrap();
    sign(storage, &key, "t", 100).await;
    let wanted = storage.record().prunable(&old.tenant, moment(50), u64::MAX).await.unwrap();
    assert_eq!(wanted.as_ref(), Some(&old));
    // An interrupted pruning leaves a sound log.
    mark(storage, &key, &old).await;
    assert_eq!(storage.record().prune(&old.tenant, 2).await.unwrap(), 2);
    assert_eq!(findings(storage).await, []);
    assert_eq!(storage.record().prune(&old.tenant, 10).await.unwrap(), 4);
    assert_eq!(storage.record().prune(&old.tenant, 10).await.unwrap(), 0);
    assert_eq!(findings(storage).await, []);
    let query = EventQuery { tenant: Some(old.tenant.clone()), ..EventQuery::default() };
    let left = storage.events().read(query).await.unwrap();
    assert_eq!((left[0].position, left[0].link.prev, left.len()), (7, old.hash, 4));
    // The log continues after the pruning.
    storage.events().append(&[decided("t", "r2", "g")]).await.unwrap();
    assert_eq!(storage.record().head(&old.tenant).await.unwrap().unwrap().position, 11);
    assert_eq!(findings(storage).await, []);
    assert!(storage.record().prunable(&old.tenant, moment(50), u64::MAX).await.unwrap().is_none());
}

// I-72
pub async fn a_log_that_is_pruned_many_times_proves_itself_each_time(storage: &dyn Storage) {
    let key = signing_key();
    let tenants = ["t", "u", "v"].map(|name| name.parse::<TenantId>().unwrap());
    let mut prunings = 0;
    for round in 0..60_i64 {
        for (index, tenant) in tenants.iter().enumerate() {
            let name = tenant.as_str();
            let count = (usize::try_from(round).unwrap() * 7 + index * 3) % 5;
            let ids = (0..count).map(|number| format!("{name}{round}-{number}"));
            let events: Vec<_> = ids.map(|id| decided(name, "r", &id)).collect();
            storage.events().append(&events).await.unwrap();
            // Each tenant at its own pace, and some heads twice.
            let due = round % (i64::try_from(index).unwrap() + 1) == 0;
            if due && storage.record().head(tenant).await.unwrap().is_some() {
                sign(storage, &key, name, round).await;
            }
            assert_eq!(findings(storage).await, [], "round {round}, {name} signed");
            let before = moment(round - 4);
            let Some(old) = storage.record().prunable(tenant, before, u64::MAX).await.unwrap()
            else {
                continue;
            };
            prunings += 1;
            mark(storage, &key, &old).await;
            loop {
                assert_eq!(findings(storage).await, [], "round {round}, {name} being pruned");
                if storage.record().prune(tenant, 2).await.unwrap() < 2 {
                    break;
                }
            }
            assert_eq!(findings(storage).await, [], "round {round}, {name} pruned");
            let kept = storage.record().checkpoints(tenant, 0).await.unwrap();
            assert_eq!(kept[0].position, old.position, "unneeded checkpoints are removed");
        }
    }
    assert!(prunings > 60, "{prunings}");
}

pub async fn nothing_is_pruned_that_somebody_still_needs(storage: &dyn Storage) {
    let key = signing_key();
    let tenant = "t".parse().unwrap();
    storage.events().append(&[decided("t", "r", "a")]).await.unwrap();
    let first = sign(storage, &key, "t", 1).await;
    let prunable = async |before, delivered| {
        let found = storage.record().prunable(&tenant, moment(before), delivered).await.unwrap();
        found.map(|checkpoint| checkpoint.number)
    };
    assert_eq!(prunable(50, u64::MAX).await, None, "the last event of a log stays");
    let call = called("t", "r", "b", "c");
    storage.events().append(std::slice::from_ref(&call)).await.unwrap();
    assert_eq!(prunable(50, u64::MAX).await, Some(first.number));
    assert_eq!(prunable(1, u64::MAX).await, None, "too young");
    assert_eq!(prunable(50, 0).await, None, "not delivered");
    sign(storage, &key, "t", 2).await;
    storage.events().append(&[decided("t", "r", "d")]).await.unwrap();
    assert_eq!(prunable(50, u64::MAX).await, Some(1), "an open call stays");
    storage.events().append(&[returned(&call, "e")]).await.unwrap();
    assert_eq!(prunable(50, u64::MAX).await, Some(2));
    assert_eq!(prunable(50, 1).await, Some(1), "only delivered events");
}

pub async fn a_witness_is_kept_until_it_is_replaced_or_removed(storage: &dyn Storage) {
    let Some(witnesses) = storage.witnesses() else { return };
    assert_eq!(witnesses.list().await.unwrap(), []);
    assert_eq!(witnesses.load(witnesses.server()).await.unwrap(), None);
    let mut before = Vec::new();
    for text in ["one", "two"] {
        witnesses.save(text.to_owned()).await.unwrap();
        let listed = witnesses.list().await.unwrap();
        let own = (witnesses.server(), Digest::of(text.as_bytes()));
        let found: Vec<_> =
            listed.iter().map(|witness| (witness.server.as_str(), witness.digest)).collect();
        assert_eq!(found, [own]);
        assert_eq!(witnesses.load(own.0).await.unwrap().as_deref(), Some(text));
        // A row replaced since the list stays.
        witnesses.remove(&before).await.unwrap();
        assert_eq!(witnesses.list().await.unwrap(), listed);
        before = listed;
    }
    witnesses.remove(&before).await.unwrap();
    assert_eq!(witnesses.list().await.unwrap(), []);
}

pub async fn a_cursor_comes_back_as_it_was_set(storage: &dyn Storage) {
    let plain = Cursor {
        name: "a".to_owned(),
        position: 3,
        moved_at: None,
        failing_since: None,
        failures: 0,
        problem: None,
    };
    let failing = Cursor {
        name: "b".to_owned(),
        position: 0,
        moved_at: Some(moment(1)),
        failing_since: Some(moment(2)),
        failures: 4,
        problem: Some("no answer".to_owned()),
    };
    storage.record().set_cursor(failing.clone()).await.unwrap();
    storage.record().set_cursor(Cursor { position: 1, ..plain.clone() }).await.unwrap();
    storage.record().set_cursor(plain.clone()).await.unwrap();
    assert_eq!(storage.record().cursors().await.unwrap(), [plain, failing]);
}
