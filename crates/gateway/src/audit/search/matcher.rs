//! The conditions of a search, for the rows of one segment.

use toolcrib_core::{
    event::{Condition, EventBody, EventFilter, Fact, StatusFilter, Term, TextPattern},
    id::TenantId,
};

use super::{
    facts::{self, IdStart, STATUSES, UNKNOWN},
    segment::{Columns, Head, Ids, NONE, SIZE},
};

/// What to search, and between which positions: in the log of the tenant if there is one, otherwise
/// in the whole log.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) tenant: Option<TenantId>,
    pub(super) filter: EventFilter,
    /// Only positions greater than this.
    pub(super) after: u64,
    /// Only positions smaller than this.
    pub(super) before: u64,
}

/// The conditions as places in the lists of one segment.
pub(super) struct Matcher {
    tenant: Option<(u16, u64)>,
    first: u64,
    after: u64,
    before: u64,
    from: i64,
    to: i64,
    /// The terms in the order of the filter, which has at most [`toolcrib_core::event::MAX_TERMS`].
    terms: Vec<Vec<Test>>,
}

pub(super) struct MatchedRow {
    /// Its position in the numbering of the scope.
    pub(super) position: u64,
    /// A bit for each term that only the ids of the event decide: different ids may share a key of
    /// the index.
    pub(super) undecided: u32,
}

/// A condition for the rows of one segment.
struct Test {
    column: Column,
    is_negated: bool,
}

/// The places or values of a column that match.
enum Column {
    Nothing,
    Principals(Vec<bool>),
    Tools(Vec<bool>),
    /// A bit for each type.
    Kinds(u32),
    Statuses(Statuses),
    Took(toolcrib_core::event::RunTime),
    Run(u64),
    Id(IdStart),
    /// One of several columns.
    Any(Vec<Column>),
}

/// Whether a condition is fulfilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fulfilment {
    No,
    /// The ids decide.
    Maybe,
    Yes,
}

/// A status or a code that matches.
struct Statuses {
    /// A bit for each status.
    statuses: u8,
    codes: Vec<bool>,
    /// A code that does not match, whatever the status.
    except: Option<u16>,
}

impl Scope {
    /// Whether the ids of events must be read.
    pub(super) fn needs_ids(&self) -> bool {
        self.filter.needs_ids()
    }

    /// The first and the last position of a segment in the numbering of this scope, if the segment
    /// has an event in it.
    pub(super) fn positions(&self, head: &Head) -> Option<(u64, u64)> {
        match &self.tenant {
            None => (head.rows > 0).then_some((head.first, head.last)),
            Some(tenant) => {
                let part = head.tenants.iter().find(|part| part.tenant == tenant.as_str())?;
                Some((part.first, part.last))
            }
        }
    }
}

impl Matcher {
    /// Creates a matcher; `None` if no row of the segment can match.
    pub(super) fn new(scope: &Scope, number: u64, head: &Head) -> Option<Self> {
        let filter = &scope.filter;
        let (first, last) = scope.positions(head)?;
        if last <= scope.after || first >= scope.before {
            return None;
        }
        let only = filter.tenant.as_ref().or(scope.tenant.as_ref());
        let other = matches!((&filter.tenant, &scope.tenant), (Some(a), Some(b)) if a != b);
        let tenant = match only {
            None => None,
            Some(_) if other => return None,
            Some(tenant) => {
                let place = head.tenants.iter().position(|part| part.tenant == tenant.as_str())?;
                Some((u16::try_from(place).ok()?, head.tenants.get(place)?.first))
            }
        };
        let from = filter.from.map_or(i64::MIN, |at| at.timestamp_millis());
        let to = filter.to.map_or(i64::MAX, |at| at.timestamp_millis());
        if head.to < from || head.from >= to {
            return None;
        }
        let terms: Option<Vec<_>> = filter.terms.iter().map(|term| tests(term, head)).collect();
        Some(Self {
            tenant,
            first: number * SIZE + 1,
            after: scope.after,
            before: scope.before,
            from,
            to,
            terms: terms?,
        })
    }

