//! Pins. Changes lock the row of the epoch first, so that they happen one after the other.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;
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
    failure::{Failure, within},
    handle::PostgresStore,
    row::{digest, execute, parse, rows, stored_time, whole},
};

/// Reads a pin with its earlier forms, one row for each of them.
const PINS: &str = "SELECT p.tool, p.approved_digest, p.approved, p.approved_at, p.approved_by, \
                    p.approved_tenant, p.seen_digest, p.seen, p.seen_at, p.change_count, e.digest, \
                    e.form, e.approved_at, e.approved_by, e.approved_tenant FROM pins AS p \
                    LEFT JOIN earlier_forms AS e ON e.source = p.source AND e.tool = p.tool \
                    WHERE p.source = $1";
/// The order of [`PINS`].
const ORDER: &str = "ORDER BY p.tool, e.approved_at DESC, e.digest";

#[async_trait]
impl PinStore for PostgresStore {
    /// One statement, so that the epoch matches the digests.
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError> {
        within(async {
            let sql = "SELECT meta.value, p.tool, p.approved_digest, p.seen_digest, \
                       p.change_count, e.digest FROM meta LEFT JOIN pins AS p ON p.source = $1 \
                       LEFT JOIN earlier_forms AS e ON e.source = p.source AND e.tool = p.tool \
                       WHERE meta.name = 'pins_epoch' ORDER BY p.tool, e.digest";
            let mut book = PinBook::default();
            for row in rows(&self.client().await?, sql, &[&source.as_str()]).await? {
                book.epoch = whole(row.try_get(0)?)?;
                if let Some(tool) = row.try_get::<_, Option<String>>(1)? {
                    let pinned = book.tools.entry(tool).or_default();
                    pinned.approved = digest(&row, 2)?;
                    pinned.seen = digest(&row, 3)?;
                    pinned.change_count = count(&row, 4)?;
                    pinned.earlier.extend(digest(&row, 5)?);
                }
            }
            Ok(book)
        })
        .await
    }

    async fn pins(&self, source: &SourceId) -> Result<Vec<Pin>, StoreError> {
        within(async {
            let sql = format!("{PINS} {ORDER}");
            read(source, &rows(&self.client().await?, &sql, &[&source.as_str()]).await?)
        })
        .await
    }

    async fn pin(&self, source: &SourceId, tool: &str) -> Result<Option<Pin>, StoreError> {
        within(async {
            let sql = format!("{PINS} AND p.tool = $2 {ORDER}");
            let found = rows(&self.client().await?, &sql, &[&source.as_str(), &tool]).await?;
            Ok(read(source, &found)?.pop())
        })
        .await
    }

    async fn trust(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            next_epoch(&transaction).await?;
            let mut added = 0;
            for (tool, form) in &forms {
                let sql = "INSERT INTO pins (source, tool, approved_digest, approved, approved_at) \
                           VALUES ($1, $2, $3, $4, $5) ON CONFLICT (source, tool) DO NOTHING";
                let digest = form.digest.0.as_slice();
                let at = stored_time(at);
                let source = source.as_str();
                let params: [super::row::Param<'_>; 5] =
                    [&source, tool, &digest, &form.document, &at];
                added += execute(&transaction, sql, &params).await?;
            }
            finish(transaction, added > 0).await
        })
        .await
    }

    async fn note(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<Vec<String>, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            next_epoch(&transaction).await?;
            let mut news = Vec::new();
            for (tool, form) in &forms {
                let sql = "INSERT INTO pins AS p (source, tool, seen_digest, seen, seen_at) \
                           VALUES ($1, $2, $3, $4, $5) ON CONFLICT (source, tool) DO UPDATE SET \
                           seen_digest = $3, seen = $4, seen_at = $5, change_count = \
                           p.change_count + CASE WHEN p.approved_digest IS NULL THEN 0 ELSE 1 END \
                           WHERE p.seen_digest IS DISTINCT FROM $3 \
                           AND p.approved_digest IS DISTINCT FROM $3 \
                           AND NOT EXISTS (SELECT 1 FROM earlier_forms AS e WHERE \
                           e.source = $1 AND e.tool = $2 AND e.digest = $3)";
                let digest = form.digest.0.as_slice();
                let at = stored_time(at);
                let source = source.as_str();
                let params: [super::row::Param<'_>; 5] =
                    [&source, tool, &digest, &form.document, &at];
                if execute(&transaction, sql, &params).await? > 0 {
                    news.push(tool.clone());
                }
            }
            finish(transaction, !news.is_empty()).await?;
            Ok(news)
        })
        .await
    }

    async fn forget(&self, source: &SourceId, tools: Vec<String>) -> Result<(), StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            next_epoch(&transaction).await?;
            let sql = "UPDATE pins SET seen_digest = NULL, seen = NULL, seen_at = NULL \
                       WHERE source = $1 AND tool = ANY($2) AND seen_digest IS NOT NULL \
                       AND approved_digest IS NOT NULL";
            let forgotten = execute(&transaction, sql, &[&source.as_str(), &tools]).await?;
            finish(transaction, forgotten > 0).await
        })
        .await
    }

    async fn approve(
        &self,
        choices: Vec<PinChoice>,
        at: Timestamp,
        by: Option<PrincipalKey>,
    ) -> Result<PinApproval, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            next_epoch(&transaction).await?;
            let mut before = Vec::new();
            // All are checked before the first is changed.
            for (index, choice) in choices.iter().enumerate() {
                let known = digests(&transaction, &choice.source, &choice.tool).await?;
                if !known.can_approve(choice) {
                    return Ok(PinApproval::Stale(index));
                }
                before.push(known.approved);
            }
            for choice in &choices {
                approve(&transaction, choice, at, by.as_ref()).await?;
            }
            finish(transaction, !choices.is_empty()).await?;
            Ok(PinApproval::Approved(before))
        })
        .await
    }
}

