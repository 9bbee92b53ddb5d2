//! The requirements of [`KeyStore`](toolcrib_core::store::KeyStore).

use std::sync::Arc;

use toolcrib_core::{
    id::KeyId,
    principal::{PresentedToken, Token},
    store::{KeyRecord, KeyRotation, SessionCredential, Storage, StoreError},
};

use super::moment;

/// Creates a key that sets every field but the revocation.
pub fn key(id: &str, digest: u8, created: i64) -> KeyRecord {
    KeyRecord {
        id: id.parse().unwrap(),
        name: "the build server's key, \"quoted\" and ünïcode".to_owned(),
        tenant: "t".parse().unwrap(),
        principal: "ci".parse().unwrap(),
        digest: [digest; 32],
        roles: vec!["reader".to_owned(), "runner".to_owned()],
        scopes: vec!["files:*".parse().unwrap(), "time:read".parse().unwrap()],
        created_at: moment(created),
        expires_at: Some(moment(created + 86_400_000)),
        revoked_at: None,
        last_used_at: None,
        replaces: None,
        makers: Vec::new(),
        session: None,
    }
}

/// Creates a browser session that expires at `end`.
fn session(id: &str, digest: u8, created: i64, end: i64) -> KeyRecord {
    KeyRecord {
        expires_at: Some(moment(end)),
        session: Some(SessionCredential::Key("full".parse().unwrap())),
        ..key(id, digest, created)
    }
}

/// A new session removes those that expired more than a day before, and no key.
pub async fn sessions_leave_the_store_a_day_after_they_expire(storage: &dyn Storage) {
    const DAY: i64 = 86_400_000;
    let keys = &*storage.keys();
    let expired = KeyRecord { expires_at: Some(moment(1)), ..key("expired", 1, 0) };
    let token = Token {
        issuer: "https://issuer.example".to_owned(),
        expires_at: moment(DAY),
        roles: vec!["reader".to_owned()],
        scopes: vec!["files:*".parse().unwrap()],
        proof: [7; 32],
        client: None,
        actors: vec!["id.example|agent".parse().unwrap()],
        presented: PresentedToken::default(),
    };
    let of_token = KeyRecord {
        session: Some(SessionCredential::Token(Arc::new(token))),
        ..session("token", 2, 2, DAY)
    };
    let (old, recent) = (session("old", 3, 3, 9), session("recent", 4, 4, 10));
    for key in [&expired, &of_token, &old, &recent] {
        keys.insert(key.clone()).await.unwrap();
    }
    assert_eq!(
        keys.list().await.unwrap(),
        [expired.clone(), of_token.clone(), old, recent.clone()]
    );
    let epoch = storage.changes(None).await.unwrap().keys;
    keys.insert(KeyRecord { session: None, ..session("key", 5, DAY + 10, 2 * DAY) }).await.unwrap();
    assert_eq!(keys.list().await.unwrap().len(), 5, "a key does not remove sessions");
    let new = session("new", 6, DAY + 10, 2 * DAY);
    keys.insert(new.clone()).await.unwrap();
    let left: Vec<_> =
        keys.list().await.unwrap().into_iter().map(|key| key.id.to_string()).collect();
    assert_eq!(left, ["expired", "token", "recent", "key", "new"]);
    assert_eq!(keys.changed_since(epoch).await.unwrap().len(), 2);
}

/// Every field is kept.
pub async fn a_key_comes_back_as_it_was_inserted(storage: &dyn Storage) {
    let keys = &*storage.keys();
    let bare = KeyRecord {
        roles: vec![],
        scopes: vec![],
        expires_at: None,
        makers: vec!["ops".parse().unwrap(), "ann".parse().unwrap()],
        ..key("bare", 1, 1)
    };
    let revoked = KeyRecord {
        revoked_at: Some(moment(5)),
        last_used_at: Some(moment(4)),
        replaces: Some("bare".parse().unwrap()),
        ..key("revoked", 2, 2)
    };
    for key in [key("full", 0, 0), bare.clone(), revoked.clone()] {
        keys.insert(key).await.unwrap();
    }
    assert_eq!(keys.list().await.unwrap(), [key("full", 0, 0), bare, revoked]);
}

