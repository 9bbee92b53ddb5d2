//! The requirements of [`QuotaStore`](toolcrib_core::quota::QuotaStore).

use toolcrib_core::{
    quota::{Day, QuotaKey, QuotaReservation},
    store::Storage,
};

/// Counts are added, and a query does not change them.
pub async fn counts_add_up(storage: &dyn Storage) {
    let quotas = storage.quotas();
    let (ann, bob) = (key("ann", None), key("bob", None));
    let totals = quotas.add(Day(1), vec![(ann.clone(), 2), (bob.clone(), 1)]).await.unwrap();
    assert_eq!(totals, [2, 1]);
    let totals = quotas.add(Day(1), vec![(bob.clone(), 0), (ann.clone(), 3)]).await.unwrap();
    assert_eq!(totals, [1, 5], "in the order of the request");
    assert_eq!(quotas.add(Day(1), vec![(ann, 0), (bob, 0)]).await.unwrap(), [5, 1]);
}

/// A count stays at zero or above when it is taken back.
pub async fn a_count_is_never_negative(storage: &dyn Storage) {
    let quotas = storage.quotas();
    let ann = key("ann", None);
    assert_eq!(quotas.add(Day(1), vec![(ann.clone(), -1)]).await.unwrap(), [0]);
    assert_eq!(quotas.add(Day(1), vec![(ann.clone(), 2)]).await.unwrap(), [2]);
    assert_eq!(quotas.add(Day(1), vec![(ann.clone(), -5)]).await.unwrap(), [0]);
    assert_eq!(quotas.add(Day(1), vec![(ann, 1)]).await.unwrap(), [1]);
}

/// Calls that are set aside never exceed the quota, however many servers set some aside at once;
/// returned ones can be set aside again.
pub async fn reservations_end_at_the_quota(storage: &dyn Storage) {
    let quotas = storage.quotas();
    let quota = "200/d".parse().unwrap();
    let reserve = || quotas.reserve(Day(1), key("ann", None), quota);
    let mut granted = 0;
    loop {
        let round = futures_util::future::join_all((0..4).map(|_| reserve())).await;
        let now: u64 = round.into_iter().map(|reservation| reservation.unwrap().granted).sum();
        granted += now;
        if now == 0 {
            break;
        }
    }
    assert_eq!(granted, 200);
    let total = quotas.add(Day(1), vec![(key("ann", None), -3)]).await.unwrap();
    assert_eq!(total, [197]);
    assert_eq!(reserve().await.unwrap(), QuotaReservation { used: 198, granted: 1 });
    let other = quotas.reserve(Day(2), key("ann", None), quota).await.unwrap();
    assert_eq!(other, QuotaReservation { used: 12, granted: 12 });
}

/// Days, tenants, principals and tools are counted apart; a tool is not all tools.
pub async fn what_differs_is_counted_apart(storage: &dyn Storage) {
    let quotas = storage.quotas();
    let ann = key("ann", None);
    quotas.add(Day(1), vec![(ann.clone(), 7)]).await.unwrap();
    let others = [
        key("bob", None),
        key("ann", Some("mcp:s.t")),
        QuotaKey { tenant: "other".parse().unwrap(), ..key("ann", None) },
    ];
    for other in others {
        assert_eq!(quotas.add(Day(1), vec![(other.clone(), 0)]).await.unwrap(), [0], "{other:?}");
    }
    assert_eq!(quotas.add(Day(2), vec![(ann, 0)]).await.unwrap(), [0]);
}

/// Only earlier days are forgotten.
pub async fn earlier_days_are_forgotten(storage: &dyn Storage) {
    let quotas = storage.quotas();
    for day in 1..=3 {
        quotas.add(Day(day), vec![(key("ann", None), 1)]).await.unwrap();
    }
    assert_eq!(quotas.forget_before(Day(3)).await.unwrap(), 2);
    assert_eq!(quotas.forget_before(Day(3)).await.unwrap(), 0);
    for (day, left) in [(1, 0), (2, 0), (3, 1)] {
        let counts = vec![(key("ann", None), 0)];
        assert_eq!(quotas.add(Day(day), counts).await.unwrap(), [left], "day {day}");
    }
}

fn key(principal: &str, tool: Option<&str>) -> QuotaKey {
    QuotaKey {
        tenant: "t".parse().unwrap(),
        principal: principal.parse().unwrap(),
        tool: tool.map(|tool| tool.parse().unwrap()),
    }
}
