//! Workflows: their files, and whether their runs survive a restart.

use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib_core::source::{UpstreamSpec, WorkflowSpec};

use super::upstream::Upstream;
use crate::resolver::Resolver;

/// Workflows of this host ([guide](../guides/workflows.md)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Workflows {
    /// Files with workflows; wildcards in the file name only.
    #[schemars(extend("x-default" = "required"))]
    files: Option<Vec<String>>,
    /// Runs are resumed after a crash.
    #[schemars(extend("x-default" = "`true` with a seal key"))]
    durable: Option<bool>,
}

impl Resolver<'_> {
    pub(super) fn workflows(&mut self, source: &str, typed: Workflows) -> Upstream {
        let key = format!("{source}.files");
        let Some(files) = typed.files else {
            let message = "expected the workflows' files, such as [\"flows/*.yaml\"]";
            self.complain_of_absence(source, &key, message);
            return Upstream::own(None);
        };
        if files.is_empty() {
            self.complain(&key, "names no file; expected something like [\"flows/*.yaml\"]");
        }
        for file in &files {
            self.check(&key, check_pattern(file));
        }
        let files = files.iter().map(|file| self.base.join(file)).collect();
        let spec = WorkflowSpec { files, durable: typed.durable };
        Upstream::own(Some(UpstreamSpec::Workflow(spec)))
    }
}

/// Allows wildcards only in the last part, so that a pattern reads a single directory.
fn check_pattern(pattern: &str) -> Result<(), &'static str> {
    let (directory, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let wild = |text: &str| text.contains(['*', '?', '[', '{']);
    let known = [".yaml", ".yml", ".toml"].iter().any(|ending| name.ends_with(ending));
    if wild(directory) {
        Err("wildcards are allowed only in the file name, as in \"flows/*.yaml\"")
    } else if !known {
        Err("a workflow's file must be named *.yaml, *.yml or *.toml")
    } else if wild(name) && globset::Glob::new(name).is_err() {
        Err("is not a glob")
    } else {
        Ok(())
    }
}
