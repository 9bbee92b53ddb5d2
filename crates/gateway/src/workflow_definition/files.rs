//! Finds and reads the files, within bounds: one directory per pattern, and limited files and
//! bytes.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolcrib_config::files::{find, name_of, read};
use toolcrib_core::source::{Discovered, DiscoveredOffer};

use crate::workflow_definition::definition::{self, MAX_FILE};

/// Files of one source.
const MAX_FILES: usize = 200;

/// The workflows in `patterns`, each as a tool whose `raw` is its definition. A file that cannot be
/// used is a problem, not an error.
pub(crate) fn discover(patterns: &[PathBuf]) -> Discovered {
    let mut discovered = Discovered::default();
    let mut files: Vec<PathBuf> = Vec::new();
    for pattern in patterns {
        match find(pattern) {
            Ok(found) => files.extend(found),
            Err(problem) => discovered.problems.push(problem),
        }
    }
    files.sort();
    files.dedup();
    if files.len() > MAX_FILES {
        let problem = format!("there are {} files; the first {MAX_FILES} are read", files.len());
        discovered.problems.push(problem);
        files.truncate(MAX_FILES);
    }
    for file in &files {
        let name = name_of(file);
        match read(file, MAX_FILE).and_then(|text| definition::read(&name, &text)) {
            Ok(definition) => {
                let taken = discovered.offers.iter().any(|tool| tool.name == definition.id);
                if taken {
                    let problem = format!("{name}: another file has a workflow of the same id");
                    discovered.problems.push(problem);
                    continue;
                }
                let raw = serde_json::to_value(&definition).unwrap_or_default();
                let tool = DiscoveredOffer {
                    name: definition.id,
                    title: definition.title,
                    description: definition.description,
                    input_schema: Some(
                        definition.inputs.unwrap_or_else(|| json!({ "type": "object" })),
                    ),
                    raw: json!({ "file": name, "definition": raw }),
                    ..DiscoveredOffer::default()
                };
                discovered.offers.push(tool.into());
            }
            Err(problem) => discovered.problems.push(format!("{name}: {problem}")),
        }
    }
    discovered
}

/// The file of a discovered workflow.
pub(super) fn file_of(raw: &Value) -> &str {
    raw.get("file").and_then(Value::as_str).unwrap_or_default()
}

/// The definition of a discovered workflow; `None` if this version cannot read it.
pub(super) fn definition_of(raw: &Value) -> Option<definition::Definition> {
    serde_json::from_value(raw.get("definition")?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name_and_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        let flow = |id: &str| format!("id: {id}\nsteps: [{{ id: a, tool: t }}]\noutputs: {{}}\n");
        write("b.yaml", &flow("b"));
        write("a.yaml", &flow("a"));
        write("same.yaml", &flow("a"));
        write("broken.yaml", "id: [");
        write("binary.yaml", "\u{0}\u{1}");
        write(".hidden.yaml", &flow("hidden"));
        write("huge.yaml", &"ä".repeat(MAX_FILE));
        std::fs::create_dir(directory.path().join("dir.yaml")).unwrap();
        let at = |name: &str| directory.path().join(name);
        let found = discover(&[at("*.yaml"), at("a.yaml"), at("none.yaml"), at("no/*.yaml")]);
        let names: Vec<_> = found.offers.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["a", "b"]);
        let text = found.problems.join("\n");
        for problem in [
            "same.yaml: another file",
            "broken.yaml: ",
            "binary.yaml: ",
            "huge.yaml: is larger",
            "dir.yaml: is not a file",
            "none.yaml: cannot be read",
            "no/: cannot be read",
        ] {
            assert!(text.contains(problem), "{problem}: {text}");
        }
        assert_eq!(found.problems.len(), 7, "{text}");
    }
}
