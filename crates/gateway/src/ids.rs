//! New identifiers.

use uuid::Uuid;

/// A new identifier of any type: a UUIDv7.
pub(crate) fn new_id<T: TryFrom<String>>() -> T {
    // 36 characters of [0-9a-f-] fit every identifier's grammar, so the loop ends at once.
    loop {
        if let Ok(id) = T::try_from(Uuid::now_v7().to_string()) {
            return id;
        }
    }
}
