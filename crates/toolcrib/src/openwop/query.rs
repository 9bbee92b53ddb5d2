//! Parameters that several lists have.

use axum::response::Response;

use super::error;
use crate::respond;

/// Items in one answer when the request does not say, and at most.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

/// The parameter `limit`; none when it is not a number in its range.
pub(super) fn limit(query: Option<&str>) -> Option<usize> {
    match respond::query(query, "limit") {
        None => Some(DEFAULT_LIMIT),
        Some(text) => text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit)),
    }
}

/// The answer to a `limit` that is none.
pub(super) fn bad_limit() -> Response {
    error::bad_number("limit", 1, 1_000)
}

/// The one of `all` whose `word` stands in parameter `name`; none when the parameter is absent.
///
/// # Errors
/// It is none of them: the words of all.
pub(super) fn one_of<T: Copy, const N: usize>(
    query: Option<&str>,
    name: &str,
    all: [T; N],
    word: fn(T) -> &'static str,
) -> Result<Option<T>, [&'static str; N]> {
    let Some(text) = respond::query(query, name) else { return Ok(None) };
    match all.into_iter().find(|one| word(*one) == text) {
        Some(one) => Ok(Some(one)),
        None => Err(all.map(word)),
    }
}
