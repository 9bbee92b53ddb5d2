//! Entrances for the fuzz targets; compiled with `--cfg fuzzing` alone.

/// Reads what an upstream sent: as events in pieces, as one message, as a list, as a result.
pub fn mcp_frame(frame: &[u8]) {
    crate::mcp::fuzz(frame);
}
