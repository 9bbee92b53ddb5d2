//! The requirements of [`GrantStore`](toolcrib_core::credential::GrantStore).

use toolcrib_core::{
    canonical::Digest,
    clock::{ReadStart, Timestamp},
    credential::{
        AccountGrant, ClientAuth, CredentialStoreError, GrantPlace, GrantSecrets, GrantState,
        GrantStore, GrantTerms, MAX_PENDING_AUTHORIZATIONS, OAuth2, Owner, PendingAuthorization,
        PendingTerms, Secret,
    },
    store::{Storage, StoreError},
};

use super::{connect_store::link, moment};

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn oauth2() -> OAuth2 {
    OAuth2 {
        token_url: "https://id.example/token".to_owned(),
        client_id: "crib".to_owned(),
        client_auth: ClientAuth::Post,
        scopes: vec!["repo".to_owned()],
        resource: Some("https://api.example/".to_owned()),
    }
}

/// The place of source `s` for a principal of tenant `t`.
pub fn place(principal: &str) -> GrantPlace {
    GrantPlace {
        owner: Owner::principal("t".parse().unwrap(), principal.parse().unwrap()),
        source: "s".parse().unwrap(),
    }
}

/// The place of source `s` for the whole of tenant `t`.
pub fn tenant_place() -> GrantPlace {
    GrantPlace { owner: Owner::tenant("t".parse().unwrap()), source: "s".parse().unwrap() }
}

/// A grant that sets every field.
pub fn grant(id: &str, principal: &str) -> AccountGrant {
    AccountGrant {
        id: id.parse().unwrap(),
        place: place(principal),
        terms: GrantTerms {
            issuer: "https://id.example".to_owned(),
            oauth2: oauth2(),
            audiences: vec!["api.example".parse().unwrap()],
            account: Some("ünn@example".to_owned()),
            state: GrantState::Active,
            token_expires_at: Some(moment(3_600_000)),
            missing_scopes: vec!["repo:delete".to_owned()],
            withheld_scopes: vec!["admin".to_owned()],
            revocation_url: Some("https://id.example/revoke".to_owned()),
            makers: vec!["root".parse().unwrap()],
        },
        created_at: moment(1),
        changed_at: moment(1),
        expires_at: Some(moment(86_400_000)),
        last_used_at: None,
        revision: 1,
    }
}

/// The values of a grant.
pub fn secrets(value: &str) -> GrantSecrets {
    GrantSecrets {
        access_token: Some(secret(&format!("access {value}"))),
        refresh_token: Some(secret(&format!("refresh {value}"))),
        client_secret: None,
    }
}

/// A pending authorization that expires ten minutes after `at`.
pub fn pending(state: &str, principal: &str, at: Timestamp) -> PendingAuthorization {
    PendingAuthorization {
        state: PendingAuthorization::hash(&secret(state)),
        id: format!("cred-{state}").parse().unwrap(),
        place: place(principal),
        terms: PendingTerms {
            issuer: "https://id.example".to_owned(),
            redirect_uri: "https://crib.example/connect/s/callback".to_owned(),
            oauth2: oauth2(),
            names_issuer: true,
            revocation_url: Some("https://id.example/revoke".to_owned()),
            principal: principal.parse().unwrap(),
            browser: Digest::of(b"cookie"),
        },
        created_at: at,
        expires_at: at + chrono::Duration::minutes(10),
    }
}

/// Reads a grant and its three values as texts. A recent one is the same, because all changes are
/// by this process.
async fn read(
    store: &dyn GrantStore,
    place: &GrantPlace,
) -> Option<(AccountGrant, [Option<String>; 3])> {
    let found = store.get(place, moment(2)).await.unwrap();
    let now = ReadStart { at: 0, wall_at: moment(2).timestamp_millis() };
    let recent = store.recent(place, now).await.unwrap();
    assert_eq!(recent.as_ref().map(|recent| &recent.0), found.as_ref().map(|found| &found.0));
    let (grant, unsealed) = found?;
    let values = [unsealed.access_token, unsealed.refresh_token, unsealed.client_secret];
    Some((grant, values.map(|value| value.map(|value| value.expose().to_owned()))))
}

