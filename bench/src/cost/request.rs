//! The requests whose cost is counted.

use anyhow::Result;

use crate::load::Shot;
use crate::subject::Subject;

/// A request to a server with the strict record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    List,
    McpList,
    McpCall,
    SessionCall,
    OtcCall,
}

impl Request {
    pub(super) const ALL: [Self; 5] =
        [Self::List, Self::McpList, Self::McpCall, Self::SessionCall, Self::OtcCall];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::List => "GET /v1/tools",
            Self::McpList => "MCP tools/list",
            Self::McpCall => "MCP tools/call",
            Self::SessionCall => "MCP tools/call in a session",
            Self::OtcCall => "OTC call",
        }
    }

    pub(super) async fn shot(self, subject: &Subject) -> Result<Shot> {
        match self {
            Self::List => Ok(subject.list("/v1/tools", &subject.lists().await?.openwop)),
            Self::McpList => Ok(subject.mcp_list()),
            Self::McpCall => Ok(subject.mcp_call()),
            Self::SessionCall => subject.session_call().await,
            Self::OtcCall => subject.otc_call(&subject.lists().await?.otc),
        }
    }
}
