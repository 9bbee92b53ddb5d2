//! The section *Numbers* of the page that compares toolcrib with other gateways.

use std::fmt::Write;

use crate::peers::{self, CALL, LIST, SESSION_CALL, SESSION_LIST};
use crate::plan::MeasuredServer;
use crate::report::{Report, Row};

pub(crate) const HEADING: &str = "\n## Numbers\n";
/// Requests that another gateway can be measured with, and that are compared.
const REQUESTS: [&str; 4] = [LIST, SESSION_LIST, CALL, SESSION_CALL];
/// With more connections, other gateways can refuse requests.
const MOST_CONNECTIONS: u32 = 64;

/// Formats the section with its heading; `None` if one of its rows does not count.
pub(crate) fn section(report: &Report<'_>) -> Option<String> {
    let mut compared = REQUESTS.iter().flat_map(|request| rows(report, request));
    if !compared.all(Row::is_quiet) {
        return None;
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    head(report, &mut text).ok();
    table(report, &mut text).ok();
    report
        .memory(&mut text, |who| matches!(who, MeasuredServer::Strict | MeasuredServer::Peer(_)))
        .ok();
    tail(report, &mut text).ok();
    Some(text)
}

fn head(report: &Report<'_>, text: &mut String) -> std::fmt::Result {
    let machine = &report.machine;
    writeln!(text, "{}", HEADING.trim_start())?;
    writeln!(
        text,
        "Measured on {} with toolcrib at commit {} and {}, on a machine with {} cores ({}) that also ran the \
         load and the MCP server behind the gateways. Written by `cargo xtask bench --peers`; do not edit.\n",
        machine.date,
        machine.commit,
        report.versions.join(", "),
        machine.cores,
        machine.processor,
    )?;
    writeln!(
        text,
        "Each gateway is measured in turns with a limit without authentication, rules and record: the MCP \
         server itself for lists, and a bare reverse proxy before it for calls. *Share* is the gateway's rate \
         divided by the limit's in the same seconds; compare shares, because rates depend on the machine. All \
         gateways check a key or a token. toolcrib checks scopes and arguments too, and writes its record: with the \
         strict record the start of a call is on disk before the tool runs. The configurations of the others are \
         in `bench/peers`. They keep no record of the calls, and log errors only.\n"
    )
}

fn table(report: &Report<'_>, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "| Request | Connections | Gateway | requests/s | share | p50 / p99 / p99.9 ms | processor, µs/request |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|")?;
    for request in REQUESTS {
        for row in rows(report, request) {
            let who = match (&row.ours.who, row.name.as_str()) {
                (MeasuredServer::Strict, LIST | SESSION_LIST) => "toolcrib".to_owned(),
                (MeasuredServer::Strict, _) => "toolcrib, strict record".to_owned(),
                (MeasuredServer::Relaxed, _) => "toolcrib, relaxed record".to_owned(),
                (other, _) => other.to_string(),
            };
            writeln!(
                text,
                "| {request} | {} | {who} | {:.0} | {} | {} | {:.0} |",
                row.connections,
                row.ours.per_second(),
                row.ratio_cell(3),
                row.ours.latency(),
                row.ours.cost(),
            )?;
        }
    }
    writeln!(text)
}

/// The rows of a request of all gateways, by number of connections.
fn rows<'a>(report: &Report<'a>, request: &str) -> Vec<&'a Row> {
    let mut rows: Vec<&Row> = report
        .rows
        .iter()
        .filter(|row| row.connections <= MOST_CONNECTIONS)
        .filter(|row| row.name.strip_suffix(", relaxed log").unwrap_or(&row.name) == request)
        .collect();
    rows.sort_by_key(|row| row.connections);
    rows
}

fn tail(report: &Report<'_>, text: &mut String) -> std::fmt::Result {
    let gateways = peers::configured().unwrap_or_default();
    for absent in report.absent {
        if gateways.iter().any(|gateway| absent.what.contains(&gateway.name)) {
            writeln!(text, "Not measured: {} ({}).\n", absent.what, absent.why)?;
        }
    }
    writeln!(
        text,
        "More rows are in the [benchmarks](../reference/benchmarks.md). Most of the cost of a call is the record; \
         gateways without one can be faster. To repeat it:\n"
    )?;
    writeln!(
        text,
        "```console\n\
         $ python3 -m venv peers && peers/bin/pip install mcp-contextforge-gateway\n\
         $ cargo install mcp-gateway --version 2.10.0 --root peers\n\
         $ cargo xtask bench --peers peers\n\
         ```\n\n\
         [Contributing](../../CONTRIBUTING.md#other-gateways) explains it, and how to add a gateway."
    )
}
