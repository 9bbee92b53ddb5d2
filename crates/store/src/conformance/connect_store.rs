//! The requirements of [`GrantStore`](toolcrib_core::credential::GrantStore) for the links to
//! connect accounts, and for registered clients.

use toolcrib_core::{
    clock::Timestamp,
    credential::{
        ClientAuth, ConnectLink, CredentialStoreError, GrantPlace, GrantStore, MAX_LINKS, Owner,
        RegisteredClient, Secret,
    },
    id::PrincipalId,
    store::{Storage, StoreError},
};

use super::moment;

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

/// A link to source `s` for a principal of tenant `t`, which expires ten minutes after `at`.
pub fn link(text: &str, principal: &str, at: Timestamp) -> ConnectLink {
    let principal: PrincipalId = principal.parse().unwrap();
    ConnectLink {
        hash: ConnectLink::hash(&secret(text)),
        place: GrantPlace {
            owner: Owner::principal("t".parse().unwrap(), principal.clone()),
            source: "s".parse().unwrap(),
        },
        principal,
        created_at: at,
        expires_at: at + chrono::Duration::minutes(10),
    }
}

/// A client with a secret that expires.
pub fn client(id: &str, issuer: &str, redirect_uri: &str) -> RegisteredClient {
    RegisteredClient {
        issuer: issuer.to_owned(),
        redirect_uri: redirect_uri.to_owned(),
        id: id.parse().unwrap(),
        client_id: format!("ünn \"{id}\""),
        client_auth: ClientAuth::Post,
        secret: Some(secret(&format!("secret of {id}"))),
        created_at: moment(1),
        expires_at: Some(moment(86_400_000)),
    }
}

/// Every field of a client, with its secret as text.
fn shown(client: &RegisteredClient) -> (String, Option<String>) {
    let text = client.secret.as_ref().map(|secret| secret.expose().to_owned());
    (format!("{client:?}"), text)
}

fn is_conflict(error: &CredentialStoreError) -> bool {
    matches!(error, CredentialStoreError::Store(StoreError::Conflict(_)))
}

async fn is_kept(store: &dyn GrantStore, link: &ConnectLink, now: Timestamp) -> bool {
    store.link(&link.hash, now).await.unwrap().is_some()
}

/// A link can be looked at before it is used, serves once, and not after it has expired.
pub async fn a_link_is_taken_once(storage: &dyn Storage) {
    let store = &*storage.grants();
    let first = link("one", "ann", moment(0));
    let of_tenant = ConnectLink {
        place: GrantPlace { owner: Owner::tenant("t".parse().unwrap()), ..first.place.clone() },
        ..link("two", "ann", moment(0))
    };
    let late = link("three", "ann", moment(0));
    for link in [&first, &of_tenant, &late] {
        store.add_link(link.clone()).await.unwrap();
    }
    let again = store.add_link(link("one", "bob", moment(0))).await.unwrap_err();
    assert!(is_conflict(&again), "{again}");
    let unknown = ConnectLink::hash(&secret("four"));
    assert_eq!(store.link(&unknown, moment(1)).await.unwrap(), None);
    assert_eq!(store.take_link(&unknown, moment(1)).await.unwrap(), None);
    for link in [&first, &of_tenant] {
        for _ in 0..2 {
            assert_eq!(store.link(&link.hash, moment(1)).await.unwrap().as_ref(), Some(link));
        }
        assert_eq!(store.take_link(&link.hash, moment(1)).await.unwrap().as_ref(), Some(link));
        assert_eq!(store.link(&link.hash, moment(1)).await.unwrap(), None);
        assert_eq!(store.take_link(&link.hash, moment(1)).await.unwrap(), None);
    }
    assert!(is_kept(store, &late, moment(599_999)).await);
    assert!(!is_kept(store, &late, late.expires_at).await);
    assert_eq!(store.take_link(&late.hash, late.expires_at).await.unwrap(), None);
    assert_eq!(store.take_link(&late.hash, moment(1)).await.unwrap(), None, "a late use ends it");
}

/// Only one of many browsers with the same link begins.
pub async fn of_many_that_take_a_link_one_does(storage: &dyn Storage) {
    let store = &*storage.grants();
    let first = link("one", "ann", moment(0));
    store.add_link(first.clone()).await.unwrap();
    let takes = (0..8).map(|_| store.take_link(&first.hash, moment(1)));
    let taken = futures_util::future::join_all(takes).await;
    assert_eq!(taken.into_iter().filter(|outcome| outcome.as_ref().unwrap().is_some()).count(), 1);
}

