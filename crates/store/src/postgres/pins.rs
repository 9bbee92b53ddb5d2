//! Pins. Changes lock the row of the epoch first, so that they happen one after the other.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;
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
    failure::{Failure, within},
    handle::PostgresStore,
    row::{digest, execute, first, parse, rows, stored_time, whole},
};

const COLUMNS: &str = "tool, approved_digest, approved, approved_at, approved_by, seen_digest, \
                       seen, seen_at, approved_tenant";

#[async_trait]
impl PinStore for PostgresStore {
    /// One statement, so that the epoch matches the digests.
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError> {
        within(async {
            let sql = "SELECT meta.value, tool, approved_digest, seen_digest FROM meta \
                       LEFT JOIN pins ON source = $1 WHERE meta.name = 'pins_epoch'";
            let mut book = PinBook::default();
            for row in rows(&self.client().await?, sql, &[&source.as_str()]).await? {
                book.epoch = whole(row.try_get(0)?)?;
                if let Some(tool) = row.try_get::<_, Option<String>>(1)? {
                    let pinned = PinDigests { approved: digest(&row, 2)?, seen: digest(&row, 3)? };
                    book.tools.insert(tool, pinned);
                }
            }
            Ok(book)
        })
        .await
    }

    async fn pins(&self, source: &SourceId) -> Result<Vec<Pin>, StoreError> {
        within(async {
            let sql = format!("SELECT {COLUMNS} FROM pins WHERE source = $1 ORDER BY tool");
            let found = rows(&self.client().await?, &sql, &[&source.as_str()]).await?;
            found.iter().map(|row| pin(source, row)).collect()
        })
        .await
    }

    async fn pin(&self, source: &SourceId, tool: &str) -> Result<Option<Pin>, StoreError> {
        within(async {
            let sql = format!("SELECT {COLUMNS} FROM pins WHERE source = $1 AND tool = $2");
            let found = first(&self.client().await?, &sql, &[&source.as_str(), &tool]).await?;
            found.map(|row| pin(source, &row)).transpose()
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
                           seen_digest = $3, seen = $4, seen_at = $5 \
                           WHERE p.seen_digest IS DISTINCT FROM $3 \
                           AND p.approved_digest IS DISTINCT FROM $3";
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
                let sql = "SELECT approved_digest FROM pins \
                           WHERE source = $1 AND tool = $2 AND seen_digest = $3";
                let wanted = choice.digest.0.as_slice();
                let held =
                    first(&transaction, sql, &[&choice.source.as_str(), &choice.tool, &wanted])
                        .await?;
                match held {
                    Some(row) => before.push(digest(&row, 0)?),
                    None => return Ok(PinApproval::Stale(index)),
                }
            }
            for choice in &choices {
                let sql = "UPDATE pins SET approved_digest = seen_digest, approved = seen, \
                           approved_at = $3, approved_by = $4, approved_tenant = $5, \
                           seen_digest = NULL, seen = NULL, seen_at = NULL \
                           WHERE source = $1 AND tool = $2 AND seen_digest IS NOT NULL";
                let tenant = by.as_ref().map(|by| by.tenant.as_str());
                let by = by.as_ref().map(|by| by.principal.as_str());
                let (at, source) = (stored_time(at), choice.source.as_str());
                execute(&transaction, sql, &[&source, &choice.tool, &at, &by, &tenant]).await?;
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

/// Commits a change; rolls back when there was none.
async fn finish(transaction: Transaction<'_>, is_changed: bool) -> Result<(), Failure> {
    match is_changed {
        true => transaction.commit().await?,
        false => transaction.rollback().await?,
    }
    Ok(())
}

fn pin(source: &SourceId, row: &Row) -> Result<Pin, Failure> {
    let unreadable = || Failure::corrupt(format!("a pin of source {source}"));
    let form = |column: usize| -> Result<Option<(PinForm, Timestamp)>, Failure> {
        let Some(bytes) = row.try_get::<_, Option<&[u8]>>(column)? else { return Ok(None) };
        let document: String = row.try_get(column + 1)?;
        let digest = Digest::of(document.as_bytes());
        if digest.0 != bytes {
            return Err(unreadable());
        }
        let at = row.try_get(if column == 1 { 3 } else { 7 })?;
        Ok(Some((PinForm { digest, document }, at)))
    };
    let by = match (row.try_get::<_, Option<String>>(8)?, row.try_get::<_, Option<String>>(4)?) {
        (Some(tenant), Some(principal)) => Some(PrincipalKey {
            tenant: parse(tenant, unreadable)?,
            principal: parse(principal, unreadable)?,
        }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(unreadable()),
    };
    Ok(Pin {
        source: source.clone(),
        tool: row.try_get(0)?,
        approved: form(1)?.map(|(form, at)| ApprovedForm { form, at, by }),
        seen: form(5)?.map(|(form, at)| SeenForm { form, at }),
    })
}
