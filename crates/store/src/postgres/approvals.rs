//! Approval requests.
//!
//! Invariants:
//! - a request and its events are stored in one transaction;
//! - `approval_state` is locked first, so that changes become visible in the order of their
//!   numbers;
//! - a change must be based on the last revision, so only one of several callers uses a grant.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use toolcrib_core::{
    approval::{
        Approval, ApprovalQuery, ApprovalState, ApprovalStore, Fingerprint, OpenOutcome,
        store::MAX_PENDING,
    },
    clock::Timestamp,
    event::NewEvent,
    id::{ApprovalId, TenantId},
    store::StoreError,
};

use super::{
    append::append,
    entry::Record,
    failure::{Failure, within},
    handle::PostgresStore,
    row::{Param, bound, execute, first, limit, one, rows, stored_time, whole},
};
use crate::{fingerprint::FingerprintKey, key_text, seal_places};

/// The fingerprint key, the same in every process. Creates it at the first use.
async fn fingerprint_key(store: &PostgresStore) -> Result<FingerprintKey, StoreError> {
    let keys = &store.options().seal_keys;
    let mine = keys.pack(&seal_places::FINGERPRINT_KEY, key_text::generate()?.expose())?;
    let stored: Vec<u8> = within(async {
        let sql = "UPDATE approval_state SET key = coalesce(key, $1) WHERE id = 1 RETURNING key";
        Ok(one(&store.client().await?, sql, &[&mine]).await?.try_get(0)?)
    })
    .await?;
    let (key, text) = FingerprintKey::open(keys, &stored)?;
    // Stored when there was no seal key, or sealed with an old one.
    if keys.can_seal() && !keys.is_current(&stored) {
        let sealed = keys.pack(&seal_places::FINGERPRINT_KEY, &text)?;
        within(async {
            let sql = "UPDATE approval_state SET key = $1 WHERE id = 1 AND key = $2";
            execute(&store.client().await?, sql, &[&sealed, &stored]).await
        })
        .await?;
    }
    Ok(key)
}

#[async_trait]
impl ApprovalStore for PostgresStore {
    async fn fingerprint(&self, parts: Vec<Vec<u8>>) -> Result<Fingerprint, StoreError> {
        let key = self.inner.fingerprint_key.get_or_try_init(|| fingerprint_key(self));
        Ok(key.await?.of(&parts))
    }

    async fn live(
        &self,
        tenant: &TenantId,
        fingerprint: &Fingerprint,
    ) -> Result<Option<Approval>, StoreError> {
        within(async { live(&self.client().await?, tenant, fingerprint).await }).await
    }

