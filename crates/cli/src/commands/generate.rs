//! `gen`: generates files of the source tree (I-6).
//!
//! Invariant: the output is deterministic and depends only on the program.

mod configuration;

use std::{fs, path::Path};

use anyhow::Context as _;
use clap::CommandFactory as _;
use serde_json::Value;
use toolcrib_conformance::table;

use crate::{
    args::{Args, GenArgs},
    failure::Exit,
    printer::Printer,
};

/// The page with the table of checks, relative to the working directory.
const CHECKS: &str = "docs/reference/conformance.md";
/// The example configuration; a test validates it.
const EXAMPLE: &str = include_str!("generate/toolcrib.example.toml");

pub(crate) fn run(args: &GenArgs, printer: Printer) -> anyhow::Result<Exit> {
    let mut files = vec![
        ("docs/reference/openapi.json".to_owned(), pretty(&toolcrib::openapi())?),
        ("docs/reference/cli.md".to_owned(), reference()),
        (
            "docs/reference/configuration.md".to_owned(),
            configuration::page(&toolcrib_gateway::config::schema()),
        ),
        ("docs/reference/metrics.md".to_owned(), metrics()),
        ("toolcrib.example.toml".to_owned(), EXAMPLE.to_owned()),
    ];
    for (name, schema) in toolcrib::schemas() {
        files.push((format!("docs/reference/schemas/{name}.schema.json"), pretty(&schema)?));
    }
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

/// Returns the help of every command as Markdown.
fn reference() -> String {
    let mut root = Args::command().term_width(100).disable_help_subcommand(true);
    root.build();
    let mut text =
        "# Command line\n\nWith this page you look up a command and its options. It is the \
                    output of `--help`, with the options of every command shown once. Made by \
                    `cargo xtask gen`.\n"
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

/// Name, type, labels and meaning of every metric. The exposition omits families without a value, so
/// they are listed here; a test compares the list with a server that exposes all of them.
const METRICS: [(&str, &str, &str, &str); 29] = [
    ("toolcrib_calls", "counter", "surface, result", "Calls by surface and result"),
    ("toolcrib_call_seconds", "histogram", "", "Time tools ran"),
    ("toolcrib_http_requests", "counter", "surface, status", "Requests by surface and status"),
    ("toolcrib_source_tools", "gauge", "source", "Tools offered by a source"),
    (
        "toolcrib_source_tools_quarantined",
        "gauge",
        "source",
        "Tools of a source that are hidden until their current form is approved",
    ),
    (
        "toolcrib_source_tool_drifts",
        "counter",
        "source",
        "Unapproved forms of tools that a source announced",
    ),
    (
        "toolcrib_source_calls_running",
        "gauge",
        "source",
        "Running calls of a source, including those that wait for their turn",
    ),
    (
        "toolcrib_source_calls_refused",
        "counter",
        "source, limit",
        "Calls of a source that were refused by a rate limit, a quota or an open breaker",
    ),
    (
        "toolcrib_source_breaker_state",
        "gauge",
        "source",
        "Breaker of a source: 0 closed, 1 half-open, 2 open",
    ),
    (
        "toolcrib_source_breaker_opened",
        "counter",
        "source",
        "How often the breaker of a source opened",
    ),
    ("toolcrib_source_discoveries", "counter", "source", "Successful discoveries of a source"),
    ("toolcrib_source_discovery_failures", "counter", "source", "Failed discoveries of a source"),
    (
        "toolcrib_events_unrecorded",
        "counter",
        "",
        "Closing or denial events that could not be stored, or were omitted to save disk space",
    ),
    ("toolcrib_store_free_bytes", "gauge", "", "Free disk space where the store is"),
    (
        "toolcrib_store_low_on_space",
        "gauge",
        "",
        "1 while less than keep_free is free and only calls that run are recorded, else 0",
    ),
    (
        "toolcrib_refusals_counted",
        "counter",
        "",
        "Refusals that were counted instead of recorded one by one; events contain their number",
    ),
    (
        "toolcrib_request_bytes",
        "gauge",
        "",
        "Bytes of requests in flight and of their answers, as server.max_body_total counts them",
    ),
    (
        "toolcrib_request_bodies_refused",
        "counter",
        "",
        "Requests that were answered 503 because server.max_body_total had no room for their bodies",
    ),
    ("toolcrib_catalog_generation", "gauge", "", "Number of the current catalog"),
    (
        "toolcrib_task_failures",
        "counter",
        "task",
        "How often a background task panicked or ended early",
    ),
    (
        "toolcrib_tasks_down",
        "gauge",
        "task",
        "Background tasks that failed and do not run at the moment",
    ),
    ("toolcrib_panics", "counter", "", "Panics in this process"),
    ("toolcrib_record_checkpoints", "counter", "", "Checkpoints that were signed"),
    (
        "toolcrib_record_checkpoints_refused",
        "counter",
        "",
        "Checkpoints refused because the record does not continue the last signed state",
    ),
    (
        "toolcrib_record_anchor_failures",
        "counter",
        "",
        "Failed deliveries of checkpoints to an anchor",
    ),
    (
        "toolcrib_record_pruned",
        "counter",
        "",
        "Events removed because they were older than the retention period",
    ),
    ("toolcrib_record_forwarded", "counter", "forwarder", "Events that a forwarder delivered"),
    (
        "toolcrib_record_forward_failures",
        "counter",
        "forwarder",
        "Failed deliveries of a forwarder",
    ),
    (
        "toolcrib_record_forward_lag",
        "gauge",
        "forwarder",
        "Events that a forwarder has not delivered yet",
    ),
];

fn metrics() -> String {
    let mut text =
        "# Metrics\n\nWith this page you look up a metric of `/metrics`. It serves OpenMetrics \
                    text to keys with the scope `metrics:read`, or without a key with \
                    `server.public_metrics`. Counters end in `_total`, histograms have `_bucket`, `_sum` and `_count`. Made by \
                    `cargo xtask gen`.\n\n| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n"
            .to_owned();
    for (name, kind, labels, meaning) in METRICS {
        text.push_str(&format!("| `{name}` | {kind} | {labels} | {meaning} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use toolcrib_gateway::config;

    use super::*;
    use crate::env::AnySecret;

    #[test]
    fn the_example_is_a_configuration() {
        let config = config::parse("example", EXAMPLE, Path::new(""), &AnySecret).unwrap();
        assert_eq!(config.sources.len(), 6);
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
        assert_eq!(common, 1, "the options of every command stand once");
    }
}
