//! `[log]`: the form of log lines, and the access log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The log on stderr ([guide](../guides/observe.md#logs)). `TOOLCRIB_LOG` sets its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LogConfig {
    /// Lines of `text`, or one `json` object per line.
    pub format: LogFormat,
    /// A line for each HTTP request.
    pub access: bool,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line, with the ids of the request, the run and the trace.
    Json,
}
