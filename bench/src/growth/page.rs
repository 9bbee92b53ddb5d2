//! The report of a deployment, and the page with the table of all.

use super::constants::Constants;
use super::model::{self, Effect, LOCK_LIMIT, Limits, Report, Scenario};

const HEAD: &str = "\
# Growth: figures

With this page you see which resource limits a deployment on PostgreSQL, and at which rate. Written by \
`cargo xtask gen` from `toolcrib-bench growth`; do not edit. [Growth](../explanation/growth.md) \
explains the figures, their limits and the next step for each.
";

/// Three servers and one database.
fn base() -> Scenario {
    Scenario {
        calls_per_second: 1_000.0,
        databases: 1,
        replicas: 3,
        tenants: 100,
        skew: 1.0,
        sticky: false,
        cores: 4,
        database_cores: 16,
        commit_ms: Some(1.0),
        round_trip_us: 200.0,
        disk_mb: 500.0,
        disk_tb: 8.0,
        limits: Limits::Redis,
    }
}

fn scenarios() -> Vec<(&'static str, Scenario)> {
    let base = base();
    let cells = |calls_per_second, databases, tenants| Scenario {
        calls_per_second,
        databases,
        replicas: databases * 4,
        tenants,
        sticky: true,
        skew: 0.0,
        ..base.clone()
    };
    vec![
        ("A", base.clone()),
        ("B", Scenario { commit_ms: Some(5.0), ..base.clone() }),
        ("C", Scenario { calls_per_second: 10_000.0, ..base.clone() }),
        (
            "D",
            Scenario { calls_per_second: 100_000.0, replicas: 20, tenants: 10_000, ..base.clone() },
        ),
        ("E", cells(100_000.0, 8, 10_000)),
        (
            "F",
            Scenario {
                calls_per_second: 10_000_000.0,
                replicas: 2_000,
                tenants: 1_000_000,
                ..base.clone()
            },
        ),
        ("G", cells(10_000_000.0, 800, 1_000_000)),
    ]
}

pub(super) fn page(constants: &Constants) -> String {
    let reports: Vec<_> = scenarios()
        .into_iter()
        .map(|(name, scenario)| (name, model::report(constants, &scenario)))
        .collect();
    let parts = [HEAD.to_owned(), tables(&reports), one_database(constants), measured(constants)];
    parts.join("\n")
}

/// The tables of some deployments.
pub(super) fn tables(reports: &[(&str, Report)]) -> String {
    [deployments(reports), limits(reports), utilisations(reports)].join("\n")
}

fn deployments(reports: &[(&str, Report)]) -> String {
    let mut text = "## Deployments\n\nRates, servers and tenants are those of all databases \
                    together. *Busiest* is the part of the calls of its database that the busiest \
                    tenant makes. *By tenant*: each tenant is sent to one server.\n\n"
        .to_owned();
    let rows = reports.iter().map(|(name, report)| {
        let scenario = &report.scenario;
        vec![
            (*name).to_owned(),
            count(scenario.calls_per_second),
            count(scenario.databases as f64),
            format!("{} × {} cores", count(scenario.replicas as f64), scenario.cores),
            count(scenario.tenants as f64),
            percent(report.busiest_tenant),
            if scenario.sticky { "by tenant" } else { "any" }.to_owned(),
            format!("{} cores", scenario.database_cores),
            scenario.commit_ms.map_or("measured".to_owned(), |ms| format!("{ms} ms")),
        ]
    });
    let head = "| | calls/s | databases | servers | tenants | busiest | server of a call | database \
                | disk, per commit |";
    text.push_str(&table(head, rows));
    text
}

fn limits(reports: &[(&str, Report)]) -> String {
    let mut text = format!(
        "## Limits\n\n*Limit* is the resource that makes calls wait first, *most* the rate at which \
         it is full. A *commit* is one append of an event that waits for no other; \
         a call waits for two of them. *Lock wait* is the longest wait for the other servers of the \
         database when all of them have full groups; after {} s calls are refused. *Full after*: the record fills {} TB \
         in each database.\n\n",
        LOCK_LIMIT.as_secs(),
        base().disk_tb
    );
    let rows = reports.iter().map(|(name, report)| {
        vec![
            (*name).to_owned(),
            count(report.scenario.calls_per_second),
            count(report.max_calls_per_second),
            report.limit.to_owned(),
            report.falls_behind.unwrap_or("-").to_owned(),
            format!("{:.1} ms", report.commit_ms),
            format!("{:.1} s", report.lock_wait_ms / 1e3),
            count(report.connections as f64),
            count(report.gigabytes_per_day),
            format!("{} days", short(report.days_until_full)),
        ]
    });
    let head = "| | calls/s | most | limit | falls behind earlier | commit | lock wait | \
                connections of a database | GB a day in a database | full after |";
    text.push_str(&table(head, rows));
    text
}

