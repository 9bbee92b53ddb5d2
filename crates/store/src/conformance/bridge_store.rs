//! The requirements of [`BridgeStore`](toolcrib_core::bridge::BridgeStore).

use toolcrib_core::{
    bridge::{BridgeItem, BridgeKind},
    clock::Timestamp,
    credential::{CredentialStoreError, Secret},
    principal::PrincipalKey,
    store::{Storage, StoreError},
};

use super::moment;

/// Enough room.
const MOST: u64 = 100;

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

/// An item of `ann` of tenant `t`, which is valid for one minute from `at`.
pub fn item(kind: BridgeKind, id: &str, at: Timestamp) -> BridgeItem {
    BridgeItem {
        kind,
        id: id.parse().unwrap(),
        owner: Some(PrincipalKey {
            tenant: "t".parse().unwrap(),
            principal: "id|ann".parse().unwrap(),
        }),
        created_at: at,
        expires_at: at + chrono::Duration::minutes(1),
        revision: 1,
    }
}

/// A grant with the value `of ID`, created at `at`.
pub async fn put(storage: &dyn Storage, id: &str, at: Timestamp) -> BridgeItem {
    let grant = item(BridgeKind::Grant, id, at);
    assert!(storage.bridge().add(grant.clone(), secret(&format!("of {id}")), MOST).await.unwrap());
    grant
}

fn shown(found: Option<(BridgeItem, Secret)>) -> Option<(BridgeItem, String)> {
    found.map(|(item, value)| (item, value.expose().to_owned()))
}

/// An item is read with all its fields by its kind and id, until it expires.
pub async fn an_item_comes_back_as_it_was_added(storage: &dyn Storage) {
    let store = &*storage.bridge();
    let kinds = [
        (BridgeKind::Client, "a"),
        (BridgeKind::SignIn, "b"),
        (BridgeKind::Grant, "c"),
        (BridgeKind::Assertion, "d"),
    ];
    for (kind, id) in kinds {
        let owner = item(kind, id, moment(0)).owner.filter(|_| kind != BridgeKind::Client);
        let it = BridgeItem { owner, ..item(kind, id, moment(0)) };
        assert!(store.add(it.clone(), secret(id), MOST).await.unwrap());
        let found = shown(store.get(kind, &it.id, moment(59_999)).await.unwrap());
        assert_eq!(found, Some((it.clone(), id.to_owned())));
        assert!(store.get(kind, &it.id, moment(60_000)).await.unwrap().is_none(), "it is late");
        let others = kinds.iter().filter(|(other, _)| *other != kind);
        for (other, _) in others {
            assert!(store.get(*other, &it.id, moment(1)).await.unwrap().is_none());
            assert!(store.take(*other, &it.id, moment(1)).await.unwrap().is_none());
        }
        let again = store.add(it, secret("x"), MOST).await.unwrap_err();
        assert!(matches!(again, CredentialStoreError::Store(StoreError::Conflict(_))), "{again}");
    }
}

/// Of two changes of one revision, the first counts.
pub async fn an_item_changes_only_over_what_was_seen(storage: &dyn Storage) {
    let store = &*storage.bridge();
    let seen = put(storage, "a", moment(0)).await;
    let later = BridgeItem { expires_at: moment(120_000), ..seen.clone() };
    assert!(store.change(later.clone(), secret("new")).await.unwrap());
    assert!(!store.change(later.clone(), secret("other")).await.unwrap());
    let stranger = BridgeItem { owner: None, revision: 2, ..later.clone() };
    assert!(!store.change(stranger, secret("other")).await.unwrap());
    let found = shown(store.get(BridgeKind::Grant, &seen.id, moment(100_000)).await.unwrap());
    assert_eq!(found, Some((BridgeItem { revision: 2, ..later }, "new".to_owned())));
    let unknown = item(BridgeKind::Grant, "b", moment(0));
    assert!(!store.change(unknown, secret("x")).await.unwrap());
}

/// Many requests change one revision at once: one does.
pub async fn of_many_that_change_an_item_one_does(storage: &dyn Storage) {
    let store = &*storage.bridge();
    let seen = put(storage, "a", moment(0)).await;
    let tries = (0..16).map(|number| store.change(seen.clone(), secret(&number.to_string())));
    let done = futures_util::future::join_all(tries).await;
    assert_eq!(done.into_iter().filter(|done| *done.as_ref().unwrap()).count(), 1);
}

/// An item is taken once, and not after it has expired.
pub async fn an_item_is_taken_once(storage: &dyn Storage) {
    let store = &*storage.bridge();
    let (first, late) = (put(storage, "a", moment(0)).await, put(storage, "b", moment(0)).await);
    let takes = (0..16).map(|_| store.take(BridgeKind::Grant, &first.id, moment(1)));
    let taken = futures_util::future::join_all(takes).await;
    let taken: Vec<_> = taken.into_iter().filter_map(|it| shown(it.unwrap())).collect();
    assert_eq!(taken, [(first, "of a".to_owned())]);
    assert!(store.take(BridgeKind::Grant, &late.id, moment(60_000)).await.unwrap().is_none());
    assert!(store.get(BridgeKind::Grant, &late.id, moment(1)).await.unwrap().is_none());
}

/// Beyond the most of a kind none is added, until others have expired.
pub async fn items_are_bounded(storage: &dyn Storage) {
    let store = &*storage.bridge();
    let add =
        async |kind, id: &str, at| store.add(item(kind, id, at), secret("x"), 2).await.unwrap();
    assert!(add(BridgeKind::SignIn, "a", moment(0)).await);
    assert!(add(BridgeKind::SignIn, "b", moment(10)).await);
    assert!(!add(BridgeKind::SignIn, "c", moment(20)).await);
    assert!(add(BridgeKind::Client, "d", moment(20)).await, "kinds are counted apart");
    assert!(add(BridgeKind::SignIn, "e", moment(60_000)).await, "the first one has expired");
    let ids = ["c", "a"].map(|id| id.parse().unwrap());
    for id in ids {
        assert!(store.get(BridgeKind::SignIn, &id, moment(1)).await.unwrap().is_none());
    }
    assert_eq!(store.sweep(moment(60_010)).await.unwrap(), 1);
    assert_eq!(store.sweep(moment(200_000)).await.unwrap(), 2);
}

/// Grants are listed by tenant and principal.
pub async fn grants_are_listed_by_their_person(storage: &dyn Storage) {
    let store = &*storage.bridge();
    for id in ["b", "a"] {
        put(storage, id, moment(0)).await;
    }
    let bob = PrincipalKey { tenant: "t".parse().unwrap(), principal: "bob".parse().unwrap() };
    let other = PrincipalKey { tenant: "u".parse().unwrap(), ..bob.clone() };
    for (id, owner) in [("c", bob.clone()), ("d", other)] {
        let it = BridgeItem { owner: Some(owner), ..item(BridgeKind::Grant, id, moment(0)) };
        assert!(store.add(it, secret("x"), MOST).await.unwrap());
    }
    let sign_in = item(BridgeKind::SignIn, "e", moment(0));
    assert!(store.add(sign_in, secret("x"), MOST).await.unwrap());
    let ids = async |principal| {
        let listed = store.grants(&"t".parse().unwrap(), principal).await.unwrap();
        listed.into_iter().map(|(it, _)| it.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(None).await, ["a", "b", "c"]);
    assert_eq!(ids(Some(&bob.principal)).await, ["c"]);
}
