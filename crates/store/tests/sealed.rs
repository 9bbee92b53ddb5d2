//! Sealed credentials: the bytes of the file, and attacks with access to the file.
#![cfg(test)]

use std::{fs, path::Path, sync::Arc};

use rusqlite::{Connection, params};
use toolcrib_core::{
    bridge::BridgeKind,
    clock::ReadStart,
    credential::{CredentialStore, CredentialStoreError, Owner, RegisteredClient, Secret},
    id::CredentialName,
    store::{SavedFilter, SavedInsertion, SavedItem, Storage},
};
use toolcrib_store::{
    Options, SealKey, SealKeys, SqliteStore,
    conformance::{
        bridge_store,
        connect_store::{client, link},
        credential_store::{credential, material},
        grant_store::{grant, pending, secrets},
        key_store, moment, saved_store,
    },
};

const CANARY: &str = "OPENWOP_CRED_CANARY_4f1c8a2e9b";

fn key(byte: &str) -> SealKey {
    SealKey::parse(&Secret::new(byte.repeat(32))).unwrap()
}

fn open(path: &Path, keys: SealKeys) -> (SqliteStore, Arc<dyn CredentialStore>) {
    let options = Options { seal_keys: keys, ..Options::default() };
    let store = SqliteStore::open(path, options).unwrap();
    let credentials = store.credentials();
    (store, credentials)
}

fn name(text: &str) -> CredentialName {
    text.parse().unwrap()
}

async fn value(store: &dyn CredentialStore, owner: &Owner, of: &str) -> String {
    let opened = store.get(owner, &name(of)).await.unwrap().unwrap();
    opened.material.value.expose().to_owned()
}

// I-36
#[tokio::test]
async fn no_value_is_in_the_bytes_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (store, credentials) = open(&path, SealKeys::new(key("0a"), []));
    let it = credential("a", "n", None);
    credentials.put(it.clone(), material(CANARY)).await.unwrap();
    let rotated = material(&format!("{CANARY}-rotated"));
    assert!(credentials.rotate(&it.id, 1, rotated, None, moment(3)).await.unwrap());
    credentials.put(credential("b", "m", None), material(CANARY)).await.unwrap();
    assert!(credentials.remove(&"b".parse().unwrap()).await.unwrap());
    let look = || {
        let mut names = Vec::new();
        for file in fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                let bytes = fs::read(file.path()).unwrap();
                let found = bytes.windows(CANARY.len()).any(|it| it == CANARY.as_bytes());
                assert!(!found, "{:?}", file.path());
                names.push(file.file_name().into_string().unwrap());
            }
        }
        names
    };
    assert!(look().contains(&"store.db-wal".to_owned()), "the write-ahead log was checked too");
    assert_eq!(value(&*credentials, &it.owner, "n").await, format!("{CANARY}-rotated"));
    store.close().await;
    look();
}

// I-36
#[tokio::test]
async fn rows_that_are_exchanged_do_not_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (_store, credentials) = open(&path, SealKeys::new(key("0a"), []));
    let (mine, theirs) = (credential("a", "n", Some("ann")), credential("b", "n", Some("bob")));
    credentials.put(mine.clone(), material("of ann")).await.unwrap();
    credentials.put(theirs.clone(), material("of bob")).await.unwrap();
    let file = Connection::open(&path).unwrap();
    let refused = async |sql: &str| {
        assert!(file.execute_batch(&format!("BEGIN; {sql}")).is_ok(), "{sql}");
        file.execute_batch("COMMIT").unwrap();
        let error = credentials.get(&theirs.owner, &theirs.name).await.unwrap_err();
        assert!(matches!(error, CredentialStoreError::NotGenuine(_)), "{sql}: {error}");
        // A rotation does not reseal a changed row either.
        let rotated = credentials.rotate(&theirs.id, 1, material("new"), None, moment(9)).await;
        assert!(matches!(rotated, Err(CredentialStoreError::NotGenuine(_))), "{sql}: {rotated:?}");
    };
    let original: Vec<u8> = file
        .query_row("SELECT sealed FROM credentials WHERE id = 'b'", [], |row| row.get(0))
        .unwrap();
    refused("UPDATE credentials SET sealed = (SELECT sealed FROM credentials WHERE id = 'a') WHERE id = 'b'").await;
    let restore = |column: &str| {
        let sql = format!("UPDATE credentials SET {column} WHERE id = 'b'");
        file.execute_batch(&sql).unwrap();
    };
    file.execute("UPDATE credentials SET sealed = ?1 WHERE id = 'b'", params![original]).unwrap();
    assert_eq!(value(&*credentials, &theirs.owner, "n").await, "of bob");
    let audiences = serde_json::to_string(&theirs.audiences).unwrap();
    refused(r#"UPDATE credentials SET audiences = '["evil.example"]' WHERE id = 'b'"#).await;
    restore(&format!("audiences = '{audiences}'"));
    refused("UPDATE credentials SET expires_at = NULL WHERE id = 'b'").await;
    file.execute_batch("DELETE FROM credentials WHERE id = 'b'").unwrap();
    file.execute_batch("UPDATE credentials SET principal = 'bob' WHERE id = 'a'").unwrap();
    let error = credentials.get(&theirs.owner, &theirs.name).await.unwrap_err();
    assert!(matches!(error, CredentialStoreError::NotGenuine(_)), "{error}");
}

