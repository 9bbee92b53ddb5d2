//! Which events a search finds: conditions on time, principal, tool, source, type, status, run and
//! ids, from parameters or from one text such as `actor:ada tool:files__* status:denied after:7d`.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

use crate::{clock::Timestamp, id::TenantId};

/// The conditions of a search. An event must fulfil all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only events at this time or later.
    pub from: Option<Timestamp>,
    /// Only events before this time.
    pub to: Option<Timestamp>,
    /// Only events of this tenant.
    pub tenant: Option<TenantId>,
    /// Only events of principals that match.
    pub principal: Option<TextPattern>,
    /// Only events of tools whose id or wire name matches.
    pub tool: Option<TextPattern>,
    /// Only events of tools whose source matches.
    pub source: Option<TextPattern>,
    /// Only events of tools of a kind that matches, such as `mcp` or `openapi`.
    pub kind: Option<TextPattern>,
    /// Only events of types that match.
    pub event_type: Option<TextPattern>,
    /// Only events with this status or error code.
    pub status: Option<StatusFilter>,
    /// Only events of this run.
    pub run: Option<String>,
    /// Only events with an id that starts with this text: of the event, its run, its call, session or
    /// approval.
    pub id: Option<String>,
}

/// A text in which `*` matches any characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPattern(Box<str>);

/// A status of a call, an error code, or one of the groups `denied` and `failed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusFilter {
    /// Denials, and calls that were `forbidden` or `rate_limited`.
    Denied,
    /// Calls that ended with `error`, except for those that wait for an approval.
    Failed,
    /// A status or an error code.
    Is(Box<str>),
}

/// The reason why a condition is invalid: a sentence that names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFilter(String);

/// The longest value of a condition, in bytes.
const MAX_VALUE: usize = 512;
/// The longest text of a query, in bytes.
const MAX_QUERY: usize = 4_096;
/// The shortest start of an id: shorter ones select most of a record.
const MIN_ID: usize = 8;

impl EventFilter {
    /// The names of the fields, as they are written in a query.
    pub const FIELDS: [&str; 11] = [
        "actor", "tool", "source", "kind", "type", "status", "run", "id", "after", "before",
        "tenant",
    ];

    /// Parses conditions such as `actor:ada status:denied after:7d`. A word without a field is the
    /// start of an id.
    ///
    /// # Errors
    /// [`InvalidFilter`].
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, InvalidFilter> {
        let mut filter = Self::default();
        filter.add_query(text, now)?;
        Ok(filter)
    }

    /// Adds the conditions of a query.
    ///
    /// # Errors
    /// [`InvalidFilter`].
    pub fn add_query(&mut self, text: &str, now: Timestamp) -> Result<(), InvalidFilter> {
        if text.len() > MAX_QUERY {
            return Err(InvalidFilter(format!("a query has at most {MAX_QUERY} bytes")));
        }
        for word in text.split_whitespace() {
            match word.split_once(':') {
                Some((field, value)) => self.set(field, value, now)?,
                None => self.set("id", word, now)?,
            }
        }
        Ok(())
    }

    /// Sets one condition. `field` is one of [`FIELDS`](Self::FIELDS), or its name as a parameter:
    /// `principal`, `from` or `to`.
    ///
    /// # Errors
    /// [`InvalidFilter`] for an unknown field, one that is set already, and an invalid value.
    pub fn set(&mut self, field: &str, value: &str, now: Timestamp) -> Result<(), InvalidFilter> {
        if value.is_empty() || value.len() > MAX_VALUE {
            return Err(InvalidFilter(format!(
                "`{}` must have a value of 1 to {MAX_VALUE} bytes",
                shown(field)
            )));
        }
        match field {
            "actor" | "principal" => once(&mut self.principal, field, TextPattern::new(value)),
            "tool" => once(&mut self.tool, field, TextPattern::new(value)),
            "source" => once(&mut self.source, field, TextPattern::new(value)),
            "kind" => once(&mut self.kind, field, TextPattern::new(value)),
            "type" => once(&mut self.event_type, field, TextPattern::new(value)),
            "status" | "run" | "id" if value.contains('*') => {
                Err(InvalidFilter(format!("`{field}` is compared as a whole: it has no `*`")))
            }
            "status" => once(&mut self.status, field, StatusFilter::new(value)),
            "run" => once(&mut self.run, field, value.to_owned()),
            "id" if value.len() < MIN_ID => Err(InvalidFilter(format!(
                "an id must have at least its first {MIN_ID} characters"
            ))),
            "id" => once(&mut self.id, field, value.to_owned()),
            "after" | "from" => once(&mut self.from, field, time(field, value, now)?),
            "before" | "to" => once(&mut self.to, field, time(field, value, now)?),
            "tenant" => {
                let tenant = TenantId::parse(value).map_err(|_| {
                    InvalidFilter("`tenant` must be the name of a tenant".to_owned())
                })?;
                once(&mut self.tenant, field, tenant)
            }
            _ => Err(InvalidFilter(format!(
                "there is no field `{}`; fields: {}",
                shown(field),
                Self::FIELDS.join(", ")
            ))),
        }
    }