    /// A matching row, as far as the index has its facts.
    pub(super) fn matched(
        &self,
        scope: &Scope,
        columns: &Columns,
        ids: &Ids,
        row: usize,
    ) -> Option<MatchedRow> {
        let position = match (self.tenant, &scope.tenant) {
            (Some((tenant, _)), _) if *columns.tenant.get(row)? != tenant => return None,
            (Some((_, first)), Some(_)) => first + u64::from(*columns.tenant_position.get(row)?),
            _ => self.first + u64::from(*columns.position.get(row)?),
        };
        let at = *columns.at.get(row)?;
        let is_in_scope =
            position > self.after && position < self.before && at >= self.from && at < self.to;
        if !is_in_scope {
            return None;
        }
        let mut undecided = 0;
        for (term, bit) in self.terms.iter().zip(0_u32..) {
            match term.iter().map(|test| test.found(columns, ids, row)).max() {
                Some(Fulfilment::Yes) => {}
                Some(Fulfilment::Maybe) => undecided |= 1_u32.checked_shl(bit)?,
                Some(Fulfilment::No) | None => return None,
            }
        }
        Some(MatchedRow { position, undecided })
    }
}

/// The conditions of a term; `None` if no row of the segment can fulfil one.
fn tests(term: &Term, head: &Head) -> Option<Vec<Test>> {
    let tests = term.0.iter().map(|Condition { fact, is_negated }| Test {
        column: Column::of(fact, head).unwrap_or(Column::Nothing),
        is_negated: *is_negated,
    });
    let tests: Vec<_> = tests.collect();
    let can_match = |test: &Test| test.is_negated || !matches!(test.column, Column::Nothing);
    tests.iter().any(can_match).then_some(tests)
}

impl Test {
    fn found(&self, columns: &Columns, ids: &Ids, row: usize) -> Fulfilment {
        let found = self.column.found(columns, ids, row).unwrap_or(Fulfilment::No);
        match (self.is_negated, found) {
            (true, Fulfilment::No) => Fulfilment::Yes,
            (true, Fulfilment::Yes) => Fulfilment::No,
            (_, found) => found,
        }
    }
}

impl Column {
    /// The part of a segment with this fact; `None` if it is empty.
    fn of(fact: &Fact, head: &Head) -> Option<Self> {
        let tools = |fits: &dyn Fn(&str) -> bool| {
            places(&head.tools, |tool| !tool.is_empty() && fits(tool)).map(Self::Tools)
        };
        match fact {
            Fact::Principal(pattern) => {
                places(&head.principals, |principal| pattern.matches(principal))
                    .map(Self::Principals)
            }
            Fact::Tool(pattern) => tools(&|tool| is_tool(pattern, tool)),
            Fact::Source(pattern) => tools(&|tool| {
                let source = facts::source_of(tool);
                !source.is_empty() && pattern.matches(source)
            }),
            Fact::Kind(pattern) => tools(&|tool| {
                let kind = facts::kind_of(tool);
                !kind.is_empty() && pattern.matches(kind)
            }),
            Fact::Type(pattern) => kinds(pattern).map(Self::Kinds),
            Fact::Status(status) => Statuses::new(status, head).map(Self::Statuses),
            Fact::Took(time) => Some(Self::Took(*time)),
            Fact::Run(run) => Some(Self::Run(facts::id_key(run))),
            Fact::Id(start) => Some(Self::Id(IdStart::new(start))),
            Fact::Text(word) => {
                let pattern = &word.pattern;
                let principals = places(&head.principals, |principal| pattern.matches(principal));
                let all = [
                    principals.map(Self::Principals),
                    tools(&|tool| is_tool(pattern, tool)),
                    Statuses::within(pattern, head).map(Self::Statuses),
                    word.id.as_deref().map(|start| Self::Id(IdStart::new(start))),
                ];
                let all: Vec<_> = all.into_iter().flatten().collect();
                (!all.is_empty()).then_some(Self::Any(all))
            }
        }
    }