/// Every field and the values are kept.
pub async fn a_grant_comes_back_as_it_was_put(storage: &dyn Storage) {
    let store = &*storage.grants();
    let full = grant("a", "ann");
    let bare = AccountGrant {
        terms: GrantTerms {
            account: None,
            token_expires_at: None,
            missing_scopes: Vec::new(),
            withheld_scopes: Vec::new(),
            revocation_url: None,
            makers: Vec::new(),
            state: GrantState::NeedsConsent,
            ..full.terms.clone()
        },
        expires_at: None,
        ..grant("b", "bob")
    };
    store.put(full.clone(), secrets("wért\"\n")).await.unwrap();
    store.put(bare.clone(), GrantSecrets::default()).await.unwrap();
    let values = ["access wért\"\n", "refresh wért\"\n"].map(|value| Some(value.to_owned()));
    let [access, refresh] = values;
    assert_eq!(read(store, &full.place).await, Some((full, [access, refresh, None])));
    assert_eq!(read(store, &bare.place).await, Some((bare, [None, None, None])));
}

/// A grant is for one owner and source; a new consent replaces the earlier one.
pub async fn a_place_has_one_grant(storage: &dyn Storage) {
    let store = &*storage.grants();
    let first = grant("a", "ann");
    store.put(first.clone(), secrets("first")).await.unwrap();
    for other in [
        GrantPlace {
            owner: Owner { tenant: "u".parse().unwrap(), ..first.place.owner.clone() },
            ..first.place.clone()
        },
        GrantPlace { source: "r".parse().unwrap(), ..first.place.clone() },
        place("bob"),
        tenant_place(),
    ] {
        assert!(read(store, &other).await.is_none(), "{other:?}");
        let same_id = AccountGrant { place: other, ..first.clone() };
        let error = store.put(same_id, secrets("other")).await.unwrap_err();
        let conflict = matches!(error, CredentialStoreError::Store(StoreError::Conflict(_)));
        assert!(conflict, "{error}");
    }
    store.put(grant("b", "bob"), secrets("bob")).await.unwrap();
    store.put(grant("c", "ann"), secrets("second")).await.unwrap();
    let (now, [access, ..]) = read(store, &first.place).await.unwrap();
    assert_eq!((now.id.as_str(), access.as_deref()), ("c", Some("access second")));
    let tenant = first.place.owner.tenant;
    let ids = |grants: Vec<AccountGrant>| -> Vec<String> {
        grants.iter().map(|entry| entry.id.to_string()).collect()
    };
    let listed = async || ids(store.list(&tenant).await.unwrap());
    assert_eq!(listed().await, ["c", "b"]);
    let bob = Owner::principal(tenant.clone(), "bob".parse().unwrap());
    assert_eq!(ids(store.list_of(&bob).await.unwrap()), ["b"]);
    assert!(store.list(&"u".parse().unwrap()).await.unwrap().is_empty());
    assert!(!store.remove(&"u".parse().unwrap(), &now.id).await.unwrap());
    assert!(store.remove(&tenant, &now.id).await.unwrap());
    assert!(!store.remove(&tenant, &now.id).await.unwrap());
    assert_eq!(listed().await, ["b"]);
}