/// The oldest link of a principal makes room for a new one.
pub async fn links_are_bounded(storage: &dyn Storage) {
    let store = &*storage.grants();
    let other = link("other", "bob", moment(0));
    let mut elsewhere = link("elsewhere", "ann", moment(0));
    elsewhere.place.owner.tenant = "u".parse().unwrap();
    for link in [&other, &elsewhere] {
        store.add_link(link.clone()).await.unwrap();
    }
    let all: Vec<_> = (0..=MAX_LINKS)
        .map(|number| link(&format!("link {number}"), "ann", moment(50 + number as i64)))
        .collect();
    let (last, most) = all.split_last().unwrap();
    let short = ConnectLink { expires_at: moment(52), ..link("short", "ann", moment(51)) };
    for link in most.iter().take(1).chain([&short]).chain(&most[1..]) {
        store.add_link(link.clone()).await.unwrap();
    }
    for link in most {
        assert!(is_kept(store, link, moment(99)).await, "an expired link takes no room");
    }
    store.add_link(last.clone()).await.unwrap();
    let mut kept = Vec::new();
    for link in &all {
        kept.push(is_kept(store, link, moment(99)).await);
    }
    assert_eq!(kept, [vec![false], vec![true; MAX_LINKS]].concat());
    assert!(store.take_link(&last.hash, moment(99)).await.unwrap().is_some());
    // The clock of another server is behind.
    let early = link("early", "ann", moment(1));
    let earlier = link("earlier", "ann", moment(0));
    store.add_link(early.clone()).await.unwrap();
    assert!(is_kept(store, &all[1], moment(99)).await, "a used link made room");
    store.add_link(earlier.clone()).await.unwrap();
    assert!(!is_kept(store, &early, moment(99)).await, "the oldest other one makes room");
    assert!(
        is_kept(store, &earlier, moment(99)).await && is_kept(store, &all[1], moment(99)).await
    );
    assert!(is_kept(store, &other, moment(99)).await, "other principals keep theirs");
    assert!(is_kept(store, &elsewhere, moment(99)).await, "and so do those of other tenants");
}

/// The limit of links is exact when many are made at once.
pub async fn links_made_at_once_are_bounded(storage: &dyn Storage) {
    let store = &*storage.grants();
    let all: Vec<_> = (0..2 * MAX_LINKS)
        .map(|number| link(&format!("link {number}"), "ann", moment(number as i64 % 3)))
        .collect();
    let added = all.iter().map(|link| store.add_link(link.clone()));
    for outcome in futures_util::future::join_all(added).await {
        outcome.unwrap();
    }
    let mut kept = 0;
    for link in &all {
        kept += usize::from(is_kept(store, link, moment(99)).await);
    }
    assert_eq!(kept, MAX_LINKS);
}

/// A client is for one issuer and address, and a new registration replaces the earlier one.
pub async fn a_client_comes_back_as_it_was_put(storage: &dyn Storage) {
    let store = &*storage.grants();
    let (issuer, uri) = ("https://id.example", "https://crib.example/connect/s/callback");
    let first = client("a", issuer, uri);
    let bare = RegisteredClient {
        client_auth: ClientAuth::None,
        secret: None,
        expires_at: None,
        ..client("b", "https://id.example/", uri)
    };
    let beside = client("c", issuer, "https://crib.example/connect/r/callback");
    for client in [&first, &bare, &beside] {
        store.put_client(client.clone()).await.unwrap();
    }
    let read = async |client: &RegisteredClient| {
        store.client(&client.issuer, &client.redirect_uri).await.unwrap().as_ref().map(shown)
    };
    for client in [&first, &bare, &beside] {
        assert_eq!(read(client).await, Some(shown(client)));
    }
    for (issuer, uri) in [(issuer, "https://crib.example/"), ("https://ID.example", uri)] {
        assert!(store.client(issuer, uri).await.unwrap().is_none());
        assert!(!store.remove_client(issuer, uri).await.unwrap());
    }
    let error = store.put_client(client("b", issuer, uri)).await.unwrap_err();
    assert!(is_conflict(&error), "{error}");
    assert_eq!(read(&first).await, Some(shown(&first)), "a conflict changes nothing");
    for id in ["d", "d"] {
        let next = client(id, issuer, uri);
        store.put_client(next.clone()).await.unwrap();
        assert_eq!(read(&first).await, Some(shown(&next)));
    }
    store.sweep(moment(86_400_001)).await.unwrap();
    assert!(read(&first).await.is_some(), "the caller decides over an expired secret");
    assert!(store.remove_client(issuer, uri).await.unwrap());
    assert!(!store.remove_client(issuer, uri).await.unwrap());
    assert_eq!(read(&first).await, None);
    assert_eq!(read(&beside).await, Some(shown(&beside)));
}
