//! Which events a search finds: conditions on time, principal, tool, source, type, status, run time, run
//! and ids, from parameters or from one text such as `actor:ada tool:files__* -status:ok after:7d`.

mod parse;
mod pattern;
mod value;

use crate::{clock::Timestamp, id::TenantId};

pub use self::pattern::TextPattern;

/// The conditions of a search. An event must fulfil all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only events at this time or later.
    pub from: Option<Timestamp>,
    /// Only events before this time.
    pub to: Option<Timestamp>,
    /// Only events of this tenant.
    pub tenant: Option<TenantId>,
    /// At most [`MAX_TERMS`].
    pub terms: Vec<Term>,
}

/// Conditions of which an event must fulfil at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term(pub Vec<Condition>);

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The compared fact.
    pub fact: Fact,
    /// Whether only events fulfil it for which `fact` is not true.
    pub is_negated: bool,
}

/// A fact of an event, to compare with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// The principal matches.
    Principal(TextPattern),
    /// The id of the tool or its wire name matches.
    Tool(TextPattern),
    /// The source of the tool matches.
    Source(TextPattern),
    /// The kind of the tool matches, such as `mcp` or `openapi`.
    Kind(TextPattern),
    /// The type of the event matches.
    Type(TextPattern),
    /// It has this status or error code.
    Status(StatusFilter),
    /// It is a call that finished after so many milliseconds.
    Took(RunTime),
    /// It belongs to this run.
    Run(String),
    /// An id starts with this text: of the event, its run, its call, session or approval.
    Id(String),
    /// The text is part of the principal, the tool, the status or the error code; a text that may be the
    /// start of an id is compared with the ids, too.
    Text(Word),
}

/// A status of a call, an error code, or one of the groups `denied` and `failed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusFilter {
    /// Denials, and calls that were `forbidden` or `rate_limited`.
    Denied,
    /// Calls that failed with `error`, except for those that wait for an approval.
    Failed,
    /// A status or an error code.
    Is(Box<str>),
}

/// Run times in milliseconds, with both bounds included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunTime {
    /// The shortest.
    pub least: u32,
    /// The longest.
    pub most: u32,
}

/// A word of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Matches texts that have the word in them.
    pub pattern: TextPattern,
    /// The start of an id, if the word may be one.
    pub id: Option<String>,
}

/// The reason why a condition is invalid: a sentence that names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFilter(String);

/// The most terms of a filter.
pub const MAX_TERMS: usize = 32;

impl EventFilter {
    /// The names of the fields, as they are written in a query.
    pub const FIELDS: [&str; 12] = [
        "actor", "tool", "source", "kind", "type", "status", "took", "run", "id", "after",
        "before", "tenant",
    ];

    /// Whether there is no condition.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The run that all events must belong to.
    pub fn run(&self) -> Option<&str> {
        self.terms.iter().find_map(|term| match term.0.as_slice() {
            [Condition { fact: Fact::Run(run), is_negated: false }] => Some(run.as_str()),
            _ => None,
        })
    }

    /// Whether ids of events are compared.
    pub fn needs_ids(&self) -> bool {
        self.terms.iter().flat_map(|term| &term.0).any(|condition| condition.fact.needs_ids())
    }
}

impl Fact {
    /// Whether ids of events are compared.
    pub fn needs_ids(&self) -> bool {
        match self {
            Self::Run(_) | Self::Id(_) => true,
            Self::Text(word) => word.id.is_some(),
            Self::Principal(_)
            | Self::Tool(_)
            | Self::Source(_)
            | Self::Kind(_)
            | Self::Type(_)
            | Self::Status(_)
            | Self::Took(_) => false,
        }
    }
}

