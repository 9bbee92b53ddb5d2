//! The index of the event log in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use toolcrib_core::store::{NewSegment, SegmentPart, SegmentStore, StoreError};

use super::shared::lock;

#[derive(Debug, Clone, Default)]
pub(super) struct MemorySegments(Arc<Mutex<BTreeMap<u64, NewSegment>>>);

#[async_trait]
impl SegmentStore for MemorySegments {
    async fn last(&self) -> Result<Option<u64>, StoreError> {
        Ok(lock(&self.0).keys().next_back().copied())
    }

    async fn read(
        &self,
        part: SegmentPart,
        numbers: &[u64],
    ) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let segments = lock(&self.0);
        let wanted = segments.values().filter(|segment| numbers.contains(&segment.number));
        let bytes = |segment: &NewSegment| match part {
            SegmentPart::Head => segment.head.clone(),
            SegmentPart::Facts => segment.facts.clone(),
            SegmentPart::Ids => segment.ids.clone(),
        };
        Ok(wanted.map(|segment| (segment.number, bytes(segment))).collect())
    }

    async fn put(&self, segment: NewSegment) -> Result<(), StoreError> {
        lock(&self.0).entry(segment.number).or_insert(segment);
        Ok(())
    }

    async fn remove_before(&self, number: u64) -> Result<usize, StoreError> {
        let mut segments = lock(&self.0);
        let kept = segments.split_off(&number);
        Ok(std::mem::replace(&mut *segments, kept).len())
    }
}
