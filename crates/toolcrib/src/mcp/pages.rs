//! `tools/list`, page by page.
//!
//! Invariant (I-24): every page consists of bytes that were serialised once per view.
//!
//! A cursor contains the digest of the caller's list and a position in it. So it is valid only for
//! that list: not for a newer one, not for another caller's, but on every replica and after a
//! restart. It is no secret: a forged cursor yields only a page of the caller's own list.

use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use serde_json::{Map, Value};
use toolcrib_core::{
    canonical::Digest,
    catalog::{ListFormat, Listing, Pages},
    principal::Principal,
};
use toolcrib_gateway::CatalogScope;
use toolcrib_mcp::{message::RpcError, revision::Era};

use super::{
    format::{LEGACY, MODERN},
    host::Host,
    meta,
};

/// How many bytes of the digest a cursor contains: enough to avoid collisions.
const DIGEST: usize = 16;

/// One page of a list.
pub(super) struct Page {
    pub(super) result: Bytes,
    /// The digest of the whole list.
    pub(super) digest: Digest,
}

/// Returns a page of `principal`'s list of a part of the catalog; `params` select the page.
pub(super) fn page(
    host: &Host,
    principal: &Principal,
    within: &CatalogScope,
    era: Era,
    params: &Map<String, Value>,
) -> Result<Page, RpcError> {
    let pages = pages(host, principal, within, era);
    let position = match params.get("cursor") {
        None | Some(Value::Null) => Some(0),
        Some(cursor) => cursor.as_str().and_then(|cursor| position(cursor, &pages.digest)),
    };
    // All invalid cursors get the same error, also the empty one, which is never issued.
    let page = position.and_then(|position| pages.at(position));
    let result = page.ok_or_else(|| RpcError::invalid_params(BAD_CURSOR))?.clone();
    Ok(Page { result, digest: pages.digest })
}

/// Returns the digest of `principal`'s list, which changes with the list.
pub(super) fn digest(
    host: &Host,
    principal: &Principal,
    within: &CatalogScope,
    era: Era,
) -> Digest {
    pages(host, principal, within, era).digest
}

fn pages(host: &Host, principal: &Principal, within: &CatalogScope, era: Era) -> Arc<Pages> {
    let format = format(era);
    let toolset = host.gateway.snapshot().toolset(within);
    if toolset.is_some_and(|toolset| toolset.listing == Listing::Search) {
        return meta::list(era, format);
    }
    // A toolset that a reload has removed has an empty list.
    match host.gateway.snapshot().view_within(principal, within) {
        Some(view) => view.pages(format, host.config.page_size, open),
        None => Arc::new(Pages::of(&[], format, host.config.page_size, open)),
    }
}

/// Returns the format of lists in `era`.
pub(super) fn format(era: Era) -> &'static ListFormat {
    match era {
        Era::Legacy => &LEGACY,
        Era::Modern => &MODERN,
    }
}

pub(super) fn open(format: &ListFormat, digest: &Digest, next: Option<usize>) -> String {
    let next = next.and_then(|next| cursor(digest, next));
    match (next, format.open.strip_prefix('{')) {
        (Some(cursor), Some(rest)) => format!("{{\"nextCursor\":\"{cursor}\",{rest}"),
        _ => format.open.to_owned(),
    }
}

fn cursor(digest: &Digest, position: usize) -> Option<String> {
    let mut bytes = digest.0.get(..DIGEST)?.to_vec();
    bytes.extend_from_slice(&u32::try_from(position).ok()?.to_be_bytes());
    Some(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the position in `cursor`, if it belongs to the list with `digest`.
fn position(cursor: &str, digest: &Digest) -> Option<usize> {
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (of, position) = bytes.split_at_checked(DIGEST)?;
    let position = u32::from_be_bytes(position.try_into().ok()?);
    // The first page has no cursor.
    (digest.0.starts_with(of) && position > 0).then(|| usize::try_from(position).ok())?
}

const BAD_CURSOR: &str =
    "the cursor is not one of the current list's; start again without a cursor";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_list_alone() {
        let (list, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let made = cursor(&list, 300).unwrap();
        assert_eq!(position(&made, &list), Some(300));
        assert_eq!(position(&made, &other), None);
        let first = cursor(&list, 0).unwrap();
        for garbage in ["", "x", "AAAA", &made[1..], &format!("{made}A"), &first, "\u{fc}"] {
            assert_eq!(position(garbage, &list), None, "{garbage}");
        }
    }

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let digest = Digest::of(b"a");
        for format in [&LEGACY, &MODERN] {
            let opened = |next| -> Value {
                let text = format!("{}{}", open(format, &digest, next), format.close);
                serde_json::from_str(&text).unwrap()
            };
            assert_eq!(opened(None).get("nextCursor"), None);
            let cursor = opened(Some(7))["nextCursor"].clone();
            assert_eq!(position(cursor.as_str().unwrap(), &digest), Some(7));
        }
    }
}
