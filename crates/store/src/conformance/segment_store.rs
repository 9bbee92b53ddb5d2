//! The requirements of [`SegmentStore`](toolcrib_core::store::SegmentStore).

use toolcrib_core::store::{NewSegment, SegmentPart, Storage};

fn segment(number: u64, text: &str) -> NewSegment {
    let part = |name: &str| format!("{name} {text}").into_bytes();
    NewSegment { number, head: part("head"), facts: part("facts"), ids: vec![0; 300_000] }
}

/// Each part of a segment is returned byte for byte; missing segments are left out.
pub async fn a_segment_comes_back_as_it_was_put(storage: &dyn Storage) {
    let segments = &*storage.segments();
    assert_eq!(segments.last().await.unwrap(), None);
    for number in [0, 1, 7] {
        segments.put(segment(number, &number.to_string())).await.unwrap();
    }
    assert_eq!(segments.last().await.unwrap(), Some(7));
    let heads = segments.read(SegmentPart::Head, &[7, 3, 0]).await.unwrap();
    assert_eq!(heads, [(0, b"head 0".to_vec()), (7, b"head 7".to_vec())]);
    let facts = segments.read(SegmentPart::Facts, &[1]).await.unwrap();
    assert_eq!(facts, [(1, b"facts 1".to_vec())]);
    let ids = segments.read(SegmentPart::Ids, &[1]).await.unwrap();
    assert_eq!(ids, [(1, vec![0; 300_000])]);
    assert_eq!(segments.read(SegmentPart::Ids, &[]).await.unwrap(), []);
}

/// Two processes may compute the same segment.
pub async fn the_first_segment_of_a_number_is_kept(storage: &dyn Storage) {
    let segments = &*storage.segments();
    segments.put(segment(3, "a")).await.unwrap();
    segments.put(segment(3, "b")).await.unwrap();
    let heads = segments.read(SegmentPart::Head, &[3]).await.unwrap();
    assert_eq!(heads, [(3, b"head a".to_vec())]);
}

/// Segments of removed events are removed.
pub async fn the_oldest_segments_are_removed(storage: &dyn Storage) {
    let segments = &*storage.segments();
    for number in [2, 3, 4] {
        segments.put(segment(number, "x")).await.unwrap();
    }
    assert_eq!(segments.remove_before(4).await.unwrap(), 2);
    assert_eq!(segments.remove_before(4).await.unwrap(), 0);
    assert_eq!(segments.last().await.unwrap(), Some(4));
    let left = segments.read(SegmentPart::Head, &[2, 3, 4]).await.unwrap();
    assert_eq!(left.len(), 1);
}
