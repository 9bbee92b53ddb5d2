//! When a cron expression is due next.
//!
//! Five fields as POSIX has them, with names, steps and the `@` words of Vixie cron. When both days
//! of the month and days of the week are restricted, either is enough. Times are those of the clock
//! that shows `after`: its offset holds throughout, there is no daylight saving.

use serde_json::{Value, json};

use crate::Failure;

/// Days to look ahead: a 29th of February can be eight years away, and fall on one weekday rarely.
const HORIZON: i64 = 366 * 41;
/// Most times to ask for.
const MAX_COUNT: u64 = 100;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// `{expression, after, count?}` → `{next: [time, …]}`.
pub fn node(inputs: &Value) -> Result<Value, Failure> {
    let expression = inputs["expression"].as_str().ok_or_else(|| bad("`expression` is missing"))?;
    let after = inputs["after"].as_str().ok_or_else(|| bad("`after` is missing"))?;
    let count = match &inputs["count"] {
        Value::Null => 1,
        count => count
            .as_u64()
            .filter(|count| (1..=MAX_COUNT).contains(count))
            .ok_or_else(|| bad("`count` must be between 1 and 100"))?,
    };
    let schedule = Schedule::parse(expression)?;
    let mut clock = Clock::parse(after).ok_or_else(|| {
        bad("`after` must be an RFC 3339 time such as 2026-11-20T10:00:00Z")
    })?;
    let mut next = Vec::new();
    for _ in 0..count {
        match schedule.next(clock) {
            Some(due) => {
                next.push(due.to_string());
                clock = due;
            }
            None => break,
        }
    }
    match next.is_empty() {
        true => Err(Failure { code: "never", message: "no such time comes".to_owned() }),
        false => Ok(json!({ "next": next })),
    }
}

fn bad(message: &str) -> Failure {
    Failure { code: "invalid_arguments", message: message.to_owned() }
}

/// The times of a cron expression, each field as a set of bits.
struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether both days of the month and of the week are restricted.
    either: bool,
}

/// Minutes since 1970 on a clock, and its offset from UTC in minutes.
#[derive(Clone, Copy)]
struct Clock {
    minutes: i64,
    offset: i64,
}

impl Schedule {
    fn parse(text: &str) -> Result<Self, Failure> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(bad("expected five fields: minute, hour, day, month, day of the week"));
        };
        let week = field(weekdays, 0, 7, &WEEKDAYS)?;
        Ok(Self {
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?,
            // Sunday is 0 and 7.
            weekdays: week | (week >> 7 & 1),
            either: !days.starts_with('*') && !weekdays.starts_with('*'),
        })
    }

    fn on_day(&self, day: i64) -> bool {
        let (_, month, of_month) = civil(day);
        // 1970 began on a Thursday.
        let of_week = (day + 4).rem_euclid(7);
        let has = |set: u64, bit: i64| set >> bit & 1 == 1;
        let days = (has(self.days, of_month), has(self.weekdays, of_week));
        has(self.months, month) && if self.either { days.0 || days.1 } else { days.0 && days.1 }
    }

    fn next(&self, after: Clock) -> Option<Clock> {
        let first = after.minutes + 1;
        let today = first.div_euclid(1440);
        for day in today..today + HORIZON {
            if !self.on_day(day) {
                continue;
            }
            let start = if day == today { first.rem_euclid(1440) } else { 0 };
            let due = (start..1440)
                .find(|minute| self.hours >> (minute / 60) & self.minutes >> (minute % 60) & 1 == 1);
            if let Some(minute) = due {
                return Some(Clock { minutes: day * 1440 + minute, offset: after.offset });
            }
        }
        None
    }
}

/// The values that a field allows, as bits: `*`, `5`, `1-5`, `*/2`, `10-30/5`, and lists of those.
fn field(text: &str, min: u32, max: u32, names: &[&str]) -> Result<u64, Failure> {
    let wrong = || bad(&format!("a field of `expression` is not values between {min} and {max}"));
    let value = |text: &str| -> Result<u32, Failure> {
        let lower = text.to_ascii_lowercase();
        if let Some(index) = names.iter().position(|name| *name == lower) {
            return Ok(index as u32 + if names.len() == 12 { 1 } else { 0 });
        }
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let value = text.parse().ok().filter(|value| digits && (min..=max).contains(value));
        value.ok_or_else(wrong)
    };
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => {
                let step: usize = step.parse().map_err(|_| wrong())?;
                (range, Some(step).filter(|step| (1..=59).contains(step)))
            }
        };
        if part.contains('/') && step.is_none() {
            return Err(wrong());
        }
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (min, max),
            Some((from, to)) => (value(from)?, value(to)?),
            None => {
                let from = value(range)?;
                // `5/10` means from 5 on.
                (from, if step.is_some() { max } else { from })
            }
        };
        if from > to {
            return Err(wrong());
        }
        (from..=to).step_by(step.unwrap_or(1)).for_each(|value| set |= 1 << value);
    }
    Ok(set)
}

