//! Revisions of the protocol.

/// The two families of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// `initialize` first; results without `resultType`.
    Legacy,
    /// Stateless: every request is complete.
    Modern,
}

/// Every revision, newest first.
pub const ALL: &[&str] = &[MODERN, LATEST_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"];

/// The stateless revision.
pub const MODERN: &str = "2026-07-28";

/// The newest revision with a handshake.
pub const LATEST_LEGACY: &str = "2025-11-25";

/// The revisions with a handshake, newest first.
pub const LEGACY: &[&str] = match ALL.split_first() {
    Some((_modern, legacy)) => legacy,
    None => &[],
};

/// The revisions with the streamable HTTP transport, newest first. 2024-11-05 has another.
pub const STREAMABLE_HTTP: &[&str] = match ALL.split_last() {
    Some((_oldest, rest)) => rest,
    None => &[],
};

/// Selects the revision with which a server of the revisions `served` answers an `initialize` for
/// `requested`: the same one if it has a handshake, else the newest with one.
pub fn negotiate(served: &[&'static str], requested: Option<&str>) -> &'static str {
    let same = |version: &&'static str| *version != MODERN && Some(*version) == requested;
    served.iter().copied().find(same).unwrap_or(LATEST_LEGACY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_gets_the_revision_it_requests_or_the_latest() {
        for (requested, expected) in [
            (Some("2025-03-26"), "2025-03-26"),
            (Some("2025-06-18"), "2025-06-18"),
            (Some("2025-11-25"), "2025-11-25"),
            (Some("2026-07-28"), "2025-11-25"),
            (Some("2024-11-05"), "2025-11-25"),
            (Some("1999-01-01"), "2025-11-25"),
            (None, "2025-11-25"),
        ] {
            assert_eq!(negotiate(STREAMABLE_HTTP, requested), expected);
        }
        assert_eq!(negotiate(ALL, Some("2024-11-05")), "2024-11-05");
    }

    #[test]
    fn the_parts_of_the_list_are_what_their_names_say() {
        assert_eq!(LEGACY, ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
        assert_eq!(STREAMABLE_HTTP, ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]);
    }
}
