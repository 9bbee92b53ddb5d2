//! A discovered tool together with its pin form.

use std::{ops::Deref, sync::OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::DiscoveredTool;
use crate::pin::PinForm;

/// A [`DiscoveredTool`] and its [`PinForm`], which is created once: a source, its catalog and its
/// pins all need it, and for a large document it is the slowest part of a discovery.
///
/// Invariant: the tool does not change in here, so the form always matches it.
#[derive(Debug, Clone)]
pub struct FormedTool {
    tool: DiscoveredTool,
    form: OnceLock<Box<PinForm>>,
}

impl FormedTool {
    /// The form, created on first use.
    pub fn form(&self) -> &PinForm {
        self.form.get_or_init(|| Box::new(PinForm::of(&self.tool)))
    }

    /// Splits it into the tool and its form.
    pub fn into_parts(self) -> (DiscoveredTool, PinForm) {
        let form = self.form.into_inner();
        let form = form.map_or_else(|| PinForm::of(&self.tool), |form| *form);
        (self.tool, form)
    }

    /// Extracts the tool.
    pub fn into_tool(self) -> DiscoveredTool {
        self.tool
    }
}

impl From<DiscoveredTool> for FormedTool {
    fn from(tool: DiscoveredTool) -> Self {
        Self { tool, form: OnceLock::new() }
    }
}

impl Deref for FormedTool {
    type Target = DiscoveredTool;

    fn deref(&self) -> &DiscoveredTool {
        &self.tool
    }
}

impl PartialEq for FormedTool {
    fn eq(&self, other: &Self) -> bool {
        self.tool == other.tool
    }
}

impl Serialize for FormedTool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.tool.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FormedTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DiscoveredTool::deserialize(deserializer).map(Self::from)
    }
}