impl RunTime {
    /// Whether a run time is one of these.
    pub fn has(self, milliseconds: u32) -> bool {
        (self.least..=self.most).contains(&milliseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-25T12:00:00Z".parse().unwrap()
    }

    fn is(fact: Fact) -> Condition {
        Condition { fact, is_negated: false }
    }

    fn not(fact: Fact) -> Condition {
        Condition { fact, is_negated: true }
    }

    fn principal(text: &str) -> Fact {
        Fact::Principal(TextPattern::new(text))
    }

    #[test]
    fn a_query_is_a_list_of_conditions() {
        let text = " actor:ada tool:files__*  status:denied took:>1s after:2026-11-20 before:now \
                     id:01a2113e-1f";
        let filter = EventFilter::parse(text, now()).unwrap();
        let terms = [
            principal("ada"),
            Fact::Tool(TextPattern::new("files__*")),
            Fact::Status(StatusFilter::Denied),
            Fact::Took(RunTime { least: 1_001, most: u32::MAX }),
            Fact::Id("01a2113e-1f".to_owned()),
        ];
        let expected = EventFilter {
            from: Some("2026-11-20T00:00:00Z".parse().unwrap()),
            to: Some(now()),
            tenant: None,
            terms: terms.into_iter().map(|fact| Term(vec![is(fact)])).collect(),
        };
        assert_eq!(filter, expected);
        assert!(EventFilter::parse("  ", now()).unwrap().is_empty());
    }

    #[test]
    fn conditions_are_joined_and_turned_round() {
        let word = |text: &str| Fact::Text(Word::new(text));
        let failed = || Fact::Status(StatusFilter::Failed);
        for (text, terms) in [
            ("actor:ada OR actor:bob", vec![vec![is(principal("ada")), is(principal("bob"))]]),
            ("-actor:ada", vec![vec![not(principal("ada"))]]),
            ("NOT actor:ada", vec![vec![not(principal("ada"))]]),
            ("NOT -actor:ada", vec![vec![is(principal("ada"))]]),
            (
                "read OR -status:failed actor:ada AND NOT write",
                vec![
                    vec![is(word("read")), not(failed())],
                    vec![is(principal("ada"))],
                    vec![not(word("write"))],
                ],
            ),
            ("actor:\"Ada King\"", vec![vec![is(principal("ada king"))]]),
            ("\"mcp:files.read\"", vec![vec![is(word("mcp:files.read"))]]),
            ("\"OR\" or", vec![vec![is(word("OR"))], vec![is(word("or"))]]),
            ("-actor:a -actor:b", vec![vec![not(principal("a"))], vec![not(principal("b"))]]),
            ("actor:*a* actor:*b*", vec![vec![is(principal("*a*"))], vec![is(principal("*b*"))]]),
        ] {
            let filter = EventFilter::parse(text, now()).map(|parsed| parsed.terms);
            assert_eq!(filter, Ok(terms.into_iter().map(Term).collect()), "{text}");
        }
        let ids = |text: &str| EventFilter::parse(text, now()).unwrap().needs_ids();
        assert!(ids("01a2113e") && ids("actor:a OR run:x"));
        assert!(!ids("database") && !ids("read2"));
        let run = |text: &str| EventFilter::parse(text, now()).unwrap().run().map(str::to_owned);
        assert_eq!(run("actor:ada run:x").as_deref(), Some("x"));
        assert_eq!((run("-run:x"), run("run:x OR actor:a")), (None, None));
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
            ("today", "2026-11-25T00:00:00Z"),
            ("yesterday", "2026-11-24T00:00:00Z"),
        ] {
            let filter = EventFilter::parse(&format!("after:{text}"), now()).unwrap();
            assert_eq!(filter.from, Some(at.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn invalid_conditions_are_refused_with_their_field() {
        for (text, part) in [
            ("who:ada", "there is no field `who`; fields: actor, "),
            ("mcp:files.read", "Write a text with `:` in quotes"),
            ("actor:", "`actor` must have a value"),
            ("\"\"", "a word must have a value"),
            (
                "actor:a actor:b",
                "`actor` is given twice, and no event has both; join them with `OR`",
            ),
            ("principal:a actor:b", "`actor` is given twice"),
            ("after:1d after:2d", "`after` is given twice"),
            ("after:tomorrow", "`after` must be a time"),
            ("after:-3d", "`after` must be a time"),
            ("after:9999999999999999999d", "`after` must be a time"),
            ("before:999999999999w", "`before` must be a time"),
            ("after:3é", "`after` must be a time"),
            ("kind:openapi", "unknown value of `kind`; values: node-pack, "),
            ("type:key.chnaged", "did you mean `key.changed`?"),
            ("type:nothing.*", "unknown value of `type`"),
            ("status:denyed", "did you mean `denied`?"),
            ("NOT status:x OR actor:a", "unknown value of `status`"),
            ("after:today before:yesterday", "the start of the search must be before its end"),
            ("took:1s", "`took` must be a comparison"),
            ("status:den*", "`status` is compared as a whole"),
            ("run:*", "`run` is compared as a whole"),
            ("id:01a2113e*", "`id` is compared as a whole"),
            ("id:01a2113", "at least its first 8 characters"),
            ("OR actor:a", "`OR` joins two conditions"),
            ("actor:a OR", "`OR` joins two conditions"),
            ("actor:a OR OR actor:b", "`OR` joins two conditions"),
            ("NOT", "`NOT` negates one"),
            ("-after:7d", "`after` is for the whole query"),
            ("actor:a OR before:7d", "`before` is for the whole query"),
            ("actor:\"ada", "a quote `\"` has no end"),
            (&"a ".repeat(33), "at most 32 conditions"),
            (&format!("{}a", "a OR ".repeat(32)), "joined by `OR` from at most 32"),
            (&format!("tool:{}", "a".repeat(513)), "`tool` must have a value"),
            (&"a".repeat(4_097), "at most 4096 bytes"),
        ] {
            let problem = EventFilter::parse(text, now()).unwrap_err().to_string();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}
