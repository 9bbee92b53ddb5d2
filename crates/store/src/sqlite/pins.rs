//! Pins on SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, Params, Row, params};
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    id::SourceId,
    pin::{
        ApprovedForm, EarlierForms, MAX_EARLIER, Pin, PinApproval, PinBook, PinChoice, PinDigests,
        PinForm, PinStore, SeenForm,
    },
    principal::PrincipalKey,
    store::StoreError,
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{all, execute, first, moment, parse, time_text, whole},
};

/// Reads a pin with its earlier forms, one row for each of them.
const PINS: &str = "SELECT p.tool, p.approved_digest, p.approved, p.approved_at, p.approved_by, \
                    p.approved_tenant, p.seen_digest, p.seen, p.seen_at, p.change_count, e.digest, \
                    e.form, e.approved_at, e.approved_by, e.approved_tenant FROM pins AS p \
                    LEFT JOIN earlier_forms AS e ON e.source = p.source AND e.tool = p.tool \
                    WHERE p.source = ?1";
/// The order of [`PINS`].
const ORDER: &str = "ORDER BY p.tool, e.approved_at DESC, e.digest";

#[async_trait]
impl PinStore for SqliteStore {
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError> {
        let source = source.clone();
        self.on_reader(move |connection| book(connection, &source)).await
    }

    async fn pins(&self, source: &SourceId) -> Result<Vec<Pin>, StoreError> {
        let source = source.clone();
        self.on_reader(move |connection| {
            let sql = format!("{PINS} {ORDER}");
            pins(connection, &source, &sql, params![source.as_str()])
        })
        .await
    }

    async fn pin(&self, source: &SourceId, tool: &str) -> Result<Option<Pin>, StoreError> {
        let (source, tool) = (source.clone(), tool.to_owned());
        self.on_reader(move |connection| {
            let sql = format!("{PINS} AND p.tool = ?2 {ORDER}");
            Ok(pins(connection, &source, &sql, params![source.as_str(), tool])?.pop())
        })
        .await
    }

    async fn trust(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let source = source.clone();
        self.on_writer(move |connection| {
            let mut added = 0;
            for (tool, PinForm { digest, document }) in &forms {
                let sql = "INSERT INTO pins (source, tool, approved_digest, approved, \
                             approved_at) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
                added += execute(
                    connection,
                    sql,
                    params![source.as_str(), tool, digest.0, document, time_text(at)],
                )?;
            }
            changed(connection, added)
        })
        .await
    }

