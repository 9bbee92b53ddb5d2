//! The values of conditions: times, run times, statuses and words.

use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};

use super::{InvalidFilter, RunTime, StatusFilter, TextPattern, Word};
use crate::clock::Timestamp;

/// The shortest start of an id: shorter ones select most of a record.
pub(super) const MIN_ID: usize = 8;

/// The statuses of calls, groups of them, the codes of errors, and the reasons of denials and rejections.
pub(super) const STATUSES: [&str; 44] = [
    "ok",
    "error",
    "forbidden",
    "rate_limited",
    "denied",
    "failed",
    "not_found",
    "validation_error",
    "approval_required",
    "approval_rejected",
    "unavailable",
    "cancelled",
    "internal_error",
    "tool_execution_failed",
    "upstream_unavailable",
    "upstream_died",
    "interrupted",
    "upstream_timeout",
    "upstream_protocol_error",
    "upstream_refused",
    "result_too_large",
    "credential_not_found",
    "credential_forbidden",
    "connector_auth_expired",
    "ssrf_blocked",
    "input_required",
    "capability_required",
    "input_rejected",
    "unauthenticated",
    "tenant",
    "scope",
    "unlabelled",
    "policy",
    "undecided",
    "unknown",
    "rejected",
    "timeout",
    "withdrawn",
    "approver",
    "out_of_audience",
    "expired",
    "provenance_unevaluable",
    "scope_denied",
    "policy_denied",
];

/// Reads an RFC 3339 time, a day such as `2026-11-20`, `today` or `yesterday` (its start in UTC), `now`,
/// or an age such as `90s`, `30m`, `24h`, `7d` or `2w`.
pub(super) fn time(field: &str, text: &str, now: Timestamp) -> Result<Timestamp, InvalidFilter> {
    let start = |day: NaiveDate| day.and_hms_opt(0, 0, 0).map(|at| at.and_utc());
    let today = now.date_naive();
    let found = match text {
        "now" => Some(now),
        "today" => start(today),
        "yesterday" => today.checked_sub_days(Days::new(1)).and_then(start),
        _ => {
            if let Ok(at) = DateTime::parse_from_rfc3339(text) {
                Some(at.with_timezone(&Utc))
            } else if let Ok(day) = text.parse::<NaiveDate>() {
                start(day)
            } else {
                age(text).and_then(|age| now.checked_sub_signed(age))
            }
        }
    };
    found.ok_or_else(|| {
        InvalidFilter(format!(
            "`{field}` must be a time such as 2026-11-20T10:00:00Z, a day such as 2026-11-20, today or \
             yesterday, an age such as 30m, 24h or 7d, or now"
        ))
    })
}

fn age(text: &str) -> Option<TimeDelta> {
    let unit = text.chars().last()?;
    let digits = text.strip_suffix(unit)?;
    let number: i64 =
        digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    match unit {
        's' => TimeDelta::try_seconds(number),
        'm' => TimeDelta::try_minutes(number),
        'h' => TimeDelta::try_hours(number),
        'd' => TimeDelta::try_days(number),
        'w' => TimeDelta::try_weeks(number),
        _ => None,
    }
}

impl RunTime {
    /// Reads `>1s`, `>=250ms`, `<1.5s` or `<=2m`.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidFilter> {
        let of = |sign: &str| text.strip_prefix(sign).and_then(milliseconds);
        let found = if let Some(least) = of(">=") {
            Some(Self { least, most: u32::MAX })
        } else if let Some(most) = of("<=") {
            Some(Self { least: 0, most })
        } else if let Some(than) = of(">") {
            Some(Self { least: than.saturating_add(1), most: u32::MAX })
        } else {
            of("<").and_then(|than| than.checked_sub(1)).map(|most| Self { least: 0, most })
        };
        found.ok_or_else(|| {
            InvalidFilter(
                "`took` must be a comparison with a time, such as >1s, >=250ms, <1.5s or <2m"
                    .to_owned(),
            )
        })
    }
}

/// Reads a time such as `250ms`, `1.5s`, `2m` or `1h`, in milliseconds.
fn milliseconds(text: &str) -> Option<u32> {
    let (number, unit) =
        text.split_at(text.find(|character: char| character.is_ascii_alphabetic())?);
    let thousandths: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || number.ends_with('.') || !is_number(whole) || !is_number(part) {
        return None;
    }
    let of_part = match part {
        "" => 0,
        _ => part.parse::<u64>().ok()? * thousandths / 10_u64.pow(u32::try_from(part.len()).ok()?),
    };
    u32::try_from(whole.parse::<u64>().ok()?.checked_mul(thousandths)? + of_part).ok()
}

impl StatusFilter {
    pub(super) fn new(text: &str) -> Self {
        match text.to_lowercase().as_str() {
            "denied" => Self::Denied,
            "failed" => Self::Failed,
            other => Self::Is(other.into()),
        }
    }
}

impl Word {
    /// Ids have a digit; names as long as the shortest start of an id often have no digit.
    pub(super) fn new(text: &str) -> Self {
        let may_be_id = text.len() >= MIN_ID
            && text.bytes().any(|byte| byte.is_ascii_digit())
            && !text.contains('*');
        Self { pattern: TextPattern::within(text), id: may_be_id.then(|| text.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_time_is_compared_in_milliseconds() {
        let all = u32::MAX;
        for (text, range) in [
            (">1s", Some((1_001, all))),
            (">=250ms", Some((250, all))),
            ("<1.5s", Some((0, 1_499))),
            ("<=2m", Some((0, 120_000))),
            (">0.25h", Some((900_001, all))),
            ("1s", None),
            (">1", None),
            (">s", None),
            (">1.s", None),
            (">-1s", None),
            ("<0ms", None),
            (">9999999h", None),
            (">1sé", None),
        ] {
            let found = RunTime::parse(text).ok().map(|time| (time.least, time.most));
            assert_eq!(found, range, "{text}");
        }
    }
}
