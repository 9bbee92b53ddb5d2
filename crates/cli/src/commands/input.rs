//! JSON input: an argument, stdin or a file.

use std::io::Read as _;

use anyhow::Context as _;
use serde_json::Value;
use toolcrib_core::json;

use crate::failure::usage;

/// Size limit of a document.
const MAX_BYTES: u64 = 64 << 20;

/// Reads a document: `typed` is the document, `-` for stdin, or `@FILE`.
pub(crate) fn document(typed: &str) -> anyhow::Result<Value> {
    let (from, bytes) = match (typed, typed.strip_prefix('@')) {
        ("-", _) => ("on stdin".to_owned(), file("-")?),
        (_, Some(path)) => (format!("in {path}"), file(path)?),
        (typed, None) => ("of the arguments".to_owned(), typed.as_bytes().to_vec()),
    };
    json::parse_strict(&bytes)
        .map_err(|error| usage(format!("the text {from} is not JSON: {error}")))
}

/// Reads the file at `path`, or stdin if it is `-`.
pub(super) fn file(path: &str) -> anyhow::Result<Vec<u8>> {
    if path == "-" {
        return bounded(std::io::stdin());
    }
    if path.is_empty() {
        return Err(usage("`@` needs the name of a file, such as @arguments.json"));
    }
    let opened = std::fs::File::open(path);
    bounded(opened.with_context(|| format!("the file {path} cannot be read"))?)
}

/// Reads all of `reader` up to the size limit.
pub(super) fn bounded(reader: impl std::io::Read) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    anyhow::ensure!(bytes.len() as u64 <= MAX_BYTES, "the document is larger than 64 MiB");
    Ok(bytes)
}