#[tokio::test]
async fn without_the_right_key_nothing_is_stored_or_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (_store, credentials) = open(&path, SealKeys::new(key("0a"), []));
    let it = credential("a", "n", None);
    credentials.put(it.clone(), material("v")).await.unwrap();

    let other = open(&path, SealKeys::new(key("0b"), [])).1;
    let error = other.get(&it.owner, &it.name).await.unwrap_err();
    assert!(matches!(error, CredentialStoreError::OtherKey(_)), "{error}");
    assert!(error.to_string().contains("old_seal_key"), "{error}");
    let none = open(&path, SealKeys::none()).1;
    for error in [
        none.get(&it.owner, &it.name).await.unwrap_err(),
        none.put(credential("b", "m", None), material("w")).await.unwrap_err(),
        none.rotate(&it.id, 1, material("w"), None, moment(3)).await.unwrap_err(),
    ] {
        assert!(matches!(error, CredentialStoreError::NoKey), "{error}");
        assert!(error.to_string().contains("seal_key"), "{error}");
    }
    assert_eq!(none.list().await.unwrap(), std::slice::from_ref(&it), "a list needs no key");
    assert!(none.remove(&it.id).await.unwrap(), "nor does removing");
}

#[tokio::test]
async fn a_new_key_takes_over_while_the_old_one_still_opens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (store, credentials) = open(&path, SealKeys::new(key("0a"), []));
    for (id, named) in [("a", "x"), ("b", "y")] {
        credentials.put(credential(id, named, None), material(named)).await.unwrap();
    }
    let (resealing, both) = open(&path, SealKeys::new(key("0b"), [key("0a")]));
    let owner = credential("a", "x", None).owner;
    assert_eq!(value(&*both, &owner, "x").await, "x", "before it is resealed");
    assert_eq!(resealing.reseal().await.unwrap(), 2);
    assert_eq!(resealing.reseal().await.unwrap(), 0);
    let new = open(&path, SealKeys::new(key("0b"), [])).1;
    assert_eq!(value(&*new, &owner, "x").await, "x");
    assert_eq!(value(&*new, &owner, "y").await, "y");
    assert_eq!(new.list().await.unwrap()[0].revision, 1, "the values are the same");
    let old = credentials.get(&owner, &name("x")).await.unwrap_err();
    assert!(matches!(old, CredentialStoreError::OtherKey(_)), "{old}");
    let error = store.reseal().await.unwrap_err();
    assert!(matches!(error, CredentialStoreError::OtherKey(_)), "{error}");
}

/// An item with the canary as an argument.
fn saved() -> SavedItem {
    let content = Some(format!("{{\"ticket\": \"{CANARY}\"}}"));
    SavedItem { content, ..saved_store::item("call", "mcp:a.b", "n") }
}

