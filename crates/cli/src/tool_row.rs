//! A tool as tables and `--json` show it, from this process or from a server.

use serde::Serialize;
use toolcrib_core::{catalog::Entry, descriptor::ToolDescriptor};

use crate::{
    client::ListedTool,
    table::{Column, Kind},
};

/// The descriptor of a tool with its other names. A name is empty if it is unknown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolRow {
    #[serde(flatten)]
    pub(crate) tool: ToolDescriptor,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) wire_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) otc_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) source_id: String,
    /// The digest, visible only to the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

/// The columns of a list of tools.
pub(crate) const COLUMNS: &[Column<ToolRow>] = &[
    Column(Kind::Name, "name", |row| row.wire_name.clone()),
    Column(Kind::Text, "source", |row| row.source_id.clone()),
    Column(Kind::Text, "kind", |row| row.tool.source.to_string()),
    Column(Kind::Tier, "tier", |row| row.tool.safety_tier.to_string()),
    Column(Kind::Text, "approval", ToolRow::approval),
    Column(Kind::Text, "scopes", ToolRow::scopes),
    Column(Kind::Name, "tool", |row| row.tool.tool_id.clone()),
];

impl From<&Entry> for ToolRow {
    fn from(entry: &Entry) -> Self {
        Self {
            tool: entry.tool.clone(),
            wire_name: entry.names.wire.clone(),
            otc_id: entry.names.otc_id(),
            source_id: entry.source.to_string(),
            digest: entry.digest.map(|digest| digest.to_string()),
        }
    }
}

impl ToolRow {
    /// Combines `tool` with its names in the server's MCP list.
    pub(crate) fn listed(tool: ToolDescriptor, names: Option<&ListedTool>) -> Self {
        let text = |of: fn(&ListedTool) -> Option<&str>| {
            names.and_then(of).map(str::to_owned).unwrap_or_default()
        };
        Self {
            tool,
            wire_name: text(|names| Some(names.name.as_str())),
            otc_id: text(ListedTool::otc_id),
            source_id: text(ListedTool::source_id),
            digest: None,
        }
    }

    pub(crate) fn approval(&self) -> String {
        self.tool.approval.map(|approval| approval.to_string()).unwrap_or_default()
    }

    /// The required scopes as text.
    pub(crate) fn scopes(&self) -> String {
        match self.tool.required_scopes() {
            None => "(hidden from all)".to_owned(),
            Some([]) => "(none)".to_owned(),
            Some(scopes) => scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "),
        }
    }
}
