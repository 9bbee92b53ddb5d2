//! Pins.

use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    id::SourceId,
    pin::{
        ApprovedForm, EarlierForms, MAX_EARLIER, Pin, PinBook, PinChoice, PinDigests, PinForm,
        SeenForm,
    },
    principal::PrincipalKey,
};

use super::{Columns, Reader, Statement, values};

// === statements ===

/// Selects the pins of a source, or one of them, with one row for each earlier form.
pub(crate) fn select(source: &SourceId, tool: Option<&str>) -> Statement {
    let sql = "SELECT p.tool, p.approved_digest, p.approved, p.approved_at, p.approved_by, \
               p.approved_tenant, p.seen_digest, p.seen, p.seen_at, p.change_count, e.digest, \
               e.form, e.approved_at, e.approved_by, e.approved_tenant FROM pins AS p \
               LEFT JOIN earlier_forms AS e ON e.source = p.source AND e.tool = p.tool \
               WHERE p.source = ?1";
    Statement::new(sql, values![source.as_str()])
        .and("p.tool = ?", tool)
        .then(" ORDER BY p.tool, e.approved_at DESC, e.digest")
}

/// Selects the epoch and the digests of a source in one statement, so that they match.
pub(crate) fn book(source: &SourceId) -> Statement {
    let sql = "SELECT p.approved_digest, p.seen_digest, p.change_count, e.digest, p.tool, \
               meta.value FROM meta LEFT JOIN pins AS p ON p.source = ?1 \
               LEFT JOIN earlier_forms AS e ON e.source = p.source AND e.tool = p.tool \
               WHERE meta.name = 'pins_epoch' ORDER BY p.tool, e.digest";
    Statement::new(sql, values![source.as_str()])
}

/// Selects the digests of one tool.
pub(crate) fn digests(source: &SourceId, tool: &str) -> Statement {
    let sql = "SELECT p.approved_digest, p.seen_digest, p.change_count, e.digest FROM pins AS p \
               LEFT JOIN earlier_forms AS e ON e.source = p.source AND e.tool = p.tool \
               WHERE p.source = ?1 AND p.tool = ?2 ORDER BY e.digest";
    Statement::new(sql, values![source.as_str(), tool])
}

/// Counts and announces a change of the pins.
pub(crate) fn next_epoch() -> Statement {
    Statement::new("UPDATE meta SET value = value + 1 WHERE name = 'pins_epoch'", Vec::new())
}

/// Approves the first form of a tool.
pub(crate) fn trust(source: &SourceId, tool: &str, form: &PinForm, at: Timestamp) -> Statement {
    let params = values![source.as_str(), tool, form.digest.0, form.document.as_str(), at];
    let columns = "source, tool, approved_digest, approved, approved_at";
    Statement::insert("pins", columns, params).then(" ON CONFLICT DO NOTHING")
}

/// Notes a form that is new.
pub(crate) fn note(source: &SourceId, tool: &str, form: &PinForm, at: Timestamp) -> Statement {
    let params = values![source.as_str(), tool, form.digest.0, form.document.as_str(), at];
    Statement::insert("pins AS p", "source, tool, seen_digest, seen, seen_at", params).then(
        " ON CONFLICT (source, tool) DO UPDATE SET seen_digest = ?3, seen = ?4, seen_at = ?5, \
         change_count = p.change_count + CASE WHEN p.approved_digest IS NULL THEN 0 ELSE 1 END \
         WHERE p.seen_digest IS DISTINCT FROM ?3 AND p.approved_digest IS DISTINCT FROM ?3 \
         AND NOT EXISTS (SELECT 1 FROM earlier_forms AS e \
         WHERE e.source = ?1 AND e.tool = ?2 AND e.digest = ?3)",
    )
}

/// Forgets the waiting form of a tool that has an approved one.
pub(crate) fn forget(source: &SourceId, tool: &str) -> Statement {
    let sql = "UPDATE pins SET seen_digest = NULL, seen = NULL, seen_at = NULL \
               WHERE source = ?1 AND tool = ?2 AND seen_digest IS NOT NULL \
               AND approved_digest IS NOT NULL";
    Statement::new(sql, values![source.as_str(), tool])
}