#[tokio::test]
async fn saved_arguments_are_sealed_and_do_not_move() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (store, _) = open(&path, SealKeys::new(key("0a"), []));
    let item = saved();
    assert_eq!(store.saved().insert(item.clone()).await.unwrap(), SavedInsertion::Stored);
    for file in fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            let bytes = fs::read(file.path()).unwrap();
            let found = bytes.windows(CANARY.len()).any(|it| it == CANARY.as_bytes());
            assert!(!found, "{:?}", file.path());
        }
    }
    let read = async || store.saved().find(&item.tenant, &item.id).await.unwrap().unwrap();
    assert_eq!(read().await, item);
    let other = open(&path, SealKeys::new(key("0b"), [])).0;
    assert_eq!(other.saved().find(&item.tenant, &item.id).await.unwrap().unwrap().content, None);
    let file = Connection::open(&path).unwrap();
    let of = |change: &str| match change.contains("a.c") {
        true => SavedFilter::CallsOf("mcp:a.c".parse().unwrap()),
        false => SavedFilter::CallsOf("mcp:a.b".parse().unwrap()),
    };
    for change in ["tool = 'mcp:a.c'", "principal = 'eve'", "name = 'm'", "tenant = 'u'"] {
        file.execute_batch(&format!("UPDATE saved SET {change}")).unwrap();
        let moved = store.saved().list(&"t".parse().unwrap(), &of(change)).await.unwrap();
        assert!(moved.iter().all(|it| it.content.is_none()), "{change}");
        file.execute_batch("UPDATE saved SET tool = 'mcp:a.b', principal = 'ann', name = 'n'")
            .unwrap();
    }
}

#[tokio::test]
async fn saved_arguments_are_resealed_and_sealed_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let plain = open(&path, SealKeys::none()).0;
    assert_eq!(plain.saved().insert(saved()).await.unwrap(), SavedInsertion::Stored);
    assert_eq!(plain.reseal().await.unwrap(), 0, "there is no key");
    let first = open(&path, SealKeys::new(key("0a"), [])).0;
    // Every program that can write to the file could have stored a text that is not sealed.
    let unsealed = first.saved().find(&saved().tenant, &saved().id).await.unwrap().unwrap();
    assert_eq!(unsealed.content, None);
    assert_eq!((first.reseal().await.unwrap(), first.reseal().await.unwrap()), (1, 0));
    let second = open(&path, SealKeys::new(key("0b"), [key("0a")])).0;
    assert_eq!((second.reseal().await.unwrap(), second.reseal().await.unwrap()), (1, 0));
    let last = open(&path, SealKeys::new(key("0b"), [])).0;
    let item = saved();
    assert_eq!(last.saved().find(&item.tenant, &item.id).await.unwrap(), Some(item));
    let error = first.reseal().await.unwrap_err().to_string();
    assert!(error.contains("old_seal_key"), "{error}");
}

// I-36
#[tokio::test]
async fn the_tokens_of_a_grant_are_sealed_and_do_not_move() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (store, _) = open(&path, SealKeys::new(key("0a"), []));
    let (grants, it) = (store.grants(), grant("a", "ann"));
    grants.put(it.clone(), secrets(CANARY)).await.unwrap();
    let authorization = pending("state-canary", "ann", moment(0));
    assert!(grants.begin(authorization.clone(), Secret::new(CANARY.to_owned())).await.unwrap());
    for file in fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            let bytes = fs::read(file.path()).unwrap();
            let found = bytes.windows(CANARY.len()).any(|it| it == CANARY.as_bytes());
            assert!(!found, "{:?}", file.path());
        }
    }
    let file = Connection::open(&path).unwrap();
    let terms = serde_json::to_string(&it.terms).unwrap();
    let evil = terms.replace("api.example", "evil.example").replace('\'', "''");
    for change in [
        "principal = 'eve'".to_owned(),
        "tenant = 'u'".to_owned(),
        "source = 'r'".to_owned(),
        "principal = ''".to_owned(),
        "expires_at = NULL".to_owned(),
        "revision = 2".to_owned(),
        format!("terms = '{evil}'"),
    ] {
        file.execute_batch(&format!("UPDATE account_grants SET {change}")).unwrap();
        let listed = grants.list(&it.place.owner.tenant).await.unwrap();
        let mut place = listed.first().map_or(it.place.clone(), |moved| moved.place.clone());
        if listed.is_empty() {
            place.owner.tenant = "u".parse().unwrap();
        }
        let error = grants.get(&place, moment(2)).await.unwrap_err();
        assert!(matches!(error, CredentialStoreError::NotGenuine(_)), "{change}: {error}");
        grants.remove(&place.owner.tenant, &it.id).await.unwrap();
        grants.put(it.clone(), secrets(CANARY)).await.unwrap();
    }
    file.execute_batch("UPDATE pending_authorizations SET owner = 'eve'").unwrap();
    let error = grants.take(&authorization.state, moment(1)).await.unwrap_err();
    assert!(matches!(error, CredentialStoreError::NotGenuine(_)), "{error}");
    let again = grants.take(&authorization.state, moment(1)).await.unwrap();
    assert!(again.is_none(), "it serves once, also when it cannot be opened");
}

