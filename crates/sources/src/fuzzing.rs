//! Entry points for the fuzz targets; compiled only with `--cfg fuzzing`.

/// Parses bytes from an upstream as a list and as a result.
pub fn mcp_frame(frame: &[u8]) {
    crate::mcp::fuzz(frame);
}

/// Parses an OpenAPI document and creates requests for its operations.
pub fn openapi(document: &[u8]) {
    crate::openapi::fuzz(document);
}