/// Of the grants of a tenant to a source, the earliest one that is left has the issuer.
pub async fn the_earliest_grant_names_the_issuer(storage: &dyn Storage) {
    let store = &*storage.grants();
    let at = |id: &str, principal: &str, issuer: &str, millis: i64| {
        let mut grant = grant(id, principal);
        issuer.clone_into(&mut grant.terms.issuer);
        AccountGrant { created_at: moment(millis), expires_at: Some(moment(60_000)), ..grant }
    };
    let mut elsewhere = at("d", "ann", "https://elsewhere.example", 1);
    elsewhere.place.source = "r".parse().unwrap();
    let mut foreign = at("e", "ann", "https://foreign.example", 1);
    foreign.place.owner.tenant = "u".parse().unwrap();
    let second = at("a", "ann", "https://second.example", 20);
    let first = at("b", "bob", "https://first.example", 10);
    for grant in [&elsewhere, &foreign, &second, &first] {
        store.put(grant.clone(), secrets("x")).await.unwrap();
    }
    let GrantPlace { owner, source } = &first.place;
    let issuer = async || store.issuer_of(&owner.tenant, source).await.unwrap();
    assert_eq!(issuer().await.as_deref(), Some("https://first.example"));
    let later = AccountGrant { id: "c".parse().unwrap(), created_at: moment(30), ..first.clone() };
    store.put(later, secrets("x")).await.unwrap();
    assert_eq!(issuer().await.as_deref(), Some("https://second.example"));
    assert!(store.remove(&owner.tenant, &second.id).await.unwrap());
    assert_eq!(issuer().await.as_deref(), Some("https://first.example"));
    let unknown = store.issuer_of(&owner.tenant, &"q".parse().unwrap()).await.unwrap();
    assert_eq!(unknown, None);
}

/// The account of the tenant and that of one of its principals do not replace each other.
pub async fn a_tenant_has_a_grant_beside_its_principals(storage: &dyn Storage) {
    let store = &*storage.grants();
    let shared = AccountGrant { place: tenant_place(), ..grant("b", "ann") };
    let own = grant("a", "ann");
    store.put(own.clone(), secrets("own")).await.unwrap();
    store.put(shared.clone(), secrets("shared")).await.unwrap();
    for (grant, value) in [(&own, "access own"), (&shared, "access shared")] {
        let (found, [access, ..]) = read(store, &grant.place).await.unwrap();
        assert_eq!((&found, access.as_deref()), (grant, Some(value)));
    }
    let tenant = &own.place.owner.tenant;
    let listed = store.list(tenant).await.unwrap();
    assert_eq!(listed, [shared.clone(), own.clone()], "the tenant's own is first");
    for grant in [&shared, &own] {
        let listed = store.list_of(&grant.place.owner).await.unwrap();
        assert_eq!(listed, std::slice::from_ref(grant));
    }
    let moved = AccountGrant { place: own.place.clone(), ..shared.clone() };
    assert!(!store.change(moved, secrets("moved")).await.unwrap());
    assert!(store.change(shared.clone(), secrets("new")).await.unwrap());
    assert!(store.remove(tenant, &own.id).await.unwrap());
    let (found, [access, ..]) = read(store, &shared.place).await.unwrap();
    assert_eq!((found.revision, access.as_deref()), (2, Some("access new")));
}

/// One holder renews a grant, until it ends its lease or the lease ends by time.
pub async fn a_lease_has_one_holder(storage: &dyn Storage) {
    let store = &*storage.grants();
    let first = grant("a", "ann");
    store.put(first.clone(), secrets("one")).await.unwrap();
    store.put(grant("b", "bob"), secrets("bob")).await.unwrap();
    let lease = async |id: &str, holder: &str, now: i64, until: i64| {
        store.lease(&id.parse().unwrap(), holder, moment(now), moment(until)).await.unwrap()
    };
    assert!(lease("a", "one", 0, 1_000).await);
    assert!(!lease("a", "two", 999, 2_000).await, "another holder is permitted");
    assert!(lease("b", "two", 0, 1_000).await, "leases are of one grant");
    assert!(lease("a", "one", 500, 1_500).await, "a holder can extend its lease");
    assert!(!lease("a", "two", 1_000, 2_000).await);
    assert!(store.change(first.clone(), secrets("two")).await.unwrap());
    assert!(!lease("a", "two", 1_499, 2_000).await, "a change does not end the lease");
    assert!(lease("a", "two", 1_500, 2_500).await, "it ends by time");
    store.end_lease(&first.id, "one").await.unwrap();
    assert!(!lease("a", "one", 2_000, 3_000).await, "only its holder can end it");
    store.end_lease(&first.id, "two").await.unwrap();
    store.end_lease(&first.id, "two").await.unwrap();
    assert!(lease("a", "one", 2_000, 3_000).await);
    let (now, _) = read(store, &first.place).await.unwrap();
    assert_eq!(now, AccountGrant { revision: 2, ..first.clone() }, "a lease is no change");
    assert!(store.remove(&first.place.owner.tenant, &first.id).await.unwrap());
    assert!(!lease("a", "one", 5_000, 6_000).await, "the grant was removed");
    store.end_lease(&first.id, "one").await.unwrap();
    store.put(first.clone(), secrets("three")).await.unwrap();
    assert!(lease("a", "two", 2_000, 3_000).await, "a new consent has no lease");
}

