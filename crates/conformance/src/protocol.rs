//! The protocols with a suite of checks.

use std::{fmt, str::FromStr};

use serde::Serialize;

/// A protocol with a suite of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Openwop,
    Openwop2,
    Otc,
    Oxp,
    Explorer,
    Mcp,
}

impl Protocol {
    pub const ALL: [Self; 6] =
        [Self::Openwop, Self::Openwop2, Self::Otc, Self::Oxp, Self::Explorer, Self::Mcp];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openwop => "openwop",
            Self::Openwop2 => "openwop2",
            Self::Otc => "otc",
            Self::Oxp => "oxp",
            Self::Explorer => "explorer",
            Self::Mcp => "mcp",
        }
    }

    /// The name of the protocol for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Openwop => "OpenWOP tool catalog and tool hooks",
            Self::Openwop2 => "OpenWOP v2: tool catalog, runs and events at unversioned paths",
            Self::Otc => "Open Tool Calling 1.0",
            Self::Oxp => "OXP 1.0",
            Self::Explorer => "The embedded tool explorer",
            Self::Mcp => "MCP over streamable HTTP",
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|protocol| protocol.as_str() == name);
        found.ok_or_else(|| {
            format!(
                "unknown protocol `{name}`; use one of {}",
                Self::ALL.map(Self::as_str).join(", ")
            )
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
