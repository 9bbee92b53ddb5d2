//! Entrances for the fuzz targets; compiled with `--cfg fuzzing` alone.

/// Reads a body of `POST /tools/call`.
pub fn otc_body(body: &[u8]) {
    crate::otc::fuzz(body);
}

/// Reads a message from a client and says which revision it speaks.
pub fn mcp_frame(frame: &[u8]) {
    crate::mcp::fuzz(frame);
}
