//! The lines that a change of the configuration file adds and removes.
//!
//! Invariant: a diff contains only changed lines, and no earlier value of an environment or header
//! ([`mask`](super::mask)).

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::mask::masked;

/// The most lines of a diff; further ones are counted.
const MAX_LINES: usize = 2_000;

/// Changed lines that follow one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hunk {
    /// The first line in the new text, from 1.
    pub line: usize,
    /// The header of the table that the lines are in; empty before the first table and for new ones.
    pub table: String,
    /// The lines.
    pub lines: Vec<DiffLine>,
}

/// One changed line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// `+` or `-`.
    pub sign: char,
    /// The text without its line break.
    pub text: String,
}

/// Returns the changed lines from `before` to `after`.
pub fn diff(before: &str, after: &str) -> Vec<Hunk> {
    let differs = before != after;
    let (before, after) = masked(before, after);
    let diff = TextDiff::from_lines(&before, &after);
    let headers: Vec<&str> = after.lines().map(str::trim).collect();
    let table = |line: usize| {
        let above = headers.iter().take(line).rev();
        let found = above.copied().find(|header| header.starts_with('[') && header.ends_with(']'));
        found.unwrap_or_default().to_owned()
    };
    let (mut hunks, mut lines): (Vec<Hunk>, usize) = (Vec::new(), 0);
    let (mut next, mut is_open) = (0, false);
    for change in diff.iter_all_changes() {
        let sign = match change.tag() {
            ChangeTag::Equal => {
                (next, is_open) = (next + 1, false);
                continue;
            }
            ChangeTag::Insert => '+',
            ChangeTag::Delete => '-',
        };
        if !is_open {
            hunks.push(Hunk { line: next + 1, table: table(next), lines: Vec::new() });
            is_open = true;
        }
        lines += 1;
        if let Some(hunk) = hunks.last_mut()
            && lines <= MAX_LINES
        {
            let text = change.value().trim_end_matches(['\n', '\r']).to_owned();
            hunk.lines.push(DiffLine { sign, text });
        }
        next += usize::from(sign == '+');
    }
    if let Some(last) = hunks.last_mut().filter(|_| lines > MAX_LINES) {
        let text = format!("… and {} more lines", lines - MAX_LINES);
        last.lines.push(DiffLine { sign: '+', text });
    }
    if hunks.is_empty() && differs {
        let text = "# only values that are not shown, or the layout, change".to_owned();
        let lines = vec![DiffLine { sign: '+', text }];
        hunks.push(Hunk { line: 1, table: String::new(), lines });
    }
    for hunk in &mut hunks {
        // A new table is outside all other tables.
        let first = hunk.lines.iter().find(|line| !line.text.trim().is_empty());
        if first.is_some_and(|line| line.text.trim_start().starts_with('[')) {
            hunk.table.clear();
        }
    }
    hunks
}
