//! MCP servers: a program, or an address.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::Value;

use super::command::{Confinement, StderrMode};
use crate::credential::SecretValue;

/// A child process. Its environment contains only `PATH`, `HOME`, `LANG`, `TMPDIR`, `USER` (where
/// set) and `env`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioSpec {
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    /// Extra environment; values may be secrets.
    pub env: BTreeMap<String, SecretValue>,
    /// Working directory. By default a confined program gets a new empty directory, and any other
    /// the server's.
    pub cwd: Option<PathBuf>,
    /// The confinement; without it, the program has all access of the server.
    pub sandbox: Option<Confinement>,
    /// The destination of its stderr.
    pub stderr: StderrMode,
}

/// Whether the upstream offers `tool`, as it lists it, to Apps only. A tool of MCP Apps lists its
/// audiences in `_meta.ui.visibility`; without that list, they are the model and Apps.
pub fn is_for_apps_only(tool: &Value) -> bool {
    let audiences = tool.pointer("/_meta/ui/visibility").and_then(Value::as_array);
    audiences.is_some_and(|audiences| audiences.iter().all(|audience| audience != "model"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_whose_audiences_lack_the_model_is_for_apps_only() {
        for (ui, hidden) in [
            (json!({ "visibility": ["app"] }), true),
            (json!({ "visibility": ["app", "app"] }), true),
            (json!({ "visibility": [] }), true),
            (json!({ "visibility": ["Model"] }), true),
            (json!({ "visibility": ["model"] }), false),
            (json!({ "visibility": ["app", "model"] }), false),
            (json!({ "resourceUri": "ui://clock" }), false),
            (json!({ "visibility": null }), false),
            (json!("app"), false),
        ] {
            let tool = json!({ "name": "tick", "_meta": { "ui": ui } });
            assert_eq!(is_for_apps_only(&tool), hidden, "{tool}");
        }
        assert!(!is_for_apps_only(&json!({ "name": "tick" })));
    }
}
