//! Pins on SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    id::SourceId,
    pin::{
        ApprovedForm, Pin, PinApproval, PinBook, PinChoice, PinDigests, PinForm, PinStore, SeenForm,
    },
    principal::PrincipalKey,
    store::StoreError,
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{all, execute, first, moment, parse, time_text, whole},
};

const COLUMNS: &str = "tool, approved_digest, approved, approved_at, approved_by, seen_digest, \
                       seen, seen_at, approved_tenant";

#[async_trait]
impl PinStore for SqliteStore {
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError> {
        let source = source.clone();
        self.on_reader(move |connection| book(connection, &source)).await
    }

    async fn pins(&self, source: &SourceId) -> Result<Vec<Pin>, StoreError> {
        let source = source.clone();
        self.on_reader(move |connection| {
            let sql = format!("SELECT {COLUMNS} FROM pins WHERE source = ?1 ORDER BY tool");
            all(connection, &sql, [source.as_str()], |row| pin(&source, row))
        })
        .await
    }

    async fn pin(&self, source: &SourceId, tool: &str) -> Result<Option<Pin>, StoreError> {
        let (source, tool) = (source.clone(), tool.to_owned());
        self.on_reader(move |connection| {
            let sql = format!("SELECT {COLUMNS} FROM pins WHERE source = ?1 AND tool = ?2");
            first(connection, &sql, [source.as_str(), &tool], |row| pin(&source, row))
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
                             seen_digest = ?3, seen = ?4, seen_at = ?5 \
                             WHERE seen_digest IS NOT ?3 AND approved_digest IS NOT ?3";
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
            for (index, PinChoice { source, tool, digest }) in choices.iter().enumerate() {
                let sql = "SELECT approved_digest FROM pins \
                             WHERE source = ?1 AND tool = ?2 AND seen_digest = ?3";
                let params = params![source.as_str(), tool, digest.0];
                let held: Option<Option<[u8; 32]>> =
                    first(connection, sql, params, |row| row.get(0))?;
                match held {
                    Some(approved) => before.push(approved.map(Digest)),
                    None => return Ok(PinApproval::Stale(index)),
                }
            }
            for PinChoice { source, tool, .. } in &choices {
                let sql = "UPDATE pins SET approved_digest = seen_digest, approved = seen, \
                             approved_at = ?3, approved_by = ?4, approved_tenant = ?5, \
                             seen_digest = NULL, seen = NULL, seen_at = NULL \
                             WHERE source = ?1 AND tool = ?2 AND seen_digest IS NOT NULL";
                execute(
                    connection,
                    sql,
                    params![
                        source.as_str(),
                        tool,
                        time_text(at),
                        by.as_ref().map(|by| by.principal.as_str()),
                        by.as_ref().map(|by| by.tenant.as_str())
                    ],
                )?;
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

/// One statement, so that the epoch matches the digests.
fn book(connection: &Connection, source: &SourceId) -> Result<PinBook, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT meta.value, tool, approved_digest, seen_digest FROM meta \
         LEFT JOIN pins ON source = ?1 WHERE meta.name = 'pins_epoch'",
    )?;
    let mut rows = statement.query([source.as_str()])?;
    let mut book = PinBook::default();
    while let Some(row) = rows.next()? {
        book.epoch = whole(row.get(0)?)?;
        if let Some(tool) = row.get::<_, Option<String>>(1)? {
            let digest = |column: usize| row.get::<_, Option<[u8; 32]>>(column);
            let pinned =
                PinDigests { approved: digest(2)?.map(Digest), seen: digest(3)?.map(Digest) };
            book.tools.insert(tool, pinned);
        }
    }
    Ok(book)
}

fn pin(source: &SourceId, row: &Row<'_>) -> Result<Pin, Failure> {
    let unreadable = || Failure::corrupt(format!("a pin of source {source}"));
    let form = |digest: usize| -> Result<Option<(PinForm, Timestamp)>, Failure> {
        let Some(bytes) = row.get::<_, Option<[u8; 32]>>(digest)? else { return Ok(None) };
        let document: String = row.get(digest + 1)?;
        if Digest::of(document.as_bytes()).0 != bytes {
            return Err(unreadable());
        }
        let at = moment(row, digest + 2, unreadable)?.ok_or_else(unreadable)?;
        Ok(Some((PinForm { digest: Digest(bytes), document }, at)))
    };
    let by = match (row.get::<_, Option<String>>(8)?, row.get::<_, Option<String>>(4)?) {
        (Some(tenant), Some(principal)) => Some(PrincipalKey {
            tenant: parse(tenant, unreadable)?,
            principal: parse(principal, unreadable)?,
        }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(unreadable()),
    };
    Ok(Pin {
        source: source.clone(),
        tool: row.get(0)?,
        approved: form(1)?.map(|(form, at)| ApprovedForm { form, at, by }),
        seen: form(5)?.map(|(form, at)| SeenForm { form, at }),
    })
}
