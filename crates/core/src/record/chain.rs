//! The hash chain of a tenant's events.
//!
//! `hash(n) = SHA-256(parts)`. Each part is preceded by its length as eight big-endian bytes. The
//! parts are, as stored: the text `toolcrib event 1`, the tenant, the position in the tenant's log
//! (eight bytes), the hash of the previous event (32 bytes; zero bytes for the first event), event
//! id, run id, sequence (eight bytes), type, timestamp, causation id and payload. An absent
//! causation id has the length 2^64 - 1 and no bytes.

use sha2::{Digest as _, Sha256};

use crate::canonical::Digest;

const DOMAIN: &str = "toolcrib event 1";

/// The link of an event to the previous one in its tenant's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Position in the tenant's log.
    pub position: u64,
    /// Hash of the previous event; [`genesis`] for the first.
    pub prev: Digest,
    /// Hash of this event.
    pub hash: Digest,
}

/// An event as stored. Its fields are texts, so that a tampered event can be reported too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredEvent {
    /// Position in the whole log. Not hashed, and not exported, because it depends on other
    /// tenants.
    pub position: u64,
    /// The tenant.
    pub tenant: String,
    /// Position in the tenant's log.
    pub tenant_position: u64,
    /// Its id.
    pub event_id: String,
    /// The run.
    pub run_id: String,
    /// Sequence within the run.
    pub sequence: u64,
    /// Type.
    pub kind: String,
    /// RFC 3339, UTC, milliseconds.
    pub timestamp: String,
    /// The event that caused this one.
    pub causation_id: Option<String>,
    /// JSON text.
    pub payload: String,
    /// Hash of the previous event; read only on request.
    pub prev: Option<Digest>,
    /// The hash stored with it; `None` when malformed.
    pub hash: Option<Digest>,
}

/// An event of a tenant's log, and the hash that it should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedLink {
    /// Position in the tenant's log.
    pub position: u64,
    /// The stored hash; `None` when malformed.
    pub stored: Option<Digest>,
    /// The correct hash, if those of the events before it are.
    pub computed: Digest,
}

/// The hash that precedes the first event.
pub fn genesis() -> Digest {
    Digest([0; 32])
}

/// The parts of an event that its hash covers, as texts.
#[derive(Debug, Clone, Copy)]
pub struct HashedParts<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// Position in the tenant's log.
    pub tenant_position: u64,
    /// Its id.
    pub event_id: &'a str,
    /// The run.
    pub run_id: &'a str,
    /// Sequence within the run.
    pub sequence: u64,
    /// Type.
    pub kind: &'a str,
    /// RFC 3339, UTC, milliseconds.
    pub timestamp: &'a str,
    /// The event that caused this one.
    pub causation_id: Option<&'a str>,
    /// JSON text.
    pub payload: &'a str,
}

impl StoredEvent {
    /// The correct hash of this event after one with the hash `prev`.
    pub fn hash_after(&self, prev: &Digest) -> Digest {
        let parts = HashedParts {
            tenant: &self.tenant,
            tenant_position: self.tenant_position,
            event_id: &self.event_id,
            run_id: &self.run_id,
            sequence: self.sequence,
            kind: &self.kind,
            timestamp: &self.timestamp,
            causation_id: self.causation_id.as_deref(),
            payload: &self.payload,
        };
        parts.hash_after(prev)
    }
}

impl HashedParts<'_> {
    /// The correct hash of an event with these parts after one with the hash `prev`.
    pub fn hash_after(&self, prev: &Digest) -> Digest {
        let mut hasher = Sha256::new();
        let mut part = |bytes: Option<&[u8]>| {
            let length = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
            hasher.update(length.to_be_bytes());
            hasher.update(bytes.unwrap_or_default());
        };
        part(Some(DOMAIN.as_bytes()));
        part(Some(self.tenant.as_bytes()));
        part(Some(&self.tenant_position.to_be_bytes()));
        part(Some(&prev.0));
        part(Some(self.event_id.as_bytes()));
        part(Some(self.run_id.as_bytes()));
        part(Some(&self.sequence.to_be_bytes()));
        part(Some(self.kind.as_bytes()));
        part(Some(self.timestamp.as_bytes()));
        part(self.causation_id.map(str::as_bytes));
        part(Some(self.payload.as_bytes()));
        Digest(hasher.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> StoredEvent {
        StoredEvent {
            position: 7,
            tenant: "t".to_owned(),
            tenant_position: 1,
            event_id: "e1".to_owned(),
            run_id: "r".to_owned(),
            sequence: 0,
            kind: "agent.toolCalled".to_owned(),
            timestamp: "2026-11-20T10:00:00.000Z".to_owned(),
            causation_id: None,
            payload: "{}".to_owned(),
            prev: None,
            hash: None,
        }
    }

    // I-71: the recipe is published, so it must not change by accident. Another program computed
    // the expected value (see docs/explanation/record.md).
    #[test]
    fn the_recipe_matches_the_published_one() {
        let hash = event().hash_after(&genesis());
        assert_eq!(
            hash.to_string(),
            "556c75af0af36f204b2d600f34bf66e9fb757fa52db9800db83ca354ed83cde4"
        );
    }

    // I-71
    #[test]
    fn every_column_counts_and_no_two_columns_can_be_mistaken() {
        let plain = event().hash_after(&genesis());
        let changes: [&dyn Fn(&mut StoredEvent); 10] = [
            &|e| e.tenant.push('u'),
            &|e| e.tenant_position += 1,
            &|e| e.event_id.push('2'),
            &|e| e.run_id.push('s'),
            &|e| e.sequence += 1,
            &|e| e.kind.push('x'),
            &|e| e.timestamp.push('0'),
            &|e| e.causation_id = Some(String::new()),
            &|e| e.payload.push(' '),
            &|e| (e.event_id, e.run_id) = ("e1r".to_owned(), String::new()),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = event();
            change(&mut changed);
            assert_ne!(changed.hash_after(&genesis()), plain, "{number}");
        }
        assert_ne!(event().hash_after(&Digest([1; 32])), plain);
        let elsewhere = StoredEvent { position: 9, ..event() };
        assert_eq!(elsewhere.hash_after(&genesis()), plain, "the global position is not hashed");
    }
}
