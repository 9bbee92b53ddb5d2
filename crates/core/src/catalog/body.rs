//! A list as bytes, ready to be sent.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::canonical::Digest;

/// A finished list: bytes and their strong entity tag.
#[derive(Debug, Clone)]
pub struct Body {
    /// The JSON.
    pub bytes: Bytes,
    /// `"…"` with quotes, from the bytes.
    pub etag: String,
    /// The same in content encodings; `None` for a body that is sent only once.
    pub encoded: Option<EncodedForms>,
}

/// The forms of a kept body in content encodings, each computed on first use.
#[derive(Debug, Clone, Default)]
pub struct EncodedForms([OnceLock<Option<EncodedForm>>; 3]);

/// A body in a content encoding, and the tag of that form.
#[derive(Debug, Clone)]
pub struct EncodedForm {
    /// The encoded bytes.
    pub bytes: Bytes,
    /// `"…"` with quotes.
    pub etag: String,
}

impl Body {
    /// Tags `bytes`, which are kept and sent many times.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { encoded: Some(EncodedForms::default()), ..Self::once(bytes) }
    }

    /// Tags `bytes`, which are sent once.
    pub fn once(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let hash = Digest::of(&bytes).to_string();
        let etag = format!("\"{}\"", hash.get(..32).unwrap_or(&hash));
        Self { bytes, etag, encoded: None }
    }
}

impl EncodedForms {
    /// Returns form number `index` (0, 1 or 2), creating it with `make` on first use; `None` if
    /// that encoding brings no benefit.
    pub fn get(
        &self,
        index: usize,
        make: impl FnOnce() -> Option<EncodedForm>,
    ) -> Option<&EncodedForm> {
        self.0.get(index)?.get_or_init(make).as_ref()
    }
}
