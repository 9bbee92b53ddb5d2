//! `toolcrib-bench cost`: what one request costs the server, besides time.
//!
//! System calls are counted by `strace -c` during a load, less those of an idle server. Switches and
//! page faults are those of a run without `strace`. Allocations and instructions are counted by
//! Valgrind, from the difference of two runs with different numbers of requests, so that the start
//! and the end of the program do not count.

mod request;
mod traced;
mod valgrind;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use self::request::Request;
use self::traced::Traced;
use self::valgrind::Valgrind;
use crate::load::{Shot, WARM_UP};
use crate::machine::Machine;
use crate::options::selects;
use crate::process::{Server, number, stat};
use crate::rows;
use crate::section::replace_section;
use crate::subject::Subject;
use crate::terminal::say;

const HEADING: &str = "\n## The cost of a request\n";
/// The number of minor page faults in `/proc/PID/stat`.
const FAULTS: usize = 7;
const CONNECTIONS: [u32; 2] = [1, 64];

#[derive(Debug, clap::Args)]
pub(crate) struct CostOptions {
    /// Length of each measured run
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Only the requests whose names contain this text; may be repeated
    #[arg(long)]
    only: Vec<String>,
    /// The program to measure
    #[arg(long)]
    toolcrib: PathBuf,
    /// The same program with the allocator of the system, for Valgrind: without the feature
    /// `jemalloc`. Otherwise allocations and instructions are not counted
    #[arg(long)]
    plain: Option<PathBuf>,
    /// Requests of the shorter run under Valgrind; the longer one has three times as many
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    requests: u32,
    /// The page whose section is replaced
    #[arg(long)]
    write: Option<PathBuf>,
}

/// The cost of one request.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cost {
    /// Microseconds of processor time.
    processor: f64,
    system_calls: f64,
    voluntary: f64,
    forced: f64,
    faults: f64,
}

/// What Valgrind counts for one request.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counted {
    allocations: f64,
    allocated: f64,
    instructions: f64,
}

/// Counts of a process so far.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    voluntary: u64,
    forced: u64,
    faults: u64,
}

pub(crate) async fn run(options: &CostOptions) -> Result<()> {
    let selected = Request::ALL.into_iter();
    let selected = selected.filter(|request| selects(&options.only, request.name()));
    let selected: Vec<Request> = selected.collect();
    ensure!(!selected.is_empty(), "--only selects no request");
    let folder = tempfile::tempdir()?;
    let upstream = rows::upstream(folder.path()).await?;
    let start = Subject::start(&options.toolcrib, "strict", upstream.address, folder.path());
    let subject = start.await?;
    let mut lines = Vec::new();
    for request in selected {
        let shot = request.shot(&subject).await?;
        let counted = match &options.plain {
            Some(program) => {
                let counted = count(options, program, request, upstream.address).await;
                Some(counted.with_context(|| format!("{} under Valgrind", request.name()))?)
            }
            None => None,
        };
        for connections in CONNECTIONS {
            let cost = measure(&subject.server, &shot, connections, options.seconds).await;
            let cost = cost.with_context(|| format!("{} x{connections}", request.name()))?;
            let counted = counted.filter(|_| connections == 1);
            let line = line(request, connections, &cost, counted.as_ref());
            say(&line)?;
            lines.push(line);
        }
    }
    if let Some(file) = &options.write {
        let page = fs::read_to_string(file)?;
        fs::write(file, replace_section(&page, HEADING, &section(&lines)))?;
        say(&format!("written: {}", file.display()))?;
    }
    Ok(())
}

async fn measure(server: &Server, shot: &Shot, connections: u32, seconds: u32) -> Result<Cost> {
    let time = Duration::from_secs(seconds.into());
    shot.fire(connections, WARM_UP).await?;
    let (before, processor) = (Counts::of(server)?, server.processor_time()?);
    let plain = shot.fire(connections, time).await?;
    let processor = server.processor_time()?.saturating_sub(processor);
    let counts = Counts::of(server)?.since(before);
    let idle = Traced::begin(server).await?;
    tokio::time::sleep(time).await;
    let idle = idle.end()?;
    let traced = Traced::begin(server).await?;
    let slow = shot.fire(connections, time).await?;
    let calls = traced.end()?.saturating_sub(idle);
    let requests = plain.latencies.total();
    Ok(Cost {
        processor: crate::report::per_request(processor, requests),
        system_calls: each(calls, slow.latencies.total()),
        voluntary: each(counts.voluntary, requests),
        forced: each(counts.forced, requests),
        faults: each(counts.faults, requests),
    })
}

