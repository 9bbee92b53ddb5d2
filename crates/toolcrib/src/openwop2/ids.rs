//! Ids in the grammars of v2 (identity.md, section 5).
//!
//! The id of a run names its tenant: `<tenant>/<id>`. In a path it is one segment, in which every
//! byte outside of `[A-Za-z0-9._-]` is `~` and two hexadecimal digits.

use std::fmt::Write as _;

use percent_encoding::percent_decode_str;
use toolcrib_core::id::{RunId, TenantId};

/// An id in a path that does not identify a run of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InvalidRunId {
    /// The escapes are incomplete.
    Malformed,
    /// No run has such an id.
    Unknown,
    /// It is bound to another tenant.
    Foreign,
}

/// The id of `run` of `tenant`.
pub(super) fn bound(tenant: &TenantId, run: &str) -> String {
    format!("{}/{}", tenant_id(tenant), escaped(run, in_ids))
}

pub(super) fn tenant_id(tenant: &TenantId) -> String {
    escaped(tenant.as_str(), in_ids)
}

/// Whether most ids contain `byte` unescaped. A `~` starts an escape, so it is escaped, too: two
/// tenants never have one id.
pub(super) fn in_ids(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

/// The id of an agent or a workflow, which may have colons.
pub(super) fn authored(id: &str) -> String {
    escaped(id, |byte| byte == b':' || in_ids(byte))
}

/// Escapes every byte of `text` that is not `legal`. Ids of this server may have more characters
/// than those of v2.
pub(super) fn escaped(text: &str, legal: fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match legal(byte) {
            true => out.push(char::from(byte)),
            // Writing to a string cannot fail.
            false => drop(write!(out, "~{byte:02X}")),
        }
    }
    out
}

/// Reads the id of a run of `tenant` from a segment of a path, of which `%` is decoded already. An
/// id without a tenant, as v1 returns it, belongs to the caller's.
pub(super) fn read(segment: &str, tenant: &TenantId) -> Result<RunId, InvalidRunId> {
    // With a `/`, the segment was percent-encoded, and is the id itself.
    let id = match segment.contains('/') {
        true => segment.to_owned(),
        false => unescaped(segment).ok_or(InvalidRunId::Malformed)?,
    };
    let run = match id.rsplit_once('/') {
        None => &id,
        // Some clients escape only the `/` of an id, so that its own escapes are undone already.
        Some((of, run)) if of == tenant_id(tenant) || of == tenant.as_str() => run,
        Some(_) => return Err(InvalidRunId::Foreign),
    };
    let run = unescaped(run).ok_or(InvalidRunId::Malformed)?;
    RunId::parse(run).map_err(|_| InvalidRunId::Unknown)
}

fn unescaped(text: &str) -> Option<String> {
    let is_hex = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    let complete = text.match_indices('~').all(|(at, _)| is_hex(at + 1) && is_hex(at + 2));
    // Decoded ids contain no `%`, so escapes with `~` can be decoded as those with `%`.
    let percent = (complete && !text.contains('%')).then(|| text.replace('~', "%"))?;
    Some(percent_decode_str(&percent).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_every_form_that_is_sent() {
        let acme = TenantId::parse("acme").unwrap();
        for segment in ["acme~2Fr-1", "acme/r-1", "acme~2fr-1", "r-1"] {
            assert_eq!(read(segment, &acme).unwrap().as_str(), "r-1", "{segment}");
        }
        for (segment, error) in [
            ("other~2Fr-1", InvalidRunId::Foreign),
            ("~2Fr-1", InvalidRunId::Foreign),
            ("acme~2F", InvalidRunId::Unknown),
            ("acme~2Fa b", InvalidRunId::Unknown),
            ("acme~2", InvalidRunId::Malformed),
            ("acme~G0x", InvalidRunId::Malformed),
            ("acme~FFx", InvalidRunId::Malformed),
            ("acme%2Fx", InvalidRunId::Malformed),
        ] {
            assert_eq!(read(segment, &acme), Err(error), "{segment}");
        }
    }

    #[test]
    fn tenants_with_other_characters_have_ids_too() {
        let odd = TenantId::parse("a/b@c~d").unwrap();
        let id = bound(&odd, "r-1");
        assert_eq!(id, "a~2Fb~40c~7Ed/r-1");
        let in_path = escaped(&id, in_ids);
        assert_eq!(in_path, "a~7E2Fb~7E40c~7E7Ed~2Fr-1");
        for form in [in_path, id.clone(), id.replace('/', "~2F")] {
            assert_eq!(read(&form, &odd).unwrap().as_str(), "r-1", "{form}");
        }
        let other = TenantId::parse("a~2Fb~40c~d").unwrap();
        assert_ne!(bound(&other, "r-1"), id);
        assert_eq!(read(&id, &other), Err(InvalidRunId::Foreign));
    }
}
