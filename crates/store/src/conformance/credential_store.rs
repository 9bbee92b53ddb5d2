//! The requirements of [`CredentialStore`].

use toolcrib_core::{
    credential::{
        Credential, CredentialKind, CredentialStore, CredentialStoreError, Material, Owner, Secret,
    },
    id::CredentialName,
    store::{Storage, StoreError},
};

use super::moment;

/// Creates a credential of tenant `t`, or of one of its principals, that sets every field.
pub fn credential(id: &str, name: &str, principal: Option<&str>) -> Credential {
    Credential {
        id: id.parse().unwrap(),
        name: name.parse().unwrap(),
        owner: Owner {
            tenant: "t".parse().unwrap(),
            principal: principal.map(|principal| principal.parse().unwrap()),
        },
        kind: CredentialKind::Header {
            name: "authorization".to_owned(),
            prefix: "Bearer ".to_owned(),
        },
        audiences: vec!["api.example.com".parse().unwrap(), "*.example.org".parse().unwrap()],
        created_at: moment(1),
        rotated_at: moment(1),
        expires_at: Some(moment(86_400_000)),
        revision: 1,
    }
}

pub fn material(value: &str) -> Material {
    Material {
        value: Secret::new(value.to_owned()),
        client_secret: Some(Secret::new(format!("client of {value}"))),
    }
}

/// Reads the credential and its two values as texts.
async fn read(
    store: &dyn CredentialStore,
    owner: &Owner,
    name: &str,
) -> Option<(Credential, String, Option<String>)> {
    let opened = store.get(owner, &CredentialName::parse(name).unwrap()).await.unwrap()?;
    let client = opened.material.client_secret.map(|secret| secret.expose().to_owned());
    Some((opened.credential, opened.material.value.expose().to_owned(), client))
}

/// Every field and the values are kept.
pub async fn a_credential_comes_back_as_it_was_put(storage: &dyn Storage) {
    let store = &*storage.credentials();
    let full = credential("a", "full", Some("ann"));
    let bare = Credential { expires_at: None, ..credential("b", "bare", None) };
    store.put(full.clone(), material("wért\"\n")).await.unwrap();
    let plain = Material { value: Secret::new("v".to_owned()), client_secret: None };
    store.put(bare.clone(), plain).await.unwrap();
    let client = Some("client of wért\"\n".to_owned());
    let read_full = read(store, &full.owner, "full").await.unwrap();
    assert_eq!(read_full, (full.clone(), "wért\"\n".to_owned(), client));
    assert_eq!(read(store, &bare.owner, "bare").await, Some((bare, "v".to_owned(), None)));
}

/// A principal's credential is not visible to its tenant, another principal or another tenant.
pub async fn an_owner_is_matched_exactly(storage: &dyn Storage) {
    let store = &*storage.credentials();
    store.put(credential("a", "n", None), material("tenant")).await.unwrap();
    store.put(credential("b", "n", Some("ann")), material("ann")).await.unwrap();
    let (t, u) = ("t".parse().unwrap(), "u".parse().unwrap());
    for (owner, expected) in [
        (Owner::tenant("t".parse().unwrap()), Some("tenant")),
        (Owner::principal(t, "ann".parse().unwrap()), Some("ann")),
        (Owner::principal("t".parse().unwrap(), "bob".parse().unwrap()), None),
        (Owner::principal(u, "ann".parse().unwrap()), None),
        (Owner::tenant("u".parse().unwrap()), None),
    ] {
        let found = read(store, &owner, "n").await.map(|(_, value, _)| value);
        assert_eq!(found.as_deref(), expected, "{owner:?}");
        assert!(read(store, &owner, "m").await.is_none());
    }
}

/// An owner has one credential per name, ids are unique, and a refused credential has no effect.
pub async fn the_same_name_or_id_is_a_conflict(storage: &dyn Storage) {
    let store = &*storage.credentials();
    store.put(credential("a", "n", None), material("first")).await.unwrap();
    store.put(credential("b", "n", Some("ann")), material("first")).await.unwrap();
    for refused in [
        credential("c", "n", None),
        credential("c", "n", Some("ann")),
        credential("a", "other", None),
    ] {
        let error = store.put(refused, material("second")).await.unwrap_err();
        let conflict = matches!(error, CredentialStoreError::Store(StoreError::Conflict(_)));
        assert!(conflict, "{error}");
    }
    assert_eq!(store.list().await.unwrap().len(), 2);
    let owner = Owner::tenant("t".parse().unwrap());
    assert_eq!(read(store, &owner, "n").await.unwrap().1, "first");
}

/// A rotation based on an old revision does not undo a newer one.
pub async fn a_rotation_counts_only_over_what_was_seen(storage: &dyn Storage) {
    let store = &*storage.credentials();
    let first = credential("a", "n", None);
    let id = first.id.clone();
    store.put(first.clone(), material("one")).await.unwrap();
    assert!(store.rotate(&id, 1, material("two"), None, moment(5)).await.unwrap());
    assert!(!store.rotate(&id, 1, material("three"), None, moment(6)).await.unwrap());
    assert!(!store.rotate(&"z".parse().unwrap(), 1, material("x"), None, moment(6)).await.unwrap());
    let (now, value, client) = read(store, &first.owner, "n").await.unwrap();
    assert_eq!((value.as_str(), client.as_deref()), ("two", Some("client of two")));
    let changed = Credential { revision: 2, rotated_at: moment(5), expires_at: None, ..first };
    assert_eq!(now, changed);
    let expires = Some(moment(9_000));
    assert!(store.rotate(&id, 2, material("four"), expires, moment(7)).await.unwrap());
    assert_eq!(store.list().await.unwrap()[0].expires_at, expires);
}

/// A credential is removed once, and its name is free again.
pub async fn what_is_removed_is_gone(storage: &dyn Storage) {
    let store = &*storage.credentials();
    let first = credential("a", "n", None);
    store.put(first.clone(), material("one")).await.unwrap();
    assert!(store.remove(&first.id).await.unwrap());
    assert!(!store.remove(&first.id).await.unwrap());
    assert!(read(store, &first.owner, "n").await.is_none());
    store.put(first, material("two")).await.unwrap();
}

/// Sorted by tenant, the tenant's own first, then by principal and name.
pub async fn credentials_are_listed_by_owner_and_name(storage: &dyn Storage) {
    let store = &*storage.credentials();
    let other =
        Credential { owner: Owner::tenant("s".parse().unwrap()), ..credential("e", "z", None) };
    for stored in [
        credential("d", "a", Some("bob")),
        credential("c", "a", Some("ann")),
        credential("b", "y", None),
        credential("a", "x", None),
        other,
    ] {
        store.put(stored, material("v")).await.unwrap();
    }
    let listed = store.list().await.unwrap();
    let ids: Vec<_> = listed.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["e", "a", "b", "c", "d"]);
}