/// Counts by two pairs of runs.
async fn count(
    options: &CostOptions,
    program: &Path,
    request: Request,
    upstream: SocketAddr,
) -> Result<Counted> {
    let (few, many) = (options.requests, options.requests * 3);
    let heap = async |requests| Valgrind::Dhat.run(program, request, requests, upstream).await;
    let (less, more) = (heap(few).await?, heap(many).await?);
    let code = async |requests| Valgrind::Callgrind.run(program, request, requests, upstream).await;
    let (shorter, longer) = (code(few).await?, code(many).await?);
    let difference = |less: &[u64], more: &[u64], at: usize| {
        let count = |counts: &[u64]| counts.get(at).copied().unwrap_or_default();
        each(count(more).saturating_sub(count(less)), (many - few).into())
    };
    Ok(Counted {
        allocated: difference(&less, &more, 0),
        allocations: difference(&less, &more, 1),
        instructions: difference(&shorter, &longer, 0),
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn each(count: u64, requests: u64) -> f64 {
    count as f64 / requests.max(1) as f64
}

fn line(request: Request, connections: u32, cost: &Cost, counted: Option<&Counted>) -> String {
    let Cost { processor, system_calls, voluntary, forced, faults } = cost;
    let valgrind = counted.map_or("- | - | -".to_owned(), |counted| {
        let Counted { allocations, allocated, instructions } = counted;
        format!("{allocations:.0} | {allocated:.0} | {instructions:.0}")
    });
    format!(
        "| {} | {connections} | {processor:.1} | {system_calls:.1} | {voluntary:.2} / {forced:.2} | \
         {faults:.2} | {valgrind} |",
        request.name(),
    )
}

fn section(lines: &[String]) -> String {
    let machine = Machine::read();
    format!(
        "{HEADING}\n\
         Written by `cargo xtask bench --cost` on {} at {} ({} cores, {}), with the strict record. System \
         calls are counted by strace, less those of an idle server; at 64 connections, a slower server \
         commits fewer calls at once. Switches are voluntary and forced ones. Allocations, their bytes, and \
         instructions are counted by Valgrind with the allocator of the system.\n\n\
         | request | connections | CPU µs | system calls | switches | page faults | allocations | bytes | \
         instructions |\n|---|---|---|---|---|---|---|---|---|\n{}\n",
        machine.date,
        machine.commit,
        machine.cores,
        machine.processor,
        lines.join("\n"),
    )
}

impl Counts {
    /// Those of all threads.
    fn of(server: &Server) -> Result<Self> {
        let process = server.id().to_string();
        let mut counts = Self { faults: stat(&process, FAULTS)?.parse()?, ..Self::default() };
        for task in fs::read_dir(format!("/proc/{process}/task"))? {
            // A thread may have ended.
            let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
            counts.voluntary += number(&status, "voluntary_ctxt_switches:")?;
            counts.forced += number(&status, "nonvoluntary_ctxt_switches:")?;
        }
        Ok(counts)
    }

    fn since(self, before: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            forced: self.forced.saturating_sub(before.forced),
            faults: self.faults.saturating_sub(before.faults),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_kinds_of_switches_are_told_apart() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(number(status, "voluntary_ctxt_switches:").unwrap(), 12);
        assert_eq!(number(status, "nonvoluntary_ctxt_switches:").unwrap(), 3);
        assert!(number(status, "other:").is_err());
    }

    #[test]
    fn a_line_has_a_cell_for_each_column() {
        let cost = Cost {
            processor: 550.04,
            system_calls: 57.26,
            voluntary: 15.0,
            forced: 0.1,
            faults: 0.0,
        };
        let counted = Counted { allocations: 155.4, allocated: 40_000.0, instructions: 1e6 };
        let row = line(Request::McpCall, 1, &cost, Some(&counted));
        let expected =
            "| MCP tools/call | 1 | 550.0 | 57.3 | 15.00 / 0.10 | 0.00 | 155 | 40000 | 1000000 |";
        assert_eq!(row, expected);
        let without = line(Request::McpCall, 64, &cost, None);
        let columns = |line: &str| line.matches('|').count();
        let page = section(std::slice::from_ref(&row));
        let head = page.lines().find(|line| line.starts_with("| request")).unwrap();
        assert_eq!((columns(&row), columns(&without)), (columns(head), columns(head)));
    }
}