    async fn note(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<Vec<String>, StoreError> {
        let source = source.clone();
        self.on_writer(move |connection| {
            let mut news = Vec::new();
            for (tool, PinForm { digest, document }) in &forms {
                let sql = "INSERT INTO pins (source, tool, seen_digest, seen, seen_at) \
                             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (source, tool) DO UPDATE SET \
                             seen_digest = ?3, seen = ?4, seen_at = ?5, change_count = \
                             change_count + (approved_digest IS NOT NULL) \
                             WHERE seen_digest IS NOT ?3 AND approved_digest IS NOT ?3 \
                             AND NOT EXISTS (SELECT 1 FROM earlier_forms AS e WHERE \
                             e.source = ?1 AND e.tool = ?2 AND e.digest = ?3)";
                let noted = execute(
                    connection,
                    sql,
                    params![source.as_str(), tool, digest.0, document, time_text(at)],
                )?;
                if noted > 0 {
                    news.push(tool.clone());
                }
            }
            changed(connection, news.len())?;
            Ok(news)
        })
        .await
    }

    async fn forget(&self, source: &SourceId, tools: Vec<String>) -> Result<(), StoreError> {
        let source = source.clone();
        self.on_writer(move |connection| {
            let mut forgotten = 0;
            for tool in &tools {
                let sql = "UPDATE pins SET seen_digest = NULL, seen = NULL, seen_at = NULL \
                             WHERE source = ?1 AND tool = ?2 AND seen_digest IS NOT NULL \
                             AND approved_digest IS NOT NULL";
                forgotten += execute(connection, sql, params![source.as_str(), tool])?;
            }
            changed(connection, forgotten)
        })
        .await
    }

    async fn approve(
        &self,
        choices: Vec<PinChoice>,
        at: Timestamp,
        by: Option<PrincipalKey>,
    ) -> Result<PinApproval, StoreError> {
        self.on_writer(move |connection| {
            let mut before = Vec::new();
            // All are checked before the first is changed.
            for (index, choice) in choices.iter().enumerate() {
                let known = digests(connection, &choice.source, &choice.tool)?;
                if !known.can_approve(choice) {
                    return Ok(PinApproval::Stale(index));
                }
                before.push(known.approved);
            }
            for choice in &choices {
                approve(connection, choice, at, by.as_ref())?;
            }
            changed(connection, choices.len())?;
            Ok(PinApproval::Approved(before))
        })
        .await
    }
}

/// Counts a change of the pins.
fn changed(connection: &Connection, rows: usize) -> Result<(), Failure> {
    if rows > 0 {
        let sql = "UPDATE meta SET value = value + 1 WHERE name = 'pins_epoch'";
        execute(connection, sql, [])?;
    }
    Ok(())
}

/// Approves one form. Its predecessor is copied before it is overwritten.
fn approve(
    connection: &Connection,
    PinChoice { source, tool, digest, earlier }: &PinChoice,
    at: Timestamp,
    by: Option<&PrincipalKey>,
) -> Result<(), Failure> {
    let source = source.as_str();
    match earlier {
        EarlierForms::Replace => {
            let sql = "DELETE FROM earlier_forms WHERE source = ?1 AND tool = ?2";
            execute(connection, sql, params![source, tool])?;
        }
        EarlierForms::Keep => {
            let sql = "INSERT INTO earlier_forms (source, tool, digest, form, approved_at, \
                         approved_by, approved_tenant) SELECT source, tool, approved_digest, \
                         approved, approved_at, approved_by, approved_tenant FROM pins \
                         WHERE source = ?1 AND tool = ?2 AND seen_digest = ?3 \
                         AND approved_digest IS NOT NULL ON CONFLICT DO NOTHING";
            execute(connection, sql, params![source, tool, digest.0])?;
            let sql = "DELETE FROM earlier_forms WHERE source = ?1 AND tool = ?2 AND digest NOT IN \
                         (SELECT digest FROM earlier_forms WHERE source = ?1 AND tool = ?2 \
                         ORDER BY approved_at DESC, digest LIMIT ?3)";
            let limit = i64::try_from(MAX_EARLIER).unwrap_or(i64::MAX);
            execute(connection, sql, params![source, tool, limit])?;
        }
    }
    let sql = "UPDATE pins SET approved_digest = seen_digest, approved = seen, \
                 approved_at = ?4, approved_by = ?5, approved_tenant = ?6, \
                 seen_digest = NULL, seen = NULL, seen_at = NULL \
                 WHERE source = ?1 AND tool = ?2 AND seen_digest = ?3";
    let principal = by.map(|by| by.principal.as_str());
    let tenant = by.map(|by| by.tenant.as_str());
    execute(connection, sql, params![source, tool, digest.0, time_text(at), principal, tenant])?;
    Ok(())
}

/// Reads the digests of one tool, inside a transaction.
fn digests(connection: &Connection, source: &SourceId, tool: &str) -> Result<PinDigests, Failure> {
    let sql = "SELECT approved_digest, seen_digest, change_count FROM pins \
                 WHERE source = ?1 AND tool = ?2";
    let key = [source.as_str(), tool];
    let found = first(connection, sql, key, |row| -> Result<_, Failure> {
        Ok(PinDigests {
            approved: row.get::<_, Option<[u8; 32]>>(0)?.map(Digest),
            earlier: Vec::new(),
            seen: row.get::<_, Option<[u8; 32]>>(1)?.map(Digest),
            change_count: row.get(2)?,
        })
    })?;
    let mut found = found.unwrap_or_default();
    let sql = "SELECT digest FROM earlier_forms WHERE source = ?1 AND tool = ?2 ORDER BY digest";
    found.earlier = all(connection, sql, key, |row| Ok(Digest(row.get(0)?)))?;
    Ok(found)
}

/// One statement, so that the epoch matches the digests.
fn book(connection: &Connection, source: &SourceId) -> Result<PinBook, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT meta.value, p.tool, p.approved_digest, p.seen_digest, p.change_count, e.digest \
         FROM meta LEFT JOIN pins AS p ON p.source = ?1 \
         LEFT JOIN earlier_forms AS e ON e.source = p.source AND e.tool = p.tool \
         WHERE meta.name = 'pins_epoch' ORDER BY p.tool, e.digest",
    )?;
    let mut rows = statement.query([source.as_str()])?;
    let mut book = PinBook::default();
    while let Some(row) = rows.next()? {
        book.epoch = whole(row.get(0)?)?;
        if let Some(tool) = row.get::<_, Option<String>>(1)? {
            let digest = |column: usize| -> Result<_, rusqlite::Error> {
                Ok(row.get::<_, Option<[u8; 32]>>(column)?.map(Digest))
            };
            let pinned = book.tools.entry(tool).or_default();
            pinned.approved = digest(2)?;
            pinned.seen = digest(3)?;
            pinned.change_count = row.get(4)?;
            pinned.earlier.extend(digest(5)?);
        }
    }
    Ok(book)
}