    async fn open(
        &self,
        approval: Approval,
        arguments: Option<String>,
        event: NewEvent,
    ) -> Result<OpenOutcome, StoreError> {
        let (keys, place) =
            (&self.options().seal_keys, seal_places::approval(&approval.tenant, &approval.id));
        let shown = arguments.filter(|_| keys.can_seal());
        let shown = shown.map(|text| keys.seal_text(&place, &text)).transpose()?;
        let record = Record::new(&event)?;
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let change = next_change(&transaction).await?;
            if let Some(known) = live(&transaction, &approval.tenant, &approval.fingerprint).await?
            {
                return Ok(OpenOutcome::Existing(Box::new(known)));
            }
            let sql = "SELECT count(*) FROM approvals \
                       WHERE tenant = $1 AND principal = $2 AND state = 'pending'";
            let of: [Param<'_>; 2] = [&approval.tenant.as_str(), &approval.principal.as_str()];
            let pending: i64 = one(&transaction, sql, &of).await?.try_get(0)?;
            if usize::try_from(pending).unwrap_or(usize::MAX) >= MAX_PENDING {
                return Ok(OpenOutcome::LimitReached);
            }
            let approval = Approval { change, ..approval.clone() };
            insert(&transaction, &approval, shown.as_deref()).await?;
            append_events(&transaction, &[record], self.instance()).await?;
            transaction.commit().await?;
            Ok(OpenOutcome::Opened(Box::new(approval)))
        })
        .await
    }

    async fn change(&self, approval: Approval, events: Vec<NewEvent>) -> Result<bool, StoreError> {
        let records = events.iter().map(Record::new).collect::<Result<Vec<_>, _>>()?;
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let change = next_change(&transaction).await?;
            let approval = Approval { change, revision: approval.revision + 1, ..approval.clone() };
            if !replace(&transaction, &approval).await? {
                return Ok(false);
            }
            append_events(&transaction, &records, self.instance()).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    async fn find(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> Result<Option<(Approval, Option<String>)>, StoreError> {
        let found = within(async {
            let sql = "SELECT body, shown FROM approvals WHERE tenant = $1 AND id = $2";
            let client = self.client().await?;
            let found = first(&client, sql, &[&tenant.as_str(), &id.as_str()]).await?;
            let pair = |row: Row| {
                Ok::<_, Failure>((approval(&row)?, row.try_get::<_, Option<Vec<u8>>>(1)?))
            };
            found.map(pair).transpose()
        });
        let Some((approval, shown)) = found.await? else { return Ok(None) };
        let keys = &self.options().seal_keys;
        Ok(Some((
            approval,
            shown.and_then(|it| keys.open_text(&seal_places::approval(tenant, id), &it)),
        )))
    }

    async fn list(&self, query: ApprovalQuery) -> Result<Vec<Approval>, StoreError> {
        let overdue = match query.overdue {
            Some(_) => "live IS NOT NULL AND expires_at <= $4",
            None => "$4::timestamptz IS NULL",
        };
        let (after, order) = match query.changed_after {
            Some(_) => ("change > $5", "change"),
            None => ("$5::bigint IS NULL", "created_at DESC, id DESC"),
        };
        let sql = format!(
            "SELECT body FROM approvals WHERE ($1::text IS NULL OR tenant = $1) \
             AND ($2::text IS NULL OR principal = $2) AND ($3::text IS NULL OR state = $3) \
             AND {overdue} AND {after} \
             AND ($7::timestamptz IS NULL OR (created_at, id) < ($7, $8)) \
             ORDER BY {order} LIMIT $6"
        );
        within(async {
            let (at, id) = query.older_than.unzip();
            let params: [Param<'_>; 8] = [
                &query.tenant.as_ref().map(|it| it.as_str()),
                &query.principal.as_ref().map(|it| it.as_str()),
                &query.state.map(ApprovalState::as_str),
                &query.overdue.map(stored_time),
                &query.changed_after.map(bound),
                &limit(query.limit),
                &at.map(stored_time),
                &id.as_ref().map(|it| it.as_str()),
            ];
            rows(&self.client().await?, &sql, &params).await?.iter().map(approval).collect()
        })
        .await
    }

    async fn pending(&self) -> Result<u64, StoreError> {
        within(async {
            let sql = "SELECT count(*) FROM approvals WHERE state = 'pending'";
            whole(one(&self.client().await?, sql, &[]).await?.try_get(0)?)
        })
        .await
    }

    async fn cursor(&self, reader: &str) -> Result<u64, StoreError> {
        within(async {
            let client = self.client().await?;
            let sql = "INSERT INTO approval_readers (reader, change) \
                       SELECT $1, change FROM approval_state WHERE id = 1 \
                       ON CONFLICT (reader) DO NOTHING";
            execute(&client, sql, &[&reader]).await?;
            let sql = "SELECT change FROM approval_readers WHERE reader = $1";
            whole(one(&client, sql, &[&reader]).await?.try_get(0)?)
        })
        .await
    }

    async fn acknowledge(&self, reader: &str, change: u64) -> Result<(), StoreError> {
        within(async {
            let sql = "UPDATE approval_readers SET change = greatest(change, $2) \
                       WHERE reader = $1";
            execute(&self.client().await?, sql, &[&reader, &bound(change)]).await?;
            Ok(())
        })
        .await
    }

    async fn prune(&self, before: Timestamp) -> Result<usize, StoreError> {
        within(async {
            let sql = "DELETE FROM approvals WHERE created_at < $1 AND live IS NULL";
            let pruned = execute(&self.client().await?, sql, &[&stored_time(before)]).await?;
            Ok(usize::try_from(pruned).unwrap_or(usize::MAX))
        })
        .await
    }
}

async fn append_events(
    transaction: &Transaction<'_>,
    records: &[Record],
    instance: &str,
) -> Result<(), Failure> {
    if records.is_empty() {
        return Ok(());
    }
    let records: Vec<&Record> = records.iter().collect();
    let appended = append(transaction, &records, instance).await;
    appended.map(drop).map_err(|failure| failure.conflict_over("an event with this id"))
}

async fn next_change(transaction: &Transaction<'_>) -> Result<u64, Failure> {
    let sql = "UPDATE approval_state SET change = change + 1 WHERE id = 1 RETURNING change";
    whole(one(transaction, sql, &[]).await?.try_get(0)?)
}

async fn live(
    client: &impl GenericClient,
    tenant: &TenantId,
    fingerprint: &Fingerprint,
) -> Result<Option<Approval>, Failure> {
    let sql = "SELECT body FROM approvals WHERE tenant = $1 AND live = $2";
    let found = first(client, sql, &[&tenant.as_str(), &fingerprint.0.as_str()]).await?;
    found.as_ref().map(approval).transpose()
}

fn text(approval: &Approval) -> Result<String, Failure> {
    serde_json::to_string(approval)
        .map_err(|_| StoreError::Unavailable("an approval has no JSON form".to_owned()).into())
}

async fn insert(
    client: &impl GenericClient,
    it: &Approval,
    shown: Option<&[u8]>,
) -> Result<(), Failure> {
    let sql = "INSERT INTO approvals (tenant, id, principal, state, live, revision, change, \
               created_at, expires_at, body, shown) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    let inserted = execute(
        client,
        sql,
        &[
            &it.tenant.as_str(),
            &it.id.as_str(),
            &it.principal.as_str(),
            &it.state.as_str(),
            &it.live.then_some(it.fingerprint.0.as_str()),
            &bound(it.revision),
            &bound(it.change),
            &stored_time(it.created_at),
            &stored_time(it.expires_at),
            &text(it)?,
            &shown,
        ],
    )
    .await;
    inserted.map_err(|failure| failure.conflict_over("an approval with this id"))?;
    Ok(())
}

/// Replaces the stored approval if it has the previous revision; false otherwise.
async fn replace(client: &impl GenericClient, it: &Approval) -> Result<bool, Failure> {
    let sql = "UPDATE approvals SET state = $3, live = $4, revision = $5::bigint, change = $6, \
               expires_at = $7, body = $8, \
               shown = CASE WHEN $4::text IS NULL THEN NULL ELSE shown END \
               WHERE tenant = $1 AND id = $2 AND revision = $5::bigint - 1";
    let params: [Param<'_>; 8] = [
        &it.tenant.as_str(),
        &it.id.as_str(),
        &it.state.as_str(),
        &it.live.then_some(it.fingerprint.0.as_str()),
        &bound(it.revision),
        &bound(it.change),
        &stored_time(it.expires_at),
        &text(it)?,
    ];
    Ok(execute(client, sql, &params).await? > 0)
}

fn approval(row: &Row) -> Result<Approval, Failure> {
    serde_json::from_str(row.try_get(0)?).map_err(|_| Failure::corrupt("an approval"))
}
