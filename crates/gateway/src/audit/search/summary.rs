//! Counts of calls over time, and by tool and principal.

use std::collections::HashMap;

use toolcrib_core::{clock::Timestamp, event::EventFilter};

use super::{
    facts,
    index::{Flow, Row, Visitor},
    segment::{Head, NONE},
};

/// The most parts of time in a summary.
pub const MAX_BUCKETS: usize = 200;
/// The most tools and principals in a list.
const MOST_LISTED: usize = 10;
/// The lengths of parts of time, in milliseconds. Longer ones are whole weeks.
const STEPS: [i64; 16] = [
    1_000,
    2_000,
    5_000,
    10_000,
    30_000,
    60_000,
    120_000,
    300_000,
    900_000,
    1_800_000,
    3_600_000,
    10_800_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
];

/// Counts of the calls that finished in a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The start of the summarized time.
    pub from: Timestamp,
    /// The end of the summarized time.
    pub to: Timestamp,
    /// The length of a bucket, in seconds.
    pub step_secs: u64,
    /// All matching events.
    pub events: u64,
    /// All matching calls that finished, and denials.
    pub totals: Totals,
    /// Parts of the time in ascending order, without empty ones.
    pub buckets: Vec<Bucket>,
    /// The tools with most calls.
    pub tools: Vec<Group>,
    /// The principals with most calls.
    pub principals: Vec<Group>,
    /// The tools with the longest run times.
    pub slowest: Vec<Group>,
    /// Whether older events were left out, because there are too many.
    pub is_partial: bool,
}

/// Counts and run times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls that succeeded.
    pub ok: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Refused calls, and denials that belong to no recorded call.
    pub denied: u64,
    /// Calls that stopped because they require an approval.
    pub approval_required: u64,
    /// The median run time, in milliseconds.
    pub p50_ms: Option<u32>,
    /// The 95th percentile, in milliseconds.
    pub p95_ms: Option<u32>,
}

/// A part of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// The start of the part.
    pub from: Timestamp,
    /// Its counts.
    pub totals: Totals,
}

/// A tool or a principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The id of the tool, or the principal.
    pub name: String,
    /// Its counts.
    pub totals: Totals,
}

impl Totals {
    /// The number of calls with any result.
    pub fn calls(&self) -> u64 {
        self.ok + self.failed + self.denied + self.approval_required
    }
}

impl Summary {
    pub(super) fn empty(filter: &EventFilter, buckets: usize, now: Timestamp) -> Self {
        let to = filter.to.unwrap_or(now);
        SummaryBuilder::new(filter.from.unwrap_or(to), to, buckets).finish(false)
    }
}

/// Counts and the run times of calls.
#[derive(Debug, Default)]
struct Counts {
    totals: Totals,
    times: Vec<u32>,
}

/// Groups by the texts of a column. Each segment has different places, which are looked up once per
/// segment.
#[derive(Debug, Default)]
struct Groups {
    places: HashMap<String, usize>,
    counts: Vec<(String, Counts)>,
    /// The group of each place of the current segment.
    current: Vec<Option<usize>>,
}

/// A summary in progress.
pub(super) struct SummaryBuilder {
    from: i64,
    to: i64,
    step: i64,
    events: u64,
    all: Counts,
    buckets: HashMap<i64, Counts>,
    tools: Groups,
    principals: Groups,
    /// The place of the code `approval_required` in the current segment.
    approval_required: Option<u16>,
}

impl SummaryBuilder {
    pub(super) fn new(from: Timestamp, to: Timestamp, buckets: usize) -> Self {
        let (from, to) = (from.timestamp_millis(), to.timestamp_millis());
        let most = i64::try_from(buckets.clamp(1, MAX_BUCKETS)).unwrap_or(1);
        let length = to.saturating_sub(from).max(1);
        // A range that starts within a part touches one more.
        let fits = |step: &i64| length / step + 2 <= most.max(2);
        let week = STEPS.last().copied().unwrap_or(1);
        let step = STEPS.iter().copied().find(fits).unwrap_or_else(|| {
            let weeks = length / week / (most - 1).max(1) + 1;
            weeks * week
        });
        Self {
            from,
            to,
            step,
            events: 0,
            all: Counts::default(),
            buckets: HashMap::new(),
            tools: Groups::default(),
            principals: Groups::default(),
            approval_required: None,
        }
    }

    pub(super) fn finish(self, is_partial: bool) -> Summary {
        let time = |millis: i64| Timestamp::from_timestamp_millis(millis).unwrap_or_default();
        let mut buckets: Vec<_> = self.buckets.into_iter().collect();
        buckets.sort_by_key(|(from, _)| *from);
        let tools = self.tools.finish();
        let slowest = slowest(&tools);
        let tools = most_calls(tools);
        let buckets = buckets
            .into_iter()
            .map(|(from, counts)| Bucket { from: time(from), totals: counts.finish() });
        Summary {
            from: time(self.from),
            to: time(self.to),
            step_secs: u64::try_from(self.step / 1_000).unwrap_or(1),
            events: self.events,
            totals: self.all.finish(),
            buckets: buckets.collect(),
            slowest,
            tools,
            principals: most_calls(self.principals.finish()),
            is_partial,
        }
    }
}

impl Visitor for SummaryBuilder {
    fn segment(&mut self, head: &Head) {
        self.tools.begin(head.tools.len());
        self.principals.begin(head.principals.len());
        self.approval_required = facts::approval_required(&head.codes);
    }