impl Clock {
    /// Seconds are cut off: cron knows minutes.
    fn parse(text: &str) -> Option<Self> {
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = text.get(from..to)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let mark = |at: usize, marks: &str| text.get(at..at + 1).filter(|c| marks.contains(*c));
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        mark(4, "-").and(mark(7, "-")).and(mark(10, "Tt ")).and(mark(13, ":")).and(mark(16, ":"))?;
        let fraction = text[19..].strip_prefix('.').map_or(0, |rest| {
            1 + rest.bytes().take_while(u8::is_ascii_digit).count()
        });
        let zone = 19 + fraction;
        let offset = match text.get(zone..)? {
            "Z" | "z" => 0,
            rest if rest.len() == 6 && fraction != 1 => {
                let sign = if rest.starts_with('-') { -1 } else { 1 };
                mark(zone, "+-").and(mark(zone + 3, ":"))?;
                let (hours, minutes) = (number(zone + 1, zone + 3)?, number(zone + 4, zone + 6)?);
                (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))?
            }
            _ => return None,
        };
        let date = days_from_civil(year, month, day);
        let real = (1..=12).contains(&month) && civil(date) == (year, month, day);
        let sound = real && hour < 24 && minute < 60 && second <= 60 && fraction != 1;
        sound.then_some(Self { minutes: date * 1440 + hour * 60 + minute, offset })
    }
}

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, month, day) = civil(self.minutes.div_euclid(1440));
        let (hour, minute) = (self.minutes.rem_euclid(1440) / 60, self.minutes.rem_euclid(60));
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00")?;
        match self.offset {
            0 => f.write_str("Z"),
            offset => {
                let sign = if offset < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", offset.abs() / 60, offset.abs() % 60)
            }
        }
    }
}

/// Days since 1970-01-01 of a date: years are counted from March on, so that a leap day is their
/// last, in periods of 400.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day since 1970-01-01: year, month, day.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(expression: &str, after: &str) -> String {
        let inputs = json!({ "expression": expression, "after": after });
        match node(&inputs) {
            Ok(output) => output["next"][0].as_str().unwrap().to_owned(),
            Err(failure) => failure.code.to_owned(),
        }
    }

    #[test]
    fn the_next_time_is_the_next_one() {
        let now = "2026-11-20T10:07:30Z"; // a Friday
        for (expression, due) in [
            ("* * * * *", "2026-11-20T10:08:00Z"),
            ("*/15 * * * *", "2026-11-20T10:15:00Z"),
            ("7 10 * * *", "2026-11-21T10:07:00Z"),
            ("0 9-17 * * MON-FRI", "2026-11-20T11:00:00Z"),
            ("30 8 * * 1", "2026-11-23T08:30:00Z"),
            ("0 0 * * 7", "2026-11-22T00:00:00Z"),
            ("0 0 1,15 * *", "2026-12-01T00:00:00Z"),
            ("0 0 13 * fri", "2026-11-27T00:00:00Z"), // either
            ("0 0 */10 * mon", "2026-12-21T00:00:00Z"), // both: a step of all restricts nothing
            ("0 0 29 feb *", "2028-02-29T00:00:00Z"),
            ("59 23 31 12 *", "2026-12-31T23:59:00Z"),
            ("5/20 10 * * *", "2026-11-20T10:25:00Z"),
            ("@yearly", "2027-01-01T00:00:00Z"),
            ("0 0 30 2 *", "never"),
        ] {
            assert_eq!(next(expression, now), due, "{expression}");
        }
        assert_eq!(next("0 0 29 2 *", "1896-03-01T00:00:00Z"), "1904-02-29T00:00:00Z");
    }

    #[test]
    fn times_are_those_of_the_clock_that_was_shown() {
        assert_eq!(next("0 0 * * *", "2026-11-20T23:30:00.25+05:30"), "2026-11-21T00:00:00+05:30");
        assert_eq!(next("0 0 * * *", "2026-12-31T23:59:59-08:00"), "2027-01-01T00:00:00-08:00");
        let three = json!({ "expression": "@hourly", "after": "2026-11-20T22:10:00Z", "count": 3 });
        let three = node(&three).ok().unwrap();
        let times = ["2026-11-20T23:00:00Z", "2026-11-21T00:00:00Z", "2026-11-21T01:00:00Z"];
        assert_eq!(three["next"], json!(times));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let now = "2026-11-20T10:00:00Z";
        for expression in [
            "", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
            "* * * * 8", "*/0 * * * *", "5-1 * * * *", "a * * * *", "1,, * * * *", "+5 * * * *",
            "@reboot", "*/ * * * *", "1-2-3 * * * *",
        ] {
            assert_eq!(next(expression, now), "invalid_arguments", "{expression:?}");
        }
        for after in [
            "", "2026-11-20", "2026-11-20T10:00:00", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
            "2026-11-20T24:00:00Z", "2026-11-20T10:00:00.Z", "2026-11-20T10:00:00+5:30", "ä026-11-20T10:00:00Z",
        ] {
            assert_eq!(next("* * * * *", after), "invalid_arguments", "{after:?}");
        }
    }

    #[test]
    fn dates_come_back_as_they_went_in() {
        for day in (-800_000..800_000).step_by(97) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days_from_civil(year, month, of_month), day);
        }
        assert_eq!(days_from_civil(2026, 11, 20), 20_777);
    }
}
