//! The list of tools of a caller, as descriptors.

use std::sync::Arc;

use toolcrib_core::{
    catalog::{Body, Entry, ListFormat},
    principal::Principal,
};
use toolcrib_gateway::Gateway;

use crate::respond;

/// A bare array of descriptors (RFC 0078 §B).
pub(crate) static ARRAY: ListFormat =
    ListFormat { key: "openwop", open: "[", close: "]", item: descriptor };

pub(crate) fn descriptor(entry: &Entry, out: &mut Vec<u8>) {
    respond::write(entry, &entry.tool, out);
}

/// The list that `caller` sees now.
pub(crate) fn list_of(gateway: &Gateway, caller: &Principal) -> Arc<Body> {
    gateway.list(caller, &ARRAY, None)
}
