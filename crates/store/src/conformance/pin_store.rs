//! The requirements of [`PinStore`].

use toolcrib_core::{
    canonical::Digest,
    id::SourceId,
    pin::{ApprovedForm, Pin, PinApproval, PinChoice, PinDigests, PinForm, PinStore, SeenForm},
    principal::PrincipalKey,
    store::Storage,
};

use super::moment;

/// Returns a form of a tool.
pub fn form(text: &str) -> PinForm {
    let document = format!("{{\"name\":\"{text}\"}}");
    PinForm { digest: Digest::of(document.as_bytes()), document }
}

fn source(id: &str) -> SourceId {
    SourceId::parse(id).unwrap()
}

fn one(tool: &str, text: &str) -> Vec<(String, PinForm)> {
    vec![(tool.to_owned(), form(text))]
}

fn choice(tool: &str, text: &str) -> PinChoice {
    PinChoice { source: source("s"), tool: tool.to_owned(), digest: form(text).digest }
}

async fn pinned(pins: &dyn PinStore, tool: &str) -> Option<PinDigests> {
    pins.book(&source("s")).await.unwrap().tools.get(tool).copied()
}

fn digests(approved: Option<&str>, seen: Option<&str>) -> Option<PinDigests> {
    let digest = |text: &str| form(text).digest;
    Some(PinDigests { approved: approved.map(digest), seen: seen.map(digest) })
}

/// The first form of a tool is kept; a later one changes nothing.
pub async fn only_the_first_form_is_trusted(storage: &dyn Storage) {
    let pins = &*storage.pins();
    assert_eq!(pins.pin(&source("s"), "a").await.unwrap(), None);
    pins.trust(&source("s"), one("a", "1"), moment(1)).await.unwrap();
    pins.trust(&source("s"), one("a", "2"), moment(2)).await.unwrap();
    assert_eq!(pinned(pins, "a").await, digests(Some("1"), None));
    let approved = ApprovedForm { form: form("1"), at: moment(1), by: None };
    let expected =
        Pin { source: source("s"), tool: "a".to_owned(), approved: Some(approved), seen: None };
    assert_eq!(pins.pin(&source("s"), "a").await.unwrap(), Some(expected));
    pins.note(&source("s"), one("b", "1"), moment(3)).await.unwrap();
    pins.trust(&source("s"), one("b", "1"), moment(4)).await.unwrap();
    assert_eq!(pinned(pins, "b").await, digests(None, Some("1")), "it awaits approval");
}

/// A form is reported once; the newest pending form counts, and the approved form is never pending.
pub async fn the_newest_form_that_differs_is_noted_once(storage: &dyn Storage) {
    let pins = &*storage.pins();
    pins.trust(&source("s"), one("a", "1"), moment(1)).await.unwrap();
    for (text, news) in [("2", true), ("2", false), ("3", true), ("2", true), ("1", false)] {
        let changed = pins.note(&source("s"), one("a", text), moment(2)).await.unwrap();
        assert_eq!(!changed.is_empty(), news, "{text}");
    }
    assert_eq!(pinned(pins, "a").await, digests(Some("1"), Some("2")));
    let seen = SeenForm { form: form("2"), at: moment(2) };
    assert_eq!(pins.pin(&source("s"), "a").await.unwrap().unwrap().seen, Some(seen));
    pins.note(&source("s"), one("new", "1"), moment(2)).await.unwrap();
    pins.forget(&source("s"), vec!["a".to_owned(), "new".to_owned(), "none".to_owned()])
        .await
        .unwrap();
    assert_eq!(pinned(pins, "a").await, digests(Some("1"), None));
    assert_eq!(pinned(pins, "new").await, digests(None, Some("1")), "its only form stays");
}

/// An approval covers the reviewed forms, all of them or none.
pub async fn an_approval_is_of_the_form_that_waits(storage: &dyn Storage) {
    let pins = &*storage.pins();
    pins.trust(&source("s"), one("a", "1"), moment(1)).await.unwrap();
    pins.note(&source("s"), one("a", "2"), moment(2)).await.unwrap();
    pins.note(&source("s"), one("b", "1"), moment(2)).await.unwrap();
    let (tenant, principal) = ("b".parse().unwrap(), "ann".parse().unwrap());
    let ann = PrincipalKey { tenant, principal };
    let approve = async |choices: Vec<PinChoice>| {
        pins.approve(choices, moment(3), Some(ann.clone())).await.unwrap()
    };
    let both = vec![choice("b", "1"), choice("a", "3")];
    assert_eq!(approve(both).await, PinApproval::Stale(1));
    assert_eq!(approve(vec![choice("a", "1")]).await, PinApproval::Stale(0), "it is already");
    assert_eq!(pinned(pins, "b").await, digests(None, Some("1")), "nothing was approved");
    let both = vec![choice("b", "1"), choice("a", "2")];
    let before = vec![None, Some(form("1").digest)];
    assert_eq!(approve(both).await, PinApproval::Approved(before));
    assert_eq!(pinned(pins, "a").await, digests(Some("2"), None));
    assert_eq!(pinned(pins, "b").await, digests(Some("1"), None));
    let approved = ApprovedForm { form: form("2"), at: moment(3), by: Some(ann.clone()) };
    assert_eq!(pins.pin(&source("s"), "a").await.unwrap().unwrap().approved, Some(approved));
}

/// Sources do not share pins, and pins are sorted by name.
pub async fn pins_are_of_one_source_and_sorted(storage: &dyn Storage) {
    let pins = &*storage.pins();
    for tool in ["b", "a"] {
        pins.trust(&source("s"), one(tool, "1"), moment(1)).await.unwrap();
    }
    pins.trust(&source("t"), one("c", "1"), moment(1)).await.unwrap();
    let names = |pins: Vec<Pin>| pins.into_iter().map(|pin| pin.tool).collect::<Vec<_>>();
    assert_eq!(names(pins.pins(&source("s")).await.unwrap()), ["a", "b"]);
    assert_eq!(names(pins.pins(&source("t")).await.unwrap()), ["c"]);
    assert_eq!(pins.pin(&source("t"), "a").await.unwrap(), None);
}

/// The epoch rises with every change and only then, and a book carries it.
pub async fn the_pins_epoch_rises_with_every_change(storage: &dyn Storage) {
    let pins = &*storage.pins();
    let mut last = storage.changes(None).await.unwrap().pins;
    let mut step = async |changes: bool, what: &str| {
        let now = storage.changes(None).await.unwrap().pins;
        assert_eq!(now > last, changes, "{what}");
        assert_eq!(pins.book(&source("s")).await.unwrap().epoch, now);
        last = now;
    };
    pins.trust(&source("s"), one("a", "1"), moment(1)).await.unwrap();
    step(true, "trust").await;
    pins.trust(&source("s"), one("a", "1"), moment(1)).await.unwrap();
    step(false, "trust again").await;
    pins.note(&source("s"), one("a", "2"), moment(1)).await.unwrap();
    step(true, "note").await;
    pins.note(&source("s"), one("a", "2"), moment(1)).await.unwrap();
    step(false, "note again").await;
    pins.approve(vec![choice("a", "7")], moment(1), None).await.unwrap();
    step(false, "stale").await;
    pins.approve(vec![choice("a", "2")], moment(1), None).await.unwrap();
    step(true, "approve").await;
    pins.forget(&source("s"), vec!["a".to_owned()]).await.unwrap();
    step(false, "nothing to forget").await;
}
