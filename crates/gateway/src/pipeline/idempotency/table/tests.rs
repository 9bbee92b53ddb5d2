use bytes::Bytes;
use toolcrib_core::{id::RunId, idempotency::KEPT_FOR};

use super::*;

fn owner(name: &str) -> Owner {
    (TenantId::parse("t").unwrap(), PrincipalId::parse(name).unwrap())
}

fn answer(bytes: usize) -> StoredAnswer {
    StoredAnswer { body: Bytes::from(vec![b'x'; bytes]), run_id: RunId::parse("run").unwrap() }
}

fn call(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn small() -> Table<()> {
    let limits = Limits { bytes: (40_000, 20_000), answers: (1_000, 10), running: (3, 2) };
    Table::new(limits)
}

/// Runs call `key` of `who` with an answer of `bytes`.
fn ran(table: &mut Table<()>, who: &str, key: &str, bytes: usize, now: u64) {
    table.begin(&owner(who), key, call("c"), ()).unwrap();
    let day = u64::try_from(KEPT_FOR.as_nanos()).unwrap();
    table.keep(&owner(who), key, answer(bytes), now, now + day);
}

fn state(table: &mut Table<()>, who: &str, key: &str, now: u64) -> &'static str {
    match table.find(&owner(who), key, call("c"), now) {
        Lookup::Nothing => "nothing",
        Lookup::Running(()) => "running",
        Lookup::Kept(_) => "kept",
        Lookup::Spent => "spent",
        Lookup::OtherCall => "other",
    }
}

/// The counters of the table match its contents.
fn check(table: &Table<()>) {
    let sum: usize = table.answers.values().map(|place| place.bytes).sum();
    assert_eq!(table.bytes, sum);
    assert_eq!(table.owners.values().map(|held| held.bytes).sum::<usize>(), sum);
    assert_eq!(table.owners.values().map(|held| held.running).sum::<usize>(), table.running);
    let answers: usize = table.owners.values().map(|held| held.answers.len()).sum();
    assert_eq!(answers, table.answers.len());
    let holding = table.owners.values().filter(|held| held.bytes > 0).count();
    assert_eq!(table.largest.len(), holding);
    assert!(table.bytes <= table.limits.bytes.0 && table.answers.len() <= table.limits.answers.0);
}

#[test]
fn a_key_is_one_call_of_one_holder() {
    let mut table = small();
    assert_eq!(state(&mut table, "a", "k", 0), "nothing");
    table.begin(&owner("a"), "k", call("c"), ()).unwrap();
    assert_eq!(state(&mut table, "a", "k", 0), "running");
    assert!(matches!(table.find(&owner("a"), "k", call("d"), 0), Lookup::OtherCall));
    table.keep(&owner("a"), "k", answer(1), 0, 100);
    table.release(&owner("a"), "k");
    assert_eq!(state(&mut table, "a", "k", 0), "kept");
    assert!(matches!(table.find(&owner("a"), "k", call("d"), 0), Lookup::OtherCall));
    assert_eq!(state(&mut table, "b", "k", 0), "nothing");
    check(&table);
    // A call without an answer frees its key.
    table.begin(&owner("b"), "k", call("c"), ()).unwrap();
    table.release(&owner("b"), "k");
    assert_eq!(state(&mut table, "b", "k", 0), "nothing");
    assert_eq!(table.owners.len(), 1);
    check(&table);
}

#[test]
fn answers_are_kept_for_a_day() {
    let mut table = small();
    let day = u64::try_from(KEPT_FOR.as_nanos()).unwrap();
    ran(&mut table, "a", "k", 1, 5);
    assert_eq!(state(&mut table, "a", "k", day + 4), "kept");
    assert_eq!(state(&mut table, "a", "k", day + 5), "nothing");
    assert!(table.owners.is_empty() && table.answers.is_empty());
    // Calls of other owners also remove expired answers.
    ran(&mut table, "a", "k", 1, 0);
    ran(&mut table, "b", "k", 1, day);
    assert_eq!(table.answers.len(), 1);
    check(&table);
}

/// I-27: an owner over its bound loses its own oldest answers.
#[test]
fn a_holder_over_its_bound_loses_its_own_oldest() {
    let mut table = small();
    ran(&mut table, "other", "k", 1, 0);
    for number in 0..15 {
        ran(&mut table, "a", &number.to_string(), 10, 0);
        check(&table);
    }
    assert_eq!(state(&mut table, "a", "4", 0), "nothing");
    assert_eq!(state(&mut table, "a", "5", 0), "kept");
    assert_eq!(state(&mut table, "a", "14", 0), "kept");
    ran(&mut table, "a", "large", 15_000, 0);
    assert_eq!(state(&mut table, "a", "5", 0), "nothing", "bytes count as well");
    assert_eq!(state(&mut table, "a", "large", 0), "kept");
    // An answer that can never fit is remembered as spent.
    ran(&mut table, "a", "huge", 30_000, 0);
    assert_eq!(state(&mut table, "a", "huge", 0), "spent");
    assert_eq!(state(&mut table, "other", "k", 0), "kept");
    check(&table);
}

/// I-27: if the table is full, the largest owner loses answers, and small owners lose none.
#[test]
fn the_largest_holder_makes_room_for_all() {
    let mut table = small();
    ran(&mut table, "little", "k", 100, 0);
    for who in ["a", "b", "c", "d"] {
        for number in 0..2 {
            ran(&mut table, who, &number.to_string(), 8_000, 0);
            check(&table);
        }
    }
    assert_eq!(state(&mut table, "little", "k", 0), "kept");
    assert_eq!(state(&mut table, "d", "1", 0), "kept", "the newest found room");
}

#[test]
fn only_so_many_calls_run_under_keys() {
    let mut table = small();
    for (who, key, taken) in
        [("a", "1", true), ("a", "2", true), ("a", "3", false), ("b", "1", true), ("c", "1", false)]
    {
        assert_eq!(table.begin(&owner(who), key, call("c"), ()).is_ok(), taken, "{who} {key}");
        check(&table);
    }
    table.release(&owner("a"), "1");
    table.begin(&owner("c"), "1", call("c"), ()).unwrap();
    check(&table);
}
