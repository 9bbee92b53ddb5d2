//! Opens a store by its URL.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path, sync::Arc};

use toolcrib_core::{
    id::SourceId,
    pin::PinStore,
    store::{Storage, StoreError},
};

use crate::{MemoryStorage, Options, SqliteStore};

/// Opens the store at `url`. The scheme selects the engine: `sqlite:PATH`.
///
/// # Errors
/// Fails with [`StoreError::Unavailable`] for an unknown scheme, and like the engine.
pub fn open(url: impl AsRef<OsStr>, options: Options) -> Result<Arc<dyn Storage>, StoreError> {
    let url = url.as_ref();
    match url.as_bytes().strip_prefix(b"sqlite:") {
        Some(path) if !path.is_empty() => {
            Ok(Arc::new(SqliteStore::open(Path::new(OsStr::from_bytes(path)), options)?))
        }
        _ => Err(StoreError::Unavailable(format!(
            "{} has no known scheme; a store is written like `sqlite:PATH`",
            url.display()
        ))),
    }
}

/// Creates a store in memory with a copy of the pins of `sources` in `pins`, to work without
/// changing the original.
///
/// # Errors
/// Fails with [`StoreError`] when `pins` cannot be read.
pub async fn scratch(
    pins: Option<&dyn PinStore>,
    sources: impl IntoIterator<Item = &SourceId>,
) -> Result<Arc<dyn Storage>, StoreError> {
    let storage = MemoryStorage::default();
    if let Some(pins) = pins {
        for source in sources {
            for pin in pins.pins(source).await? {
                let copy = &storage.pins;
                if let Some(approved) = pin.approved {
                    copy.trust(source, vec![(pin.tool.clone(), approved.form)], approved.at)
                        .await?;
                }
                if let Some(seen) = pin.seen {
                    copy.note(source, vec![(pin.tool, seen.form)], seen.at).await?;
                }
            }
        }
    }
    Ok(Arc::new(storage))
}
