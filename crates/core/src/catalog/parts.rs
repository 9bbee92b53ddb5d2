//! A list in parts that a client keeps: after a change it loads only the parts that differ.
//!
//! The id of a tool decides whether a part stops after it, instead of a number of tools. A tool
//! that is added or removed therefore changes only its own part.

use std::sync::Arc;

use super::{body::Body, entry::ListFormat};
use crate::canonical::Digest;

/// A part has at least this many tools, except for the last one.
const LEAST: usize = 64;

/// After the least, one of this many ids is the last of its part: about 192 tools in a part.
const ONE_OF: u8 = 128;

/// A list in parts. There is at least one part.
#[derive(Debug)]
pub struct Parts {
    /// The parts without their tools, which a client reads first; written by an [`Overview`].
    pub overview: Arc<Body>,
    parts: Vec<Part>,
}

/// Some tools of a list.
#[derive(Debug)]
pub struct Part {
    /// The number of its tools.
    pub count: usize,
    /// The list of its tools.
    pub body: Arc<Body>,
}

/// Writes the overview of parts, in the order of the list.
pub type Overview = fn(&[Part]) -> Vec<u8>;

impl Parts {
    /// Splits `written`, tools as (id, JSON in `format`), into parts.
    pub fn of<'a>(
        written: impl IntoIterator<Item = (&'a str, Arc<[u8]>)>,
        format: &ListFormat,
        overview: Overview,
    ) -> Self {
        let mut parts = Vec::new();
        let mut open = Vec::new();
        for (id, json) in written {
            open.push(json);
            if open.len() >= LEAST && ends(id) {
                parts.push(Part::of(&open, format));
                open.clear();
            }
        }
        if !open.is_empty() || parts.is_empty() {
            parts.push(Part::of(&open, format));
        }
        Self { overview: Arc::new(Body::new(overview(&parts))), parts }
    }

    /// The part with this tag.
    pub fn find(&self, tag: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.tag() == tag)
    }

    /// The size of all parts in bytes.
    pub(super) fn bytes(&self) -> usize {
        let parts = self.parts.iter().map(|part| part.body.bytes.len());
        parts.sum::<usize>() + self.overview.bytes.len()
    }
}

impl Part {
    fn of(tools: &[Arc<[u8]>], format: &ListFormat) -> Self {
        let body = Arc::new(Body::new(format.list(format.open, tools)));
        Self { count: tools.len(), body }
    }

    /// The entity tag of its list, without quotes: equal for equal tools.
    pub fn tag(&self) -> &str {
        self.body.etag.trim_matches('"')
    }
}

/// Whether a part may stop after the tool with this id.
fn ends(id: &str) -> bool {
    Digest::of(id.as_bytes()).0.first().is_some_and(|byte| byte % ONE_OF == 0)
}
