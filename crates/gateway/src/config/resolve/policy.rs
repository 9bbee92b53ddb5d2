//! `[policy]`: policies are read and validated with the configuration. An invalid policy never
//! takes effect, and a valid one stays in effect.

use std::{path::Path, sync::Arc};

use toml::Spanned;

use super::{Resolver, file};
use crate::{
    config::Config,
    files,
    policy::{PolicyFile, PolicySet},
};

/// Maximum size of a policy file, in bytes.
const MAX_FILE: usize = 256 << 10;
/// Maximum number of policy files.
const MAX_FILES: usize = 100;

impl Resolver<'_> {
    pub(super) fn policy(&mut self, config: &mut Config, typed: &file::Policy) {
        let Some(patterns) = &typed.cedar else {
            if let Some(schema) = &typed.schema {
                let message = "has no effect without `cedar`";
                self.complain(schema.span().start, "policy.schema", message);
            }
            return;
        };
        let at = patterns.span().start;
        let before = self.problems.len();
        let files = self.policy_files(patterns);
        let schema = typed.schema.as_ref().map(|schema| {
            let path = self.base.join(schema.get_ref());
            read(&path, self.base).map_err(|problem| (schema.span().start, problem))
        });
        let schema = match schema.transpose() {
            Ok(schema) => schema,
            Err((at, problem)) => {
                self.complain(at, "policy.schema", problem);
                None
            }
        };
        if self.problems.len() > before {
            return;
        }
        match PolicySet::parse(&files, schema.as_ref()) {
            Ok(policies) if policies.is_empty() => {
                let message = "has no policy in it, so that nothing could be called; leave `cedar` \
                               out to have none";
                self.complain(at, "policy.cedar", message);
            }
            Ok(policies) => config.policies = Some(Arc::new(policies)),
            Err(problems) => {
                for problem in problems {
                    self.complain(at, "policy.cedar", problem.to_string());
                }
            }
        }
    }

    fn policy_files(&mut self, patterns: &Spanned<Vec<String>>) -> Vec<PolicyFile> {
        let mut paths = Vec::new();
        for pattern in patterns.get_ref() {
            let path = self.base.join(pattern);
            match files::find(&path) {
                Ok(found) if found.is_empty() => {
                    let message = format!("`{pattern}` matches no file");
                    self.complain(patterns.span().start, "policy.cedar", message);
                }
                Ok(found) => paths.extend(found),
                Err(problem) => self.complain(patterns.span().start, "policy.cedar", problem),
            }
        }
        paths.sort();
        paths.dedup();
        if paths.len() > MAX_FILES {
            let message = format!("matches more than {MAX_FILES} files");
            self.complain(patterns.span().start, "policy.cedar", message);
            return Vec::new();
        }
        let mut files = Vec::new();
        for path in &paths {
            match read(path, self.base) {
                Ok(file) => files.push(file),
                Err(problem) => self.complain(patterns.span().start, "policy.cedar", problem),
            }
        }
        files
    }
}

fn read(path: &Path, base: &Path) -> Result<PolicyFile, String> {
    let name = path.strip_prefix(base).unwrap_or(path);
    let name = name.strip_prefix(".").unwrap_or(name).display().to_string();
    match files::read(path, MAX_FILE) {
        Ok(text) => Ok(PolicyFile { name, text }),
        Err(problem) => Err(format!("{name}: {problem}")),
    }
}
