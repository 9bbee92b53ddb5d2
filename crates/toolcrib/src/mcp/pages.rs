//! `tools/list`, page by page.
//!
//! Invariant (I-24): every page consists of bytes that were serialised once per view.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use toolcrib_core::{
    canonical::Digest,
    catalog::{Listing, Pages},
};
use toolcrib_mcp::{message::RpcError, revision::Era};

use super::{
    cursor::{self, open},
    format::format,
    host::Client,
    meta,
};

/// One page of a list.
pub(super) struct Page {
    pub(super) result: Bytes,
    /// The digest of the whole list.
    pub(super) digest: Digest,
}

/// Selects a page of the list of `client` by `params`.
pub(super) fn page(
    client: &Client,
    era: Era,
    params: &Map<String, Value>,
) -> Result<Page, RpcError> {
    let pages = pages(client, era);
    let position = match params.get("cursor") {
        None | Some(Value::Null) => Some(0),
        Some(cursor) => cursor.as_str().and_then(|text| cursor::position(text, &pages.digest)),
    };
    // All invalid cursors get the same error, also the empty one, which is never issued.
    let page = position.and_then(|position| pages.at(position));
    let result = page.ok_or_else(|| RpcError::invalid_params(BAD_CURSOR))?.clone();
    Ok(Page { result, digest: pages.digest })
}

/// The digest of the list of `client`, which changes with the list.
pub(super) fn digest(client: &Client, era: Era) -> Digest {
    pages(client, era).digest
}

fn pages(client: &Client, era: Era) -> Arc<Pages> {
    let Client { host, principal, within } = client;
    let (format, size) = (format(client, era), host.config.page_size);
    let toolset = host.gateway.snapshot().toolset(within);
    if toolset.is_some_and(|toolset| toolset.listing == Listing::Search) {
        return meta::list(era, format);
    }
    // A toolset that a reload has removed has an empty list.
    match host.gateway.snapshot().view_within(principal, within) {
        Some(view) => view.pages(format, size, open),
        None => Arc::new(Pages::of(&[], format, size, open)),
    }
}

const BAD_CURSOR: &str = "the cursor does not belong to the current list; start again without one";
