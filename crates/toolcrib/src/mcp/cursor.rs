//! The cursors of `tools/list`.
//!
//! A cursor contains the digest of the caller's list and a position in it. So it is valid only for
//! that list: not for a newer one, not for another caller's, but on every replica and after a
//! restart. It is no secret: a forged cursor yields only a page of the caller's own list.

use base64::Engine as _;
use toolcrib_core::{canonical::Digest, catalog::ListFormat};

/// How many bytes of the digest a cursor contains: enough to avoid collisions.
const DIGEST: usize = 16;

/// Writes the start of a page in `format`, with the cursor of the `next` page.
pub(super) fn open(format: &ListFormat, digest: &Digest, next: Option<usize>) -> String {
    let next = next.and_then(|next| cursor(digest, next));
    match (next, format.open.strip_prefix('{')) {
        (Some(cursor), Some(rest)) => format!("{{\"nextCursor\":\"{cursor}\",{rest}"),
        _ => format.open.to_owned(),
    }
}

fn cursor(digest: &Digest, position: usize) -> Option<String> {
    let mut bytes = digest.0.get(..DIGEST)?.to_vec();
    bytes.extend_from_slice(&u32::try_from(position).ok()?.to_be_bytes());
    Some(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

/// Reads the position in `cursor`, if it belongs to the list with `digest`.
pub(super) fn position(cursor: &str, digest: &Digest) -> Option<usize> {
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (of, position) = bytes.split_at_checked(DIGEST)?;
    let position = u32::from_be_bytes(position.try_into().ok()?);
    // The first page has no cursor.
    (digest.0.starts_with(of) && position > 0).then(|| usize::try_from(position).ok())?
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::mcp::format::{LEGACY, MODERN};

    #[test]
    fn a_cursor_is_good_for_its_list_alone() {
        let (list, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let made = cursor(&list, 300).unwrap();
        assert_eq!(position(&made, &list), Some(300));
        assert_eq!(position(&made, &other), None);
        let first = cursor(&list, 0).unwrap();
        for garbage in ["", "x", "AAAA", &made[1..], &format!("{made}A"), &first, "\u{fc}"] {
            assert_eq!(position(garbage, &list), None, "{garbage}");
        }
    }

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let digest = Digest::of(b"a");
        for format in [&LEGACY, &MODERN] {
            let opened = |next| -> Value {
                let text = format!("{}{}", open(format, &digest, next), format.close);
                serde_json::from_str(&text).unwrap()
            };
            assert_eq!(opened(None).get("nextCursor"), None);
            let cursor = opened(Some(7))["nextCursor"].clone();
            assert_eq!(position(cursor.as_str().unwrap(), &digest), Some(7));
        }
    }
}
