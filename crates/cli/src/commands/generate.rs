//! `gen`: generates files of the source tree (I-6).
//!
//! Invariant: the output is deterministic and depends only on the program.

mod clients;
mod configuration;

use std::{fs, path::Path};

use anyhow::Context as _;
use clap::CommandFactory as _;
use serde_json::Value;
use toolcrib_conformance::table;
use toolcrib_gateway::metrics::{MAX_SERIES, METRICS, MetricDescription};

use crate::{
    args::{Args, GenArgs},
    failure::Exit,
    printer::Printer,
};

/// The page with the table of checks, relative to the working directory.
const CHECKS: &str = "docs/reference/conformance.md";
/// The schema of configuration files, which the first line of the example names.
const CONFIG_SCHEMA: &str = "docs/reference/schemas/config.schema.json";
/// The example configuration; a test validates it.
const EXAMPLE: &str = include_str!("generate/toolcrib.example.toml");

pub(crate) fn run(args: &GenArgs, printer: Printer) -> anyhow::Result<Exit> {
    let configuration = configuration::page(&toolcrib_config::types());
    let mut files = vec![
        ("docs/reference/openapi.json".to_owned(), pretty(&toolcrib::openapi())?),
        ("docs/reference/openapi-v2.json".to_owned(), pretty(&toolcrib::openapi_v2())?),
        ("docs/reference/cli.md".to_owned(), reference()),
        ("docs/reference/configuration.md".to_owned(), configuration),
        ("docs/reference/metrics.md".to_owned(), metrics()),
        ("toolcrib.example.toml".to_owned(), EXAMPLE.to_owned()),
        (CONFIG_SCHEMA.to_owned(), super::config::schema_text()?),
    ];
    for (name, schema) in toolcrib::schemas() {
        files.push((format!("docs/reference/schemas/{name}.schema.json"), pretty(&schema)?));
    }
    files.extend(clients::pages());
    for (name, text) in files {
        write(&args.out.join(&name), &text)?;
        printer.detail(&name);
    }
    // Only the table of this page is generated.
    if let Some(page) = fs::read_to_string(CHECKS).ok().as_deref().and_then(table::update) {
        write(&args.out.join(CHECKS), &page)?;
        printer.detail(CHECKS);
    }
    Ok(Exit::Done)
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let written = || -> std::io::Result<()> {
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(file, text)
    };
    written().with_context(|| format!("{} cannot be written", file.display()))
}

fn pretty(value: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// The help of every command as Markdown.
fn reference() -> String {
    let mut root = Args::command().term_width(100).disable_help_subcommand(true);
    root.build();
    let mut text = "# Command line\n\nWith this page you look up a command and its options. It \
                    is the output of `--help`, with the options of every command shown once. Made \
                    by `cargo xtask gen`.\n"
        .to_owned();
    section(&mut root, "toolcrib", &mut text);
    text
}

fn section(command: &mut clap::Command, path: &str, text: &mut String) {
    let help = command.render_long_help().to_string();
    let common = path != "toolcrib";
    let mut kept = Vec::new();
    let mut skipping = false;
    for line in help.lines().map(str::trim_end) {
        if !line.is_empty() && !line.starts_with(' ') {
            skipping = common && line == COMMON_OPTIONS;
        }
        if !skipping {
            kept.push(line);
        }
    }
    text.push_str(&format!("\n## {path}\n\n```text\n{}\n```\n", kept.join("\n").trim_end()));
    for inner in command.get_subcommands_mut().filter(|inner| !inner.is_hide_set()) {
        let path = format!("{path} {}", inner.get_name());
        section(inner, &path, text);
    }
}

/// The heading of the options that every command has.
const COMMON_OPTIONS: &str = "Options of every command:";

fn metrics() -> String {
    let mut text = "# Metrics\n\nWith this page you look up a metric of `/metrics`. It serves \
                    OpenMetrics text to keys with the scope `metrics:all`, or without a key with \
                    `server.public_metrics`. Counters end in `_total`, histograms have `_bucket`, \
                    `_sum` and `_count`; an info has the suffix `_info`. Made by `cargo xtask gen`.\n\n"
        .to_owned();
    text.push_str(&format!(
        "The label `tool` is the id of a tool, `other`, or `none` for a call that leads to no tool \
         that its caller may use; the label `tenant` is a tenant or `other tenants`. At most {MAX_SERIES} \
         series have the label of a tool or a tenant; the remaining calls are counted for each \
         source, surface and result. [Metrics](../guides/observe.md#metrics) says how to choose the \
         labels.\n\n| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n"
    ));
    for MetricDescription { name, kind, labels, meaning } in METRICS {
        let (kind, labels) = (kind.as_str(), labels.join(", "));
        text.push_str(&format!("| `toolcrib_{name}` | {kind} | {labels} | {meaning} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use toolcrib_config::{self as config};

    use super::*;
    use crate::env::AnySecret;

    #[test]
    fn the_example_is_a_configuration() {
        let config = config::parse("example", EXAMPLE, Path::new(""), &AnySecret).unwrap();
        assert_eq!(config.sources.len(), 6);
        let first = EXAMPLE.lines().next();
        assert_eq!(first.and_then(|line| line.strip_prefix("#:schema ./")), Some(CONFIG_SCHEMA));
        assert!(config.roles.contains_key("reader"));
    }

    #[test]
    fn everything_is_described() {
        // I-6
        let reference = reference();
        for command in ["toolcrib serve", "toolcrib keys create", "toolcrib audit export"] {
            assert!(reference.contains(&format!("\n## {command}\n")), "{command}");
        }
        assert!(!reference.contains("demo-upstream"));
        let common = reference.matches(COMMON_OPTIONS).count();
        assert_eq!(common, 1, "the options of every command are shown once");
    }
}