// I-110
#[tokio::test]
async fn a_call_uses_no_grant_that_another_process_removed_two_seconds_ago() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let [here, elsewhere] = [(); 2].map(|()| open(&path, SealKeys::new(key("0a"), [])).0.grants());
    let it = grant("a", "ann");
    here.put(it.clone(), secrets("one")).await.unwrap();
    let revision = async |at| {
        let now = ReadStart { at: 0, wall_at: moment(at).timestamp_millis() };
        let found = here.recent(&it.place, now).await.unwrap();
        found.map(|found| found.0.revision)
    };
    assert_eq!(revision(0).await, Some(1));
    assert!(elsewhere.change(it.clone(), secrets("two")).await.unwrap());
    assert_eq!(revision(1_000).await, Some(1), "the store is not read for each call");
    assert_eq!(revision(2_001).await, Some(2));
    assert!(elsewhere.remove(&it.place.owner.tenant, &it.id).await.unwrap());
    assert_eq!(revision(4_002).await, None);
    elsewhere.put(it.clone(), secrets("three")).await.unwrap();
    assert_eq!(revision(4_002).await, Some(1), "without a grant, the store is read");
}

// I-36
#[tokio::test]
async fn the_secret_of_a_client_is_sealed_and_does_not_move() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let grants = open(&path, SealKeys::new(key("0a"), [])).0.grants();
    let (issuer, uri) = ("https://id.example", "https://crib.example/connect/s/callback");
    let it = client("a", issuer, uri);
    let it = RegisteredClient { secret: Some(Secret::new(CANARY.to_owned())), ..it };
    let other = client("b", "https://evil.example", uri);
    for client in [&it, &other] {
        grants.put_client(client.clone()).await.unwrap();
    }
    for file in fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            let bytes = fs::read(file.path()).unwrap();
            let found = bytes.windows(CANARY.len()).any(|it| it == CANARY.as_bytes());
            assert!(!found, "{:?}", file.path());
        }
    }
    let file = Connection::open(&path).unwrap();
    for (change, issuer, uri) in [
        ("issuer = 'https://evil.test'", "https://evil.test", uri),
        ("redirect_uri = 'https://evil.test/'", issuer, "https://evil.test/"),
        ("id = 'c'", issuer, uri),
        ("client_id = 'evil'", issuer, uri),
        ("client_auth = '\"basic\"'", issuer, uri),
        ("expires_at = NULL", issuer, uri),
        ("sealed = (SELECT sealed FROM oauth_clients WHERE id = 'b')", issuer, uri),
    ] {
        file.execute_batch(&format!("UPDATE oauth_clients SET {change} WHERE id = 'a'")).unwrap();
        let error = grants.client(issuer, uri).await.unwrap_err();
        assert!(matches!(error, CredentialStoreError::NotGenuine(_)), "{change}: {error}");
        assert!(grants.remove_client(issuer, uri).await.unwrap(), "{change}");
        grants.put_client(it.clone()).await.unwrap();
    }
    let found = grants.client(issuer, uri).await.unwrap().unwrap();
    assert_eq!(found.secret.unwrap().expose(), CANARY);
}

#[tokio::test]
async fn grants_need_a_key_and_are_resealed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let none = open(&path, SealKeys::none()).0.grants();
    let it = grant("a", "ann");
    let error = none.put(it.clone(), secrets("v")).await.unwrap_err();
    assert!(matches!(error, CredentialStoreError::NoKey), "{error}");
    let verifier = Secret::new("v".to_owned());
    let error = none.begin(pending("s", "ann", moment(0)), verifier).await.unwrap_err();
    assert!(matches!(error, CredentialStoreError::NoKey), "{error}");
    let (issuer, uri) = ("https://id.example", "https://crib.example/connect/s/callback");
    let error = none.put_client(client("c", issuer, uri)).await.unwrap_err();
    assert!(matches!(error, CredentialStoreError::NoKey), "{error}");
    let made = link("l", "ann", moment(0));
    none.add_link(made.clone()).await.unwrap();
    let taken = none.take_link(&made.hash, moment(1)).await.unwrap();
    assert_eq!(taken, Some(made), "a link has no secret, and needs no key");
    let first = open(&path, SealKeys::new(key("0a"), [])).0;
    first.grants().put(it.clone(), secrets("v")).await.unwrap();
    first.grants().put_client(client("c", issuer, uri)).await.unwrap();
    let error = none.client(issuer, uri).await.unwrap_err();
    assert!(matches!(error, CredentialStoreError::NoKey), "{error}");
    assert!(none.lease(&it.id, "one", moment(0), moment(1)).await.unwrap());
    let second = open(&path, SealKeys::new(key("0b"), [key("0a")])).0;
    assert_eq!((second.reseal().await.unwrap(), second.reseal().await.unwrap()), (2, 0));
    let last = open(&path, SealKeys::new(key("0b"), [])).0;
    let (found, values) = last.grants().get(&it.place, moment(2)).await.unwrap().unwrap();
    assert_eq!(found, it);
    assert_eq!(values.refresh_token.unwrap().expose(), "refresh v");
    let registered = last.grants().client(issuer, uri).await.unwrap().unwrap();
    assert_eq!(registered.secret.unwrap().expose(), "secret of c");
    assert!(none.remove_client(issuer, uri).await.unwrap(), "removing needs no key");
    assert_eq!(none.list(&it.place.owner.tenant).await.unwrap(), [it], "a list needs no key");
}

