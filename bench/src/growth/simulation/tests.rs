use super::*;

/// 1 ms before the locks, 2 ms and 10 µs per event under them, 1 ms and 5 µs per event at the
/// counter, 4 ms for the commit.
const TIMES: Times = Times {
    begin: 1_000.0,
    prepare: Line { fixed: 2_000.0, each: 10.0 },
    travel: 0.0,
    insert: Line { fixed: 1_000.0, each: 5.0 },
    commit: 4_000.0,
};

fn path(servers: usize, tenants: usize, skew: f64) -> Path {
    let tenants = Tenants::zipf(tenants, skew);
    Path { servers, tenants, sticky: false, processors: 64, times: TIMES }
}

fn saturated(path: &Path) -> Outcome {
    run(path, Load::Saturated { transactions: 2_000 }, 1)
}

fn calls(path: &Path, per_second: f64) -> Outcome {
    let tool = Duration::from_millis(20);
    run(path, Load::Calls { per_second, count: 20_000, tool }, 1)
}

#[track_caller]
fn assert_near(found: f64, wanted: f64, tolerance: f64) {
    let difference = (found / wanted - 1.0).abs();
    assert!(difference < tolerance, "{found} is not within {tolerance} of {wanted}");
}

#[test]
fn one_server_with_one_tenant_stores_a_group_per_transaction() {
    // 1 + 2 + 2.56 + 1 + 1.28 + 4 ms
    assert_near(saturated(&path(1, 1, 0.0)).events_per_second(), 256.0 / 0.01184, 0.001);
}

#[test]
fn one_tenant_on_many_servers_is_limited_by_the_lock_of_its_row() {
    let found = saturated(&path(8, 1, 0.0));
    assert_near(found.events_per_second(), 256.0 / 0.01084, 0.01);
    assert!(found.busiest_tenant > 0.98, "{found:?}");
}

#[test]
fn tenants_of_one_server_each_are_limited_by_the_position_counter() {
    let many = Path { sticky: true, ..path(16, 16, 0.0) };
    let found = saturated(&many);
    assert_near(found.events_per_second(), 256.0 / 0.00628, 0.02);
    assert!(found.counter > 0.97, "{found:?}");
}

#[test]
fn groups_that_share_tenants_wait_for_one_another() {
    // Of 100 tenants, two groups of 256 always have one in common.
    let shared = saturated(&path(8, 100, 0.0)).events_per_second();
    assert_near(shared, 256.0 / 0.01084, 0.02);
    let apart = Path { sticky: true, ..path(8, 100, 0.0) };
    assert!(saturated(&apart).events_per_second() > 1.5 * shared);
}

#[test]
fn a_database_with_one_processor_is_limited_by_it() {
    let one = Path { sticky: true, processors: 1, ..path(16, 16, 0.0) };
    let more = Path { processors: 4, ..one.clone() };
    // 2 + 2.56 + 1 + 1.28 ms of work in each transaction
    assert_near(saturated(&one).events_per_second(), 256.0 / 0.00684, 0.05);
    assert!(saturated(&more).events_per_second() > saturated(&one).events_per_second());
}

#[test]
fn every_event_is_stored() {
    for (servers, tenants, skew, per_second) in [(1, 1, 0.0, 100.0), (5, 300, 1.0, 3_000.0)] {
        let found = calls(&path(servers, tenants, skew), per_second);
        assert_eq!((found.offered, found.stored), (40_000, 40_000));
        assert_eq!(found.latencies.total(), 40_000);
    }
    let found = saturated(&path(5, 300, 1.0));
    assert_eq!(found.offered, found.stored);
}

#[test]
fn a_lock_is_held_as_the_utilisation_law_says() {
    // One server at a low rate: most groups have one event.
    let found = calls(&path(1, 1, 0.0), 2.0);
    let per_second = found.transactions as f64 / found.seconds;
    let events = found.stored as f64 / found.transactions as f64;
    assert_near(found.counter, per_second * TIMES.counter(events) / 1e6, 0.001);
    assert_near(found.busiest_tenant, per_second * TIMES.locked(events) / 1e6, 0.001);
    let median = found.latencies.quantile(0.5).as_secs_f64() * 1e6;
    assert_near(median, TIMES.whole(1.0), 0.05);
}

#[test]
fn a_higher_rate_makes_larger_groups_and_longer_waits() {
    let path = path(4, 50, 1.0);
    let (low, high) = (calls(&path, 100.0), calls(&path, 9_000.0));
    let events = |it: &Outcome| it.stored as f64 / it.transactions as f64;
    assert!(events(&high) > 4.0 * events(&low));
    assert!(high.latencies.quantile(0.99) > low.latencies.quantile(0.99));
}

#[test]
fn equal_seeds_give_equal_results() {
    let path = path(3, 20, 1.0);
    let figures = |it: &Outcome| (it.transactions, it.seconds.to_bits(), it.counter.to_bits());
    assert_eq!(figures(&calls(&path, 900.0)), figures(&calls(&path, 900.0)));
}

#[test]
fn shares_of_tenants_fall_with_their_rank() {
    let shares: Vec<f64> = Tenants::zipf(3, 1.0).shares().collect();
    for (share, wanted) in shares.iter().zip([6.0 / 11.0, 3.0 / 11.0, 2.0 / 11.0]) {
        assert_near(*share, wanted, 1e-9);
    }
    assert!(Tenants::zipf(4, 0.0).shares().all(|it| (it - 0.25).abs() < 1e-9));
}
