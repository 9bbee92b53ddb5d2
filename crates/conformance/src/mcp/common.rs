//! Revisions, and names that no server has.

/// The stateless revision.
pub(super) const STATELESS: &str = "2026-07-28";
/// The revisions with a handshake, newest first.
pub(super) const HANDSHAKE: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// The first revision with the header `MCP-Protocol-Version` and without batches.
pub(super) const WITH_VERSION_HEADER: &str = "2025-06-18";
/// A revision that does not exist.
pub(super) const UNKNOWN_VERSION: &str = "1900-01-01";
/// A tool that no server has.
pub(super) const ABSENT: &str = "conformance-absent-5f1d0c93";
/// A method that does not exist.
pub(super) const UNKNOWN_METHOD: &str = "conformance/absent";
