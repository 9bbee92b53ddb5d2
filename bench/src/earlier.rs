//! The rows of the last committed report, which the next report compares with, and keeps where it
//! has no better ones.

use std::collections::BTreeMap;

use crate::machine;

/// The report in the tree.
const REPORT: &str = "docs/reference/benchmarks.md";

/// The figures of an earlier report. What cannot be read there is absent here.
#[derive(Debug, Default)]
pub(crate) struct EarlierReport {
    pub(crate) commit: Option<String>,
    rows: BTreeMap<(String, String, u32), EarlierRow>,
}

/// A row by the names of its columns. It was measured while the machine was quiet.
#[derive(Debug, PartialEq)]
pub(crate) struct EarlierRow {
    ratio: f64,
    cells: BTreeMap<String, String>,
}

impl EarlierRow {
    /// The cell of a column; `None` if the earlier report did not have it.
    pub(crate) fn cell(&self, column: &str) -> Option<&str> {
        self.cells.get(column).map(String::as_str)
    }
}

impl EarlierReport {
    /// Reads the report of the last commit; empty without one.
    pub(crate) fn committed() -> Self {
        let text = machine::output("git", &["show", &format!("HEAD:{REPORT}")]);
        Self::parse(&text.unwrap_or_default())
    }

    /// Reads every table with the columns `request`, `connections` and `ratio`, and the optional
    /// column `gateway`.
    pub(crate) fn parse(report: &str) -> Self {
        let mut earlier = Self::default();
        let mut columns: Vec<&str> = Vec::new();
        for line in report.lines() {
            let Some(row) =
                line.strip_prefix('|').and_then(|line| line.trim_end().strip_suffix('|'))
            else {
                columns.clear();
                continue;
            };
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            if columns.is_empty() {
                columns = cells;
                continue;
            }
            if let [name, value] = cells[..]
                && name == "commit"
            {
                earlier.commit = Some(value.to_owned());
            }
            let cell = |name| {
                let place = columns.iter().position(|column| *column == name)?;
                cells.get(place).copied()
            };
            let row = || {
                let connections = cell("connections")?.parse().ok()?;
                // That of a busy row is no number.
                let ratio = cell("ratio")?.trim_matches('*').parse().ok()?;
                let gateway = cell("gateway").unwrap_or_default();
                let key = (gateway.to_owned(), cell("request")?.to_owned(), connections);
                let named = columns.iter().zip(&cells);
                let cells = named.map(|(name, cell)| ((*name).to_owned(), (*cell).to_owned()));
                Some((key, EarlierRow { ratio, cells: cells.collect() }))
            };
            earlier.rows.extend(row());
        }
        earlier
    }

    /// The ratio of a row; `gateway` is empty for toolcrib.
    pub(crate) fn ratio(&self, gateway: &str, request: &str, connections: u32) -> Option<f64> {
        self.row(gateway, request, connections).map(|row| row.ratio)
    }

    /// The whole row; `gateway` is empty for toolcrib.
    pub(crate) fn row(
        &self,
        gateway: &str,
        request: &str,
        connections: u32,
    ) -> Option<&EarlierRow> {
        let key = (gateway.to_owned(), request.to_owned(), connections);
        self.rows.get(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_found_by_the_names_of_the_columns() {
        let earlier = EarlierReport::parse(
            "# Benchmarks\n\n| | |\n|---|---|\n| commit | abc |\n\n\
             | request | connections | limit | ratio |\n|---|---|---|---|\n\
             | OTC call | 64 | 10, proxy | **0.24** |\n| broken | many | 10 | **1.0** |\n\
             | OTC call | 1 | 10 | 0.50, busy |\n\n\
             | gateway | ratio | connections | request |\n|---|---|---|---|\n\
             | other | 0.5 | 64 | OTC call |\n\n| memory (PSS) | before, MB |\n|---|---|\n| x | 1 |\n",
        );
        assert_eq!(earlier.commit.as_deref(), Some("abc"));
        assert_eq!(earlier.ratio("", "OTC call", 64), Some(0.24));
        assert_eq!(earlier.ratio("other", "OTC call", 64), Some(0.5));
        assert_eq!(earlier.ratio("", "OTC call", 1), None);
        assert_eq!(earlier.rows.len(), 2);
        let row = earlier.row("", "OTC call", 64).unwrap();
        assert_eq!((row.cell("limit"), row.cell("commit")), (Some("10, proxy"), None));
    }

    #[test]
    fn a_text_that_is_no_report_has_no_figures() {
        for text in ["", "|", "||\n||", "| request |\n| a | b | c |", "no table"] {
            assert!(EarlierReport::parse(text).rows.is_empty(), "{text}");
        }
    }
}