/// A use is no change, so that it neither disturbs a renewal nor makes calls read the grant again.
pub async fn the_last_use_of_a_grant_is_kept(storage: &dyn Storage) {
    let store = &*storage.grants();
    let first = grant("a", "ann");
    store.put(first.clone(), secrets("one")).await.unwrap();
    store.put(grant("b", "bob"), secrets("bob")).await.unwrap();
    let used = async |at: &[(&str, i64)]| {
        let at = at.iter().map(|(id, at)| (id.parse().unwrap(), moment(*at))).collect();
        store.note_used(at).await.unwrap();
        let listed = store.list(&first.place.owner.tenant).await.unwrap();
        listed.into_iter().map(|grant| grant.last_used_at).collect::<Vec<_>>()
    };
    assert_eq!(used(&[]).await, [None, None]);
    assert_eq!(used(&[("a", 5), ("unknown", 6)]).await, [Some(moment(5)), None]);
    assert_eq!(used(&[("b", 7), ("a", 4)]).await, [Some(moment(5)), Some(moment(7))]);
    assert!(store.change(first.clone(), secrets("two")).await.unwrap(), "the revision is the same");
    assert_eq!(used(&[]).await[0], Some(moment(5)), "a renewal keeps it");
    store
        .put(AccountGrant { id: "c".parse().unwrap(), ..first.clone() }, secrets("new"))
        .await
        .unwrap();
    assert_eq!(used(&[]).await[0], None, "a new account was not used yet");
}

/// Of many servers that notice an expired token at once, one renews it.
pub async fn of_many_that_lease_a_grant_one_does(storage: &dyn Storage) {
    let store = &*storage.grants();
    let first = grant("a", "ann");
    store.put(first.clone(), secrets("one")).await.unwrap();
    let id = &first.id;
    let leases = (0..8).map(async |number| {
        store.lease(id, &format!("server {number}"), moment(0), moment(1_000)).await.unwrap()
    });
    let permitted = futures_util::future::join_all(leases).await;
    assert_eq!(permitted.into_iter().filter(|permitted| *permitted).count(), 1);
}

/// A change based on an old revision does not undo a newer one.
pub async fn a_change_counts_only_over_what_was_seen(storage: &dyn Storage) {
    let store = &*storage.grants();
    let first = grant("a", "ann");
    store.put(first.clone(), secrets("one")).await.unwrap();
    let terms = GrantTerms { state: GrantState::NeedsConsent, ..first.terms.clone() };
    let second = AccountGrant { terms, changed_at: moment(5), expires_at: None, ..first.clone() };
    for other in [
        AccountGrant { place: place("bob"), ..second.clone() },
        AccountGrant { id: "b".parse().unwrap(), ..second.clone() },
        AccountGrant { revision: 2, ..second.clone() },
    ] {
        assert!(!store.change(other, secrets("other")).await.unwrap());
    }
    assert!(store.change(second.clone(), secrets("two")).await.unwrap());
    assert!(!store.change(second.clone(), secrets("three")).await.unwrap());
    let (now, [access, ..]) = read(store, &first.place).await.unwrap();
    assert_eq!(now, AccountGrant { revision: 2, ..second });
    assert_eq!(access.as_deref(), Some("access two"));
}