    fn found(&self, columns: &Columns, ids: &Ids, row: usize) -> Option<Fulfilment> {
        let exactly = |is: bool| if is { Fulfilment::Yes } else { Fulfilment::No };
        let perhaps = |may_be: bool| if may_be { Fulfilment::Maybe } else { Fulfilment::No };
        let is_in = |list: &[bool], column: &[u16]| {
            list.get(usize::from(*column.get(row)?)).copied().map(exactly)
        };
        match self {
            Self::Nothing => None,
            Self::Principals(list) => is_in(list, &columns.principal),
            Self::Tools(list) => is_in(list, &columns.tool),
            Self::Kinds(bits) => {
                let kind = u32::from(*columns.kind.get(row)?);
                Some(exactly(bits & 1_u32.checked_shl(kind)? != 0))
            }
            Self::Statuses(statuses) => statuses.has(columns, row).map(exactly),
            Self::Took(time) => {
                let (kind, number) = (*columns.kind.get(row)?, *columns.number.get(row)?);
                Some(exactly(kind == facts::RETURNED && number != NONE && time.has(number)))
            }
            Self::Run(run) => Some(perhaps(ids.run.get(row) == Some(run))),
            Self::Id(id) => {
                let keys = [&ids.event, &ids.run, &ids.subject].map(|keys| keys.get(row).copied());
                Some(perhaps(keys.into_iter().flatten().any(|key| id.may_be(key))))
            }
            Self::Any(all) => all.iter().filter_map(|column| column.found(columns, ids, row)).max(),
        }
    }
}

impl Statuses {
    fn new(filter: &StatusFilter, head: &Head) -> Option<Self> {
        let bit = |status: u8| 1_u8 << status;
        match filter {
            StatusFilter::Denied => Some(Self {
                statuses: bit(facts::FORBIDDEN) | bit(facts::RATE_LIMITED) | bit(facts::DENIED),
                codes: Vec::new(),
                except: None,
            }),
            StatusFilter::Failed => Some(Self {
                statuses: bit(facts::ERROR),
                codes: Vec::new(),
                except: facts::approval_required(&head.codes),
            }),
            StatusFilter::Is(text) => {
                let known = STATUSES.iter().position(|name| **name == **text);
                let statuses = known.and_then(|place| u8::try_from(place).ok()).map_or(0, bit);
                let codes = places(&head.codes, |code| code.to_lowercase() == **text);
                (statuses != 0 || codes.is_some()).then(|| Self {
                    statuses,
                    codes: codes.unwrap_or_default(),
                    except: None,
                })
            }
        }
    }

    /// The statuses and codes that a pattern matches.
    fn within(pattern: &TextPattern, head: &Head) -> Option<Self> {
        let named = STATUSES.iter().zip(0_u32..).filter(|(name, _)| !name.is_empty());
        let named = named.filter(|(name, _)| pattern.matches(name));
        let statuses = named.fold(0, |bits, (_, place)| bits | 1_u8 << place);
        let codes = places(&head.codes, |code| !code.is_empty() && pattern.matches(code));
        (statuses != 0 || codes.is_some()).then(|| Self {
            statuses,
            codes: codes.unwrap_or_default(),
            except: None,
        })
    }

    fn has(&self, columns: &Columns, row: usize) -> Option<bool> {
        let status = 1_u8.checked_shl(u32::from(*columns.status.get(row)?))?;
        let code = *columns.code.get(row)?;
        let is_listed = self.codes.get(usize::from(code)) == Some(&true);
        Some(Some(code) != self.except && (self.statuses & status != 0 || is_listed))
    }
}

/// A bit for each matching type; `None` without a match.
fn kinds(pattern: &TextPattern) -> Option<u32> {
    let known = EventBody::KINDS.iter().zip(0_u32..).filter(|(name, _)| pattern.matches(name));
    let bits = known.fold(0, |bits, (_, place)| bits | 1 << place);
    let unknown = u32::from(pattern.matches("")) << UNKNOWN;
    (bits | unknown != 0).then_some(bits | unknown)
}

/// Whether the id of a tool or its wire name matches.
fn is_tool(pattern: &TextPattern, tool: &str) -> bool {
    pattern.matches(tool) || pattern.matches(&facts::wire_of(tool))
}

/// The matching texts, as flags; `None` without a match.
fn places(texts: &[String], matches: impl Fn(&str) -> bool) -> Option<Vec<bool>> {
    let list: Vec<_> = texts.iter().map(|text| matches(text)).collect();
    list.contains(&true).then_some(list)
}
