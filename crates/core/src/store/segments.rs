//! Stored parts of the index of the event log.

use async_trait::async_trait;

use crate::store_error::StoreError;

/// One part of a segment. They are read separately, because most searches need only the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SegmentPart {
    /// The values that occur, to decide whether the segment can have a match.
    Head,
    /// The columns of its events.
    Facts,
    /// The ids of its events.
    Ids,
}

/// A segment of the index: the values of a range of positions of the whole log, for searches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSegment {
    /// The number of its range, from 0 on.
    pub number: u64,
    /// The bytes of [`SegmentPart::Head`].
    pub head: Vec<u8>,
    /// The bytes of [`SegmentPart::Facts`].
    pub facts: Vec<u8>,
    /// The bytes of [`SegmentPart::Ids`].
    pub ids: Vec<u8>,
}

/// The index of the event log. It is derived: any segment may be missing.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait SegmentStore: Send + Sync + 'static {
    /// The number of the last segment.
    async fn last(&self) -> Result<Option<u64>, StoreError>;

    /// Returns one part of these segments, in ascending number, without missing ones.
    async fn read(
        &self,
        part: SegmentPart,
        numbers: &[u64],
    ) -> Result<Vec<(u64, Vec<u8>)>, StoreError>;

    /// Stores a segment, unless its number exists.
    async fn put(&self, segment: NewSegment) -> Result<(), StoreError>;

    /// Removes the segments with smaller numbers, and returns how many it removed.
    async fn remove_before(&self, number: u64) -> Result<usize, StoreError>;
}