    /// Whether there is no condition.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn once<T>(place: &mut Option<T>, field: &str, value: T) -> Result<(), InvalidFilter> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(InvalidFilter(format!("`{field}` is given twice"))),
    }
}

/// Returns the start of a field's name that may be anything.
fn shown(field: &str) -> String {
    field.chars().filter(|it| it.is_ascii_graphic()).take(32).collect()
}

/// Reads an RFC 3339 time, a day such as `2026-11-20` (its start in UTC), `now`, or an age such as
/// `90s`, `30m`, `24h`, `7d` or `2w`.
fn time(field: &str, text: &str, now: Timestamp) -> Result<Timestamp, InvalidFilter> {
    let found = if text == "now" {
        Some(now)
    } else if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        Some(at.with_timezone(&Utc))
    } else if let Ok(day) = text.parse::<NaiveDate>() {
        day.and_hms_opt(0, 0, 0).map(|at| at.and_utc())
    } else {
        age(text).and_then(|age| now.checked_sub_signed(age))
    };
    found.ok_or_else(|| {
        InvalidFilter(format!(
            "`{field}` must be a time such as 2026-11-20T10:00:00Z, a day such as 2026-11-20, an \
             age such as 30m, 24h or 7d, or now"
        ))
    })
}

fn age(text: &str) -> Option<TimeDelta> {
    let unit = text.chars().last()?;
    let digits = text.strip_suffix(unit)?;
    let number: i64 =
        digits.parse().ok().filter(|_| digits.bytes().all(|it| it.is_ascii_digit()))?;
    match unit {
        's' => TimeDelta::try_seconds(number),
        'm' => TimeDelta::try_minutes(number),
        'h' => TimeDelta::try_hours(number),
        'd' => TimeDelta::try_days(number),
        'w' => TimeDelta::try_weeks(number),
        _ => None,
    }
}

impl TextPattern {
    fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
            return false;
        };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        let Some(mut rest) = rest.strip_suffix(last) else { return false };
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        true
    }
}

impl StatusFilter {
    fn new(text: &str) -> Self {
        match text {
            "denied" => Self::Denied,
            "failed" => Self::Failed,
            _ => Self::Is(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-25T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_query_is_a_list_of_conditions() {
        let text =
            " actor:ada tool:files__*  status:denied after:2026-11-20 before:now 01a2113e-1f";
        let filter = EventFilter::parse(text, now()).unwrap();
        let expected = EventFilter {
            from: Some("2026-11-20T00:00:00Z".parse().unwrap()),
            to: Some(now()),
            principal: Some(TextPattern::new("ada")),
            tool: Some(TextPattern::new("files__*")),
            status: Some(StatusFilter::Denied),
            id: Some("01a2113e-1f".to_owned()),
            ..EventFilter::default()
        };
        assert_eq!(filter, expected);
        assert!(EventFilter::parse("  ", now()).unwrap().is_empty());
    }

    #[test]
    fn times_are_points_days_and_ages() {
        for (text, at) in [
            ("2026-11-20T10:00:00+01:00", "2026-11-20T09:00:00Z"),
            ("90s", "2026-11-25T11:58:30Z"),
            ("30m", "2026-11-25T11:30:00Z"),
            ("24h", "2026-11-24T12:00:00Z"),
            ("7d", "2026-11-18T12:00:00Z"),
            ("2w", "2026-11-11T12:00:00Z"),
        ] {
            let filter = EventFilter::parse(&format!("after:{text}"), now()).unwrap();
            assert_eq!(filter.from, Some(at.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn invalid_conditions_are_refused_with_their_field() {
        for (text, part) in [
            ("who:ada", "there is no field `who`; fields: actor, "),
            ("actor:", "`actor` must have a value"),
            ("actor:a actor:b", "`actor` is given twice"),
            ("principal:a actor:b", "`actor` is given twice"),
            ("after:yesterday", "`after` must be a time"),
            ("after:-3d", "`after` must be a time"),
            ("after:9999999999999999999d", "`after` must be a time"),
            ("before:999999999999w", "`before` must be a time"),
            ("after:3é", "`after` must be a time"),
            ("status:den*", "`status` is compared as a whole"),
            ("run:*", "`run` is compared as a whole"),
            ("01a2113e*", "`id` is compared as a whole"),
            ("01a2113", "at least its first 8 characters"),
            (&format!("tool:{}", "a".repeat(513)), "`tool` must have a value"),
            (&"a".repeat(4_097), "at most 4096 bytes"),
        ] {
            let problem = EventFilter::parse(text, now()).unwrap_err().to_string();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, fits) in [
            ("ada", "ada", true),
            ("ada", "adam", false),
            ("*", "", true),
            ("a*", "a", true),
            ("a*a", "a", false),
            ("files__*", "files__read", true),
            ("*read*", "files__read_file", true),
            ("f*read*file", "files__read_file", true),
            ("f*read*read*", "files__read_file", false),
            ("**", "x", true),
        ] {
            assert_eq!(TextPattern::new(pattern).matches(text), fits, "{pattern} {text}");
        }
    }
}
