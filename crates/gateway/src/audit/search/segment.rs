//! A segment of the index: the facts of the events of a range of positions as columns, so that a
//! million events are searched in milliseconds.
//!
//! Numbers are little-endian and of fixed width; the columns are compressed when they are stored.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use toolcrib_core::store::NewSegment;

use super::facts::{Causes, Facts};

/// The positions of one segment.
pub(super) const SIZE: u64 = 16_384;
/// The level of the compression: the fastest one.
const LEVEL: i32 = 1;
/// The most bytes of a decompressed part; a segment has less than 1 MiB in each.
const MAX_PART: usize = 64 * 1024 * 1024;
/// The value of the column `number` for an event without a number.
pub(super) const NONE: u32 = u32::MAX;

/// The segment of a position; the first position is 1.
pub(super) fn segment_of(position: u64) -> u64 {
    position.saturating_sub(1) / SIZE
}

/// The values that occur in a segment. Columns have their places in these lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) tenants: Vec<TenantPart>,
    pub(super) principals: Vec<String>,
    pub(super) tools: Vec<String>,
    pub(super) codes: Vec<String>,
    /// The times of the earliest and of the latest event, in milliseconds since the Unix epoch.
    pub(super) from: i64,
    pub(super) to: i64,
    /// The positions of the first and of the last event in the whole log.
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) rows: usize,
}

/// The events of one tenant in a segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TenantPart {
    pub(super) tenant: String,
    /// The first and the last position in the log of the tenant.
    pub(super) first: u64,
    pub(super) last: u64,
}

/// The columns, in ascending position. All have the same length.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Columns {
    /// Counted from the first position of the segment.
    pub(super) position: Vec<u16>,
    pub(super) tenant: Vec<u16>,
    /// Counted from [`TenantPart::first`].
    pub(super) tenant_position: Vec<u32>,
    /// Milliseconds since the Unix epoch.
    pub(super) at: Vec<i64>,
    pub(super) kind: Vec<u8>,
    pub(super) status: Vec<u8>,
    pub(super) principal: Vec<u16>,
    pub(super) tool: Vec<u16>,
    pub(super) code: Vec<u16>,
    pub(super) number: Vec<u32>,
}

/// The keys of the ids of each event: its own, that of its run, and that of its call, session or
/// approval.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Ids {
    pub(super) event: Vec<u64>,
    pub(super) run: Vec<u64>,
    pub(super) subject: Vec<u64>,
}

/// A segment that events are added to.
#[derive(Debug, Default)]
pub(super) struct Builder {
    pub(super) number: u64,
    pub(super) head: Head,
    pub(super) columns: Columns,
    pub(super) ids: Ids,
    pub(super) causes: Causes,
    /// The places of texts in the lists of the head.
    tenants: HashMap<String, u16>,
    principals: HashMap<String, u16>,
    tools: HashMap<String, u16>,
    codes: HashMap<String, u16>,
}

impl Builder {
    pub(super) fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// Adds an event; its position belongs to this segment and is greater than those before.
    pub(super) fn add(&mut self, facts: Facts) {
        let (head, columns) = (&mut self.head, &mut self.columns);
        let position = facts.position.saturating_sub(self.number * SIZE + 1);
        let Ok(position) = u16::try_from(position) else { return };
        if head.rows == 0 {
            (head.from, head.to, head.first) = (facts.at, facts.at, facts.position);
        }
        head.last = facts.position;
        head.from = head.from.min(facts.at);
        head.to = head.to.max(facts.at);
        head.rows += 1;
        let parts = &mut head.tenants;
        let tenant = *self.tenants.entry(facts.tenant).or_insert_with_key(|tenant| {
            let (tenant, first) = (tenant.clone(), facts.tenant_position);
            parts.push(TenantPart { tenant, first, last: first });
            last_place(parts.len())
        });
        let mut offset = 0;
        if let Some(part) = parts.get_mut(usize::from(tenant)) {
            part.last = part.last.max(facts.tenant_position);
            offset = facts.tenant_position.saturating_sub(part.first);
        }
        columns.position.push(position);
        columns.tenant.push(tenant);
        columns.tenant_position.push(u32::try_from(offset).unwrap_or(u32::MAX));
        columns.at.push(facts.at);
        columns.kind.push(facts.kind);
        columns.status.push(facts.status);
        columns.principal.push(place(&mut self.principals, &mut head.principals, facts.principal));
        columns.tool.push(place(&mut self.tools, &mut head.tools, facts.tool));
        columns.code.push(place(&mut self.codes, &mut head.codes, facts.code));
        columns.number.push(facts.number.unwrap_or(NONE));
        let [event, run, subject] = facts.ids;
        self.ids.event.push(event);
        self.ids.run.push(run);
        self.ids.subject.push(subject);
    }

    pub(super) fn stored(&self) -> Option<NewSegment> {
        stored(self.number, &self.head, &self.columns, &self.ids)
    }
}

/// Encodes a segment. `None` if that fails, which never happens.
pub(super) fn stored(number: u64, head: &Head, columns: &Columns, ids: &Ids) -> Option<NewSegment> {
    Some(NewSegment {
        number,
        head: pack(&serde_json::to_vec(head).ok()?)?,
        facts: pack(&columns.bytes())?,
        ids: pack(&ids.bytes())?,
    })
}

impl Head {
    pub(super) fn read(stored: &[u8]) -> Option<Self> {
        serde_json::from_slice(&unpack(stored)?).ok()
    }
}

