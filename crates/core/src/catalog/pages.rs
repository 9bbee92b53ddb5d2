//! A list in pages.
//!
//! Invariant: pages are built once per (view, format, size), as long as there is room to keep them.
//! Together they contain every tool of the view once, in its order.

use std::{num::NonZeroUsize, sync::Arc};

use bytes::Bytes;

use super::entry::ListFormat;
use crate::canonical::Digest;

/// A list in pages of the same size, of which the last may be shorter. There is at least one page.
#[derive(Debug)]
pub struct Pages {
    /// Digest of the content of all pages: equal for lists of equal tools, with any page size.
    pub digest: Digest,
    size: NonZeroUsize,
    pages: Vec<Bytes>,
}

/// Writes the text before the first tool of a page. Receives the whole list's digest and the
/// position of the first tool after the page, if any.
pub type OpenPage = fn(&ListFormat, &Digest, Option<usize>) -> String;

impl Pages {
    /// The page whose first tool is at `position`.
    pub fn at(&self, position: usize) -> Option<&Bytes> {
        let size = self.size.get();
        position.is_multiple_of(size).then(|| self.pages.get(position / size))?
    }

    /// Splits `written`, tools in `format`, into pages of `size`, each opened by `open` in place of
    /// the format's own start.
    pub fn of(
        written: &[Arc<[u8]>],
        format: &ListFormat,
        size: NonZeroUsize,
        open: OpenPage,
    ) -> Self {
        let digests: Vec<u8> = written.iter().flat_map(|json| Digest::of(json).0).collect();
        let digest = Digest::of(&digests);
        let size_of = size.get();
        let starts = (0..written.len().max(1)).step_by(size_of);
        let pages = starts.map(|start| {
            let end = start.saturating_add(size_of);
            let next = (end < written.len()).then_some(end);
            let tools = written.get(start..end.min(written.len())).unwrap_or_default();
            Bytes::from(format.list(&open(format, &digest, next), tools))
        });
        Self { digest, size, pages: pages.collect() }
    }

    /// The size of all pages in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.pages.iter().map(Bytes::len).sum()
    }

    /// The number of pages.
    pub fn count(&self) -> usize {
        self.pages.len()
    }
}
