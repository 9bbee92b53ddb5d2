//! The file format of workflows.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Bytes of one file.
pub(crate) const MAX_FILE: usize = 256 << 10;

/// A workflow as its file describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Time limit of a run, such as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<String>,
    /// JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inputs: Option<Value>,
    pub(crate) steps: Vec<StepDefinition>,
    /// The outputs of the workflow: templates by name.
    pub(crate) outputs: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepDefinition {
    pub(crate) id: String,
    /// A tool id.
    pub(crate) tool: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) when: Option<WhenDefinition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) for_each: Option<ForEachDefinition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry: Option<RetryDefinition>,
    /// `fail`, `continue` or `{ use: STEP }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) on_error: Option<Value>,
    /// Steps that must finish first, in addition to those with references.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) after: Vec<String>,
}

/// A condition: one of the three tests of one reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhenDefinition {
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exists: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) equals: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) not: Option<Value>,
}

/// One call for each item of an array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForEachDefinition {
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    /// Items at most.
    pub(crate) max: usize,
    /// Calls at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parallel: Option<usize>,
}

/// Further attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryDefinition {
    /// Attempts in all.
    pub(crate) attempts: u32,
    /// Time between two of them, such as `1s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pause: Option<String>,
}

/// Reads a present value as `Some`: `null` is also a value to compare with.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Reads a file's text; `name` decides the language.
///
/// # Errors
/// A message, with line and column if known.
pub(crate) fn read(name: &str, text: &str) -> Result<Definition, String> {
    if text.len() > MAX_FILE {
        return Err(format!("is larger than {} KiB", MAX_FILE >> 10));
    }
    if name.ends_with(".toml") {
        return toml::from_str(text).map_err(|error| toml_problem(text, &error));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 40,
            max_documents: 1,
            max_nodes: 20_000,
            max_events: 50_000,
            max_anchors: 100,
            max_aliases: 100,
            max_recorded_anchor_events: 10_000,
            max_recorded_anchor_bytes: MAX_FILE,
            max_merge_keys: 100,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: 100,
        },
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let what = one_line(&error.to_string());
        match error.location() {
            // The library's messages mostly contain the place already.
            Some(at) if !what.contains(&format!("line {}", at.line())) => {
                format!("line {}, column {}: {what}", at.line(), at.column())
            }
            Some(_) | None => what,
        }
    })
}

fn toml_problem(text: &str, error: &toml::de::Error) -> String {
    let what = one_line(error.message());
    match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            format!("line {}: {what}", before.matches('\n').count() + 1)
        }
        None => what,
    }
}

/// At most 300 characters in one line.
fn one_line(text: &str) -> String {
    let flat: Vec<&str> = text.split_whitespace().collect();
    flat.join(" ").chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const YAML: &str = r#"
id: brief
version: 1.2.0
inputs:
  type: object
  properties: { city: { type: string }, loud: { enum: [no, yes] } }
steps:
  - id: find
    tool: mcp:demo.lookup
    arguments: { city: { $ref: /inputs/city }, flag: no }
    when: { ref: /inputs/loud, equals: null }
    for_each: { ref: /inputs/cities, max: 5 }
    retry: { attempts: 2, pause: 1s }
    on_error: { use: other }
outputs: { all: { $ref: /steps/find/result } }
"#;

    #[test]
    fn yaml_and_toml_say_the_same() {
        let yaml = read("a.yaml", YAML).unwrap();
        assert_eq!(yaml.steps[0].arguments["flag"], json!("no"), "a word, not a truth value");
        assert_eq!(yaml.steps[0].when.as_ref().unwrap().equals, Some(Value::Null));
        let toml = read(
            "a.toml",
            r#"
                id = "brief"
                version = "1.2.0"
                [inputs]
                type = "object"
                properties = { city = { type = "string" }, loud = { enum = ["no", "yes"] } }
                [[steps]]
                id = "find"
                tool = "mcp:demo.lookup"
                arguments = { city = { "$ref" = "/inputs/city" }, flag = "no" }
                for_each = { ref = "/inputs/cities", max = 5 }
                retry = { attempts = 2, pause = "1s" }
                on_error = { use = "other" }
                [outputs]
                all = { "$ref" = "/steps/find/result" }
            "#,
        )
        .unwrap();
        // TOML has no null, so that condition cannot be said there.
        let mut yaml = yaml;
        yaml.steps[0].when = None;
        assert_eq!(yaml, toml);
        let again: Definition =
            serde_json::from_value(serde_json::to_value(&toml).unwrap()).unwrap();
        assert_eq!(again, toml, "as JSON it is the same");
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (name, text, line, word) in [
            ("a.yaml", "id: x\nstep: []\n", "line 2", "step"),
            ("a.yaml", "id: x\nsteps: 3\noutputs: {}\n", "line 2", "sequence"),
            ("a.yaml", "id: [\n", "line", ""),
            ("a.yaml", "id: a\nid: b\n", "line 2", "uplicate"),
            ("a.toml", "id = \"x\"\nstep = 1\n", "line 2", "step"),
            ("a.toml", "id = \n", "line 1", ""),
        ] {
            let problem = read(name, text).unwrap_err();
            assert!(problem.contains(line) && problem.contains(word), "{text:?}: {problem}");
        }
    }

    #[test]
    fn hostile_files_are_refused_quickly() {
        let bomb = {
            let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
            for level in 1..20 {
                let item = format!("*a{}", level - 1);
                let items = vec![item; 10].join(",");
                text += &format!("a{level}: &a{level} [{items}]\n");
            }
            text
        };
        let deep_yaml = format!("id: {}{}", "[".repeat(100_000), "]".repeat(100_000));
        let deep_toml = format!("id = {}{}", "[".repeat(100_000), "]".repeat(100_000));
        let huge = format!("id: \"{}\"", "x".repeat(MAX_FILE));
        let wide = format!("id: x\nsteps: [{}]\n", "{},".repeat(60_000));
        for (name, text) in [
            ("a.yaml", &bomb),
            ("a.yaml", &deep_yaml),
            ("a.toml", &deep_toml),
            ("a.yaml", &huge),
            ("a.yaml", &wide),
        ] {
            let problem = read(name, text).unwrap_err();
            assert!(problem.len() < 400, "{problem}");
        }
    }
}