    fn row(&mut self, row: &Row<'_>) -> Flow {
        self.events += 1;
        let columns = row.columns;
        let value = || {
            let kind = *columns.kind.get(row.row)?;
            let status = *columns.status.get(row.row)?;
            let number = *columns.number.get(row.row)?;
            Some((kind, status, number, *columns.at.get(row.row)?, *columns.code.get(row.row)?))
        };
        let Some((kind, status, number, at, code)) = value() else { return Flow::Continue };
        let result = match status {
            facts::OK => CallResult::Ok,
            facts::ERROR if Some(code) == self.approval_required => CallResult::ApprovalRequired,
            facts::ERROR => CallResult::Failed,
            _ => CallResult::Denied,
        };
        let call = match (kind, status) {
            (facts::RETURNED, _) => {
                Call { result, times: 1, ms: (number != NONE).then_some(number) }
            }
            (facts::DECIDED, facts::DENIED) => Call { result, times: u64::from(number), ms: None },
            _ => return Flow::Continue,
        };
        let bucket = at.div_euclid(self.step) * self.step;
        self.all.add(&call);
        self.buckets.entry(bucket).or_default().add(&call);
        self.tools.add(&row.head.tools, columns.tool.get(row.row), &call);
        self.principals.add(&row.head.principals, columns.principal.get(row.row), &call);
        Flow::Continue
    }
}

/// A call that finished, or a denial.
struct Call {
    result: CallResult,
    times: u64,
    ms: Option<u32>,
}

enum CallResult {
    Ok,
    Failed,
    Denied,
    ApprovalRequired,
}

impl Counts {
    fn add(&mut self, call: &Call) {
        let count = match call.result {
            CallResult::Ok => &mut self.totals.ok,
            CallResult::Failed => &mut self.totals.failed,
            CallResult::Denied => &mut self.totals.denied,
            CallResult::ApprovalRequired => &mut self.totals.approval_required,
        };
        *count += call.times;
        self.times.extend(call.ms);
    }

    fn finish(mut self) -> Totals {
        let p50_ms = quantile(&mut self.times, 50);
        let p95_ms = quantile(&mut self.times, 95);
        Totals { p50_ms, p95_ms, ..self.totals }
    }
}

impl Groups {
    fn begin(&mut self, places: usize) {
        self.current.clear();
        self.current.resize(places, None);
    }

    fn add(&mut self, texts: &[String], place: Option<&u16>, call: &Call) {
        let Some(place) = place.copied().map(usize::from) else { return };
        let Some(text) = texts.get(place).filter(|text| !text.is_empty()) else { return };
        let Some(current) = self.current.get_mut(place) else { return };
        let group = *current.get_or_insert_with(|| {
            *self.places.entry(text.clone()).or_insert_with(|| {
                self.counts.push((text.clone(), Counts::default()));
                self.counts.len() - 1
            })
        });
        if let Some((_, counts)) = self.counts.get_mut(group) {
            counts.add(call);
        }
    }

    fn finish(self) -> Vec<Group> {
        let group = |(name, counts): (String, Counts)| Group { name, totals: counts.finish() };
        self.counts.into_iter().map(group).collect()
    }
}

/// The groups with most calls, at most [`MOST_LISTED`].
fn most_calls(mut groups: Vec<Group>) -> Vec<Group> {
    groups
        .sort_by(|a, b| b.totals.calls().cmp(&a.totals.calls()).then_with(|| a.name.cmp(&b.name)));
    groups.truncate(MOST_LISTED);
    groups
}

/// The groups with the longest run times, by the time of 95 % of their calls.
fn slowest(groups: &[Group]) -> Vec<Group> {
    let mut measured: Vec<&Group> =
        groups.iter().filter(|group| group.totals.p95_ms.is_some()).collect();
    measured.sort_by(|a, b| {
        let time = |group: &Group| (group.totals.p95_ms, group.totals.p50_ms);
        time(b).cmp(&time(a)).then_with(|| a.name.cmp(&b.name))
    });
    measured.into_iter().take(MOST_LISTED).cloned().collect()
}

/// The time that `percent` of the calls did not exceed.
fn quantile(times: &mut [u32], percent: usize) -> Option<u32> {
    let rank = (times.len() * percent).div_ceil(100).checked_sub(1)?;
    let (_, found, _) = times.select_nth_unstable(rank.min(times.len() - 1));
    Some(*found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn parts_of_time_are_round_and_few() {
        for (from, to, most, step) in [
            ("2026-11-25T10:00:00Z", "2026-11-25T10:00:30Z", 60, 1),
            ("2026-11-25T10:00:00Z", "2026-11-25T11:00:00Z", 60, 120),
            ("2026-11-25T00:00:00Z", "2026-11-26T00:00:00Z", 60, 1_800),
            ("2026-11-18T00:00:00Z", "2026-11-25T00:00:00Z", 60, 10_800),
            ("2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 60, 6 * 604_800),
            ("2026-11-25T10:00:00Z", "2026-11-25T10:00:00Z", 1, 1),
        ] {
            let summary = SummaryBuilder::new(at(from), at(to), most).finish(false);
            assert_eq!(summary.step_secs, step, "{from} {to}");
        }
    }

    #[test]
    fn a_quantile_is_a_time_that_occurred() {
        let mut times: Vec<u32> = (1..=20).rev().collect();
        assert_eq!((quantile(&mut times, 50), quantile(&mut times, 95)), (Some(10), Some(19)));
        assert_eq!(quantile(&mut [7], 95), Some(7));
        assert_eq!(quantile(&mut [], 50), None);
    }
}
