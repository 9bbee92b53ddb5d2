//! The pins of the tools of a source, and their verdict on one tool.

use std::collections::BTreeMap;

use toolcrib_config::{PinMode, SourceConfig};
use toolcrib_core::{
    canonical::Digest,
    id::ToolId,
    pin::{PinBook, PinDigests},
};

/// The state of a tool compared with its pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The form is approved, or pins are off.
    Approved,
    /// The form differs from every approved form.
    Changed,
    /// The tool was never approved.
    New,
    /// The pins could not be read.
    Unknown,
}

/// The pins of the tools of a source.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SourcePins {
    pub(crate) book: PinBook,
    /// The changes of the pending forms of tools, such as `description has changed`, by the source's
    /// names for the tools. At most 20 tools have an entry.
    pub(crate) places: BTreeMap<String, String>,
}

/// The change of a tool at an unknown place.
pub(crate) const SOMEWHERE: &str = "it has changed";
/// From this number of changes on, a tool probably has a new form at each start.
const MANY_CHANGES: u32 = 2;

/// Compares `tool` in the form of `digest` with `book`.
pub(crate) fn verdict(
    source: &SourceConfig,
    book: Option<&PinBook>,
    tool: &str,
    digest: Digest,
) -> Verdict {
    if source.pins.mode == PinMode::Off {
        return Verdict::Approved;
    }
    let Some(book) = book else { return Verdict::Unknown };
    match book.tools.get(tool) {
        Some(pinned) if pinned.approves(digest) => Verdict::Approved,
        Some(PinDigests { approved: Some(_), .. }) => Verdict::Changed,
        Some(_) | None => Verdict::New,
    }
}

/// The remedy for a tool that changes repeatedly. `enforced`: whether it is quarantined.
pub(crate) fn remedy(tool: &ToolId, change_count: u32, enforced: bool) -> Option<String> {
    (change_count >= MANY_CHANGES).then(|| {
        let or = if enforced { ", or set `pins = \"warn\"` for the source" } else { "" };
        format!(
            "it has changed {change_count} times: if its forms return, approve each with `toolcrib \
             tools approve {tool} --keep-earlier`; if each start has a new form, ask its maker for a \
             stable text{or}"
        )
    })
}

impl SourcePins {
    /// The change of a tool, and the remedy if it changes repeatedly.
    pub(crate) fn change(&self, tool: &str, id: &ToolId, enforced: bool) -> (&str, Option<String>) {
        let place = self.places.get(tool).map_or(SOMEWHERE, String::as_str);
        let count = self.book.tools.get(tool).map_or(0, |pinned| pinned.change_count);
        (place, remedy(id, count, enforced))
    }
}