/// Reads the pins of a query over [`PINS`].
fn pins(
    connection: &Connection,
    source: &SourceId,
    sql: &str,
    params: impl Params,
) -> Result<Vec<Pin>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut pins: Vec<Pin> = Vec::new();
    while let Some(row) = rows.next()? {
        let tool: String = row.get(0)?;
        let earlier = approved_form(source, row, 10)?;
        match pins.last_mut().filter(|pin| pin.tool == tool) {
            Some(pin) => pin.earlier.extend(earlier),
            None => pins.push(Pin {
                source: source.clone(),
                tool,
                approved: approved_form(source, row, 1)?,
                earlier: earlier.into_iter().collect(),
                seen: form(source, row, 6)?.map(|(form, at)| SeenForm { form, at }),
                change_count: row.get(9)?,
            }),
        }
    }
    Ok(pins)
}

fn unreadable(source: &SourceId) -> Failure {
    Failure::corrupt(format!("a pin of source {source}"))
}

/// Reads a form from the column of its digest and the next two.
fn form(
    source: &SourceId,
    row: &Row<'_>,
    column: usize,
) -> Result<Option<(PinForm, Timestamp)>, Failure> {
    let Some(bytes) = row.get::<_, Option<[u8; 32]>>(column)? else { return Ok(None) };
    let document: String = row.get(column + 1)?;
    if Digest::of(document.as_bytes()).0 != bytes {
        return Err(unreadable(source));
    }
    let at = moment(row, column + 2, || unreadable(source))?.ok_or_else(|| unreadable(source))?;
    Ok(Some((PinForm { digest: Digest(bytes), document }, at)))
}

/// Reads a form and its approver from the column of its digest and the next four.
fn approved_form(
    source: &SourceId,
    row: &Row<'_>,
    column: usize,
) -> Result<Option<ApprovedForm>, Failure> {
    let Some((form, at)) = form(source, row, column)? else { return Ok(None) };
    let by = match (row.get::<_, Option<String>>(column + 3)?, row.get(column + 4)?) {
        (Some(principal), Some::<String>(tenant)) => Some(PrincipalKey {
            tenant: parse(tenant, || unreadable(source))?,
            principal: parse(principal, || unreadable(source))?,
        }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(unreadable(source)),
    };
    Ok(Some(ApprovedForm { form, at, by }))
}