/// Locks the epoch and counts a change.
async fn next_epoch(transaction: &Transaction<'_>) -> Result<(), Failure> {
    let sql = "UPDATE meta SET value = value + 1 WHERE name = 'pins_epoch'";
    execute(transaction, sql, &[]).await?;
    Ok(())
}

/// Commits a change; rolls back without one.
async fn finish(transaction: Transaction<'_>, is_changed: bool) -> Result<(), Failure> {
    match is_changed {
        true => transaction.commit().await?,
        false => transaction.rollback().await?,
    }
    Ok(())
}

/// Approves one form. Its predecessor is copied before it is overwritten.
async fn approve(
    transaction: &Transaction<'_>,
    PinChoice { source, tool, digest, earlier }: &PinChoice,
    at: Timestamp,
    by: Option<&PrincipalKey>,
) -> Result<(), Failure> {
    let (source, digest) = (source.as_str(), digest.0.as_slice());
    match earlier {
        EarlierForms::Replace => {
            let sql = "DELETE FROM earlier_forms WHERE source = $1 AND tool = $2";
            execute(transaction, sql, &[&source, tool]).await?;
        }
        EarlierForms::Keep => {
            let sql = "INSERT INTO earlier_forms (source, tool, digest, form, approved_at, \
                       approved_by, approved_tenant) SELECT source, tool, approved_digest, \
                       approved, approved_at, approved_by, approved_tenant FROM pins \
                       WHERE source = $1 AND tool = $2 AND seen_digest = $3 \
                       AND approved_digest IS NOT NULL ON CONFLICT DO NOTHING";
            execute(transaction, sql, &[&source, tool, &digest]).await?;
            let sql = "DELETE FROM earlier_forms WHERE source = $1 AND tool = $2 AND digest NOT IN \
                       (SELECT digest FROM earlier_forms WHERE source = $1 AND tool = $2 \
                       ORDER BY approved_at DESC, digest LIMIT $3)";
            let limit = i64::try_from(MAX_EARLIER).unwrap_or(i64::MAX);
            execute(transaction, sql, &[&source, tool, &limit]).await?;
        }
    }
    let sql = "UPDATE pins SET approved_digest = seen_digest, approved = seen, \
               approved_at = $4, approved_by = $5, approved_tenant = $6, \
               seen_digest = NULL, seen = NULL, seen_at = NULL \
               WHERE source = $1 AND tool = $2 AND seen_digest = $3";
    let at = stored_time(at);
    let principal = by.map(|by| by.principal.as_str());
    let tenant = by.map(|by| by.tenant.as_str());
    execute(transaction, sql, &[&source, tool, &digest, &at, &principal, &tenant]).await?;
    Ok(())
}

/// Reads the digests of one tool, with the epoch locked.
async fn digests(
    transaction: &Transaction<'_>,
    source: &SourceId,
    tool: &str,
) -> Result<PinDigests, Failure> {
    let sql = "SELECT p.approved_digest, p.seen_digest, p.change_count, e.digest FROM pins AS p \
               LEFT JOIN earlier_forms AS e ON e.source = p.source AND e.tool = p.tool \
               WHERE p.source = $1 AND p.tool = $2 ORDER BY e.digest";
    let mut found = PinDigests::default();
    for row in rows(transaction, sql, &[&source.as_str(), &tool]).await? {
        found.approved = digest(&row, 0)?;
        found.seen = digest(&row, 1)?;
        found.change_count = count(&row, 2)?;
        found.earlier.extend(digest(&row, 3)?);
    }
    Ok(found)
}

fn count(row: &Row, column: usize) -> Result<u32, Failure> {
    let count = whole(row.try_get(column)?)?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Reads the rows of [`PINS`].
fn read(source: &SourceId, rows: &[Row]) -> Result<Vec<Pin>, Failure> {
    let mut pins: Vec<Pin> = Vec::new();
    for row in rows {
        let tool: String = row.try_get(0)?;
        let earlier = approved_form(source, row, 10)?;
        match pins.last_mut().filter(|pin| pin.tool == tool) {
            Some(pin) => pin.earlier.extend(earlier),
            None => pins.push(Pin {
                source: source.clone(),
                tool,
                approved: approved_form(source, row, 1)?,
                earlier: earlier.into_iter().collect(),
                seen: form(source, row, 6)?.map(|(form, at)| SeenForm { form, at }),
                change_count: count(row, 9)?,
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
    row: &Row,
    column: usize,
) -> Result<Option<(PinForm, Timestamp)>, Failure> {
    let Some(bytes) = row.try_get::<_, Option<&[u8]>>(column)? else { return Ok(None) };
    let document: String = row.try_get(column + 1)?;
    let digest = Digest::of(document.as_bytes());
    if digest.0 != bytes {
        return Err(unreadable(source));
    }
    Ok(Some((PinForm { digest, document }, row.try_get(column + 2)?)))
}

/// Reads a form and its approver from the column of its digest and the next four.
fn approved_form(
    source: &SourceId,
    row: &Row,
    column: usize,
) -> Result<Option<ApprovedForm>, Failure> {
    let Some((form, at)) = form(source, row, column)? else { return Ok(None) };
    let by = match (row.try_get::<_, Option<String>>(column + 3)?, row.try_get(column + 4)?) {
        (Some(principal), Some::<String>(tenant)) => Some(PrincipalKey {
            tenant: parse(tenant, || unreadable(source))?,
            principal: parse(principal, || unreadable(source))?,
        }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(unreadable(source)),
    };
    Ok(Some(ApprovedForm { form, at, by }))
}
