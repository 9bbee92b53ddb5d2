//! Entry points for the fuzz targets; compiled only with `--cfg fuzzing`.

/// Parses a body of `POST /tools/call`.
pub fn otc_body(body: &[u8]) {
    crate::otc::fuzz(body);
}

/// Parses a message from a client and determines its protocol revision.
pub fn mcp_frame(frame: &[u8]) {
    crate::mcp::fuzz(frame);
}
