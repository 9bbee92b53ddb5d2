//! The conditions of a search, for the rows of one segment.

use toolcrib_core::{
    event::{EventBody, EventFilter, StatusFilter, TextPattern},
    id::TenantId,
};

use super::{
    facts::{self, IdStart, STATUSES, UNKNOWN},
    segment::{Columns, Head, Ids, SIZE},
};

/// What to search, and between which positions: those in the log of the tenant, if there is one, else
/// those in the whole log.
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
    /// A bit for each type.
    kinds: u32,
    status: Option<Statuses>,
    principals: Option<Vec<bool>>,
    tools: Option<Vec<bool>>,
    run: Option<u64>,
    id: Option<IdStart>,
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
        self.filter.run.is_some() || self.filter.id.is_some()
    }

    /// Returns the first and the last position of a segment in the numbering of this scope, if the
    /// segment has an event in it.
    pub(super) fn positions(&self, head: &Head) -> Option<(u64, u64)> {
        match &self.tenant {
            None => (head.rows > 0).then_some((head.first, head.last)),
            Some(tenant) => {
                let part = head.tenants.iter().find(|it| it.tenant == tenant.as_str())?;
                Some((part.first, part.last))
            }
        }
    }
}

impl Matcher {
    /// Returns `None` if no row of the segment can match.
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
                let place = head.tenants.iter().position(|it| it.tenant == tenant.as_str())?;
                Some((u16::try_from(place).ok()?, head.tenants.get(place)?.first))
            }
        };
        let from = filter.from.map_or(i64::MIN, |at| at.timestamp_millis());
        let to = filter.to.map_or(i64::MAX, |at| at.timestamp_millis());
        if head.to < from || head.from >= to {
            return None;
        }
        Some(Self {
            tenant,
            first: number * SIZE + 1,
            after: scope.after,
            before: scope.before,
            from,
            to,
            kinds: kinds(filter.event_type.as_ref())?,
            status: match &filter.status {
                None => None,
                Some(status) => Some(Statuses::new(status, head)?),
            },
            principals: match &filter.principal {
                None => None,
                Some(pattern) => Some(places(&head.principals, |it| pattern.matches(it))?),
            },
            tools: tools(filter, head)?,
            run: filter.run.as_deref().map(facts::id_key),
            id: filter.id.as_deref().map(IdStart::new),
        })
    }

    /// Returns the position of a row in the numbering of the scope, if it matches.
    pub(super) fn position(
        &self,
        scope: &Scope,
        columns: &Columns,
        ids: &Ids,
        row: usize,
    ) -> Option<u64> {
        let is_in = |list: &Option<Vec<bool>>, column: &[u16]| match list {
            None => Some(true),
            Some(list) => list.get(usize::from(*column.get(row)?)).copied(),
        };
        let position = match (self.tenant, &scope.tenant) {
            (Some((tenant, _)), _) if *columns.tenant.get(row)? != tenant => return None,
            (Some((_, first)), Some(_)) => first + u64::from(*columns.tenant_position.get(row)?),
            _ => self.first + u64::from(*columns.position.get(row)?),
        };
        let at = *columns.at.get(row)?;
        let kind = *columns.kind.get(row)?;
        let matches = position > self.after
            && position < self.before
            && at >= self.from
            && at < self.to
            && self.kinds & 1_u32.checked_shl(u32::from(kind))? != 0
            && is_in(&self.principals, &columns.principal)?
            && is_in(&self.tools, &columns.tool)?
            && self.status.as_ref().is_none_or(|it| it.has(columns, row) == Some(true))
            && self.run.is_none_or(|run| ids.run.get(row) == Some(&run))
            && self.id.is_none_or(|id| {
                [&ids.event, &ids.run, &ids.subject]
                    .into_iter()
                    .any(|keys| keys.get(row).is_some_and(|key| id.may_be(*key)))
            });
        matches.then_some(position)
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
                let known = STATUSES.iter().position(|it| **it == **text);
                let statuses = known.and_then(|it| u8::try_from(it).ok()).map_or(0, bit);
                let codes = places(&head.codes, |it| *it == **text);
                (statuses != 0 || codes.is_some()).then(|| Self {
                    statuses,
                    codes: codes.unwrap_or_default(),
                    except: None,
                })
            }
        }
    }

    fn has(&self, columns: &Columns, row: usize) -> Option<bool> {
        let status = 1_u8.checked_shl(u32::from(*columns.status.get(row)?))?;
        let code = *columns.code.get(row)?;
        let is_listed = self.codes.get(usize::from(code)) == Some(&true);
        Some(Some(code) != self.except && (self.statuses & status != 0 || is_listed))
    }
}

/// Returns a bit for each type that matches; `None` if none does.
fn kinds(pattern: Option<&TextPattern>) -> Option<u32> {
    let Some(pattern) = pattern else { return Some(u32::MAX) };
    let known = EventBody::KINDS.iter().zip(0_u32..).filter(|(name, _)| pattern.matches(name));
    let bits = known.fold(0, |bits, (_, place)| bits | 1 << place);
    let unknown = u32::from(pattern.matches("")) << UNKNOWN;
    (bits | unknown != 0).then_some(bits | unknown)
}

/// Returns which tools match all conditions on tools.
fn tools(filter: &EventFilter, head: &Head) -> Option<Option<Vec<bool>>> {
    if filter.tool.is_none() && filter.source.is_none() && filter.kind.is_none() {
        return Some(None);
    }
    let fits = |pattern: &Option<TextPattern>, text: &str| {
        pattern.as_ref().is_none_or(|pattern| !text.is_empty() && pattern.matches(text))
    };
    let list = places(&head.tools, |tool| {
        (fits(&filter.tool, tool) || fits(&filter.tool, &facts::wire_of(tool)))
            && fits(&filter.source, facts::source_of(tool))
            && fits(&filter.kind, facts::kind_of(tool))
    });
    Some(Some(list?))
}

/// Returns which texts match; `None` if none does.
fn places(texts: &[String], matches: impl Fn(&str) -> bool) -> Option<Vec<bool>> {
    let list: Vec<_> = texts.iter().map(|it| matches(it)).collect();
    list.contains(&true).then_some(list)
}
