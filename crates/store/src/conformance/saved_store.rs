//! The requirements of [`SavedStore`](toolcrib_core::store::SavedStore).

use toolcrib_core::store::{
    MAX_SAVED, MAX_SAVED_BY_ONE, SavedInsertion, SavedItem, SavedKind, Storage,
};

use super::moment;

/// Items come back with all their parts, by tool and name.
pub async fn an_item_comes_back_as_it_was_saved(storage: &dyn Storage) {
    let saved = storage.saved();
    let view = SavedItem { content: Some("q=tool%3Aü".to_owned()), ..item("view", "", "ünique") };
    let calls = [item("call", "mcp:a.b", "two"), item("call", "mcp:a.b", "one")];
    assert_eq!(saved.insert(view.clone()).await.unwrap(), SavedInsertion::Stored);
    for call in &calls {
        assert_eq!(saved.insert(call.clone()).await.unwrap(), SavedInsertion::Stored);
    }
    let [two, one] = calls;
    assert_eq!(saved.list(&one.tenant, SavedKind::View).await.unwrap(), [view]);
    assert_eq!(saved.list(&one.tenant, SavedKind::Call).await.unwrap(), [one.clone(), two]);
    assert_eq!(saved.find(&one.tenant, &one.id).await.unwrap(), Some(one));
}

/// Another tool, kind or tenant may use a name again.
pub async fn a_name_is_taken_once_per_kind_and_tool(storage: &dyn Storage) {
    let saved = storage.saved();
    for (kind, tool) in [("view", ""), ("call", "mcp:a.b"), ("call", "mcp:a.c")] {
        let new = item(kind, tool, "same");
        assert_eq!(saved.insert(new.clone()).await.unwrap(), SavedInsertion::Stored, "{tool}");
        let again = SavedItem { id: "again".parse().unwrap(), ..new.clone() };
        assert_eq!(saved.insert(again.clone()).await.unwrap(), SavedInsertion::NameTaken);
        let id = format!("other-{}", new.id).parse().unwrap();
        let other = SavedItem { tenant: "u".parse().unwrap(), id, ..again };
        assert_eq!(saved.insert(other).await.unwrap(), SavedInsertion::Stored);
    }
}

/// A change requires the principal that was seen, and that all identifying parts agree.
pub async fn only_the_item_that_was_seen_is_changed(storage: &dyn Storage) {
    let saved = storage.saved();
    let first = item("call", "mcp:a.b", "n");
    let (ann, bob) = (first.principal.clone(), "bob".parse().unwrap());
    assert_eq!(saved.insert(first.clone()).await.unwrap(), SavedInsertion::Stored);
    let second = SavedItem {
        content: Some("{\"a\":2}".to_owned()),
        saved_at: moment(9),
        principal: "bob".parse().unwrap(),
        ..first.clone()
    };
    assert!(!saved.replace(&bob, second.clone()).await.unwrap(), "ann has saved it");
    for other in [
        SavedItem { tenant: "u".parse().unwrap(), ..second.clone() },
        SavedItem { tool: Some("mcp:a.c".parse().unwrap()), ..second.clone() },
        SavedItem { name: "m".to_owned(), ..second.clone() },
        SavedItem { id: "x".parse().unwrap(), ..second.clone() },
    ] {
        assert!(!saved.replace(&ann, other).await.unwrap());
    }
    assert_eq!(saved.find(&first.tenant, &first.id).await.unwrap(), Some(first.clone()));
    assert!(saved.replace(&ann, second.clone()).await.unwrap());
    assert_eq!(saved.find(&first.tenant, &first.id).await.unwrap(), Some(second));
    assert!(!saved.remove(&first.tenant, &first.id, &ann).await.unwrap(), "bob has replaced it");
    assert!(saved.remove(&first.tenant, &first.id, &bob).await.unwrap());
    assert!(!saved.remove(&first.tenant, &first.id, &bob).await.unwrap());
    assert_eq!(saved.find(&first.tenant, &first.id).await.unwrap(), None);
}

/// No item of a tenant is found, listed, changed or removed with another one.
pub async fn tenants_do_not_see_each_others_items(storage: &dyn Storage) {
    let saved = storage.saved();
    let own = item("view", "", "n");
    let other = "u".parse().unwrap();
    assert_eq!(saved.insert(own.clone()).await.unwrap(), SavedInsertion::Stored);
    assert!(saved.list(&other, SavedKind::View).await.unwrap().is_empty());
    assert_eq!(saved.find(&other, &own.id).await.unwrap(), None);
    assert!(!saved.remove(&other, &own.id, &own.principal).await.unwrap());
    assert_eq!(saved.list(&own.tenant, SavedKind::View).await.unwrap(), [own]);
}

/// A principal and a tenant have a limit for each kind.
pub async fn items_are_bounded(storage: &dyn Storage) {
    let saved = storage.saved();
    let of = |principal: &str, name: &str| SavedItem {
        principal: principal.parse().unwrap(),
        ..item("view", "", name)
    };
    for number in 0..MAX_SAVED {
        let principal = format!("p{}", number / MAX_SAVED_BY_ONE);
        let new = of(&principal, &format!("n{number}"));
        assert_eq!(saved.insert(new).await.unwrap(), SavedInsertion::Stored, "{number}");
        if number + 1 == MAX_SAVED_BY_ONE {
            let full = saved.insert(of(&principal, "more")).await.unwrap();
            assert_eq!(full, SavedInsertion::PrincipalFull);
        }
    }
    assert_eq!(saved.insert(of("new", "more")).await.unwrap(), SavedInsertion::TenantFull);
    let other = item("call", "mcp:a.b", "another kind");
    assert_eq!(saved.insert(other).await.unwrap(), SavedInsertion::Stored);
}

/// Returns an item of principal `ann` of tenant `t`.
pub fn item(kind: &str, tool: &str, name: &str) -> SavedItem {
    SavedItem {
        id: format!("{kind}-{}-{}", hex(tool), hex(name)).parse().unwrap(),
        tenant: "t".parse().unwrap(),
        kind: kind.parse().unwrap(),
        tool: (!tool.is_empty()).then(|| tool.parse().unwrap()),
        name: name.to_owned(),
        content: Some("{\"a\": 1.0}".to_owned()),
        principal: "ann".parse().unwrap(),
        saved_at: moment(1),
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
