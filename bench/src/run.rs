//! Measures each pair of servers in turns, and writes the report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::comparison;
use crate::earlier::EarlierReport;
use crate::histogram::Histogram;
use crate::load::{Shot, WARM_UP};
use crate::machine::Machine;
use crate::options::RunOptions;
use crate::others::time_of_others;
use crate::plan::{MeasuredServer, MissingMeasurement, Pair};
use crate::process::{Server, own_group};
use crate::report::{Measurement, Report, Row, per_request};
use crate::rows::Bench;
use crate::section::replace_section;
use crate::terminal::say;

/// How often each server of a pair is measured, in turns, so that a change of the machine's load
/// affects both.
const ROUNDS: u32 = 2;

pub(crate) async fn run(options: &RunOptions) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut bench = match &options.toolcrib {
        Some(program) => Bench::with(program, options, folder.path()).await?,
        None => Bench::limits(folder.path()).await?,
    };
    bench.pairs.retain(|pair| options.selects(&pair.name));
    ensure!(!bench.pairs.is_empty(), "--only selects no row");
    let earlier = EarlierReport::committed();
    let idle = bench.memory()?;
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for connections in &options.connections {
        for pair in &bench.pairs {
            let what = format!("{} at {}, {connections} connections", pair.name, pair.ours.0);
            match bench.measure(pair, *connections, options.seconds).await {
                Ok(row) => {
                    say(&row.line(&earlier))?;
                    rows.push(row);
                }
                Err(error) => {
                    say(&format!("{what}: {error:#}"))?;
                    failed.push(MissingMeasurement::new(what, format!("{error:#}")));
                }
            }
        }
    }
    let failures = failed.len();
    let report = Report {
        machine: Machine::read(),
        options,
        rows: &rows,
        earlier: &earlier,
        idle: &idle,
        after: &bench.memory()?,
        versions: &bench.versions,
        absent: &bench.absent.into_iter().chain(failed).collect::<Vec<_>>(),
    };
    let page = report.page();
    say(&format!("\n{page}"))?;
    if let Some(file) = &options.write {
        // The sections after it come from other commands.
        let old = fs::read_to_string(file).unwrap_or_default();
        let sections = old.find("\n## ").and_then(|at| old.get(at..));
        fs::write(file, format!("{page}{}", sections.unwrap_or_default()))?;
        say(&format!("written: {}", file.display()))?;
    }
    if let Some(file) = &options.comparison {
        let page = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        match comparison::section(&report) {
            Some(section) => {
                fs::write(file, replace_section(&page, comparison::HEADING, &section))?;
                say(&format!("written: {}", file.display()))?;
            }
            None => say(&format!("not written, because of busy rows: {}", file.display()))?,
        }
    }
    ensure!(failures == 0, "{failures} rows failed");
    Ok(())
}

// === impl Bench ===

impl Bench {
    /// Measures limit, ours, limit, ours.
    async fn measure(&self, pair: &Pair, connections: u32, seconds: u32) -> Result<Row> {
        let slice = Duration::from_secs(seconds.into()) / ROUNDS;
        let mut sides = [Measurement::new(&pair.limit.0), Measurement::new(&pair.ours.0)];
        let shots = [&pair.limit.1, &pair.ours.1];
        for shot in shots {
            shot.fire(connections, WARM_UP).await?;
        }
        for _ in 0..ROUNDS {
            for (side, shot) in sides.iter_mut().zip(shots) {
                self.slice(side, shot, connections, slice).await?;
            }
        }
        let [limit, ours] = sides;
        Ok(Row { name: pair.name.clone(), connections, ours, limit, goal: pair.goal })
    }

    async fn slice(
        &self,
        side: &mut Measurement,
        shot: &Shot,
        connections: u32,
        time: Duration,
    ) -> Result<()> {
        let server = self.server(&side.who)?;
        let data = self.subjects.get(&side.who).map(|subject| subject.data.as_path());
        let size = || data.map(size).transpose();
        let ours = self.groups();
        let others = time_of_others(&ours)?;
        let (processor, written, stored) = (server.processor_time()?, server.written()?, size()?);
        let outcome = shot.fire(connections, time).await.with_context(|| side.who.to_string())?;
        let processor = server.processor_time()?.saturating_sub(processor);
        side.others += time_of_others(&ours)?.saturating_sub(others);
        side.processor += processor;
        side.slices.push(per_request(processor, outcome.latencies.total()));
        side.written += server.written()?.saturating_sub(written);
        if let (Some(before), Some(after)) = (stored, size()?) {
            *side.stored.get_or_insert_default() += after - before;
        }
        side.elapsed += outcome.elapsed;
        side.latencies.merge(&outcome.latencies);
        Ok(())
    }

    /// The process groups of the measurement: this program and all servers.
    fn groups(&self) -> Vec<u32> {
        let servers = self.servers.values().chain(self.subjects.values().map(|it| &it.server));
        servers.map(Server::id).chain([own_group()]).collect()
    }

    fn memory(&self) -> Result<BTreeMap<MeasuredServer, u64>> {
        let known = self.servers.keys().chain(self.subjects.keys());
        known.map(|who| Ok((who.clone(), self.server(who)?.memory()?))).collect()
    }
}

impl Measurement {
    fn new(who: &MeasuredServer) -> Self {
        Self {
            who: who.clone(),
            latencies: Histogram::new(),
            elapsed: Duration::ZERO,
            processor: Duration::ZERO,
            others: Duration::ZERO,
            slices: Vec::new(),
            written: 0,
            stored: None,
        }
    }
}

/// The bytes of the files in a directory. A file that disappears meanwhile counts as empty.
fn size(folder: &Path) -> Result<i64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(found) if found.is_dir() => size(&entry.path())?,
            Ok(found) => i64::try_from(found.len())?,
            Err(_) => 0,
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_directory_includes_nested_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("nested")).unwrap();
        fs::write(folder.path().join("one"), [0; 5]).unwrap();
        fs::write(folder.path().join("nested").join("two"), [0; 7]).unwrap();
        assert_eq!(size(folder.path()).unwrap(), 12);
        assert!(size(&folder.path().join("absent")).is_err());
    }
}
