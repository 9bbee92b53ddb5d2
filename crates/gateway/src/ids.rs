//! New identifiers.

use uuid::{Uuid, fmt::Hyphenated};

/// A new identifier of any type: a UUIDv7.
pub(crate) fn new_id<T: for<'a> TryFrom<&'a str>>() -> T {
    // 36 characters of [0-9a-f-] fit every identifier's grammar, so the first try succeeds.
    loop {
        let mut text = [0; Hyphenated::LENGTH];
        if let Ok(id) = T::try_from(Uuid::now_v7().as_hyphenated().encode_lower(&mut text)) {
            return id;
        }
    }
}
