//! Tables of data for people, as wide as the terminal.
//!
//! Invariants:
//! - each row is one line: a cell that does not fit ends in `…`, and `-o wide` prints it in full;
//! - names, which people copy, are shortened last, and ids never: a table with ids may be wider than a
//!   narrow terminal.

use std::io::IsTerminal as _;

use chrono::{DateTime, Utc};
use owo_colors::{AnsiColors, OwoColorize as _};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::{env, text::harmless};

/// Spaces between two columns.
const GAP: usize = 2;
/// Minimum width of a column; columns become narrower only if the table does not fit otherwise.
const MIN_WIDTH: usize = 6;

/// A column of a table over values of `T`: its kind, its title, and the text of its cells.
pub(crate) struct Column<T>(pub(crate) Kind, pub(crate) &'static str, pub(crate) fn(&T) -> String);

/// How the cells of a column are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text, shortened first.
    Text,
    /// A name or a number, shortened last.
    Name,
    /// An id, never shortened: a command takes it.
    Id,
    /// A time in RFC 3339, shown relative to now.
    Time,
    /// Text with a state as its first word, in the colour of the state.
    State,
    /// A safety tier, in its colour, shortened last.
    Tier,
    /// Text, shown only with `-o wide`.
    Wide,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Width in characters; `None` for unlimited.
    pub(crate) width: Option<usize>,
    /// Whether all columns are shown, with times in RFC 3339.
    pub(crate) wide: bool,
    pub(crate) now: DateTime<Utc>,
}

impl Layout {
    /// The layout for stdout, with the width of `COLUMNS` or of the terminal.
    pub(crate) fn of_stdout(wide: bool) -> Self {
        let columns = env::variable("COLUMNS").and_then(|columns| columns.parse().ok());
        let width = columns.or_else(|| {
            let stdout = std::io::stdout();
            let size = stdout.is_terminal().then(|| terminal_size::terminal_size_of(&stdout));
            size.flatten().map(|(width, _)| usize::from(width.0))
        });
        Self { width: width.filter(|_| !wide), wide, now: Utc::now() }
    }

    /// The coloured lines of a table with a row for each of `items`.
    pub(crate) fn lines<'a, T: 'a>(
        &self,
        columns: &[Column<T>],
        items: impl IntoIterator<Item = &'a T>,
    ) -> Vec<String> {
        let is_shown = |column: &&Column<T>| self.wide || column.0 != Kind::Wide;
        let columns: Vec<&Column<T>> = columns.iter().filter(is_shown).collect();
        let titles: Vec<String> = columns.iter().map(|column| column.1.to_uppercase()).collect();
        let row = |item| columns.iter().map(|column| self.cell(column, item)).collect();
        let mut cells = vec![titles];
        cells.extend(items.into_iter().map(row));
        let widths = self.widths(&columns, &cells);
        let lines = cells.iter().enumerate().map(|(number, row)| {
            let mut line = String::new();
            for ((cell, column), &width) in row.iter().zip(&columns).zip(&widths) {
                let cell = shortened(cell, width);
                let padding = " ".repeat((width + GAP).saturating_sub(cell.width()));
                match colour(column.0, &cell).filter(|_| number > 0) {
                    Some(colour) => line.push_str(&cell.color(colour).to_string()),
                    None => line.push_str(&cell),
                }
                line.push_str(&padding);
            }
            line.trim_end().to_owned()
        });
        lines.collect()
    }

    fn cell<T>(&self, Column(kind, _, text): &Column<T>, item: &T) -> String {
        let text = harmless(&text(item)).replace(['\n', '\t'], " ");
        match kind {
            Kind::Time if !self.wide => ago(&text, self.now),
            Kind::State if !self.wide => {
                // A state may have a time at its end: `revoked 2026-11-22T09:00:00Z`.
                match text.rsplit_once(' ') {
                    Some((state, moment)) => format!("{state} {}", ago(moment, self.now)),
                    None => text,
                }
            }
            _ => text,
        }
    }

    fn widths<T>(&self, columns: &[&Column<T>], cells: &[Vec<String>]) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..columns.len())
            .map(|at| cells.iter().filter_map(|row| row.get(at)).map(|cell| cell.width()).max())
            .map(Option::unwrap_or_default)
            .collect();
        let Some(width) = self.width else { return widths };
        let gaps = GAP * columns.len().saturating_sub(1);
        let titles: Vec<usize> = columns.iter().map(|column| column.1.width()).collect();
        // First shrinks text columns to `MIN_WIDTH` or their title, then all columns to their titles.
        for names_too in [false, true] {
            loop {
                let too_much = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
                let widest = widths
                    .iter()
                    .enumerate()
                    .filter(|&(at, &width)| {
                        let kind = columns.get(at).map(|column| column.0);
                        if kind == Some(Kind::Id) {
                            return false;
                        }
                        let is_name = matches!(kind, Some(Kind::Name | Kind::Tier));
                        let least = if names_too { 1 } else { MIN_WIDTH };
                        let least = least.max(titles.get(at).copied().unwrap_or_default());
                        (names_too || !is_name) && width > least
                    })
                    .max_by_key(|&(_, &width)| width)
                    .map(|(at, _)| at);
                match widest.and_then(|at| widths.get_mut(at)) {
                    Some(width) if too_much > 0 => *width -= 1,
                    _ => break,
                }
            }
        }
        widths
    }
}

