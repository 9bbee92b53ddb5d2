//! Two pure tools, as nodes of an OpenWOP pack: what differs between two JSON documents, and when a
//! cron expression is due next.
//!
//! This file is the ABI (RFC 0008, version 1): the host puts a request into memory that it asks
//! `openwop_alloc` for, calls `openwop_node_invoke`, and reads the answer where that says it is.
//! There is a fresh instance for every call, so nothing is ever freed.

pub mod cron;
pub mod diff;

use std::cell::RefCell;

use serde_json::{Value, json};

const NAME: &str = "vendor.toolcrib.everyday";

/// The nodes, in the order of their numbers.
const NODES: [(&str, fn(&Value) -> Result<Value, Failure>); 2] = [
    ("vendor.toolcrib.everyday.json-diff", diff::node),
    ("vendor.toolcrib.everyday.cron-next", cron::node),
];

/// Why a node has no result.
pub struct Failure {
    pub code: &'static str,
    pub message: String,
}

thread_local! {
    /// What the host asked for and is going to write into.
    static REQUEST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[unsafe(no_mangle)]
pub extern "C" fn openwop_abi_version() -> u32 {
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn openwop_pack_name() -> u64 {
    told(NAME.as_bytes())
}

#[unsafe(no_mangle)]
pub extern "C" fn openwop_node_count() -> u32 {
    NODES.len() as u32
}

#[unsafe(no_mangle)]
pub extern "C" fn openwop_node_id_at(index: u32) -> u64 {
    NODES.get(index as usize).map_or(0, |(id, _)| told(id.as_bytes()))
}

#[unsafe(no_mangle)]
pub extern "C" fn openwop_alloc(size: u32) -> u32 {
    REQUEST.with_borrow_mut(|request| {
        *request = vec![0; size as usize];
        request.as_mut_ptr() as usize as u32
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn openwop_free(_at: u32, _size: u32) {}

#[unsafe(no_mangle)]
pub extern "C" fn openwop_node_invoke(index: u32, _at: u32, _len: u32) -> u64 {
    let request = REQUEST.take();
    let answer = match invoke(index as usize, &request) {
        Ok(output) => json!({ "outcome": "completed", "output": output }),
        Err(Failure { code, message }) => {
            json!({ "outcome": "failed", "error": { "code": code, "message": message } })
        }
    };
    told(answer.to_string().into_bytes().leak())
}

fn invoke(index: usize, request: &[u8]) -> Result<Value, Failure> {
    let failure = |message: &str| Failure { code: "invalid_request", message: message.to_owned() };
    let Some((_, node)) = NODES.get(index) else { return Err(failure("there is no such node")) };
    let request: Value =
        serde_json::from_slice(request).map_err(|_| failure("the request is not JSON"))?;
    node(&request["inputs"])
}

/// Pointer and length in one number.
fn told(bytes: &'static [u8]) -> u64 {
    (bytes.len() as u64) << 32 | bytes.as_ptr() as usize as u64
}
