//! The index of the event log.

use async_trait::async_trait;
use toolcrib_core::store::{NewSegment, SegmentPart, SegmentStore, StoreError};

use super::{
    failure::within,
    handle::PostgresStore,
    row::{bound, execute, first, rows, whole},
};

#[async_trait]
impl SegmentStore for PostgresStore {
    async fn last(&self) -> Result<Option<u64>, StoreError> {
        within(async {
            let sql = "SELECT number FROM segments ORDER BY number DESC LIMIT 1";
            match first(&self.client().await?, sql, &[]).await? {
                Some(row) => Ok(Some(whole(row.try_get(0)?)?)),
                None => Ok(None),
            }
        })
        .await
    }

    async fn read(
        &self,
        part: SegmentPart,
        numbers: &[u64],
    ) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let numbers: Vec<i64> = numbers.iter().copied().map(bound).collect();
        let sql = match part {
            SegmentPart::Head => {
                "SELECT number, head FROM segments WHERE number = ANY($1) ORDER BY number"
            }
            SegmentPart::Facts => {
                "SELECT number, facts FROM segments WHERE number = ANY($1) ORDER BY number"
            }
            SegmentPart::Ids => {
                "SELECT number, ids FROM segments WHERE number = ANY($1) ORDER BY number"
            }
        };
        within(async {
            let found = rows(&self.client().await?, sql, &[&numbers]).await?;
            found.iter().map(|row| Ok((whole(row.try_get(0)?)?, row.try_get(1)?))).collect()
        })
        .await
    }

    async fn put(&self, segment: NewSegment) -> Result<(), StoreError> {
        within(async {
            let sql = "INSERT INTO segments (number, head, facts, ids) VALUES ($1, $2, $3, $4) \
                       ON CONFLICT (number) DO NOTHING";
            let NewSegment { number, head, facts, ids } = &segment;
            execute(&self.client().await?, sql, &[&bound(*number), head, facts, ids]).await?;
            Ok(())
        })
        .await
    }

    async fn remove_before(&self, number: u64) -> Result<usize, StoreError> {
        within(async {
            let sql = "DELETE FROM segments WHERE number < $1";
            let removed = execute(&self.client().await?, sql, &[&bound(number)]).await?;
            Ok(usize::try_from(removed).unwrap_or(usize::MAX))
        })
        .await
    }
}
