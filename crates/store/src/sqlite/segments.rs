//! The index of the event log on SQLite.

use async_trait::async_trait;
use rusqlite::params;
use toolcrib_core::store::{NewSegment, SegmentPart, SegmentStore, StoreError};

use super::{
    handle::SqliteStore,
    row::{bound, execute, first, whole},
};

#[async_trait]
impl SegmentStore for SqliteStore {
    async fn last(&self) -> Result<Option<u64>, StoreError> {
        self.on_reader(|connection| {
            let sql = "SELECT number FROM segments ORDER BY number DESC LIMIT 1";
            first(connection, sql, [], |row| row.get::<_, i64>(0))?.map(whole).transpose()
        })
        .await
    }

    async fn read(
        &self,
        part: SegmentPart,
        numbers: &[u64],
    ) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        self.on_reader(move |connection| {
            let sql = match part {
                SegmentPart::Head => "SELECT head FROM segments WHERE number = ?1",
                SegmentPart::Facts => "SELECT facts FROM segments WHERE number = ?1",
                SegmentPart::Ids => "SELECT ids FROM segments WHERE number = ?1",
            };
            let mut found = Vec::with_capacity(numbers.len());
            for number in numbers {
                let bytes = first(connection, sql, [bound(number)], |row| row.get(0))?;
                found.extend(bytes.map(|bytes| (number, bytes)));
            }
            Ok(found)
        })
        .await
    }

    async fn put(&self, segment: NewSegment) -> Result<(), StoreError> {
        self.on_writer(move |connection| {
            let sql = "INSERT INTO segments (number, head, facts, ids) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT (number) DO NOTHING";
            let NewSegment { number, head, facts, ids } = &segment;
            execute(connection, sql, params![bound(*number), head, facts, ids])?;
            Ok(())
        })
        .await
    }

    async fn remove_before(&self, number: u64) -> Result<usize, StoreError> {
        self.on_writer(move |connection| {
            execute(connection, "DELETE FROM segments WHERE number < ?1", [bound(number)])
        })
        .await
    }
}
