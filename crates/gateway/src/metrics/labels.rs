//! Labels that several metrics have.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use toolcrib_core::id::SourceId;

/// The surface of a request. Its names are constants of the program, so the number of labels is
/// bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Surface {
    name: &'static str,
    label: &'static str,
}

impl Surface {
    /// The command line.
    pub const CLI: Self = Self::new("cli", "Cli");
    /// The steps of workflows.
    pub const WORKFLOW: Self = Self::new("workflow", "Workflow");

    /// Creates a surface with its name in policies and its label in metrics.
    pub const fn new(name: &'static str, label: &'static str) -> Self {
        Self { name, label }
    }

    /// Returns the name in policies.
    pub fn as_str(self) -> &'static str {
        self.name
    }
}

impl EncodeLabelValue for Surface {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.label.encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SourceLabels {
    source: String,
}

impl SourceLabels {
    pub(super) fn of(source: &SourceId) -> Self {
        Self { source: source.to_string() }
    }
}
