//! `gen`: files of the source tree that the program itself writes (I-6).
//!
//! Invariant: what is written depends on the program alone, not on the machine, the time or the
//! order of anything.

use std::{fs, path::Path};

use anyhow::Context as _;
use clap::CommandFactory as _;
use serde_json::Value;
use toolcrib_core::descriptor;
use toolcrib_gateway::metrics::Metrics;

use crate::{
    args::{Args, GenArgs},
    failure::Exit,
    printer::Printer,
};

/// The example configuration; a test checks that it is one.
const EXAMPLE: &str = include_str!("generate/toolcrib.example.toml");

pub(crate) fn run(args: &GenArgs, printer: Printer) -> anyhow::Result<Exit> {
    let files = [
        ("docs/openapi.json", pretty(&toolcrib::openapi())?),
        ("docs/schemas/tool-descriptor.schema.json", pretty(&descriptor::json_schema())?),
        ("docs/cli.md", reference()),
        ("docs/metrics.md", metrics()),
        ("toolcrib.example.toml", EXAMPLE.to_owned()),
    ];
    for (name, text) in files {
        write(&args.out.join(name), &text)?;
        printer.detail(name);
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

/// The help of every command, as Markdown.
fn reference() -> String {
    let mut root = Args::command().term_width(100).disable_help_subcommand(true);
    root.build();
    let mut text =
        "# Command line\n\nWhat `toolcrib --help` and its like print. Made by `cargo xtask gen`.\n"
            .to_owned();
    section(&mut root, "toolcrib", &mut text);
    text
}

fn section(command: &mut clap::Command, path: &str, text: &mut String) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    text.push_str(&format!("\n## {path}\n\n```text\n{}\n```\n", help.join("\n").trim_end()));
    for inner in command.get_subcommands_mut().filter(|inner| !inner.is_hide_set()) {
        let path = format!("{path} {}", inner.get_name());
        section(inner, &path, text);
    }
}

/// Names, types and meanings of the metrics, from the exposition itself.
fn metrics() -> String {
    let exposition = Metrics::default().encode();
    let described = |kind: &str, name: &str| {
        exposition
            .lines()
            .find_map(|line| line.strip_prefix(&format!("# {kind} {name} ")))
            .map(str::to_owned)
    };
    let mut text = "# Metrics\n\nWhat `/metrics` serves as OpenMetrics text. Counters end in `_total`, histograms have \
                    `_bucket`, `_sum` and `_count`. Made by `cargo xtask gen`.\n\n| Metric | Type | Meaning |\n|---|---|---|\n"
        .to_owned();
    for line in exposition.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let Some((name, help)) = line.split_once(' ') else { continue };
        let kind = described("TYPE", name).unwrap_or_default();
        text.push_str(&format!("| `{name}` | {kind} | {} |\n", help.trim_end_matches('.')));
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
        assert_eq!(config.sources.len(), 2);
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
        let metrics = metrics();
        assert!(metrics.contains("| `toolcrib_calls` | counter | Calls by surface and result |"));
        assert!(metrics.contains("histogram") && metrics.contains("gauge"));
    }
}