/// An authorization serves once, before it expires, and comes back with its verifier.
pub async fn an_authorization_is_taken_once(storage: &dyn Storage) {
    let store = &*storage.grants();
    let first = pending("one", "ann", moment(0));
    assert!(store.begin(first.clone(), secret("verifier")).await.unwrap());
    let again = store.begin(first.clone(), secret("other")).await.unwrap_err();
    assert!(matches!(again, CredentialStoreError::Store(StoreError::Conflict(_))), "{again}");
    assert!(store.begin(pending("two", "ann", moment(0)), secret("v")).await.unwrap());
    let unknown = PendingAuthorization::hash(&secret("three"));
    assert!(store.take(&unknown, moment(1)).await.unwrap().is_none());
    let (taken, verifier) = store.take(&first.state, moment(1)).await.unwrap().unwrap();
    assert!(taken == first && verifier.expose() == "verifier");
    assert!(store.take(&first.state, moment(1)).await.unwrap().is_none());
    let late = pending("two", "ann", moment(0));
    assert!(store.take(&late.state, late.expires_at).await.unwrap().is_none());
    assert!(store.take(&late.state, moment(1)).await.unwrap().is_none(), "a late response ends it");
}

/// Only one of many responses with the same state is served.
pub async fn of_many_that_take_an_authorization_one_does(storage: &dyn Storage) {
    let store = &*storage.grants();
    let first = pending("one", "ann", moment(0));
    assert!(store.begin(first.clone(), secret("verifier")).await.unwrap());
    let takes = (0..8).map(|_| store.take(&first.state, moment(1)));
    let taken = futures_util::future::join_all(takes).await;
    assert_eq!(taken.into_iter().filter(|outcome| outcome.as_ref().unwrap().is_some()).count(), 1);
}

/// A principal cannot fill the store, and expired authorizations do not count.
pub async fn authorizations_are_bounded(storage: &dyn Storage) {
    let store = &*storage.grants();
    let begin = async |number: usize, principal: &str, at| {
        store.begin(pending(&format!("{principal}{number}"), principal, at), secret("v")).await
    };
    for number in 0..MAX_PENDING_AUTHORIZATIONS {
        assert!(begin(number, "ann", moment(0)).await.unwrap());
    }
    assert!(!begin(100, "ann", moment(1)).await.unwrap());
    assert!(begin(0, "bob", moment(1)).await.unwrap());
    let of_tenant =
        PendingAuthorization { place: tenant_place(), ..pending("of-tenant", "ann", moment(1)) };
    let begun = store.begin(of_tenant.clone(), secret("v")).await.unwrap();
    assert!(!begun, "the person is counted, not the owner");
    let of_bob = pending("of-tenant", "bob", moment(1));
    let of_tenant = PendingAuthorization { terms: of_bob.terms, ..of_tenant };
    assert!(store.begin(of_tenant.clone(), secret("v")).await.unwrap());
    let (taken, _) = store.take(&of_tenant.state, moment(2)).await.unwrap().unwrap();
    assert!(taken == of_tenant);
    assert!(begin(100, "ann", moment(600_000)).await.unwrap(), "expired ones do not count");
}

/// Expired grants do not work, and leave the store with expired authorizations and links.
pub async fn expired_rows_are_swept(storage: &dyn Storage) {
    let store = &*storage.grants();
    let short = AccountGrant { expires_at: Some(moment(1_000)), ..grant("a", "ann") };
    store.put(short.clone(), secrets("v")).await.unwrap();
    store.put(AccountGrant { expires_at: None, ..grant("b", "bob") }, secrets("v")).await.unwrap();
    assert!(store.begin(pending("one", "ann", moment(0)), secret("v")).await.unwrap());
    store.add_link(link("one", "ann", moment(0))).await.unwrap();
    store.add_link(link("two", "ann", moment(1))).await.unwrap();
    assert!(store.get(&short.place, moment(999)).await.unwrap().is_some());
    assert!(store.get(&short.place, moment(1_000)).await.unwrap().is_none());
    assert_eq!(store.sweep(moment(999)).await.unwrap(), 0);
    assert_eq!(store.sweep(moment(600_000)).await.unwrap(), 3);
    assert_eq!(store.sweep(moment(600_001)).await.unwrap(), 1, "the later link");
    let left = store.list(&short.place.owner.tenant).await.unwrap();
    assert_eq!(left.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["b"]);
}
