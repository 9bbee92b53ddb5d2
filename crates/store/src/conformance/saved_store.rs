//! The requirements of [`SavedStore`](toolcrib_core::store::SavedStore).

use toolcrib_core::{
    id::PrincipalId,
    store::{MAX_SAVED, MAX_SAVED_BY_ONE, SavedFilter, SavedInsertion, SavedItem, Storage},
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
    let other = SavedItem {
        id: "other".parse().unwrap(),
        principal: "bob".parse().unwrap(),
        ..item("call", "mcp:a.c", "one")
    };
    assert_eq!(saved.insert(other.clone()).await.unwrap(), SavedInsertion::Stored);
    for (filter, expected) in [
        (SavedFilter::Views, vec![view]),
        (SavedFilter::CallsOf("mcp:a.b".parse().unwrap()), vec![one.clone(), two.clone()]),
        (SavedFilter::CallsBy(one.principal.clone()), vec![one.clone(), two]),
        (SavedFilter::CallsBy(other.principal.clone()), vec![other]),
        (SavedFilter::CallsOf("mcp:a.d".parse().unwrap()), vec![]),
    ] {
        assert_eq!(saved.list(&one.tenant, &filter).await.unwrap(), expected, "{filter:?}");
    }
    assert_eq!(saved.find(&one.tenant, &one.id).await.unwrap(), Some(one));
}

/// Another tool, kind or tenant may use a name again.
pub async fn a_name_is_taken_once_per_kind_and_tool(storage: &dyn Storage) {
    let saved = storage.saved();
    for (kind, tool) in [("view", ""), ("call", "mcp:a.b"), ("call", "mcp:a.c")] {
        let new = item(kind, tool, "same");
        assert_eq!(saved.insert(new.clone()).await.unwrap(), SavedInsertion::Stored, "{tool}");
        let again = SavedItem { id: "again".parse().unwrap(), ..new.clone() };
        let again = SavedItem { principal: "bob".parse().unwrap(), ..again };
        let SavedItem { id, principal, .. } = new.clone();
        let taken = SavedInsertion::NameTaken { id, principal };
        assert_eq!(saved.insert(again.clone()).await.unwrap(), taken);
        let id = format!("other-{}", new.id).parse().unwrap();
        let other = SavedItem { tenant: "u".parse().unwrap(), id, ..again };
        assert_eq!(saved.insert(other).await.unwrap(), SavedInsertion::Stored);
    }
}

/// A change requires that all identifying parts agree, and the principal.
pub async fn only_the_item_that_was_seen_is_changed(storage: &dyn Storage) {
    let saved = storage.saved();
    let first = item("call", "mcp:a.b", "n");
    let (ann, bob): (_, PrincipalId) = (first.principal.clone(), "bob".parse().unwrap());
    assert_eq!(saved.insert(first.clone()).await.unwrap(), SavedInsertion::Stored);
    let second =
        SavedItem { content: Some("{\"a\":2}".to_owned()), saved_at: moment(9), ..first.clone() };
    for other in [
        SavedItem { principal: bob.clone(), ..second.clone() },
        SavedItem { tenant: "u".parse().unwrap(), ..second.clone() },
        SavedItem { tool: Some("mcp:a.c".parse().unwrap()), ..second.clone() },
        SavedItem { name: "m".to_owned(), ..second.clone() },
        SavedItem { id: "x".parse().unwrap(), ..second.clone() },
    ] {
        assert!(!saved.replace(other).await.unwrap());
    }
    assert_eq!(saved.find(&first.tenant, &first.id).await.unwrap(), Some(first.clone()));
    assert!(saved.replace(second.clone()).await.unwrap());
    assert_eq!(saved.find(&first.tenant, &first.id).await.unwrap(), Some(second));
    assert!(!saved.remove(&first.tenant, &first.id, &bob).await.unwrap(), "ann saved it");
    assert!(saved.remove(&first.tenant, &first.id, &ann).await.unwrap());
    assert!(!saved.remove(&first.tenant, &first.id, &ann).await.unwrap());
    assert_eq!(saved.find(&first.tenant, &first.id).await.unwrap(), None);
}

/// No item of a tenant is found, listed, changed or removed with another one.
pub async fn tenants_do_not_see_each_others_items(storage: &dyn Storage) {
    let saved = storage.saved();
    let own = item("view", "", "n");
    let other = "u".parse().unwrap();
    assert_eq!(saved.insert(own.clone()).await.unwrap(), SavedInsertion::Stored);
    assert!(saved.list(&other, &SavedFilter::Views).await.unwrap().is_empty());
    assert_eq!(saved.find(&other, &own.id).await.unwrap(), None);
    assert!(!saved.remove(&other, &own.id, &own.principal).await.unwrap());
    assert_eq!(saved.list(&own.tenant, &SavedFilter::Views).await.unwrap(), [own]);
}

/// A principal has a limit for each kind; so do the views of a tenant, and the calls of each tool.
pub async fn items_are_bounded(storage: &dyn Storage) {
    let saved = storage.saved();
    for (kind, tool) in [("view", ""), ("call", "mcp:a.b")] {
        let of = |principal: &str, name: &str| SavedItem {
            principal: principal.parse().unwrap(),
            ..item(kind, tool, name)
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
        assert_eq!(saved.insert(of("new", "more")).await.unwrap(), SavedInsertion::PlaceFull);
    }
    let of_another_tool = item("call", "mcp:a.c", "more");
    assert_eq!(saved.insert(of_another_tool.clone()).await.unwrap(), SavedInsertion::Stored);
    let of_a_full_one =
        SavedItem { principal: "p0".parse().unwrap(), ..item("call", "mcp:a.d", "more") };
    assert_eq!(saved.insert(of_a_full_one).await.unwrap(), SavedInsertion::PrincipalFull);
}

/// Creates an item of principal `ann` of tenant `t`.
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