/// Oldest first, for any order of insertion.
pub async fn keys_are_listed_by_creation(storage: &dyn Storage) {
    let keys = &*storage.keys();
    for (id, digest, created) in [("b", 1, 20), ("c", 2, 30), ("a", 3, 10)] {
        keys.insert(key(id, digest, created)).await.unwrap();
    }
    let listed = keys.list().await.unwrap();
    assert_eq!(listed.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}

/// Ids and digests are unique, and a refused key has no effect.
pub async fn the_same_id_or_digest_is_a_conflict(storage: &dyn Storage) {
    let keys = &*storage.keys();
    keys.insert(key("a", 1, 0)).await.unwrap();
    let epoch = storage.changes(None).await.unwrap().keys;
    for refused in [key("a", 2, 0), key("b", 1, 0)] {
        let error = keys.insert(refused).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    }
    assert_eq!(keys.list().await.unwrap(), [key("a", 1, 0)]);
    assert_eq!(storage.changes(None).await.unwrap().keys, epoch);
}

/// Only one of several concurrent creations finds the principal new. Revoked keys count, other
/// tenants do not.
pub async fn a_principal_is_new_once(storage: &dyn Storage) {
    let keys = &*storage.keys();
    let of = |id: &str, digest, tenant: &str, principal: &str| KeyRecord {
        tenant: tenant.parse().unwrap(),
        principal: principal.parse().unwrap(),
        ..key(id, digest, 0)
    };
    let (one, two) = tokio::join!(
        keys.insert_for_new_principal(of("a", 1, "t", "ann")),
        keys.insert_for_new_principal(of("b", 2, "t", "ann")),
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(one != two, "one of both is stored");
    assert_eq!(keys.list().await.unwrap().len(), 1);
    let id = keys.list().await.unwrap().remove(0).id;
    assert!(keys.revoke(&id, moment(7)).await.unwrap());
    let epoch = storage.changes(None).await.unwrap().keys;
    assert!(!keys.insert_for_new_principal(of("c", 3, "t", "ann")).await.unwrap());
    assert_eq!(storage.changes(None).await.unwrap().keys, epoch);
    assert!(keys.insert_for_new_principal(of("d", 4, "other", "ann")).await.unwrap());
    assert!(keys.insert_for_new_principal(of("e", 5, "t", "bob")).await.unwrap());
    let twice = keys.insert_for_new_principal(of("e", 6, "t", "eve")).await.unwrap_err();
    assert!(matches!(twice, StoreError::Conflict(_)), "{twice}");
}

/// The first revocation counts; later ones and those of unknown keys return `false`.
pub async fn a_key_is_revoked_once(storage: &dyn Storage) {
    let keys = &*storage.keys();
    keys.insert(key("a", 1, 0)).await.unwrap();
    keys.insert(key("b", 2, 1)).await.unwrap();
    let id = KeyId::parse("a").unwrap();
    assert!(keys.revoke(&id, moment(7)).await.unwrap());
    assert!(!keys.revoke(&id, moment(8)).await.unwrap());
    assert!(!keys.revoke(&KeyId::parse("c").unwrap(), moment(9)).await.unwrap());
    let revoked: Vec<_> = keys.list().await.unwrap().iter().map(|key| key.revoked_at).collect();
    assert_eq!(revoked, [Some(moment(7)), None]);
}

/// The old key expires at the given time, unless it expires earlier.
pub async fn a_key_is_followed_by_another(storage: &dyn Storage) {
    let keys = &*storage.keys();
    let ids = ["a", "b", "c"].map(|id| KeyId::parse(id).unwrap());
    let [a, b, _] = &ids;
    keys.insert(KeyRecord { expires_at: None, ..key("a", 1, 0) }).await.unwrap();
    let epoch = storage.changes(None).await.unwrap().keys;
    let next = KeyRecord { replaces: Some(a.clone()), ..key("b", 2, 10) };
    assert_eq!(keys.rotate(a, next, moment(50)).await.unwrap(), KeyRotation::Rotated);
    assert_ne!(storage.changes(None).await.unwrap().keys, epoch);
    let end = moment(10 + 86_400_000);
    let last = KeyRecord { replaces: Some(b.clone()), ..key("c", 3, 20) };
    let rotated = keys.rotate(b, last, moment(i64::from(u32::MAX))).await.unwrap();
    assert_eq!(rotated, KeyRotation::Rotated);
    let listed = keys.list().await.unwrap();
    let ends: Vec<_> = listed.iter().map(|key| key.expires_at).collect();
    assert_eq!(ends, [Some(moment(50)), Some(end), Some(moment(20 + 86_400_000))]);
    let follows: Vec<_> = listed.iter().map(|key| key.replaces.clone()).collect();
    assert_eq!(follows, [None, Some(a.clone()), Some(b.clone())]);
}

/// Unknown, revoked and expired keys cannot be rotated, and a refused new key leaves the old one
/// unchanged.
pub async fn a_rotation_that_is_refused_changes_nothing(storage: &dyn Storage) {
    let keys = &*storage.keys();
    let revoked = KeyRecord { revoked_at: Some(moment(5)), ..key("revoked", 1, 0) };
    let expired = KeyRecord { expires_at: Some(moment(9)), ..key("expired", 2, 1) };
    let held = [revoked, expired, key("good", 3, 2)];
    for key in held.clone() {
        keys.insert(key).await.unwrap();
    }
    let epoch = storage.changes(None).await.unwrap().keys;
    for old in ["revoked", "expired", "unknown"] {
        let old = KeyId::parse(old).unwrap();
        let refused = keys.rotate(&old, key("new", 4, 10), moment(20)).await.unwrap();
        assert_eq!(refused, KeyRotation::NoActiveKey, "{old}");
    }
    let good = KeyId::parse("good").unwrap();
    let twice = keys.rotate(&good, key("new", 3, 10), moment(20)).await.unwrap_err();
    assert!(matches!(twice, StoreError::Conflict(_)), "{twice}");
    assert_eq!(keys.list().await.unwrap(), held);
    assert_eq!(storage.changes(None).await.unwrap().keys, epoch);
}

/// One key replaces another, even when rotations run concurrently or the first one expired the old
/// key immediately. After the successor is revoked, another one can replace the key.
pub async fn of_parallel_rotations_one_succeeds(storage: &dyn Storage) {
    let keys = &*storage.keys();
    let old = KeyId::parse("old").unwrap();
    keys.insert(KeyRecord { expires_at: None, ..key("old", 1, 0) }).await.unwrap();
    let rotate = |digest: u8| {
        let id = format!("new{digest}");
        let new = KeyRecord { replaces: Some(old.clone()), ..key(&id, digest, 10) };
        keys.rotate(&old, new, moment(20))
    };
    let epoch = storage.changes(None).await.unwrap().keys;
    let results = tokio::join!(rotate(2), rotate(3), rotate(4), rotate(5));
    let results = [results.0, results.1, results.2, results.3].map(Result::unwrap);
    let count = |wanted| results.iter().filter(|result| **result == wanted).count();
    assert_eq!(count(KeyRotation::Rotated), 1, "{results:?}");
    assert_eq!(count(KeyRotation::AlreadyReplaced), 3, "{results:?}");
    let changed = storage.changes(None).await.unwrap().keys;
    assert_ne!(changed, epoch);
    let listed = keys.list().await.unwrap();
    assert_eq!(listed.len(), 2);

    // Neither an expired nor a revoked key gets a second successor.
    let late = KeyRecord { replaces: Some(old.clone()), ..key("late", 6, 30) };
    let refused = keys.rotate(&old, late.clone(), moment(40)).await.unwrap();
    assert_eq!(refused, KeyRotation::AlreadyReplaced);
    assert_eq!(keys.list().await.unwrap(), listed);
    assert_eq!(storage.changes(None).await.unwrap().keys, changed);

    assert!(keys.revoke(&listed[1].id, moment(15)).await.unwrap());
    let again = KeyRecord { created_at: moment(16), ..late };
    assert_eq!(keys.rotate(&old, again, moment(40)).await.unwrap(), KeyRotation::Rotated);
}

/// A use does not change the epoch, so readers need not reload all keys.
pub async fn the_last_use_is_noted_and_never_goes_back(storage: &dyn Storage) {
    let keys = &*storage.keys();
    for (id, digest) in [("a", 1), ("b", 2)] {
        keys.insert(key(id, digest, i64::from(digest))).await.unwrap();
    }
    let epoch = storage.changes(None).await.unwrap().keys;
    for (id, at) in [("a", 30), ("unknown", 40), ("a", 20)] {
        keys.note_used(vec![(KeyId::parse(id).unwrap(), moment(at))]).await.unwrap();
    }
    let used: Vec<_> = keys.list().await.unwrap().iter().map(|key| key.last_used_at).collect();
    assert_eq!(used, [Some(moment(30)), None]);
    assert_eq!(storage.changes(None).await.unwrap().keys, epoch);
}

/// The epoch changes with every change, and only then.
pub async fn the_epoch_changes_with_every_change(storage: &dyn Storage) {
    let keys = &*storage.keys();
    let mut last = storage.changes(None).await.unwrap().keys;
    let id = KeyId::parse("a").unwrap();
    keys.insert(key("a", 1, 0)).await.unwrap();
    for revocation in [true, false] {
        let epoch = storage.changes(None).await.unwrap().keys;
        assert_ne!(epoch, last);
        last = epoch;
        if revocation {
            keys.revoke(&id, moment(1)).await.unwrap();
        }
    }
    keys.revoke(&id, moment(2)).await.unwrap();
    keys.list().await.unwrap();
    assert_eq!(storage.changes(None).await.unwrap().keys, last);
}

/// Keys that were inserted, revoked or rotated after the epoch are returned, and no others.
pub async fn the_keys_changed_since_an_epoch_are_returned(storage: &dyn Storage) {
    let keys = &*storage.keys();
    let epoch = async || storage.changes(None).await.unwrap().keys;
    let since = async |epoch| {
        let mut changed = keys.changed_since(epoch).await.unwrap();
        changed.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
        changed
    };
    let id = |id: &str| KeyId::parse(id).unwrap();
    for (name, digest) in [("a", 1), ("b", 2), ("c", 3)] {
        keys.insert(key(name, digest, 0)).await.unwrap();
    }
    let first = epoch().await;
    assert_eq!(since(0).await.len(), 3);
    assert_eq!(since(first).await, []);
    keys.revoke(&id("b"), moment(5)).await.unwrap();
    let second = epoch().await;
    let revoked = KeyRecord { revoked_at: Some(moment(5)), ..key("b", 2, 0) };
    assert_eq!(since(first).await, std::slice::from_ref(&revoked));
    let next = KeyRecord { replaces: Some(id("a")), ..key("d", 4, 10) };
    let rotated = keys.rotate(&id("a"), next.clone(), moment(20)).await.unwrap();
    assert_eq!(rotated, KeyRotation::Rotated);
    let ends = KeyRecord { expires_at: Some(moment(20)), ..key("a", 1, 0) };
    assert_eq!(since(second).await, [ends.clone(), next.clone()]);
    assert_eq!(since(first).await, [ends, revoked, next]);
    let third = epoch().await;
    // These calls do not change a key.
    keys.revoke(&id("b"), moment(6)).await.unwrap();
    keys.insert(key("e", 1, 0)).await.unwrap_err();
    keys.note_used(vec![(id("c"), moment(30))]).await.unwrap();
    assert_eq!(since(third).await, []);
}