fn utilisations(reports: &[(&str, Report)]) -> String {
    let mut text =
        "## Utilisation\n\nOf each resource, by the load of the deployment. Above 100 % \
                    the resource cannot do the work; `-` means that the deployment does not have \
                    it, or that another resource covers it.\n\n"
            .to_owned();
    let mut resources: Vec<(&str, Effect)> = Vec::new();
    for resource in reports.iter().flat_map(|(_, report)| &report.resources) {
        if !resources.contains(&(resource.name, resource.effect)) {
            resources.push((resource.name, resource.effect));
        }
    }
    resources.sort_by_key(|(_, effect)| *effect == Effect::Backlog);
    let rows = resources.iter().map(|(name, effect)| {
        let mut row = vec![(*name).to_owned(), effect.text().to_owned()];
        row.extend(reports.iter().map(|(_, report)| {
            let found = report.resources.iter().find(|resource| resource.name == *name);
            found.map_or("-".to_owned(), |resource| percent(resource.utilisation))
        }));
        row
    });
    let names: Vec<&str> = reports.iter().map(|(name, _)| *name).collect();
    let head = format!("| resource | when full | {} |", names.join(" | "));
    text.push_str(&table(&head, rows));
    text
}

/// The most calls of one database, by the time of its commit and the way of its calls.
fn one_database(constants: &Constants) -> String {
    let mut text = "## One database\n\nThe calls/s at which the appending path is full, with four \
                    servers and 100 tenants (Zipf 1): when the calls of a tenant go to any server, \
                    and when equal tenants are sent to one server each. A round trip between server \
                    and database takes the time in the head of a column.\n\n"
        .to_owned();
    let rows = [0.1, 0.5, 1.0, 2.0, 5.0, 10.0].into_iter().map(|ms| {
        let mut row = vec![format!("{ms} ms")];
        for trip in [50.0, 200.0, 1_000.0] {
            for is_sticky in [false, true] {
                let scenario = Scenario {
                    replicas: 4,
                    sticky: is_sticky,
                    skew: if is_sticky { 0.0 } else { 1.0 },
                    commit_ms: Some(ms),
                    round_trip_us: trip,
                    ..base()
                };
                row.push(count(model::report(constants, &scenario).max_calls_per_second));
            }
        }
        row
    });
    let head = "| disk, per commit | 50 µs, any | 50 µs, by tenant | 200 µs, any | 200 µs, by tenant | \
                1 ms, any | 1 ms, by tenant |";
    text.push_str(&table(head, rows));
    text
}

fn measured(constants: &Constants) -> String {
    let measured = &constants.measured;
    let mut text = format!(
        "## Constants\n\nMeasured on {} at {}, PostgreSQL {}, {}, with a {} build of \
         `toolcrib-bench growth --measure` and the engine of the store. They are in \
         `bench/growth.toml`.\n\n",
        constants.date, constants.commit, constants.postgres, constants.machine, constants.build
    );
    let rows = [
        ("processor of a server per call, without the database", constants.call_us, "µs"),
        ("processor of a server per appended event", measured.append_cpu_us, "µs"),
        ("disk of the database per event, with indexes", measured.disk_bytes_per_event, "bytes"),
        ("time of the disk per commit", constants.flush_us(), "µs"),
        ("verification per event", measured.verify_us, "µs"),
        ("reading per event, in pages of 500", measured.page_us, "µs"),
        (
            "processor of the database per event and server that looks for it",
            measured.news_database_us,
            "µs",
        ),
        ("check before a signature per event", measured.check_us, "µs"),
        ("processor of the database for that", measured.check_database_us, "µs"),
        ("statement that reads one row", measured.statement_us, "µs"),
        ("processor of the database for that", measured.statement_database_us, "µs"),
        ("processor of the database per step of a rate in it", measured.limit_database_us, "µs"),
        (
            "steps of rates in one Redis, assumed",
            constants.redis_per_second / 1e3,
            "thousand per second",
        ),
    ];
    let rows =
        rows.map(|(name, figure, unit)| vec![name.to_owned(), format!("{figure:.1} {unit}")]);
    text.push_str(&table("| constant | value |", rows));
    text.push_str("\nAppending transactions, medians:\n\n");
    let rows = constants.groups.iter().map(|group| {
        vec![
            group.events.to_string(),
            format!("{:.0} µs", group.strict_us),
            format!("{:.0} µs", group.relaxed_us),
            format!("{:.0} µs", group.counter_us),
            format!("{:.0} µs", group.database_us),
            format!("{:.0}", group.wal_bytes),
        ]
    });
    let head = "| events | strict | relaxed | of that, with the position counter | processor of the \
                database | bytes of write-ahead log |";
    text.push_str(&table(head, rows));
    text
}

fn table(head: &str, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let columns = head.matches('|').count().saturating_sub(1);
    let mut text = format!("{head}\n|{}\n", "---|".repeat(columns));
    for row in rows {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

/// Formats a number with two significant digits, in groups of three.
fn count(number: f64) -> String {
    let digits = number.abs().max(1.0).log10().floor() - 1.0;
    let step = 10_f64.powf(digits.max(0.0));
    let text = format!("{:.0}", (number / step).round() * step);
    let mut grouped = String::new();
    for (place, digit) in text.chars().enumerate() {
        if place > 0 && (text.len() - place) % 3 == 0 {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number below 10 with one decimal.
fn short(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { count(number) }
}

fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}
