//! The size of one read.

/// The most items of one read; the queries document the same number.
pub(crate) const MAX_READ: usize = 1_000;

/// The number of items for a query with `limit`; 0 selects the maximum.
pub(crate) fn capped(limit: usize) -> usize {
    match limit {
        0 => MAX_READ,
        limit => limit.min(MAX_READ),
    }
}

/// A number as SQL stores it.
pub(crate) fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The SQL `LIMIT` of a query for `limit` rows.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(capped(limit)).unwrap_or(i64::MAX)
}
