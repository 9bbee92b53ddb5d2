//! `[policy]`: policies are read and validated with the configuration. An invalid policy never
//! takes effect, and a valid one stays in effect.

use std::{path::Path, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;

use super::resolver::Resolver;
use crate::{
    files,
    policy_set::{PolicyFile, PolicySet},
};

/// Maximum size of a policy file, in bytes.
const MAX_FILE: usize = 256 << 10;
/// Maximum number of policy files.
const MAX_FILES: usize = 100;

/// Cedar policies, which restrict calls further ([guide](../guides/policies.md)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Policy {
    /// Files with policies; wildcards in the file name.
    cedar: Option<Vec<String>>,
    /// A file with your own Cedar schema for the checks.
    #[schemars(extend("x-default" = "built in"))]
    schema: Option<String>,
}

impl Resolver<'_> {
    pub(super) fn policy(&mut self, typed: &Policy) -> Option<Arc<PolicySet>> {
        let Some(patterns) = &typed.cedar else {
            if typed.schema.is_some() {
                self.complain("policy.schema", "has no effect without `cedar`");
            }
            return None;
        };
        let before = self.problems.len();
        let files = self.policy_files(patterns);
        let schema = typed.schema.as_ref().map(|schema| self.base.join(schema));
        self.protection.included.extend(schema.clone());
        let schema = schema.map(|schema| read(&schema, self.base));
        let schema = self.check("policy.schema", schema.transpose())?;
        if self.problems.len() > before {
            return None;
        }
        match PolicySet::parse(&files, schema.as_ref()) {
            Ok(policies) if policies.is_empty() => {
                let message = "contains no policy, so every call would be denied; leave out \
                               `cedar` for no policies";
                self.complain("policy.cedar", message);
                None
            }
            Ok(policies) => Some(Arc::new(policies)),
            Err(problems) => {
                for problem in problems {
                    self.complain("policy.cedar", problem.to_string());
                }
                None
            }
        }
    }

    fn policy_files(&mut self, patterns: &[String]) -> Vec<PolicyFile> {
        let key = "policy.cedar";
        let mut paths = Vec::new();
        for pattern in patterns {
            let found = files::find(&self.base.join(pattern));
            let Some(found) = self.check(key, found) else { continue };
            if found.is_empty() {
                self.complain(key, format!("`{pattern}` matches no file"));
            }
            paths.extend(found);
        }
        paths.sort();
        paths.dedup();
        if paths.len() > MAX_FILES {
            self.complain(key, format!("matches more than {MAX_FILES} files"));
            return Vec::new();
        }
        self.protection.included.extend(paths.iter().cloned());
        paths.iter().filter_map(|path| self.check(key, read(path, self.base))).collect()
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
