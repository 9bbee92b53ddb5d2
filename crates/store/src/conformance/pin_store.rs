//! The requirements of [`PinStore`].

use toolcrib_core::{
    canonical::Digest,
    id::SourceId,
    pin::{
        ApprovedForm, EarlierForms, MAX_EARLIER, Pin, PinApproval, PinChoice, PinDigests, PinForm,
        PinStore, SeenForm,
    },
    principal::PrincipalKey,
    store::Storage,
};

use super::moment;

/// Creates a form of a tool.
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
    let (tool, digest) = (tool.to_owned(), form(text).digest);
    PinChoice { source: source("s"), tool, digest, earlier: EarlierForms::Replace }
}

fn also(text: &str) -> Vec<PinChoice> {
    vec![PinChoice { earlier: EarlierForms::Keep, ..choice("flip", text) }]
}

async fn book(pins: &dyn PinStore, tool: &str) -> PinDigests {
    pins.book(&source("s")).await.unwrap().tools.remove(tool).unwrap()
}

/// The digests of the approved and the pending form.
async fn pinned(pins: &dyn PinStore, tool: &str) -> [Option<Digest>; 2] {
    let PinDigests { approved, seen, .. } = book(pins, tool).await;
    [approved, seen]
}

fn digests(approved: Option<&str>, seen: Option<&str>) -> [Option<Digest>; 2] {
    [approved, seen].map(|text| text.map(|text| form(text).digest))
}

/// The first form of a tool is kept; a later one has no effect.
pub async fn only_the_first_form_is_trusted(storage: &dyn Storage) {
    let pins = &*storage.pins();
    assert_eq!(pins.pin(&source("s"), "a").await.unwrap(), None);
    pins.trust(&source("s"), one("a", "1"), moment(1)).await.unwrap();
    pins.trust(&source("s"), one("a", "2"), moment(2)).await.unwrap();
    assert_eq!(pinned(pins, "a").await, digests(Some("1"), None));
    let approved = ApprovedForm { form: form("1"), at: moment(1), by: None };
    let expected = Pin {
        source: source("s"),
        tool: "a".to_owned(),
        approved: Some(approved),
        earlier: Vec::new(),
        seen: None,
        change_count: 0,
    };
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
    pins.forget(&source("s"), vec!["a".to_owned(), "new".to_owned(), "unknown".to_owned()])
        .await
        .unwrap();
    assert_eq!(pinned(pins, "a").await, digests(Some("1"), None));
    assert_eq!(pinned(pins, "new").await, digests(None, Some("1")), "its only form stays");
}

/// An approval covers all reviewed forms, or fails for all.
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
    assert_eq!(pinned(pins, "b").await, digests(None, Some("1")), "no form was approved");
    let both = vec![choice("b", "1"), choice("a", "2")];
    let before = vec![None, Some(form("1").digest)];
    assert_eq!(approve(both).await, PinApproval::Approved(before));
    assert_eq!(pinned(pins, "a").await, digests(Some("2"), None));
    assert_eq!(pinned(pins, "b").await, digests(Some("1"), None));
    let approved = ApprovedForm { form: form("2"), at: moment(3), by: Some(ann.clone()) };
    assert_eq!(pins.pin(&source("s"), "a").await.unwrap().unwrap().approved, Some(approved));
}

/// A form approved in addition leaves the earlier ones approved; any other approval withdraws them.
pub async fn earlier_forms_remain_approved_only_on_request(storage: &dyn Storage) {
    let pins = &*storage.pins();
    let note = async |text: &str| {
        pins.note(&source("s"), one("flip", text), moment(2)).await.unwrap().len()
    };
    let ann = PrincipalKey { tenant: "b".parse().unwrap(), principal: "ann".parse().unwrap() };
    let approve = async |choices: Vec<PinChoice>, at: i64| {
        pins.approve(choices, moment(at), Some(ann.clone())).await.unwrap()
    };
    pins.trust(&source("s"), one("flip", "1"), moment(1)).await.unwrap();
    pins.trust(&source("s"), one("next", "1"), moment(1)).await.unwrap();
    assert_eq!(note("2").await, 1);
    let before = PinApproval::Approved(vec![Some(form("1").digest)]);
    assert_eq!(approve(also("2"), 3).await, before);
    assert_eq!(book(pins, "flip").await.earlier, [form("1").digest]);
    assert_eq!(note("1").await + note("2").await, 0, "both are approved");
    assert_eq!(note("3").await, 1);
    assert_eq!(approve(also("2"), 4).await, PinApproval::Stale(0), "it is not pending");
    approve(also("3"), 4).await;
    let held = book(pins, "flip").await;
    assert!(["1", "2", "3"].iter().all(|text| held.approves(form(text).digest)));
    assert!(!held.approves(form("4").digest));
    assert_eq!((held.change_count, held.seen), (2, None));
    let other = book(pins, "next").await;
    assert_eq!((other.earlier, other.change_count), (Vec::new(), 0));
    let pin = pins.pin(&source("s"), "flip").await.unwrap().unwrap();
    let first = ApprovedForm { form: form("1"), at: moment(1), by: None };
    let second = ApprovedForm { form: form("2"), at: moment(3), by: Some(ann.clone()) };
    assert_eq!((&pin.earlier, pin.change_count), (&vec![second, first], 2));
    assert!(pins.pins(&source("s")).await.unwrap().contains(&pin));

    // The last approved form is approved alone.
    let again = PinApproval::Approved(vec![Some(form("3").digest)]);
    assert_eq!(approve(vec![choice("flip", "1")], 5).await, PinApproval::Stale(0));
    assert_eq!(approve(vec![choice("flip", "3")], 5).await, again);
    assert_eq!(approve(vec![choice("flip", "3")], 5).await, PinApproval::Stale(0), "it is alone");
    assert_eq!(note("1").await, 1, "its approval was withdrawn");
    approve(also("1"), 6).await;
    note("4").await;
    approve(vec![choice("flip", "4")], 7).await;
    let held = book(pins, "flip").await;
    assert_eq!((held.approved, held.earlier), (Some(form("4").digest), Vec::new()));

    // The newest earlier forms remain.
    for number in 10..20 {
        note(&number.to_string()).await;
        approve(also(&number.to_string()), number).await;
    }
    let pin = pins.pin(&source("s"), "flip").await.unwrap().unwrap();
    let texts: Vec<_> = pin.earlier.iter().map(|earlier| earlier.form.clone()).collect();
    let expected: Vec<_> = (12..19).rev().map(|number| form(&number.to_string())).collect();
    assert_eq!((texts.len(), texts), (MAX_EARLIER, expected));
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
    step(false, "no pin to forget").await;
}
