//! `import`: converts the MCP servers of a desktop client, or the configuration of another gateway, to
//! sources.
//!
//! Invariant: the output contains no secret of the input file.
//! Invariant: the output passes `config check` once its variables are set.
//! Invariant: the output permits only what the input permits, and names the parts without a
//! translation.

mod agentgateway;
mod arguments;
mod cel;
mod clients;
mod codex;
mod command_line;
mod contextforge;
mod described;
mod desktop;
mod jsonc;
mod launcher;
mod litellm;
mod reference;
mod restrictions;
mod secrets;
mod servers;
mod write;

use std::{fs, io::Write as _, path::Path};

use anyhow::Context as _;
use serde_json::{Value, json};
use toolcrib_core::json;

use super::{decoded::decoded, input};
use crate::{
    args::ImportArgs,
    failure::{Advice as _, Exit, advised},
    printer::Printer,
};

use servers::{ImportContent, Server};
pub(super) use {
    described::ClientFile,
    servers::read_files,
    write::{RULES, below},
};

pub(crate) fn run(args: &ImportArgs, printer: Printer) -> anyhow::Result<Exit> {
    let (name, text) = match args.file.as_os_str() == "-" {
        true => ("the text on stdin".to_owned(), input::bounded(std::io::stdin())),
        false => {
            let file = fs::File::open(&args.file).map_err(anyhow::Error::new);
            (args.file.display().to_string(), file.and_then(input::bounded))
        }
    };
    let text = text.with_context(|| format!("{name} cannot be read"))?;
    let text = decoded(text).ok_or_else(|| encoding_error(&name))?;
    let imported = match is_toml(&args.file) {
        true => codex::read(&toml(&text, &name)?),
        false => {
            let document = parse(&text, &name)?;
            // Several products use the name `mcpServers`, so the formats with distinct names come
            // first.
            let formats = [agentgateway::read, contextforge::read, litellm::read, clients::read];
            formats.iter().find_map(|read| read(&document))
        }
    };
    let imported = imported.ok_or_else(|| no_servers(&name))?;
    let shown = match args.file.file_name() {
        Some(name) if name != "-" => name.to_string_lossy(),
        _ => "stdin".into(),
    };
    let written = write::file(&shown, &imported);
    match &args.output {
        Some(output) => {
            let mut open = fs::OpenOptions::new();
            open.write(true);
            match args.force {
                true => open.create(true).truncate(true),
                false => open.create_new(true),
            };
            let mut file = open.open(output).advise(
                format!("{} cannot be written", output.display()),
                "--force overwrites an existing file",
            )?;
            file.write_all(written.text.as_bytes())?;
        }
        None if !printer.wants_json() => printer.bytes(written.text.as_bytes())?,
        None => {}
    }
    if printer.wants_json() {
        let left_out: Vec<_> = written
            .left_out
            .iter()
            .map(|(name, why)| json!({ "name": name, "reason": why }))
            .collect();
        printer.json(&json!({
            "toml": written.text,
            "sources": written.sources,
            "variables": imported.variables.iter()
                .map(|variable| &variable.name)
                .collect::<Vec<_>>(),
            "leftOut": left_out,
            "notTranslated": imported.parts.iter()
                .map(|part| json!({ "part": part.place, "reason": part.reason }))
                .collect::<Vec<_>>(),
        }))?;
    }
    report(&imported, &written, printer);
    Ok(Exit::Done)
}

/// The servers in the file of a desktop client, unchanged; `None` if the file has no table for
/// them.
pub(super) fn described(file: &Path, text: &str) -> anyhow::Result<Option<ClientFile>> {
    let name = file.display().to_string();
    match is_toml(file) {
        true => Ok(codex::described(&toml(text, &name)?)),
        false => Ok(clients::described(&parse(text, &name)?)),
    }
}

/// The error for a file without servers.
pub(super) fn no_servers(name: &str) -> anyhow::Error {
    advised(
        format!("{name} has no MCP servers"),
        "expected `mcpServers` (Claude Desktop, Cursor, Continue), `servers` (VS Code), `context_servers` \
         (Zed), `mcp` (opencode), `extensions` (Goose), `registry` (a catalog of Docker), `binds` or \
         `mcp.targets` (agentgateway), `entities` (an export of ContextForge), or `mcp_servers` \
         (LiteLLM, and Codex in a .toml file)",
    )
}

/// The error for a file in another encoding.
pub(super) fn encoding_error(name: &str) -> anyhow::Error {
    advised(
        format!("{name} is neither UTF-8 nor UTF-16"),
        "save the file in one of these encodings",
    )
}

fn is_toml(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

fn toml(text: &str, name: &str) -> anyhow::Result<Value> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        // The message of the library repeats the line.
        let before = error.span().and_then(|span| text.get(..span.start));
        let at = before.map(|lines| format!(" at line {}", lines.matches('\n').count() + 1));
        advised(
            format!("{name} is not TOML{}", at.unwrap_or_default()),
            "check this line; `codex mcp list` reads the file too",
        )
    })
}

/// Parses JSON, also with comments, or YAML.
fn parse(text: &str, name: &str) -> anyhow::Result<Value> {
    let json = json::parse_strict(jsonc::plain(text).as_bytes());
    // A text that cannot be YAML with keys has the error of a JSON text.
    if json.is_ok() || !text.contains(':') || text.trim_start().starts_with(['{', '[']) {
        return json.with_context(|| format!("{name} is not JSON"));
    }
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_events: 1_000_000,
            max_nodes: 1_000_000,
            max_documents: 1,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        // The message of the library may repeat the text.
        let at = error.location().map(|at| format!(" at line {}", at.line())).unwrap_or_default();
        advised(format!("{name} is not YAML{at}"), "a file is JSON or YAML; check this line")
    })
}

/// Prints the parts without a translation, and the variables to set.
pub(super) fn report(imported: &ImportContent, written: &write::ImportedConfig, printer: Printer) {
    for part in &imported.parts {
        let (place, reason) = (&part.place, &part.reason);
        printer.note_foreign(&format!("not translated: {place}: {reason}"));
    }
    for (name, why) in &written.left_out {
        printer.note_foreign(&format!("`{name}` stays a comment: {why}"));
    }
    if !imported.variables.is_empty() {
        printer.note("set these variables where `toolcrib serve` runs:");
        for variable in &imported.variables {
            printer.note_foreign(&format!("  {}  {}", variable.name, variable.about));
        }
    }
    let offers: Vec<_> = imported.servers.iter().filter_map(Server::credential).collect();
    if !offers.is_empty() {
        printer.note(
            "or store a secret header as a credential, sealed in the store, and write \
             `credential = \"NAME\"` in place of the header (docs/guides/credentials.md):",
        );
        for offer in &offers {
            printer.note_foreign(&format!("  {offer}"));
        }
    }
    printer.note(format_args!("{} sources imported", written.sources));
}