/// Returns `text` in at most `width` columns; a shortened text ends in `…`.
fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or_default();
        if used > width {
            break;
        }
        short.push(c);
    }
    let mut short = short.trim_end().to_owned();
    short.push('…');
    short
}

/// Returns the RFC 3339 time `text` relative to `now`, and any other text unchanged.
fn ago(text: &str, now: DateTime<Utc>) -> String {
    let Ok(moment) = DateTime::parse_from_rfc3339(text) else { return text.to_owned() };
    let seconds = (now - moment.to_utc()).num_seconds();
    let (value, unit) = match seconds.unsigned_abs() {
        passed @ 0..60 => (passed, "s"),
        passed @ 60..3_600 => (passed / 60, "m"),
        passed @ 3_600..172_800 => (passed / 3_600, "h"),
        passed => (passed / 86_400, "d"),
    };
    match seconds {
        ..0 => format!("in {value}{unit}"),
        _ => format!("{value}{unit} ago"),
    }
}

fn colour(kind: Kind, cell: &str) -> Option<AnsiColors> {
    let word = cell.split([' ', ',']).next().unwrap_or_default().to_ascii_lowercase();
    match (kind, word.as_str()) {
        (Kind::State, "ready" | "active" | "closed" | "completed" | "granted" | "pass") => {
            Some(AnsiColors::Green)
        }
        (
            Kind::State,
            "starting" | "pending" | "running" | "expires" | "half-open" | "warning" | "skip",
        ) => Some(AnsiColors::Yellow),
        (
            Kind::State,
            "degraded" | "stopped" | "open" | "failed" | "rejected" | "expired" | "revoked"
            | "cancelled" | "error" | "fail",
        ) => Some(AnsiColors::Red),
        (Kind::Tier, "pure" | "read") => Some(AnsiColors::Green),
        (Kind::Tier, "write") => Some(AnsiColors::Yellow),
        (Kind::Tier, "exec") => Some(AnsiColors::Red),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(width: Option<usize>, wide: bool) -> Layout {
        let now = DateTime::parse_from_rfc3339("2026-11-22T10:00:00Z").unwrap().to_utc();
        Layout { width, wide, now }
    }

    fn plain(lines: Vec<String>) -> Vec<String> {
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    const COLUMNS: &[Column<[&str; 4]>] = &[
        Column(Kind::Name, "name", |row| row[0].to_owned()),
        Column(Kind::Text, "note", |row| row[1].to_owned()),
        Column(Kind::Time, "used", |row| row[2].to_owned()),
        Column(Kind::Wide, "more", |row| row[3].to_owned()),
    ];

    const ROWS: &[[&str; 4]] = &[
        ["files__read_file", "reads a file of the documents", "2026-11-22T09:57:00Z", "x"],
        ["add", "数 adds", "never", "y"],
    ];

    #[test]
    fn a_table_fits_its_width() {
        assert_eq!(
            plain(layout(Some(40), false).lines(COLUMNS, ROWS)),
            [
                "NAME              NOTE            USED",
                "files__read_file  reads a file…   3m ago",
                "add               数 adds         never",
            ]
        );
        for width in 20..100 {
            for line in plain(layout(Some(width), false).lines(COLUMNS, ROWS)) {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn an_id_is_whole_at_every_width() {
        let columns: &[Column<[&str; 4]>] = &[
            Column(Kind::Name, "name", |row| row[0].to_owned()),
            Column(Kind::Id, "id", |row| row[1].to_owned()),
        ];
        let id = "01970c5e-7b1a-7000-8000-0123456789ab";
        let rows = [["a-rather-long-name-of-a-key", id, "", ""]];
        for width in 1..80 {
            let lines = plain(layout(Some(width), false).lines(columns, &rows));
            assert!(lines[1].ends_with(id), "{width}: {lines:?}");
        }
    }

    #[test]
    fn wide_tables_have_everything() {
        let lines = plain(layout(None, true).lines(COLUMNS, ROWS)).join("\n");
        assert!(lines.contains("MORE") && lines.contains("2026-11-22T09:57:00Z"), "{lines}");
        assert!(lines.contains("reads a file of the documents"), "{lines}");
    }

    #[test]
    fn a_state_has_its_colour_in_capitals_too() {
        for (cell, expected) in [
            ("ready", Some(AnsiColors::Green)),
            ("PASS", Some(AnsiColors::Green)),
            ("SKIP", Some(AnsiColors::Yellow)),
            ("FAIL", Some(AnsiColors::Red)),
            ("revoked 3m ago", Some(AnsiColors::Red)),
            ("other", None),
        ] {
            assert_eq!(colour(Kind::State, cell), expected, "{cell}");
        }
    }

    #[test]
    fn times_are_relative_to_now() {
        let now = layout(None, false).now;
        for (moment, expected) in [
            ("2026-11-22T09:59:58Z", "2s ago"),
            ("2026-11-22T09:00:00Z", "1h ago"),
            ("2026-11-12T10:00:00Z", "10d ago"),
            ("2026-11-22T10:05:00.500Z", "in 5m"),
            ("never", "never"),
            ("", ""),
        ] {
            assert_eq!(ago(moment, now), expected);
        }
    }
}
