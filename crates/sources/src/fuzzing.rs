//! Entrances for the fuzz targets; compiled with `--cfg fuzzing` alone.

/// Reads what an upstream sent: as a list and as a result.
pub fn mcp_frame(frame: &[u8]) {
    crate::mcp::fuzz(frame);
}

/// Reads an OpenAPI document and makes requests of its operations.
pub fn openapi(document: &[u8]) {
    crate::openapi::fuzz(document);
}