/// A new key must not inherit the account of an earlier principal with the same name.
#[tokio::test]
async fn a_principal_with_a_grant_is_not_new() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (store, _) = open(&path, SealKeys::new(key("0a"), []));
    store.grants().put(grant("a", "zoe"), secrets("v")).await.unwrap();
    let new = toolcrib_core::store::KeyRecord {
        tenant: "t".parse().unwrap(),
        principal: "zoe".parse().unwrap(),
        ..key_store::key("k", 1, 0)
    };
    assert!(!store.keys().insert_for_new_principal(new).await.unwrap());
}

// I-36
#[tokio::test]
async fn the_items_of_the_bridge_are_sealed_and_do_not_move() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (store, _) = open(&path, SealKeys::new(key("0a"), []));
    let (bridge, it) = (store.bridge(), bridge_store::item(BridgeKind::Grant, "a", moment(0)));
    let value = || Secret::new(CANARY.to_owned());
    assert!(bridge.add(it.clone(), value(), 9).await.unwrap());
    for file in fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
        // The search index is a directory.
        if file.file_type().unwrap().is_file() {
            let bytes = fs::read(file.path()).unwrap();
            let found = bytes.windows(CANARY.len()).any(|it| it == CANARY.as_bytes());
            assert!(!found, "{:?}", file.path());
        }
    }
    let file = Connection::open(&path).unwrap();
    file.execute_batch("DELETE FROM bridge_items").unwrap();
    for change in [
        "principal = 'id|eve'",
        "tenant = 'u'",
        "revision = 2",
        "expires_at = '2999-01-01T00:00:00.000Z'",
    ] {
        assert!(bridge.add(it.clone(), value(), 9).await.unwrap());
        file.execute_batch(&format!("UPDATE bridge_items SET {change}")).unwrap();
        let error = bridge.get(it.kind, &it.id, moment(1)).await.unwrap_err();
        assert!(matches!(error, CredentialStoreError::NotGenuine(_)), "{change}: {error}");
        file.execute_batch("DELETE FROM bridge_items").unwrap();
    }
    assert!(bridge.add(it.clone(), value(), 9).await.unwrap());
    let both = open(&path, SealKeys::new(key("0b"), [key("0a")])).0;
    assert_eq!((both.reseal().await.unwrap(), both.reseal().await.unwrap()), (1, 0));
    let new = open(&path, SealKeys::new(key("0b"), [])).0.bridge();
    let (found, value) = new.take(it.kind, &it.id, moment(1)).await.unwrap().unwrap();
    assert_eq!((found, value.expose()), (it, CANARY));
}

/// A grant of a client that cannot be opened does not hide the others of its person.
#[tokio::test]
async fn a_list_of_grants_leaves_out_what_cannot_be_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (store, _) = open(&path, SealKeys::new(key("0a"), []));
    bridge_store::put(&store, "lost", moment(0)).await;
    let (new, _) = open(&path, SealKeys::new(key("0b"), []));
    bridge_store::put(&new, "moved", moment(0)).await;
    let kept = bridge_store::put(&new, "kept", moment(0)).await;
    let file = Connection::open(&path).unwrap();
    file.execute_batch("UPDATE bridge_items SET revision = 2 WHERE id = 'moved'").unwrap();
    let owner = kept.owner.clone().unwrap();
    for principal in [None, Some(&owner.principal)] {
        let grants = new.bridge().grants(&owner.tenant, principal).await.unwrap();
        let items: Vec<_> = grants.into_iter().map(|(item, _)| item).collect();
        assert_eq!(items, std::slice::from_ref(&kept));
    }
}
