//! The size of one read.

/// The most items that one read returns; the queries document the same number.
pub(crate) const MAX_READ: usize = 1_000;

/// Returns the number of items for a query with `limit`; 0 means the most.
pub(crate) fn capped(limit: usize) -> usize {
    match limit {
        0 => MAX_READ,
        limit => limit.min(MAX_READ),
    }
}

/// Returns a number as SQL stores it.
pub(crate) fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the SQL `LIMIT` of a query for `limit` rows.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(capped(limit)).unwrap_or(i64::MAX)
}
