//! Workflows: their files, and whether their runs survive a restart.

use toolcrib_core::{
    id::SourceId,
    source::{UpstreamSpec, WorkflowSpec},
};

use crate::config::resolve::{Resolver, file};

impl Resolver<'_> {
    pub(super) fn workflow_source(
        &mut self,
        id: &SourceId,
        typed: &file::Source,
    ) -> Option<UpstreamSpec> {
        let key = format!("source.{id}.files");
        let Some(files) = &typed.files else {
            let message = "expected the workflows' files, such as [\"flows/*.yaml\"]";
            let table = format!("source.{id}");
            self.complain_of_absence(typed.id.span().start, &table, &key, message);
            return None;
        };
        let at = files.span().start;
        if files.get_ref().is_empty() {
            self.complain(at, &key, "names no file; expected something like [\"flows/*.yaml\"]");
        }
        for file in files.get_ref() {
            if let Err(problem) = check_pattern(file) {
                self.complain(at, &key, problem);
            }
        }
        let files = files.get_ref().iter().map(|file| self.base.join(file)).collect();
        Some(UpstreamSpec::Workflow(WorkflowSpec { files, durable: typed.durable }))
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
        Err("a workflow's file ends in .yaml, .yml or .toml")
    } else if wild(name) && globset::Glob::new(name).is_err() {
        Err("is not a glob")
    } else {
        Ok(())
    }
}
