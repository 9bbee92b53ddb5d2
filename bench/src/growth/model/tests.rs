use super::super::constants::Group;
use super::*;

fn group(events: u32, us: f64) -> Group {
    let bytes = f64::from(events) * 1_000.0;
    let (strict_us, relaxed_us) = (us + 1_000.0, us);
    let (counter_us, database_us) = (us / 2.0, us / 4.0);
    Group { events, strict_us, relaxed_us, counter_us, database_us, wal_bytes: bytes }
}

/// 1 ms and 10 µs per event, half of it with the position counter; 1 ms for the disk.
fn constants() -> Constants {
    Constants {
        call_us: 200.0,
        groups: vec![group(1, 1_010.0), group(256, 3_560.0)],
        ..Constants::embedded().unwrap()
    }
}

fn scenario() -> Scenario {
    #[derive(clap::Parser)]
    struct ScenarioArgs {
        #[command(flatten)]
        scenario: Scenario,
    }
    let arguments = ["test", "--round-trip-us", "0", "--skew", "0"];
    <ScenarioArgs as clap::Parser>::parse_from(arguments).scenario
}

fn most(report: &Report, name: &str) -> f64 {
    report.resources.iter().find(|resource| resource.name == name).unwrap().max_calls_per_second
}

#[track_caller]
fn assert_near(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 0.03, "{found} is not near {wanted}");
}

#[test]
fn one_server_with_one_tenant_has_the_rate_of_its_groups() {
    let one = Scenario { replicas: 1, tenants: 1, ..scenario() };
    let found = report(&constants(), &one);
    // 256 events in 3.56 + 1 ms, two events in a call
    assert_near(most(&found, "writer of the busiest server"), 128.0 / 0.00456);
    assert_near(most(&found, "rows of shared tenants"), 128.0 / 0.00456);
    // The insert is half of the transaction.
    assert_near(most(&found, "position counter and commit"), 128.0 / 0.00278);
    // Four processors, 200 µs and two appends.
    let call = 200.0 + 2.0 * constants().measured.append_cpu_us;
    assert_near(most(&found, "processors of the servers"), 4e6 / call);
}

#[test]
fn the_utilisation_is_the_load_by_the_limit() {
    let found = report(&constants(), &scenario());
    for resource in found.resources {
        if !["processors of the database", "signatures of one server"].contains(&resource.name) {
            assert_near(resource.utilisation, 1_000.0 / resource.max_calls_per_second);
        }
    }
}

#[test]
fn the_first_full_resource_is_the_limit() {
    let small = Scenario { cores: 1, replicas: 1, commit_ms: Some(0.0), ..scenario() };
    assert_eq!(report(&constants(), &small).limit, "processors of the servers");
    let slow = Scenario { commit_ms: Some(100.0), sticky: true, ..scenario() };
    assert_eq!(report(&constants(), &slow).limit, "position counter and commit");
    let thin = Scenario { disk_mb: 1.0, ..scenario() };
    assert_eq!(report(&constants(), &thin).limit, "write-ahead log to disk");
}

#[test]
fn a_commit_that_waits_for_no_other_takes_its_transaction() {
    // 1.01 ms and 1 ms for the disk
    assert_near(report(&constants(), &scenario()).commit_ms, 2.01);
}

#[test]
fn more_servers_take_more_calls_until_the_database_limits_them() {
    let with = |replicas, cores| {
        let scenario = Scenario { replicas, cores, sticky: true, tenants: 960, ..scenario() };
        report(&constants(), &scenario)
    };
    let rates: Vec<f64> =
        [1, 2, 4, 8].map(|replicas| with(replicas, 1).max_calls_per_second).to_vec();
    assert!(rates.is_sorted(), "{rates:?}");
    assert_near(rates[1], 2.0 * rates[0]);
    let (many, more) = (with(24, 8), with(48, 8));
    assert_eq!(many.limit, "position counter and commit");
    assert_near(more.max_calls_per_second, many.max_calls_per_second);
}

#[test]
fn databases_add_up() {
    let four = Scenario {
        calls_per_second: 4_000.0,
        databases: 4,
        replicas: 12,
        tenants: 400,
        ..scenario()
    };
    let (one, four) = (report(&constants(), &scenario()), report(&constants(), &four));
    assert_near(four.max_calls_per_second, 4.0 * one.max_calls_per_second);
    assert_near(four.gigabytes_per_day, one.gigabytes_per_day);
    // 1 000 calls/s of two events
    let bytes = 2_000.0 * 86_400.0 * constants().measured.disk_bytes_per_event;
    assert_near(one.days_until_full, 8e12 / bytes);
}

#[test]
fn tenants_of_any_server_cost_more_than_tenants_of_one() {
    let constants = Constants::embedded().unwrap();
    let most = |scenario: &Scenario| report(&constants, scenario).max_calls_per_second;
    let any = Scenario { replicas: 8, ..scenario() };
    let sticky = Scenario { sticky: true, ..any.clone() };
    assert!(most(&sticky) > 1.2 * most(&any));
    // Of a million equal tenants, two groups rarely have one in common.
    let many = Scenario { tenants: 1_000_000, ..any.clone() };
    assert!(most(&many) > 1.2 * most(&any));
}

#[test]
fn shares_of_tenants_fall_with_their_rank() {
    for (share, wanted) in zipf(3, 1.0).into_iter().zip([6.0 / 11.0, 3.0 / 11.0, 2.0 / 11.0]) {
        assert_near(share, wanted);
    }
    assert!(zipf(4, 0.0).into_iter().all(|share| (share - 0.25).abs() < 1e-9));
}

#[test]
fn the_embedded_constants_are_those_of_a_measurement() {
    let constants = Constants::embedded().unwrap();
    let events: Vec<u32> = constants.groups.iter().map(|group| group.events).collect();
    assert_eq!(events, [1, 16, 256]);
    assert_eq!(constants.build, "release");
    assert_eq!(
        toml::from_str::<Constants>(&constants.text().unwrap()).unwrap().date,
        constants.date
    );
    for group in &constants.groups {
        assert!(group.relaxed_us < group.strict_us && group.counter_us < group.strict_us);
        // A straight line describes the sizes between.
        let line = constants.line(|measured| measured.relaxed_us).of(f64::from(group.events));
        assert!((line / group.relaxed_us - 1.0).abs() < 0.5, "{group:?}");
    }
}