impl Columns {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.position.len() * 28);
        out.extend(self.position.iter().flat_map(|value| value.to_le_bytes()));
        out.extend(self.tenant.iter().flat_map(|value| value.to_le_bytes()));
        out.extend(self.tenant_position.iter().flat_map(|value| value.to_le_bytes()));
        out.extend(self.at.iter().flat_map(|value| value.to_le_bytes()));
        out.extend(&self.kind);
        out.extend(&self.status);
        out.extend(self.principal.iter().flat_map(|value| value.to_le_bytes()));
        out.extend(self.tool.iter().flat_map(|value| value.to_le_bytes()));
        out.extend(self.code.iter().flat_map(|value| value.to_le_bytes()));
        out.extend(self.number.iter().flat_map(|value| value.to_le_bytes()));
        out
    }

    /// Reads the columns of a segment with this head. `None` if they are damaged.
    pub(super) fn read(stored: &[u8], head: &Head) -> Option<Self> {
        let bytes = unpack(stored)?;
        let mut parts = Parts { rest: &bytes, rows: head.rows };
        let columns = Self {
            position: parts.column(u16::from_le_bytes)?,
            tenant: parts.column(u16::from_le_bytes)?,
            tenant_position: parts.column(u32::from_le_bytes)?,
            at: parts.column(i64::from_le_bytes)?,
            kind: parts.column(u8::from_le_bytes)?,
            status: parts.column(u8::from_le_bytes)?,
            principal: parts.column(u16::from_le_bytes)?,
            tool: parts.column(u16::from_le_bytes)?,
            code: parts.column(u16::from_le_bytes)?,
            number: parts.column(u32::from_le_bytes)?,
        };
        parts.rest.is_empty().then_some(columns)
    }
}

impl Ids {
    fn bytes(&self) -> Vec<u8> {
        let all = [&self.event, &self.run, &self.subject].into_iter().flatten();
        all.flat_map(|key| key.to_le_bytes()).collect()
    }

    pub(super) fn read(stored: &[u8], head: &Head) -> Option<Self> {
        let bytes = unpack(stored)?;
        let mut parts = Parts { rest: &bytes, rows: head.rows };
        let ids = Self {
            event: parts.column(u64::from_le_bytes)?,
            run: parts.column(u64::from_le_bytes)?,
            subject: parts.column(u64::from_le_bytes)?,
        };
        parts.rest.is_empty().then_some(ids)
    }
}

/// Columns that are not read yet.
struct Parts<'a> {
    rest: &'a [u8],
    rows: usize,
}

impl Parts<'_> {
    fn column<T, const N: usize>(&mut self, read: fn([u8; N]) -> T) -> Option<Vec<T>> {
        let (column, rest) = self.rest.split_at_checked(self.rows.checked_mul(N)?)?;
        self.rest = rest;
        Some(column.as_chunks::<N>().0.iter().map(|bytes| read(*bytes)).collect())
    }
}

fn place(places: &mut HashMap<String, u16>, list: &mut Vec<String>, text: String) -> u16 {
    *places.entry(text).or_insert_with_key(|text| {
        list.push(text.clone());
        last_place(list.len())
    })
}

/// A segment has fewer rows than there are places, so the last one is never reached.
fn last_place(length: usize) -> u16 {
    u16::try_from(length.saturating_sub(1)).unwrap_or(u16::MAX)
}

/// Compresses a part, after its length.
fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = u32::try_from(bytes.len()).ok()?.to_le_bytes().to_vec();
    out.extend(zstd::bulk::compress(bytes, LEVEL).ok()?);
    Some(out)
}

fn unpack(stored: &[u8]) -> Option<Vec<u8>> {
    let (length, packed) = stored.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let bytes = zstd::bulk::decompress(packed, length.min(MAX_PART)).ok()?;
    (bytes.len() == length).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(position: u64, tenant: &str, principal: &str) -> Facts {
        Facts {
            position,
            tenant: tenant.to_owned(),
            tenant_position: position * 3,
            at: 1_795_600_800_000 + i64::try_from(position).unwrap() * 7,
            kind: 1,
            status: 2,
            principal: principal.to_owned(),
            tool: "mcp:files.read".to_owned(),
            code: "timeout".to_owned(),
            number: position.is_multiple_of(2).then_some(12),
            ids: [position, 1, 2],
        }
    }

    #[test]
    fn a_segment_is_read_as_it_was_built() {
        let mut builder = Builder::new(1);
        for position in [SIZE + 1, SIZE + 2, SIZE + 9, 2 * SIZE] {
            let (tenant, by) = if position.is_multiple_of(2) { ("a", "ada") } else { ("b", "bob") };
            builder.add(facts(position, tenant, by));
        }
        let stored = builder.stored().unwrap();
        let head = Head::read(&stored.head).unwrap();
        assert_eq!(head, builder.head);
        assert_eq!(
            head.tenants.iter().map(|part| part.tenant.as_str()).collect::<Vec<_>>(),
            ["b", "a"]
        );
        assert_eq!(Columns::read(&stored.facts, &head), Some(builder.columns));
        assert_eq!(Ids::read(&stored.ids, &head), Some(builder.ids));
    }

    #[test]
    fn a_damaged_part_is_not_read() {
        let mut builder = Builder::new(0);
        builder.add(facts(1, "a", "ada"));
        let stored = builder.stored().unwrap();
        let wrong = Head { rows: 2, ..builder.head.clone() };
        assert_eq!(Columns::read(&stored.facts, &wrong), None, "rows are missing");
        assert_eq!(Columns::read(&stored.ids, &builder.head), None, "another part");
        assert_eq!(Columns::read(b"x", &builder.head), None);
        assert_eq!(Head::read(&stored.facts), None);
        assert_eq!(Head::read(&[]), None);
    }
}