/// Approves one form. Its predecessor is copied before it is overwritten.
pub(crate) fn approve(
    PinChoice { source, tool, digest, earlier }: &PinChoice,
    at: Timestamp,
    by: Option<&PrincipalKey>,
) -> Vec<Statement> {
    let (source, tool) = (source.as_str(), tool.as_str());
    let mut statements = match earlier {
        EarlierForms::Replace => vec![Statement::new(
            "DELETE FROM earlier_forms WHERE source = ?1 AND tool = ?2",
            values![source, tool],
        )],
        EarlierForms::Keep => vec![
            Statement::new(
                "INSERT INTO earlier_forms (source, tool, digest, form, approved_at, approved_by, \
                 approved_tenant) SELECT source, tool, approved_digest, approved, approved_at, \
                 approved_by, approved_tenant FROM pins WHERE source = ?1 AND tool = ?2 \
                 AND seen_digest = ?3 AND approved_digest IS NOT NULL ON CONFLICT DO NOTHING",
                values![source, tool, digest.0],
            ),
            Statement::new(
                "DELETE FROM earlier_forms WHERE source = ?1 AND tool = ?2 AND digest NOT IN \
                 (SELECT digest FROM earlier_forms WHERE source = ?1 AND tool = ?2 \
                 ORDER BY approved_at DESC, digest LIMIT ?3)",
                values![source, tool, MAX_EARLIER as u64],
            ),
        ],
    };
    let sql = "UPDATE pins SET approved_digest = seen_digest, approved = seen, approved_at = ?4, \
               approved_by = ?5, approved_tenant = ?6, seen_digest = NULL, seen = NULL, \
               seen_at = NULL WHERE source = ?1 AND tool = ?2 AND seen_digest = ?3";
    let principal = by.map(|by| by.principal.as_str());
    let tenant = by.map(|by| by.tenant.as_str());
    statements.push(Statement::new(sql, values![source, tool, digest.0, at, principal, tenant]));
    statements
}

// === rows ===

/// Reads a row of [`digests`], or the same columns of [`book`].
pub(crate) fn digest_row<R: Columns>(row: &R) -> Result<PinDigests, R::Failure> {
    let row = Reader::new(row, "the digests of a pin");
    Ok(PinDigests {
        approved: row.maybe_digest(0)?,
        seen: row.maybe_digest(1)?,
        change_count: count(&row, 2)?,
        earlier: row.maybe_digest(3)?.into_iter().collect(),
    })
}

/// A row of [`book`]: the epoch, and the digests of a tool if the source has one.
pub(crate) type BookRow = (u64, Option<(String, PinDigests)>);

pub(crate) fn book_row<R: Columns>(row: &R) -> Result<BookRow, R::Failure> {
    let columns = Reader::new(row, "the digests of a pin");
    let tool = columns.maybe_text(4)?;
    let tool = tool.map(|tool| Ok::<_, R::Failure>((tool, digest_row(row)?))).transpose()?;
    Ok((columns.whole(5)?, tool))
}

pub(crate) fn join_digests(rows: Vec<PinDigests>) -> PinDigests {
    let mut rows = rows.into_iter();
    let mut joined = rows.next().unwrap_or_default();
    joined.earlier.extend(rows.flat_map(|row| row.earlier));
    joined
}

pub(crate) fn join_book(rows: Vec<BookRow>) -> PinBook {
    let mut book = PinBook::default();
    for (epoch, tool) in rows {
        book.epoch = epoch;
        if let Some((tool, digests)) = tool {
            let pinned = book.tools.entry(tool).or_default();
            let earlier = std::mem::take(&mut pinned.earlier);
            let all = earlier.into_iter().chain(digests.earlier).collect();
            *pinned = PinDigests { earlier: all, ..digests };
        }
    }
    book
}

/// Reads a row of [`select`]: a pin with at most one earlier form.
pub(crate) fn pin<R: Columns>(source: &SourceId, row: &R) -> Result<Pin, R::Failure> {
    let row = Reader::new(row, format!("a pin of source {source}"));
    Ok(Pin {
        source: source.clone(),
        tool: row.text(0)?,
        approved: approved_form(&row, 1)?,
        earlier: approved_form(&row, 10)?.into_iter().collect(),
        seen: form(&row, 6)?.map(|(form, at)| SeenForm { form, at }),
        change_count: count(&row, 9)?,
    })
}

/// Joins the rows of [`select`].
pub(crate) fn join_pins(rows: Vec<Pin>) -> Vec<Pin> {
    let mut pins: Vec<Pin> = Vec::new();
    for row in rows {
        match pins.last_mut().filter(|pin| pin.tool == row.tool) {
            Some(pin) => pin.earlier.extend(row.earlier),
            None => pins.push(row),
        }
    }
    pins
}

fn count<R: Columns>(row: &Reader<'_, R>, column: usize) -> Result<u32, R::Failure> {
    Ok(u32::try_from(row.whole(column)?).unwrap_or(u32::MAX))
}

/// Reads a form from the column of its digest and the next two.
fn form<R: Columns>(
    row: &Reader<'_, R>,
    column: usize,
) -> Result<Option<(PinForm, Timestamp)>, R::Failure> {
    let Some(digest) = row.maybe_digest(column)? else { return Ok(None) };
    let document = row.text(column + 1)?;
    if Digest::of(document.as_bytes()) != digest {
        return Err(row.unreadable());
    }
    Ok(Some((PinForm { digest, document }, row.time(column + 2)?)))
}

/// Reads a form and its approver from the column of its digest and the next four.
fn approved_form<R: Columns>(
    row: &Reader<'_, R>,
    column: usize,
) -> Result<Option<ApprovedForm>, R::Failure> {
    let Some((form, at)) = form(row, column)? else { return Ok(None) };
    let by = match (row.maybe_id(column + 3)?, row.maybe_id(column + 4)?) {
        (Some(principal), Some(tenant)) => Some(PrincipalKey { tenant, principal }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(row.unreadable()),
    };
    Ok(Some(ApprovedForm { form, at, by }))
}
